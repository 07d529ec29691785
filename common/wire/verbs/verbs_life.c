/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of a connection's record: how it is made, makes room for another, ends, and is freed.
 *
 * Too many. Where the queues have no room for a further connection, or no more memory can be registered, that which was
 * used least lately ends, if nothing is under way on it; the call comes again a little later. Its peer calls when it
 * has something to say. While all are in use the call waits, but not for ever: programs that talk to all peers all the
 * time would never let it through. After PATIENCE_NS a connection in use ends for it, after PATIENCE_MORE_NS also one
 * over which memory is read: frames on the way are sent again by the engine, and what was not read comes in frames.
 *
 * A connection that breaks is put in error, which brings back all that was under way, also receives that it has taken
 * from the shared queue; then it is freed. Frames that were under way are lost; the engine sends them again, and the
 * first of them calls.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "wire/verbs/verbs_cm.h"
#include "wire/verbs/verbs_read.h"

#define ENDING_NS        1000000000ull /* a device that does not give back what is under way is not waited for longer */
#define QUIET_NS         2000000ull  /* for one that takes shared receives and does not tell when it is done with it */
#define HALT_NS          1000000ull  /* the same before a queue pair is reset, if it tells */
#define HALT_LOOKS       64          /* at least, if this process was stopped meanwhile */
#define USED_NS          2000000ull  /* a connection that was used so lately makes no room */
#define PATIENCE_NS      50000000ull /* for connections in use to become idle; and how long a new one is left alone */
#define PATIENCE_MORE_NS 1000000000ull /* for reads to end */

struct emx_verbs_conn *emx_verbs_life_new(struct emx_verbs_wire *w, struct emx_verbs_peer *p,
                                          enum emx_verbs_state state)
{
    struct emx_verbs_conn *c = calloc(1, sizeof(*c));

    if (!c)
        return NULL;
    c->peer = p;
    c->state = state;
    c->since_ns = emx_verbs_now();
    c->ended = &w->ended;
    c->now_ns = &w->now_ns;
    c->used_ns = c->since_ns;
    c->serial = ++w->serial % EMX_VERBS_SERIALS;
    atomic_init(&c->events.fatal, EMX_VERBS_NO_EVENT);
    emx_list_init(&c->reads);
    emx_list_init(&c->link);
    emx_list_append(&w->conns, &c->link);
    p->conn = c;
    return c;
}

/* Afterwards the device takes nothing more that the other side reads or writes by itself. rdma_disconnect() alone would
 * put the queue pair in error, too, but of iWARP by and by. */
static void life_stop(struct rdma_cm_id *id)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

    if (id->qp)
        ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
    rdma_disconnect(id);
}

/* Whether its queue pair may have taken receives of the shared queue that have not come back. One that has called gets
 * nothing before it is up: it speaks first. */
static bool life_takes_shared(const struct emx_verbs_conn *c)
{
    if (!c->dev || !c->dev->srq || !c->id->qp)
        return false;
    return c->state == EMX_VERBS_UP || (c->state == EMX_VERBS_ASKED && c->id->qp->state >= IBV_QPS_RTR);
}

/* Its end begins. The peer has none then. */
void emx_verbs_life_end(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    if (c->state == EMX_VERBS_ENDING)
        return;
    if (c->peer->conn == c)
        c->peer->conn = NULL;
    c->taking = life_takes_shared(c);
    if (c->id && c->dev)
        life_stop(c->id);
    c->state = EMX_VERBS_ENDING;
    c->since_ns = emx_verbs_now();
    emx_list_del(&c->link);
    emx_list_append(&w->ending, &c->link);
    emx_verbs_reads_fail(c);
    emx_verbs_exported_over(w, c);
    c->exposed = 0;
}

static void life_free(struct emx_verbs_conn *c)
{
    emx_list_del(&c->link);
    emx_verbs_conn_fini(c);
    free(c);
}

/* ---- Room for another ---- */

/* Whether it may end for a peer that has waited so long for room. */
static bool life_may_end(const struct emx_verbs_conn *c, uint64_t now, uint64_t waited_ns)
{
    uint64_t age_ns = now - c->since_ns;

    if (waited_ns >= PATIENCE_MORE_NS)
        return age_ns >= PATIENCE_NS;
    if (c->exposed || !emx_list_empty(&c->reads))
        return false;
    if (waited_ns >= PATIENCE_NS)
        return age_ns >= PATIENCE_NS;
    return !c->peer->first && age_ns >= USED_NS && now - c->used_ns >= USED_NS;
}

/* Whether the connection that ended for this peer has not given back all yet; what is lent may take its time. */
static bool life_is_making_room(const struct emx_verbs_wire *w, const struct emx_verbs_peer *for_peer)
{
    emx_list_each(l, &w->ending)
    {
        const struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (for_peer->room_serial && c->serial == for_peer->room_serial)
            return !c->lent;
    }
    return false;
}

/* The peer is to wait for room on the device: ends the connection that was used least lately, of those that may end.
 * false: none of ours is there, so waiting is of no use. */
bool emx_verbs_life_make_room(struct emx_verbs_wire *w, const struct emx_verbs_dev *d, struct emx_verbs_peer *for_peer)
{
    uint64_t now = emx_verbs_now();
    struct emx_verbs_conn *oldest = NULL;
    bool any = !emx_list_empty(&w->ending);
    char to[INET_ADDRSTRLEN];

    if (!for_peer->crowded_ns)
        for_peer->crowded_ns = now;
    if (life_is_making_room(w, for_peer))
        return true;
    emx_list_each(l, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        any |= c->dev == d;
        if (c->dev == d && c->state == EMX_VERBS_UP && life_may_end(c, now, now - for_peer->crowded_ns) &&
            (!oldest || c->used_ns < oldest->used_ns))
            oldest = c;
    }
    if (!oldest)
        return any;
    emx_log(EMX_LOG_DEBUG, "verbs: the connection to %s makes room for another",
            emx_verbs_ip_text(oldest->peer->way.to, to));
    w->stats->verbs_idle_ended++;
    for_peer->room_serial = oldest->serial;
    emx_verbs_life_end(w, oldest);
    return true;
}

