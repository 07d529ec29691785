/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine: where the files of this room meet. Sending decides the class of a message, input leads frames to their
 * handlers, output asks each session in turn for frames, expire fires timers, and a slow tick looks after peers that
 * somebody waits for.
 */
#include <string.h>

#include "base/arena.h"
#include "base/heap.h"
#include "base/min.h"
#include "core/cc/ecn.h"
#include "core/cc/pace.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/format/tag.h"
#include "core/msg/eager.h"
#include "core/msg/exported.h"
#include "core/msg/match.h"
#include "core/msg/op.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/msg/self.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/coalesce.h"
#include "core/rel/connect.h"
#include "core/rel/credit.h"
#include "core/rel/fragment.h"
#include "core/rel/offload_probe.h"
#include "core/rel/reorder.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/removal.h"
#include "core/time.h"

#define LOOKS 16 /* peers that any message may come from: looked after in one tick, at most */

/* ---- Memory: counted, and the caller's ---- */

#define OUTER_BYTES 16 /* what malloc keeps for itself, about */

struct chunk {
    size_t bytes;
    char data[] __attribute__((aligned(16)));
};

static void *counted_get(void *arg, size_t len_bytes)
{
    struct emx_engine *e = arg;
    struct chunk *c = e->outer->get(e->outer->arg, sizeof(*c) + len_bytes);

    if (!c)
        return NULL;
    c->bytes = sizeof(*c) + len_bytes + OUTER_BYTES;
    e->memory_bytes += c->bytes;
    return c->data;
}

static void counted_put(void *arg, void *ptr)
{
    struct emx_engine *e = arg;
    struct chunk *c;

    if (!ptr)
        return;
    c = emx_container(ptr, struct chunk, data);
    e->memory_bytes -= c->bytes;
    e->outer->put(e->outer->arg, c);
}

size_t emx_engine_memory(const struct emx_engine *e)
{
    return e->memory_bytes;
}

/* ---- Birth and death ---- */

static size_t longest_frame(const struct emx_address *self)
{
    size_t longest = 1500;

    for (unsigned i = 0; i < self->if_count; i++)
        if (self->ifs[i].frame_bytes > longest)
            longest = self->ifs[i].frame_bytes;
    return longest < EMX_SEQ_FRAME_MAX ? longest : EMX_SEQ_FRAME_MAX;
}

static void init_lists(struct emx_engine *e)
{
    struct emx_list *const list[] = {&e->pull_wait, &e->asking,      &e->completed,  &e->events, &e->want_routes,
                                     &e->am,        &e->am_deferred, &e->unreleased, &e->taken,  &e->severed};

    for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++)
        emx_list_init(list[i]);
    emx_list_init(&e->spent);
    emx_list_init(&e->living);
    emx_list_init(&e->sharing);
    emx_list_init(&e->turns);
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++) {
        emx_list_init(&e->reads[i]);
        emx_list_init(&e->writes[i]);
        emx_list_init(&e->loans[i]);
        emx_list_init(&e->severs[i]);
        emx_list_init(&e->ready[i]);
        emx_list_init(&e->welcoming[i]);
    }
}

static void init_pools(struct emx_engine *e)
{
    emx_pool_init(&e->ops, &e->alloc, sizeof(struct emx_op), 64);
    emx_pool_init(&e->arrivals, &e->alloc, sizeof(struct emx_unexpected), 64);
    emx_pool_init(&e->txbufs.pool[EMX_TXBUF_SMALL], &e->alloc, 256 + sizeof(struct emx_tag), 64);
    emx_pool_init(&e->txbufs.pool[EMX_TXBUF_BIG], &e->alloc, sizeof(struct emx_txbuf) + e->seq_frame_bytes, 16);
    emx_pool_init(&e->txbufs.pool[EMX_TXBUF_NEAR], &e->alloc, sizeof(struct emx_txbuf) + EMX_SEQ_FRAME_MAX, 8);
    emx_pool_init(&e->jobs, &e->alloc, sizeof(struct emx_pull_request), 64);
    emx_pool_init(&e->rndvs, &e->alloc, sizeof(struct emx_rndv), 8);
    emx_pool_init(&e->loan_pool, &e->alloc, sizeof(struct emx_exported), 16);
}

