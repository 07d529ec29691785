/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Removal of peers by the program.
 *
 * From the call on the peer is in no table: its operations complete, its messages are dropped, and its frames are those
 * of an unknown endpoint. Its memory is freed when the close frame has left (limited by LEAVE_NS), and when neither
 * devices nor progress access the memory of its operations any more, because these need its session. A timer checks
 * this. If other addresses are packed against that of the peer (peer.c), the address stays until those peers are
 * removed, too.
 *
 * The close frame may be lost, and both may connect again. So the first sequence number of a session (session.c) is
 * later after each removal. A peer that sees the numbers restart treats it as a close frame.
 */
#include "base/heap.h"
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/msg/eager.h"
#include "core/msg/exported.h"
#include "core/msg/fail.h"
#include "core/msg/op.h"
#include "core/msg/rndv.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/credit.h"
#include "core/rel/session.h"
#include "core/removal.h"

#define LOOK_NS  10000000   /* between two checks */
#define LEAVE_NS 1000000000 /* a close frame without a route by then is omitted */

/* ---- What the program can still see of a peer ---- */

/* A message held by the program stays, without its peer. If it is incomplete, it will remain so. */
static void removal_orphan(struct emx_unexpected *a)
{
    struct emx_session *s = a->session;

    emx_eager_rx_forget(&s->eager, a);
    emx_credit_orphan(&s->credit, a->cost);
    a->sync = false;
    a->orphan = true;
    a->session = NULL;
    a->match.peer = NULL;
}

static void removal_forget_list(struct emx_engine *e, struct emx_list *list, const struct emx_peer *p)
{
    emx_list_each_safe(l, next, list)
    {
        struct emx_unexpected *a = emx_list_entry(l, struct emx_unexpected, am_link);

        if (a->session != p->session)
            continue;
        if (list == &e->taken)
            removal_orphan(a);
        else
            emx_unexpected_free(e, a);
    }
}

static void removal_forget_messages(struct emx_engine *e, const struct emx_peer *p)
{
    struct emx_list *const list[] = {&e->am, &e->am_deferred, &e->unreleased, &e->taken};

    if (!p->session)
        return;
    for (unsigned i = 0; i < EMX_SPACES; i++)
        emx_list_each_safe(l, next, &e->match[i].queue)
        {
            struct emx_unexpected *a = emx_list_entry(l, struct emx_unexpected, match.queue);

            if (a->match.peer == p)
                emx_unexpected_free(e, a);
        }
    for (unsigned i = 0; i < sizeof(list) / sizeof(*list); i++)
        removal_forget_list(e, list[i], p);
}

static void removal_forget_events(struct emx_engine *e, const struct emx_peer *p)
{
    emx_list_each_safe(l, next, &e->events)
    {
        struct emx_event_node *n = emx_list_entry(l, struct emx_event_node, link);

        if (n->event.peer != p)
            continue;
        emx_list_del(l);
        emx_event_taken(e);
        emx_alloc_put(&e->alloc, n);
    }
}

/* Results that the program has not taken yet must not refer to it. */
static void removal_forget_results(struct emx_engine *e, const struct emx_peer *p)
{
    emx_list_each(l, &e->completed)
    {
        struct emx_op *op = emx_list_entry(l, struct emx_op, link);

        if (op->peer == p)
            op->peer = NULL;
    }
}

/* ---- Memory ---- */

/* Whether progress or a device still uses something of it. */
static bool removal_is_in_use(const struct emx_engine *e, const struct emx_peer *p)
{
    emx_list_each(l, &e->quiescing)
    {
        if (emx_list_entry(l, struct emx_op, peer_link)->peer == p)
            return true;
    }
    for (unsigned i = 0; i < EMX_ENGINE_LINKS; i++) {
        emx_list_each(l, &e->reads[i])
        {
            if (emx_list_entry(l, struct emx_rndv, wait)->op->peer == p)
                return true;
        }
        emx_list_each(l, &e->exports[i])
        {
            if (emx_list_entry(l, struct emx_exported, link)->session == p->session)
                return true;
        }
    }
    return false;
}

