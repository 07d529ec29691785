/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Failover. A route may end under a connected session: a cable is pulled, a driver is reloaded, a switch fails. Some
 * wires report this (emx_engine_unreached). Otherwise silence shows it: a frame that needs a reply has got none for
 * SILENCE_NS, for connect_timeout, or for a part of peer_timeout. A peer that computes, or is stopped, is silent as
 * well. So the session does not move at once. It probes the current route and the others in turn. If the current one
 * replies first, or soon after another, the session stays. If only another replies, it moves there. If none does, it
 * stays, and the peer is dead after peer_timeout as without other routes.
 *
 * Each side chooses the route of its own frames. The peer may have heard everything and await nothing, and yet its
 * acknowledgements are lost. So a probe says whether its sender searches by itself. Then the receiver probes its own
 * routes, too.
 *
 * The endpoint reports when an interface of this host carries nothing any more (emx_engine_interface). Then a session
 * moves at once, and its probes tell the peer which interfaces of this side carry nothing. The peer moves then, too: it
 * may see nothing of it, behind a switch.
 *
 * Later it probes the route that failed, at growing distances while it is in use, and returns when several probes in a
 * row are replied to.
 *
 * An interface may get another address, with or without an interval. Then the probes to a peer (moved) have this side's
 * address until the peer has replied to one, even if there is only one route: what this side sends still reaches the
 * peer. Both sides then request their routes again. If both move at once, another route is needed.
 *
 * Several routes may use one link, and the receiver of a probe does not know by which of them it came. So it replies
 * over all of them.
 */
#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/format/address.h"
#include "core/peer.h"
#include "core/rel/connect.h"
#include "core/rel/failover.h"
#include "core/rel/fragment.h"
#include "core/rel/learn.h"
#include "core/rel/offload_probe.h"
#include "core/rel/rail.h"
#include "core/rel/rtt.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

#define SILENCE_NS   1000000000
#define SILENCE_PART 4         /* of peer_timeout */
#define FIRST_NS     25000000  /* from a probe to the next */
#define LAST_NS      400000000 /* the same, after some */
#define MISSES       3         /* probes of the current route without a reply, while another replies */
#define CHECKS       32        /* most probes if this side hears something */
#define HOME_NS      5000000000
#define HOME_LAST_NS 60000000000
#define HOME_PROBES  8 /* of a try to go back */
#define HOME_REPLIES 3 /* of them, to go back */

emx_time emx_failover_silence_ns(const struct emx_config *cfg)
{
    return emx_min(SILENCE_NS, emx_min(cfg->p_connect_timeout, cfg->p_peer_timeout / SILENCE_PART));
}

/* ---- Moving ---- */

/* Whether this route can carry frames in flight: it may lose frames, as the current one may. */
static bool failover_suits(const struct emx_session *s, unsigned i)
{
    return i != s->connect->current && !s->reliable && !s->connect->route[i].reliable;
}

/* Frames have no longer length than before. */
static uint16_t failover_gso_bytes(const struct emx_session *s, const struct emx_route *r)
{
    unsigned tag_bytes = emx_tag_bytes(s->e, r->link);

    return r->gso_bytes ? (uint16_t)emx_min((unsigned)r->gso_bytes - tag_bytes, s->frame_bytes) : 0;
}

/* A route that fails again and again is tried again less and less often. */
static void failover_keep_home(struct emx_session *s, unsigned to, emx_time now)
{
    struct emx_failover *v = &s->connect->failover;

    if (!v->away && !emx_connect_route(s)->connected) {
        v->away = true;
        v->home = (uint8_t)s->connect->current;
        v->home_wait_ns = v->home_wait_ns ? emx_min(2 * v->home_wait_ns, HOME_LAST_NS) : HOME_NS;
    }
    v->away &= to != v->home;
    v->home_ns = now + v->home_wait_ns;
}

static void failover_stop(struct emx_session *s)
{
    s->connect->failover.retry_ns = 0;
    s->connect->failover.due = false;
}

/* Numbers, windows and messages in progress stay as they are. Lost frames are retransmitted, in fragments if they are
 * too long. Without memory for these it stays. */
