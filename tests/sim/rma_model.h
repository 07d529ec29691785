/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The reference model of one-sided operations. Each node exposes a region, and its parts tell what must be there:
 *
 *     counters    every node adds 1: no two may see the same value, none a smaller one than before, and in the end it
 *                 is how often was added
 *     cells       of one origin, for atomics: they are done in the order of the calls, so each result and the end are
 *                 known when the operation begins
 *     blocks      of one origin, for put and get: one operation at a time, which is over when it is complete at the
 *                 target; then the memory there is looked at
 */
#ifndef SIM_RMA_MODEL_H
#define SIM_RMA_MODEL_H

#include "core/rma/rma.h"
#include "scenario.h"

#define RMA_NODES    5
#define RMA_COUNTERS 4
#define RMA_CELLS    250 /* of 8 bytes: more than a frame has */
#define RMA_BLOCKS   4

struct rma_model;

struct rma_block {
    uint64_t ident; /* of its content; 0: never written */
    size_t len_bytes;
    bool busy, dirty; /* an operation is under way; a put is complete at the origin only */
    uint64_t number;  /* of the last put */
};

/* The last fetch of a counter. */
struct rma_seen {
    uint64_t number; /* of the operation; 0: there was none */
    uint64_t value;
};

/* What an origin does to a target. */
struct rma_pair {
    uint64_t cell[RMA_CELLS];
    struct rma_seen last_seen[RMA_COUNTERS];
    struct rma_block block[RMA_BLOCKS];
};

struct rma_site {
    uint8_t *mem, *base; /* base: may be at any address */
    size_t len_bytes;
    uint64_t key;
    struct emx_rma_region *region; /* NULL: withdrawn, or the node is gone */
    struct emx_view view;          /* of all that have mapped it */
    struct emx_sharing sharing;
    _Atomic uint32_t words; /* emx_view.words */
    struct emx_gate gate;
    uint64_t added[RMA_COUNTERS];
    uint8_t *seen[RMA_COUNTERS]; /* values */
};

struct rma_model {
    struct sim_case *c;
    struct sim_world *w;
    struct emx_rng rng;
    struct rma_site site[RMA_NODES];
    struct rma_pair pair[RMA_NODES][RMA_NODES]; /* origin, target */
    uint64_t number;                            /* of operations begun */
    uint64_t open;                              /* whose callback has not run */
    struct call *first;                         /* of those, the last begun */
    int (*read_messages)(void *arg, struct sim_node *n, struct sim_node *from, const struct emx_wire_read *r);
    void *read_arg;
    bool no_memory;           /* calls may be refused so */
    bool vague;               /* results are not checked: nobody knows what was done */
    bool fails[RMA_NODES];    /* operations with this node may fail, of whatever cause */
    uint64_t mapped;          /* operations begun where the region is mapped */
    uint64_t failed, refused; /* how many did; how many with ETHMX_ERR_ACCESS */
};

#define RMA_ADDS_MAX 8192

/* The nodes have started. */
void rma_model_init(struct rma_model *m, struct sim_case *c);
void rma_model_fini(struct rma_model *m);

/* Each begins an operation and returns what the call did; ETHMX_INPROGRESS: m->open counts it. */
int rma_put(struct rma_model *m, unsigned origin, unsigned target, unsigned block, size_t len_bytes,
            enum ethmx_rma_mode mode, enum sim_shape shape);
int rma_get(struct rma_model *m, unsigned origin, unsigned target, unsigned block, enum sim_shape shape);
int rma_count(struct rma_model *m, unsigned origin, unsigned target, unsigned counter, bool fetch);
/* An atomic operation on cells from `first` on. */
int rma_change(struct rma_model *m, unsigned origin, unsigned target, enum emx_rma_kind kind, unsigned op,
               unsigned first, unsigned count, enum sim_shape shape);
int rma_flush(struct rma_model *m, unsigned origin, int target /* -1: all */);
/* An operation that must be refused. */
int rma_wrong(struct rma_model *m, unsigned origin, unsigned target, enum emx_rma_kind kind);

/* One at random. */
void rma_any(struct rma_model *m, unsigned origin, unsigned target);

size_t rma_block_room(unsigned block);
/* Lets time pass until all callbacks have run. */
bool rma_wait(struct rma_model *m, uint64_t limit_ns);
/* Flushes, waits, and compares all memory with the model. */
void rma_finish(struct rma_model *m, uint64_t limit_ns);

#endif
