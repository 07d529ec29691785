/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: how the packet and xdp wires send and receive superframes. See bulk.c for the mechanism.
 */
#ifndef EMX_WIRE_BULK_H
#define EMX_WIRE_BULK_H

#include <netinet/in.h>

#include "wire/superframe.h"
#include "wire/wire.h"

#define EMX_BULK_COOKIE 0x80000000u /* bit in the cookies of frames that bulk lends */

struct emx_bulk;

/* What superframes to a destination need. */
struct emx_bulk_way {
    struct in_addr from, to;
    uint16_t port;        /* the receiver's bulk_port, host order */
    uint16_t frame_bytes; /* longest frame that fits with IPv4 and UDP headers, 0: no superframes */
};

/* The form that a destination has in both wires. */
struct emx_bulk_to {
    uint32_t ifindex;
    uint8_t mac[6];
    uint16_t bulk_bytes; /* longest frame in a superframe, 0: none */
    uint32_t from_ip, to_ip;
    uint16_t to_port;
};

/* Makes one; way NULL: no superframes. */
void emx_bulk_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6], const struct emx_bulk_way *way);
struct emx_bulk_to emx_bulk_to(const struct emx_wire_addr *a);

/* NULL: superframes cannot be had, or are switched off; why says so, and otherwise what was found. */
struct emx_bulk *emx_bulk_open(const struct emx_wire_params *params, char *why, size_t why_len_bytes);
void emx_bulk_close(struct emx_bulk *b);

/* The UDP port that superframes to us carry, host order. */
uint16_t emx_bulk_port(const struct emx_bulk *b);

/* How many of the n frames at f go in one superframe. 0: the first does not. */
unsigned emx_bulk_joinable(const struct emx_txframe *f, unsigned n);

/* Sends n joinable frames; from_mac: of the interface that they leave through. 0 or an errno. */
int emx_bulk_send(struct emx_bulk *b, const uint8_t from_mac[6], const struct emx_txframe *f, unsigned n);

/* Whether emx_bulk_rx() would look at a packet. */
bool emx_bulk_waits(const struct emx_bulk *b);

/* As rx() and rx_return() of a wire. */
unsigned emx_bulk_rx(struct emx_bulk *b, struct emx_rxframe *f, unsigned max);
void emx_bulk_return(struct emx_bulk *b, uint32_t cookie);

/* Becomes readable when emx_bulk_rx() has frames. */
int emx_bulk_fd(const struct emx_bulk *b);

#endif
