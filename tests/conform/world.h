/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The hosts that the conformance suite runs between, and the ends of wires on them. One process holds all ends. A host
 * is a network namespace: a socket stays in the one it was opened in. Or it is an interface with an RDMA device.
 */
#ifndef EMX_TESTS_CONFORM_WORLD_H
#define EMX_TESTS_CONFORM_WORLD_H

#include "wire/netif.h"
#include "wire/netif_watch.h"
#include "wire/packet/packet.h"
#include "wire/shm/shm.h"
#include "wire/udp/udp.h"
#include "wire/verbs/verbs.h"
#include "wire/wire.h"
#include "wire/xdp/xdp.h"

#define WAIT_MS 60000 /* longer than anything takes that works, emulated and on a busy machine */

struct host {
    int ns_fd;
    const char *interfaces;       /* as in ETHMX_IF */
    const char *ip, *ip6, *link6; /* of eth0; link6: link-local */
    struct emx_netifs netifs;
    struct emx_netifs netifs6; /* with the IPv6 addresses alone; netifs have none */
    unsigned eth0_index;
    uint8_t mac[6];
};

extern struct host world_a, world_b, world_c;

/* Opens the namespaces and reads their interfaces. */
void world_init(char *const paths[3]);
/* Instead: the hosts a and b are two interfaces of this namespace that reach each other. */
void world_init_interfaces(char *const names[2]);

/* The calling thread goes to this host. */
void host_enter(const struct host *h);

/* eth0 up or down, and its MTU. */
void host_set_up(const struct host *h, bool up);
void host_set_ip(const struct host *h, const char *ip); /* in place of its address, in 24 bits */
void host_set_mtu(const struct host *h, unsigned mtu_bytes);
unsigned host_mtu(const struct host *h);

/* Reads the interfaces with ETHMX_IF as named, towards reach (may be NULL). */
int host_read_netifs(const struct host *h, struct emx_netifs *n, const char *named, const char *reach, char *err,
                     size_t err_len_bytes);

/* An interface of the host by name. */
const struct emx_netif *netifs_find(const struct emx_netifs *n, const char *name);

/* Packet sockets open on the host. */
unsigned host_packet_sockets(const struct host *h);

/* One end of a wire. */
struct end {
    const struct host *host;
    const struct emx_wire_ops *ops;
    struct emx_wire *w;
    struct ethmx_config cfg;
    struct emx_stats stats;
    struct emx_wire_attr attr;
    uint16_t port;     /* udp, verbs: of its part of an address */
    uint16_t gso_port; /* packet, xdp: the same; 0: it takes no GSO packets */
    bool tso;          /* packet, xdp: it takes TSO packets to that port */
    uint32_t id;
    uint16_t udp_port; /* packet: the same for single frames in UDP */
    bool v6;           /* of the host's addresses it uses those of IPv6 */
    bool scoped;       /* the link-local one */
    bool udp;          /* what it sends goes in UDP; attr.frame_bytes is then the longest frame that does */
    bool gso;          /* what it sends may go in GSO packets; attr.frame_bytes is then the longest frame that does */
};

/* Prepares an end with the default configuration; cfg may be changed before end_open(). */
void end_init(struct end *e, const struct host *h, const struct emx_wire_ops *ops, uint32_t id);
int end_try_open(struct end *e, char *why, size_t why_len_bytes);
void end_open(struct end *e);
void end_close(struct end *e);

/* The way from one end to another; on one host it is loopback. */
struct emx_wire_addr end_way(const struct end *from, const struct end *to);

/* Before poll() on its descriptors: false: do not sleep, something is there. */
bool end_arm(struct end *e);
/* What the wire does now and then: as much as a pump does in 5 ms. */
void end_sweep(struct end *e);
/* tx(); the end is the sender from now on. */
void end_tx(struct end *e, const struct emx_txframe *tx, unsigned n);
/* rx(), waiting for something to come. If the sender's wire may hold frames back, both ends work meanwhile. 0: nothing
 * came. */
unsigned end_wait(struct end *e, struct emx_rxframe *f, unsigned max);
/* Nothing waits to be received. */
bool end_is_empty(struct end *e);

/* Test frames: number, destination id, length, then bytes that follow from the number. */
#define FRAME_LEAST 12

struct frame {
    struct emx_wire_addr to;
    uint8_t bytes[65536];
    struct emx_txframe tx;
};

void frame_make(struct frame *f, const struct end *from, const struct end *to, uint32_t number, unsigned len_bytes);
/* Sends frames number first .. first + n - 1, of the lengths given, in one batch. */
void frames_send(struct end *from, const struct end *to, uint32_t first, unsigned n, const unsigned *len_bytes);
/* Whether a received frame is whole and intact. Its data is aligned. */
bool frame_is_whole(const struct emx_rxframe *rx);
/* Checks that it is; returns its number. */
uint32_t frame_check(const struct emx_rxframe *rx, unsigned *len_bytes_p);
/* Receives n frames, numbers first .. first + n - 1 in order, all intact, and gives them back. */
void frames_expect(struct end *to, uint32_t first, unsigned n);

#endif