/* The ranks of a node share its port. */
static uint64_t pull_window(const struct emx_engine_params *params)
{
    uint64_t part = params->cfg->p_pull_window / (params->local_ranks ? params->local_ranks : 1);

    return part > EMX_PACE_LEAST ? part : emx_min(params->cfg->p_pull_window, EMX_PACE_LEAST);
}

int emx_engine_create(const struct emx_engine_params *params, struct emx_engine **e_p)
{
    struct emx_engine *e = params->alloc->get(params->alloc->arg, sizeof(*e));

    if (!e)
        return ETHMX_ERR_NO_MEMORY;
    memset(e, 0, sizeof(*e));
    e->cfg = params->cfg;
    e->stats = params->stats;
    e->outer = params->alloc;
    e->alloc = (struct emx_alloc){.get = counted_get, .put = counted_put, .arg = e};
    e->self = *params->self;
    e->local_ranks = params->local_ranks;
    e->reliable_links = params->reliable_links;
    e->tagged_links = e->self.auth ? ~params->guarded_links : 0;
    e->self_addr_bytes = emx_address_encode_public(&e->self, e->self_addr); /* in hellos */
    e->rng.state = params->seed;
    e->seq_frame_bytes = longest_frame(&e->self);
    init_lists(e);
    init_pools(e);
    emx_pace_init(&e->pace, pull_window(params));
    emx_arena_init(&e->peer_memory, &e->alloc);
    emx_heap_init(&e->timers, &e->alloc);
    e->peer_mask = 15;
    e->peers = emx_alloc_get(&e->alloc, (e->peer_mask + 1) * sizeof(*e->peers));
    e->hello_body = emx_alloc_get(&e->alloc, EMX_FRAME_MAX);
    e->look.kind = EMX_TIMER_LOOK;
    e->start_frames = EMX_CC_BURST;
    e->removal.kind = EMX_TIMER_REMOVAL;
    e->timer_reserve = 3; /* tick, look and removal */
    if (e->peers)
        memset(e->peers, 0, (e->peer_mask + 1) * sizeof(*e->peers));
    if (!e->peers || !e->hello_body || emx_match_init(&e->match, &e->alloc) ||
        emx_heap_reserve(&e->timers, e->timer_reserve)) {
        emx_engine_destroy(e);
        return ETHMX_ERR_NO_MEMORY;
    }
    memset(e->hello_body, 0, EMX_FRAME_MAX);
    memcpy(e->hello_body, e->self_addr, e->self_addr_bytes);
    *e_p = e;
    return ETHMX_OK;
}

static void free_ops(struct emx_engine *e)
{
    struct emx_list *l;

    while ((l = emx_list_pop(&e->completed)))
        emx_op_recycle(e, emx_list_entry(l, struct emx_op, link));
    while ((l = emx_list_pop(&e->severed)))
        emx_op_recycle(e, emx_list_entry(l, struct emx_op, peer_link));
}

static void free_arrivals(struct emx_engine *e)
{
    struct emx_list *const list[] = {&e->am, &e->am_deferred, &e->unreleased, &e->taken};
    struct emx_list *l;

    while ((l = emx_list_first(&e->match.queue)))
        emx_unexpected_free(e, emx_list_entry(l, struct emx_unexpected, match.queue));
    for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++)
        while ((l = emx_list_first(list[i])))
            emx_unexpected_free(e, emx_list_entry(l, struct emx_unexpected, am_link));
}

static void free_peers(struct emx_engine *e)
{
    for (unsigned i = 0; e->peers && i <= e->peer_mask; i++)
        for (struct emx_peer *p = e->peers[i], *next; p; p = next) {
            next = p->next_hash;
            emx_peer_fail(e, p, ETHMX_ERR_CLOSED);
            if (p->session)
                emx_session_end(p->session, EMX_S_CLOSED, ETHMX_ERR_CLOSED, 0);
        }
    free_arrivals(e);
    free_ops(e);
    for (unsigned i = 0; e->peers && i <= e->peer_mask; i++)
        for (struct emx_peer *p = e->peers[i], *next; p; p = next) {
            next = p->next_hash;
            if (p->session)
                emx_session_free(p->session);
        }
    emx_removal_fini(e);
    emx_arena_fini(&e->peer_memory);
}

