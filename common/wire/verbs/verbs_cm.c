/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How connections come about and end, with rdma_cm.
 *
 * Finding devices. An address of each chosen interface is bound; rdma_cm knows which device the address belongs to, and
 * which GID: of RoCE that of version 2, unless the administrator has said otherwise
 * (/sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_mode). All interfaces listen at one port, which peers are
 * told.
 *
 * Calling. The first frame to a peer calls it. Both sides tell each other by a *card* in the private data of the call:
 * who they are, how many frames the other may have on the way. Who called speaks first (iWARP wants it so): a message
 * without a frame. The other side sends nothing before.
 *
 * Both call at once, as they do: both ends of a pair start with a hello. Of two calls that cross, that of the smaller
 * endpoint number counts. Its caller declines the other, as *crossing*, and the other gives up its own when it sees the
 * first.
 *
 * An own call that counts no more is *left* alone until its answer comes: with iWARP the kernel would wait for that,
 * and we with it.
 *
 * Calling again. A side whose connection is up may be called by a peer that has lost it already: the new call counts.
 * But with iWARP a call that crossed may come so late that the other is up already. So each counts the connections that
 * have come up with the peer (epoch) and tells it in the call: one that knows of fewer is *stale*. Its caller is told
 * the count and may call again.
 *
 * Looking after. Once a second each connection over which nothing came is tried by a write of nothing: a side that only
 * receives would not notice that the other's queue pair is gone. And each device's file is looked for: when a device is
 * removed it goes first, and the removal then waits until we have let go of all. (rdma_cm tells of it, too, but only if
 * its turn comes before that of the kernel's part that waits.)
 *
 * Devices also tell by themselves (verbs_event.c): that a queue pair has failed, which ends its connection; that a port
 * is down, which ends those over it; that the device has failed, which is as if it were removed.
 *
 * With iWARP the end of a write says nothing: TCP has taken it. There a read of nothing is the trial, which the other
 * device must answer. If it does not, for a quarter of ETHMX_PEER_TIMEOUT, the peer is lost (below).
 *
 * Packets that get lost. With RoCE and InfiniBand devices send again by themselves, after a time that is ours to set,
 * and give up after some tries: the connection breaks. Of a call the kernel would do so after 4.3 s, which is longer
 * than anybody waits for it; so an own call that is not answered is taken back and made again (not with iWARP: see
 * above, and TCP sends again by itself).
 *
 * Lost. When a peer that there was a connection with cannot be called several times in a row, or its device is removed,
 * this is told upwards (unreachable()): another wire may reach it. It is not told too late for that: all these calls
 * together take no longer than half the time after which the peer is dead. What waits goes on waiting till then, so
 * that one call follows the other also where there is little to say.
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
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/verbs/verbs_peer.h"
#include "wire/verbs/verbs_read.h"

#define MAGIC            0x4d785632u /* "2VxM": version 2 of what follows */
#define LOOK_UP_MS       2000
#define AGAIN_NS         200000000ull  /* after a call that failed */
#define AGAIN_BROKEN_NS  10000000ull   /* after a connection that broke */
#define CROSSING_NS      1000000000ull /* the other one's call is to come in this time */
#define ENDING_NS        1000000000ull /* a device that does not give back what is under way is not waited for longer */
#define QUIET_NS         2000000ull /* for one that takes shared receives and does not tell when it is done with it */
#define HALT_NS          1000000ull /* the same before a queue pair is reset, if it tells */
#define HALT_LOOKS       64         /* at least, if this process was stopped meanwhile */
#define LOOK_NS          1000000000ull /* between two looks after connections and devices */
#define SILENT_LEAST     2             /* looks */
#define USED_NS          2000000ull    /* a connection that was used so lately makes no room */
#define ROOM_NS          3000000ull    /* until one that makes room has done so */
#define PATIENCE_NS      50000000ull   /* for connections in use to become idle; and how long a new one is left alone */
#define PATIENCE_MORE_NS 1000000000ull /* for reads to end */
#define LOST             5             /* calls that fail in a row: the peer is not reached any more */
#define ACK_UNIT_NS      4096ull
#define ACK_EXPONENT_MAX 31
#define RETRIES          6             /* of a device; 7, the most there are, is for ever with rxe */
#define REPEAT_NS        1000000000ull /* a call without an answer is made again */
#define LISTEN_TRIES     16
#define LISTEN_BACKLOG   1024

enum card_kind { CARD_CALL = 1, CARD_ACCEPT, CARD_CROSSING, CARD_STALE, CARD_STRANGER, CARD_FULL, CARD_LATER };

/* Private data of calls and answers. */
struct card {
    uint32_t magic;
    uint32_t kind;
    uint32_t from, to; /* endpoints */
    uint32_t epoch;
    uint32_t credits;
    uint32_t nonce; /* of the connection, chosen by the caller */
};

uint64_t emx_verbs_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t random_number(void)
{
    uint32_t r;

    while (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        ;
    return r;
}

static struct sockaddr_in address(struct in_addr ip, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = ip, .sin_port = htons(port)};
}

static struct card card_to(const struct emx_verbs_wire *w, const struct emx_verbs_peer *p, enum card_kind kind,
                           unsigned credits)
{
    return (struct card){
        .magic = MAGIC, .kind = kind, .from = w->id, .to = p->way.id, .epoch = p->epoch, .credits = credits};
}

static struct emx_verbs_dev *find_dev(const struct emx_verbs_wire *w, const struct ibv_context *context)
{
    for (unsigned i = 0; i < w->dev_count; i++) {
        if (w->dev[i]->context == context)
            return w->dev[i];
    }
    return NULL;
}

/* ---- Connections ---- */

static struct emx_verbs_conn *new_conn(struct emx_verbs_wire *w, struct emx_verbs_peer *p, enum emx_verbs_state state)
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
static void stop(struct rdma_cm_id *id)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

    if (id->qp)
        ibv_modify_qp(id->qp, &error, IBV_QP_STATE);
    rdma_disconnect(id);
}

