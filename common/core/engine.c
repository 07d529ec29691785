/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine: joins the files of this room. Sending chooses the class of a message, input calls the handlers of frames,
 * output asks each session in turn for frames, expire runs timers, and a slow tick checks peers with open operations.
 */
#include <string.h>

#include "base/arena.h"
#include "base/heap.h"
#include "base/min.h"
#include "core/cc/cc.h"
#include "core/cc/pace.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/msg/eager.h"
#include "core/msg/exported.h"
#include "core/msg/fail.h"
#include "core/msg/fast_path.h"
#include "core/msg/lapse.h"
#include "core/msg/match.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/msg/rdma_get.h"
#include "core/msg/rdma_threshold.h"
#include "core/msg/recv.h"
#include "core/msg/rndv.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/connect.h"
#include "core/rel/failover.h"
#include "core/rel/path_mtu.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/removal.h"
#include "core/rma/rma.h"
#include "core/upcalls.h"

#define LOOKS 16 /* peers checked in one tick for a receive from any source */

/* ---- Memory: counted, and the caller's ---- */

#define OUTER_BYTES 16 /* approximate overhead of malloc */

struct chunk {
    size_t bytes;
    char data[] __attribute__((aligned(16)));
};

static void *engine_counted_get(void *arg, size_t len_bytes)
{
    struct emx_engine *e = arg;
    struct chunk *c = e->outer->get(e->outer->arg, sizeof(*c) + len_bytes);

    if (!c)
        return NULL;
    c->bytes = sizeof(*c) + len_bytes + OUTER_BYTES;
    e->memory_bytes += c->bytes;
    return c->data;
}

static void engine_counted_put(void *arg, void *ptr)
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

/* ---- Upcalls from lower layers ---- */

/* A message that is arriving will not complete. */
static void engine_stop_arriving(struct emx_session *s)
{
    if (s->eager.unexpected && s->eager.unexpected->is_am)
        emx_unexpected_free(s->e, s->eager.unexpected);
    emx_eager_rx_stop(&s->eager);
}

static void engine_stopped(struct emx_session *s, int status, emx_time now)
{
    if (emx_connect_reachable(s))
        emx_connect_give_place(s, now);
    if (status != ETHMX_OK)
        emx_peer_fail(s->e, s->peer, status);
    emx_rma_stop(s, status);
    engine_stop_arriving(s);
    emx_rndv_forget_pull_requests(s, NULL);
}

static void engine_routed(struct emx_session *s, const struct emx_route *r)
{
    if (!r)
        emx_rndv_moved(s);
    emx_lapse_set(&s->read, r && r->reads);
    emx_rdma_threshold_routed(s, r);
}

static void engine_connected(struct emx_session *s)
{
    emx_lapse_begin(&s->read, s->heard_ns);
    emx_fast_open(s);
}

static const struct emx_upcalls engine_upcalls = {
    .in_order = emx_engine_in_order,
    .dispatch = emx_engine_dispatch,
    .opened = emx_rndv_open,
    .routed = engine_routed,
    .connected = engine_connected,
    .end = emx_session_end,
    .stopped = engine_stopped,
    .pull_more = emx_rndv_more,
    .resized = emx_fast_open,
    .moved = emx_get_moved,
    .rail_lost = emx_rndv_rail_lost,
    .rma_ended = emx_rma_ended,
    .frames_lost = emx_path_mtu_probe,
};

/* ---- Create and destroy ---- */

static size_t engine_longest_frame(const struct emx_address *self)
{
    size_t longest = 1500;

    for (unsigned i = 0; i < self->if_count; i++)
        if (self->ifs[i].frame_bytes > longest)
            longest = self->ifs[i].frame_bytes;
    return longest < EMX_SEQ_FRAME_MAX ? longest : EMX_SEQ_FRAME_MAX;
}

