/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rendezvous: large messages, pulled by the receiver.
 *
 * The sender announces the message (rts, sequenced). When a receive has matched, the receiver requests blocks of up to
 * pull_frames chunks (pull), several at a time. The sender replies to each wanted chunk with a data frame from the
 * user's memory, and the receiver writes it directly into the user's buffer. When all data has arrived, the receiver
 * sends fin (sequenced), and the send completes.
 *
 * pull and data have no sequence numbers: the receiver alone knows what is missing and requests exactly that, as
 * Open-MX's receivers do. A block's missing chunks are requested again when
 *  - the last chunk of its latest request has arrived without them, or chunks of a block that was requested later, and
 *    the peer's frames stay in order (pull_gap.c), or
 *  - nothing of the message has arrived for a time-out, which is measured from how long blocks take. Then only one
 *    chunk of the oldest block is requested: its reply shows whether the others are lost, and a sender that was only
 *    busy sends one frame twice. (TCP does the same after a time-out: RFC 5681, section 3.1.)
 * Duplicate chunks are detected by the block's map and dropped.
 *
 * The blocks that are requested and have not arrived are limited, over all peers (see pace.h; pull_window at most). The
 * messages that want more get them in turn. So many senders to one receiver share its link instead of overflowing it,
 * as in Homa (Montazeri et al., SIGCOMM 2018). pull_away.c has what happens when a sender does not respond.
 *
 * The frames of a route may become shorter (connect.c). Then the sender replies to a pull of too long chunks with the
 * new length (shorter). The receiver requests all from the first missing byte on again, in chunks of that length. What
 * had arrived behind that arrives twice and is ignored (emx_received_map). It is little, because all long frames are
 * lost at that time. Pulls and data have the chunk length that they count in, so that late ones of the other length are
 * recognized.
 *
 * GSO packets (offload_probe.c). If the route has them, all frames of a block that is requested for the first time are
 * marked for one, or none. Retransmissions are always single frames.
 */
#include <string.h>

#include "base/heap.h"
#include "base/min.h"
#include "core/cc/pace.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/lapse.h"
#include "core/msg/op.h"
#include "core/msg/pull_away.h"
#include "core/msg/pull_gap.h"
#include "core/msg/pull_rail.h"
#include "core/msg/push.h"
#include "core/msg/read.h"
#include "core/msg/received_map.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/rtt.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define WINDOW_BLOCKS 4   /* the pull window holds at least this many blocks, if chunks are short enough */
#define CHUNK_LEAST   128 /* shorter than the chunks of any route */
#define JOIN_MAX      15  /* blocks that a pull can request besides its first: emx_f_pull.more has four bits */
#define SHORTER_MAX   16  /* more often than chunks of a message can become shorter */

/* ---- Receiver: start and end ---- */

struct emx_txbuf *emx_rndv_make_fin(struct emx_session *s, uint32_t sender_op, uint64_t pulled_bytes)
{
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, sizeof(struct emx_frame) + sizeof(struct emx_f_fin));
    struct emx_frame *h;

    if (!b)
        return NULL;
    h = emx_txbuf_frame(b);
    emx_engine_head(s->e, s->peer, h, EMX_F_fin, sizeof(struct emx_f_fin));
    *(struct emx_f_fin *)(h + 1) = (struct emx_f_fin){.op = sender_op, .pulled_bytes = pulled_bytes};
    return b;
}

static void pull_free_rndv(struct emx_engine *e, struct emx_rndv *r)
{
    struct emx_received_map *had;

    emx_list_del(&r->wait);
    if (r->reading)
        emx_read_ended(e, r->op->peer->session->link);
    emx_list_del(&r->due);
    emx_list_del(&r->asking);
    emx_heap_clear(&e->timers, &r->timer);
    e->timer_reserve--;
    if (r->fin)
        emx_txbuf_put(&e->txbufs, r->fin);
    while ((had = r->had)) {
        r->had = had->next;
        emx_alloc_put(&e->alloc, had);
    }
    if (r->block != r->own_block)
        emx_pool_put(&e->many_blocks, r->block);
    emx_pool_put(&e->rndvs, r);
}

