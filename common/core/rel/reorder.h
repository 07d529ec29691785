/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receiving in order: sequenced frames, and the acknowledgements that are owed for them.
 */
#ifndef EMX_CORE_REORDER_H
#define EMX_CORE_REORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/format/frame.h"
#include "core/time.h"

struct emx_session;

/* A sequenced frame that arrived before its turn. */
struct emx_rxbuf {
    struct emx_list link;
    uint32_t seq;
    uint32_t len_bytes;
    uint8_t frame[];
};

struct emx_reorder {
    uint32_t next;
    uint32_t first;   /* the peer's first number */
    uint32_t gap;     /* the last frame that later ones overtook; at first: first */
    uint16_t unacked; /* sequenced frames since the last acknowledgement: at most a window */
    bool ack_now;
    bool doubled_due;      /* `doubled` is to be told */
    emx_time ack_at_ns;    /* when one must leave; 0: none is owed */
    emx_time ack_delay_ns; /* how long one waits for a frame to carry it */
    uint64_t early;        /* bit i: next+1+i is held */
    struct emx_list held;
    unsigned held_count;
    uint32_t doubled; /* sequenced frames that had arrived before, mod 2^32 */
};

void emx_reorder_init(struct emx_reorder *r, emx_time ack_delay_ns);

static inline void emx_reorder_delay(struct emx_reorder *r, emx_time ack_delay_ns) /* from now on */
{
    r->ack_delay_ns = ack_delay_ns;
}

static inline void emx_reorder_begin(struct emx_reorder *r, uint32_t first) /* the peer's first number is known */
{
    r->next = r->first = r->gap = first;
}

static inline void emx_reorder_passed(struct emx_reorder *r) /* the next frame was handled, over a reliable link */
{
    r->next++;
}

static inline void emx_reorder_accepted(struct emx_reorder *r) /* the same over other links: it must be acknowledged */
{
    r->next++;
    r->unacked++;
}

static inline void emx_reorder_due(struct emx_reorder *r) /* an acknowledgement must leave immediately */
{
    r->ack_now = true;
}

/* A frame with an acknowledgement has left. What arrived twice is still to be told. */
static inline void emx_reorder_acked(struct emx_reorder *r)
{
    r->unacked = 0;
    if (r->doubled_due)
        return;
    r->ack_at_ns = 0;
    r->ack_now = false;
}

static inline void emx_reorder_told(struct emx_reorder *r) /* the peer is told what has arrived twice */
{
    r->doubled_due = false;
}

/* Whether a frame that is sent should carry an acknowledgement. */
static inline bool emx_reorder_owes(const struct emx_reorder *r)
{
    return r->ack_now || r->ack_at_ns;
}

enum emx_drop emx_reorder_input(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_reorder_owe(struct emx_session *s,
                     emx_time now); /* frames were accepted: acknowledge immediately or after a delay */
/* A frame from a reliable link is not the next one. Returns why it is dropped; may end the session. */
enum emx_drop emx_reorder_out_of_turn(struct emx_session *s, uint32_t seq, emx_time now);
void emx_reorder_expire(struct emx_session *s, emx_time now); /* an acknowledgement may be due */
void emx_reorder_fini(struct emx_session *s);

#endif
