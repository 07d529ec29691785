/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connect: the handshake. Each side checks that a route carries short and full-sized frames both ways: it sends a hello
 * of each length and waits for a hello_ack of the same length. Both are repeated with doubling pauses. After
 * connect_timeout the next route is tried. After the last one the first is tried again, because a peer that has not
 * replied on any may be stopped, or wait for a processor. After peer_timeout it is unreachable. An endpoint that
 * receives a hello before it has sent one starts its own handshake immediately, so both are connected within about one
 * round trip. A hello has the sender's address, so the receiver need not know it.
 *
 * If short frames arrive and full-sized ones do not, a switch has a smaller MTU than both ends have configured. Then
 * the route is tried again with the frames of an MTU of 1500 before the next one; and the last route with shorter and
 * shorter frames.
 *
 * The probe number identifies the route of a hello_ack.
 *
 * When a large job starts, all endpoints send hellos to all others, and one hello of each pair is full-sized. If they
 * were sent at once they would delay everything after them: messages to connected peers, and acknowledgements. So an
 * endpoint sends hellos to a limited number of peers at a time, in the order of demand. The others follow when these
 * are connected. A peer that does not reply for a while gives its place to the next one, and gets its hellos again
 * later, so that dead or busy peers delay nobody for long. Replying to a peer's hello needs no place, because such
 * hellos arrive no faster than the network carries them.
 */
#include <stdio.h>
#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/ack.h"
#include "core/rel/connect.h"
#include "core/rel/learn.h"
#include "core/rel/offload_probe.h"
#include "core/rel/path_mtu.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

#define LAST_RETRY_NS    500000000
#define CONNECTED_ACK_NS 1000000 /* minimum delay of an acknowledgement over connections */
#define PLACE_NS         1000000 /* an unanswered hello occupies a place for this long */
#define RUNG_PART        16      /* part of the time-out for each length below that */
#define GUESS_PART       8       /* part of the time-out for a route that is a guess */

/* The ranks of a job start at the same time, and their hellos may overflow the queue to one that all know. So retries
 * have random delays. */
static emx_time connect_retry_ns(struct emx_session *s, emx_time now)
{
    emx_time wait_ns = s->connect->wait_ns;

    return now + wait_ns / 2 + emx_rng_below(&s->e->rng, wait_ns);
}

/* Devices with connections check all data in transit, as memory does. So headers need no checksum. */
static uint8_t connect_seal_over(const struct emx_engine *e, const struct emx_route *r)
{
    unsigned level = (unsigned)e->cfg->p_checksum;

    if (r->reliable || (r->connected && level == EMX_CHECKSUM_HEADER))
        level = EMX_CHECKSUM_OFF;
    return (uint8_t)emx_tag_level(e, r->link, level);
}

void emx_connect_take_nature(struct emx_session *s, const struct emx_route *r)
{
    emx_time delay_ns = s->e->cfg->p_ack_delay;

    s->connected = r->connected;
    s->seal = connect_seal_over(s->e, r);
    emx_reorder_delay(&s->rx, r->connected && delay_ns && delay_ns < CONNECTED_ACK_NS ? CONNECTED_ACK_NS : delay_ns);
}

/* How long the current route is tried. */
static emx_time connect_patience_ns(const struct emx_session *s)
{
    const struct emx_connect *c = s->connect;
    emx_time timeout_ns = s->e->cfg->p_connect_timeout;

    return c->route[c->current].guess && c->count > 1 && !c->again ? timeout_ns / GUESS_PART : timeout_ns;
}

/* ---- Turns ---- */

/* Sends hellos. */
static void connect_greet(struct emx_session *s, bool takes_place, emx_time now)
{
    struct emx_connect *c = s->connect;

    emx_list_del(&s->turn);
    c->has_place = takes_place;
    s->e->greeting += takes_place;
    c->due[0] = c->due[1] = true;
    c->wait_ns = EMX_CONNECT_RETRY_NS;
    c->retry_ns = connect_retry_ns(s, now);
    c->place_ns = now + PLACE_NS;
    c->give_up_ns = now + connect_patience_ns(s);
    emx_session_ready(s);
    emx_session_arm(s, emx_connect_deadline(s));
}

