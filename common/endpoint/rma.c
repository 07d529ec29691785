/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations: from the arguments of ethmx_rma.h to the engine, and what it then wants to send to the wire.
 */
#include <sched.h>
#include <sys/random.h>

#include "base/log.h"
#include "core/rma/rma.h"
#include "core/rma/rma_apply.h"
#include "endpoint/ep.h"
#include "endpoint/helper.h"
#include "endpoint/rma.h"
#include "mem/segment.h"

/* ---- Regions ---- */

static struct emx_rma_region *rma_region_in(struct ethmx_region *region)
{
    return (struct emx_rma_region *)region;
}

/* Nobody can guess it. */
static uint64_t rma_key(bool mappable)
{
    uint64_t key = 0;

    while (getrandom(&key, sizeof(key), 0) != (ssize_t)sizeof(key) || !(key & ~EMX_KEY_MAPPABLE))
        ;
    return mappable ? key | EMX_KEY_MAPPABLE : key & ~EMX_KEY_MAPPABLE;
}

int ethmx_rma_expose_for(struct ethmx_ep *ep, void *base, size_t len_bytes, uint64_t key, unsigned access,
                         struct ethmx_region **region_p)
{
    struct emx_rma_region *region;
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_helper_serve(ep);
    if (!rc) {
        rc = emx_engine_expose(ep->progress.engine, base, len_bytes, key, access, &region);
        if (rc)
            emx_helper_unserve(ep);
        else
            *region_p = (struct ethmx_region *)region;
    }
    emx_ep_leave(ep);
    if (rc == ETHMX_ERR_PARAM)
        emx_error_set("a region has the key already, or it is 0");
    else if (rc)
        emx_error_set("out of memory");
    return rc;
}

int ethmx_rma_expose_as(struct ethmx_ep *ep, void *base, size_t len_bytes, uint64_t key, struct ethmx_region **region_p)
{
    return ethmx_rma_expose_for(ep, base, len_bytes, key, EMX_RMA_MAY_BOTH, region_p);
}

/* Exposes it with a new key. */
static int rma_expose(struct ethmx_ep *ep, void *base, size_t len_bytes, bool mappable, struct ethmx_region **region_p,
                      uint64_t *key_p)
{
    int rc;

    do {
        *key_p = rma_key(mappable);
        rc = ethmx_rma_expose_as(ep, base, len_bytes, *key_p, region_p);
    } while (rc == ETHMX_ERR_PARAM); /* another region has it */
    return rc;
}

int ethmx_rma_expose(struct ethmx_ep *ep, void *base, size_t len_bytes, struct ethmx_region **region_p, uint64_t *key_p)
{
    return rma_expose(ep, base, len_bytes, false, region_p, key_p);
}

/* ---- Memory for regions ---- */

static void rma_add_segment(struct ethmx_ep *ep, struct emx_segment *g, uint64_t key, struct ethmx_region *region)
{
    if (!emx_ep_enter(ep))
        return;
    g->region = region;
    if (g->fd >= 0) {
        emx_segment_name(g, key);
        emx_engine_region_share(ep->progress.engine, rma_region_in(region), &g->sharing);
    }
    emx_list_append(&ep->segments, &g->link);
    emx_ep_leave(ep);
}

