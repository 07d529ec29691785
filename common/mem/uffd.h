/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Uffd: reports of the kernel (userfaultfd) that pages of given ranges were unmapped, moved or discarded. The thread
 * that causes an event waits in the kernel until the event is read.
 */
#ifndef EMX_MEM_UFFD_H
#define EMX_MEM_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_UFFD_BATCH 16

/* What has happened to [base, end). */
struct emx_uffd_event {
    uintptr_t base, end;
    uintptr_t moved_to; /* where its pages are now; 0: nowhere */
    bool mapped;        /* the range is still mapped, only its content is discarded */
};

/* Opens a descriptor. -1: why has the reason. The caller closes it. */
int emx_uffd_open(char *why, size_t why_len_bytes);

/* Starts and stops the reports for [base, end), which must be whole mappings: a mapping that is watched in part becomes
 * two, and mremap() of both fails. add: 0, or a positive errno: EINVAL a file mapping, EBUSY the program watches it
 * with a userfaultfd of its own. */
int emx_uffd_add(int fd, uintptr_t base, uintptr_t end);
void emx_uffd_remove(int fd, uintptr_t base, uintptr_t end);

/* Whether every change of watched memory that was made before this call has been read. A system call. */
bool emx_uffd_quiet(int fd);

/* Reads up to EMX_UFFD_BATCH events without waiting; returns how many. Their threads continue at once. */
unsigned emx_uffd_read(int fd, struct emx_uffd_event e[EMX_UFFD_BATCH]);

#endif