static bool failover_move(struct emx_session *s, unsigned i, emx_time now)
{
    struct emx_connect *c = s->connect;
    const struct emx_route *r = &c->route[i];
    uint16_t frame_bytes = (uint16_t)(r->frame_bytes - emx_tag_bytes(s->e, r->link));

    failover_stop(s);
    if (frame_bytes < s->frame_bytes && !emx_fragment_narrow(s, frame_bytes))
        return false;
    failover_keep_home(s, i, now);
    s->e->up->moved(s, now);
    s->e->link_peers[s->link]--;
    emx_list_del(&s->ready);
    c->current = i;
    c->mtu_probing = c->due[0] = c->due[1] = false;
    s->link = r->link;
    s->to = r->to;
    s->e->link_peers[s->link]++;
    s->gso_bytes = failover_gso_bytes(s, r);
    emx_offload_probe_init(&s->offload);
    emx_connect_take_nature(s, r);
    emx_rtt_init(&s->rtt, s->e->cfg);
    s->e->up->routed(s, NULL);
    if (s->fast_room)
        s->e->up->resized(s);
    emx_send_window_hurry(s, now);
    emx_session_ready(s);
    return true;
}

static void failover_leave(struct emx_session *s, unsigned i, const char *why, emx_time now)
{
    const char *from = emx_connect_route(s)->name;

    if (!failover_move(s, i, now))
        return;
    emx_count(s->e, failovers);
    emx_event_post(s->e, EMX_EVENT_ROUTE_LOST, s->peer, ETHMX_ERR_UNREACHABLE, "%s any more: %s; it goes on by %s",
                   from, why, emx_connect_route(s)->name);
}

static void failover_return(struct emx_session *s, emx_time now)
{
    if (failover_move(s, s->connect->failover.home, now))
        emx_event_post(s->e, EMX_EVENT_NOTE, s->peer, ETHMX_OK, "host %s is reached by %s again; it goes on there",
                       emx_peer_host(s->e, s->peer), emx_connect_route(s)->name);
}

/* The next route over another wire; the number of routes: there is none. */
static unsigned failover_next(const struct emx_session *s)
{
    unsigned i = s->connect->current + 1;

    while (i < s->connect->count && (s->connect->route[i].link == s->link || !failover_suits(s, i)))
        i++;
    return i;
}

/* The best other route whose interfaces carry frames; the number of routes: there is none. */
static unsigned failover_next_carrying(const struct emx_session *s)
{
    unsigned i = 0;

    while (i < s->connect->count && !(failover_suits(s, i) && emx_route_carries(&s->connect->route[i])))
        i++;
    return i;
}

/* There is no handshake, because the report is certain: if the next route does not reach the peer, silence shows it. */
void emx_engine_unreached(struct emx_engine *e, unsigned link, const struct emx_wire_addr *to, emx_time now)
{
    emx_list_each(l, &e->living)
    {
        struct emx_session *s = emx_list_entry(l, struct emx_session, living);

        if (s->state != EMX_S_CONNECTED || s->link != link || memcmp(&s->to, to, sizeof(*to)))
            continue;
        if (failover_next(s) < s->connect->count)
            failover_leave(s, failover_next(s), "its wire has given up", now);
    }
}

/* ---- Searching ---- */

static bool failover_has_choice(const struct emx_session *s)
{
    for (unsigned i = 0; i < s->connect->count; i++)
        if (failover_suits(s, i))
            return true;
    return false;
}

/* Whether the peer does not know where this side's interfaces have moved. */
static bool failover_has_moved(const struct emx_session *s)
{
    return s->connect->told_moves != s->e->moves;
}

/* The route of the next probe: the current one and the others in turn. */
static unsigned failover_next_probe(struct emx_session *s)
{
    struct emx_connect *c = s->connect;
    struct emx_failover *v = &c->failover;

    if (v->goal == EMX_FAILOVER_GO_BACK)
        return v->home;
    if (v->probes % 2 == 0 || !failover_has_choice(s))
        return c->current;
    do
        v->other = (uint8_t)((v->other + 1u) % c->count);
    while (!failover_suits(s, v->other));
    return v->other;
}

static void failover_probe(struct emx_session *s, emx_time now)
{
    struct emx_failover *v = &s->connect->failover;
    unsigned i = failover_next_probe(s);

    if (i == s->connect->current && v->probes % 2 == 0)
        v->misses += v->replied != 0;
    else if (v->goal == EMX_FAILOVER_GO_BACK)
        v->replied = 0;
    else
        v->wait_ns = emx_min(2 * v->wait_ns, LAST_NS);
    v->probes++;
    v->due = true;
    v->asked = (uint8_t)i;
    v->retry_ns = now + v->wait_ns;
    emx_session_answer(s, s->connect->route[i].link);
    emx_session_arm(s, v->retry_ns);
}

