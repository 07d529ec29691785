/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Establishes connections with rdma_cm. verbs_life.c ends them, verbs_watch.c handles failures, verbs_listen.c opens
 * devices.
 *
 * Connect requests. The first frame to a peer sends a connect request. Each side sends *CM private data* (struct card):
 * its endpoint, and how many frames the other may have in flight. The side that connects sends the first message, one
 * without a frame, because iWARP requires this order. The other side sends nothing before.
 *
 * Crossing requests. Both sides often connect at the same time, because both ends of a pair start with a hello. The
 * request of the smaller endpoint number wins. Its sender rejects the other request as *crossing*. The other side
 * abandons its own request when it receives the first.
 *
 * An abandoned request stays (EMX_VERBS_LEFT) until its reply arrives. With iWARP, destroying it earlier would block in
 * the kernel until then.
 *
 * Reconnecting. A side whose connection is up may get a request from a peer that has lost the connection: the new
 * request wins. But with iWARP a crossing request may arrive after the other connection is up. So each side counts the
 * connections with the peer that have come up (epoch) and sends the count in the request. A request with a smaller
 * count is *stale*. The reply has the count, and its receiver may connect again.
 *
 * Lost packets. RoCE and InfiniBand devices retransmit. The wire sets their time-out; after some retries the connection
 * breaks. For a connect request the kernel's retry time is longer than a peer waits. So a request without a reply is
 * cancelled and sent again (not with iWARP: it cannot be cancelled, see above, and TCP retransmits).
 *
 * Unreachable peers. If several connect requests in a row fail to a peer that was connected before, or its device is
 * removed, unreachable() reports this, because another wire may reach the peer. All these requests together take no
 * more than half of the time after which the peer is considered dead, so that the report is in time. Frames wait until
 * then, so that requests continue even if the engine sends little.
 */
#define _GNU_SOURCE
#include "wire/verbs/verbs_cm.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/log.h"
#include "wire/verbs/verbs_id.h"

#define MAGIC           0x4d785632u /* "2VxM": version 2 of struct card */
#define LOOK_UP_MS      2000
#define AGAIN_NS        200000000ull  /* after a failed request */
#define AGAIN_BROKEN_NS 10000000ull   /* after a broken connection */
#define CROSSING_NS     1000000000ull /* the peer's crossing request must arrive within this time */
#define ROOM_NS         3000000ull    /* until the connection that makes room has ended */
#define LOST            5             /* failed requests in a row after which the peer is unreachable */
#define RETRIES         6             /* of a device; with rxe the maximum, 7, means for ever */
#define REPEAT_NS       1000000000ull /* after which a request without a reply is sent again */

enum card_kind { CARD_CALL = 1, CARD_ACCEPT, CARD_CROSSING, CARD_STALE, CARD_STRANGER, CARD_FULL, CARD_LATER };

/* CM private data of requests and replies. */
struct card {
    uint32_t magic;
    uint32_t kind;
    uint32_t from, to; /* endpoints */
    uint32_t epoch;
    uint32_t credits;
    uint32_t nonce; /* of the connection, chosen by the side that connects */
};