/* ---- Receiver: requests ---- */

static void pull_want(struct emx_rndv *r, struct emx_block *b)
{
    struct emx_session *s = r->op->peer->session;

    b->due = true;
    if (!emx_list_linked(&r->due))
        emx_list_append(&s->pulling.pulls, &r->due);
    emx_session_ready(s);
}

/* Chunks in the next block: fewer if they are long, so that several blocks are in flight; and no more than a GSO packet
 * takes, so that the sender fills one for each block. */
static uint64_t pull_block_chunks(struct emx_engine *e, const struct emx_rndv *r, unsigned rail)
{
    struct emx_session *s = r->op->peer->session;
    uint64_t left = r->chunks - r->next_chunk;
    uint64_t bytes = emx_min(e->cfg->p_pull_window / WINDOW_BLOCKS, emx_pace_part(emx_pull_pace(e, rail)));
    uint64_t most = emx_min(bytes / r->chunk_bytes, e->cfg->p_pull_frames);

    if (s->gso_bytes)
        most = emx_min(most, EMX_WIRE_JOIN_BYTES / (r->chunk_bytes + EMX_RNDV_HEAD_BYTES));

    return emx_min(left, most && !emx_away_is_unsure(e, r) ? most : 1);
}

/* Makes room for another block. Few messages need room for all that a message can have: those for which a large window
 * is open, so that all of them together have no more blocks than it holds. false: no memory. */
static bool pull_make_room(struct emx_engine *e, struct emx_rndv *r)
{
    struct emx_block *many;

    if (r->active < EMX_BLOCKS_OWN || r->block != r->own_block)
        return true;
    many = emx_pool_get(&e->many_blocks);
    if (!many)
        return false;
    memcpy(many, r->own_block, sizeof(r->own_block));
    r->block = many;
    return true;
}

/* The next n chunks, which now count as requested, as a block. */
static struct emx_block *pull_add_chunks(struct emx_engine *e, struct emx_rndv *r, uint64_t n, unsigned rail)
{
    struct emx_block *b = &r->block[r->active++];

    *b = (struct emx_block){.first = r->next_chunk, .missing = emx_rndv_map(n), .rail = rail & 0xf};
    r->next_chunk += n;
    emx_pull_asked(r->op->peer->session, rail, (int64_t)(n * r->chunk_bytes));
    b->ahead_bytes = (uint32_t)emx_pull_asked_bytes(e, rail);
    if (!emx_list_linked(&r->asking))
        emx_list_append(&e->asking, &r->asking);
    return b;
}

static void pull_add_block(struct emx_engine *e, struct emx_rndv *r, unsigned rail)
{
    pull_want(r, pull_add_chunks(e, r, pull_block_chunks(e, r, rail), rail));
}

static bool pull_wants_more(const struct emx_engine *e, const struct emx_rndv *r)
{
    return r->next_chunk < r->chunks && r->active < EMX_BLOCKS && !r->away && !(r->active && emx_away_is_unsure(e, r));
}

/* ---- Receiver: requests in turn ---- */

/* The message has its turn: requests another block, and waits for its next turn if it wants more. */
static void pull_take_turn(struct emx_engine *e, struct emx_rndv *r, unsigned rail, emx_time now)
{
    emx_list_del(&r->wait);
    if (!r->active) { /* the message waited for its turn: nothing was late */
        r->last_ns = now;
        r->last_pulled_bytes = e->pulled_bytes;
    }
    if (!pull_make_room(e, r)) /* waits again when a block is complete */
        return;
    pull_add_block(e, r, rail);
    if (pull_wants_more(e, r))
        emx_list_append(&e->pull_wait, &r->wait);
}

/* The first message that waits for rail 0. */
static struct emx_rndv *pull_next_turn(const struct emx_engine *e)
{
    emx_list_each(l, &e->pull_wait)
    {
        struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, wait);

