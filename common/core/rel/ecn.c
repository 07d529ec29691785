/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ECN: congestion that is told by marks instead of losses (RFC 3168). Frames that travel in IP packets leave as "may be
 * marked" (ECT(0)): those of the udp wire, and GSO packets. A switch, router or host whose queue grows marks them
 * instead of dropping them, and the receiver's wire says which came so. The others have no place for a mark; loss and
 * delay tell of them, as before.
 *
 * Who is to send less is he who decides how much is sent:
 *  - of the data of large messages the receiver, who has seen the mark himself (pace.h). Nothing has to be told;
 *  - of sequenced frames the sender (cc.h). The receiver counts those that came marked, since the session began, and an
 *    acknowledgement tells the number. As with credit, a number that never starts anew does no harm when it is lost,
 *    late or told twice; an echo that stays until it is answered (ECE and CWR of RFC 3168) would need an answer in each
 *    frame, and how many frames of a window were marked (RFC 8257) is not asked. QUIC counts, too (RFC 9000, 13.4).
 *    The first mark that was not told makes an acknowledgement leave, in place of one that rides on a frame.
 *
 * Any other number than the last one told is news, whether it is more or less. So whoever forges marks, or, where
 * frames carry no tags, acknowledgements, can make a sender slower and never faster; and not slower than losses would:
 * once in a round trip by three tenths, down to a floor (cc.h).
 *
 * Marks on frames that are not sequenced, such as acknowledgements and pulls, are only counted. They are not many, and
 * an acknowledgement for each marked acknowledgement would never end.
 */
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

void emx_engine_marked(struct emx_engine *e, const uint8_t *data)
{
    const struct emx_frame *h = emx_frame_within(data);
    struct emx_peer *p = emx_peer_find(e, h->src_id);

    emx_count(e, frames_ce);
    if (h->type == EMX_F_data)
        e->stats->ce_responses += emx_pace_marked(&e->pace, h->body_bytes - sizeof(struct emx_f_data));
    else if (emx_frame_info[h->type].sequenced && p && p->session && !emx_session_over(p->session))
        ecn_arrived_marked(p->session);
}

void emx_ecn_told(struct emx_session *s, uint32_t ack, uint32_t marked, emx_time now)
{
    uint32_t frames = marked - s->ecn.ce_told;

    if (ack != s->tx.acked)
        return; /* late: a later one has told more */
    s->ecn.ce_told = marked;
    emx_send_window_marked(s, frames, now);
}