uint64_t emx_verbs_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint32_t cm_random(void)
{
    uint32_t r;

    while (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        ;
    return r;
}

static struct card cm_card(const struct emx_verbs_wire *w, const struct emx_verbs_peer *p, enum card_kind kind,
                           unsigned credits)
{
    return (struct card){
        .magic = MAGIC, .kind = kind, .from = w->id, .to = p->way.id, .epoch = p->epoch, .credits = credits};
}

/* ---- The end of a request ---- */

/* Whether this side's request can be cancelled before its reply. */
static bool cm_may_take_back(const struct emx_verbs_conn *c)
{
    return c->dev && c->dev->fabric != EMX_VERBS_IWARP;
}

/* Abandons this side's request. */
static void cm_leave(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    if (c->state != EMX_VERBS_CALLING || !c->asked_ns) {
        emx_verbs_life_end(w, c);
        return;
    }
    c->peer->conn = NULL;
    c->state = EMX_VERBS_LEFT;
}

void emx_verbs_peer_unreachable(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    p->failures = LOST;
    p->lost = w->lost = true;
}

static void cm_count_failure(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    if (p->epoch && p->failures < LOST && ++p->failures == LOST)
        emx_verbs_peer_unreachable(w, p);
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

static void cm_call_ended(struct emx_verbs_wire *w, struct emx_verbs_conn *c, bool answered, const char *why)
{
    struct emx_verbs_peer *p = c->peer;
    char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];

    emx_log(EMX_LOG_INFO, "verbs: no connection from %s to %s: %s", emx_verbs_ip_text(p->way.from, from),
            emx_verbs_ip_text(p->way.to, to), why);
    if (answered || cm_may_take_back(c))
        emx_verbs_life_end(w, c);
    else
        cm_leave(w, c);
    p->not_before_ns = emx_verbs_now() + AGAIN_NS;
    cm_count_failure(w, p);
    if (!p->epoch || p->failures >= LOST)
        emx_verbs_peer_lose(w, p);
}

static void cm_call_failed(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const char *why)
{
    cm_call_ended(w, c, true, why);
}

/* Ends the connection's record. Another request follows: the peer's, or a repetition of this side's. Waiting frames
 * stay. */
static void cm_call_later(struct emx_verbs_wire *w, struct emx_verbs_conn *c, uint64_t wait_ns)
{
    struct emx_verbs_peer *p = c->peer;

    emx_verbs_life_end(w, c);
    p->not_before_ns = emx_verbs_now() + wait_ns;
}

/* How long a peer may leave a request without a reply. */
static uint64_t cm_call_limit_ns(const struct emx_verbs_wire *w, const struct emx_verbs_peer *p)
{
    uint64_t limit_ns = w->cfg->p_connect_timeout, share_ns = w->cfg->p_peer_timeout / (2 * LOST);

    return p->epoch && share_ns < limit_ns ? share_ns : limit_ns;
}

/* Not with iWARP, where TCP retransmits. */
static bool cm_is_to_be_repeated(const struct emx_verbs_conn *c, uint64_t now)
{
    return c->state == EMX_VERBS_CALLING && c->asked_ns && cm_may_take_back(c) && now - c->asked_ns > REPEAT_NS;
}

static void cm_repeat(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_peer *p = c->peer;
    uint64_t since_ns = c->since_ns;
    char to[INET_ADDRSTRLEN];

    emx_log(EMX_LOG_DEBUG, "verbs: %s does not answer and is called again", emx_verbs_ip_text(p->way.to, to));
    emx_verbs_life_end(w, c);
    emx_verbs_call(w, p);
    if (p->conn)
        p->conn->since_ns = since_ns;
}

static void cm_give_up(struct emx_verbs_wire *w, uint64_t now)
{
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->broken)
            emx_verbs_broke(w, c, strerror(c->broken));
        else if (c->state < EMX_VERBS_LEFT && now - c->since_ns > cm_call_limit_ns(w, c->peer))
            cm_call_ended(w, c, false, "no answer in time (ETHMX_CONNECT_TIMEOUT, ETHMX_PEER_TIMEOUT)");
        else if (cm_is_to_be_repeated(c, now))
            cm_repeat(w, c);
    }
}

/* ---- Connected, broken ---- */