static void failover_begin(struct emx_session *s, enum emx_failover_goal goal, emx_time now)
{
    struct emx_failover *v = &s->connect->failover;

    v->goal = (uint8_t)goal;
    v->number = (uint32_t)emx_rng_next(&s->e->rng);
    v->wait_ns = FIRST_NS;
    v->probes = v->misses = v->replies = 0;
    v->replied = 0;
    v->other = (uint8_t)s->connect->current;
    failover_probe(s, now);
}

static void failover_go_on(struct emx_session *s, emx_time now)
{
    struct emx_failover *v = &s->connect->failover;

    if (v->misses >= MISSES) {
        failover_leave(s, (unsigned)__builtin_ctz(v->replied), "it does not reply", now);
    } else if (v->probes >= CHECKS && !s->asked_ns) {
        s->connect->told_moves = s->e->moves; /* a peer of an older version understands no such probe */
        failover_stop(s);
    } else {
        failover_probe(s, now);
    }
}

static void failover_go_back(struct emx_session *s, emx_time now)
{
    struct emx_failover *v = &s->connect->failover;

    if (v->replies >= HOME_REPLIES) {
        failover_return(s, now);
    } else if (v->probes >= HOME_PROBES) {
        failover_stop(s);
        v->home_ns = now + v->home_wait_ns;
    } else {
        failover_probe(s, now);
    }
}

static bool failover_is_silent(const struct emx_session *s, emx_time now)
{
    return s->asked_ns && now >= s->asked_ns + s->e->silence_ns;
}

/* Going back has no deadline of its own: the timer of a session that is in use fires often enough. */
emx_time emx_failover_deadline(const struct emx_session *s)
{
    if (s->state != EMX_S_CONNECTED)
        return EMX_NEVER;
    if (s->connect->failover.retry_ns)
        return s->connect->failover.retry_ns;
    if (failover_has_moved(s) && !s->reliable)
        return 0; /* while it was connecting */
    return s->asked_ns && failover_has_choice(s) ? s->asked_ns + s->e->silence_ns : EMX_NEVER;
}

void emx_failover_expire(struct emx_session *s, emx_time now)
{
    struct emx_failover *v;

    if (s->state != EMX_S_CONNECTED)
        return;
    v = &s->connect->failover;
    if (v->retry_ns && now < v->retry_ns)
        return;
    if (v->retry_ns && v->goal == EMX_FAILOVER_GO_BACK)
        failover_go_back(s, now);
    else if (v->retry_ns)
        failover_go_on(s, now);
    else if (failover_is_silent(s, now) && failover_has_choice(s))
        failover_begin(s, EMX_FAILOVER_SEARCH, now);
    else if (failover_has_moved(s) && !s->reliable)
        failover_begin(s, EMX_FAILOVER_CHECK, now);
    else if (v->away && now >= v->home_ns)
        failover_begin(s, EMX_FAILOVER_GO_BACK, now);
}

/* ---- Interfaces ---- */

/* The route that failed may work again. */
static void failover_hurry_home(struct emx_session *s, emx_time now)
{
    struct emx_failover *v = &s->connect->failover;

    if (!v->away)
        return;
    if (v->goal == EMX_FAILOVER_GO_BACK)
        failover_stop(s); /* begins again */
    v->home_ns = now;
    emx_session_arm(s, now);
}

/* The interfaces of the session's routes are known to carry frames, or not. Routes of the mask have changed. */
static void failover_review(struct emx_session *s, unsigned changed, const char *why, emx_time now)
{
    struct emx_connect *c = s->connect;
    unsigned rails = emx_rails_review(s, changed, now), next = failover_next_carrying(s);

    if (changed >> c->failover.home & 1 && emx_route_carries(&c->route[c->failover.home]))
        failover_hurry_home(s, now);
    if (changed >> c->current & 1 && !emx_route_carries(emx_connect_route(s)) && next < c->count)
        failover_leave(s, next, why, now);
    for (; rails; rails &= rails - 1)
        s->e->up->rail_lost(s, (unsigned)__builtin_ctz(rails));
}