        if (emx_pull_first_rail_works(r->op->peer->session))
            return r;
    }
    return NULL;
}

/* The rail other than 0 for the message's next block; 0: none. */
static unsigned pull_choose_rail(struct emx_engine *e, const struct emx_rndv *r, emx_time now)
{
    struct emx_session *s = r->op->peer->session;

    if (!s->rails || r->away || emx_away_is_unsure(e, r))
        return 0;
    emx_rails_ask(s, now);
    return emx_pull_choose(s, pull_block_chunks(e, r, 1) * r->chunk_bytes,
                           (r->chunks - r->next_chunk) * r->chunk_bytes);
}

/* What rail 0 has no room for is requested over others: a block of each message in turn. */
static void pull_more_over_rails(struct emx_engine *e, emx_time now)
{
    bool more = true;

    while (more) {
        more = false;
        emx_list_each_safe(l, next, &e->pull_wait)
        {
            struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, wait);
            unsigned rail = pull_choose_rail(e, r, now);

            if (rail)
                pull_take_turn(e, r, rail, now);
            more |= rail;
        }
    }
}

/* Room in the window before a message requests more that has requested something already: one frame can request
 * several blocks. */
static uint64_t pull_group_bytes(const struct emx_engine *e, const struct emx_rndv *r)
{
    uint64_t left_bytes = (r->chunks - r->next_chunk) * r->chunk_bytes;

    return emx_min(left_bytes, emx_pace_spare(&e->pace));
}

void emx_rndv_more(struct emx_engine *e, emx_time now)
{
    bool first = true;
    struct emx_rndv *r;

    while ((r = pull_next_turn(e))) {
        uint64_t bytes = pull_block_chunks(e, r, 0) * r->chunk_bytes;

        if (first && r->active)
            bytes = emx_max(bytes, pull_group_bytes(e, r));
        if (e->pulling_bytes && e->pulling_bytes + bytes > e->pace.limit_bytes) {
            emx_away_look_soon(e, now);
            break;
        }
        pull_take_turn(e, r, 0, now);
        first = false;
    }
    if (e->railed)
        pull_more_over_rails(e, now);
}

void emx_rndv_look(struct emx_engine *e, emx_time now)
{
    emx_away_look(e, now);
    emx_rndv_more(e, now);
}

/* Time does not count while data of others arrives that may have been queued before the message's own. */
static emx_time pull_late_ns(const struct emx_rndv *r)
{
    struct emx_session *s = r->op->peer->session;
    const struct emx_engine *e = s->e;
    emx_time from_ns = e->pulled_ns > r->last_ns && !emx_away_is_overtaken(e, r) ? e->pulled_ns : r->last_ns;
    emx_time timeout_ns = emx_pull_timeout_ns(s, r);

    if (s->rails)
        from_ns = emx_pull_rails_from_ns(s, r, from_ns, timeout_ns);
    return from_ns + timeout_ns;
}

/* Starts the timer for requested data. */
static void pull_await(struct emx_rndv *r, emx_time now)
{
    const struct emx_session *s = r->op->peer->session;
    emx_time late_ns;

    if (!r->active || emx_timer_is_set(&r->timer))
        return;
    late_ns = pull_late_ns(r);
    if (late_ns <= now)
        late_ns = now + s->pulling.block_rtt.rto_ns;
    emx_heap_set(&s->e->timers, &r->timer, emx_min(late_ns, emx_max(r->gap_ns, now + 1)));
}

/* Takes the next block to request out of its message's due ones; NULL: none. A message without due blocks may have been
 * late, and the block to be requested again has arrived before the request: others may be missing, so the timer starts.
 */
static struct emx_block *pull_next_due(struct emx_session *s, struct emx_rndv **r_p, emx_time now)
{
    struct emx_list *l;

    while ((l = emx_list_first(&s->pulling.pulls))) {
        struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, due);