void emx_verbs_broke(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const char *why)
{
    struct emx_verbs_peer *p = c->peer;
    char from[INET_ADDRSTRLEN], to[INET_ADDRSTRLEN];

    if (c->state == EMX_VERBS_LEFT)
        emx_verbs_life_end(w, c);
    else if (c->state == EMX_VERBS_CALLING || c->state == EMX_VERBS_ASKED)
        cm_call_failed(w, c, why);
    if (c->state != EMX_VERBS_UP)
        return;
    emx_log(EMX_LOG_INFO, "verbs: the connection from %s to %s has ended: %s", emx_verbs_ip_text(p->way.from, from),
            emx_verbs_ip_text(p->way.to, to), why);
    emx_verbs_life_end(w, c);
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

/* ---- Connecting ---- */

void emx_verbs_call(struct emx_verbs_wire *w, struct emx_verbs_peer *p)
{
    struct sockaddr_in from = emx_verbs_sockaddr(p->way.from, 0), to = emx_verbs_sockaddr(p->way.to, p->way.port);
    struct emx_verbs_conn *c;

    if (p->conn || emx_verbs_now() < p->not_before_ns)
        return;
    c = emx_verbs_life_new(w, p, EMX_VERBS_CALLING);
    if (!c) {
        emx_verbs_peer_lose(w, p);
        return;
    }
    c->active = true;
    if (rdma_create_id(w->channel, &c->id, c, RDMA_PS_TCP)) {
        cm_call_failed(w, c, strerror(errno));
        return;
    }
    emx_verbs_id_set_ack_timeout(c->id, w->cfg);
    emx_verbs_id_set_tos(c->id, w->cfg, EMX_LOG_DEBUG); /* a failure was logged for the listener */
    if (rdma_resolve_addr(c->id, (struct sockaddr *)&from, (struct sockaddr *)&to, LOOK_UP_MS))
        cm_call_failed(w, c, strerror(errno));
}

static const char *cm_no_queues(int err)
{
    if (err == ENOSPC)
        return "as many peers are connected as ETHMX_VERBS_PEERS, the device or the limit of locked memory allows";
    if (err == ENOMEM)
        return "no memory can be registered for it: is the limit of locked memory too small (ulimit -l)?";
    return strerror(err);
}

static void cm_way_known(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = emx_verbs_dev_find(w, c->id->verbs);
    struct card card = cm_card(w, c->peer, CARD_CALL, d ? d->credits : 0);
    struct rdma_conn_param param = {.private_data = &card,
                                    .private_data_len = sizeof(card),
                                    .responder_resources = RDMA_MAX_RESP_RES,
                                    .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                    .retry_count = RETRIES,
                                    .rnr_retry_count = 7};
    int err;

    if (!d) {
        cm_call_failed(w, c, "the way leads over a device that is not among ours");
        return;
    }
    card.nonce = c->nonce = cm_random();
    err = emx_verbs_conn_ready(c, d);
    if (err == ENOSPC && emx_verbs_life_make_room(w, d, c->peer))
        cm_call_later(w, c, ROOM_NS);
    else if (err)
        cm_call_failed(w, c, cm_no_queues(err));
    else if (rdma_connect(c->id, &param))
        cm_call_failed(w, c, strerror(errno));
    else
        c->asked_ns = emx_verbs_now();
}

/* ---- Requests of peers ---- */

static void cm_decline(struct emx_verbs_wire *w, struct rdma_cm_id *id, const struct card *call, enum card_kind kind,
                       uint32_t epoch)
{
    const struct card card = {.magic = MAGIC, .kind = kind, .from = w->id, .to = call->from, .epoch = epoch};

    rdma_reject(id, &card, sizeof(card));
    rdma_destroy_id(id);
}

/* Whether to accept a request in spite of an existing connection or request of this side. */
static bool cm_takes_over(struct emx_verbs_wire *w, struct emx_verbs_peer *p, struct rdma_cm_id *id,
                          const struct card *call)
{
    struct emx_verbs_conn *c = p->conn;

    if (c && c->state == EMX_VERBS_CALLING && w->id < call->from) {
        cm_decline(w, id, call, CARD_CROSSING, p->epoch);
        return false;
    }
    if (c && c->state == EMX_VERBS_UP && call->epoch < p->epoch) {
        cm_decline(w, id, call, CARD_STALE, p->epoch);
        return false;
    }
    if (c)
        cm_leave(w, c);
    return true;
}

/* One end may have counted a connection that never came up at the other. Both continue with the larger count, so that a
 * late request is recognized as stale. */
static void cm_agree(struct emx_verbs_peer *p, const struct card *theirs)
{
    if (theirs->epoch > p->epoch)
        p->epoch = theirs->epoch;
}

static void cm_answer(struct emx_verbs_wire *w, struct rdma_cm_id *id, const struct card *call)
{
    struct emx_verbs_dev *d = emx_verbs_dev_find(w, id->verbs);
    struct emx_verbs_peer *p = call->to == w->id && call->from != w->id ? emx_verbs_peer_get(w, call->from) : NULL;
    struct rdma_conn_param param = {
        .responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = RDMA_MAX_INIT_DEPTH, .rnr_retry_count = 7};
    struct emx_verbs_conn *c;
    struct card card;
    int err;

    if (!p || !d) {
        cm_decline(w, id, call, CARD_STRANGER, 0);
        return;
    }
    if (!cm_takes_over(w, p, id, call))
        return;
    c = emx_verbs_life_new(w, p, EMX_VERBS_ASKED);
    if (!c) {
        cm_decline(w, id, call, CARD_FULL, 0);
        return;
    }
    c->id = id;
    id->context = c;
    c->credits = call->credits;
    c->nonce = call->nonce;
    cm_agree(p, call);
    card = cm_card(w, p, CARD_ACCEPT, d->credits);
    param.private_data = &card;
    param.private_data_len = sizeof(card);
    emx_verbs_id_set_ack_timeout(id, w->cfg);
    err = emx_verbs_conn_ready(c, d);
    if (!err && rdma_accept(id, &param))
        err = errno;
    if (!err)
        return;
    card.kind = err == ENOSPC && emx_verbs_life_make_room(w, d, p) ? CARD_LATER : CARD_FULL;
    rdma_reject(id, &card, sizeof(card));
    if (card.kind == CARD_LATER)
        cm_call_later(w, c, ROOM_NS);
    else
        cm_call_failed(w, c, cm_no_queues(err));
}

/* ---- Events of rdma_cm ---- */

/* A copy of an event. The event is acknowledged before it is handled, because an id with an unacknowledged event cannot
 * be destroyed. */
struct cm_event {
    enum rdma_cm_event_type type;
    struct rdma_cm_id *id;
    int status;
    bool has_card;
    struct card card;
};

static bool cm_next_event(struct emx_verbs_wire *w, struct cm_event *n)
{
    struct rdma_cm_event *ev;

    if (rdma_get_cm_event(w->channel, &ev))
        return false;
    *n = (struct cm_event){.type = ev->event, .id = ev->id, .status = ev->status};
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

static void cm_called(struct emx_verbs_wire *w, const struct cm_event *n)
{
    if (n->has_card && n->card.kind == CARD_CALL) {
        cm_answer(w, n->id, &n->card);
        return;
    }
    rdma_reject(n->id, NULL, 0);
    rdma_destroy_id(n->id);
}

static void cm_established(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct cm_event *n)
{
    if (c->state == EMX_VERBS_CALLING) {
        if (!n->has_card || n->card.kind != CARD_ACCEPT || n->card.from != c->peer->way.id) {
            cm_call_failed(w, c, "somebody else answered");
            return;
        }
        c->credits = n->card.credits;
        cm_agree(c->peer, &n->card);
    }
    emx_verbs_up(w, c);
}

static void cm_rejected(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct cm_event *n)
{
    char why[80];

    if (c->state == EMX_VERBS_ASKED) {
        cm_call_later(w, c, AGAIN_NS); /* cancelled: the peer sends another */
        return;
    }
    switch (n->has_card ? n->card.kind : 0) {
    case CARD_CROSSING:
        cm_call_later(w, c, CROSSING_NS);
        return;
    case CARD_STALE:
        c->peer->epoch = n->card.epoch;
        cm_call_later(w, c, 0);
        return;
    case CARD_LATER:
        cm_call_later(w, c, ROOM_NS);
        return;
    case CARD_STRANGER:
        cm_call_failed(w, c, "another process has taken its place");
        return;
    case CARD_FULL:
        cm_call_failed(w, c, "it has no room for another connection (ETHMX_VERBS_PEERS, ulimit -l)");
        return;
    default:
        snprintf(why, sizeof(why), "nobody listens there any more, or a fault on the way (%d)", n->status);
        cm_call_failed(w, c, why);
    }
}

/* A reply to an abandoned request. */
static void cm_late_answer(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct cm_event *n)
{
    if (n->type != RDMA_CM_EVENT_ADDR_RESOLVED && n->type != RDMA_CM_EVENT_ROUTE_RESOLVED)
        emx_verbs_life_end(w, c);
}

static void cm_to_conn(struct emx_verbs_wire *w, struct emx_verbs_conn *c, const struct cm_event *n)
{
    char why[80];

    if (c->state == EMX_VERBS_ENDING)
        return;
    if (c->state == EMX_VERBS_LEFT) {
        cm_late_answer(w, c, n);
        return;
    }
    switch (n->type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(c->id, LOOK_UP_MS))
            cm_call_failed(w, c, strerror(errno));
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        cm_way_known(w, c);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        cm_established(w, c, n);
        break;
    case RDMA_CM_EVENT_REJECTED:
        cm_rejected(w, c, n);
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

/* ---- All events ---- */

void emx_verbs_calls(struct emx_verbs_wire *w, bool events)
{
    struct cm_event n;
    uint64_t now;

    while (events && cm_next_event(w, &n)) {
        if (n.type == RDMA_CM_EVENT_CONNECT_REQUEST)
            cm_called(w, &n);
        else if (n.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
            emx_verbs_device_lost(w, n.id->verbs, "is being removed");
        else if (n.id->context)
            cm_to_conn(w, n.id->context, &n);
    }
    w->now_ns = now = emx_verbs_now();
    emx_verbs_watch(w, now);
    cm_give_up(w, now);
    emx_verbs_life_finish(w);
    emx_verbs_devs_forget(w);
    emx_list_each_safe(l, next, &w->busy) emx_verbs_call(w, emx_list_entry(l, struct emx_verbs_peer, busy));
}