/* Whether its queue pair may have taken receives of the shared queue that have not come back. One that has called gets
 * nothing before it is up: it speaks first. */
static bool takes_shared(const struct emx_verbs_conn *c)
{
    if (!c->dev || !c->dev->srq || !c->id->qp)
        return false;
    return c->state == EMX_VERBS_UP || (c->state == EMX_VERBS_ASKED && c->id->qp->state >= IBV_QPS_RTR);
}

/* Its end begins. The peer has none then. */
static void end_conn(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    if (c->state == EMX_VERBS_ENDING)
        return;
    if (c->peer->conn == c)
        c->peer->conn = NULL;
    c->taking = takes_shared(c);
    if (c->id && c->dev)
        stop(c->id);
    c->state = EMX_VERBS_ENDING;
    c->since_ns = emx_verbs_now();
    emx_list_del(&c->link);
    emx_list_append(&w->ending, &c->link);
    emx_verbs_reads_fail(c);
    emx_verbs_exported_over(w, c);
    c->exposed = 0;
}

/* Whether our call can end before its answer. */
static bool may_be_taken_back(const struct emx_verbs_conn *c)
{
    return c->dev && c->dev->fabric != EMX_VERBS_IWARP;
}

/* Our call counts no more. */
static void leave_call(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    if (c->state != EMX_VERBS_CALLING || !c->asked_ns) {
        end_conn(w, c);
        return;
    }
    c->peer->conn = NULL;
    c->state = EMX_VERBS_LEFT;
}

static void free_conn(struct emx_verbs_conn *c)
{
    emx_list_del(&c->link);
    emx_verbs_conn_fini(c);
    free(c);
}

static const char *ip_text(struct in_addr ip, char buf[INET_ADDRSTRLEN])
{
    return inet_ntop(AF_INET, &ip, buf, INET_ADDRSTRLEN);
}

static void lose_peer(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    p->failures = LOST;
    p->lost = w->lost = true;
}

static void count_failure(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    if (p->epoch && p->failures < LOST && ++p->failures == LOST)
        lose_peer(w, p);
}

bool emx_verbs_lost(struct emx_wire *base, struct emx_wire_addr *to_p)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;

    for (unsigned i = 0; w->lost && i < EMX_VERBS_PEER_BUCKETS; i++) {
        for (struct emx_verbs_peer *p = w->peer[i]; p; p = p->next) {
            if (!p->lost)
                continue;
            p->lost = false;
            emx_verbs_addr(to_p, &p->way);
            return true;
        }
    }
    w->lost = false;
    return false;
}

static void call_ended(struct emx_verbs_wire *w, struct emx_verbs_conn *c, bool answered, const char *why)
{
    struct emx_verbs_peer *p = c->peer;
    char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];

    emx_log(EMX_LOG_INFO, "verbs: no connection from %s to %s: %s", ip_text(p->way.from, from), ip_text(p->way.to, to),
            why);
    if (answered || may_be_taken_back(c))
        end_conn(w, c);
    else
        leave_call(w, c);
    p->not_before_ns = emx_verbs_now() + AGAIN_NS;
    count_failure(w, p);
    if (!p->epoch || p->failures >= LOST)
        emx_verbs_peer_lose(w, p);
}

static void call_failed(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const char *why)
{
    call_ended(w, c, true, why);
}

