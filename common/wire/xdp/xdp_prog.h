/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The XDP program that takes ethmx's frames from an interface, its maps, and its attachment.
 */
#ifndef EMX_WIRE_XDP_PROG_H
#define EMX_WIRE_XDP_PROG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Owns four descriptors. The program is detached when the last copies of them are closed. */
struct emx_xdp_prog {
    int ids_fd;    /* hash: endpoint id, as in the frame -> index of its socket for queue 0 in socks */
    int socks_fd;  /* XSKMAP; queue q of an endpoint is at its index + q */
    int passed_fd; /* array of one uint64_t, mappable: frames of known endpoints on a queue without sockets */
    int link_fd;   /* the attachment */
};

struct emx_xdp_attach {
    unsigned ifindex;
    uint16_t ethertype; /* host order */
    unsigned queues;    /* receive queues 0 .. queues - 1 have sockets */
    unsigned endpoints; /* at most */
    bool native, frags; /* in the driver or by the kernel's generic hook; whether frames of several buffers come */
};

/* Creates the maps. -1 and errno; nothing is left behind. */
int emx_xdp_prog_make(struct emx_xdp_prog *p, const struct emx_xdp_attach *a);
/* Loads the program and attaches it. -1 and errno: EBUSY, EEXIST: the interface has another program. */
int emx_xdp_prog_attach(struct emx_xdp_prog *p, const struct emx_xdp_attach *a);
/* Closes the descriptors that are open (not negative). */
void emx_xdp_prog_close(struct emx_xdp_prog *p);

#endif