/* Number of peers that get hellos at a time. */
static unsigned connect_places(const struct emx_engine *e)
{
    return (unsigned)emx_part(EMX_GREETED_NODE, e->local_ranks, EMX_GREETED_LEAST);
}

void emx_connect_give_place(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;
    struct emx_list *l;

    emx_list_del(&s->turn);
    if (!s->connect->has_place)
        return;
    s->connect->has_place = false;
    e->greeting--;
    if (e->greeting < connect_places(e) && (l = emx_list_first(&e->turns)))
        connect_greet(emx_list_entry(l, struct emx_session, turn), true, now);
}

static void connect_wait_for_turn(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;

    if (s->greeted || s->reliable)
        connect_greet(s, false, now);
    else if (e->greeting < connect_places(e))
        connect_greet(s, true, now);
    else
        emx_list_append(&e->turns, &s->turn);
}

static void connect_use_route(struct emx_session *s, unsigned i, emx_time now)
{
    struct emx_connect *c = s->connect;
    const struct emx_route *r = &c->route[i];
    unsigned tag_bytes = emx_tag_bytes(s->e, r->link);

    if (emx_connect_reachable(s))
        s->e->link_peers[s->link]--;
    emx_list_del(&s->ready);
    emx_connect_give_place(s, now);
    c->current = i;
    c->got[0] = c->got[1] = c->due[0] = c->due[1] = false;
    s->link = r->link;
    s->to = r->to;
    s->frame_bytes = (uint16_t)(r->frame_bytes - tag_bytes);
    s->gso_bytes = r->gso_bytes ? (uint16_t)(r->gso_bytes - tag_bytes) : 0;
    s->reliable = r->reliable;
    s->in_place = r->reliable && !tag_bytes;
    emx_connect_take_nature(s, r);
    s->e->up->routed(s, r);
    emx_offload_probe_init(&s->offload);
    s->state = EMX_S_CONNECTING;
    s->takes |= s->greeted && !s->tx.first;
    s->e->link_peers[s->link]++;
    emx_session_ready(s);
    connect_wait_for_turn(s, now);
    s->probe = (uint32_t)emx_rng_next(&s->e->rng) & ~1u; /* the last bit distinguishes full-sized and small */
}

static void connect_unreachable(struct emx_session *s, const char *why, emx_time now)
{
    emx_event_post(s->e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_UNREACHABLE, "host %s cannot be reached from host %s: %s",
                   emx_peer_host(s->e, s->peer), s->e->self.host, why);
    emx_session_end(s, EMX_S_DEAD, ETHMX_ERR_UNREACHABLE, now);
}

static void connect_done(struct emx_session *s)
{
    s->state = EMX_S_CONNECTED;
    s->asked_ns = 0;
    emx_connect_give_place(s, s->heard_ns);
    s->e->up->connected(s);
    s->e->stats->peers_connected++;
    emx_event_post(s->e, EMX_EVENT_CONNECTED, s->peer, ETHMX_OK, "%s", emx_connect_route(s)->name);
    /* Frees waiting frames, and shows the peer that this side is up. */
    emx_reorder_ack_now(s);
}

static void connect_learned(struct emx_session *s, const struct emx_route *r, unsigned n, emx_time now)
{
    if (!emx_learn_routes(s, r, n))
        connect_use_route(s, 0, now);
    else if (s->connect->got[0] && s->connect->got[1])
        connect_done(s);
}

