/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Quick sends: the short way of a short message that nothing stands in front of. It is made into its one frame, which
 * goes to the wire in the same call, past the window's list and the list of sessions with something to send. Over a
 * reliable route it is not even copied: the wire takes header and data from where they are.
 *
 * Where small messages may be gathered (bundle.c) the short way ends as soon as frames are under way.
 *
 * What it takes is known when the session is connected (session.quick_room): a standard send, in one frame. That
 * nothing stands in front of it is looked at each time.
 */
#include "proto/impl.h"

#define TINY_BYTES (sizeof(((struct emx_scratch *)0)->b) - sizeof(struct emx_frame) - sizeof(struct emx_f_eager))

void emx_quick_open(struct emx_session *s)
{
    const struct emx_config *cfg = s->e->cfg;
    uint64_t room = emx_eager_room(s);

    if (room > cfg->p_eager_max)
        room = cfg->p_eager_max;
    if (s->reads && room >= cfg->p_read_min)
        room = cfg->p_read_min - 1;
    s->quick_room = s->e->closing ? 0 : (uint32_t)room + 1;
}

bool emx_engine_quick(const struct emx_peer *p, const struct emx_op_args *a, unsigned *link_p)
{
    const struct emx_session *s = p->session;

    if (!s || a->data.len_bytes >= s->quick_room || a->mode != ETHMX_SEND_STANDARD || a->is_am)
        return false;
    if (!emx_list_empty(&s->backlog) || !emx_list_empty(&s->control) || s->held_count || !emx_reltx_clear(s))
        return false;
    if (!s->reliable && s->tx_next - s->tx_acked >= EMX_BUNDLE_PATIENCE)
        return false;
    if (!emx_credit_allows(s, emx_eager_cost(a->data.len_bytes)))
        return false;
    *link_p = s->link;
    return true;
}

static void fill_head(struct emx_session *s, struct emx_frame *h, const struct emx_op_args *a)
{
    struct emx_f_eager *t = (void *)(h + 1);

    emx_engine_head(s->e, s->peer, h, EMX_F_eager, sizeof(*t) + a->data.len_bytes);
    *t = (struct emx_f_eager){.bits = a->bits, .total_bytes = (uint32_t)a->data.len_bytes, .joined = s->joined_rx};
}

/* In a kept buffer, as every frame that may have to be sent again, or whose data have to be gathered. */
static bool from_buffer(struct emx_session *s, const struct emx_op_args *a, struct emx_txframe *f, emx_time now)
{
    size_t len_bytes = sizeof(struct emx_frame) + sizeof(struct emx_f_eager) + a->data.len_bytes;
    struct emx_txbuf *b = emx_reltx_get(s->e, len_bytes);

    if (!b)
        return false;
    fill_head(s, emx_txbuf_frame(b), a);
    emx_data_read(&a->data, 0, b->frame + len_bytes - a->data.len_bytes, a->data.len_bytes);
    s->small_ns = now;
    emx_reltx_direct(s, b, now);
    emx_engine_stamp(s, emx_txbuf_frame(b));
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = (uint16_t)len_bytes};
    emx_engine_seal(s, emx_txbuf_frame(b), f, s->seal);
    return true;
}

/* From where the data are; the shortest behind the header, so that the wire has one piece to copy. */
static void in_place(struct emx_session *s, const struct emx_op_args *a, struct emx_txframe *f)
{
    struct emx_frame *h = (void *)s->e->scratch[0].b;
    uint16_t head_bytes = sizeof(*h) + sizeof(struct emx_f_eager), n = (uint16_t)a->data.len_bytes;

    fill_head(s, h, a);
    h->seq = s->tx_next++;
    s->tx_acked = s->tx_next;
    emx_engine_stamp(s, h);
    h->version = EMX_FRAME_V_OFF;
    h->check = 0;
    *f = (struct emx_txframe){.to = &s->to, .head = h, .head_bytes = head_bytes};
    if (n > TINY_BYTES) {
        f->body = a->data.base;
        f->body_bytes = n;
    } else {
        memcpy((uint8_t *)h + head_bytes, a->data.base ? a->data.base : h, n);
        f->head_bytes = (uint16_t)(head_bytes + n);
    }
}

int emx_engine_send_quick(struct emx_engine *e, struct emx_peer *p, const struct emx_op_args *a, struct emx_txframe *f,
                          emx_time now)
{
    struct emx_session *s = p->session;

    if (s->in_place && emx_data_contiguous(&a->data))
        in_place(s, a, f);
    else if (!from_buffer(s, a, f, now))
        return ETHMX_ERR_NO_MEMORY;
    s->credit_used += emx_eager_cost(a->data.len_bytes);
    emx_relrx_acked(s);
    if (s->reads)
        emx_read_spoke(s, now);
    emx_count(e, sent_small);
    emx_count(e, msgs_sent);
    emx_count(e, frames_sent);
    emx_add(e, bytes_sent, a->data.len_bytes);
    return ETHMX_OK;
}
