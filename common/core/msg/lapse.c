/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lapses: whether the sender may have declared this side dead, see read.c.
 */
#include "base/min.h"
#include "core/engine_impl.h"
#include "core/msg/lapse.h"
#include "core/rel/session.h"

static bool lapse_is_long(const struct emx_session *s, emx_time from, emx_time until)
{
    return until - from >= emx_min(s->e->cfg->p_peer_timeout, s->peer_timeout_ns) / 2;
}

void emx_lapse_trust(struct emx_session *s, emx_time asked_ns, emx_time now)
{
    if (!s->read.lapsed || lapse_is_long(s, asked_ns, now))
        return;
    s->read.lapsed = false;
    s->read.spoke_ns = asked_ns;
}

/* now may be an earlier time: a later check then sees a longer silence, never a shorter one. */
void emx_lapse_spoke(struct emx_session *s, emx_time now)
{
    if (lapse_is_long(s, s->read.spoke_ns, now))
        s->read.lapsed = true;
    s->read.spoke_ns = now;
}

bool emx_lapse_none(const struct emx_session *s, emx_time now)
{
    return !s->read.lapsed && !lapse_is_long(s, s->read.spoke_ns, now);
}