void emx_engine_routes(struct emx_engine *e, struct emx_peer *peer, const struct emx_route *r, unsigned n,
                       const char *why, emx_time now)
{
    struct emx_session *s = peer->session;
    struct emx_connect *c;

    (void)e;
    if (s && s->state == EMX_S_CONNECTED && s->connect->renews) {
        emx_learn_places(s, r, n < EMX_ROUTES_MAX ? n : EMX_ROUTES_MAX);
        return;
    }
    if (s && s->state == EMX_S_CONNECTING && s->connect->relearns) {
        connect_learned(s, r, n < EMX_ROUTES_MAX ? n : EMX_ROUTES_MAX, now);
        return;
    }
    if (!s || s->state != EMX_S_ROUTES)
        return;
    if (!n) {
        connect_unreachable(s, why, now);
        return;
    }
    c = s->connect;
    c->count = n < EMX_ROUTES_MAX ? n : EMX_ROUTES_MAX;
    memcpy(c->route, r, c->count * sizeof(*r));
    c->since_ns = now;
    connect_use_route(s, 0, now);
    for (int full = 0; full < 2; full++)
        if (s->hello_ack[full].due)
            emx_session_answer(s, s->hello_ack[full].link);
}

/* ---- Hello and hello_ack, out ---- */

static size_t connect_min_probe_bytes(const struct emx_engine *e)
{
    return sizeof(struct emx_frame) + sizeof(struct emx_f_hello) + e->hello_addr_bytes;
}

/* The header is built in scratch. Address and padding are in a static area of the engine. */
static void connect_build(struct emx_session *s, const struct emx_route *r, enum emx_frame_type type,
                          size_t frame_bytes, uint32_t probe, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_engine *e = s->e;
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_hello *t = (void *)(h + 1);
    size_t least = connect_min_probe_bytes(e);

    if (frame_bytes < least)
        frame_bytes = least;
    memset(t, 0, sizeof(*t));
    t->addr_bytes = (uint16_t)e->hello_addr_bytes;
    t->frame_bytes = (uint16_t)frame_bytes;
    t->max_bytes = r->frame_bytes;
    t->window = (uint16_t)e->cfg->p_window;
    t->ack_delay = (uint16_t)emx_min((s->rx.ack_delay_ns + EMX_HELLO_DELAY_NS - 1) / EMX_HELLO_DELAY_NS, UINT16_MAX);
    t->timeout = (uint16_t)emx_min(e->cfg->p_peer_timeout / EMX_HELLO_TIMEOUT_NS, UINT16_MAX);
    t->probe = probe;
    emx_engine_head(e, s->peer, h, type, frame_bytes - sizeof(*h));
    emx_engine_stamp(s, h);
    h->seq = s->tx.first;
    *f = (struct emx_txframe){.to = &r->to,
                              .head_bytes = sizeof(*h) + sizeof(*t),
                              .body = e->hello_body,
                              .body_bytes = (uint16_t)(frame_bytes - (sizeof(*h) + sizeof(*t)))};
    emx_engine_seal(s, h, f, emx_tag_level(e, r->link, (unsigned)e->cfg->p_checksum));
}

bool emx_connect_output_hello(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now)
{
    struct emx_connect *c = s->connect;
    int full;

    if ((s->state != EMX_S_CONNECTING && !c->mtu_probing) || (!c->due[0] && !c->due[1]))
        return false;
    full = !c->due[0];
    c->due[full] = false;
    connect_build(s, emx_connect_route(s), EMX_F_hello,
                  !full            ? 0
                  : c->mtu_probing ? c->tried_bytes
                                   : s->frame_bytes,
                  s->probe | (uint32_t)full, f, scratch);
    emx_session_asked(s, now);
    return true;
}

/* The route over this link for the next reply after so many to the same hello; NULL: there is none. The first reply
 * takes the current route if the peer has replied on it, otherwise the first route. If the hello comes again, the reply
 * may be lost on that route, so the next reply takes the next route. */
static const struct emx_route *connect_reply_route(const struct emx_session *s, unsigned link, unsigned replies)
{
    const struct emx_connect *c = s->connect;
    unsigned routes = 0, skip, i;

    for (i = 0; c && i < c->count; i++)
        routes += c->route[i].link == link;
    if (!routes)
        return NULL;
    skip = replies % routes;
    for (i = s->state == EMX_S_CONNECTED || c->got[0] ? c->current : 0;; i++) {
        const struct emx_route *r = &c->route[i % c->count];

        if (r->link == link && !skip--)
            return r;
    }
}

