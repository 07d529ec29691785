/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reliable receiving. Sequenced frames are handled once and in order. Early ones are held (copied) within the window.
 * Any frame to the peer carries an acknowledgement. A separate one is sent after ack_every frames, or fewer if frames
 * got lost lately; after ack_delay; immediately if a frame is early (the sender may be missing something); or when
 * credit was released. Over connections, which lose nothing while they last, it may wait longer, because it only lets
 * the sender free its copies.
 *
 * Duplicates mostly come from a peer that waited while this program computed. Now it has work, so they are told with
 * the next separate acknowledgement, or after ack_delay.
 *
 * Over a reliable link frames arrive in order and are not retransmitted. None is held or acknowledged. The numbers only
 * verify the wire. If the wire fails, the peer counts as dead.
 */
#include <string.h>

#include "core/engine_impl.h"
#include "core/event.h"
#include "core/format/chunk_frame.h"
#include "core/rel/ack.h"
#include "core/rel/reorder.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

void emx_reorder_init(struct emx_reorder *r, emx_time ack_delay_ns)
{
    emx_list_init(&r->held);
    r->ack_delay_ns = ack_delay_ns;
}

static enum emx_drop reorder_call(struct emx_session *s, const uint8_t *data, emx_time now)
{
    return s->e->up->in_order[((const struct emx_frame *)data)->type](s, data, now);
}

/* Handles a frame with n sequence numbers, which are next. */
static enum emx_drop reorder_handle(struct emx_session *s, const uint8_t *data, unsigned n, emx_time now)
{
    enum emx_drop why = reorder_call(s, data, now);

    if (why == EMX_ACCEPTED) {
        s->rx.next += n;
        s->rx.unacked = (uint16_t)(s->rx.unacked + n);
    }
    return why;
}

/* Updates the map of early frames after a change of the held list. */
static void reorder_map_held(struct emx_session *s)
{
    s->rx.early = 0;
    emx_list_each(l, &s->rx.held)
    {
        uint32_t bit = emx_list_entry(l, struct emx_rxbuf, link)->seq - s->rx.next - 1;

        if (bit < 64)
            s->rx.early |= UINT64_C(1) << bit;
    }
}

static void reorder_drop_held(struct emx_session *s, struct emx_rxbuf *b)
{
    emx_list_del(&b->link);
    s->rx.held_count--;
    emx_alloc_put(&s->e->alloc, b);
}

/* Handles held frames that are next. */
static void reorder_handle_held(struct emx_session *s, emx_time now)
{
    struct emx_list *l;

    while ((l = emx_list_first(&s->rx.held))) {
        struct emx_rxbuf *b = emx_list_entry(l, struct emx_rxbuf, link);
        enum emx_drop why;

        if (b->seq != s->rx.next)
            break;
        why = reorder_handle(s, b->frame, 1, now);
        if (why != EMX_ACCEPTED)
            emx_stats_add(s->e->stats, (enum emx_counter)why, 1); /* it will be retransmitted */
        reorder_drop_held(s, b);
        if (why != EMX_ACCEPTED)
            break;
    }
    reorder_map_held(s);
}

static enum emx_drop reorder_hold(struct emx_session *s, const uint8_t *data)
{
    const struct emx_frame *h = (const void *)data;
    size_t len_bytes = sizeof(*h) + h->body_bytes;
    struct emx_list *pos = s->rx.held.prev;
    struct emx_rxbuf *b;

    while (pos != &s->rx.held && emx_seq_before(h->seq, emx_list_entry(pos, struct emx_rxbuf, link)->seq))
        pos = pos->prev;
    if (pos != &s->rx.held && emx_list_entry(pos, struct emx_rxbuf, link)->seq == h->seq)
        return EMX_DROP_DUPLICATE;
    b = emx_alloc_get(&s->e->alloc, sizeof(*b) + len_bytes);
    if (!b)
        return EMX_DROP_MEMORY;
    b->seq = h->seq;
    b->len_bytes = (uint32_t)len_bytes;
    memcpy(b->frame, data, len_bytes);
    emx_list_insert(pos->next, &b->link);
    s->rx.held_count++;
    s->rx.gap = s->rx.next;
    reorder_map_held(s);
    emx_count(s->e, frames_held);
    return EMX_ACCEPTED;
}

/* Data of the session may still carry an acknowledgement whose delay is over, but soon the peer takes its frame for
 * lost: an acknowledgement leaves before all data when it has waited for this part of rto_min more. */
#define OVERDUE 4

void emx_reorder_owe(struct emx_session *s, emx_time now)
{
    if (emx_reorder_acks_at_once(s)) {
        emx_reorder_ack_now(s);
    } else if (!s->rx.ack_at_ns) {
        s->rx.ack_at_ns = now + s->rx.ack_delay_ns;
        emx_session_arm(s, s->rx.ack_at_ns);
    }
}

