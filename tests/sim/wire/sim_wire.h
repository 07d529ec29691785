/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulated wire: struct emx_wire_ops over the links (link.h) and the devices (device.h) of a world. It also checks
 * what passes: frames must be of the form and length that the routes allow, and each frame that comes must be found in
 * the counter of what became of it.
 *
 * A world may have several networks. A node opens one wire on each, and each has a part of its own in addresses
 * (sim_way.c).
 */
#ifndef SIM_WIRE_H
#define SIM_WIRE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"
#include "../link.h"
#include "sim_packet.h"
#include "wire/wire.h"

struct sim_node;

#define SIM_LOST_MAX 8

/* What open() needs beside the wire's parameters, which must be the part of this. How the wire is to be polled is
 * chosen by chance: by a look at memory, with or without peek(), or by a system call. */
struct sim_wire_params {
    struct emx_wire_params wire;
    struct sim_node *node;
    unsigned number, link; /* of the network in the world; of the link in the engine */
    uint64_t chance;
};

struct sim_wire {
    struct emx_wire wire;    /* its ops are those here */
    struct emx_wire_ops ops; /* emx_wire_sim's with the network's part, and with peek() or without */
    struct sim_node *node;
    unsigned number, link;
    bool syscall_poll;
    struct sim_frame *ring, **tail; /* have come and are not taken yet */
    unsigned lent;                  /* of these, the first ones, */
    unsigned given;                 /* as so many frames */
    struct sim_packet packet;
    bool as_packet;                  /* they were lent as one packet */
    struct emx_stats before;         /* the counters when they were lent, or the first was shown */
    bool shown;                      /* the first, by peek(); nothing is known of it yet */
    bool tso, tso_first;             /* what is being sent are parts of a TSO packet; the first of them */
    unsigned room;                   /* that tx_room() told last */
    struct emx_wire_addr placing_to; /* the frame that reserve() gave memory for */
    uint8_t *placing;
    uint32_t placing_bytes;
    bool reads;                              /* a read is under way and takes its time, */
    uint64_t read_until_ns;                  /* until then */
    struct emx_wire_addr lost[SIM_LOST_MAX]; /* whom it does not reach any more and has not told */
    unsigned lost_count;
};

extern const struct emx_wire_ops emx_wire_sim;

#define SIM_PART 24 /* of addresses: the first network's; those of the others follow */

/* sim_way.c, as in struct emx_wire_ops */
unsigned sim_way_describe(const struct emx_wire *w, const struct emx_way_site *site,
                          uint8_t value[EMX_WIRE_VALUE_BYTES], unsigned *least_p);
void sim_way_find(struct emx_wire *w, struct emx_way_search *s);

/* A frame has come, which is the wire's from now on. */
void sim_wire_arrive(struct sim_wire *x, struct sim_frame *f);

/* The wire will tell that it does not reach this destination any more. */
void sim_wire_lose(struct sim_wire *x, const struct emx_wire_addr *to);

#endif
