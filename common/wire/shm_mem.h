/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of other processes: one copy instead of two for large messages, where the system allows it.
 */
#ifndef EMX_WIRE_SHM_MEM_H
#define EMX_WIRE_SHM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A random number in a process's memory and where it lies: whoever reads it there reads the right process. */
struct emx_shm_token {
    uint64_t value;
    uint64_t address;
};

/* Whether processes of this user on this host can read each other's memory, as far as one process can know. why gets
 * the reason if not, or "". Allows it to the other processes of the user where the system leaves that to us. */
bool emx_shm_mem_probe(char *why, size_t why_len_bytes);

/* Copies len_bytes at remote in process pid to local. 0, or an errno: nothing may be relied upon. ESRCH: pid is not the
 * process of the token. token NULL: it was found to be so a moment ago. */
int emx_shm_mem_read(pid_t pid, const struct emx_shm_token *token, uint64_t remote, void *local, size_t len_bytes);

#endif
