/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events: what the engine reports about peers.
 */
#include <stdarg.h>
#include <stdio.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/peer.h"
#include "core/session_impl.h"

void emx_event_post(struct emx_engine *e, enum emx_event_type type, struct emx_peer *p, int status, const char *fmt,
                    ...)
{
    struct emx_event_node *n = emx_alloc_get(&e->alloc, sizeof(*n));
    va_list ap;

    if (!n)
        return; /* the operations report it later */
    n->event = (struct emx_event){.type = type, .peer = p, .status = status};
    va_start(ap, fmt);
    vsnprintf(n->event.text, sizeof(n->event.text), fmt, ap);
    va_end(ap);
    emx_list_append(&e->events, &n->link);
    e->ready_flags.pending |= EMX_RESULT_EVENT;
}

void emx_event_taken(struct emx_engine *e)
{
    if (emx_list_empty(&e->want_routes) && emx_list_empty(&e->events))
        e->ready_flags.pending &= ~(uint32_t)EMX_RESULT_EVENT;
}

bool emx_engine_event(struct emx_engine *e, struct emx_event *ev_p)
{
    struct emx_list *l = emx_list_pop(&e->want_routes);
    struct emx_event_node *n;

    if (l) {
        emx_event_taken(e);
        *ev_p =
            (struct emx_event){.type = EMX_EVENT_ROUTES, .peer = emx_list_entry(l, struct emx_session, routing)->peer};
        return true;
    }
    if (!(l = emx_list_pop(&e->events)))
        return false;
    emx_event_taken(e);
    n = emx_list_entry(l, struct emx_event_node, link);
    *ev_p = n->event;
    emx_alloc_put(&e->alloc, n);
    return true;
}
