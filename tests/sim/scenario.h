/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenario: a history to play, once or with many seeds. A function of the seed alone.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdbool.h>
#include <stdint.h>

#include "program.h"
#include "traffic.h"
#include "world.h"

/* One play. */
struct sim_case {
    uint64_t seed;
    bool trace;
    size_t skew_bytes;
    struct sim_world world;
    struct sim_program program;
    char failure[1024]; /* outcome; "": passed */
    uint64_t failed_at_ns, hash;
};

struct sim_scenario {
    const char *name, *help;
    void (*fn)(struct sim_case *c);
    uint64_t cases;   /* seeds 0 to cases - 1 are all there is; 0: any number of seeds */
    unsigned percent; /* of EMX_SEEDS, when cases is 0 */
};

/* The tables, each ending with a row without name. */
extern const struct sim_scenario sim_basics[], sim_masks[], sim_chaos[], sim_limits[], sim_deaths[], sim_routes[],
    sim_hostile[], sim_memfail[], sim_gso[], sim_reads[], sim_reliable[], sim_coalescing[], sim_repeat[], sim_attacks[],
    sim_exports[], sim_marks[], sim_multis[], sim_away[], sim_recalls[], sim_removals[], sim_rma[], sim_failovers[],
    sim_rails[];

/* A world with nodes that are not started, and a program. */
void sim_case_begin(struct sim_case *c, unsigned nodes, unsigned wires);
/* Takes the world down; memory that an engine leaves behind is a failure. */
void sim_case_end(struct sim_case *c);

/* A time limit for so many bytes at this rate: a stall is a failure. slack_ns is for what repairs losses. */
uint64_t sim_limit(const struct sim_world *w, size_t bytes, uint64_t rate_bps, uint64_t slack_ns);

/* Lets two parties connect, by a message of no bytes; in a world without losses. */
bool sim_connect(struct sim_case *c, struct sim_node *a, struct sim_node *b);

/* Starts count messages from a to b, all at once; their tags count from 0. */
void sim_messages(struct sim_case *c, struct sim_node *a, struct sim_node *b, unsigned count, size_t len_bytes);

/* The same, one message for each shape of the receiver's buffer. */
void sim_messages_shaped(struct sim_case *c, struct sim_node *a, struct sim_node *b, size_t len_bytes);

/* ---- What every way of reading a peer's memory must stand; node 0 sends, node 1 reads ---- */

/* The sender dies while it is read: the receives, into buffers of each shape, end with an error in bounded time. */
void sim_sender_dies(struct sim_case *c, size_t len_bytes);

/* The receiver is stopped while it reads, or before; the sender gives it up and uses the memory for something else.
 * What is found there must not pass for the message. */
void sim_receiver_was_away(struct sim_case *c, size_t len_bytes);

/* Bytes that were read from the memory of others, at all nodes. */
uint64_t sim_bytes_read(const struct sim_world *w);

#endif
