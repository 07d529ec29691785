/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probing of GSO packets. Where the route has them, the frames of a block or of an eager message may be marked as gso,
 * and the wire may join them with their neighbours. Not every network that carries ethmx's own frames carries these,
 * and where nothing joins again what was cut on the way they are slower than single frames. So the sender begins with
 * one block or message of this kind; each pull, ack and eager frame tells how many GSO packets came well joined; and
 * while that number grows the sender trusts the way and uses it for all. When it does not grow, one is tried from time
 * to time, ever more seldom. What has to be sent again goes in single frames always.
 *
 * A GSO packet came well joined if it brought EMX_JOINED_BYTES or a whole eager message: fewer frames in a slot of the
 * receiver's ring would be a waste of it.
 */
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/offload_probe.h"
#include "core/rel/session.h"

#define TRUST   1024      /* blocks and messages in GSO packets before the peer must have told of some */
#define GAP     32        /* of them without trust between two tries at first; doubles */
#define GAP_MAX (1 << 20) /* at most */

void emx_offload_probe_init(struct emx_offload_probe *o)
{
    o->left = 1;
    o->gap = o->wait = GAP;
}

void emx_offload_probe_told(struct emx_offload_probe *o, uint32_t joined)
{
    if ((int32_t)(joined - o->joined_told) <= 0)
        return;
    o->joined_told = joined;
    o->left = TRUST;
    o->gap = o->wait = GAP;
}

bool emx_offload_probe_take(struct emx_offload_probe *o, bool joins)
{
    if (!joins && o->left < 2)
        return false;
    if (o->left) {
        o->left--;
        return true;
    }
    if (--o->wait)
        return false;
    if (o->gap < GAP_MAX)
        o->gap *= 2;
    o->wait = o->gap;
    return true;
}

/* Of an eager message's first frame, with parts - 1 frames behind it: whether these are all. */
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
