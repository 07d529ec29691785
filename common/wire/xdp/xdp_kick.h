/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Making the kernel look at an AF_XDP socket's ring of frames to send.
 */
#ifndef EMX_WIRE_XDP_KICK_H
#define EMX_WIRE_XDP_KICK_H

#include <stdbool.h>
#include <stdint.h>

/* The ring, and how the kernel is told to look at it. */
struct emx_xdp_kick {
    const uint32_t *producer, *consumer, *flags; /* where they lie */
    int (*wake)(int fd);                         /* -1 and errno */
    int fd;
    unsigned *tries; /* in vain, one after the other; kept by the caller */
};

/* Returns how many frames were lost. What the kernel has no room for, or the driver will send when it likes, stays in
 * the ring. *stuck_p: what is in it will not go (where the kernel copies: the caller takes it back). Never waits. */
unsigned emx_xdp_kick(const struct emx_xdp_kick *k, bool *stuck_p);

#endif