        for (struct emx_block *b = r->block; b < r->block + r->active; b++)
            if (b->due) {
                *r_p = r;
                return b;
            }
        emx_list_del(&r->due);
        pull_await(r, now);
    }
    return NULL;
}

static void pull_asked(struct emx_rndv *r, struct emx_block *b, emx_time now)
{
    b->asked = b->timed_out ? UINT64_C(1) << emx_rndv_highest_bit(b->missing) : b->missing;
    b->due = b->overtaken = false;
    b->asked_ns = now;
    if (r->op->peer->session->rails)
        emx_pull_await_rail(r, b, now);
}

/* The message's first chunks are on their way: as a block that was just requested. */
static void pull_expect_pushed(struct emx_session *s, struct emx_rndv *r, emx_time now)
{
    struct emx_block *b = pull_add_chunks(s->e, r, r->pushed, 0);

    b->pushed = true;
    pull_asked(r, b, now);
    r->last_pulled_bytes = s->e->pulled_bytes;
    s->pushed_rx = r->op->id;
    s->early = false;
    pull_await(r, now);
}

void emx_rndv_pull_rest(struct emx_engine *e, struct emx_rndv *r, uint64_t got_bytes, emx_time now)
{
    struct emx_session *s = r->op->peer->session;

    r->next_chunk = r->got_chunks = got_bytes / r->chunk_bytes;
    r->last_ns = now;
    if (emx_rails_open(s))
        emx_rails_ask(s, now);
    if (r->pushed && !s->rails)
        pull_expect_pushed(s, r, now);
    r->pushed = 0;
    if (pull_wants_more(e, r))
        emx_list_append(&e->pull_wait, &r->wait);
    emx_rndv_more(e, now);
}

/* How many due blocks follow b that its pull frame can request as well. Now they are asked. */
static unsigned pull_join_due(struct emx_rndv *r, const struct emx_block *b, emx_time now)
{
    uint64_t chunks = (unsigned)__builtin_popcountll(b->missing), next = b->first + chunks;
    unsigned first = (unsigned)(b - r->block) + 1, i = first;

    if (b->round || b->missing != emx_rndv_map(chunks))
        return 0;
    for (; i < r->active && i - first < JOIN_MAX; i++, next += chunks) {
        struct emx_block *more = &r->block[i];

        if (!more->due || more->round || more->rail != b->rail || more->first != next ||
            more->missing != emx_rndv_map(emx_min(chunks, r->chunks - next)))
            break;
        pull_asked(r, more, now);
    }
    return i - first;
}

bool emx_rndv_output_pull(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now)
{
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_pull *t = (void *)(h + 1);
    struct emx_rndv *r;
    struct emx_block *b = pull_next_due(s, &r, now);

    if (!b)
        return false;
    pull_asked(r, b, now);
    *t = (struct emx_f_pull){.op = r->sender_op,
                             .rop = r->op->id,
                             .first = b->first,
                             .wanted = b->asked,
                             .round = b->round,
                             .rail = b->rail,
                             .more = pull_join_due(r, b, now) & JOIN_MAX,
                             .chunk_bytes = r->chunk_bytes,
                             .joined = s->offload.joined_rx};
    emx_engine_head(s->e, s->peer, h, EMX_F_pull, sizeof(*t));
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = sizeof(*h) + sizeof(*t)};
    emx_engine_seal(s, h, f, s->seal);
    emx_count(s->e, pulls_sent);
    if (t->round)
        emx_count(s->e, pulls_resent);
    pull_await(r, now);
    emx_session_asked(s, now);
    return true;
}

static void pull_ask_again(struct emx_rndv *r, struct emx_block *b)
{
    if (b->due)
        return;
    emx_pull_change_rail(r, b, emx_pull_choose_again(r->op->peer->session, b->rail, false));
    b->round = b->round < UINT8_MAX ? b->round + 1 : 1; /* 0 is the first attempt */
    b->gap = b->timed_out = b->pushed = false;
    pull_want(r, b);
}

