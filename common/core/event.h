/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Events: what the engine reports about peers.
 */
#ifndef EMX_CORE_EVENT_H
#define EMX_CORE_EVENT_H

#include "core/engine.h"

struct emx_event_node {
    struct emx_list link;
    struct emx_event event;
};

void emx_event_post(struct emx_engine *e, enum emx_event_type type, struct emx_peer *p, int status, const char *fmt,
                    ...) __attribute__((format(printf, 5, 6)));
void emx_event_taken(struct emx_engine *e); /* one has left the list of events or of requested routes */

#endif
