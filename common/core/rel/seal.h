/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The headers of frames, in three steps before they leave: head, stamp, seal.
 */
#ifndef EMX_CORE_SEAL_H
#define EMX_CORE_SEAL_H

#include <stddef.h>
#include <stdint.h>

#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"
#include "base/txframe.h"

/* Writes all fields but seq, ack, credit, check. */
static inline void emx_engine_head(struct emx_engine *e, const struct emx_peer *p, struct emx_frame *h,
                                   enum emx_frame_type type, size_t body_bytes)
{
    h->type = (uint8_t)type;
    h->body_bytes = (uint16_t)body_bytes;
    h->dst_id = p->id;
    h->cookie = p->cookie;
    h->src_id = e->self.id;
    h->seq = 0;
}

/* Writes ack and credit. */
static inline void emx_engine_stamp(struct emx_session *s, struct emx_frame *h)
{
    h->ack = s->rx.next;
    h->credit = emx_credit_limit(&s->credit);
    emx_credit_announced(&s->credit, h->credit);
}

/* The last step of every frame: adds checksum or tag. h is otherwise complete, and *f has its lengths and body. Before
 * h is room for a tag, and if there is a body, h is in a scratch. */
static inline void emx_engine_seal(struct emx_session *s, struct emx_frame *h, struct emx_txframe *f, unsigned level)
{
    if (__builtin_expect(level == EMX_SEAL_TAG, 0)) {
        emx_tag_put(s, h, f);
        return;
    }
    f->head = h;
    emx_frame_seal(h, f->head_bytes, f->body, f->body_bytes, level);
}

#endif
