/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Backlog: the frames of one batch that the kernel had no room for, copied and kept in order until it has. Only while
 * a backlog is empty does its wire take new frames. tx_room() and rx() try again to send it.
 *
 * A full queue and a link without carrier look alike (ENOBUFS). So a backlog has patience for a number of tries; then
 * its frames are lost, and while nothing goes through, further frames are lost at once.
 */
#ifndef EMX_WIRE_BACKLOG_H
#define EMX_WIRE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/wire.h"

#define EMX_BACKLOG_TRIES 10000 /* longer than a network card needs to free a full queue */

struct emx_backlog {
    uint8_t *mem; /* EMX_WIRE_BATCH frames; touched only when needed */
    size_t slot_bytes;
    unsigned first, count; /* first: the oldest kept */
    unsigned tries;        /* in vain, since the last success */
    struct emx_wire_addr to[EMX_WIRE_BATCH];
    uint32_t len_bytes[EMX_WIRE_BATCH];
};

/* false: out of memory. */
bool emx_backlog_init(struct emx_backlog *b, size_t frame_bytes);
void emx_backlog_fini(struct emx_backlog *b);

/* Whether errno err means that the kernel has no room now. */
bool emx_backlog_full_error(int err);

/* Keeps n frames that found no room, all of one batch or the rest of it. Returns how many of them are lost: all, once
 * patience has ended. */
unsigned emx_backlog_keep(struct emx_backlog *b, const struct emx_txframe *f, unsigned n);

/* Sends what is kept by send (0, or an errno). Returns how many frames were lost; b->count is what still waits. */
unsigned emx_backlog_flush(struct emx_backlog *b,
                           int (*send)(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes),
                           void *arg);

/* A frame went through: patience begins anew. */
static inline void emx_backlog_success(struct emx_backlog *b)
{
    b->tries = 0;
}

#endif
