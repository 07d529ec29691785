/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fds: passes descriptors between processes of one user and network namespace, over unix sockets with abstract names.
 * The caller owns and closes all descriptors. Thread-safe.
 */
#ifndef EMX_WIRE_FDS_H
#define EMX_WIRE_FDS_H

#include <stddef.h>

#define EMX_FDS_MAX 32 /* in one message */

/* Raises this process's limit of open descriptors so that it may have `need` at once, or as far as the system allows.
 * Returns the limit. */
unsigned emx_fds_allow(unsigned need);

/* Opens a listening socket of this name, non-blocking. -1 and errno: EADDRINUSE: another process listens. */
int emx_fds_listen(const char *name);
/* Connects to the listener of this name if it belongs to the same user (blocking, up to timeout_ms; 0: non-blocking).
 * -1 and errno: ECONNREFUSED nobody listens, EPERM another user does, EAGAIN its queue is full. */
int emx_fds_connect(const char *name, unsigned timeout_ms);
/* Accepts the next connection of the same user, or returns -1. */
int emx_fds_accept(int listen_fd);

/* Sends one message without waiting for room. -1 and errno: ETOOMANYREFS: too many descriptors of the user are in
 * flight. */
int emx_fds_send(int sock, const void *data, size_t len_bytes, const int *fd, unsigned n);
/* Receives one message of exactly len_bytes with at most max descriptors, close-on-exec. Returns how many; -1 and
 * errno: no descriptor is left open. */
int emx_fds_recv(int sock, void *data, size_t len_bytes, int *fd, unsigned max, int flags);

#endif
