/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bundle: several small messages to one peer in one frame. A frame by itself costs a system call and a walk through two
 * kernels, about ten times what the message costs here. So when messages follow each other closely they are gathered.
 *
 * What must not suffer is the message that somebody waits for. So the first ones leave at once, each in its own frame:
 * only while frames to the peer are under way (patience) and the last small message was sent a moment ago is
 * a bundle begun. It is the last frame of the window, has its number, and waits to be sent: until it is full, another
 * frame follows it, the program runs the pump (because it waits for something) or batch_delay is over. In a ping-pong
 * nothing is ever gathered.
 *
 * A program that sends and then computes would only lose by it. Each time that batch_delay had to end the waiting,
 * patience doubles; it falls again with each bundle that was well filled.
 *
 * Synchronous and active messages, and those that do not fit twice, go by themselves; so do all on reliable routes,
 * where a frame costs little.
 */
#include "proto/impl.h"

#define PATIENCE_MAX 48   /* less than most windows, so that it can fall again */
#define CLOSE_PART   64   /* "a moment": this part of batch_delay. With the default 16 us, some ten messages' time */
#define BUNDLE_BYTES 4096 /* frame: longer ones gain nothing, and keep the peer waiting */
#define FILLED_BYTES 128  /* data and envelopes of a bundle that was worth it */

static size_t limit_bytes(const struct emx_session *s)
{
    size_t bytes = s->frame_bytes < s->e->seq_frame_bytes ? s->frame_bytes : s->e->seq_frame_bytes;

    return bytes < BUNDLE_BYTES ? bytes : BUNDLE_BYTES;
}

/* ---- Out ---- */

void emx_bundle_let_go(struct emx_session *s, bool late)
{
    emx_list_del(&s->waiting);
    emx_session_ready(s);
    if (!late)
        return;
    emx_count(s->e, bundles_late);
    s->late = true;
    if (s->patience < PATIENCE_MAX)
        s->patience *= 2;
}

void emx_bundle_close(struct emx_session *s)
{
    if (emx_bundle_waits(s))
        emx_bundle_let_go(s, false);
    if (!s->late && s->open->len_bytes >= sizeof(struct emx_frame) + FILLED_BYTES)
        s->patience = EMX_BUNDLE_PATIENCE;
    s->open = NULL;
}

void emx_bundle_expire(struct emx_session *s, emx_time now)
{
    if (emx_bundle_waits(s) && now >= s->wait_until_ns)
        emx_bundle_let_go(s, true);
}

static bool worth_waiting(struct emx_session *s, emx_time now)
{
    bool close = now - s->small_ns < s->e->cfg->p_batch_delay / CLOSE_PART;

    s->small_ns = now;
    if (!s->patience)
        s->patience = EMX_BUNDLE_PATIENCE;
    return close && s->tx_next - s->tx_acked >= s->patience;
}

/* An empty bundle that waits; false: no memory or no room. */
static bool begin(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;
    struct emx_txbuf *b;
    struct emx_frame *h;

    if (!emx_reltx_room(s) || !(b = emx_reltx_get(e, limit_bytes(s))))
        return false;
    h = emx_txbuf_frame(b);
    emx_engine_head(e, s->peer, h, EMX_F_bundle, sizeof(struct emx_f_bundle));
    *(struct emx_f_bundle *)(h + 1) = (struct emx_f_bundle){0};
    b->len_bytes = sizeof(*h) + sizeof(struct emx_f_bundle);
    emx_reltx_push(s, b);
    s->open = b;
    s->late = false;
    s->wait_until_ns = now + e->cfg->p_batch_delay;
    emx_list_append(&e->waiting, &s->waiting);
    e->hints.waits |= EMX_WAITS_BUNDLE;
    emx_session_arm(s, s->wait_until_ns);
    emx_count(e, bundles_sent);
    return true;
}

static void append(struct emx_session *s, const struct emx_op_args *a)
{
    struct emx_txbuf *b = s->open;
    size_t n = a->data.len_bytes;
    struct emx_f_part *t = (struct emx_f_part *)(b->frame + b->len_bytes);

    *t = (struct emx_f_part){.bits = a->bits, .len_bytes = (uint16_t)n};
    emx_data_read(&a->data, 0, (uint8_t *)(t + 1), n);
    b->len_bytes += (uint16_t)(sizeof(*t) + n);
    emx_txbuf_frame(b)->body_bytes += (uint16_t)(sizeof(*t) + n);
}

/* The timer would do it too, but a program that does nothing but send does not look at timers. */
static void expire_all(struct emx_engine *e, emx_time now)
{
    struct emx_list *l;

    while ((l = emx_list_first(&e->waiting)) && emx_list_entry(l, struct emx_session, waiting)->wait_until_ns <= now)
        emx_bundle_let_go(emx_list_entry(l, struct emx_session, waiting), true);
}

bool emx_bundle_add(struct emx_session *s, const struct emx_op_args *a, emx_time now)
{
    size_t limit = limit_bytes(s), need = sizeof(struct emx_f_part) + a->data.len_bytes;
    struct emx_engine *e = s->e;
    bool fits;

    if (s->reliable || a->is_am || need > (limit - sizeof(struct emx_frame) - sizeof(struct emx_f_bundle)) / 2)
        return false;
    fits = s->open && s->open->len_bytes + need <= limit;
    if (worth_waiting(s, now))
        e->gatherable++;
    else if (!fits)
        return false;
    if (!e->gathers || !emx_credit_take(s, emx_eager_cost(a->data.len_bytes)))
        return false;
    if (!fits && !begin(s, now)) {
        s->credit_used -= emx_eager_cost(a->data.len_bytes);
        return false;
    }
    append(s, a);
    emx_count(e, sent_small);
    emx_count(e, sent_gathered);
    if (s->open->len_bytes + need > limit)
        emx_bundle_close(s);
    expire_all(e, now);
    return true;
}

/* ---- In ---- */

/* Whether the parts from `at` on fill the body exactly and the peer has credit for all. */
static bool plausible(const struct emx_session *s, const uint8_t *at, size_t left_bytes)
{
    uint64_t cost = 0;

    if (s->rx_op || s->rx_arrival || s->swallow)
        return false; /* the last message is not whole */
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
    return cost <= s->share && s->rx_charged - s->rx_released + cost <= s->share;
}

enum emx_drop emx_bundle_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const uint8_t *first = data + sizeof(*h) + sizeof(struct emx_f_bundle), *end = data + sizeof(*h) + h->body_bytes;
    const uint8_t *at = first + s->rx_parts_bytes;

    (void)now;
    if (at >= end || !plausible(s, at, (size_t)(end - at)))
        return EMX_DROP_MALFORMED;
    while (at < end) {
        const struct emx_f_part *t = (const void *)at;
        struct emx_f_eager f = {.bits = t->bits, .total_bytes = t->len_bytes};
        enum emx_drop why = emx_eager_accept(s, &f, (const uint8_t *)(t + 1), t->len_bytes);

        if (why != EMX_ACCEPTED) {
            s->rx_parts_bytes = (uint16_t)(at - first); /* it comes again, and goes on here */
            return why;
        }
        at += sizeof(*t) + t->len_bytes;
    }
    s->rx_parts_bytes = 0;
    return EMX_ACCEPTED;
}