bool emx_connect_output_hello_ack(struct emx_session *s, unsigned link, struct emx_txframe *f,
                                  struct emx_scratch *scratch)
{
    for (int full = 0; full < 2; full++) {
        struct emx_hello_ack *w = &s->hello_ack[full];
        const struct emx_route *r = connect_reply_route(s, link, w->replies);
        size_t bytes = w->frame_bytes;

        if (!w->due || w->link != link)
            continue;
        w->due = 0;
        if (!r)
            continue;
        if (bytes > r->frame_bytes - emx_tag_bytes(s->e, link))
            bytes = r->frame_bytes - emx_tag_bytes(s->e, link);
        connect_build(s, r, EMX_F_hello_ack, bytes, w->probe, f, scratch);
        w->replies++;
        return true;
    }
    return false;
}

/* ---- Hello and hello_ack, in ---- */

/* Reads the address in a hello or hello_ack. It must be valid, the sender's own, and have authentication if this side
 * has. */
static bool connect_sender_address(const struct emx_engine *e, const uint8_t *data, struct emx_address *a)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_hello *t = (const void *)(h + 1);
    char err[128];

    if (t->addr_bytes > ETHMX_ADDRESS_MAX || sizeof(*t) + t->addr_bytes > h->body_bytes)
        return false;
    if (t->frame_bytes != sizeof(*h) + h->body_bytes || t->window < 1 || t->max_bytes < EMX_FRAME_MIN)
        return false;
    return emx_address_decode(a, t + 1, t->addr_bytes, err, sizeof(err)) && a->id == h->src_id &&
           a->auth == e->self.auth && !a->has_secret;
}

static void connect_take_terms(struct emx_session *s, const struct emx_f_hello *t)
{
    uint64_t window = s->e->cfg->p_window;

    emx_send_window_limit(&s->tx, t->window < window ? t->window : (uint16_t)window);
    if (!t->timeout)
        return;
    s->peer_ack_delay_ns = (emx_time)t->ack_delay * EMX_HELLO_DELAY_NS;
    s->peer_timeout_ns = t->timeout == UINT16_MAX ? EMX_NEVER : (emx_time)t->timeout * EMX_HELLO_TIMEOUT_NS;
}

enum emx_drop emx_connect_hello(struct emx_engine *e, unsigned link, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_hello *t = (const void *)(h + 1);
    struct emx_address a;
    struct emx_peer *p;
    struct emx_session *s;
    struct emx_hello_ack *w;
    enum emx_drop why;
    int rc;

    if (!connect_sender_address(e, data, &a))
        return EMX_DROP_MALFORMED;
    if (e->closing)
        return EMX_DROP_NO_SESSION;
    rc = emx_peer_make(e, &a, t + 1, t->addr_bytes, &p);
    if (rc)
        return rc == ETHMX_ERR_NO_MEMORY ? EMX_DROP_MEMORY : EMX_DROP_NO_SESSION;
    s = p->session;
    if (!s && !(s = emx_session_start(e, p, now)))
        return EMX_DROP_MEMORY;
    if (emx_session_over(s))
        return EMX_DROP_NO_SESSION;
    if ((why = emx_session_greet(s, h, now)) != EMX_ACCEPTED)
        return why;
    emx_session_heard(s, now);
    if (emx_list_linked(&s->turn))
        connect_greet(s, false, now);
    connect_take_terms(s, t);
    emx_learn_address(s, &a, t + 1, t->addr_bytes);
    w = &s->hello_ack[t->probe & 1];
    *w = (struct emx_hello_ack){.due = 1,
                                .replies = w->probe == t->probe ? w->replies : 0,
                                .link = (uint8_t)link,
                                .frame_bytes = t->frame_bytes,
                                .probe = t->probe};
    if (s->connect->count)
        emx_session_answer(s, link);
    return EMX_ACCEPTED;
}

