/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Mappings: the process's own mappings, as the kernel lists them in /proc/self/maps. Thread-safe.
 */
#ifndef EMX_MEM_MAPPING_H
#define EMX_MEM_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emx_mapping {
    uintptr_t base, end;
    bool anonymous; /* private and of no file: only this process changes which pages it has */
};

/* Opens a descriptor for emx_mapping_find(), valid in this process only. -1: why has the reason. */
int emx_mapping_open(char *why, size_t why_len_bytes);

/* Finds the mapping that contains addr. false: there is none, or the kernel does not tell. Allocates no memory and
 * takes no lock of the program. */
bool emx_mapping_find(int fd, uintptr_t addr, struct emx_mapping *m_p);

/* The same without the query of Linux 6.11 (for tests). */
bool emx_mapping_find_in_text(int fd, uintptr_t addr, struct emx_mapping *m_p);

#endif