void emx_engine_destroy(struct emx_engine *e)
{
    struct emx_event ev;

    if (e->match.alloc)
        free_peers(e);
    while (emx_engine_event(e, &ev))
        ;
    emx_pool_fini(&e->ops);
    emx_pool_fini(&e->arrivals);
    for (unsigned i = 0; i < EMX_TXBUF_SIZES; i++)
        emx_pool_fini(&e->txbufs.pool[i]);
    emx_pool_fini(&e->jobs);
    emx_pool_fini(&e->rndvs);
    emx_pool_fini(&e->loan_pool);
    if (e->match.alloc)
        emx_match_fini(&e->match);
    emx_heap_fini(&e->timers);
    emx_alloc_put(&e->alloc, e->slots);
    emx_alloc_put(&e->alloc, e->stage);
    emx_alloc_put(&e->alloc, e->peers);
    emx_alloc_put(&e->alloc, e->watched);
    emx_alloc_put(&e->alloc, e->hello_body);
    e->outer->put(e->outer->arg, e);
}

uint8_t *emx_engine_stage(struct emx_engine *e, unsigned i)
{
    if (!e->stage)
        e->stage = emx_alloc_get(&e->alloc, (size_t)EMX_WIRE_BATCH * EMX_FRAME_MAX);
    return e->stage ? e->stage + i * (size_t)EMX_FRAME_MAX : NULL;
}

/* ---- Sending ---- */

static int send_eagerly(struct emx_session *s, const struct emx_op_args *a, size_t total_bytes)
{
    struct emx_eager_source m = {.data = &a->data,
                                 .am_header = a->am_header,
                                 .total_bytes = (uint32_t)total_bytes,
                                 .am_header_bytes = (uint16_t)a->am_header_bytes,
                                 .flags = a->is_am ? EMX_FF_AM : 0,
                                 .bits = a->bits};
    unsigned frames;

    if (!a->is_am && emx_coalesce_add(s, &a->data, a->bits))
        return ETHMX_OK;
    frames = emx_eager_frames(s, total_bytes);
    if (frames > emx_send_window_room(&s->tx) || !emx_credit_take(&s->credit, emx_eager_cost(total_bytes)))
        return ETHMX_INPROGRESS;
    if (!emx_eager_compact(s, &m, frames)) {
        emx_credit_untake(&s->credit, emx_eager_cost(total_bytes));
        return ETHMX_ERR_NO_MEMORY;
    }
    emx_eager_count(s, a->data.len_bytes, frames);
    return ETHMX_OK;
}

/* Whether the message goes in one frame with those before it. */
static bool shares_frame(struct emx_session *s, const struct emx_op *op, bool is_short)
{
    return is_short && !op->eager && !op->sync && !op->is_am && emx_coalesce_add(s, &op->data, op->bits);
}

/* Moves the backlog's first operation into the window as far as there is room; false: it must wait. */
static bool advance(struct emx_session *s, struct emx_op *op)
{
    struct emx_engine *e = s->e;
    size_t total_bytes = op->am_header_bytes + op->msg_bytes;
    bool is_short = emx_eager_suits(s, &op->data, total_bytes);

    if (shares_frame(s, op, is_short)) {
        emx_list_del(&op->link);
        emx_op_complete(e, op, ETHMX_OK);
        return true;
    }
    if (!emx_send_window_room(&s->tx))
        return false;
    if (!op->eager && is_short && (!op->sync || emx_op_take_id(e, op)))
        op->eager = emx_credit_take(&s->credit, emx_eager_cost(total_bytes));
    if (!op->eager) {
        if (!emx_rndv_announce(s, op, is_short))
            return false;
        emx_list_del(&op->link);
        emx_count(e, sent_large);
        if (is_short)
            emx_count(e, sent_held);
        return true;
    }
    if (!emx_eager_continue(s, op))
        return false;
    emx_list_del(&op->link);
    emx_eager_count(s, op->msg_bytes, emx_eager_frames(s, total_bytes));
    if (op->sync && !op->matched) {
        op->where = EMX_OP_MATCHING;
        emx_op_await(op);
    } else {
        emx_op_complete(e, op, ETHMX_OK);
    }
    return true;
}

