/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Port: where frames leave one after the other at a rate: of a network card, or of a switch. Its queue is a time, the
 * one at which all that waits will be through.
 */
#ifndef SIM_PORT_H
#define SIM_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_port {
    uint64_t rate_bps;  /* 0: no limit */
    size_t limit_bytes; /* queue; 0: no limit */
    size_t mark_bytes;  /* what makes the queue longer than this is marked; 0: nothing */
    uint64_t busy_until_ns;
    uint64_t lost, marked;
};

/* Whether bytes more can queue, and since when or until when not. */
bool sim_port_has_room(const struct sim_port *p, uint64_t now_ns, size_t bytes);
uint64_t sim_port_room_at(const struct sim_port *p, uint64_t now_ns, size_t bytes);
/* Whether bytes more, to be queued now, are marked; counts it. */
bool sim_port_marks(struct sim_port *p, uint64_t now_ns, size_t bytes);
/* Queues bytes; returns when they are through. */
uint64_t sim_port_pass(struct sim_port *p, uint64_t now_ns, size_t bytes);

/* Bytes a frame takes on Ethernet: padding, MAC header, checksum, preamble and gap. */
size_t sim_wire_bytes(size_t frame_bytes);

#endif
