/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Node: an engine of a history, and the library's own progress (progress/progress.h) that calls it, over a wire which
 * lends the frames that the history lets come, and hands over what is sent. The wire is also where the invariants are
 * looked at: after what came in, or what the program did, and before the engine is asked for frames, which could mend
 * it. What that has left is looked at when the engine has been called the next time.
 */
#ifndef FUZZ_NODE_H
#define FUZZ_NODE_H

#include <stdbool.h>

#include "progress/progress.h"

#define FUZZ_FRAME_BYTES  576 /* short, so that messages have many */
#define FUZZ_REGION_BYTES 4096
#define FUZZ_REGION_KEY   UINT64_C(0x8072716f6e6d6c6b) /* no byte of it is 0 or common */

struct emx_rma_region;
struct history;

struct fuzz_node {
    struct emx_wire wire; /* of the link */
    struct history *history;
    unsigned index;
    struct emx_config *cfg;
    bool reliable, reads; /* its link is, and does */
    bool rails;           /* it has two cards, both of the link */
    struct emx_engine *engine;
    struct emx_progress progress;
    struct emx_stats stats;
    uint32_t id;
    uint8_t *exposed;              /* memory of FUZZ_REGION_BYTES for one-sided operations, */
    struct emx_rma_region *region; /* NULL: withdrawn */
    bool unchecked;                /* the engine was called since its invariants were looked at */
    const uint8_t *data;           /* a frame that has come and is not taken yet; NULL: none */
    uint32_t len_bytes;
    uint8_t *placing; /* memory that reserve() gave, */
    uint32_t placing_bytes;
    unsigned placing_to;
};

/* Makes the engine of `self` and its progress, whose clock tells *now_ns. history, index, cfg, reliable, reads and
 * rails are set. */
#define FUZZ_PART 31 /* of addresses: the node, one byte */

void fuzz_node_start(struct fuzz_node *n, const struct emx_address *self, const uint64_t *now_ns);
void fuzz_node_stop(struct fuzz_node *n);

/* Now, for calls of the engine that are not progress'. */
emx_time fuzz_node_now(struct fuzz_node *n);

/* Looks at the invariants; once: if the engine was called since. */
void fuzz_node_check(struct fuzz_node *n);
void fuzz_node_check_once(struct fuzz_node *n);

/* What the history does for it: takes a frame that was sent, in a block of its own; and tells whether memory of another
 * node can be read. */
void history_carry(struct history *h, unsigned from, unsigned to, uint8_t *data, uint32_t len_bytes);
bool history_readable(const struct history *h, uint64_t remote, size_t len_bytes);

#endif
