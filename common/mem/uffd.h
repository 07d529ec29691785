/* SPDX-License-Identifier: BSD-3-Clause
 *
 * userfaultfd as a source of news: the kernel tells when pages of given ranges are unmapped, moved or discarded.
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

/* A descriptor that tells, or -1 and why not. */
int emx_uffd_open(char *why, size_t why_len_bytes);

/* From now on the fate of these pages is told; or no more. Whole mappings: a mapping of which a part only is watched
 * becomes two, and mremap() of both fails. add: 0, or a positive errno: EINVAL mappings of files, EBUSY the program
 * watches them with a userfaultfd of its own. */
int emx_uffd_add(int fd, uintptr_t base, uintptr_t end);
void emx_uffd_remove(int fd, uintptr_t base, uintptr_t end);

/* Nothing is going on in another thread that would have to be told: every change of watched memory that was made before
 * this call has been read. A system call. */
bool emx_uffd_quiet(int fd);

/* Reads up to EMX_UFFD_BATCH events, without waiting. Whoever caused an event goes on as soon as it is read. */
unsigned emx_uffd_read(int fd, struct emx_uffd_event e[EMX_UFFD_BATCH]);

#endif
