/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reserved frames: eager messages of several frames over a reliable wire that provides memory for them. Each frame is
 * written there directly from the program's memory. So a message is copied twice in all, and the receiver takes the
 * first frames while the next ones are written. On the general path (eager.c) all frames are made before the first one
 * leaves, and the wire copies them again.
 *
 * If the wire has no room, the operation waits with the rest of the message, and continues on the general path. All
 * resources for that are reserved before the first frame, because a message that has begun must end.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/msg/lapse.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/credit.h"
#include "core/rel/reorder.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"

bool emx_engine_reserve_begin(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a,
                              struct emx_reservation *p_p, unsigned *link_p)
{
    struct emx_session *s = peer->session;

    if (e->closing || !s || !s->in_place || a->kind != EMX_KIND_TAGGED || !emx_eager_now(s, a))
        return false;
    if (!emx_list_empty(&s->tx.control) || s->rx.held_count || !emx_send_window_clear(&s->tx))
        return false;
    if (!emx_credit_allows(&s->credit, emx_eager_cost(a->data.len_bytes)) || emx_pool_reserve(&e->ops))
        return false;
    *p_p = (struct emx_reservation){.peer = peer, .a = a};
    *link_p = s->link;
    return true;
}

uint32_t emx_engine_reserve_next(const struct emx_reservation *p, const struct emx_wire_addr **to_p)
{
    const struct emx_session *s = p->peer->session;
    size_t n = emx_eager_part(s, p->a->data.len_bytes, p->done_bytes);

    if (!n)
        return 0;
    *to_p = &s->to;
    return (uint32_t)(emx_eager_head_bytes(p->done_bytes) + n);
}

/* The header is made elsewhere, because another processor may be reading the wire's memory. */
void emx_engine_reserve_fill(struct emx_reservation *p, void *frame, uint32_t len_bytes)
{
    struct emx_session *s = p->peer->session;
    const struct emx_eager_source m = {
        .data = &p->a->data, .total_bytes = (uint32_t)p->a->data.len_bytes, .bits = p->a->bits};
    size_t head_bytes = emx_eager_head_bytes(p->done_bytes), n = len_bytes - head_bytes;
    struct emx_scratch *head = &s->e->scratch[0];
    struct emx_frame *h = (void *)head->b;

    if (!p->done_bytes)
        emx_credit_use(&s->credit, emx_eager_cost(m.total_bytes));
    emx_eager_head(s, &m, p->done_bytes, n, h);
    h->seq = s->tx.next;
    emx_send_window_reserve(&s->tx);
    emx_engine_stamp(s, h);
    emx_frame_seal(h, head_bytes, NULL, 0, s->seal);
    memcpy(frame, h, head_bytes);
    emx_data_read(&p->a->data, p->done_bytes, (uint8_t *)frame + head_bytes, n);
    p->done_bytes += n;
    emx_count(s->e, frames_sent);
}

/* Queues the rest, for which there was no room. */
static void reserve_wait_with_rest(struct emx_session *s, const struct emx_reservation *p, emx_time now)
{
    struct emx_op *op = emx_op_new_send(s->e, p->peer, p->a, now);

    op->sent_bytes = p->done_bytes;
    op->eager = true;
    op->gso = false;
    emx_op_queue(s, op);
}

int emx_engine_reserve_end(struct emx_reservation *p, emx_time now)
{
    struct emx_session *s = p->peer->session;
    struct emx_engine *e = s->e;
    bool whole = p->done_bytes == p->a->data.len_bytes;

    emx_reorder_acked(&s->rx);
    if (s->read.on)
        emx_lapse_spoke(s, now);
    emx_count(e, msgs_sent);
    emx_add(e, bytes_sent, p->a->data.len_bytes);
    if (whole)
        emx_eager_count(s, p->a->data.len_bytes, emx_eager_frames(s, p->a->data.len_bytes));
    else
        reserve_wait_with_rest(s, p, now);
    return whole ? ETHMX_OK : ETHMX_INPROGRESS;
}