/* The other side's call is to come, or ours is to be repeated. What waits goes on waiting. */
static void call_later(struct emx_verbs_wire *w, struct emx_verbs_conn *c, uint64_t wait_ns)
{
    struct emx_verbs_peer *p = c->peer;

    end_conn(w, c);
    p->not_before_ns = emx_verbs_now() + wait_ns;
}

/* Whether it may end for a peer that has waited so long for room. */
static bool may_end(const struct emx_verbs_conn *c, uint64_t now, uint64_t waited_ns)
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
static bool is_making_room(const struct emx_verbs_wire *w, const struct emx_verbs_peer *for_peer)
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
static bool make_room(struct emx_verbs_wire *w, const struct emx_verbs_dev *d, struct emx_verbs_peer *for_peer)
{
    uint64_t now = emx_verbs_now();
    struct emx_verbs_conn *oldest = NULL;
    bool any = !emx_list_empty(&w->ending);
    char to[INET_ADDRSTRLEN];

    if (!for_peer->crowded_ns)
        for_peer->crowded_ns = now;
    if (is_making_room(w, for_peer))
        return true;
    emx_list_each(l, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        any |= c->dev == d;
        if (c->dev == d && c->state == EMX_VERBS_UP && may_end(c, now, now - for_peer->crowded_ns) &&
            (!oldest || c->used_ns < oldest->used_ns))
            oldest = c;
    }
    if (!oldest)
        return any;
    emx_log(EMX_LOG_DEBUG, "verbs: the connection to %s makes room for another", ip_text(oldest->peer->way.to, to));
    w->stats->verbs_idle_ended++;
    for_peer->room_serial = oldest->serial;
    end_conn(w, oldest);
    return true;
}

void emx_verbs_broke(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const char *why)
{
    struct emx_verbs_peer *p = c->peer;
    char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];

    if (c->state == EMX_VERBS_LEFT)
        end_conn(w, c);
    else if (c->state == EMX_VERBS_CALLING || c->state == EMX_VERBS_ASKED)
        call_failed(w, c, why);
    if (c->state != EMX_VERBS_UP)
        return;
    emx_log(EMX_LOG_INFO, "verbs: the connection from %s to %s has ended: %s", ip_text(p->way.from, from),
            ip_text(p->way.to, to), why);
    end_conn(w, c);
    p->not_before_ns = emx_verbs_now() + AGAIN_BROKEN_NS;
}

void emx_verbs_up(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    if (c->state != EMX_VERBS_CALLING && c->state != EMX_VERBS_ASKED)
        return;
    c->state = EMX_VERBS_UP;
    c->since_ns = emx_verbs_now();
    c->peer->epoch++;
    c->peer->failures = 0;
    c->peer->crowded_ns = 0;
    c->may_send |= c->active;
    if (c->active)
        emx_verbs_conn_tell(c, true);
    emx_verbs_peer_flush(w, c->peer);
}

/* ---- What an ending connection has taken from the shared queue ---- */

/* The device puts such receives into the completion queue, flushed, if nothing has come into them. When it tells that
 * there will be no more, all are there. They have to be taken out before the queue pair is destroyed: the library of
 * some devices (mlx5) drops what it finds there of it, and nobody would know that these receives are not in the shared
 * queue any more. Devices that never tell (rxe and siw of many kernels) are found out by the first connection, which is
 * given ENDING_NS; later ones are given QUIET_NS. */

static bool has_told(const struct emx_verbs_conn *c)
{
    return atomic_load(&c->events.last_wqe);
}

/* Whether all that it has taken is in the completion queue, as far as can be known. */
static bool is_done_taking(const struct emx_verbs_conn *c, uint64_t now)
{
    uint64_t wait_ns = c->taking && c->dev->tells == EMX_VERBS_TELLS_NOT ? QUIET_NS : ENDING_NS;

    return !c->taking || has_told(c) || c->dev->gone || now - c->since_ns > wait_ns;
}

/* Learns from it, once. */
static void count_taken(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = c->dev;

    if (!c->taking)
        return;
    c->taking = false;
    if (d->gone)
        return;
    if (has_told(c))
        d->tells = EMX_VERBS_TELLS;
    else if (d->tells == EMX_VERBS_TELLS)
        w->stats->verbs_ends_unsure++;
    else
        d->tells = EMX_VERBS_TELLS_NOT;
}