/* The first reply on the current route has come. */
static void connect_reached(struct emx_session *s)
{
    struct emx_connect *c = s->connect;
    emx_time timeout_ns = s->e->cfg->p_connect_timeout;

    c->give_up_ns += timeout_ns - connect_patience_ns(s); /* the guess was right */
    if (c->route[c->current].frame_bytes > emx_path_mtu_common(&c->route[c->current]))
        c->give_up_ns -= timeout_ns / 2; /* leaves time for shorter frames */
}

enum emx_drop emx_connect_hello_ack(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_hello *t = (const void *)(h + 1);
    struct emx_address a;
    enum emx_drop why;
    int full = t->probe & 1;

    if (!connect_sender_address(s->e, data, &a))
        return EMX_DROP_MALFORMED;
    if (!emx_peer_is(s->e, s->peer, &a))
        return EMX_DROP_NO_SESSION;
    if ((s->state != EMX_S_CONNECTING && !s->connect->mtu_probing) || (t->probe & ~1u) != s->probe)
        return EMX_DROP_STALE;
    if (s->connect->mtu_probing)
        return emx_path_mtu_answered(s, t, now);
    if (full && t->frame_bytes < s->frame_bytes)
        return EMX_DROP_STALE; /* the reverse path has a smaller MTU */
    if ((why = emx_session_greet(s, h, now)) != EMX_ACCEPTED)
        return why;
    connect_take_terms(s, t);
    s->connect->answered = true;
    if (!full && !s->connect->got[0])
        connect_reached(s);
    s->connect->got[full] = true;
    emx_learn_address(s, &a, t + 1, t->addr_bytes);
    if (!s->connect->got[0] || !s->connect->got[1])
        return EMX_ACCEPTED;
    if (s->connect->relearns)
        emx_connect_give_place(s, now);
    else
        connect_done(s);
    return EMX_ACCEPTED;
}

/* ---- Time ---- */

emx_time emx_connect_deadline(const struct emx_session *s)
{
    const struct emx_connect *c = s->connect;

    if (s->state == EMX_S_CONNECTED && c->mtu_probing)
        return c->retry_ns;
    if (s->state != EMX_S_CONNECTING || emx_list_linked(&s->turn) || (c->got[0] && c->got[1]))
        return EMX_NEVER;
    return emx_min(emx_min(c->retry_ns, c->give_up_ns), c->has_place ? c->place_ns : EMX_NEVER);
}

/* Small frames get replies, full ones do not. */
static bool connect_loses_full(const struct emx_connect *c)
{
    return c->got[0] && !c->route[c->current].reliable;
}

/* The length to try next on this route; 0: none. Before frames become shorter than an MTU of 1500 allows, the other
 * routes are tried. */
static uint16_t connect_narrower(const struct emx_connect *c)
{
    const struct emx_route *r = &c->route[c->current];

    if (r->connected)
        return 0;
    if (r->frame_bytes > emx_path_mtu_common(r))
        return emx_path_mtu_common(r);
    return c->current + 1 == c->count ? emx_path_mtu_shorter(r, r->frame_bytes) : 0;
}

static bool connect_narrow(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;
    struct emx_route *r = &c->route[c->current];
    uint16_t shorter = connect_narrower(c);

    if (!connect_loses_full(c) || !shorter || !emx_route_carries(r))
        return false;
    emx_event_post(
        s->e, EMX_EVENT_NARROWER, s->peer, ETHMX_ERR_UNREACHABLE,
        "%s to host %s: frames of %u bytes are lost, small ones are not, so it goes on with %u; is the MTU the same on "
        "all switches between?",
        r->name, emx_peer_host(s->e, s->peer), r->frame_bytes, shorter);
    r->frame_bytes = shorter;
    if (r->gso_bytes > shorter)
        r->gso_bytes = shorter;
    connect_use_route(s, c->current, now);
    /* the other half is used up */
    c->give_up_ns = now + s->e->cfg->p_connect_timeout / (shorter == emx_path_mtu_common(r) ? 2 : RUNG_PART);
    return true;
}

/* The route to try when the current one has failed; count: none. If the peer has replied on the last route, it lives,
 * and the other routes would not be better. A peer that has lived and is silent now is tried until it counts as dead.
 */
