/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fast path of frames of one-sided operations that arrive. A request for data, of the next number, is done and
 * answered as soon as it is seen. A reply completes its operation without the list of completed operations. The
 * acknowledgement in such a frame is handled after that, in the next round, and the one for it is in the reply, or in
 * the next request. Whatever is not as usual takes the general path, which then finds nothing changed.
 */
#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/reorder.h"
#include "core/rel/session.h"
#include "core/rma/rma_direct.h"

/* The session of which this is the next frame, if it is undamaged and for this endpoint; or NULL. */
static struct emx_session *rma_fast_session(struct emx_engine *e, unsigned link, const uint8_t *data,
                                            uint32_t len_bytes)
{
    const struct emx_frame *h = (const void *)data;
    struct emx_session *s;
    struct emx_peer *p;

    if (e->tagged_links >> link & 1 || emx_frame_check(data, len_bytes, e->self.id, e->self.cookie) != EMX_ACCEPTED ||
        !(p = emx_peer_find(e, h->src_id)))
        return NULL;
    s = p->session;
    return s && s->takes && s->rma && h->seq == s->rx.next && !s->rx.held_count ? s : NULL;
}

/* The frame was handled. */
static void rma_fast_accepted(struct emx_session *s, const struct emx_frame *h, bool reliable, emx_time now)
{
    emx_session_heard(s, now);
    emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    if (reliable)
        emx_reorder_passed(&s->rx);
    else
        emx_reorder_accepted(&s->rx);
    emx_count(s->e, frames_received);
}

static enum emx_drop rma_fast_request(struct emx_session *s, const uint8_t *data, emx_time now)
{
    enum emx_drop why;

    s->rma->answering = true;
    why = data[1] == EMX_F_rma_get ? emx_rma_input_get(s, data, now) : emx_rma_input_atomic(s, data, now);
    s->rma->answering = false;
    return why;
}

bool emx_engine_rma_request(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                            struct emx_txframe *f, emx_time now)
{
    struct emx_session *s = rma_fast_session(e, link, data, len_bytes);
    const struct emx_frame *h = (const void *)data;
    bool reliable = e->reliable_links >> link & 1;
    struct emx_txbuf *b;

    if (!s || s->link != link || !emx_rma_is_direct(s))
        return false;
    emx_session_deferred_ack(e);
    e->input_link = link;
    if (rma_fast_request(s, data, now) != EMX_ACCEPTED)
        return false;
    rma_fast_accepted(s, h, reliable, now);
    b = s->rma->answer;
    s->rma->answer = NULL;
    if (b && emx_rma_is_direct(s)) /* before the acknowledgement in the request is handled: the peer waits for it */
        emx_rma_send_direct(s, b, f, now);
    else if (b) /* it is longer than the route takes */
        emx_rma_reply_later(s, b);
    if (!reliable)
        emx_session_later(s, h->ack, now);
    return true;
}

struct emx_op *emx_engine_rma_reply(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                                    emx_time now)
{
    struct emx_session *s = rma_fast_session(e, link, data, len_bytes);
    bool reliable = e->reliable_links >> link & 1;
    struct emx_op *op = s ? emx_rma_answered(s, data) : NULL;

    if (!op)
        return NULL;
    emx_session_deferred_ack(e);
    rma_fast_accepted(s, (const void *)data, reliable, now);
    emx_op_end(e, op, ETHMX_OK);
    if (!reliable)
        emx_session_later(s, ((const struct emx_frame *)(const void *)data)->ack, now);
    return op;
}
