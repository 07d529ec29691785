/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets as no wire sends them: damaged, cut, with parts of a length that does not fit the frames. They are handed
 * to the network byte by byte.
 */
#ifndef EMX_TESTS_CONFORM_MANGLED_H
#define EMX_TESTS_CONFORM_MANGLED_H

#include "wire/gso.h"
#include "world.h"

#define MANGLED_FRAMES 16 /* at most */

struct mangled {
    uint8_t frames[MANGLED_FRAMES * 256]; /* back to back */
    unsigned told_bytes;                  /* of them, as the IPv4 and UDP headers say */
    unsigned sent_bytes;                  /* of them, in truth */
    unsigned part_bytes;                  /* as the network is told to cut; 0: not at all */
    bool marked;                          /* as by a queue on the way */
};

/* A sound one, with n frames numbered first, first + 1, ... of len_bytes each, up to 256. */
void mangled_init(struct mangled *m, const struct end *from, const struct end *to, uint32_t first, unsigned n,
                  unsigned len_bytes);

/* The way from where no port is to where the end takes GSO packets. */
struct emx_gso_way mangled_way(const struct end *from, const struct end *to);
/* Sends pieces, of which the first is the kernel's header on segmentation, as they are. */
void mangled_send_pieces(const struct end *from, const struct end *to, struct iovec *iov, unsigned pieces);

/* Sends it to where the end takes GSO packets. */
void mangled_send(const struct mangled *m, const struct end *from, const struct end *to);
/* Sends nothing but the first len_bytes of its headers. */
void mangled_send_headers(const struct mangled *m, const struct end *from, const struct end *to, unsigned len_bytes);

/* Receives until all frames of the mask (bit i: number first + i) have come whole, then what else is there. Each comes
 * once, and no other frame whole. */
void mangled_expect(struct end *to, uint32_t first, uint32_t mask);

#endif