/* Sets down of the session's routes through the interface. Returns the mask of those that changed. */
static unsigned failover_mark(struct emx_session *s, const struct emx_interface *i)
{
    unsigned changed = 0;

    for (unsigned n = 0; n < s->connect->count; n++) {
        struct emx_route *r = &s->connect->route[n];
        bool down = !i->carries || (r->by_ip && !i->has_ip);

        if (r->card != i->card || r->down == down)
            continue;
        r->down = down;
        changed |= 1u << n;
    }
    return changed;
}

/* The peer is told by a probe. A session that is about to go back probes anyway; it is not while the peer's interface
 * carries nothing. */
static void failover_tell(struct emx_session *s, bool lost, emx_time now)
{
    const struct emx_failover *v = &s->connect->failover;

    if (!lost)
        emx_learn_anew(s);
    if (failover_has_choice(s) && (lost || !v->away || !emx_route_carries(&s->connect->route[v->home])))
        failover_begin(s, lost ? EMX_FAILOVER_SEARCH : EMX_FAILOVER_CHECK, now);
}

void emx_engine_interface(struct emx_engine *e, const struct emx_interface *i, emx_time now)
{
    if (i->why)
        e->lost_interfaces |= (uint16_t)i->numbers;
    else
        e->lost_interfaces &= (uint16_t)~i->numbers;
    emx_list_each(l, &e->living)
    {
        struct emx_session *s = emx_list_entry(l, struct emx_session, living);
        unsigned changed = failover_mark(s, i);

        if (changed && s->state == EMX_S_CONNECTING)
            emx_connect_review(s, now);
        if (!changed || s->state != EMX_S_CONNECTED)
            continue;
        failover_review(s, changed, i->why, now);
        failover_tell(s, i->why, now);
    }
}

void emx_engine_moved(struct emx_engine *e, const struct emx_address *self, emx_time now)
{
    memcpy(e->self.ifs, self->ifs, sizeof(e->self.ifs));
    memset(e->hello_body, 0, e->hello_addr_bytes);
    e->hello_addr_bytes = emx_address_encode_public(&e->self, e->hello_body);
    e->moves++;
    emx_list_each(l, &e->living)
    {
        struct emx_session *s = emx_list_entry(l, struct emx_session, living);

        if (s->state != EMX_S_CONNECTED || s->reliable)
            continue;
        emx_learn_anew(s);
        failover_begin(s, EMX_FAILOVER_CHECK, now);
    }
}

/* The peer says which of its interfaces carry nothing. */
static void failover_told(struct emx_session *s, uint16_t lost, emx_time now)
{
    unsigned changed = 0;

    for (unsigned n = 0; n < s->connect->count; n++) {
        struct emx_route *r = &s->connect->route[n];
        bool is_lost = r->theirs && lost >> (r->theirs - 1) & 1;

        changed |= (unsigned)(r->lost != is_lost) << n;
        r->lost = is_lost;
    }
    if (changed)
        failover_review(s, changed, "its interface carries nothing", now);
}

/* ---- Frames, out ---- */

static void failover_build(struct emx_session *s, const struct emx_route *r, enum emx_frame_type type,
                           const struct emx_f_route_probe *what, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_engine *e = s->e;
    struct emx_frame *h = (void *)scratch->b;

    memcpy(h + 1, what, sizeof(*what));
    emx_engine_head(e, s->peer, h, type, sizeof(*what));
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){.to = &r->to, .head_bytes = (uint16_t)(sizeof(*h) + sizeof(*what))};
    emx_engine_seal(s, h, f, emx_tag_level(e, r->link, (unsigned)e->cfg->p_checksum));
}

static bool failover_output_reply(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch)
{
    const struct emx_connect *c = s->connect;
    struct emx_failover *v = &s->connect->failover;

    while (v->reply_left) {
        const struct emx_route *r = &c->route[--v->reply_left];

        if (r->link != v->reply_link)
            continue;
        failover_build(s, r, EMX_F_route_reply, &v->reply, f, scratch);
        return true;
    }
    return false;
}