/* Takes back what the shared queue has lent to connections that end. */
static void drain_endings(struct emx_verbs_wire *w, uint64_t now)
{
    bool any = false;

    emx_list_each(l, &w->ending)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->drained || !is_done_taking(c, now))
            continue;
        count_taken(w, c);
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
static void halt(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
    uint64_t since_ns = emx_verbs_now();
    unsigned looks = 0;

    if (!c->dev || c->dev->fabric == EMX_VERBS_IWARP || !emx_verbs_halts(c->dev) || !c->id->qp)
        return;
    while (c->taking && !has_told(c) && c->dev->tells != EMX_VERBS_TELLS_NOT &&
           (looks++ < HALT_LOOKS || emx_verbs_now() - since_ns < HALT_NS)) {
        emx_verbs_drain(w);
        emx_verbs_events_read(c->dev->context);
    }
    emx_verbs_drain(w);
    if (has_told(c) || c->dev->tells != EMX_VERBS_TELLS_PERHAPS)
        count_taken(w, c);
    c->taking = false;
    ibv_modify_qp(c->id->qp, &reset, IBV_QP_STATE);
}

/* One that broke by itself is there until all that was under way is back. */
static void halt_ending(struct emx_verbs_wire *w, const struct emx_verbs_peer *p, uint32_t nonce)
{
    emx_list_each(l, &w->ending)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->peer == p && c->nonce == nonce)
            halt(w, c);
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
        halt_ending(w, p, nonce);
}

static void finish_endings(struct emx_verbs_wire *w)
{
    uint64_t now = emx_verbs_now(); /* not earlier than any end that has begun */

    drain_endings(w, now);
    emx_list_each_safe(l, next, &w->ending)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->drained && (emx_verbs_conn_idle(c) || (!c->lent && now - c->since_ns > ENDING_NS)))
            free_conn(c);
    }
}

/* How long a peer is called before that counts as a failure. */
static uint64_t call_limit_ns(const struct emx_verbs_wire *w, const struct emx_verbs_peer *p)
{
    uint64_t limit_ns = w->cfg->p_connect_timeout, share_ns = w->cfg->p_peer_timeout / (2 * LOST);

    return p->epoch && share_ns < limit_ns ? share_ns : limit_ns;
}

/* With iWARP TCP does this. */
static bool is_to_be_repeated(const struct emx_verbs_conn *c, uint64_t now)
{
    return c->state == EMX_VERBS_CALLING && c->asked_ns && may_be_taken_back(c) && now - c->asked_ns > REPEAT_NS;
}

static void repeat_call(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_peer *p = c->peer;
    uint64_t since_ns = c->since_ns;
    char to[INET_ADDRSTRLEN];

    emx_log(EMX_LOG_DEBUG, "verbs: %s does not answer and is called again", ip_text(p->way.to, to));
    end_conn(w, c);
    emx_verbs_call(w, p);
    if (p->conn)
        p->conn->since_ns = since_ns;
}

static void give_up_calls(struct emx_verbs_wire *w, uint64_t now)
{
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->broken)
            emx_verbs_broke(w, c, strerror(c->broken));
        else if (c->state < EMX_VERBS_LEFT && now - c->since_ns > call_limit_ns(w, c->peer))
            call_ended(w, c, false, "no answer in time (ETHMX_CONNECT_TIMEOUT, ETHMX_PEER_TIMEOUT)");
        else if (is_to_be_repeated(c, now))
            repeat_call(w, c);
    }
}

/* ---- Calling ---- */

/* rdma_cm's own is 2.1 s with RoCE: so long would the connection stand still for each loss that the other side does not
 * tell of. The device counts by an exponent, of which 0 would be for ever. A kernel before 5.2 keeps its own. */
static void set_ack_timeout(const struct emx_verbs_wire *w, struct rdma_cm_id *id)
{
    uint8_t exponent = 1;

    while (exponent < ACK_EXPONENT_MAX && ACK_UNIT_NS << exponent < w->cfg->p_verbs_ack_timeout)
        exponent++;
    if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof(exponent)))
        emx_log(EMX_LOG_DEBUG, "verbs: the time until devices send again cannot be set: %s", strerror(errno));
}

void emx_verbs_call(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    struct sockaddr_in from = address(p->way.from, 0), to = address(p->way.to, p->way.port);
    struct emx_verbs_conn *c;

    if (p->conn || emx_verbs_now() < p->not_before_ns)
        return;
    c = new_conn(w, p, EMX_VERBS_CALLING);
    if (!c) {
        emx_verbs_peer_lose(w, p);
        return;
    }
    c->active = true;
    if (rdma_create_id(w->channel, &c->id, c, RDMA_PS_TCP)) {
        call_failed(w, c, strerror(errno));
        return;
    }
    set_ack_timeout(w, c->id);
    if (rdma_resolve_addr(c->id, (struct sockaddr *)&from, (struct sockaddr *)&to, LOOK_UP_MS))
        call_failed(w, c, strerror(errno));
}

