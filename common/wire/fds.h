/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passing descriptors between processes of one user and network namespace, over unix sockets with abstract names.
 */
#ifndef EMX_WIRE_FDS_H
#define EMX_WIRE_FDS_H

#include <stddef.h>

#define EMX_FDS_MAX 32 /* in one message */

/* Sees to it that this process may have `need` descriptors at once: if it may not, its own limit is raised so far, or
 * as far as the system allows. Returns how many it may have. */
unsigned emx_fds_allow(unsigned need);

/* A listening socket (not blocking) of this name. -1 and errno: EADDRINUSE somebody listens. */
int emx_fds_listen(const char *name);
/* A connection (blocking, up to timeout_ms; 0: it never blocks) to who listens; only to one of the same user. -1 and
 * errno: ECONNREFUSED nobody listens, EPERM another user does, EAGAIN too many are calling there. */
int emx_fds_connect(const char *name, unsigned timeout_ms);
/* The next caller of the same user, or -1. */
int emx_fds_accept(int listen_fd);

/* Sends one message, without waiting for room. -1 and errno: ETOOMANYREFS the user has too many descriptors under way.
 */
int emx_fds_send(int sock, const void *data, size_t len_bytes, const int *fd, unsigned n);
/* Receives one of exactly len_bytes with at most max descriptors, close-on-exec. Returns how many; -1 and errno, and
 * then no descriptor is left open. */
int emx_fds_recv(int sock, void *data, size_t len_bytes, int *fd, unsigned max, int flags);

#endif