/* Fills the window: frames about operations first, then messages in order. */
static void fill(struct emx_session *s)
{
    struct emx_list *l;

    if (s->state != EMX_S_CONNECTED)
        return;
    while ((l = emx_list_first(&s->tx.control)) && emx_send_window_room(&s->tx)) {
        emx_list_del(l);
        emx_send_window_push(s, emx_list_entry(l, struct emx_txbuf, link));
    }
    while ((l = emx_list_first(&s->backlog)))
        if (!advance(s, emx_list_entry(l, struct emx_op, link)))
            return;
}

int emx_engine_send(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *a, emx_time now)
{
    struct emx_session *s = peer->session;
    struct emx_op *op;
    int rc;

    emx_session_deferred_ack(e);
    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (a->am_header_bytes > (a->is_am ? ETHMX_AM_HEADER_MAX : 0) || (a->is_am && a->bits >= ETHMX_AM_HANDLERS))
        return ETHMX_ERR_PARAM;
    if (!s && peer->id != e->self.id && !(s = emx_session_start(e, peer, now)))
        return ETHMX_ERR_NO_MEMORY;
    if (s && s->end_status)
        return s->end_status;
    if (!s) {
        rc = emx_self_send(e, peer, a, now);
    } else if (emx_eager_now(s, a) &&
               (rc = send_eagerly(s, a, a->am_header_bytes + a->data.len_bytes)) != ETHMX_INPROGRESS) {
        ; /* done, or no memory */
    } else {
        if (!(op = emx_op_new_send(e, peer, a, now)))
            return ETHMX_ERR_NO_MEMORY;
        emx_op_queue(s, op);
        rc = ETHMX_INPROGRESS;
    }
    if (rc < 0)
        return rc;
    emx_count(e, msgs_sent);
    emx_add(e, bytes_sent, a->data.len_bytes);
    e->stats->am_sent += a->is_am;
    return rc;
}

/* ---- Input ---- */

static void input_bye(struct emx_session *s, emx_time now)
{
    bool missed = !emx_list_empty(&s->peer->ops);

    if (missed)
        emx_event_post(s->e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_PEER_DEAD,
                       "the peer on host %s has closed its endpoint although operations with it are open",
                       emx_peer_address(s->e, s->peer)->host);
    else
        emx_event_post(s->e, EMX_EVENT_CLOSED, s->peer, ETHMX_OK, "closed");
    emx_session_end(s, EMX_S_CLOSED, ETHMX_ERR_PEER_DEAD, now);
}

typedef enum emx_drop (*input_fn)(struct emx_session *s, const uint8_t *data, emx_time now);

static enum emx_drop input_welcome(struct emx_session *s, const uint8_t *data, emx_time now)
{
    return emx_connect_hello_ack(s, data, now);
}

static enum emx_drop input_ack(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_ack *f = (const void *)(h + 1);

    emx_offload_probe_told(&s->offload, f->joined);
    if (f->early)
        emx_send_window_ack(s, h->ack, f->early, now);
    if (f->marked != s->ecn.ce_told)
        emx_ecn_told(s, h->ack, f->marked);
    return EMX_ACCEPTED;
}

static enum emx_drop input_ping(struct emx_session *s, const uint8_t *data, emx_time now)
{
    (void)data, (void)now;
    s->pong_due = true;
    emx_session_ready(s);
    return EMX_ACCEPTED;
}

static enum emx_drop input_pong(struct emx_session *s, const uint8_t *data, emx_time now)
{
    (void)s, (void)data, (void)now;
    return EMX_ACCEPTED;
}

static enum emx_drop input_goodbye(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;

    if (s->greeted && h->seq != s->rx.first)
        return EMX_DROP_STALE; /* of a former session */
    input_bye(s, now);
    return EMX_ACCEPTED;
}

