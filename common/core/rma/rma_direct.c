/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames of one-sided operations that nothing waits before: they leave in the call, without the lists of output, as
 * short messages do (msg/fast_path.c).
 */
#include "core/rma/rma_direct.h"

#include "core/engine_impl.h"
#include "core/msg/lapse.h"
#include "core/peer.h"
#include "core/rel/reorder.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

bool emx_rma_is_direct(const struct emx_session *s)
{
    return s->fast_room && !s->fragment.out && !s->rx.held_count && emx_list_empty(&s->backlog) &&
           emx_list_empty(&s->tx.control) && emx_send_window_clear(&s->tx);
}

bool emx_engine_rma_direct(const struct emx_peer *peer, unsigned *link_p)
{
    const struct emx_session *s = peer->session;

    if (!s || !emx_rma_is_direct(s))
        return false;
    *link_p = s->link;
    return true;
}

void emx_rma_send_direct(struct emx_session *s, struct emx_txbuf *b, struct emx_txframe *f, emx_time now)
{
    struct emx_frame *h = emx_txbuf_frame(b);

    emx_send_window_spend(s->e);
    h->seq = s->tx.next;
    emx_send_window_direct(s, b, now);
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = b->len_bytes};
    emx_engine_seal(s, h, f, s->seal);
    emx_reorder_acked(&s->rx);
    if (s->read.on)
        emx_lapse_spoke(s, now);
    emx_count(s->e, frames_sent);
}