static void failover_build_moved(struct emx_session *s, const struct emx_route *r, const struct emx_f_route_probe *what,
                                 struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_engine *e = s->e;
    struct emx_frame *h = (void *)scratch->b;
    const struct emx_f_moved t = {.number = what->number,
                                  .route = what->route,
                                  .searches = what->searches,
                                  .lost = what->lost,
                                  .moves = e->moves,
                                  .addr_bytes = (uint16_t)e->hello_addr_bytes};

    memcpy(h + 1, &t, sizeof(t));
    emx_engine_head(e, s->peer, h, EMX_F_moved, sizeof(t) + e->hello_addr_bytes);
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){.to = &r->to,
                              .head_bytes = (uint16_t)(sizeof(*h) + sizeof(t)),
                              .body = e->hello_body,
                              .body_bytes = (uint16_t)e->hello_addr_bytes};
    emx_engine_seal(s, h, f, emx_tag_level(e, r->link, (unsigned)e->cfg->p_checksum));
}

bool emx_failover_output(struct emx_session *s, unsigned link, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_f_route_probe probe;
    const struct emx_route *r;
    struct emx_failover *v;

    if (s->state != EMX_S_CONNECTED)
        return false;
    v = &s->connect->failover;
    if (v->reply_link == link && failover_output_reply(s, f, scratch))
        return true;
    if (!v->due || s->connect->route[v->asked].link != link)
        return false;
    v->due = false;
    r = &s->connect->route[v->asked];
    probe = (struct emx_f_route_probe){.number = v->number,
                                       .route = v->asked,
                                       .searches = v->goal == EMX_FAILOVER_SEARCH,
                                       .lost = s->e->lost_interfaces};
    if (failover_has_moved(s))
        failover_build_moved(s, r, &probe, f, scratch);
    else
        failover_build(s, r, EMX_F_route_probe, &probe, f, scratch);
    return true;
}

/* ---- Frames, in ---- */

enum emx_drop emx_failover_input_probe(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_route_probe *t = (const void *)((const struct emx_frame *)(const void *)data + 1);
    struct emx_failover *v;

    if (s->state != EMX_S_CONNECTED)
        return EMX_DROP_STALE;
    failover_told(s, t->lost, now);
    v = &s->connect->failover;
    v->reply_left = (uint8_t)s->connect->count;
    v->reply_link = (uint8_t)s->e->input_link;
    v->reply = *t;
    emx_session_answer(s, s->e->input_link);
    if (t->searches && !v->retry_ns && failover_has_choice(s))
        failover_begin(s, EMX_FAILOVER_CHECK, now);
    return EMX_ACCEPTED;
}

enum emx_drop emx_failover_input_moved(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_moved *t = (const void *)(h + 1);
    struct emx_address a;
    char err[128];

    if (t->addr_bytes > ETHMX_ADDRESS_MAX || sizeof(*t) + t->addr_bytes > h->body_bytes ||
        !emx_address_decode(&a, t + 1, t->addr_bytes, err, sizeof(err)) || a.id != h->src_id ||
        a.auth != s->e->self.auth || a.has_secret)
        return EMX_DROP_MALFORMED;
    if (!emx_peer_is(s->e, s->peer, &a))
        return EMX_DROP_NO_SESSION;
    if (s->state != EMX_S_CONNECTED)
        return EMX_DROP_STALE;
    if (emx_seq_before(s->connect->moves, t->moves)) { /* else it came late, or again */
        if (!emx_learn_moved(s, t + 1, t->addr_bytes, t->moves))
            return EMX_DROP_MEMORY; /* it will come again */
        failover_hurry_home(s, now);
    }
    return emx_failover_input_probe(s, data, now);
}

enum emx_drop emx_failover_input_reply(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_route_probe *t = (const void *)((const struct emx_frame *)(const void *)data + 1);
    struct emx_failover *v;

    (void)now;
    if (s->state != EMX_S_CONNECTED)
        return EMX_DROP_STALE;
    v = &s->connect->failover;
    if (!v->retry_ns || t->number != v->number || t->route >= s->connect->count)
        return EMX_DROP_STALE;
    s->connect->told_moves = s->e->moves; /* else the number would be another */
    if (v->goal != EMX_FAILOVER_GO_BACK && t->route == s->connect->current) {
        failover_stop(s);
        return EMX_ACCEPTED;
    }
    if (v->goal == EMX_FAILOVER_GO_BACK && t->route == v->home)
        v->replies += !v->replied;
    if (failover_suits(s, t->route))
        v->replied |= (uint8_t)(1u << t->route);
    return EMX_ACCEPTED;
}