static const input_fn handler[EMX_F_COUNT] = {
    [EMX_F_hello_ack] = input_welcome,
    [EMX_F_ack] = input_ack,
    [EMX_F_ping] = input_ping,
    [EMX_F_pong] = input_pong,
    [EMX_F_close] = input_goodbye,
    [EMX_F_eager] = emx_reorder_input,
    [EMX_F_more] = emx_reorder_input,
    [EMX_F_rts] = emx_reorder_input,
    [EMX_F_fin] = emx_reorder_input,
    [EMX_F_matched] = emx_reorder_input,
    [EMX_F_coalesced] = emx_reorder_input,
    [EMX_F_pull] = emx_rndv_input_pull,
    [EMX_F_data] = emx_rndv_input_data,
    [EMX_F_fragment] = emx_fragment_input,
    [EMX_F_rkey_request] = emx_reorder_input,
    [EMX_F_rkey_reply] = emx_reorder_input,
    [EMX_F_shorter] = emx_rndv_input_shorter,
    [EMX_F_compact] = emx_reorder_input,
    [EMX_F_rtr] = emx_reorder_input,
    [EMX_F_put_done] = emx_reorder_input,
    [EMX_F_recall] = emx_credit_input_recall,
    [EMX_F_given] = emx_reorder_input,
};

/* A frame of a peer that has not shown yet that this session is meant. Apart: there are few. */
static __attribute__((noinline)) enum emx_drop greeting(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;

    if (!emx_connect_reachable(s))
        return EMX_DROP_NO_SESSION;
    s->takes = s->greeted && emx_session_is_meant(s, h);
    if (!s->takes && h->type != EMX_F_hello_ack && (h->type != EMX_F_close || !emx_session_is_meant(s, h)))
        return EMX_DROP_NO_SESSION;
    emx_session_heard(s, now);
    if (s->takes)
        emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    return handler[h->type](s, data, now);
}

static inline __attribute__((always_inline)) enum emx_drop dispatch(struct emx_engine *e, unsigned link,
                                                                    const uint8_t *data, uint32_t len_bytes,
                                                                    emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    enum emx_drop why;
    struct emx_peer *p;
    struct emx_session *s;

    if (emx_engine_timeless(data, len_bytes) && e->reliable_links >> link & 1)
        return emx_eager_input_short(e, data, len_bytes, now);
    why = emx_frame_check(data, len_bytes, e->self.id, e->self.cookie);
    if (why != EMX_ACCEPTED)
        return why;
    if (h->type == EMX_F_hello)
        return emx_connect_hello(e, link, data, now);
    p = emx_peer_find(e, h->src_id);
    s = p ? p->session : NULL;
    if (!s || !s->takes)
        return s ? greeting(s, data, now) : EMX_DROP_NO_SESSION;
    emx_session_heard(s, now);
    if (h->ack != s->tx.acked && !s->reliable)
        emx_send_window_ack(s, h->ack, 0, now);
    emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    return handler[h->type](s, data, now);
}

enum emx_drop emx_engine_dispatch(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now)
{
    return dispatch(e, e->input_link, data, len_bytes, now);
}

static inline enum emx_drop count(struct emx_engine *e, enum emx_drop why)
{
    if (why == EMX_ACCEPTED)
        emx_count(e, frames_received);
    else
        emx_stats_add(e->stats, (enum emx_counter)why, 1);
    return why;
}

/* Apart, so that it costs frames without tags nothing. */
static __attribute__((noinline)) enum emx_drop input_tagged(struct emx_engine *e, unsigned link, const uint8_t *data,
                                                            uint32_t len_bytes, emx_time now)
{
    const struct emx_tag *t = (const void *)data;
    const struct emx_frame *h = (const void *)(t + 1);
    enum emx_drop why = emx_tag_check(e, data, len_bytes);

    if (why == EMX_ACCEPTED)
        why = dispatch(e, link, (const uint8_t *)h, t->frame_bytes, now);
    if (why == EMX_ACCEPTED && h->type == EMX_F_hello)
        emx_tag_greeted(e, data);
    return count(e, why);
}

enum emx_drop emx_engine_input(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                               emx_time now)
{
    e->input_link = link;
    if (__builtin_expect(e->tagged_links >> link & 1, 0))
        return input_tagged(e, link, data, len_bytes, now);
    return count(e, dispatch(e, link, data, len_bytes, now));
}

/* ---- Output ---- */