/* Nothing has arrived for a time-out: one chunk will tell why. */
static void pull_ask_for_one(struct emx_rndv *r, struct emx_block *b)
{
    if (b->due)
        return;
    pull_ask_again(r, b);
    b->timed_out = true;
}

/* Blocks are lost: bit i is for block i. One that timed out does not count as congestion: often only its last chunk or
 * the request was lost. */
static void pull_lost(struct emx_rndv *r, uint64_t lost)
{
    struct emx_engine *e = r->op->peer->session->e;

    for (; lost; lost &= lost - 1) {
        struct emx_block *b = &r->block[__builtin_ctzll(lost)];

        if (!b->timed_out)
            emx_pace_lost(emx_pull_pace(e, b->rail), emx_pull_block_bytes(r, b), r->chunk_bytes);
        pull_ask_again(r, b);
        b->gap = true;
    }
}

void emx_pull_ask_others(struct emx_session *s, unsigned rail)
{
    emx_list_each(l, &s->e->asking)
    {
        struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, asking);

        for (unsigned i = 0; r->op->peer->session == s && i < r->active; i++)
            if (r->block[i].rail == rail)
                pull_ask_again(r, &r->block[i]);
    }
}

/* Requests over others what a rail has not carried while another has. Returns when to look at the rails again. */
static emx_time pull_check_rails(struct emx_rndv *r, emx_time now)
{
    struct emx_session *s = r->op->peer->session;
    emx_time next_ns = EMX_NEVER;
    unsigned failed = 0;

    for (struct emx_block *b = r->block; b < r->block + r->active; b++) {
        emx_time late_ns = b->due ? EMX_NEVER : emx_pull_rail_late_ns(s, b, now);

        next_ns = emx_min(next_ns, late_ns > now ? late_ns : EMX_NEVER);
        if (late_ns > now)
            continue;
        if (!(failed >> b->rail & 1))
            emx_rail_failed(&s->rails->rail[b->rail], now);
        failed |= 1u << b->rail;
        pull_ask_again(r, b);
    }
    if (failed && !emx_list_empty(&s->e->pull_wait))
        emx_rndv_more(s->e, now);
    return next_ns;
}

void emx_rndv_expire(struct emx_rndv *r, emx_time now)
{
    emx_time rails_ns = EMX_NEVER;
    struct emx_session *s = r->op->peer->session;
    struct emx_engine *e = s->e;

    emx_heap_clear(&e->timers, &r->timer);
    if (!r->active)
        return;
    pull_lost(r, emx_gap_expire(r, now));
    if (s->rails)
        rails_ns = pull_check_rails(r, now);
    if (now < pull_late_ns(r)) {
        emx_heap_set(&e->timers, &r->timer, emx_min(emx_min(rails_ns, r->gap_ns), pull_late_ns(r)));
        return;
    }
    if (s->rails)
        emx_pull_leave_rail(r, &r->block[0], now);
    pull_ask_for_one(r, &r->block[0]);
    if (r->backoff < UINT16_MAX)
        r->backoff++;
    r->last_ns = now;
    r->last_pulled_bytes = e->pulled_bytes;
}

static void pull_forget_blocks(struct emx_engine *e, struct emx_rndv *r)
{
    if (r->away)
        emx_away_count_again(e, r);
    for (unsigned i = 0; i < r->active; i++)
        emx_pull_asked(r->op->peer->session, r->block[i].rail, -(int64_t)emx_pull_block_bytes(r, &r->block[i]));
    r->active = 0;
    r->gap_ns = EMX_NEVER;
    emx_list_del(&r->asking);
    emx_list_del(&r->due);
}

void emx_rndv_drop(struct emx_engine *e, struct emx_op *op)
{
    struct emx_rndv *r = op->rndv;

    pull_forget_blocks(e, r);
    op->rndv = NULL;
    pull_free_rndv(e, r);
}