static const char *no_queues(int err)
{
    if (err == ENOSPC)
        return "as many peers are connected as ETHMX_VERBS_PEERS, the device or the limit of locked memory allows";
    if (err == ENOMEM)
        return "no memory can be registered for it: is the limit of locked memory too small (ulimit -l)?";
    return strerror(err);
}

static void way_known(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = find_dev(w, c->id->verbs);
    struct card card = card_to(w, c->peer, CARD_CALL, d ? d->credits : 0);
    struct rdma_conn_param param = {.private_data = &card,
                                    .private_data_len = sizeof(card),
                                    .responder_resources = RDMA_MAX_RESP_RES,
                                    .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = 7};
    int err;

    if (!d) {
        call_failed(w, c, "the way leads over a device that is not among ours");
        return;
    }
    card.nonce = c->nonce = random_number();
    err = emx_verbs_conn_ready(c, d);
    if (err == ENOSPC && make_room(w, d, c->peer))
        call_later(w, c, ROOM_NS);
    else if (err)
        call_failed(w, c, no_queues(err));
    else if (rdma_connect(c->id, &param))
        call_failed(w, c, strerror(errno));
    else
        c->asked_ns = emx_verbs_now();
}

/* ---- Being called ---- */

static void decline(struct emx_verbs_wire *w, struct rdma_cm_id *id, const struct card *call, enum card_kind kind,
                    uint32_t epoch)
{
    const struct card card = {.magic = MAGIC, .kind = kind, .from = w->id, .to = call->from, .epoch = epoch};

    rdma_reject(id, &card, sizeof(card));
    rdma_destroy_id(id);
}

/* Whether a call is to be answered although there is a connection, or our own call. */
static bool takes_over(struct emx_verbs_wire *w, struct emx_verbs_peer *p, struct rdma_cm_id *id,
                       const struct card *call)
{
    struct emx_verbs_conn *c = p->conn;

    if (c && c->state == EMX_VERBS_CALLING && w->id < call->from) {
        decline(w, id, call, CARD_CROSSING, p->epoch);
        return false;
    }
    if (c && c->state == EMX_VERBS_UP && call->epoch < p->epoch) {
        decline(w, id, call, CARD_STALE, p->epoch);
        return false;
    }
    if (c)
        leave_call(w, c);
    return true;
}

/* One end may have counted a connection that the other never saw come up: both go on from the larger count, or a call
 * that comes late would not be known as stale. */
static void agree(struct emx_verbs_peer *p, const struct card *theirs)
{
    if (theirs->epoch > p->epoch)
        p->epoch = theirs->epoch;
}

static void answer(struct emx_verbs_wire *w, struct rdma_cm_id *id, const struct card *call)
{
    struct emx_verbs_dev *d = find_dev(w, id->verbs);
    struct emx_verbs_peer *p = call->to == w->id && call->from != w->id ? emx_verbs_peer_get(w, call->from) : NULL;
    struct rdma_conn_param param = {
        .responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH, .rnr_retry_count = 7};
    struct emx_verbs_conn *c;
    struct card card;
    int err;

    if (!p || !d) {
        decline(w, id, call, CARD_STRANGER, 0);
        return;
    }
    if (!takes_over(w, p, id, call))
        return;
    c = new_conn(w, p, EMX_VERBS_ASKED);
    if (!c) {
        decline(w, id, call, CARD_FULL, 0);
        return;
    }
    c->id = id;
    id->context = c;
    c->credits = call->credits;
    c->nonce = call->nonce;
    agree(p, call);
    card = card_to(w, p, CARD_ACCEPT, d->credits);
    param.private_data = &card;
    param.private_data_len = sizeof(card);
    set_ack_timeout(w, id);
    err = emx_verbs_conn_ready(c, d);
    if (!err && rdma_accept(id, &param))
        err = errno;
    if (!err)
        return;
    card.kind = err == ENOSPC && make_room(w, d, p) ? CARD_LATER : CARD_FULL;
    rdma_reject(id, &card, sizeof(card));
    if (card.kind == CARD_LATER)
        call_later(w, c, ROOM_NS);
    else
        call_failed(w, c, no_queues(err));
}

/* ---- What rdma_cm tells ---- */

/* An event, copied, for it is given back before it is handled: an id cannot be destroyed with one outstanding. */
struct news {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    bool has_card;
    struct card card;
};

static bool next_news(struct emx_verbs_wire *w, struct news *n)
{
    struct rdma_cm_event *ev;

    if (rdma_get_cm_event(w->channel, &ev))
        return false;
    *n = (struct news){.type = ev->event, .id = ev->id, .status = ev->status};
    switch (ev->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED:
        if (ev->param.conn.private_data && ev->param.conn.private_data_len >= sizeof(n->card)) {
            memcpy(&n->card, ev->param.conn.private_data, sizeof(n->card));
            n->has_card = n->card.magic == MAGIC;
        }
        break;
    default:
        break;
    }
    rdma_ack_cm_event(ev);
    return true;
}