/* A frame without data, of which only the type's own header is there. */
static void bare(struct emx_session *s, enum emx_frame_type type, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_frame *h = (void *)scratch->b;
    size_t head = emx_frame_info[type].head_bytes;

    emx_engine_head(s->e, s->peer, h, type, head);
    emx_engine_stamp(s, h);
    if (type == EMX_F_close)
        h->seq = s->tx.first;
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = (uint16_t)(sizeof(*h) + head)};
    emx_engine_seal(s, h, f, s->seal);
}

static bool output_sequenced(struct emx_session *s, struct emx_txframe *f, emx_time now)
{
    struct emx_txbuf *b = emx_send_window_next(s);
    struct emx_frame *h;

    if (!b)
        return false;
    h = emx_txbuf_frame(b);
    emx_engine_stamp(s, h);
    if (h->type == EMX_F_eager)
        ((struct emx_f_eager *)(h + 1))->joined = s->offload.joined_rx;
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = b->len_bytes, .bulk = b->bulk && !b->tries};
    if (b->tries)
        f->age_ns = now - b->sent_ns;
    emx_engine_seal(s, h, f, s->seal);
    emx_send_window_sent(s, b, now);
    return true;
}

static bool output_ping(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now)
{
    if (s->ping_due) {
        s->ping_due = false;
        emx_count(s->e, pings_sent);
        bare(s, EMX_F_ping, f, scratch);
        emx_session_asked(s, now);
        return true;
    }
    if (!s->pong_due)
        return false;
    s->pong_due = false;
    bare(s, EMX_F_pong, f, scratch);
    return true;
}

static bool output_ack(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    if (!s->rx.ack_now)
        return false;
    *(struct emx_f_ack *)(scratch->b + sizeof(struct emx_frame)) =
        (struct emx_f_ack){.early = s->rx.early, .joined = s->offload.joined_rx, .marked = s->ecn.ce_rx};
    bare(s, EMX_F_ack, f, scratch);
    emx_count(s->e, acks_sent);
    emx_reorder_acked(&s->rx);
    s->ecn.due = false;
    return true;
}

static bool output_recall(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_f_recall *t = (void *)(scratch->b + sizeof(struct emx_frame));
    uint32_t limit;

    if (!s->credit.recall_due || !emx_credit_recall(s, &limit))
        return false;
    *t = (struct emx_f_recall){.limit = limit};
    bare(s, EMX_F_recall, f, scratch);
    return true;
}

static bool output_bye(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    if (!s->byes_due)
        return false;
    s->byes_due--;
    bare(s, EMX_F_close, f, scratch);
    return true;
}

/* One frame of the session's, most urgent first. What only an acknowledgement can tell goes before all else: a map of
 * early frames spares resends, marks of congestion spare losses. */
static bool output_one(struct emx_session *s, struct emx_txframe *f, unsigned i, emx_time now)
{
    struct emx_engine *e = s->e;
    struct emx_scratch *scratch = &e->scratch[i];
    bool carried;

    if (s->state == EMX_S_LEAVING)
        return output_bye(s, f, scratch);
    if (s->state == EMX_S_CONNECTING)
        return output_bye(s, f, scratch) || emx_connect_output_hello(s, f, scratch, now) || output_ack(s, f, scratch) ||
               output_ping(s, f, scratch, now);
    if ((s->rx.held_count || s->ecn.due) && output_ack(s, f, scratch))
        return true;
    if (s->connect->doubted && emx_connect_output_hello(s, f, scratch, now))
        return true;
    if (s->fragment.out && emx_fragment_output(s, f, scratch, i))
        return true;
    carried = output_sequenced(s, f, now) || emx_rndv_output_pull(s, f, scratch, now) ||
              emx_rndv_output_data(s, f, scratch, i) || output_ping(s, f, scratch, now) || output_recall(s, f, scratch);
    if (carried && !s->rx.held_count)
        emx_reorder_acked(&s->rx);
    return carried || output_ack(s, f, scratch) || output_bye(s, f, scratch);
}

/* A reliable session's window is free again as soon as its frames are out. */
static bool output_next(struct emx_session *s, struct emx_txframe *f, unsigned i, emx_time now)
{
    if (output_one(s, f, i, now))
        return !s->fragment.out || emx_fragment_fit(s, f, &s->e->scratch[i], i);
    if (!s->reliable || (emx_list_empty(&s->backlog) && emx_list_empty(&s->tx.control)))
        return false;
    fill(s);
    return output_one(s, f, i, now);
}

