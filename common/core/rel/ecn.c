/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ECN: congestion reported by marks instead of losses (RFC 3168). Frames that travel in IP packets are sent as markable
 * (ECT(0)): those of the udp wire, and GSO packets. A switch, router or host with a growing queue marks them instead of
 * dropping them, and the receiver's wire reports which were marked. Other frames have no field for a mark. For these,
 * loss and delay show congestion.
 *
 * The side that controls the amount of data must react:
 *  - for large messages the receiver, which has seen the mark itself (pace.h). Nothing is sent;
 *  - for sequenced frames the sender (cc.h). The receiver counts marked frames since the session began, and an
 *    acknowledgement has the count. As with credit, a count that never restarts may be lost, late or repeated. An echo
 *    that stays until it is confirmed (ECE and CWR of RFC 3168) would need a confirmation in each frame, and the
 *    number of marked frames in a window (RFC 8257) is not needed. QUIC counts, too (RFC 9000, 13.4). The first
 *    unreported mark causes a separate acknowledgement.
 *
 * Any count other than the last one is news, whether higher or lower. So forged marks, or, without tags, forged
 * acknowledgements, can make a sender slower but never faster; and no slower than losses would: one decrease per round
 * trip, down to a floor (cc.h).
 *
 * Marks on frames that are not sequenced, such as acknowledgements and pulls, are only counted. They are few, and
 * acknowledgements of marked acknowledgements would never end.
 */
#include "base/min.h"
#include "core/cc/pace.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/ecn.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"

static void ecn_arrived_marked(struct emx_session *s)
{
    s->ecn.ce_rx++;
    s->ecn.due = true;
    emx_reorder_ack_now(s);
}

static void ecn_data_marked(struct emx_engine *e, const struct emx_frame *h)
{
    const struct emx_f_data *f = (const void *)(h + 1);
    struct emx_pace *pace = f->rail && f->rail < EMX_RAILS_MAX ? &e->rail[f->rail].pace : &e->pace;

    e->stats->ce_responses += emx_pace_marked(pace, emx_min(h->body_bytes - sizeof(*f), f->chunk_bytes));
}

void emx_engine_marked(struct emx_engine *e, const uint8_t *data)
{
    const struct emx_frame *h = emx_frame_within(data);
    struct emx_peer *p = emx_peer_find(e, h->src_id);

    emx_count(e, frames_ce);
    if (h->type == EMX_F_data)
        ecn_data_marked(e, h);
    else if (emx_frame_info[h->type].sequenced && p && p->session && !emx_session_over(p->session))
        ecn_arrived_marked(p->session);
}

void emx_ecn_told(struct emx_session *s, uint32_t ack, uint32_t marked, emx_time now)
{
    uint32_t frames = marked - s->ecn.ce_told;

    if (ack != s->tx.acked)
        return; /* late: a later one was handled */
    s->ecn.ce_told = marked;
    emx_send_window_marked(s, frames, now);
}