static void called(struct emx_verbs_wire *w, const struct news *n)
{
    if (n->has_card && n->card.kind == CARD_CALL) {
        answer(w, n->id, &n->card);
        return;
    }
    rdma_reject(n->id, NULL, 0);
    rdma_destroy_id(n->id);
}

static void established(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct news *n)
{
    if (c->state == EMX_VERBS_CALLING) {
        if (!n->has_card || n->card.kind != CARD_ACCEPT || n->card.from != c->peer->way.id) {
            call_failed(w, c, "somebody else answered");
            return;
        }
        c->credits = n->card.credits;
        agree(c->peer, &n->card);
    }
    emx_verbs_up(w, c);
}

static void rejected(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct news *n)
{
    char why[80];

    if (c->state == EMX_VERBS_ASKED) {
        call_later(w, c, AGAIN_NS); /* taken back: it is to come again */
        return;
    }
    switch (n->has_card ? n->card.kind : 0) {
    case CARD_CROSSING:
        call_later(w, c, CROSSING_NS);
        return;
    case CARD_STALE:
        c->peer->epoch = n->card.epoch;
        call_later(w, c, 0);
        return;
    case CARD_LATER:
        call_later(w, c, ROOM_NS);
        return;
    case CARD_STRANGER:
        call_failed(w, c, "another process has taken its place");
        return;
    case CARD_FULL:
        call_failed(w, c, "it has no room for another connection (ETHMX_VERBS_PEERS, ulimit -l)");
        return;
    default:
        snprintf(why, sizeof(why), "nobody listens there any more, or a fault on the way (%d)", n->status);
        call_failed(w, c, why);
    }
}

/* An answer to a call that was left. */
static void late_answer(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct news *n)
{
    if (n->type != RDMA_CM_EVENT_ADDR_RESOLVED && n->type != RDMA_CM_EVENT_ROUTE_RESOLVED)
        end_conn(w, c);
}

static void to_conn(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct news *n)
{
    char why[80];

    if (c->state == EMX_VERBS_ENDING)
        return;
    if (c->state == EMX_VERBS_LEFT) {
        late_answer(w, c, n);
        return;
    }
    switch (n->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(c->id, LOOK_UP_MS))
            call_failed(w, c, strerror(errno));
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        way_known(w, c);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        established(w, c, n);
        break;
    case RDMA_CM_EVENT_REJECTED:
        rejected(w, c, n);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        emx_verbs_broke(w, c, "the other side has closed it, or was lost");
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
        snprintf(why, sizeof(why), "%s (%d)", rdma_event_str(n->type), n->status);
        emx_verbs_broke(w, c, why);
        break;
    default:
        break;
    }
}

/* ---- A device is removed, or tells that something has failed ---- */

/* why: after its name. */
static void device_lost(struct emx_verbs_wire *w, const struct ibv_context *context, const char *why)
{
    struct emx_verbs_dev *d = find_dev(w, context);

    if (!d || d->gone)
        return;
    d->gone = true;
    emx_log(EMX_LOG_WARN, "verbs: the device %s %s", ibv_get_device_name(d->context->device), why);
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (!c->id || c->id->verbs != context)
            continue;
        emx_verbs_broke(w, c, "its device is of no use any more");
        lose_peer(w, c->peer);
    }
}

/* Its connections would break by themselves, but later: TCP has much patience. Peers that cannot be called again
 * meanwhile are lost by the usual count of calls. */
static void ports_down(struct emx_verbs_wire *w, const struct emx_verbs_dev *d, uint64_t ports)
{
    unsigned ended = 0;

    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->dev != d || !(ports & emx_verbs_port_bit(c->id->port_num)))
            continue;
        emx_verbs_broke(w, c, "the device's port is down");
        ended++;
    }
    for (unsigned i = 0; i < w->port_count; i++) {
        const struct emx_verbs_port *p = &w->port[i];

        if (p->dev == d && ports & emx_verbs_port_bit(p->listener->port_num))
            emx_log(EMX_LOG_WARN, "verbs: port %u of the device %s is down (connections that have ended: %u)",
                    p->listener->port_num, ibv_get_device_name(d->context->device), ended);
    }
}

static void conn_failed(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    int fatal = atomic_load(&c->events.fatal);
    char why[100];

    if (fatal == EMX_VERBS_NO_EVENT)
        return;
    snprintf(why, sizeof(why), "its device tells: %s", ibv_event_type_str((enum ibv_event_type)fatal));
    emx_verbs_broke(w, c, why);
}