/* ---- What an ending connection has taken from the shared queue ---- */

/* The device puts such receives into the completion queue, flushed, if nothing has come into them. When it tells that
 * there will be no more, all are there. They have to be taken out before the queue pair is destroyed: the library of
 * some devices (mlx5) drops what it finds there of it, and nobody would know that these receives are not in the shared
 * queue any more. Devices that never tell (rxe and siw of many kernels) are found out by the first connection, which is
 * given ENDING_NS; later ones are given QUIET_NS. */

static bool life_has_told(const struct emx_verbs_conn *c)
{
    return atomic_load(&c->events.last_wqe);
}

/* Whether all that it has taken is in the completion queue, as far as can be known. */
static bool life_is_done_taking(const struct emx_verbs_conn *c, uint64_t now)
{
    uint64_t wait_ns = c->taking && c->dev->tells == EMX_VERBS_TELLS_NOT ? QUIET_NS : ENDING_NS;

    return !c->taking || life_has_told(c) || c->dev->gone || now - c->since_ns > wait_ns;
}

/* Learns from it, once. */
static void life_count_taken(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = c->dev;

    if (!c->taking)
        return;
    c->taking = false;
    if (d->gone)
        return;
    if (life_has_told(c))
        d->tells = EMX_VERBS_TELLS;
    else if (d->tells == EMX_VERBS_TELLS)
        w->stats->verbs_ends_unsure++;
    else
        d->tells = EMX_VERBS_TELLS_NOT;
}

/* Takes back what the shared queue has lent to connections that end. */
static void life_drain(struct emx_verbs_wire *w, uint64_t now)
{
    bool any = false;

    emx_list_each(l, &w->ending)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->drained || !life_is_done_taking(c, now))
            continue;
        life_count_taken(w, c);
        c->drained = any = true;
    }
    if (any)
        emx_verbs_drain(w);
}

/* ---- Halting ---- */

/* A queue pair in error takes no new packet, but a software device may be at one on another processor. It is not any
 * more when the queue pair is reset. What was under way does not come back then: the connection is freed after
 * ENDING_NS; receives of its own would be lost for good. siw is done with all when the queue pair is in error. */
bool emx_verbs_halts(const struct emx_verbs_dev *d)
{
    return d->srq || d->fabric == EMX_VERBS_IWARP;
}

/* A reset, too, drops completions that were not taken. So those that are on their way are waited for, not long: what is
 * written all the same is worse than a receive that is lost. */
static void life_halt(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    uint64_t since_ns = emx_verbs_now();
    unsigned looks = 0;

    if (!c->dev || c->dev->fabric == EMX_VERBS_IWARP || !emx_verbs_halts(c->dev) || !c->id->qp)
        return;
    while (c->taking && !life_has_told(c) && c->dev->tells != EMX_VERBS_TELLS_NOT &&
           (looks++ < HALT_LOOKS || emx_verbs_now() - since_ns < HALT_NS)) {
        emx_verbs_drain(w);
        emx_verbs_events_read(c->dev->context);
    }
    emx_verbs_drain(w);
    if (life_has_told(c) || c->dev->tells != EMX_VERBS_TELLS_PERHAPS)
        life_count_taken(w, c);
    c->taking = false;
    ibv_modify_qp(c->id->qp, &reset, IBV_QP_STATE);
}

/* One that broke by itself is there until all that was under way is back. */
static void life_halt_ending(struct emx_verbs_wire *w, const struct emx_verbs_peer *p, uint32_t nonce)
{
    emx_list_each(l, &w->ending)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->peer == p && c->nonce == nonce)
            life_halt(w, c);
    }
}

void emx_verbs_disconnect_key(struct emx_wire *base, const struct emx_wire_addr *to, const uint64_t *key)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;
    uint32_t nonce = key ? (uint32_t)(*key >> 32) : 0;
    struct emx_verbs_way way;
    struct emx_verbs_peer *p;

    memcpy(&way, to, sizeof(way));
    p = emx_verbs_peer_get(w, way.id);
    if (!p)
        return;
    if (p->conn && (!key || p->conn->nonce == nonce))
        emx_verbs_broke(w, p->conn, "an operation with that peer has failed");
    if (key)
        life_halt_ending(w, p, nonce);
}

/* ---- The end of endings ---- */

void emx_verbs_life_finish(struct emx_verbs_wire *w)
{
    uint64_t now = emx_verbs_now(); /* not earlier than any end that has begun */

    life_drain(w, now);
    emx_list_each_safe(l, next, &w->ending)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->drained && (emx_verbs_conn_idle(c) || (!c->lent && now - c->since_ns > ENDING_NS)))
            life_free(c);
    }
}

static void life_free_all(struct emx_list *list)
{
    struct emx_list *l;

    while ((l = emx_list_first(list)))
        life_free(emx_list_entry(l, struct emx_verbs_conn, link));
}

void emx_verbs_life_end_all(struct emx_verbs_wire *w)
{
    emx_list_each_safe(l, next, &w->conns) emx_verbs_life_end(w, emx_list_entry(l, struct emx_verbs_conn, link));
    life_free_all(&w->ending);
}
