/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Path MTU probing of a connected route, at the packetization layer as in RFC 4821. It starts when long frames seem to
 * get lost, as after an MTU on the path was lowered. Pairs of hellos are sent, a short one and one of the longest
 * length. If the long one gets a reply, it was a false alarm. If only short ones do, TRIES times, a shorter length is
 * tried.
 */
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/peer.h"
#include "core/rel/connect.h"
#include "core/rel/fragment.h"
#include "core/rel/offload_probe.h"
#include "core/rel/path_mtu.h"
#include "core/rel/rtt.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

#define COMMON      1472     /* of an MTU of 1500, by IPv4 and UDP */
#define TRIES       12       /* many, because a full queue loses long frames more often than short ones */
#define PAUSE_NS    25000000 /* upper bound of the first pause */
#define PAUSE_TIMES 2        /* longest pause / first pause */

uint16_t emx_path_mtu_common(const struct emx_route *r)
{
    return (uint16_t)(COMMON - r->more_bytes);
}

uint16_t emx_path_mtu_shorter(const struct emx_route *r, unsigned bytes)
{
    static const uint16_t length[] = {8000, 6000, 4000, 2000, COMMON, 1400, 1252, 1100, 972, 800, 600, EMX_FRAME_LEAST};

    for (unsigned i = 0; i < sizeof(length) / sizeof(*length); i++) {
        uint64_t shorter = emx_max(length[i] - r->more_bytes, EMX_FRAME_LEAST);

        if (shorter < bytes)
            return (uint16_t)shorter;
    }
    return 0;
}

/* The length to try after one of that many bytes; 0: none. Both are without a tag, but the tried length includes it, as
 * when connecting: a peer whose MTU was lowered, too, cannot reply with longer frames. */
static uint16_t path_mtu_untagged(const struct emx_session *s, unsigned bytes)
{
    unsigned tag_bytes = emx_tag_bytes(s->e, s->link);
    uint16_t shorter = emx_path_mtu_shorter(emx_connect_route(s), bytes + tag_bytes);

    return shorter ? (uint16_t)(shorter - tag_bytes) : 0;
}

static emx_time path_mtu_pause_ns(const struct emx_session *s)
{
    emx_time rto_ns = emx_min(emx_rtt_backed_off(&s->rtt, 0, s->e->cfg), PAUSE_NS);

    return rto_ns > EMX_CONNECT_RETRY_NS ? rto_ns : EMX_CONNECT_RETRY_NS;
}

static void path_mtu_try(struct emx_session *s, uint16_t bytes, emx_time now)
{
    struct emx_connect *c = s->connect;

    c->mtu_probing = true;
    c->tried_bytes = bytes;
    c->failures = 0;
    c->got[0] = c->got[1] = false;
    c->due[0] = c->due[1] = true;
    c->wait_ns = path_mtu_pause_ns(s);
    c->retry_ns = now + c->wait_ns;
    s->probe = (uint32_t)emx_rng_next(&s->e->rng) & ~1u;
    emx_session_ready(s);
    emx_session_arm(s, c->retry_ns);
}

void emx_path_mtu_probe(struct emx_session *s, size_t frame_bytes, emx_time now)
{
    if (frame_bytes + emx_tag_bytes(s->e, s->link) <= EMX_FRAME_LEAST)
        return;
    if (s->state == EMX_S_CONNECTED && !s->reliable && !emx_connect_route(s)->connected && !s->connect->mtu_probing &&
        path_mtu_untagged(s, s->frame_bytes))
        path_mtu_try(s, s->frame_bytes, now);
}

static void path_mtu_too_small(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_count(e, peers_dead);
    emx_event_post(e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_UNREACHABLE,
                   "%s to host %s: even frames of %u bytes are lost now, shorter ones are not: an MTU was lowered, on "
                   "%s, on %s or on a switch between, too far for ethmx",
                   emx_connect_route(s)->name, emx_peer_host(e, s->peer), EMX_FRAME_LEAST, e->self.host,
                   emx_peer_host(e, s->peer));
    emx_session_end(s, EMX_S_DEAD, ETHMX_ERR_UNREACHABLE, now);
}

/* Without memory the probing starts again later. */
static void path_mtu_lower(struct emx_session *s, uint16_t bytes, emx_time now)
{
    unsigned before = s->frame_bytes, tag_bytes = emx_tag_bytes(s->e, s->link);

    if (!emx_fragment_narrow(s, bytes))
        return;
    emx_event_post(s->e, EMX_EVENT_NARROWER, s->peer, ETHMX_ERR_UNREACHABLE,
                   "%s to host %s: frames of %u bytes are lost now, those of %u are not, so it goes on with these; was "
                   "the MTU lowered, on %s, there or on a switch between?",
                   emx_connect_route(s)->name, emx_peer_host(s->e, s->peer), before + tag_bytes, bytes + tag_bytes,
                   s->e->self.host);
    emx_send_window_hurry(s, now);
    emx_session_ready(s);
}

enum emx_drop emx_path_mtu_answered(struct emx_session *s, const struct emx_f_hello *t, emx_time now)
{
    struct emx_connect *c = s->connect;

    if (!(t->probe & 1)) {
        c->got[0] = true;
        return EMX_ACCEPTED;
    }
    if (t->frame_bytes < c->tried_bytes)
        return EMX_DROP_STALE;
    c->mtu_probing = false;
    if (c->tried_bytes < s->frame_bytes)
        path_mtu_lower(s, c->tried_bytes, now);
    return EMX_ACCEPTED;
}

void emx_path_mtu_expire(struct emx_session *s, emx_time now)
{
    struct emx_connect *c = s->connect;

    if (now < c->retry_ns)
        return;
    c->failures += c->got[0];
    if (c->failures < TRIES) {
        c->got[0] = false;
        c->due[0] = c->due[1] = true;
        if (c->wait_ns < PAUSE_TIMES * path_mtu_pause_ns(s))
            c->wait_ns *= 2;
        c->retry_ns = now + c->wait_ns;
        emx_session_ready(s);
    } else if (path_mtu_untagged(s, c->tried_bytes)) {
        path_mtu_try(s, path_mtu_untagged(s, c->tried_bytes), now);
    } else {
        path_mtu_too_small(s, now);
    }
}