/* What was noted of a device and its connections (verbs_event.c). */
static void heed_events(struct emx_verbs_wire *w, struct emx_verbs_dev *d)
{
    uint64_t ports;
    int fatal;
    char why[100];

    if (!atomic_exchange(&d->events.any, false))
        return;
    fatal = atomic_exchange(&d->events.fatal, EMX_VERBS_NO_EVENT);
    ports = atomic_exchange(&d->events.ports_bad, 0);
    if (fatal != EMX_VERBS_NO_EVENT) {
        snprintf(why, sizeof(why), "has failed: %s", ibv_event_type_str((enum ibv_event_type)fatal));
        device_lost(w, d->context, why);
    }
    if (ports)
        ports_down(w, d, ports);
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->dev == d)
            conn_failed(w, c);
    }
}

static void forget_device(struct emx_verbs_wire *w, unsigned i)
{
    struct emx_verbs_dev *d = w->dev[i];

    w->dev[i] = w->dev[--w->dev_count];
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, d->context->async_fd, NULL); /* another endpoint may keep it open */
    emx_verbs_exported_forget(w, d);
    emx_verbs_dev_close(d);
    for (unsigned j = 0; j < w->port_count; j++) {
        if (w->port[j].dev != d)
            continue;
        w->port[j].dev = NULL;
        rdma_destroy_id(w->port[j].listener);
        w->port[j].listener = NULL;
    }
}

/* All that holds it has to be given back, or its removal waits for us. */
static void forget_devices(struct emx_verbs_wire *w)
{
    for (unsigned i = w->dev_count; i-- > 0;) {
        if (w->dev[i]->gone && !w->dev[i]->conn_count)
            forget_device(w, i);
    }
}

/* ---- Looking after ---- */

/* Looks, not time: this process may have been stopped, and not the other's device. */
static uint64_t silence_limit(const struct emx_verbs_wire *w)
{
    uint64_t looks = w->cfg->p_peer_timeout / (4 * LOOK_NS);

    return looks < SILENT_LEAST ? SILENT_LEAST : looks;
}

/* It is not called again first: siw lets who calls wait until TCP has given up, for two minutes. */
static void fell_silent(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_peer *p = c->peer;

    emx_verbs_broke(w, c, "its device does not answer any more");
    emx_verbs_peer_lose(w, p);
    lose_peer(w, p);
}

static void look_after(struct emx_verbs_wire *w)
{
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (emx_verbs_conn_probe(c) > silence_limit(w))
            fell_silent(w, c);
    }
    for (unsigned i = 0; i < w->dev_count; i++) {
        const char *path = w->dev[i]->context->device->dev_path;

        if (path[0] && access(path, F_OK) && errno == ENOENT)
            device_lost(w, w->dev[i]->context, "is being removed");
    }
}

/* ---- All that rdma_cm tells ---- */

