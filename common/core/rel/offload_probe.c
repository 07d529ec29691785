/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Probing of GSO packets. If the route has them, the frames of a block or of an eager message may be marked as gso, and
 * the wire may join them. Not every network that carries ethmx's frames carries GSO packets, and if they are split on
 * the path and not joined again, they are slower than single frames. So the sender starts with one block or message.
 * Each pull, ack and eager frame has the number of GSO packets that arrived properly joined. While that number grows,
 * the sender uses them for all blocks and messages. If it does not grow, the sender tries one from time to time, at
 * increasing distances. Each one that is lost brings that nearer: the path may have changed. Retransmissions are always
 * single frames.
 *
 * Each form of GSO packets, UDP and TSO, is counted and tried by itself, because a network may carry one and not the
 * other.
 *
 * A GSO packet is properly joined if it has EMX_JOINED_BYTES or a complete eager message. With fewer frames it would
 * waste a slot of the receiver's ring. A TSO packet that the sender's interface has segmented counts even if nobody has
 * joined it: the sender saves more than its pieces cost the receiver.
 */
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/offload_probe.h"
#include "core/rel/session.h"

#define TRUST      1024 /* blocks and messages in GSO packets before the peer must report some */
#define DOUBT      4    /* a lost one leaves this part of them */
#define GAP        5    /* single ones between two tries at first, as a power of 2; doubles */
#define GAP_MAX    15   /* at most */
#define FORM_BITS  16   /* of a form, in joined_rx and joined_told */
#define BRIEF_BITS 8    /* where there is less room */

void emx_offload_probe_init(struct emx_offload_probe *o)
{
    for (unsigned i = 0; i < EMX_GSO_FORMS; i++)
        o->form[i] = (struct emx_offload_form){.left = 1, .gap = GAP, .wait = 1u << GAP};
}

/* Of one form. */
static uint16_t offload_probe_count(uint32_t joined, unsigned form)
{
    return (uint16_t)(joined >> (form * FORM_BITS));
}

void emx_offload_probe_told(struct emx_offload_probe *o, uint32_t joined)
{
    uint32_t told = 0;

    for (unsigned i = 0; i < EMX_GSO_FORMS; i++) {
        uint16_t count = offload_probe_count(joined, i), before = offload_probe_count(o->joined_told, i);

        if ((int16_t)(count - before) > 0) {
            o->form[i] = (struct emx_offload_form){.left = TRUST, .gap = GAP, .wait = 1u << GAP};
            before = count;
        }
        told |= (uint32_t)before << (i * FORM_BITS);
    }
    o->joined_told = told;
}

uint16_t emx_offload_probe_brief(const struct emx_offload_probe *o)
{
    uint16_t brief = 0;

    for (unsigned i = 0; i < EMX_GSO_FORMS; i++)
        brief |= (uint16_t)((offload_probe_count(o->joined_rx, i) & UINT8_MAX) << (i * BRIEF_BITS));
    return brief;
}

void emx_offload_probe_told_briefly(struct emx_offload_probe *o, uint16_t brief)
{
    uint32_t joined = 0;

    for (unsigned i = 0; i < EMX_GSO_FORMS; i++) {
        uint16_t before = offload_probe_count(o->joined_told, i);
        int8_t more = (int8_t)((brief >> (i * BRIEF_BITS)) - before);

        joined |= (uint32_t)(uint16_t)(before + more) << (i * FORM_BITS);
    }
    emx_offload_probe_told(o, joined);
}

void emx_offload_probe_arrived(struct emx_offload_probe *o, enum emx_gso_form form)
{
    uint32_t mask = (uint32_t)UINT16_MAX << (form * FORM_BITS);

    o->joined_rx = (o->joined_rx & ~mask) | ((o->joined_rx + (1u << (form * FORM_BITS))) & mask);
}

/* One is left to try: the reply may be only late. */
void emx_offload_probe_lost(struct emx_offload_probe *o, enum emx_gso_form form)
{
    struct emx_offload_form *f = &o->form[form];

    if (f->left)
        f->left = (f->left + DOUBT - 1u) / DOUBT & 0x7ff;
}

bool emx_offload_probe_take(struct emx_offload_probe *o, enum emx_gso_form form, bool joins)
{
    struct emx_offload_form *f = &o->form[form];

    if (!joins && f->left < 2)
        return false;
    if (f->left) {
        f->left--;
        return true;
    }
    if (--f->wait)
        return false;
    if (f->gap < GAP_MAX)
        f->gap++;
    f->wait = (1u << f->gap) & UINT16_MAX;
    return true;
}

/* Whether the parts of a GSO packet, an eager message's first frame and parts - 1 more, are the complete message. */
static bool offload_probe_is_whole(const struct emx_frame *h, unsigned parts)
{
    const struct emx_f_eager *f = (const void *)(h + 1);
    uint64_t first = h->body_bytes - sizeof(*f), more = h->body_bytes - sizeof(struct emx_f_more);

    return h->type == EMX_F_eager && first + (parts - 1) * more >= f->total_bytes;
}

void emx_engine_joined(struct emx_engine *e, const uint8_t *data, unsigned parts, bool tso)
{
    const struct emx_frame *h = emx_frame_within(data);
    struct emx_peer *p = emx_peer_find(e, h->src_id);

    if (!p || !p->session)
        return;
    if (!parts || parts * (sizeof(*h) + h->body_bytes) >= EMX_JOINED_BYTES || offload_probe_is_whole(h, parts))
        emx_offload_probe_arrived(&p->session->offload, tso ? EMX_GSO_OF_TSO : EMX_GSO_OF_UDP);
}