static void engine_init_lists(struct emx_engine *e)
{
    struct emx_list *const list[] = {&e->pull_wait, &e->asking,      &e->completed,  &e->events, &e->want_routes,
                                     &e->am,        &e->am_deferred, &e->unreleased, &e->taken,  &e->quiescing};

    for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++)
        emx_list_init(list[i]);
    emx_list_init(&e->spent);
    emx_list_init(&e->lent);
    emx_list_init(&e->living);
    emx_list_init(&e->sharing);
    emx_list_init(&e->turns);
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++) {
        emx_list_init(&e->reads[i]);
        emx_list_init(&e->writes[i]);
        emx_list_init(&e->exports[i]);
        emx_list_init(&e->disconnects[i]);
        emx_list_init(&e->ready[i]);
        emx_list_init(&e->hello_acking[i]);
        emx_list_init(&e->rails_ready[i]);
    }
}

static void engine_init_pools(struct emx_engine *e)
{
    emx_pool_init(&e->ops, &e->alloc, sizeof(struct emx_op), 64);
    emx_pool_init(&e->multis, &e->alloc, sizeof(struct emx_multi), 8);
    emx_pool_init(&e->unexpected_pool, &e->alloc, sizeof(struct emx_unexpected), 64);
    emx_pool_init(&e->txbufs.pool[EMX_TXBUF_SMALL], &e->alloc, 256 + sizeof(struct emx_tag), 64);
    emx_pool_init(&e->txbufs.pool[EMX_TXBUF_BIG], &e->alloc, sizeof(struct emx_txbuf) + e->seq_frame_bytes, 16);
    emx_pool_init(&e->txbufs.pool[EMX_TXBUF_NEAR], &e->alloc, sizeof(struct emx_txbuf) + EMX_SEQ_FRAME_MAX, 8);
    emx_pool_init(&e->txbufs.copies, &e->alloc, EMX_WIRE_JOIN_BYTES, 2);
    emx_pool_init(&e->pull_requests, &e->alloc, sizeof(struct emx_pull_request), 64);
    emx_pool_init(&e->rndvs, &e->alloc, sizeof(struct emx_rndv), 8);
    emx_pool_init(&e->many_blocks, &e->alloc, EMX_BLOCKS * sizeof(struct emx_block), 1);
    emx_pool_init(&e->exported_pool, &e->alloc, sizeof(struct emx_exported), 16);
}

int emx_engine_create(const struct emx_engine_params *params, struct emx_engine **e_p)
{
    struct emx_engine *e = params->alloc->get(params->alloc->arg, sizeof(*e));

    if (!e)
        return ETHMX_ERR_NO_MEMORY;
    memset(e, 0, sizeof(*e));
    e->up = &engine_upcalls;
    e->cfg = params->cfg;
    e->silence_ns = emx_failover_silence_ns(params->cfg);
    e->stats = params->stats;
    e->outer = params->alloc;
    e->alloc = (struct emx_alloc){.get = engine_counted_get, .put = engine_counted_put, .arg = e};
    e->self = *params->self;
    e->local_ranks = params->local_ranks;
    e->reliable_links = params->reliable_links;
    e->tagged_links = e->self.auth ? ~params->guarded_links : 0;
    e->self_addr_bytes = emx_address_encode_public(&e->self, e->self_addr); /* in hellos */
    e->rng.state = params->seed;
    e->cc = emx_cc_table[0];
    e->seq_frame_bytes = engine_longest_frame(&e->self);
    engine_init_lists(e);
    engine_init_pools(e);
    /* The ranks of a node share its port. */
    emx_pace_init(&e->pace, emx_part(params->cfg->p_pull_window, params->local_ranks, EMX_PACE_LEAST));
    for (unsigned i = 0; i < EMX_RAILS_MAX; i++)
        emx_pace_init(&e->rail[i].pace, e->pace.most_bytes);
    emx_arena_init(&e->peer_memory, &e->alloc);
    emx_heap_init(&e->timers, &e->alloc);
    e->peer_mask = 15;
    e->peers = emx_alloc_get(&e->alloc, (e->peer_mask + 1) * sizeof(*e->peers));
    e->hello_body = emx_alloc_get(&e->alloc, EMX_FRAME_MAX);
    e->look.kind = EMX_TIMER_LOOK;
    e->start_frames = EMX_CC_BURST;
    e->removal.kind = EMX_TIMER_REMOVAL;
    e->timer_reserve = 3; /* tick, look and removal timers */
    if (e->peers)
        memset(e->peers, 0, (e->peer_mask + 1) * sizeof(*e->peers));
    if (!e->peers || !e->hello_body || emx_match_init(&e->match[EMX_TAGGED], &e->alloc) ||
        emx_match_init(&e->match[EMX_UNTAGGED], &e->alloc) || emx_heap_reserve(&e->timers, e->timer_reserve)) {
        emx_engine_destroy(e);
        return ETHMX_ERR_NO_MEMORY;
    }
    memset(e->hello_body, 0, EMX_FRAME_MAX);
    memcpy(e->hello_body, e->self_addr, e->self_addr_bytes);
    e->hello_addr_bytes = e->self_addr_bytes;
    *e_p = e;
    return ETHMX_OK;
}

