/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Connect: the handshake. Each side proves for itself that a route carries frames both ways, small ones and full ones:
 * it sends a hello of each length and waits for a welcome of the same length. Both are repeated with doubling pauses;
 * after connect_timeout the next route is tried; after the last, the peer is unreachable. A side that hears a hello
 * starts its own handshake at once, so both are connected within about one round trip. A hello carries the sender's
 * address, so the receiver need not know it beforehand.
 *
 * When small frames get through and full ones do not, some switch between carries a smaller MTU than both ends believe:
 * the route is tried once more with the frames of an MTU of 1500 before it is given up.
 *
 * The probe number tells which route a welcome answers.
 */
#include <stdio.h>

#include "proto/impl.h"

#define FIRST_RETRY_NS 5000000
#define LAST_RETRY_NS  500000000
#define NARROW_BYTES   1472 /* an MTU of 1500, over Ethernet or UDP */

static const struct emx_route *current_route(const struct emx_session *s)
{
    return &s->connect->route[s->connect->current];
}

/* Ranks of a job begin all at once, and their hellos may overflow the queue before somebody whom all know. So they do
 * not come again all at once. */
static emx_time retry_ns(struct emx_session *s, emx_time now)
{
    emx_time wait_ns = s->connect->wait_ns;

    return now + wait_ns / 2 + emx_rng_below(&s->e->rng, wait_ns);
}

static void use_route(struct emx_session *s, unsigned i, emx_time now)
{
    struct emx_connect *c = s->connect;
    const struct emx_route *r = &c->route[i];
    unsigned tag_bytes = emx_tag_bytes(s->e, r->link);

    if (emx_connect_reachable(s))
        s->e->link_peers[s->link]--;
    emx_list_del(&s->ready);
    c->current = i;
    c->got[0] = c->got[1] = false;
    c->due[0] = c->due[1] = true;
    c->wait_ns = FIRST_RETRY_NS;
    c->retry_ns = retry_ns(s, now);
    c->give_up_ns = now + s->e->cfg->p_connect_timeout;
    s->link = r->link;
    s->to = r->to;
    s->frame_bytes = (uint16_t)(r->frame_bytes - tag_bytes);
    s->bulk_bytes = r->bulk_bytes ? (uint16_t)(r->bulk_bytes - tag_bytes) : 0;
    s->reads = r->reads;
    s->reliable = r->reliable;
    s->in_place = r->reliable && !tag_bytes;
    s->seal = (uint8_t)emx_tag_level(s->e, r->link, r->reliable ? EMX_CHECKSUM_OFF : (unsigned)s->e->cfg->p_checksum);
    emx_trust_init(s);
    s->state = EMX_S_CONNECTING;
    s->e->link_peers[s->link]++;
    s->probe = (uint32_t)emx_rng_next(&s->e->rng) & ~1u; /* the last bit tells full from small */
    emx_session_ready(s);
    emx_session_arm(s, c->retry_ns);
}

static void unreachable(struct emx_session *s, const char *why, emx_time now)
{
    emx_event_post(s->e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_UNREACHABLE, "host %s cannot be reached from host %s: %s",
                   emx_peer_address(s->e, s->peer)->host, s->e->self.host, why);
    emx_session_end(s, EMX_S_DEAD, ETHMX_ERR_UNREACHABLE, now);
}

void emx_engine_routes(struct emx_engine *e, struct emx_peer *peer, const struct emx_route *r, unsigned n,
                       const char *why, emx_time now)
{
    struct emx_session *s = peer->session;
    struct emx_connect *c;

    if (!s || s->state != EMX_S_ROUTES)
        return;
    if (!n) {
        unreachable(s, why, now);
        return;
    }
    c = s->connect;
    c->count = n < EMX_ROUTES_MAX ? n : EMX_ROUTES_MAX;
    memcpy(c->route, r, c->count * sizeof(*r));
    for (unsigned i = 0; i < c->count; i++)
        e->reliable_links |= (unsigned)r[i].reliable << r[i].link;
    use_route(s, 0, now);
    for (int full = 0; full < 2; full++)
        if (s->welcome[full].due && !emx_list_linked(&s->welcoming)) {
            emx_list_append(&e->welcoming[s->welcome[full].link], &s->welcoming);
            emx_engine_has_output(e, s->welcome[full].link);
        }
}

/* ---- Hello and welcome, out ---- */

static size_t min_probe_bytes(const struct emx_engine *e)
{
    return sizeof(struct emx_frame) + sizeof(struct emx_f_hello) + e->self_addr_bytes;
}