static bool removal_has_left(struct emx_engine *e, const struct emx_peer *p, emx_time now)
{
    struct emx_session *s = p->session;

    if (!s)
        return true;
    if (s->state == EMX_S_LEAVING && s->byes_due && now - s->left_ns < LEAVE_NS)
        return false;
    if (s->state == EMX_S_LEAVING)
        emx_session_end(s, EMX_S_CLOSED, ETHMX_ERR_CLOSED, now);
    return !removal_is_in_use(e, p);
}

/* Addresses of other peers may be packed against it. */
static void removal_free_peer(struct emx_engine *e, struct emx_peer *p)
{
    struct emx_peer *like = p->like;

    if (p->likes)
        return;
    emx_peer_free(e, p);
    if (like && like->likes != EMX_LIKES_MAX && !--like->likes && like->ghost)
        removal_free_peer(e, like);
}

static void removal_sweep(struct emx_engine *e, emx_time now)
{
    struct emx_peer **at = &e->removed, *p;

    while ((p = *at)) {
        if (!removal_has_left(e, p, now)) {
            at = &p->next_hash;
            continue;
        }
        *at = p->next_hash;
        removal_forget_results(e, p);
        if (p->session)
            emx_session_free(p->session);
        p->session = NULL;
        p->ghost = true;
        removal_free_peer(e, p);
    }
}

void emx_removal_expire(struct emx_engine *e, emx_time now)
{
    emx_heap_clear(&e->timers, &e->removal);
    removal_sweep(e, now);
    if (e->removed)
        emx_heap_set(&e->timers, &e->removal, now + LOOK_NS);
}

void emx_removal_fini(struct emx_engine *e)
{
    for (struct emx_peer *p = e->removed; p; p = p->next_hash) {
        if (p->session->state == EMX_S_LEAVING)
            emx_session_end(p->session, EMX_S_CLOSED, ETHMX_ERR_CLOSED, 0);
        emx_session_free(p->session);
    }
    e->removed = NULL;
}

/* ---- The call ---- */

/* Whether an operation is open, or frames are unacknowledged. */
static bool removal_is_busy(const struct emx_peer *p)
{
    const struct emx_session *s = p->session;

    return !emx_list_empty(&p->ops) || (s && !emx_session_over(s) && !emx_engine_session_drained(s));
}

static void removal_end_session(struct emx_session *s, emx_time now)
{
    if (emx_connect_reachable(s))
        emx_session_leave(s, now);
    else if (!emx_session_over(s))
        emx_session_end(s, EMX_S_CLOSED, ETHMX_ERR_CLOSED, now);
}

/* Later sessions must be distinguishable from it. */
static void removal_pass_numbers(struct emx_session *s)
{
    if (!emx_seq_before(s->tx.next, s->e->tx_first))
        s->e->tx_first = s->tx.next + 1;
}

int emx_engine_remove(struct emx_engine *e, struct emx_peer *p, bool force, emx_time now)
{
    emx_session_deferred_ack(e);
    if (p->id == e->self.id)
        return ETHMX_ERR_PARAM;
    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (!force && removal_is_busy(p))
        return ETHMX_ERR_BUSY;
    removal_forget_messages(e, p);
    emx_peer_fail(e, p, ETHMX_ERR_CLOSED);
    e->credit_peers -= p->session != NULL;
    if (p->session) {
        removal_pass_numbers(p->session);
        removal_end_session(p->session, now);
    }
    removal_forget_events(e, p);
    removal_forget_results(e, p);
    emx_peer_unlink(e, p);
    e->removals++;
    p->next_hash = e->removed;
    e->removed = p;
    removal_sweep(e, now);
    if (e->removed && !emx_timer_is_set(&e->removal))
        emx_heap_set(&e->timers, &e->removal, now + LOOK_NS);
    return ETHMX_OK;
}