void emx_reorder_expire(struct emx_session *s, emx_time now)
{
    if (!s->rx.ack_at_ns || now < s->rx.ack_at_ns)
        return;
    if (s->rx.ack_now) { /* it has waited for other sessions' data as well */
        s->rx.ack_at_ns = 0;
        emx_session_answer(s, s->link);
        return;
    }
    s->rx.ack_at_ns = now + s->e->cfg->p_rto_min / OVERDUE;
    emx_reorder_ack_now(s);
}

static void reorder_broken(struct emx_session *s, emx_time now)
{
    emx_count(s->e, peers_dead);
    emx_event_post(
        s->e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_PEER_DEAD,
        "frames from the peer on host %s are missing although its wire loses none: its memory is damaged, or "
        "this is a fault of ethmx",
        emx_peer_host(s->e, s->peer));
    s->e->up->end(s, EMX_S_DEAD, ETHMX_ERR_PEER_DEAD, now);
}

enum emx_drop emx_reorder_out_of_turn(struct emx_session *s, uint32_t seq, emx_time now)
{
    if (emx_seq_before(seq, s->rx.next))
        return EMX_DROP_DUPLICATE;
    reorder_broken(s, now);
    return EMX_DROP_WINDOW;
}

static enum emx_drop reorder_input_reliable(struct emx_session *s, const uint8_t *data, unsigned n, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    enum emx_drop why;

    if (h->seq != s->rx.next)
        return emx_reorder_out_of_turn(s, h->seq, now);
    why = reorder_call(s, data, now);
    s->rx.next += why == EMX_ACCEPTED ? n : 0;
    return why;
}

/* The sender learns of it whether its retransmissions were needed (send_window.c). */
static void reorder_doubled(struct emx_session *s)
{
    s->rx.doubled++;
    s->rx.doubled_due = true;
}

/* A frame with n sequence numbers. */
static enum emx_drop reorder_input(struct emx_session *s, const uint8_t *data, unsigned n, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    int32_t ahead = (int32_t)(h->seq - s->rx.next);
    enum emx_drop why;

    if (ahead == 0) {
        why = reorder_handle(s, data, n, now);
        if (why == EMX_ACCEPTED && s->rx.held_count)
            reorder_handle_held(s, now);
    } else if (ahead < 0) {
        why = EMX_DROP_DUPLICATE;
    } else if ((uint32_t)ahead > s->e->cfg->p_window) {
        why = EMX_DROP_WINDOW;
    } else {
        why = reorder_hold(s, data);
    }
    if (why == EMX_DROP_DUPLICATE)
        reorder_doubled(s);
    if (why == EMX_DROP_WINDOW)
        emx_reorder_ack_now(s);
    else if (why == EMX_ACCEPTED || why == EMX_DROP_DUPLICATE)
        emx_reorder_owe(s, now);
    return why;
}

/* Handles the chunks of a frame one by one. EMX_ACCEPTED: one of them was accepted. */
static __attribute__((noinline)) enum emx_drop reorder_input_each(struct emx_session *s, const uint8_t *data,
                                                                  unsigned n, emx_time now)
{
    const uint8_t *body = s->e->input_body ? s->e->input_body : data + EMX_CHUNK_HEAD_BYTES;
    uint8_t one[EMX_CHUNK_FRAME_BYTES];
    enum emx_drop why = EMX_ACCEPTED;
    bool any = false;

    s->e->input_body = NULL;
    for (unsigned i = 0; i < n && !emx_session_over(s); i++) {
        emx_chunk_split(one, (const void *)data, body, i);
        why = reorder_input(s, one, 1, now);
        any |= why == EMX_ACCEPTED;
    }
    return any ? EMX_ACCEPTED : why;
}

enum emx_drop emx_reorder_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    unsigned n = h->type == EMX_F_chunk ? emx_chunk_count(h) : 1;

    if (!n)
        return EMX_DROP_MALFORMED;
    if (s->e->reliable_links >> s->e->input_link & 1)
        return reorder_input_reliable(s, data, n, now);
    if (h->type == EMX_F_chunk && (h->seq != s->rx.next || (n > 1 && s->rx.held_count)))
        return reorder_input_each(s, data, n, now);
    return reorder_input(s, data, n, now);
}

void emx_reorder_fini(struct emx_session *s)
{
    struct emx_list *l;

    while ((l = emx_list_first(&s->rx.held)))
        reorder_drop_held(s, emx_list_entry(l, struct emx_rxbuf, link));
    s->rx.early = 0;
    emx_reorder_told(&s->rx);
    emx_reorder_acked(&s->rx);
}
