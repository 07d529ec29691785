/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reception of a packet of several frames, whose data the kernel writes into its place where the engine can name it
 * (base/placement.h), and into a buffer otherwise. One packet at a time. No system calls: the caller receives.
 *
 *     a packet is there         -> emx_gso_rx_prepare(): where the kernel is to write
 *     the packet was received   -> emx_gso_rx_done()
 *     then                      -> emx_gso_rx_next() until it has no frame. Then all of them are returned before
 *                                  emx_gso_rx_prepare() is called again
 */
#ifndef EMX_WIRE_GSO_RX_H
#define EMX_WIRE_GSO_RX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/gso.h"
#include "wire/wire.h"

#define EMX_GSO_RX_BYTES 65536 /* no packet is longer */

/* What is thought to be the next packet. If that is wrong, its data is copied. */
struct emx_gso_seen {
    const uint8_t *frame; /* its first frame, */
    size_t head_bytes;    /* of which this much can be read */
    size_t len_bytes;     /* of all its frames */
};

struct emx_gso_rx {
    const struct emx_placer *placer; /* NULL: nothing has a place */
    struct emx_stats *stats;
    uint8_t *buffer; /* EMX_GSO_RX_BYTES: the packet without headers; what has a place is missing in it */
    uint8_t (*head)[EMX_PLACE_HEAD_BYTES]; /* of frames with a place, EMX_WIRE_BATCH */
    struct emx_placement plan;
    struct iovec iov[1 + 2 * EMX_WIRE_BATCH + 1]; /* the first is the caller's, for headers */

    unsigned placed, next; /* frames whose data is in its place; those that were taken */
    struct emx_gso rest;   /* the other frames */
    uint8_t parts;         /* to be reported with the first frame, */
    bool tso, counts;      /* and what struct emx_rxframe has of a TSO packet */
    bool missed;           /* the first frame was not in its guessed place: it is another packet than was thought */
    bool refused;          /* a place could not be written: no more of them */
};

/* false: out of memory. */
bool emx_gso_rx_init(struct emx_gso_rx *r, const struct emx_placer *placer, struct emx_stats *stats);
void emx_gso_rx_fini(struct emx_gso_rx *r); /* also what is all 0 */

/* Whether data may have a place. */
static inline bool emx_gso_rx_may_place(const struct emx_gso_rx *r)
{
    return r->placer && r->placer->arg && !r->refused;
}

/* Whether it pays to look at a packet's first bytes before it is received. */
static inline bool emx_gso_rx_places(const struct emx_gso_rx *r)
{
    return emx_gso_rx_may_place(r) && r->placer->expects(r->placer->arg);
}

/* Prepares for the next packet; seen NULL: nothing is known of it. Sets r->iov from the second on; returns how many
 * these are. */
unsigned emx_gso_rx_prepare(struct emx_gso_rx *r, const struct emx_gso_seen *seen);

/* The same for a packet that is one frame of data_bytes, whose head is received apart; first: that head. The caller
 * writes it to emx_gso_rx_head() before emx_gso_rx_done(). */
unsigned emx_gso_rx_prepare_data(struct emx_gso_rx *r, const void *first, unsigned head_bytes, size_t data_bytes);
uint8_t *emx_gso_rx_head(struct emx_gso_rx *r);

/* It was received: len_bytes of frames of part_bytes each, 0: one frame. */
void emx_gso_rx_done(struct emx_gso_rx *r, size_t len_bytes, size_t part_bytes, bool marked);

/* Receiving it failed. fault: memory was not writable. It may have been a place, so from now on data is copied, and the
 * program gets the signal that it expects of such memory. */
void emx_gso_rx_failed(struct emx_gso_rx *r, bool fault);

/* What was received is no packet for us: counted, and none of its frames is taken. */
void emx_gso_rx_lost(struct emx_gso_rx *r);

/* Whether frames are left. */
static inline bool emx_gso_rx_is_open(const struct emx_gso_rx *r)
{
    return r->next < r->placed || r->rest.left_bytes;
}

/* Takes up to max frames. Those with a place must be handled before the program may run. */
unsigned emx_gso_rx_next(struct emx_gso_rx *r, struct emx_rxframe *f, unsigned max, uint32_t cookie);

#endif
