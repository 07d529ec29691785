/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fabric: many endpoints around one switch, in virtual time. For jobs too large for a world (world.h): no faults but
 * those that load makes, no model of MPI, no memory per pair of endpoints.
 *
 *     engine -> [network card of the node] -> half the delay -> [port of the switch to the other node] -> other half
 *
 * A card whose queue is full takes no frames; a port of the switch whose queue is full loses them. Endpoints of one
 * node share its card and its port; between themselves frames take no time. Endpoints answer at once: the time it takes
 * is the network's. What moves the frames of an endpoint is the library's own progress (progress/progress.h), as a
 * program would call it that polls all the time.
 */
#ifndef SIM_FABRIC_H
#define SIM_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/list.h"
#include "port.h"
#include "progress/progress.h"
#include "core/engine.h"
#include "queue.h"

struct fabric;
struct fabric_frame;

struct fabric_wire {
    struct emx_wire wire;
    struct fabric_endpoint *ep;
};

struct fabric_endpoint {
    struct fabric *fabric;
    unsigned index;
    struct emx_engine *engine;
    struct emx_progress progress; /* of the engine, over one link */
    struct emx_stats stats;
    struct fabric_wire wire;
    struct fabric_frame *ring, **ring_tail;
    uint64_t wake_ns; /* the event that is set; EMX_NEVER: none */
    uint64_t turn_ns; /* before that other programs have its processor */
    uint64_t last_ns; /* when the last frame arrives */
    bool pumping;
    struct emx_list waiting; /* in fabric_node.waiting */
};

struct fabric_node {
    struct sim_port card, port;
    uint64_t last_ns;        /* when the last frame enters the switch */
    struct emx_list waiting; /* endpoints that found the card full: they take turns */
};

struct fabric {
    uint64_t now_ns;
    struct sim_queue queue;
    struct emx_config cfg;
    unsigned endpoints, per_node;
    uint64_t delay_ns; /* one way, beside the time to send */
    uint16_t frame_bytes;
    struct fabric_endpoint *endpoint;
    struct fabric_node *node;
    uint64_t frames;    /* that entered the switch or were lost there */
    unsigned lost_ppm;  /* by chance, besides; 0 unless set */
    uint64_t jitter_ns; /* half the way takes so much longer, at most; 0 unless set */
    uint64_t away_ns;   /* an endpoint that has been at work is away for so long, at most; 0 unless set */
    struct emx_rng rng;
    char failure[512];
};

struct fabric_shape {
    unsigned endpoints, per_node;
    uint64_t rate_bps, delay_ns;
    uint64_t card_bps;             /* 0: as the ports of the switch */
    size_t card_bytes, port_bytes; /* queues */
    size_t mark_bytes;             /* from this length on the switch's queues mark frames; 0: they do not */
    uint16_t frame_bytes;
};

void fabric_init(struct fabric *f, const struct fabric_shape *shape, uint64_t seed);
void fabric_fini(struct fabric *f);

/* The peer that stands for endpoint `other` in the engine of endpoint `index`. */
struct emx_peer *fabric_peer(struct fabric *f, unsigned index, unsigned other);

/* Moves what there is to move; after operations, too. Callbacks of operations run inside. */
void fabric_pump(struct fabric_endpoint *ep);

/* Lets time pass until *left is 0. false and f->failure: nothing pending, or limit_ns reached. */
bool fabric_run(struct fabric *f, const uint64_t *left, uint64_t limit_ns);

/* Lets so much time pass, and what is due in it happen. */
void fabric_rest(struct fabric *f, uint64_t ns);

enum fabric_fate { FABRIC_PASSED, FABRIC_MARKED, FABRIC_LOST };

/* A frame of somebody else's from the node of one endpoint to that of another. passed() is called when it enters the
 * queue of the switch's port, with the time at which it arrives (or would have, if it is lost). */
void fabric_foreign(struct fabric *f, unsigned from, unsigned to, uint32_t len_bytes,
                    void (*passed)(void *arg, enum fabric_fate fate, uint64_t arrives_ns), void *arg);

/* Bytes that the frames with a message's data alone take on a link. */
uint64_t fabric_message_bytes(size_t len_bytes, size_t frame_bytes);

/* Frames lost because a port of the switch was full, and frames that one has marked. */
uint64_t fabric_lost(const struct fabric *f);
uint64_t fabric_marked(const struct fabric *f);

#endif
