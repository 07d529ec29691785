/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The life cycle of a connection's record: how it is created, makes room for another, ends, and is freed.
 *
 * Room. If the queues have no room for a further connection, or no more memory can be registered, the least recently
 * used connection ends, if nothing is in flight on it. The connect request is repeated a little later. The peer that
 * lost its connection connects again when it has something to send. While all connections are in use the request waits,
 * but only for a limited time, because programs that talk to all peers all the time would never let it through. After
 * PATIENCE_NS a connection in use ends for it, after PATIENCE_MORE_NS also one over which memory is read. The engine
 * retransmits lost frames, and moves in frames what was not read.
 *
 * A connection that breaks is put in the error state. This returns all work in flight, including receives that it has
 * taken from the shared queue. Then it is freed. Frames in flight are lost. The engine retransmits them, and the first
 * of them connects again.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "wire/verbs/verbs_cm.h"
#include "wire/verbs/verbs_read.h"

#define ENDING_NS        1000000000ull /* limit for a device that does not return the work in flight */
#define QUIET_NS         2000000ull    /* the limit for shared receives, if the device does not report their end */
#define HALT_NS          1000000ull    /* the limit before a queue pair is reset, if the device reports */
#define HALT_LOOKS       64            /* checks at least, if this process was stopped meanwhile */
#define USED_NS          2000000ull    /* a connection used more recently makes no room */
#define PATIENCE_NS      50000000ull   /* for connections in use to become idle; and how long a new one is protected */
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

/* After this the device executes no more reads and writes of the peer. rdma_disconnect() alone would put the queue pair
 * in the error state, too, but with iWARP only after a while. */
static void life_stop(struct rdma_cm_id *id)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

    if (id->qp)
        ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
    rdma_disconnect(id);
}

/* Whether the queue pair may have taken receives of the shared queue that have not come back. On the side that connects
 * it gets nothing before it is up, because this side sends first. */
static bool life_takes_shared(const struct emx_verbs_conn *c)
{
    if (!c->dev || !c->dev->srq || !c->id->qp)
        return false;
    return c->state == EMX_VERBS_UP || (c->state == EMX_VERBS_ASKED && c->id->qp->state >= IBV_QPS_RTR);
}

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

/* Whether the connection may end for a peer that has waited so long for room. */
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

/* Whether the connection that ended for this peer still has work to return. Frames that the engine still uses do not
 * count, because their return may take long. */
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

/* ---- Receives that an ending connection has taken from the shared queue ---- */

/* The device puts such receives into the completion queue, flushed, if no message has arrived in them. When it reports
 * that it takes no more, all are there. They must be taken out before the queue pair is destroyed: the library of some
 * devices (mlx5) then drops its completions, and the shared queue would be short of these receives. Some devices never
 * report this (rxe and siw of many kernels). This is detected with the first connection, after ENDING_NS; later
 * connections wait QUIET_NS. */

static bool life_has_told(const struct emx_verbs_conn *c)
{
    return atomic_load(&c->events.last_wqe);
}

/* Whether all receives that it has taken are in the completion queue, as far as can be known. */
static bool life_is_done_taking(const struct emx_verbs_conn *c, uint64_t now)
{
    uint64_t wait_ns = c->taking && c->dev->tells == EMX_VERBS_TELLS_NOT ? QUIET_NS : ENDING_NS;

    return !c->taking || life_has_told(c) || c->dev->gone || now - c->since_ns > wait_ns;
}

/* Records once whether the device reports. */
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

/* Takes back the shared queue's receives from ending connections. */
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

/* ---- Stopping a peer's writes ---- */

/* A queue pair in the error state takes no new packet, but a software device may still process one on another
 * processor. After a reset it does not. A reset drops the work in flight: the connection is freed after ENDING_NS, and
 * receives of its own queue would be lost for good. With siw the error state suffices. */
bool emx_verbs_halts(const struct emx_verbs_dev *d)
{
    return d->srq || d->fabric == EMX_VERBS_IWARP;
}

/* A reset also drops completions that were not taken. So those on their way are waited for, but briefly: a stray write
 * into the program's memory is worse than a lost receive. */
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

/* A connection that broke by itself exists until all its work has come back. */
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

/* ---- Freeing ---- */

void emx_verbs_life_finish(struct emx_verbs_wire *w)
{
    uint64_t now = emx_verbs_now(); /* read after the start of any end */

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
