/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages that no receive has taken yet, and active messages that wait for their handlers.
 */
#ifndef EMX_CORE_UNEXPECTED_H
#define EMX_CORE_UNEXPECTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/msg/match.h"

struct emx_op;
struct emx_session;

/* A message that no receive has taken yet, or an active message that waits for its handler. */
struct emx_unexpected {
    struct emx_unexpected_match match; /* first member */
    struct emx_list am_link;           /* in engine.am, .am_deferred, .unreleased or .taken */
    struct emx_session *session;       /* NULL: a message to self */
    struct emx_op *local;              /* to self: the sender's operation, if it waits for the receive */
    uint8_t *buf;                      /* eager: header and data; rts: header */
    uint32_t sender_op;
    uint32_t cost;          /* credit that it holds */
    uint64_t total_bytes;   /* data, without header */
    uint64_t got_bytes;     /* eager: header and data that have arrived */
    uint64_t remote;        /* rts: address of the data in the sender's memory; 0: none */
    struct emx_f_lent lent; /* rts: the same for a device */
    uint16_t am_header_bytes;
    uint16_t chunk_bytes;
    uint16_t pushed; /* rts: so many chunks were sent with it */
    bool is_rts, is_am, sync, whole, in_match;
    bool has_remote;   /* the header is remote data */
    uint8_t space;     /* enum emx_space */
    bool orphan;       /* its sender was removed */
    uint8_t small[56]; /* buf of short ones */
};

struct emx_unexpected *emx_unexpected_new(struct emx_engine *e, struct emx_session *s,
                                          size_t buf_bytes); /* NULL: memory */
void emx_unexpected_free(struct emx_engine *e, struct emx_unexpected *a);
void emx_unexpected_queue(struct emx_engine *e, struct emx_unexpected *a, struct emx_peer *p,
                          uint64_t bits);                                 /* unexpected */
void emx_unexpected_take(struct emx_engine *e, struct emx_unexpected *a); /* out of matching */
bool emx_unexpected_lost(const struct emx_unexpected *a); /* its sender is gone, and the rest will not arrive */
void emx_unexpected_am(struct emx_engine *e, struct emx_unexpected *a); /* ready for its handler */

#endif