static void engine_free_ops(struct emx_engine *e)
{
    struct emx_list *l;

    while ((l = emx_list_pop(&e->completed)))
        emx_op_recycle(e, emx_list_entry(l, struct emx_op, link));
    while ((l = emx_list_pop(&e->quiescing)))
        emx_op_recycle(e, emx_list_entry(l, struct emx_op, peer_link));
}

static void engine_free_unexpected(struct emx_engine *e)
{
    struct emx_list *const list[] = {&e->am, &e->am_deferred, &e->unreleased, &e->taken};
    struct emx_list *l;

    for (unsigned i = 0; i < EMX_SPACES; i++)
        while ((l = emx_list_first(&e->match[i].queue)))
            emx_unexpected_free(e, emx_list_entry(l, struct emx_unexpected, match.queue));
    for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++)
        while ((l = emx_list_first(list[i])))
            emx_unexpected_free(e, emx_list_entry(l, struct emx_unexpected, am_link));
}

static void engine_free_peers(struct emx_engine *e)
{
    for (unsigned i = 0; e->peers && i <= e->peer_mask; i++)
        for (struct emx_peer *p = e->peers[i], *next; p; p = next) {
            next = p->next_hash;
            emx_peer_fail(e, p, ETHMX_ERR_CLOSED);
            if (p->session)
                emx_session_end(p->session, EMX_S_CLOSED, ETHMX_ERR_CLOSED, 0);
        }
    engine_free_unexpected(e);
    engine_free_ops(e);
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

    if (e->match[EMX_UNTAGGED].alloc)
        engine_free_peers(e);
    while (emx_engine_event(e, &ev))
        ;
    emx_rma_fini(e);
    emx_pool_fini(&e->ops);
    emx_pool_fini(&e->multis);
    emx_pool_fini(&e->unexpected_pool);
    for (unsigned i = 0; i < EMX_TXBUF_SIZES; i++)
        emx_pool_fini(&e->txbufs.pool[i]);
    emx_pool_fini(&e->txbufs.copies);
    emx_pool_fini(&e->pull_requests);
    emx_pool_fini(&e->rndvs);
    emx_pool_fini(&e->many_blocks);
    emx_pool_fini(&e->exported_pool);
    for (unsigned i = 0; i < EMX_SPACES; i++)
        if (e->match[i].alloc)
            emx_match_fini(&e->match[i]);
    emx_heap_fini(&e->timers);
    emx_alloc_put(&e->alloc, e->slots);
    emx_alloc_put(&e->alloc, e->stage);
    emx_alloc_put(&e->alloc, e->peers);
    emx_alloc_put(&e->alloc, e->watched);
    emx_alloc_put(&e->alloc, e->hello_body);
    e->outer->put(e->outer->arg, e);
}

/* ---- Output ---- */

unsigned emx_engine_link_peers(const struct emx_engine *e, unsigned link)
{
    return e->link_peers[link];
}

void emx_engine_deferred_acks_now(struct emx_engine *e)
{
    emx_session_deferred_ack(e);
    e->ready_flags.deferred_acks = false;
}

/* ---- Time ---- */

/* An operation waits for this peer, and nothing was received from it for a while: sends a ping, or starts the
 * handshake. */
static void engine_look_after(struct emx_engine *e, struct emx_peer *p, emx_time now)
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
        emx_session_asked(s, now); /* the last ping could not leave: the peer has not made room for that long */
    s->ping_due = true;
    emx_session_ready(s);
}

