/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From which length on messages to a peer are read by its device instead of going eagerly.
 *
 * A message that may go eagerly, copied, waits for the rendezvous only to be read: for the read's round trip, and,
 * where its memory must be registered, for one more, of rkey request and reply. Whether what is saved at both ends is
 * worth that depends on the peer: the shortest round trip that was seen is weighed against the costs that were measured
 * (base/crossing.h). So there are two lengths: from one on messages are read if their memory is registered, from the
 * other on in any case. Whether it is registered is not known before progress is asked. So in between the past tells.
 * After MISSES messages in a row that found their memory not registered, as those of a program that always sends from
 * new memory, others go eagerly; each PROBE-th is read, which registers its memory; the first that finds it registered
 * ends that.
 */
#include "base/crossing.h"
#include "core/msg/data.h"
#include "core/msg/rdma_threshold.h"
#include "core/rel/session.h"

#define MISSES 8
#define PROBE  64

void emx_rdma_threshold_init(struct emx_session *s, uint64_t min_bytes, const struct emx_costs *costs)
{
    s->get.min_bytes = min_bytes;
    s->get.eager = (struct emx_rdma_threshold){.costs = min_bytes ? costs : NULL};
}

void emx_rdma_threshold_round_trip(struct emx_session *s, emx_time ns)
{
    struct emx_rdma_threshold *l = &s->get.eager;

    if (!l->costs || (l->round_trip_ns && ns >= l->round_trip_ns))
        return;
    l->round_trip_ns = ns ? ns : 1;
    l->kept_bytes = emx_threshold_eager(l->costs, ns, true);
    l->new_bytes = emx_threshold_eager(l->costs, ns, false);
}

bool emx_rdma_threshold_wanted(const struct emx_session *s, const struct ethmx_data *data)
{
    return s->get.min_bytes && data->len_bytes >= s->get.min_bytes && emx_data_contiguous(data);
}

/* Whether it depends on its memory. */
static bool is_between(const struct emx_rdma_threshold *l, uint64_t len_bytes)
{
    return len_bytes >= l->kept_bytes && len_bytes < l->new_bytes;
}

bool emx_rdma_threshold_pays(const struct emx_session *s, const struct ethmx_data *data)
{
    const struct emx_rdma_threshold *l = &s->get.eager;

    if (!emx_rdma_threshold_wanted(s, data))
        return false;
    if (is_between(l, data->len_bytes))
        return l->missed < MISSES || l->passed + 1 >= PROBE;
    return data->len_bytes >= l->new_bytes;
}

void emx_rdma_threshold_passed(struct emx_session *s, uint64_t len_bytes)
{
    struct emx_rdma_threshold *l = &s->get.eager;

    if (is_between(l, len_bytes) && l->passed < PROBE)
        l->passed++;
}

void emx_rdma_threshold_learn(struct emx_rdma_threshold *l, uint64_t len_bytes, bool kept)
{
    if (!is_between(l, len_bytes))
        return;
    l->passed = 0;
    if (kept)
        l->missed = 0;
    else if (l->missed < MISSES)
        l->missed++;
}
