/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handles the timer of a session.
 */
#include "base/heap.h"
#include "base/min.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/rel/connect.h"
#include "core/rel/failover.h"
#include "core/rel/reorder.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"

static void session_arm_next(struct emx_session *s)
{
    emx_time at = emx_min(emx_connect_deadline(s), emx_min(emx_send_window_deadline(s), emx_session_death_ns(s)));

    at = emx_min(at, emx_failover_deadline(s));
    if (s->rx.ack_at_ns)
        at = emx_min(at, s->rx.ack_at_ns);
    emx_session_arm(s, at);
}

static void session_die(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_count(e, peers_dead);
    emx_event_post(
        e, EMX_EVENT_FAILED, s->peer, ETHMX_ERR_PEER_DEAD,
        "the peer on host %s has not answered for %llu ms over %s: its process or host is gone, or the network "
        "between is cut (ETHMX_PEER_TIMEOUT sets how long to wait)",
        emx_peer_host(e, s->peer), (unsigned long long)(e->cfg->p_peer_timeout / 1000000),
        s->connect->route[s->connect->current].name);
    emx_session_end(s, EMX_S_DEAD, ETHMX_ERR_PEER_DEAD, now);
}

void emx_session_expire(struct emx_session *s, emx_time now)
{
    emx_heap_clear(&s->e->timers, &s->timer);
    if (now >= emx_session_death_ns(s)) {
        session_die(s, now);
        return;
    }
    emx_connect_expire(s, now);
    if (s->state == EMX_S_DEAD)
        return;
    emx_failover_expire(s, now);
    emx_send_window_expire(s, now);
    emx_reorder_expire(s, now);
    session_arm_next(s);
}
