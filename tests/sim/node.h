/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Node: an engine, the library's own progress (progress/progress.h) over simulated wires, and the program above it.
 */
#ifndef SIM_NODE_H
#define SIM_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/stats.h"
#include "link.h"
#include "memory.h"
#include "progress/progress.h"
#include "core/engine.h"
#include "core/format/address.h"
#include "wire/sim_wire.h"

#define SIM_PARTIES_MAX 128
#define SIM_RESOLVING   64

struct sim_world;
struct sim_node;

enum sim_pace {
    SIM_POLLS,    /* the program calls MPI all the time */
    SIM_COMPUTES, /* it does not; a helper moves frames at each heartbeat, nobody takes completions */
    SIM_STOPPED,  /* nobody looks at the frames: they pile up in the ring */
    SIM_GONE,     /* crashed or closed */
};

/* What the program above an engine wants to hear of. */
struct sim_program_ops {
    void (*event)(void *arg, struct sim_node *n, const struct emx_event *ev);
    void (*am)(void *arg, struct sim_node *n, struct emx_unexpected *msg, const struct ethmx_am *am, unsigned id);
    void (*resumed)(void *arg, struct sim_node *n); /* it calls MPI again */
};

/* A read or a write by a device. */
struct sim_reading {
    struct sim_reading *next;
    struct sim_reading *next_flying; /* of the node, not told of */
    struct sim_node *node, *from;
    unsigned party, from_party; /* theirs */
    uint32_t epoch;             /* of the connection */
    struct emx_wire_read read;
    void *data;   /* of a write that comes late; NULL otherwise */
    bool noticed; /* that the connection has broken */
    int status;
};

struct sim_node {
    struct sim_world *world;
    unsigned index;
    enum sim_pace pace;
    uint64_t pace_until_ns; /* then it polls again */
    unsigned party;         /* of the running engine */
    struct emx_engine *engine;
    struct emx_progress progress;            /* of the engine, while there is one */
    struct emx_placer placer;                /* of the engine */
    struct sim_wire *wire[EMX_ENGINE_LINKS]; /* by network; while there is an engine */
    struct emx_config cfg;
    struct emx_stats stats;
    struct sim_memory memory;
    uint64_t fail_first, fail_end; /* for the memory of engines that start from now on */
    struct emx_address self;       /* of the engine that started last; id 0: none has */
    struct sim_port out[EMX_ENGINE_LINKS], in[EMX_ENGINE_LINKS];
    uint8_t wires[EMX_ENGINE_LINKS]; /* the networks, in the order in which the node prefers them: of its links */
    bool cut_off;                    /* no way to anybody */
    uint8_t home;                    /* the address of the interface of wire 0 */
    uint64_t poll_ns;                /* how long a frame waits in the ring at most */

    size_t ring_bytes; /* of frames that have come and are not taken yet, over all wires */
    uint64_t ring_lost;
    uint64_t busy_until_ns; /* its processor copies, and does nothing else */
    struct sim_reading *ended, **ended_tail;
    struct sim_reading *flying;
    uint64_t device_until_ns; /* the device's last read takes so long */
    uint64_t wake_ns;         /* the event that is set; EMX_NEVER: none */
    bool pumping;
    struct emx_peer *peers[SIM_PARTIES_MAX];   /* by party; NULL: not asked for yet */
    struct emx_peer *resolving[SIM_RESOLVING]; /* peers whose routes are asked for and not yet told */
    unsigned checks;
    uint64_t failed_peers, closed_peers; /* EMX_EVENT_FAILED, _CLOSED so far */
    char failed_text[256];

    const struct sim_program_ops *program;
    void *program_arg;
};

void sim_node_init(struct sim_node *n, struct sim_world *w, unsigned index);
void sim_node_fini(struct sim_node *n);

/* Starts an engine with the world's configuration and a new id. */
void sim_node_start(struct sim_node *n);
/* Ends it at once, without a word. */
void sim_node_crash(struct sim_node *n);

/* Until then the node is of this pace. */
void sim_node_pace(struct sim_node *n, enum sim_pace pace, uint64_t until_ns);

/* The peer that stands for this party in the node's engine, or NULL: out of memory. */
struct emx_peer *sim_node_peer(struct sim_node *n, unsigned party);
/* The party that a struct emx_peer stands for (in results: struct ethmx_peer, which is the same). */
unsigned sim_node_party(struct sim_node *n, const void *peer);

/* Now, for calls of the engine that are not progress'. */
uint64_t sim_node_now(struct sim_node *n);

/* Starts a send as the endpoint does: the short way if possible, but not always, so that the long one is tried, too. */
int sim_node_send(struct sim_node *n, struct emx_peer *peer, const struct emx_op_args *a);

/* The node's processor is at work for so long, behind what it is at already. */
void sim_node_works(struct sim_node *n, uint64_t ns);

/* A frame has come up to the node. */
void sim_node_arrive(struct sim_node *n, struct sim_frame *f);

/* The wire does not reach the other node any more, and tells so when it is asked. */
void sim_node_lose(struct sim_node *n, const struct sim_node *other, unsigned wire);

/* Calls for progress until there is nothing more to do in this moment; to be called after operations, too. Nothing
 * happens inside a callback: the pump that runs the callback goes on afterwards. */
void sim_node_pump(struct sim_node *n);

/* Checks what must always hold. */
void sim_node_check(struct sim_node *n, bool thorough);

#endif