int ethmx_rma_allocate(struct ethmx_ep *ep, size_t len_bytes, void **base_p, struct ethmx_region **region_p,
                       uint64_t *key_p)
{
    struct emx_segment *g = emx_segment_new(len_bytes, ep->shares);
    int rc;

    if (!g) {
        emx_error_set("out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    rc = rma_expose(ep, g->memory, len_bytes, g->fd >= 0, region_p, key_p);
    if (rc) {
        emx_segment_free(g);
        return rc;
    }
    rma_add_segment(ep, g, *key_p, *region_p);
    *base_p = g->memory;
    return ETHMX_OK;
}

/* The memory that was allocated for the region, or NULL. */
static struct emx_segment *rma_segment_of(const struct ethmx_ep *ep, const struct ethmx_region *region)
{
    emx_list_each(l, &ep->segments)
    {
        struct emx_segment *g = emx_list_entry(l, struct emx_segment, link);

        if (g->region == region)
            return g;
    }
    return NULL;
}

void emx_rma_free_segments(struct ethmx_ep *ep)
{
    struct emx_list *l;

    while ((l = emx_list_first(&ep->segments)))
        emx_segment_free(emx_list_entry(l, struct emx_segment, link));
}

/* ---- Withdrawal ---- */

/* The peer's process may be writing to the region meanwhile. */
static void rma_end_reads(struct ethmx_ep *ep)
{
    while (!emx_progress_end_reads(&ep->progress))
        sched_yield();
}

int ethmx_rma_withdraw(struct ethmx_ep *ep, struct ethmx_region *region)
{
    struct emx_segment *g;
    emx_time now;
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    now = emx_clock_now(&ep->progress.clock);
    g = rma_segment_of(ep, region);
    while ((rc = emx_engine_withdraw(ep->progress.engine, rma_region_in(region), now)) == ETHMX_ERR_BUSY)
        rma_end_reads(ep);
    emx_progress_flush(&ep->progress, now);
    if (!rc)
        emx_helper_unserve(ep);
    if (!rc && g)
        emx_segment_free(g);
    emx_ep_leave(ep);
    if (rc)
        emx_error_set("out of memory");
    return rc;
}

/* ---- Operations ---- */

/* After an operation was started. */
static void rma_note_started(struct ethmx_ep *ep, size_t len_bytes, int rc)
{
    if (rc != ETHMX_INPROGRESS)
        return;
    ep->progress.open_ops++;
    ep->large_ops += emx_ep_is_large(ep, len_bytes);
}

/* more: frames may wait for those of the next operation. */
static int rma_start(struct ethmx_ep *ep, struct ethmx_peer *peer, const struct emx_rma_args *a, bool more)
{
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_progress_rma(&ep->progress, emx_peer_in(peer), a, more);
    rma_note_started(ep, a->data.len_bytes, rc);
    emx_ep_leave(ep);
    if (rc == ETHMX_ERR_PARAM)
        emx_error_set("one-sided operation %d on %zu bytes of type %d: there is none, or not of that length", a->op,
                      a->data.len_bytes, a->type);
    return rc;
}

int ethmx_rma_put(struct ethmx_ep *ep, const struct ethmx_rma_target *to, const struct ethmx_data *data,
                  enum ethmx_rma_mode mode, ethmx_done_fn done, void *arg)
{
    const struct emx_rma_args a = {.kind = EMX_RMA_PUT,
                                   .key = to->key,
                                   .offset = to->offset,
                                   .data = *data,
                                   .mode = mode & ~ETHMX_RMA_MORE,
                                   .done = done,
                                   .arg = arg};

    return rma_start(ep, to->peer, &a, mode & ETHMX_RMA_MORE);
}

int ethmx_rma_get(struct ethmx_ep *ep, const struct ethmx_rma_target *from, const struct ethmx_data *data,
                  ethmx_done_fn done, void *arg)
{
    const struct emx_rma_args a = {
        .kind = EMX_RMA_GET, .key = from->key, .offset = from->offset, .data = *data, .done = done, .arg = arg};

    return rma_start(ep, from->peer, &a, false);
}

int ethmx_rma_accumulate(struct ethmx_ep *ep, const struct ethmx_rma_target *to, enum ethmx_rma_op op,
                         enum ethmx_rma_type type, const struct ethmx_data *data, enum ethmx_rma_mode mode,
                         ethmx_done_fn done, void *arg)
{
    const struct emx_rma_args a = {.kind = EMX_RMA_ACCUMULATE,
                                   .op = op,
                                   .type = type,
                                   .key = to->key,
                                   .offset = to->offset,
                                   .data = *data,
                                   .mode = mode & ~ETHMX_RMA_MORE,
                                   .done = done,
                                   .arg = arg};

    return rma_start(ep, to->peer, &a, mode & ETHMX_RMA_MORE);
}

int ethmx_rma_fetch(struct ethmx_ep *ep, const struct ethmx_rma_target *to, enum ethmx_rma_op op,
                    enum ethmx_rma_type type, const void *operand, const struct ethmx_data *old, ethmx_done_fn done,
                    void *arg)
{
    const struct emx_rma_args a = {.kind = EMX_RMA_FETCH_OP,
                                   .op = op,
                                   .type = type,
                                   .key = to->key,
                                   .offset = to->offset,
                                   .data = *old,
                                   .operand = operand,
                                   .done = done,
                                   .arg = arg};

    return rma_start(ep, to->peer, &a, false);
}

int ethmx_rma_compare_and_swap(struct ethmx_ep *ep, const struct ethmx_rma_target *to, enum ethmx_rma_type type,
                               const void *compare, const void *swap, void *old, ethmx_done_fn done, void *arg)
{
    const struct emx_rma_args a = {.kind = EMX_RMA_COMPARE_SWAP,
                                   .type = type,
                                   .key = to->key,
                                   .offset = to->offset,
                                   .data = {.base = old, .len_bytes = emx_rma_type_bytes(type)},
                                   .compare = compare,
                                   .set = swap,
                                   .done = done,
                                   .arg = arg};

    return rma_start(ep, to->peer, &a, false);
}

int ethmx_rma_flush(struct ethmx_ep *ep, struct ethmx_peer *peer, ethmx_done_fn done, void *arg)
{
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_engine_rma_flush(ep->progress.engine, peer ? emx_peer_in(peer) : NULL, done, arg,
                              emx_clock_now(&ep->progress.clock));
    rma_note_started(ep, 0, rc);
    emx_ep_leave(ep);
    return rc;
}

size_t ethmx_rma_type_bytes(enum ethmx_rma_type type)
{
    return emx_rma_type_bytes(type);
}
