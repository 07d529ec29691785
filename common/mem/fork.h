/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What fork() does to memory that is registered with a device.
 */
#ifndef EMX_MEM_FORK_H
#define EMX_MEM_FORK_H

#include <stdbool.h>

/* Whether fork() breaks registrations on a kernel of this release (uname -r): after a fork, the process that writes
 * first gets a copy of the page, and the device continues with the other one. Since Linux 5.12 the child gets the copy,
 * in fork(). */
bool emx_fork_takes_pinned(const char *release);

#endif
