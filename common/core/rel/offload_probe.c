/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probing of GSO packets. If the route has them, the frames of a block or of an eager message may be marked as gso, and
 * the wire may join them. Not every network that carries ethmx's frames carries GSO packets, and if they are split on
 * the path and not joined again, they are slower than single frames. So the sender starts with one block or message.
 * Each pull, ack and eager frame has the number of GSO packets that arrived properly joined. While that number grows,
 * the sender uses them for all blocks and messages. If it does not grow, the sender tries one from time to time, at
 * increasing distances, in turn without and with the form of TSO packets, because a network may drop one form only.
 * Each one that is lost brings that nearer: the path may have changed. Retransmissions are always single frames.
 *
 * The number does not say which of them arrived. Those of eager messages are no TSO packets: while it does not grow by
 * more than these, it is no proof that TSO packets arrive, and some blocks lost in them end their use.
 *
 * A GSO packet is properly joined if it has EMX_JOINED_BYTES or a complete eager message. With fewer frames it would
 * waste a slot of the receiver's ring.
 */
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/offload_probe.h"
#include "core/rel/session.h"

#define TRUST   1024      /* blocks and messages in GSO packets before the peer must report some */
#define DOUBT   4         /* a lost one leaves this part of them */
#define GAP     32        /* single ones between two tries at first; doubles */
#define GAP_MAX (1 << 20) /* at most */
#define DOUBTS  16        /* blocks in TSO packets lost before the next ones are without */

void emx_offload_probe_init(struct emx_offload_probe *o)
{
    o->left = 1;
    o->no_tso = false;
    o->doubts = 0;
    o->eager = 0;
    o->gap = o->wait = GAP;
}

void emx_offload_probe_told(struct emx_offload_probe *o, uint32_t joined)
{
    const uint32_t more = joined - o->joined_told;

    if ((int32_t)more <= 0)
        return;
    if (more > o->eager)
        o->doubts = 0;
    o->eager = (uint16_t)(o->eager - emx_min(more, o->eager));
    o->joined_told = joined;
    o->left = TRUST;
    o->gap = o->wait = GAP;
}

/* One is left to try: the reply may be only late. */
void emx_offload_probe_lost(struct emx_offload_probe *o)
{
    if (o->left)
        o->left = (o->left + DOUBT - 1) / DOUBT;
}

void emx_offload_probe_block_lost(struct emx_offload_probe *o)
{
    emx_offload_probe_lost(o);
    if (o->no_tso || ++o->doubts < DOUBTS)
        return;
    o->no_tso = true;
    o->doubts = 0;
}

static bool offload_probe_take(struct emx_offload_probe *o, bool no_tso)
{
    if (o->left) {
        o->left--;
        return true;
    }
    if (--o->wait)
        return false;
    if (o->gap < GAP_MAX)
        o->gap *= 2;
    o->no_tso = no_tso;
    o->wait = o->gap;
    return true;
}

bool emx_offload_probe_take(struct emx_offload_probe *o, bool joins)
{
    return (joins || o->left >= 2) && offload_probe_take(o, !o->no_tso);
}

bool emx_offload_probe_take_eager(struct emx_offload_probe *o)
{
    if (!offload_probe_take(o, o->no_tso))
        return false;
    if (o->eager < UINT16_MAX)
        o->eager++;
    return true;
}

/* Whether the parts of a GSO packet, an eager message's first frame and parts - 1 more, are the complete message. */
static bool offload_probe_is_whole(const struct emx_frame *h, unsigned parts)
{
    const struct emx_f_eager *f = (const void *)(h + 1);
    uint64_t first = h->body_bytes - sizeof(*f), more = h->body_bytes - sizeof(struct emx_f_more);

    return h->type == EMX_F_eager && first + (parts - 1) * more >= f->total_bytes;
}

void emx_engine_joined(struct emx_engine *e, const uint8_t *data, unsigned parts)
{
    const struct emx_frame *h = emx_frame_within(data);
    struct emx_peer *p = emx_peer_find(e, h->src_id);

    if (!p || !p->session)
        return;
    if (parts * (sizeof(*h) + h->body_bytes) >= EMX_JOINED_BYTES || offload_probe_is_whole(h, parts))
        p->session->offload.joined_rx++;
}
