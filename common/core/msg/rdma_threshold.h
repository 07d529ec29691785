/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From which length on messages to a peer are read by its device instead of going eagerly.
 */
#ifndef EMX_CORE_RDMA_THRESHOLD_H
#define EMX_CORE_RDMA_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/time.h"

struct emx_session;

struct emx_rdma_threshold {
    const struct emx_costs *costs;  /* NULL: not known */
    uint32_t round_trip_ns;         /* that the lengths are for: the shortest; UINT32_MAX: not measured */
    uint8_t missed;                 /* messages in a row, between the lengths below, whose memory was not */
    uint8_t passed;                 /* such ones that have gone eagerly since */
    uint64_t kept_bytes, new_bytes; /* from these lengths on they are read, if their memory is registered; if not */
};

/* Of a session. */
struct emx_get {
    uint64_t min_bytes;              /* messages from this length on are read by a device; 0: none */
    struct emx_rdma_threshold eager; /* of them, which do not rather go eagerly */
};

/* The session goes over this route now; NULL: over one whose device reads nothing. */
void emx_rdma_threshold_routed(struct emx_session *s, const struct emx_route *r);
void emx_rdma_threshold_passed(struct emx_session *s, uint64_t len_bytes); /* a message went eagerly */
/* Whether a message that may go eagerly had better be read. */
bool emx_rdma_threshold_pays(struct emx_session *s, const struct ethmx_data *data);
/* Whether a device may read it, whatever it costs. */
bool emx_rdma_threshold_wanted(const struct emx_session *s, const struct ethmx_data *data);
/* Progress was asked for the memory of a message. */
void emx_rdma_threshold_learn(struct emx_session *s, uint64_t len_bytes, bool kept);

#endif
