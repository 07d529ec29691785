/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Liveness: the timer of a session, and the time at which a silent peer counts as dead. session.c explains the rules.
 */
#include "base/heap.h"
#include "core/engine_impl.h"
#include "core/rel/connect.h"
#include "core/rel/session.h"

void emx_session_arm(struct emx_session *s, emx_time at)
{
    if (at != EMX_NEVER)
        emx_heap_bring_forward(&s->e->timers, &s->timer, at);
}

/* The peer has replied: with a hello_ack, or with data, which it sends when it is connected. One that has not cannot be
 * reached (connect.c), rather than be dead. */
static bool liveness_has_lived(const struct emx_session *s)
{
    return s->state == EMX_S_CONNECTED ||
           (s->state == EMX_S_CONNECTING && (s->connect->answered || s->rx.next != s->rx.first));
}

emx_time emx_session_death_ns(const struct emx_session *s)
{
    return s->asked_ns && liveness_has_lived(s) ? s->asked_ns + s->e->cfg->p_peer_timeout : EMX_NEVER;
}

void emx_session_asked_first(struct emx_session *s, emx_time now)
{
    s->asked_ns = now;
    emx_session_arm(s, now + s->e->silence_ns);
}
