/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From which length on messages to a peer are read by its device instead of going eagerly.
 *
 * A message that may go eagerly, copied, waits for the rendezvous only to be read: for the read's round trip, and,
 * where its memory must be registered, for one more, of rkey request and reply. Whether what is saved at both ends is
 * worth that depends on the peer: the shortest round trip that was seen is weighed against the costs that were measured
 * (base/threshold.h). So there are two lengths: from one on messages are read if their memory is registered, from the
 * other on in any case. Whether it is registered is not known before progress is asked. So in between the past tells.
 * After MISSES messages in a row that found their memory not registered, as those of a program that always sends from
 * new memory, others go eagerly; each PROBE-th is read, which registers its memory; the first that finds it registered
 * ends that.
 */
#include "base/threshold.h"
#include "core/msg/data.h"
#include "core/msg/rdma_threshold.h"
#include "core/rel/session.h"
#include "core/rel/tag.h"

#define MISSES 8
#define PROBE  64

void emx_rdma_threshold_routed(struct emx_session *s, const struct emx_route *r)
{
    /* What a device reads carries no tag. */
    bool reads = r && r->export_min_bytes && s->seal != EMX_SEAL_TAG;

    s->get.min_bytes = reads ? r->export_min_bytes : 0;
    s->get.eager = (struct emx_rdma_threshold){.costs = reads ? r->export_costs : NULL, .round_trip_ns = UINT32_MAX};
}

/* The lengths for the shortest round trip until now. */
static struct emx_rdma_threshold *rdma_threshold_now(struct emx_session *s)
{
    struct emx_rdma_threshold *l = &s->get.eager;

    if (!l->costs || l->round_trip_ns == s->tx.shortest_ns)
        return l;
    l->round_trip_ns = s->tx.shortest_ns;
    l->kept_bytes = emx_threshold_eager(l->costs, l->round_trip_ns, true);
    l->new_bytes = emx_threshold_eager(l->costs, l->round_trip_ns, false);
    return l;
}

bool emx_rdma_threshold_wanted(const struct emx_session *s, const struct ethmx_data *data)
{
    return s->get.min_bytes && data->len_bytes >= s->get.min_bytes && emx_data_contiguous(data);
}

/* Whether it depends on its memory. */
static bool rdma_threshold_is_between(const struct emx_rdma_threshold *l, uint64_t len_bytes)
{
    return len_bytes >= l->kept_bytes && len_bytes < l->new_bytes;
}

bool emx_rdma_threshold_pays(struct emx_session *s, const struct ethmx_data *data)
{
    const struct emx_rdma_threshold *l;

    if (!emx_rdma_threshold_wanted(s, data))
        return false;
    l = rdma_threshold_now(s);
    if (rdma_threshold_is_between(l, data->len_bytes))
        return l->missed < MISSES || l->passed + 1 >= PROBE;
    return data->len_bytes >= l->new_bytes;
}

void emx_rdma_threshold_passed(struct emx_session *s, uint64_t len_bytes)
{
    struct emx_rdma_threshold *l = rdma_threshold_now(s);

    if (rdma_threshold_is_between(l, len_bytes) && l->passed < PROBE)
        l->passed++;
}

void emx_rdma_threshold_learn(struct emx_session *s, uint64_t len_bytes, bool kept)
{
    struct emx_rdma_threshold *l = rdma_threshold_now(s);

    if (!rdma_threshold_is_between(l, len_bytes))
        return;
    l->passed = 0;
    if (kept)
        l->missed = 0;
    else if (l->missed < MISSES)
        l->missed++;
}
