/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The length from which a peer's device reads messages that could be eager.
 *
 * A read needs a rendezvous: its own round trip and, if the memory must be registered, another one for rkey request and
 * reply. Whether the saved copies at both ends pay for that depends on the peer: its shortest round trip is compared
 * with the measured costs (base/threshold.h). So there are two lengths: from the first on messages are read if their
 * memory is registered, from the second on in any case. Only progress knows whether it is registered, so in between the
 * history decides. After MISSES messages in a row with unregistered memory, as of a program that always sends from new
 * memory, messages are eager. Each PROBE-th of them is read, which registers its memory. The first that finds its
 * memory registered ends this.
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
    /* data read by a device carries no tag */
    bool reads = r && r->export_min_bytes && s->seal != EMX_SEAL_TAG;

    s->get.min_bytes = reads ? r->export_min_bytes : 0;
    s->get.eager = (struct emx_rdma_threshold){.costs = reads ? r->export_costs : NULL, .round_trip_ns = UINT32_MAX};
}

/* The lengths for the shortest round trip so far. */
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

/* Whether the decision depends on registration. */
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
