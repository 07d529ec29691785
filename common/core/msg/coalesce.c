/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Coalescing: several small messages to one peer in one frame.
 *
 * While frames can leave, a small message leaves immediately in its own frame. They cannot leave if the wire has no
 * room, or if the congestion window, the peer's window or the credit is used up. Then a small message joins the last
 * frame that has not left, if that is a coalesced frame with room. Otherwise it begins such a frame. So messages share
 * a frame only if each would have to wait anyway, as with TCP's automatic corking behind a full queue of the card. No
 * timer is involved, and no message waits for the program's next call if it could leave.
 *
 * Synchronous and active messages, and those too long for two in a frame, have their own frames. So do all messages on
 * reliable routes, where a frame costs little.
 */
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/coalesce.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/rel/credit.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define BUNDLE_BYTES 4096 /* longer frames gain nothing, and delay the peer */

static size_t coalesce_limit_bytes(const struct emx_session *s)
{
    size_t bytes = s->frame_bytes < s->e->seq_frame_bytes ? s->frame_bytes : s->e->seq_frame_bytes;

    return bytes < BUNDLE_BYTES ? bytes : BUNDLE_BYTES;
}

/* ---- Out ---- */

/* Starts a coalesced frame at the end of the window. false: no memory or no room. */
static bool coalesce_begin(struct emx_session *s)
{
    struct emx_engine *e = s->e;
    struct emx_txbuf *b;
    struct emx_frame *h;

    if (!emx_send_window_room(&s->tx) || !(b = emx_txbuf_get(&e->txbufs, coalesce_limit_bytes(s))))
        return false;
    h = emx_txbuf_frame(b);
    emx_engine_head(e, s->peer, h, EMX_F_coalesced, sizeof(struct emx_f_coalesced));
    *(struct emx_f_coalesced *)(h + 1) = (struct emx_f_coalesced){0};
    b->len_bytes = sizeof(*h) + sizeof(struct emx_f_coalesced);
    emx_send_window_push(s, b);
    emx_send_window_open(&s->tx, b);
    emx_count(e, frames_coalesced);
    return true;
}

static void coalesce_append(struct emx_session *s, const struct ethmx_data *data, uint64_t bits)
{
    struct emx_txbuf *b = s->tx.open;
    size_t n = data->len_bytes;
    struct emx_f_part *t = (struct emx_f_part *)(b->frame + b->len_bytes);

    *t = (struct emx_f_part){.bits = bits, .len_bytes = (uint16_t)n};
    emx_data_read(data, 0, (uint8_t *)(t + 1), n);
    b->len_bytes += (uint16_t)(sizeof(*t) + n);
    emx_txbuf_frame(b)->body_bytes += (uint16_t)(sizeof(*t) + n);
}

bool emx_coalesce_add(struct emx_session *s, const struct ethmx_data *data, uint64_t bits)
{
    size_t limit = coalesce_limit_bytes(s), need = sizeof(struct emx_f_part) + data->len_bytes;

    if (s->tx.send_next == &s->tx.unacked)
        return false; /* frames can leave */
    if (s->reliable || need > (limit - sizeof(struct emx_frame) - sizeof(struct emx_f_coalesced)) / 2)
        return false;
    if (!emx_credit_take(&s->credit, emx_eager_cost(data->len_bytes)))
        return false;
    if ((!s->tx.open || s->tx.open->len_bytes + need > limit) && !coalesce_begin(s)) {
        emx_credit_untake(&s->credit, emx_eager_cost(data->len_bytes));
        return false;
    }
    coalesce_append(s, data, bits);
    emx_count(s->e, sent_small);
    emx_count(s->e, sent_coalesced);
    return true;
}

/* ---- In ---- */

/* Whether the parts from `at` on fill the body exactly, and the peer has credit for all. */
static bool coalesce_is_valid(const struct emx_session *s, const uint8_t *at, size_t left_bytes)
{
    uint64_t cost = 0;

    if (!emx_eager_rx_idle(&s->eager))
        return false;
    do {
        const struct emx_f_part *t = (const void *)at;
        size_t part_bytes;

        if (left_bytes < sizeof(*t) || left_bytes - sizeof(*t) < t->len_bytes)
            return false;
        part_bytes = sizeof(*t) + t->len_bytes;
        cost += emx_eager_cost(t->len_bytes);
        at += part_bytes;
        left_bytes -= part_bytes;
    } while (left_bytes);
    return cost <= s->credit.share && s->credit.charged - s->credit.released + cost <= s->credit.share;
}

enum emx_drop emx_coalesce_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const uint8_t *first = data + sizeof(*h) + sizeof(struct emx_f_coalesced), *end = data + sizeof(*h) + h->body_bytes;
    const uint8_t *at = first + s->coalesce.parts_bytes;

    (void)now;
    if (at >= end || !coalesce_is_valid(s, at, (size_t)(end - at)))
        return EMX_DROP_MALFORMED;
    while (at < end) {
        const struct emx_f_part *t = (const void *)at;
        struct emx_f_eager f = {.bits = t->bits, .total_bytes = t->len_bytes};
        enum emx_drop why = emx_eager_accept(s, &f, (const uint8_t *)(t + 1), t->len_bytes);

        if (why != EMX_ACCEPTED) {
            s->coalesce.parts_bytes = (uint16_t)(at - first); /* the frame is retransmitted, and continues here */
            return why;
        }
        at += sizeof(*t) + t->len_bytes;
    }
    s->coalesce.parts_bytes = 0;
    return EMX_ACCEPTED;
}
