/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The length from which a peer's device reads messages that could be eager.
 */
#ifndef EMX_CORE_RDMA_THRESHOLD_H
#define EMX_CORE_RDMA_THRESHOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/time.h"

struct emx_session;

struct emx_rdma_threshold {
    const struct emx_costs *costs; /* NULL: unknown */
    uint32_t round_trip_ns; /* shortest round trip, for which the lengths are computed; UINT32_MAX: not measured */
    uint8_t missed;         /* messages in a row between the lengths with unregistered memory */
    uint8_t passed;         /* eager messages between the lengths since then */
    uint64_t kept_bytes, new_bytes; /* read from this length on, if registered; in any case */
};

/* Part of a session. */
struct emx_get {
    uint64_t min_bytes;              /* a device may read messages from this length on; 0: none */
    struct emx_rdma_threshold eager; /* which of them are eager instead */
};

/* The session uses this route now; NULL: a route whose device does not read. */
void emx_rdma_threshold_routed(struct emx_session *s, const struct emx_route *r);
void emx_rdma_threshold_passed(struct emx_session *s, uint64_t len_bytes); /* a message was sent eagerly */
/* Whether to read a message that could be eager. */
bool emx_rdma_threshold_pays(struct emx_session *s, const struct ethmx_data *data);
/* Whether a device may read it, regardless of cost. */
bool emx_rdma_threshold_wanted(const struct emx_session *s, const struct ethmx_data *data);
/* Progress has looked up the memory of a message. */
void emx_rdma_threshold_learn(struct emx_session *s, uint64_t len_bytes, bool kept);

#endif
