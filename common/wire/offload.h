/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Offload: GSO packets of the packet and xdp wires. offload.c describes the mechanism. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_OFFLOAD_H
#define EMX_WIRE_OFFLOAD_H

#include <string.h>

#include "base/ip.h"
#include "wire/fanout_group.h"
#include "wire/gso.h"
#include "wire/netif.h"
#include "wire/wire.h"

#define EMX_OFFLOAD_COOKIE  0x80000000u /* set in the cookies of frames from emx_offload_rx() */
#define EMX_OFFLOAD_NO_SLOT UINT32_MAX  /* such a cookie */

struct emx_offload;

/* What GSO packets to a destination need. */
struct emx_offload_way {
    struct emx_ip from, to; /* of one family */
    uint16_t port;          /* the receiver's gso_port, host order */
    uint16_t frame_bytes;   /* longest frame that fits with the headers, 0: no GSO packets */
    bool tso;               /* they may be TSO packets, */
    bool segments;          /* which the interface segments, not the kernel */
};

/* A destination in the format of both wires. */
struct emx_offload_to {
    uint32_t ifindex : 30, tso : 1, segments : 1; /* see above */
    uint8_t mac[6];
    uint16_t gso_bytes; /* longest frame in a GSO packet, 0: none */
    struct emx_ip from_ip, to_ip;
    uint16_t to_port;
    uint16_t udp_port; /* for single frames in UDP, host order; 0: they are frames of the EtherType */
};

/* Makes a destination. way NULL: no IP packets. udp_port: see above. */
void emx_offload_addr(struct emx_wire_addr *a, unsigned ifindex, const uint8_t mac[6],
                      const struct emx_offload_way *way, uint16_t udp_port);

static inline struct emx_offload_to emx_offload_to(const struct emx_wire_addr *a)
{
    struct emx_offload_to to;

    memcpy(&to, a, sizeof(to));
    return to;
}

/* The family of the IP packets of both wires on this host: IPv4, unless the chosen interfaces have addresses of IPv6
 * only. The peer's is known by the same rule from the addresses that it tells. */
bool emx_offload_is_v6(const struct emx_netifs *netifs);

/* NULL: GSO packets do not work, or are disabled; why has the reason. Otherwise why describes what was found. */
struct emx_offload *emx_offload_open(const struct emx_wire_params *params, char *why, size_t why_len_bytes);
void emx_offload_close(struct emx_offload *b);

/* The UDP port of GSO packets to this endpoint, host order. */
uint16_t emx_offload_port(const struct emx_offload *b);

/* Whether it receives TSO packets to that port, too. */
bool emx_offload_takes_tso(const struct emx_offload *b);

/* How many of the n frames at f go in one GSO packet. 0: the first frame cannot go in one. */
unsigned emx_offload_joinable(const struct emx_txframe *f, unsigned n);

/* Sends n joinable frames; from_mac: of the interface that they leave through. 0 or an errno. */
int emx_offload_send(struct emx_offload *b, const uint8_t from_mac[6], const struct emx_txframe *f, unsigned n);

/* Whether emx_offload_rx() would find a packet. */
bool emx_offload_waits(const struct emx_offload *b);

/* When that came, by the clock of rings (ring.h). 0: some of it has been taken. UINT64_MAX: there is none, or none that
 * is announced. Then emx_offload_rx() has to be called all the same, now and then. */
uint64_t emx_offload_since_ns(const struct emx_offload *b);

/* As rx() and rx_return() of a wire. The frames are to be handled before any others. Of several packets those that came
 * until then, UINT64_MAX: all. */
unsigned emx_offload_rx(struct emx_offload *b, struct emx_rxframe *f, unsigned max, uint64_t until_ns);
void emx_offload_return(struct emx_offload *b, uint32_t cookie);

/* Two descriptors, i 0 and 1, of which one becomes readable when emx_offload_rx() has frames. The second may come
 * later; -1: not yet. */
int emx_offload_fd(const struct emx_offload *b, unsigned i);

/* The packet socket that can join the fanout group of this kind, EMX_FANOUT_GSO or EMX_FANOUT_TSO. -1: none. */
int emx_offload_fanout_fd(const struct emx_offload *b, enum emx_fanout_kind kind);

#endif