void emx_verbs_calls(struct emx_verbs_wire *w, bool news)
{
    struct news n;
    uint64_t now;

    while (news && next_news(w, &n)) {
        if (n.type == RDMA_CM_EVENT_CONNECT_REQUEST)
            called(w, &n);
        else if (n.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
            device_lost(w, n.id->verbs, "is being removed");
        else if (n.id->context)
            to_conn(w, n.id->context, &n);
    }
    w->now_ns = now = emx_verbs_now();
    if (now - w->looked_ns >= LOOK_NS) {
        w->looked_ns = now;
        look_after(w);
    }
    for (unsigned i = 0; i < w->dev_count; i++)
        heed_events(w, w->dev[i]);
    give_up_calls(w, now);
    finish_endings(w);
    forget_devices(w);
    emx_list_each_safe(l, next, &w->busy) emx_verbs_call(w, emx_list_entry(l, struct emx_verbs_peer, busy));
}

/* ---- Listening ---- */

/* The device of an interface, opened if no other interface has it. NULL: why has a sentence. */
static struct emx_verbs_dev *open_dev(struct emx_verbs_wire *w, const struct rdma_cm_id *id, char *why,
                                      size_t why_len_bytes)
{
    struct emx_verbs_dev *d = find_dev(w, id->verbs);

    if (d || emx_verbs_dev_open(&d, id->verbs, id->port_num, w->cfg, w->stats, why, why_len_bytes))
        return d;
    w->dev[w->dev_count++] = d;
    return d;
}

/* Listens at one interface. false: why has a sentence; *again_p: the port is taken, another may do. */
static bool listen_at(struct emx_verbs_wire *w, const struct emx_netif *nif, unsigned i, bool *again_p, char *why,
                      size_t why_len_bytes)
{
    struct emx_verbs_port *p = &w->port[w->port_count];
    struct sockaddr_in a = address(nif->ip, w->listen_port);

    *p = (struct emx_verbs_port){.nif = i};
    if (rdma_create_id(w->channel, &p->listener, NULL, RDMA_PS_TCP)) {
        snprintf(why, why_len_bytes, "%s", strerror(errno));
        return false;
    }
    if (rdma_bind_addr(p->listener, (struct sockaddr *)&a)) {
        *again_p = errno == EADDRINUSE;
        snprintf(why, why_len_bytes, "%s", errno == ENODEV ? "no RDMA device" : strerror(errno));
        goto err_destroy;
    }
    if (!p->listener->verbs) {
        snprintf(why, why_len_bytes, "no RDMA device");
        goto err_destroy;
    }
    p->dev = open_dev(w, p->listener, why, why_len_bytes);
    if (!p->dev)
        goto err_destroy;
    if (rdma_listen(p->listener, LISTEN_BACKLOG)) {
        *again_p = errno == EADDRINUSE;
        snprintf(why, why_len_bytes, "%s", strerror(errno));
        goto err_destroy;
    }
    w->listen_port = ntohs(rdma_get_src_port(p->listener));
    w->port_count++;
    return true;

err_destroy:
    rdma_destroy_id(p->listener);
    return false;
}

static void stop_listening(struct emx_verbs_wire *w)
{
    while (w->port_count) {
        struct emx_verbs_port *p = &w->port[--w->port_count];

        if (p->listener)
            rdma_destroy_id(p->listener);
    }
    w->listen_port = 0;
}

static void add(char *why, size_t why_len_bytes, const char *nif, const char *text)
{
    size_t n = strlen(why);

    snprintf(why + n, why_len_bytes - n, "%s%s: %s", n ? "; " : "", nif, text);
}

static void describe(const struct emx_verbs_dev *d, char *text, size_t text_len_bytes)
{
    static const char *const fabric[] = {"RoCE", "iWARP", "InfiniBand"};

    int n = snprintf(text, text_len_bytes, "%s (%s), up to %u peers, %u frames on the way from each, %s",
                     ibv_get_device_name(d->context->device), fabric[d->fabric], d->conn_limit, d->credits,
                     d->srq ? "one receive queue for all" : "a receive queue for each");

    if (d->cache)
        snprintf(text + n, text_len_bytes - (size_t)n, ", reads messages from %llu bytes on (%s)%s, %u at a time",
                 (unsigned long long)(d->critical.resident_bytes < d->critical.fresh_bytes ? d->critical.resident_bytes
                                                                                           : d->critical.fresh_bytes),
                 d->critical_text,
                 d->critical.way.count ? ", and up to ETHMX_EAGER_MAX only if that is worth the round trip" : "",
                 d->reads_max);
}

/* One try at all interfaces, with one port. false: the port was free at some and taken at others. */
static bool listen_once(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why, size_t why_len_bytes)
{
    bool again = false;
    char text[400];

    why[0] = 0;
    for (unsigned i = 0; i < netifs->count && w->port_count < EMX_VERBS_PORTS; i++) {
        const struct emx_netif *nif = &netifs->nif[i];

        if (!nif->chosen || nif->loopback)
            continue;
        if (!nif->ip.s_addr)
            snprintf(text, sizeof(text), "no IP address, by which RDMA devices are found");
        else if (listen_at(w, nif, i, &again, text, sizeof(text)))
            describe(w->port[w->port_count - 1].dev, text, sizeof(text));
        else if (again && w->port_count)
            return false;
        add(why, why_len_bytes, nif->name, text);
    }
    return true;
}

int emx_verbs_listen(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why, size_t why_len_bytes)
{
    for (unsigned i = 0; i < LISTEN_TRIES && !listen_once(w, netifs, why, why_len_bytes); i++)
        stop_listening(w);
    if (w->port_count)
        return ETHMX_OK;
    if (!why[0])
        snprintf(why, why_len_bytes, "no interface is chosen that could have an RDMA device (ETHMX_IF)");
    return ETHMX_ERR_NO_WIRE;
}

static void free_conns(struct emx_list *list)
{
    struct emx_list *l;

    while ((l = emx_list_first(list)))
        free_conn(emx_list_entry(l, struct emx_verbs_conn, link));
}

void emx_verbs_disconnect(struct emx_verbs_wire *w)
{
    emx_list_each_safe(l, next, &w->conns) end_conn(w, emx_list_entry(l, struct emx_verbs_conn, link));
    free_conns(&w->ending);
    emx_verbs_reads_drop(w);
    while (w->dev_count)
        forget_device(w, w->dev_count - 1);
    stop_listening(w);
}
