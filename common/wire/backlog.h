/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backlog: copies of the frames of one batch that the kernel had no room for, in order. Its wire takes new frames only
 * while it is empty. tx_room() and rx() try again to send it. Used under the endpoint's lock.
 *
 * A full queue and a link without carrier return the same error (ENOBUFS). So the number of tries is limited. After
 * that the frames are lost, and further frames are lost at once until one is sent.
 */
#ifndef EMX_WIRE_BACKLOG_H
#define EMX_WIRE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

#define EMX_BACKLOG_TRIES 10000 /* a network card frees a full queue sooner */

struct emx_backlog {
    uint8_t *mem; /* EMX_WIRE_BATCH frames; touched only when needed */
    size_t slot_bytes;
    unsigned first, count; /* first: the oldest kept */
    unsigned tries;        /* without success */
    struct emx_wire_addr to[EMX_WIRE_BATCH];
    uint32_t len_bytes[EMX_WIRE_BATCH];
};

/* false: out of memory. */
bool emx_backlog_init(struct emx_backlog *b, size_t frame_bytes);
void emx_backlog_fini(struct emx_backlog *b);

/* Whether errno err means that the kernel has no room now. */
bool emx_backlog_full_error(int err);

/* Copies n frames that found no room, all of one batch or the rest of it. Returns how many are lost: all, once the
 * tries are used up. */
unsigned emx_backlog_keep(struct emx_backlog *b, const struct emx_txframe *f, unsigned n);

/* Sends the backlog by send() (0, or an errno). Returns how many frames were lost; b->count is what still waits. */
unsigned emx_backlog_flush(struct emx_backlog *b,
                           int (*send)(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes),
                           void *arg);

/* A frame was sent: the count of tries starts again. */
static inline void emx_backlog_success(struct emx_backlog *b)
{
    b->tries = 0;
}

#endif