/* The head goes into scratch, the address and the padding into one static area of the engine. */
static void build(struct emx_session *s, const struct emx_route *r, enum emx_frame_type type, size_t frame_bytes,
                  uint32_t probe, struct emx_txframe *f, struct emx_scratch *scratch)
{
    struct emx_engine *e = s->e;
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_hello *t = (void *)(h + 1);
    size_t least = min_probe_bytes(e);

    if (frame_bytes < least)
        frame_bytes = least;
    memset(t, 0, sizeof(*t));
    t->addr_bytes = (uint16_t)e->self_addr_bytes;
    t->frame_bytes = (uint16_t)frame_bytes;
    t->max_bytes = r->frame_bytes;
    t->window = (uint16_t)e->cfg->p_window;
    t->probe = probe;
    emx_engine_head(e, s->peer, h, type, frame_bytes - sizeof(*h));
    emx_engine_stamp(s, h);
    f->to = &r->to;
    f->head_bytes = sizeof(*h) + sizeof(*t);
    f->body = e->hello_body;
    f->body_bytes = (uint16_t)(frame_bytes - f->head_bytes);
    f->bulk = false;
    emx_engine_seal(s, h, f, emx_tag_level(e, r->link, (unsigned)e->cfg->p_checksum));
}

bool emx_connect_output_hello(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, emx_time now)
{
    struct emx_connect *c = s->connect;
    int full;

    if (s->state != EMX_S_CONNECTING || (!c->due[0] && !c->due[1]))
        return false;
    full = !c->due[0];
    c->due[full] = false;
    build(s, current_route(s), EMX_F_hello, full ? s->frame_bytes : 0, s->probe | (uint32_t)full, f, scratch);
    emx_session_asked(s, now);
    return true;
}

static const struct emx_route *route_over(const struct emx_session *s, unsigned link)
{
    for (unsigned i = 0; s->connect && i < s->connect->count; i++)
        if (s->connect->route[i].link == link)
            return &s->connect->route[i];
    return NULL;
}

bool emx_connect_output_welcome(struct emx_session *s, unsigned link, struct emx_txframe *f,
                                struct emx_scratch *scratch)
{
    const struct emx_route *r = route_over(s, link);

    for (int full = 0; full < 2; full++) {
        struct emx_welcome *w = &s->welcome[full];
        size_t bytes = w->frame_bytes;

        if (!w->due || w->link != link)
            continue;
        w->due = false;
        if (!r)
            continue;
        if (bytes > r->frame_bytes - emx_tag_bytes(s->e, link))
            bytes = r->frame_bytes - emx_tag_bytes(s->e, link);
        build(s, r, EMX_F_welcome, bytes, w->probe, f, scratch);
        return true;
    }
    return false;
}

/* ---- Hello and welcome, in ---- */

/* The address in a hello or welcome, if it is well-formed and the sender's own, who has authentication if we have. */
static bool sender_address(const struct emx_engine *e, const uint8_t *data, struct emx_address *a)
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

static void take_terms(struct emx_session *s, const struct emx_f_hello *t)
{
    uint64_t window = s->e->cfg->p_window;

    s->peer_window = t->window < window ? t->window : (uint16_t)window;
}

enum emx_drop emx_connect_hello(struct emx_engine *e, unsigned link, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_hello *t = (const void *)(h + 1);
    struct emx_address a;
    struct emx_peer *p;
    struct emx_session *s;
    struct emx_welcome *w;

    if (!sender_address(e, data, &a))
        return EMX_DROP_MALFORMED;
    if (e->closing)
        return EMX_DROP_NO_SESSION;
    if (emx_peer_make(e, &a, t + 1, t->addr_bytes, &p))
        return EMX_DROP_MEMORY;
    s = p->session;
    if (!s && !(s = emx_session_start(e, p, now)))
        return EMX_DROP_MEMORY;
    if (emx_session_over(s))
        return EMX_DROP_NO_SESSION;
    emx_session_heard(s, now);
    take_terms(s, t);
    w = &s->welcome[t->probe & 1];
    *w = (struct emx_welcome){.due = true, .link = (uint8_t)link, .frame_bytes = t->frame_bytes, .probe = t->probe};
    if (s->connect->count && !emx_list_linked(&s->welcoming)) {
        emx_list_append(&e->welcoming[link], &s->welcoming);
        emx_engine_has_output(e, link);
    }
    return EMX_ACCEPTED;
}

