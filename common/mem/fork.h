/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What fork() does to memory that a device was given.
 */
#ifndef EMX_MEM_FORK_H
#define EMX_MEM_FORK_H

#include <stdbool.h>

/* Whether a kernel of this release (uname -r) takes such memory away: after a fork the process that writes first gets
 * a copy, and the device goes on with the other one. Since Linux 5.12 the child gets the copy, at once. */
bool emx_fork_takes_pinned(const char *release);

#endif
