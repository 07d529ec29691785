/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The scenarios of the end-to-end test. Each is one function that both roles run.
 */
#ifndef EMX_TESTS_API_SCENARIO_H
#define EMX_TESTS_API_SCENARIO_H

#include "api/role.h"

#define ONLY_THREADS  1 /* needs endpoints for several threads */
#define CLOSES_ROLE_0 2 /* role 0's endpoint is gone afterwards: the last one */

/* X(name, flags) */
/* clang-format off */
#define SCENARIOS(X) \
    X(ping_pong, 0) \
    X(posted_lengths, 0) \
    X(unexpected_lengths, 0) \
    X(both_send_large, 0) \
    X(synchronous, 0) \
    X(order_and_wildcards, 0) \
    X(order_of_posted, 0) \
    X(probe, 0) \
    X(matched_probe, 0) \
    X(cancel, 0) \
    X(cancel_too_late, 0) \
    X(truncation, 0) \
    X(pieces, 0) \
    X(functions, 0) \
    X(many_unexpected, 0) \
    X(to_ourselves, 0) \
    X(flush_unexpected, 0) \
    X(what_is_known, 0) \
    X(callbacks_start_operations, 0) \
    X(am_lengths, 0) \
    X(am_kept, 0) \
    X(am_before_handler, 0) \
    X(am_handlers_answer, 0) \
    X(am_limits, 0) \
    X(remote_lengths, 0) \
    X(remote_mixed, 0) \
    X(untagged_lengths, 0) \
    X(untagged_beside_tags, 0) \
    X(untagged_multi, 0) \
    X(multi_buffers, 0) \
    X(multi_cancel, 0) \
    X(multi_beside_receives, 0) \
    X(rma_lengths, 0) \
    X(rma_atomics, 0) \
    X(rma_batches, 0) \
    X(rma_refused, 0) \
    X(rma_access, 0) \
    X(rma_absent, 0) \
    X(rma_allocated, 0) \
    X(rma_chosen_key, 0) \
    X(many_threads, ONLY_THREADS) \
    X(waits_by_descriptor, 0) \
    X(absent_program, 0) \
    X(forked_child, 0) \
    X(closing_delivers, CLOSES_ROLE_0)
/* clang-format on */

#define SCENARIO_PROTOTYPE(name, flags) bool name(const struct side *s);
SCENARIOS(SCENARIO_PROTOTYPE)

#endif
