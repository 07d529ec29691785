/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Traffic: random programs. Each node goes through a list of actions, drawn from a seed: sends of all sizes and kinds,
 * receives that fit what will come (exactly, or with wildcards, before or after it), probes, matched probes, cancels,
 * active messages. When the lists are through, receives that still wait are cancelled, and what is still missing is
 * received with wildcards; so every history ends.
 */
#ifndef SIM_TRAFFIC_H
#define SIM_TRAFFIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program.h"

struct sim_mix {
    unsigned messages;       /* over all nodes */
    unsigned am_percent;     /* active ones among them */
    unsigned sync_percent;   /* synchronous ones */
    unsigned large_percent;  /* with lengths about and beyond eager_max */
    size_t large_bytes;      /* up to here */
    size_t total_bytes;      /* the budget: past it messages are small */
    unsigned wild_percent;   /* receives with wildcards */
    unsigned probe_percent;  /* received by probe or matched probe */
    unsigned cancel_percent; /* so many further receives that are cancelled soon */
    unsigned short_percent;  /* receives with too little room */
    unsigned chain_percent;  /* actions taken at once when an operation has completed */
    uint64_t gap_ns;         /* between two actions of a node, at most */
    unsigned tags;           /* different ones */
    bool to_self;            /* nodes send to themselves, too */
};

struct sim_traffic;

/* All a random history can have. */
void sim_mix_draw(struct sim_mix *mix, struct emx_rng *rng);

/* Draws the actions of the nodes that run now, and starts them. */
struct sim_traffic *sim_traffic_start(struct sim_program *p, const struct sim_mix *mix, uint64_t seed);
void sim_traffic_free(struct sim_traffic *t);

/* Lets time pass until all is done and drained, and checks the model. */
bool sim_traffic_run(struct sim_traffic *t, uint64_t limit_ns);

/* The node of this party is gone: the others go on without it. To be called after sim_program_bury(). */
void sim_traffic_bury(struct sim_traffic *t, unsigned party);

/* Bytes of all messages, for limits of time. */
size_t sim_traffic_bytes(const struct sim_traffic *t);

#endif