/* Memory was missing for the list: looks for peers with open operations among all. */
static void engine_watch_again(struct emx_engine *e)
{
    if (!e->unwatched)
        return;
    e->unwatched = false;
    for (unsigned i = 0; i <= e->peer_mask; i++)
        for (struct emx_peer *p = e->peers[i]; p; p = p->next_hash)
            if (!emx_list_empty(&p->ops))
                emx_peer_watch(e, p);
}

/* Checks the peers with open operations. */
static void engine_look_after_watched(struct emx_engine *e, emx_time now)
{
    unsigned kept = 0;

    engine_watch_again(e);
    for (unsigned i = 0; i < e->watched_count; i++) {
        struct emx_peer *p = e->watched[i];

        if (emx_list_empty(&p->ops)) {
            p->watched = false;
            continue;
        }
        engine_look_after(e, p, now);
        e->watched[kept++] = p;
    }
    e->watched_count = kept;
}

/* A receive from any source waits for all peers: checks some of them in turn, so that the cost does not grow with their
 * number. */
static void engine_look_after_some(struct emx_engine *e, emx_time now)
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
            engine_look_after(e, p, now);
    }
}

static void engine_tick(struct emx_engine *e, emx_time now)
{
    struct emx_list *l;

    emx_heap_clear(&e->timers, &e->tick);
    engine_look_after_watched(e, now);
    engine_look_after_some(e, now);
    while ((l = emx_list_first(&e->unreleased)))
        if (emx_recv_release(e, emx_list_entry(l, struct emx_unexpected, am_link)))
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

/* The timer is much too late: this process was stopped, or its host suspended, and maybe its peers too. A peer's
 * silence in that time proves nothing. So peers get the full time again, and a handshake the time that it lost. */
static void engine_come_back(struct emx_engine *e, emx_time late_ns, emx_time now)
{
    emx_list_each(l, &e->living)
    {
        struct emx_session *s = emx_list_entry(l, struct emx_session, living);

        if (s->asked_ns && late_ns > e->cfg->p_peer_timeout / 4)
            s->asked_ns = now;
        emx_connect_delayed(s, late_ns);
    }
}

/* A shorter delay does not indicate a stopped process. */
static bool engine_is_late(const struct emx_engine *e, emx_time late_ns)
{
    return late_ns > emx_min(e->cfg->p_peer_timeout, e->cfg->p_connect_timeout) / 4;
}

void emx_engine_expire(struct emx_engine *e, emx_time now)
{
    struct emx_timer *t;

    emx_session_deferred_ack(e);
    t = emx_heap_first(&e->timers);
    if (t && now > t->at_ns && engine_is_late(e, now - t->at_ns))
        engine_come_back(e, now - t->at_ns, now);
    while ((t = emx_heap_first(&e->timers)) && t->at_ns <= now) {
        switch (t->kind) {
        case EMX_TIMER_TICK:
            engine_tick(e, now);
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

/* Whether the peer must still pull, or match, a message of this endpoint. */
static bool engine_is_awaited(const struct emx_peer *p)
{
    emx_list_each(l, &p->ops)
    {
        const struct emx_op *op = emx_list_entry(l, struct emx_op, peer_link);

        if (op->is_send && op->where == EMX_OP_ANNOUNCED)
            return true;
    }
    return false;
}

bool emx_engine_session_drained(const struct emx_session *s)
{
    return !engine_is_awaited(s->peer) && emx_list_empty(&s->tx.unacked) && emx_list_empty(&s->tx.control) &&
           emx_list_empty(&s->backlog) && emx_list_empty(&s->pulled.requests) &&
           (!s->rma || emx_list_empty(&s->rma->open));
}

bool emx_engine_drained(const struct emx_engine *e)
{
    emx_list_each(l, &e->living)
    {
        if (!emx_engine_session_drained(emx_list_entry(l, struct emx_session, living)))
            return false;
    }
    return true;
}

/* Includes peers with an unfinished handshake: they may be connected already, and wait for an acknowledgement. */
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
        s->byes_due = s->reliable ? 1 : 3; /* if all are lost, the peer only lingers longer */
        emx_session_ready(s);
    }
}