static unsigned output_welcomes(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned max)
{
    struct emx_list *l;
    unsigned n = 0;

    while (n < max && (l = emx_list_first(&e->welcoming[link]))) {
        struct emx_session *s = emx_list_entry(l, struct emx_session, welcoming);

        if (emx_connect_output_hello_ack(s, link, &f[n], &e->scratch[n]))
            n++;
        else
            emx_list_del(l);
    }
    return n;
}

/* The frames of large messages go together, as many as the wire joins. Whether the last of so many was just made, and
 * room is left for fewer: what begins there would be cut in two by the end of the batch, and each part costs as much as
 * the whole. run: frames of large messages in a row up to f. */
static bool ends_run(const struct emx_txframe *f, unsigned run, unsigned room)
{
    unsigned joined = EMX_WIRE_JOIN_BYTES / ((unsigned)f->head_bytes + f->body_bytes);

    return run && joined > room && joined && run % joined == 0;
}

unsigned emx_engine_output(struct emx_engine *e, unsigned link, struct emx_txframe *f, unsigned max, emx_time now)
{
    struct emx_list *l;
    unsigned n, run = 0;

    emx_send_window_spend(e);
    n = output_welcomes(e, link, f, max);

    while (n < max && (l = emx_list_first(&e->ready[link]))) {
        struct emx_session *s = emx_list_entry(l, struct emx_session, ready);
        bool more = true;

        fill(s);
        while (n < max && (more = output_next(s, &f[n], n, now))) {
            if (s->read.on)
                emx_read_spoke(s, now);
            run = f[n].body_bytes ? run + 1 : 0;
            n++;
            if (ends_run(&f[n - 1], run, max - n))
                max = n;
        }
        emx_list_del(&s->ready);
        if (more)
            emx_list_append(&e->ready[link], &s->ready); /* the others first */
    }
    if (emx_list_empty(&e->ready[link]) && emx_list_empty(&e->welcoming[link]))
        e->hints.output &= ~(1u << link);
    emx_add(e, frames_sent, n);
    return n;
}

unsigned emx_engine_link_peers(const struct emx_engine *e, unsigned link)
{
    return e->link_peers[link];
}

void emx_engine_deferred_acks_now(struct emx_engine *e)
{
    emx_session_deferred_ack(e);
    e->hints.late = false;
}

/* ---- Time ---- */

void emx_engine_tick_arm(struct emx_engine *e, emx_time now)
{
    if (!emx_timer_is_set(&e->tick))
        emx_heap_set(&e->timers, &e->tick, now + e->cfg->p_peer_timeout / 4);
}

/* Somebody waits for this peer and nothing was heard for a while: ask it for a sign of life, or get to know it. */
static void look_after(struct emx_engine *e, struct emx_peer *p, emx_time now)
{
    struct emx_session *s = p->session;

    if (p->id == e->self.id)
        return;
    if (!s) {
        if (p->posted)
            emx_session_start(e, p, now);
        return;
    }
    if (s->state != EMX_S_CONNECTED || (!p->posted && !s->awaits && !e->posted_any))
        return;
    if (now - s->heard_ns < e->cfg->p_peer_timeout / 4)
        return;
    if (s->ping_due)
        emx_session_asked(s, now); /* the last one could not leave: the peer has not made room for so long */
    s->ping_due = true;
    emx_session_ready(s);
}

/* There was no memory to keep them apart: all peers are asked whether they are such ones. */
static void watch_again(struct emx_engine *e)
{
    if (!e->unwatched)
        return;
    e->unwatched = false;
    for (unsigned i = 0; i <= e->peer_mask; i++)
        for (struct emx_peer *p = e->peers[i]; p; p = p->next_hash)
            if (!emx_list_empty(&p->ops))
                emx_peer_watch(e, p);
}

/* Those with whom an operation is open. */
static void look_after_watched(struct emx_engine *e, emx_time now)
{
    unsigned kept = 0;

    watch_again(e);
    for (unsigned i = 0; i < e->watched_count; i++) {
        struct emx_peer *p = e->watched[i];

        if (emx_list_empty(&p->ops)) {
            p->watched = false;
            continue;
        }
        look_after(e, p, now);
        e->watched[kept++] = p;
    }
    e->watched_count = kept;
}

