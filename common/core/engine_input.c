/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Engine, input: calls the handlers of frames. The rows of EMX_FRAME_TYPES are the table.
 */
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/format/frame.h"
#include "core/msg/chunk.h"
#include "core/msg/coalesce.h"
#include "core/msg/eager.h"
#include "core/msg/exported.h"
#include "core/msg/place.h"
#include "core/msg/rdma_get.h"
#include "core/msg/rdma_put.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/connect.h"
#include "core/rel/credit.h"
#include "core/rel/ecn.h"
#include "core/rel/failover.h"
#include "core/rel/fragment.h"
#include "core/rel/offload_probe.h"
#include "core/rel/rail.h"
#include "core/rel/reorder.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"
#include "core/rma/rma.h"

static void input_closed(struct emx_session *s, emx_time now)
{
    bool missed = !emx_list_empty(&s->peer->ops);

    if (missed)
        emx_event_post(s->e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_PEER_DEAD,
                       "the peer on host %s has closed its endpoint although operations with it are open",
                       emx_peer_host(s->e, s->peer));
    else
        emx_event_post(s->e, EMX_EVENT_CLOSED, s->peer, ETHMX_OK, "closed");
    emx_session_end(s, EMX_S_CLOSED, ETHMX_ERR_PEER_DEAD, now);
}

static enum emx_drop input_hello_ack(struct emx_session *s, const uint8_t *data, emx_time now)
{
    return emx_connect_hello_ack(s, data, now);
}

static enum emx_drop input_ack(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    const struct emx_f_ack *f = (const void *)(h + 1);

    emx_offload_probe_told(&s->offload, f->joined);
    if (f->early)
        emx_send_window_ack(s, h->ack, f->early, now);
    if (f->marked != s->ecn.ce_told)
        emx_ecn_told(s, h->ack, f->marked, now);
    return EMX_ACCEPTED;
}

static enum emx_drop input_doubled(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_doubled *f = (const void *)(data + sizeof(struct emx_frame));

    (void)now;
    emx_send_window_doubled(s, f->frames);
    return EMX_ACCEPTED;
}

static enum emx_drop input_ping(struct emx_session *s, const uint8_t *data, emx_time now)
{
    (void)data, (void)now;
    s->pong_due = true;
    emx_session_ready(s);
    return EMX_ACCEPTED;
}

static enum emx_drop input_pong(struct emx_session *s, const uint8_t *data, emx_time now)
{
    (void)s, (void)data, (void)now;
    return EMX_ACCEPTED;
}

static enum emx_drop input_close(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;

    if (s->greeted && h->seq != s->rx.first)
        return EMX_DROP_STALE; /* from an earlier session */
    input_closed(s, now);
    return EMX_ACCEPTED;
}

/* Not called: a hello may arrive before there is a session, and is handled earlier. */
static enum emx_drop input_hello(struct emx_session *s, const uint8_t *data, emx_time now)
{
    return emx_connect_hello(s->e, s->e->input_link, data, now);
}

#define INPUT_ANY(name, number, sequenced, bytes, handler, help)      [number] = (sequenced) ? emx_reorder_input : (handler),
#define INPUT_IN_ORDER(name, number, sequenced, bytes, handler, help) [number] = (sequenced) ? (handler) : NULL,

static const emx_input_fn input_any[EMX_F_COUNT] = {EMX_FRAME_TYPES(INPUT_ANY)};
const emx_input_fn emx_engine_in_order[EMX_F_COUNT] = {EMX_FRAME_TYPES(INPUT_IN_ORDER)};

/* A frame of a peer whose session is not confirmed yet. Not inlined, because it is rare. */
static __attribute__((noinline)) enum emx_drop input_greeting(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_frame *h = (const void *)data;

    if (!emx_connect_reachable(s))
        return EMX_DROP_NO_SESSION;
    s->takes = s->greeted && emx_session_is_meant(s, h);
    if (!s->takes && h->type != EMX_F_hello_ack && (h->type != EMX_F_close || !emx_session_is_meant(s, h)))
        return EMX_DROP_NO_SESSION;
    emx_session_heard(s, now);
    if (s->takes)
        emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    return input_any[h->type](s, data, now);
}

static inline __attribute__((always_inline)) enum emx_drop input_dispatch(struct emx_engine *e, unsigned link,
                                                                          const uint8_t *data, uint32_t len_bytes,
                                                                          emx_time now)
{
    const struct emx_frame *h = (const void *)data;
    enum emx_drop why;
    struct emx_peer *p;
    struct emx_session *s;

    if (emx_engine_timeless(data, len_bytes) && e->reliable_links >> link & 1)
        return emx_eager_input_short(e, data, len_bytes, now);
    why = emx_frame_check(data, len_bytes, e->self.id, e->self.cookie);
    if (why != EMX_ACCEPTED)
        return why;
    if (h->type == EMX_F_hello)
        return emx_connect_hello(e, link, data, now);
    p = emx_peer_find(e, h->src_id);
    s = p ? p->session : NULL;
    if (!s || !s->takes)
        return s ? input_greeting(s, data, now) : EMX_DROP_NO_SESSION;
    emx_session_heard(s, now);
    if (h->ack != s->tx.acked && !s->reliable)
        emx_send_window_ack(s, h->ack, 0, now);
    emx_credit_heard(&s->credit, h->credit, h->ack, s->tx.next);
    return input_any[h->type](s, data, now);
}

enum emx_drop emx_engine_dispatch(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now)
{
    return input_dispatch(e, e->input_link, data, len_bytes, now);
}

static inline enum emx_drop input_count(struct emx_engine *e, enum emx_drop why)
{
    if (why == EMX_ACCEPTED)
        emx_count(e, frames_received);
    else
        emx_stats_add(e->stats, (enum emx_counter)why, 1);
    return why;
}

/* Not inlined, so that frames without tags do not pay for it. */
static __attribute__((noinline)) enum emx_drop input_tagged(struct emx_engine *e, unsigned link, const uint8_t *data,
                                                            uint32_t len_bytes, emx_time now)
{
    const struct emx_tag *t = (const void *)data;
    const struct emx_frame *h = (const void *)(t + 1);
    enum emx_drop why = emx_tag_check(e, data, len_bytes);

    if (why == EMX_ACCEPTED)
        why = input_dispatch(e, link, (const uint8_t *)h, t->frame_bytes, now);
    if (why == EMX_ACCEPTED && h->type == EMX_F_hello)
        emx_tag_greeted(e, data);
    return input_count(e, why);
}

enum emx_drop emx_engine_input(struct emx_engine *e, unsigned link, const uint8_t *data, uint32_t len_bytes,
                               emx_time now)
{
    e->input_link = link;
    if (__builtin_expect(e->tagged_links >> link & 1, 0))
        return input_tagged(e, link, data, len_bytes, now);
    return input_count(e, input_dispatch(e, link, data, len_bytes, now));
}

enum emx_drop emx_engine_input_placed(struct emx_engine *e, unsigned link, const uint8_t *head, const void *body,
                                      uint32_t len_bytes, emx_time now)
{
    enum emx_drop why;

    e->input_body = body;
    why = emx_engine_input(e, link, head, len_bytes, now);
    e->input_body = NULL;
    return why;
}

void emx_engine_placer(struct emx_engine *e, struct emx_placer *placer_p)
{
    *placer_p = (struct emx_placer){.arg = e,
                                    .expects = emx_place_expects,
                                    .is_early = emx_place_is_early,
                                    .plan = emx_place_plan,
                                    .settle = emx_place_settle};
}