static void connected(struct emx_session *s)
{
    s->state = EMX_S_CONNECTED;
    s->asked_ns = 0;
    s->lapsed = false;
    s->spoke_ns = s->heard_ns;
    emx_quick_open(s);
    s->e->stats->peers_connected++;
    emx_event_post(s->e, EMX_EVENT_CONNECTED, s->peer, ETHMX_OK, "%s", current_route(s)->name);
    /* What waited can go; and the peer learns that this side is up. */
    s->ack_now = true;
    emx_session_ready(s);
}

enum emx_drop emx_connect_welcome(struct emx_session *s, const uint8_t *data)
{
    const struct emx_f_hello *t = (const void *)(data + sizeof(struct emx_frame));
    struct emx_address a;
    int full = t->probe & 1;

    if (!sender_address(s->e, data, &a))
        return EMX_DROP_MALFORMED;
    if (s->state != EMX_S_CONNECTING || (t->probe & ~1u) != s->probe)
        return EMX_DROP_STALE;
    if (full && t->frame_bytes < s->frame_bytes)
        return EMX_DROP_STALE; /* the way back is narrower */
    take_terms(s, t);
    if (!full && !s->connect->got[0] && current_route(s)->frame_bytes > NARROW_BYTES)
        s->connect->give_up_ns -= s->e->cfg->p_connect_timeout / 2; /* leaves time for narrower frames */
    s->connect->got[full] = true;
    if (s->connect->got[0] && s->connect->got[1])
        connected(s);
    return EMX_ACCEPTED;
}

/* ---- Time ---- */

emx_time emx_connect_deadline(const struct emx_session *s)
{
    const struct emx_connect *c = s->connect;

    if (s->state != EMX_S_CONNECTING)
        return EMX_NEVER;
    return c->retry_ns < c->give_up_ns ? c->retry_ns : c->give_up_ns;
}

static bool narrow(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;
    struct emx_route *r = &c->route[c->current];

    if (!c->got[0] || r->frame_bytes <= NARROW_BYTES)
        return false;
    emx_event_post(s->e, EMX_EVENT_ROUTE_LOST, s->peer, ETHMX_ERR_UNREACHABLE,
                   "%s: frames of %u bytes are lost, small ones are not, so it goes on with %u; is the MTU the same on "
                   "all switches between?",
                   r->name, r->frame_bytes, NARROW_BYTES);
    r->frame_bytes = NARROW_BYTES;
    if (r->bulk_bytes > NARROW_BYTES)
        r->bulk_bytes = NARROW_BYTES;
    use_route(s, c->current, now);
    c->give_up_ns -= s->e->cfg->p_connect_timeout / 2; /* the other half is spent */
    return true;
}

static void route_failed(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;
    const struct emx_route *r = current_route(s);
    size_t len = strlen(c->why);
    unsigned long long ms = s->e->cfg->p_connect_timeout / 1000000;

    if (!c->got[0])
        snprintf(c->why + len, sizeof(c->why) - len, "%s%s: no answer in %llu ms", len ? "; " : "", r->name, ms);
    else
        snprintf(c->why + len, sizeof(c->why) - len, "%s%s: frames of %u bytes are lost, small ones are not (MTU?)",
                 len ? "; " : "", r->name, r->frame_bytes);
    if (c->current + 1 == c->count) {
        char why[sizeof(c->why)];

        memcpy(why, c->why, sizeof(why));
        unreachable(s, why, now);
        return;
    }
    emx_event_post(s->e, EMX_EVENT_ROUTE_LOST, s->peer, ETHMX_ERR_UNREACHABLE, "%s", c->why + (len ? len + 2 : 0));
    use_route(s, c->current + 1, now);
}

void emx_connect_delayed(struct emx_session *s, emx_time late_ns)
{
    if (s->state == EMX_S_CONNECTING)
        s->connect->give_up_ns += late_ns;
}

void emx_connect_expire(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;

    if (s->state != EMX_S_CONNECTING)
        return;
    if (now >= c->give_up_ns) {
        if (!narrow(s, now))
            route_failed(s, now);
        return;
    }
    if (now < c->retry_ns)
        return;
    c->due[0] = !c->got[0];
    c->due[1] = !c->got[1];
    c->wait_ns = c->wait_ns * 2 < LAST_RETRY_NS ? c->wait_ns * 2 : LAST_RETRY_NS;
    c->retry_ns = retry_ns(s, now);
    emx_session_ready(s);
}