/* A receive takes what any peer sends: some of them in turn, whatever their number. */
static void look_after_some(struct emx_engine *e, emx_time now)
{
    const struct emx_list *first = emx_list_first(&e->living);
    struct emx_list *l;
    unsigned looks = 0;

    if (!e->posted_any)
        return;
    while (looks++ < LOOKS && (l = emx_list_first(&e->living)) && (l != first || looks == 1)) {
        struct emx_peer *p = emx_list_entry(l, struct emx_session, living)->peer;

        emx_list_del(l);
        emx_list_append(&e->living, l);
        if (!p->watched)
            look_after(e, p, now);
    }
}

static void tick(struct emx_engine *e, emx_time now)
{
    struct emx_list *l;

    emx_heap_clear(&e->timers, &e->tick);
    look_after_watched(e, now);
    look_after_some(e, now);
    while ((l = emx_list_first(&e->unreleased)))
        if (emx_unexpected_release(e, emx_list_entry(l, struct emx_unexpected, am_link)))
            break;
    if (e->ops.in_use || !emx_list_empty(&e->unreleased))
        emx_engine_tick_arm(e, now);
}

emx_time emx_engine_deadline(const struct emx_engine *e)
{
    const struct emx_timer *t = emx_heap_first(&e->timers);
    emx_time at = t ? t->at_ns : EMX_NEVER;

    return e->deferred.session ? emx_min(at, e->deferred.now + e->deferred.session->rx.ack_delay_ns) : at;
}

/* We come much too late: this process was stopped, or its host suspended, and so may have been those whom we asked
 * something before. Their silence in that time says nothing: they get the whole time again, and a handshake what it has
 * lost. */
static void come_back(struct emx_engine *e, emx_time late_ns, emx_time now)
{
    emx_list_each(l, &e->living)
    {
        struct emx_session *s = emx_list_entry(l, struct emx_session, living);

        if (s->asked_ns && late_ns > e->cfg->p_peer_timeout / 4)
            s->asked_ns = now;
        emx_connect_delayed(s, late_ns);
    }
}

/* What is less says nothing of being stopped. */
static bool is_much(const struct emx_engine *e, emx_time late_ns)
{
    return late_ns > emx_min(e->cfg->p_peer_timeout, e->cfg->p_connect_timeout) / 4;
}

void emx_engine_expire(struct emx_engine *e, emx_time now)
{
    struct emx_timer *t;

    emx_session_deferred_ack(e);
    t = emx_heap_first(&e->timers);
    if (t && now > t->at_ns && is_much(e, now - t->at_ns))
        come_back(e, now - t->at_ns, now);
    while ((t = emx_heap_first(&e->timers)) && t->at_ns <= now) {
        switch (t->kind) {
        case EMX_TIMER_TICK:
            tick(e, now);
            break;
        case EMX_TIMER_SESSION:
            emx_session_expire(emx_container(t, struct emx_session, timer), now);
            break;
        case EMX_TIMER_LOOK:
            emx_rndv_look(e, now);
            break;
        case EMX_TIMER_REMOVAL:
            emx_removal_expire(e, now);
            break;
        case EMX_TIMER_RNDV:
            emx_rndv_expire(emx_container(t, struct emx_rndv, timer), now);
            break;
        }
    }
}

/* ---- Closing ---- */

bool emx_engine_drained(const struct emx_engine *e)
{
    emx_list_each(l, &e->living)
    {
        if (!emx_session_drained(emx_list_entry(l, struct emx_session, living)))
            return false;
    }
    return true;
}

/* A peer may be connected to us, and wait for our acknowledgement, while our own handshake still goes on. */
void emx_engine_close(struct emx_engine *e, emx_time now)
{
    (void)now;
    e->closing = true;
    emx_list_each(l, &e->living)
    {
        struct emx_session *s = emx_list_entry(l, struct emx_session, living);

        if (!emx_connect_reachable(s))
            continue;
        s->fast_room = 0;
        s->byes_due = s->reliable ? 1 : 3; /* lost ones only cost the peer its linger time */
        emx_session_ready(s);
    }
}
