/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wire: what a simulated node's progress sees of the network: struct emx_wire_ops over the links (link.h) and the
 * devices (device.h). It also looks at what passes: frames must be of the form and length that the routes allow, and
 * each frame that comes must be found in the counter of what became of it.
 */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"
#include "link.h"
#include "wire/wire.h"

struct sim_node;

#define SIM_LOST_MAX 8

struct sim_wire {
    struct emx_wire wire;
    struct sim_node *node;
    unsigned number;                 /* in the world, and of the link */
    struct sim_frame *ring, **tail;  /* have come and are not taken yet */
    unsigned lent;                   /* of these, the first ones */
    struct emx_stats before;         /* the counters when they were lent, or the first was shown */
    bool shown;                      /* the first, by peek(); nothing is known of it yet */
    unsigned room;                   /* that tx_room() told last */
    struct emx_wire_addr placing_to; /* the frame that reserve() gave memory for */
    uint8_t *placing;
    uint32_t placing_bytes;
    bool reads;                              /* a read is under way and takes its time, */
    uint64_t read_until_ns;                  /* until then */
    struct emx_wire_addr lost[SIM_LOST_MAX]; /* whom it does not reach any more and has not told */
    unsigned lost_count;
};

/* A wire of this number for a node whose engine starts. How it is to be polled is chosen by chance: by a look at
 * memory, with or without peek(), or by a system call. */
void sim_wire_init(struct sim_wire *x, struct sim_node *n, unsigned number, uint64_t chance);
/* Frees what has not been taken. */
void sim_wire_empty(struct sim_wire *x);

/* A frame has come, which is the wire's from now on. */
void sim_wire_arrive(struct sim_wire *x, struct sim_frame *f);

/* The wire will tell that it does not reach this destination any more. */
void sim_wire_lose(struct sim_wire *x, const struct emx_wire_addr *to);

#endif