static unsigned connect_next_to_try(const struct emx_session *s, emx_time now)
{
    const struct emx_connect *c = s->connect;

    if (c->current + 1 < c->count)
        return c->current + 1;
    if (connect_loses_full(c))
        return c->count;
    return now - c->since_ns >= s->e->cfg->p_peer_timeout && emx_session_death_ns(s) == EMX_NEVER ? c->count : 0;
}

/* No route is left. */
static void connect_give_up(struct emx_session *s, const char *reasons, emx_time now)
{
    struct emx_connect *c = s->connect;
    char why[EMX_CONNECT_WHY_BYTES + 64], all[64] = "";

    if (c->again)
        snprintf(all, sizeof(all), " (tried again and again for %llu s)",
                 (unsigned long long)(now - c->since_ns) / 1000000000);
    snprintf(why, sizeof(why), "%s%s", reasons, all);
    connect_unreachable(s, why, now);
}

/* Adds a reason to those of other routes. Without memory for them they are lost. */
static void connect_add_reason(struct emx_session *s, const char *reason)
{
    struct emx_connect *c = s->connect;
    size_t len;

    if (!c->why && !(c->why = emx_alloc_get(&s->e->alloc, EMX_CONNECT_WHY_BYTES)))
        return;
    len = c->has_why ? strlen(c->why) : 0;
    c->has_why = true;
    snprintf(c->why + len, EMX_CONNECT_WHY_BYTES - len, "%s%s", len ? "; " : "", reason);
}

static void connect_route_failed(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;
    const struct emx_route *r = emx_connect_route(s);
    unsigned next = connect_next_to_try(s, now);
    char reason[128];

    if (!emx_route_carries(r))
        snprintf(reason, sizeof(reason), "%s: %s interface carries nothing", r->name, r->down ? "our" : "the peer's");
    else if (!connect_loses_full(c))
        snprintf(reason, sizeof(reason), "%s: no answer in %llu ms", r->name,
                 (unsigned long long)connect_patience_ns(s) / 1000000);
    else
        snprintf(reason, sizeof(reason), "%s: frames of %u bytes are lost, small ones are not (MTU?)", r->name,
                 r->frame_bytes);
    connect_add_reason(s, reason);
    if (next == c->count) {
        connect_give_up(s, c->why ? c->why : reason, now);
        return;
    }
    if (!next || !r->guess || c->again)
        emx_event_post(s->e, EMX_EVENT_ROUTE_LOST, s->peer, ETHMX_ERR_UNREACHABLE, "%s; %s", reason,
                       next ? "trying the next way" : "trying again from the first way");
    if (!next) {
        c->again = true;
        c->has_why = false;
    }
    connect_use_route(s, next, now);
}

void emx_connect_review(struct emx_session *s, emx_time now)
{
    if (emx_route_carries(emx_connect_route(s)))
        return;
    s->connect->give_up_ns = now;
    emx_session_arm(s, now);
}

void emx_connect_delayed(struct emx_session *s, emx_time late_ns)
{
    if (s->state != EMX_S_CONNECTING)
        return;
    s->connect->since_ns += late_ns;
    s->connect->give_up_ns += late_ns;
}

void emx_connect_expire(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;

    if (s->state == EMX_S_CONNECTED && c->mtu_probing)
        emx_path_mtu_expire(s, now);
    if (s->state != EMX_S_CONNECTING || emx_list_linked(&s->turn))
        return;
    if (c->got[0] && c->got[1])
        return; /* waits for the routes that were requested again (learn.c), and has no place */
    if (c->has_place && now >= c->place_ns)
        emx_connect_give_place(s, now);
    if (now >= c->give_up_ns) {
        if (!connect_narrow(s, now))
            connect_route_failed(s, now);
        return;
    }
    if (now < c->retry_ns)
        return;
    c->due[0] = !c->got[0];
    c->due[1] = !c->got[1];
    c->wait_ns = c->wait_ns * 2 < LAST_RETRY_NS ? c->wait_ns * 2 : LAST_RETRY_NS;
    c->retry_ns = connect_retry_ns(s, now);
    emx_session_ready(s);
}
