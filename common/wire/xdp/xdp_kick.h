/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kick: makes the kernel process an AF_XDP socket's ring of frames to send. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_XDP_KICK_H
#define EMX_WIRE_XDP_KICK_H

#include <stdbool.h>
#include <stdint.h>

/* The ring, and how the kernel is made to process it. */
struct emx_xdp_kick {
    const uint32_t *producer, *consumer, *flags; /* addresses of the ring's words */
    int (*wake)(int fd);                         /* -1 and errno */
    int fd;
    unsigned *tries; /* in a row without success; stored by the caller */
};

/* Returns how many frames were lost. Frames that the kernel has no room for, or the driver sends later, stay in the
 * ring. *stuck_p: the kernel does not send the frames in the ring now, such as without carrier; it is asked again by
 * the next call. Never waits. */
unsigned emx_xdp_kick(const struct emx_xdp_kick *k, bool *stuck_p);

#endif
