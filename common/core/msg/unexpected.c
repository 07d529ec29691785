/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unexpected messages: those that no receive has taken yet, and active messages that wait for their handler. Short data
 * is inside the structure.
 */
#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/eager.h"
#include "core/msg/match.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/credit.h"
#include "core/rel/session.h"

struct emx_unexpected *emx_unexpected_new(struct emx_engine *e, struct emx_session *s, size_t buf_bytes)
{
    struct emx_unexpected *a = emx_pool_get(&e->unexpected_pool);

    if (!a)
        return NULL;
    memset(a, 0, offsetof(struct emx_unexpected, small));
    emx_list_init(&a->match.link);
    emx_list_init(&a->match.queue);
    emx_list_init(&a->am_link);
    a->session = s;
    a->match.peer = s ? s->peer : NULL;
    a->buf = buf_bytes <= sizeof(a->small) ? a->small : emx_alloc_get(&e->alloc, buf_bytes);
    if (!a->buf) {
        emx_pool_put(&e->unexpected_pool, a);
        return NULL;
    }
    return a;
}

struct ethmx_remote emx_unexpected_remote(const struct emx_unexpected *a)
{
    struct ethmx_remote r = {.present = a->has_remote};

    if (r.present)
        memcpy(&r.data, a->buf, sizeof(r.data));
    return r;
}

bool emx_unexpected_lost(const struct emx_unexpected *a)
{
    return (a->is_rts || !a->whole) && (a->orphan || (a->session && emx_session_over(a->session)));
}

void emx_unexpected_take(struct emx_engine *e, struct emx_unexpected *a)
{
    if (!a->in_match)
        return;
    emx_match_take(&e->match[a->space], &a->match);
    e->stats->unexpected_now--;
    a->in_match = false;
}

static void unexpected_am_taken(struct emx_engine *e)
{
    if (emx_list_empty(&e->am))
        e->ready_flags.pending &= ~(uint32_t)EMX_RESULT_AM;
}

void emx_unexpected_free(struct emx_engine *e, struct emx_unexpected *a)
{
    emx_unexpected_take(e, a);
    if (emx_list_linked(&a->am_link)) {
        emx_list_del(&a->am_link);
        unexpected_am_taken(e);
    }
    e->stats->unexpected_bytes -= a->cost;
    if (a->cost && a->session)
        emx_credit_release(a->session, a->cost);
    else
        e->stats->unexpected_promised -= a->cost; /* to self */
    if (a->session)
        emx_eager_rx_forget(&a->session->eager, a);
    if (a->buf != a->small)
        emx_alloc_put(&e->alloc, a->buf);
    emx_pool_put(&e->unexpected_pool, a);
}

void emx_unexpected_queue(struct emx_engine *e, struct emx_unexpected *a, struct emx_peer *p, uint64_t bits)
{
    a->match.bits = bits;
    a->match.peer = p;
    a->in_match = true;
    emx_match_add(&e->match[a->space], &a->match);
    e->stats->unexpected_now++;
    emx_count(e, match_unexpected);
}

/* ---- Giving back unread ---- */

void emx_engine_match_ignore(struct emx_engine *e, uint64_t bits)
{
    emx_match_ignore(&e->match[EMX_TAGGED], bits);
}

/* ---- Active messages ---- */

void emx_unexpected_am(struct emx_engine *e, struct emx_unexpected *a)
{
    emx_list_append(&e->am, &a->am_link);
    e->ready_flags.pending |= EMX_RESULT_AM;
    emx_count(e, am_received);
}

struct emx_unexpected *emx_engine_am(struct emx_engine *e, struct ethmx_am *am_p, unsigned *id_p)
{
    struct emx_list *l = emx_list_pop(&e->am);
    struct emx_unexpected *a;

    if (!l)
        return NULL;
    unexpected_am_taken(e);
    a = emx_list_entry(l, struct emx_unexpected, am_link);
    emx_list_append(&e->taken, &a->am_link);
    *id_p = (unsigned)a->match.bits;
    *am_p = (struct ethmx_am){.peer = (struct ethmx_peer *)a->match.peer,
                              .header = a->buf,
                              .header_bytes = a->am_header_bytes,
                              .data = a->is_rts || a->local ? NULL : a->buf + a->am_header_bytes,
                              .data_bytes = a->total_bytes,
                              .msg = (struct ethmx_message *)a};
    return a;
}

void emx_engine_am_defer(struct emx_engine *e, struct emx_unexpected *msg)
{
    emx_list_del(&msg->am_link);
    emx_list_append(&e->am_deferred, &msg->am_link);
}

/* Messages that have arrived and were not passed to a handler yet are younger than those that were put back. */
void emx_engine_am_retry(struct emx_engine *e)
{
    struct emx_list *l;

    if (emx_list_empty(&e->am_deferred))
        return;
    while ((l = emx_list_pop(&e->am)))
        emx_list_append(&e->am_deferred, l);
    while ((l = emx_list_pop(&e->am_deferred)))
        emx_list_append(&e->am, l);
    e->ready_flags.pending |= EMX_RESULT_AM;
}