/* Blocks are ordered by age, oldest first. */
static uint64_t pull_first_missing(const struct emx_rndv *r)
{
    return r->active ? r->block[0].first + (unsigned)__builtin_ctzll(r->block[0].missing) : r->next_chunk;
}

enum emx_drop emx_rndv_input_shorter(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_shorter *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_engine *e = s->e;
    struct emx_op *op = emx_op_by_id(e, f->rop, s);
    struct emx_rndv *r;
    uint64_t got_bytes;

    if (f->chunk_bytes < CHUNK_LEAST || f->chunk_bytes % 8)
        return EMX_DROP_MALFORMED;
    if (!op || op->where != EMX_OP_PULLING || op->rndv->reading || f->chunk_bytes >= op->rndv->chunk_bytes)
        return EMX_DROP_STALE;
    r = op->rndv;
    if (r->shortened == SHORTER_MAX)
        return EMX_DROP_MALFORMED;
    if (!emx_received_map_add(e, r))
        return EMX_DROP_MEMORY;
    r->shortened++;
    got_bytes = pull_first_missing(r) * r->chunk_bytes;
    pull_forget_blocks(e, r);
    emx_list_del(&r->wait);
    r->chunk_bytes = f->chunk_bytes;
    r->chunks = emx_rndv_chunks(r->want_bytes, r->chunk_bytes);
    r->backoff = 0;
    emx_count(e, messages_shortened);
    emx_rndv_pull_rest(e, r, got_bytes, now);
    return EMX_ACCEPTED;
}

/* ---- Receiver: data ---- */

/* Writes the data where it belongs, unless the wire has done so. false: it has put it elsewhere. */
static bool pull_take(struct emx_engine *e, const struct emx_rndv *r, uint64_t offset, const uint8_t *data, size_t n)
{
    if (e->input_body)
        return data == emx_data_piece(&r->op->data, offset, n);
    emx_received_map_write(&r->op->data, r->had, offset, data, n);
    emx_add(e, bytes_copied, n);
    return true;
}

static void pull_end_block(struct emx_session *s, struct emx_rndv *r, struct emx_block *b, emx_time now)
{
    struct emx_engine *e = s->e;

    if (!b->round && !b->late && !b->pushed)
        emx_pull_measured(s, b, now - b->asked_ns);
    memmove(b, b + 1, (size_t)(r->block + r->active - (b + 1)) * sizeof(*b));
    r->active--;
    if (!r->active)
        emx_list_del(&r->asking);
    if (pull_wants_more(e, r) && !emx_list_linked(&r->wait))
        emx_list_append(&e->pull_wait, &r->wait);
}

void emx_rndv_finish(struct emx_session *s, struct emx_op *op)
{
    struct emx_engine *e = s->e;
    struct emx_rndv *r = op->rndv;

    emx_send_window_control(s, r->fin ? r->fin : emx_rndv_make_fin(s, r->sender_op, r->want_bytes));
    r->fin = NULL;
    op->rndv = NULL;
    pull_free_rndv(e, r);
    emx_op_received(e, op, op->msg_bytes);
}

/* The sender responds again. The round trips of blocks requested meanwhile are not measured. */
static void pull_come_back(struct emx_session *s, struct emx_rndv *r)
{
    struct emx_engine *e = s->e;

    emx_away_count_again(e, r);
    for (unsigned i = 0; i < r->active; i++)
        if (!r->block[i].round)
            r->block[i].late = true;
    if (pull_wants_more(e, r) && !emx_list_linked(&r->wait))
        emx_list_append(&e->pull_wait, &r->wait);
}

