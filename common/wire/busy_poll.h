/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Busy polling: a read that finds nothing makes the kernel poll the driver of the card (ETHMX_BUSY_POLL), so that
 * frames need no interrupt.
 */
#ifndef EMX_WIRE_BUSY_POLL_H
#define EMX_WIRE_BUSY_POLL_H

#include <stdbool.h>

#include "base/config.h"

/* Sets the options of a UDP or AF_XDP socket. Returns what follows from it, for the end of a sentence on the socket: ""
 * if ETHMX_BUSY_POLL is 0. What the kernel refuses is no error, because frames then arrive by interrupts. zero_copy:
 * the driver sends what is in the socket's ring. */
const char *emx_busy_poll_set(int fd, const struct emx_config *cfg, bool zero_copy);

/* Whether reads of AF_XDP sockets poll: they came with SO_PREFER_BUSY_POLL (Linux 5.11), which fd is asked for. */
bool emx_busy_poll_has_xdp(int fd);

#endif