/* n bytes have arrived: chunks that are missing in the block b, from `chunk` on. */
static enum emx_drop pull_input_chunks(struct emx_session *s, struct emx_rndv *r, struct emx_block *b,
                                       const struct emx_f_data *f, uint64_t chunk, const uint8_t *data, size_t n,
                                       emx_time now)
{
    unsigned chunks = (unsigned)emx_rndv_chunks(n, r->chunk_bytes), bit = (unsigned)(chunk - b->first);
    unsigned rail = s->rails ? f->rail : 0;
    uint64_t chunk_bytes = r->chunk_bytes;
    struct emx_op *op = r->op;
    struct emx_engine *e = s->e;
    bool last; /* the reply to the last request for the block, over its rail */

    /* The last chunk causes the fin, which needs memory. */
    if (r->got_chunks + chunks == r->chunks && emx_pool_reserve(&e->txbufs.pool[EMX_TXBUF_SMALL]))
        return EMX_DROP_MEMORY;
    if (!pull_take(e, r, chunk * r->chunk_bytes, data, n))
        return EMX_DROP_STALE;
    if (s->get.min_bytes && op->msg_bytes >= s->get.min_bytes)
        emx_add(e, bytes_unread, n);
    emx_gap_answered(s, b, f->round);
    last = f->round == b->round && rail == b->rail;
    if (last && !b->round && !b->pushed && b->missing == b->asked)
        emx_away_answered(s, r, b, now);
    if (r->away)
        pull_come_back(s, r);
    b->missing &= ~(emx_rndv_map(chunks) << bit);
    rail = b->rail;
    emx_pull_asked(s, rail, -(int64_t)((uint64_t)chunks * r->chunk_bytes));
    if (!rail) {
        e->pulled_bytes += n;
        e->pulled_ns = now;
    } else {
        emx_add(e, bytes_railed, n);
    }
    s->pulling.data_ns = r->last_ns = now;
    if (s->rails && f->round == b->round)
        emx_pull_replied(s, b, now);
    r->last_pulled_bytes = e->pulled_bytes;
    r->got_chunks += chunks;
    r->backoff = 0;
    if (f->round == b->round && !f->pushed)
        emx_lapse_trust(s, b->asked_ns, now);
    if (last)
        pull_lost(r, emx_gap_find(r, b, bit + chunks - 1, now));
    if (!b->missing)
        pull_end_block(s, r, b, now);
    if (r->got_chunks == r->chunks)
        emx_rndv_finish(s, op);
    emx_pace_arrived(emx_pull_pace(e, rail), n, chunk_bytes, !emx_list_empty(&e->pull_wait));
    if (!emx_list_empty(&e->pull_wait))
        emx_rndv_more(e, now);
    return EMX_ACCEPTED;
}

/* A frame has one chunk, or, if the wire has made it of a TSO packet, several. */
enum emx_drop emx_rndv_input_data(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_data *f = (const void *)(h + 1);
    struct emx_engine *e = s->e;
    const uint8_t *at = e->input_body ? e->input_body : (const uint8_t *)(f + 1);
    struct emx_rndv *r = emx_rndv_of_data(s, f);
    size_t n, left = h->body_bytes - sizeof(*f);
    enum emx_drop why = EMX_DROP_DUPLICATE;
    uint64_t chunk = f->chunk;

    if (s->rails)
        emx_pull_heard(s, f->rail, now);
    if (!r) {
        if (f->pushed)
            emx_push_dropped(s, f);
        return EMX_DROP_STALE;
    }
    if (!emx_rndv_has_chunks(r, chunk, left))
        return EMX_DROP_MALFORMED;
    for (bool ended = false; left && !ended; at += n, left -= n) {
        struct emx_block *b;
        uint64_t missing = emx_rndv_missing(r, chunk, &b);

        n = emx_min(left, (missing ? missing : 1) * r->chunk_bytes);
        if (missing) {
            enum emx_drop one;

            missing = emx_rndv_chunks(n, r->chunk_bytes);
            ended = r->got_chunks + missing == r->chunks;
            one = pull_input_chunks(s, r, b, f, chunk, at, n, now);
            if (one != EMX_ACCEPTED)
                return why == EMX_ACCEPTED ? why : one;
            why = one;
        } else if (!s->rails) {
            emx_pace_twice(&e->pace, n);
        }
        chunk += missing ? missing : 1;
    }
    return why;
}
