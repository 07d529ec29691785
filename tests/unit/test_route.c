/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Routes: hosts described by a few lines each, and the routes that must come out, best first.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <string.h>

#include "endpoint/route.h"
#include "wire/packet/packet.h"
#include "wire/shm/shm.h"
#include "wire/udp/udp.h"
#include "wire/verbs/verbs.h"
#include "wire/xdp/xdp.h"

#define LO 1 /* ifindex */
/* Wires of a scenario, by bits. */
enum { PACKET = 1, UDP = 2, SHM = 4, XDP = 8, VERBS = 16, PIGEON = 32, BOTH = PACKET | UDP };

#define THEIR_PORT 3131 /* of GSO packets */
#define CALL_PORT  5151 /* of their verbs wire */

/* One interface of a host. name NULL ends the list; rank: its place among the chosen, -1: not chosen. */
struct nic {
    const char *name;
    const char *ip; /* "" for none */
    unsigned prefix_bits, mtu_bytes;
    int rank;
};

/* A line of a routing table. */
struct line {
    const char *ip;
    unsigned prefix_bits;
    unsigned index; /* nic's place in the list + 2; lo is 1 */
    bool gateway;
};

struct scenario {
    const char *what;
    struct nic ours[5], theirs[5];
    struct line table[5];
    const char *expect[5];             /* "packet eth0 10.0.0.2 1500": name, where to (mac's place or IP), frame length;
                                        * with GSO packets then " gso 1472 10.0.0.2": longest frame, where to */
    const char *why;                   /* must be in the reason */
    const char *ours6[5], *theirs6[5]; /* "2001:db8::1/64" of the interface in the same place; NULL: none */
    unsigned our_wires, their_wires;   /* 0: both */
    unsigned mtu;                      /* ETHMX_MTU */
    unsigned their_ring;               /* longest frame of their packet wire, 0: 9000 */
    bool same_host, no_lo, other_ethertype;
    bool our_gso, their_gso;             /* GSO packets */
    unsigned our_xdp, their_xdp;         /* bit i: the xdp wire is on interface i */
    const uint8_t *their_loft;           /* value of their pigeon's part, 2 bytes */
    const char *our_verbs, *their_verbs; /* of each interface, its RDMA device: r RoCE, i iWARP, b InfiniBand, - none */
};

/* clang-format off */
static const struct scenario scenarios[] = {
    {
        .what = "two hosts on one switch",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {"packet eth0 mac0 1500", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "jumbo frames on one side only",
        .ours = {{"eth0", "10.0.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {"packet eth0 mac0 1500", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "jumbo frames on both sides",
        .ours = {{"eth0", "10.0.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {"packet eth0 mac0 9000", "udp eth0 10.0.0.2 8972"},
    }, {
        .what = "ETHMX_MTU limits all",
        .ours = {{"eth0", "10.0.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .mtu = 4000,
        .expect = {"packet eth0 mac0 4000", "udp eth0 10.0.0.2 3972"},
    }, {
        .what = "the peer's ring takes less than its interface",
        .ours = {{"eth0", "10.0.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .their_ring = 2000,
        .expect = {"packet eth0 mac0 2000", "udp eth0 10.0.0.2 8972"},
    }, {
        .what = "the same container bridge on both hosts leads nowhere, even if it was chosen",
        .ours = {{"docker0", "172.17.0.1", 16, 1500, 1}, {"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"docker0", "172.17.0.1", 16, 1500, 0}, {"eth0", "10.0.0.2", 24, 1500, 1}},
        .table = {{"172.17.0.0", 16, 2, false}, {"10.0.0.0", 24, 3, false}},
        .expect = {"packet eth0 mac1 1500", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "an address in our container bridge's subnet leads nowhere",
        .ours = {{"docker0", "172.17.0.1", 16, 1500, -1}, {"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth1", "172.17.5.5", 16, 1500, 0}},
        .table = {{"172.17.0.0", 16, 2, false}, {"10.0.0.0", 24, 3, false}},
        .expect = {NULL},
        .why = "not among ours",
    }, {
        .what = "two networks: the pair that both prefer comes first",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 1}, {"eth1", "10.1.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 1}, {"eth1", "10.1.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.1.0.0", 24, 3, false}},
        .expect = {"packet eth1 mac1 9000", "packet eth0 mac0 1500", "udp eth1 10.1.0.2 8972", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "two networks, no preference in common: longer frames first",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.1.0.1", 24, 9000, 1}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 1}, {"eth1", "10.1.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.1.0.0", 24, 3, false}},
        .expect = {"packet eth1 mac1 9000", "packet eth0 mac0 1500", "udp eth1 10.1.0.2 8972", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "only one network in common",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"ib0", "10.9.0.1", 24, 1500, 1}},
        .theirs = {{"eth5", "10.5.0.2", 24, 1500, 0}, {"eth0", "10.0.0.2", 24, 1500, 1}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.9.0.0", 24, 3, false}},
        .expect = {"packet eth0 mac1 1500", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "behind a router: udp only",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.7.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}, {"0.0.0.0", 0, 2, true}},
        .expect = {"udp eth0 10.7.0.2 1472"},
        .why = "pass no router",
    }, {
        .what = "direct ways come before those through a router",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.1.0.1", 24, 1500, 1}},
        .theirs = {{"eth9", "10.7.0.2", 24, 1500, 0}, {"eth1", "10.1.0.2", 24, 1500, 1}},
        .table = {{"10.1.0.0", 24, 3, false}, {"0.0.0.0", 0, 2, true}},
        .expect = {"packet eth1 mac1 1500", "udp eth1 10.1.0.2 1472", "udp eth0 10.7.0.2 1472"},
    }, {
        .what = "an address with prefix 32 is in no subnet",
        .ours = {{"eth0", "10.0.0.1", 32, 1460, 0}},
        .theirs = {{"eth0", "10.0.0.2", 32, 1460, 0}},
        .table = {{"0.0.0.0", 0, 2, false}},
        .expect = {"udp eth0 10.0.0.2 1432"},
    }, {
        .what = "the peer's idea of the subnet differs",
        .ours = {{"eth0", "10.0.0.1", 16, 1500, 0}},
        .theirs = {{"eth0", "10.0.9.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 16, 2, false}},
        .expect = {"udp eth0 10.0.9.2 1472"},
    }, {
        .what = "the route leaves by an interface that is not chosen",
        .ours = {{"wlan0", "10.0.0.1", 24, 1500, -1}, {"eth0", "10.1.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.1.0.0", 24, 3, false}},
        .expect = {NULL},
        .why = "not among ours",
    }, {
        .what = "no route at all: the sentence names both ends",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.7.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {NULL},
        .why = "host here (eth0 10.0.0.1/24) to host there (10.7.0.2/24)",
    }, {
        .what = "a peer without any interface",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{NULL, NULL, 0, 0, 0}},
        .expect = {NULL},
        .why = "to host there (no interface)",
    }, {
        .what = "the peer has no packet wire",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .their_wires = UDP,
        .expect = {"udp eth0 10.0.0.2 1472"},
        .why = "packet: not open there",
    }, {
        .what = "xdp at both ends; its frames are limited by what they take",
        .ours = {{"eth0", "10.0.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 1, .their_xdp = 1,
        .expect = {"xdp eth0 mac0 3000"},
    }, {
        .what = "xdp with GSO packets",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 1, .their_xdp = 1,
        .our_gso = true, .their_gso = true,
        .expect = {"xdp eth0 mac0 1500 gso 1472 10.0.0.2"},
    }, {
        .what = "xdp without GSO packets at our end",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 1, .their_xdp = 1,
        .their_gso = true,
        .expect = {"xdp eth0 mac0 1500"},
    }, {
        .what = "xdp on the second interface at both ends",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.1.0.1", 24, 1500, 1}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}, {"eth1", "10.1.0.2", 24, 1500, 1}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.1.0.0", 24, 3, false}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 2, .their_xdp = 2,
        .expect = {"xdp eth1 mac1 1500"},
    }, {
        .what = "xdp on interfaces that do not meet",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.1.0.1", 24, 1500, 1}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}, {"eth1", "10.1.0.2", 24, 1500, 1}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.1.0.0", 24, 3, false}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 1, .their_xdp = 2,
        .expect = {NULL},
        .why = "xdp: the interfaces that lead to it are without it at one end",
    }, {
        .what = "xdp does not reach its own host",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 1, .their_xdp = 1,
        .same_host = true,
        .expect = {NULL},
        .why = "it reaches other hosts only",
    }, {
        .what = "xdp with different EtherTypes",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = XDP, .their_wires = XDP, .our_xdp = 1, .their_xdp = 1,
        .other_ethertype = true,
        .expect = {NULL},
        .why = "ETHMX_XDP_ETHERTYPE differs",
    }, {
        .what = "RDMA devices of one kind at both ends: the longest frame whatever the MTU",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = VERBS, .their_wires = VERBS, .our_verbs = "r", .their_verbs = "r",
        .expect = {"verbs eth0 10.0.0.2 8256"},
    }, {
        .what = "RDMA passes routers; the direct way comes first",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.1.0.1", 24, 1500, 1}},
        .theirs = {{"eth9", "10.7.0.2", 24, 1500, 0}, {"eth1", "10.1.0.2", 24, 1500, 1}},
        .table = {{"10.1.0.0", 24, 3, false}, {"0.0.0.0", 0, 2, true}},
        .our_wires = VERBS, .their_wires = VERBS, .our_verbs = "ii", .their_verbs = "ii",
        .expect = {"verbs eth1 10.1.0.2 8256", "verbs eth0 10.7.0.2 8256"},
    }, {
        .what = "RoCE and iWARP do not speak to each other",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = VERBS, .their_wires = VERBS, .our_verbs = "r", .their_verbs = "i",
        .expect = {NULL},
        .why = "different kinds (RoCE, iWARP, InfiniBand)",
    }, {
        .what = "the RDMA devices are on networks that do not meet",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.1.0.1", 24, 1500, 1}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}, {"eth1", "10.1.0.2", 24, 1500, 1}},
        .table = {{"10.0.0.0", 24, 2, false}, {"10.1.0.0", 24, 3, false}},
        .our_wires = VERBS, .their_wires = VERBS, .our_verbs = "r-", .their_verbs = "-r",
        .expect = {NULL},
        .why = "verbs: the interfaces that lead to it are without RDMA device at one end",
    }, {
        .what = "a kind of RDMA that we do not know",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = VERBS, .their_wires = VERBS, .our_verbs = "r", .their_verbs = "?",
        .expect = {NULL},
        .why = "different kinds",
    }, {
        .what = "RDMA on one host: through the device, and between two in one subnet",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.0.0.5", 24, 1500, 1}, {"eth2", "10.1.0.5", 24, 1500, 2}},
        .our_wires = VERBS, .their_wires = VERBS, .our_verbs = "r", .their_verbs = "rrr",
        .same_host = true,
        .expect = {"verbs eth0 10.0.0.1 8256", "verbs eth0 10.0.0.5 8256"},
    }, {
        .what = "we have no packet wire",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = UDP,
        .expect = {"udp eth0 10.0.0.2 1472"},
        .why = "",
    }, {
        .what = "no wire in common",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_wires = UDP,
        .their_wires = PACKET,
        .expect = {NULL},
        .why = "udp: not open there",
    }, {
        .what = "another EtherType",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .other_ethertype = true,
        .expect = {"udp eth0 10.0.0.2 1472"},
        .why = "ETHMX_ETHERTYPE",
    }, {
        .what = "the same host: loopback",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .same_host = true,
        .expect = {"packet lo lo 9000", "udp lo 127.0.0.1 9000"},
    }, {
        .what = "the same host, ETHMX_MTU",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .same_host = true,
        .mtu = 1500,
        .expect = {"packet lo lo 1500", "udp lo 127.0.0.1 1472"},
    }, {
        .what = "the same host without loopback",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .same_host = true,
        .no_lo = true,
        .expect = {NULL},
        .why = "ip link set lo up",
    }, {
        .what = "interfaces without IP, the only ones: nobody chooses them",
        .ours = {{"eth0", "", 0, 9000, 0}},
        .theirs = {{"eth0", "", 0, 9000, 0}},
        .expect = {NULL},
        .why = "it told no interface",
    }, {
        .what = "an interface without IP beside one with IP is not guessed",
        .ours = {{"eth0", "", 0, 9000, 0}, {"eth1", "10.0.0.1", 24, 1500, 1}},
        .theirs = {{"eth0", "", 0, 9000, 0}, {"eth1", "10.0.0.2", 24, 1500, 1}},
        .table = {{"10.0.0.0", 24, 3, false}},
        .expect = {"packet eth1 mac1 1500", "udp eth1 10.0.0.2 1472"},
    }, {
        .what = "GSO packets, where both ends take them",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_gso = true,
        .their_gso = true,
        .expect = {"packet eth0 mac0 1500 gso 1472 10.0.0.2", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "GSO packets: no frame is longer than the peer's ring takes",
        .ours = {{"eth0", "10.0.0.1", 24, 9000, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 9000, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .their_ring = 2000,
        .our_gso = true,
        .their_gso = true,
        .expect = {"packet eth0 mac0 2000 gso 2000 10.0.0.2", "udp eth0 10.0.0.2 8972"},
    }, {
        .what = "GSO packets over loopback",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .same_host = true,
        .our_gso = true,
        .their_gso = true,
        .expect = {"packet lo lo 9000 gso 9000 127.0.0.1", "udp lo 127.0.0.1 9000"},
    }, {
        .what = "GSO packets: the peer takes none",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .our_gso = true,
        .expect = {"packet eth0 mac0 1500", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "GSO packets: we take none",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .their_gso = true,
        .expect = {"packet eth0 mac0 1500", "udp eth0 10.0.0.2 1472"},
    }, {
        .what = "IPv6 only",
        .ours = {{"eth0", "", 0, 1500, 0}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"2001:db8::", 64, 2, false}},
        .expect = {"packet eth0 mac0 1500", "udp eth0 2001:db8::2 1452"},
    }, {
        .what = "IPv6 only, with GSO packets",
        .ours = {{"eth0", "", 0, 1500, 0}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"2001:db8::", 64, 2, false}},
        .our_gso = true,
        .their_gso = true,
        .expect = {"packet eth0 mac0 1500 gso 1452 2001:db8::2", "udp eth0 2001:db8::2 1452"},
    }, {
        .what = "IPv6 only, behind a router",
        .ours = {{"eth0", "", 0, 9000, 0}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8:7::2/64"},
        .table = {{"2001:db8::", 64, 2, false}, {"::", 0, 2, true}},
        .expect = {"udp eth0 2001:db8:7::2 1452"},
        .why = "pass no router",
    }, {
        .what = "both families: IPv4 comes first",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"10.0.0.0", 24, 2, false}, {"2001:db8::", 64, 2, false}},
        .our_wires = UDP, .their_wires = UDP,
        .expect = {"udp eth0 10.0.0.2 1472", "udp eth0 2001:db8::2 1452"},
    }, {
        .what = "both families: IPv4 comes first through a router, too",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.7.0.2", 24, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"0.0.0.0", 0, 2, true}, {"2001:db8::", 64, 2, false}},
        .our_wires = UDP, .their_wires = UDP,
        .expect = {"udp eth0 10.7.0.2 1472", "udp eth0 2001:db8::2 1452"},
    }, {
        .what = "both families, and only IPv6 reaches",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "10.7.0.2", 24, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"10.0.0.0", 24, 2, false}, {"2001:db8::", 64, 2, false}},
        .our_wires = UDP, .their_wires = UDP,
        .expect = {"udp eth0 2001:db8::2 1452"},
    }, {
        .what = "both families, and a host with IPv6 only",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"10.0.0.0", 24, 2, false}, {"2001:db8::", 64, 2, false}},
        .expect = {"packet eth0 mac0 1500", "udp eth0 2001:db8::2 1452"},
    }, {
        .what = "IPv4 only, and a host with IPv6 only",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {NULL},
        .why = "udp: its address is of IPv6, and the interfaces of this host have IPv4 only",
    }, {
        .what = "IPv6 only, and a host with IPv4 only",
        .ours = {{"eth0", "", 0, 1500, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .ours6 = {"2001:db8::1/64"},
        .table = {{"2001:db8::", 64, 2, false}},
        .expect = {NULL},
        .why = "udp: its address is of IPv4, and the interfaces of this host have IPv6 only",
    }, {
        .what = "an address of IPv6 on both hosts leads nowhere",
        .ours = {{"br0", "", 0, 1500, 0}},
        .theirs = {{"br0", "", 0, 1500, 0}},
        .ours6 = {"fd00::1/64"},
        .theirs6 = {"fd00::1/64"},
        .table = {{"fd00::", 64, 2, false}},
        .expect = {NULL},
        .why = "its address is one of ours too",
    }, {
        .what = "two cards in one subnet: the kernel takes one, packet keeps the other in reserve",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "10.0.0.3", 24, 1500, 1}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}, {"eth1", "10.0.0.4", 24, 1500, 1}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {"packet eth0 mac0 1500", "packet eth0 mac1 1500", "packet eth1 mac1 1500", "udp eth0 10.0.0.2 1472",
                   "udp eth0 10.0.0.4 1472"},
    }, {
        .what = "an interface without IPv6 towards an address of it",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}, {"eth1", "", 0, 1500, 1}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .ours6 = {NULL, "2001:db8:1::1/64"},
        .theirs6 = {"2001:db8::2/64"},
        .table = {{"2001:db8::", 64, 2, false}},
        .expect = {NULL},
        .why = "the interface towards it has no IPv6 address",
    }, {
        .what = "link-local addresses: each of our links with IPv6 may lead there, and the best is packet's",
        .ours = {{"eth0", "", 0, 1500, 1}, {"eth1", "", 0, 1500, 0}, {"eth2", "10.0.0.1", 24, 1500, 2}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .ours6 = {"fe80::1/64", "fe80::11/64"},
        .theirs6 = {"fe80::2/64"},
        .expect = {"packet eth1 mac0 1500", "udp eth1 fe80::2%eth1 1452", "udp eth0 fe80::2%eth0 1452"},
    }, {
        .what = "a link-local address, and no interface with IPv6",
        .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
        .theirs = {{"eth0", "", 0, 1500, 0}},
        .theirs6 = {"fe80::2/64"},
        .expect = {NULL},
        .why = "it is known by a link-local address of IPv6, and no interface of this host has IPv6",
    }, {
        .what = "an interface too small for a frame",
        .ours = {{"eth0", "10.0.0.1", 24, 270, 0}},
        .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
        .table = {{"10.0.0.0", 24, 2, false}},
        .expect = {"packet eth0 mac0 270"},
        .why = "udp: the frames would be too short",
    },
};
/* clang-format on */

/* ---- Hosts from their descriptions ---- */

static in_addr_t ip_of(const char *text)
{
    return *text ? inet_addr(text) : 0;
}

static void mac_of(unsigned place, uint8_t mac[6])
{
    memcpy(mac, "\x02\0\0\0\0\0", 6);
    mac[5] = (uint8_t)place;
}

/* Reads "2001:db8::1/64". */
static void read_ip6(const char *text, struct emx_ip *ip_p, unsigned *prefix_bits_p)
{
    char ip[EMX_IP_TEXT];

    if (sscanf(text, "%45[^/]/%u", ip, prefix_bits_p) != 2 || !emx_ip_parse(ip_p, ip))
        fail_msg("%s is no address", text);
}

static void build_netifs(const struct scenario *s, struct emx_netifs *n)
{
    memset(n, 0, sizeof(*n));
    n->nif[0] = (struct emx_netif){
        .name = "lo", .index = LO, .mtu_bytes = 65536, .loopback = true, .has_mac = true, .up = !s->no_lo};
    n->nif[0].ip.s_addr = htonl(INADDR_LOOPBACK);
    n->nif[0].prefix_bits = 8;
    n->count = 1;
    n->loopback_index = s->no_lo ? 0 : LO;
    for (const struct nic *nic = s->ours; nic < s->ours + ARRAY_LEN(s->ours) && nic->name; nic++) {
        struct emx_netif *nif = &n->nif[n->count++];

        snprintf(nif->name, sizeof(nif->name), "%s", nic->name);
        nif->index = n->count;
        nif->mtu_bytes = nic->mtu_bytes;
        nif->ip.s_addr = ip_of(nic->ip);
        nif->prefix_bits = nic->prefix_bits;
        if (s->ours6[nic - s->ours])
            read_ip6(s->ours6[nic - s->ours], &nif->ip6, &nif->prefix6_bits);
        nif->has_mac = nif->up = true;
        nif->chosen = nic->rank >= 0;
        nif->rank = nic->rank >= 0 ? (unsigned)nic->rank : 0;
    }
}

/* As an address tells it. */
static unsigned fabric_of(const char *devices, unsigned i)
{
    static const char letters[] = "-rib?";

    return devices ? (unsigned)(strchr(letters, devices[i]) - letters) : 0;
}

/* ---- A wire of this test ---- */

#define PIGEON_PART 30

static void pigeon_ways(struct emx_wire *w, struct emx_way_search *s)
{
    struct emx_way way = emx_way_start(s, NULL, UINT16_MAX, 0);

    (void)w;
    s->obstacle = "it has no loft";
    if (s->theirs.len_bytes != 2)
        return;
    memcpy(way.to.b, s->theirs.b, 2);
    emx_way_add(s, &way);
}

static const struct emx_wire_ops pigeon = {.name = "pigeon", .part = PIGEON_PART, .ways = pigeon_ways};

/* ---- Peers ---- */

static void add_part(struct emx_address *a, unsigned type, const uint8_t *value, unsigned len_bytes)
{
    assert_true(emx_address_add_part(a, type, value, len_bytes));
}

static void add_udp(struct emx_address *a, uint16_t port)
{
    uint8_t value[EMX_UDP_PART_BYTES];

    emx_wire_value_put_u16(value, port);
    add_part(a, EMX_UDP_PART, value, sizeof(value));
}

static void add_packet(struct emx_address *a, const struct emx_ethernet_part *part)
{
    uint8_t value[EMX_ETHERNET_PART_BYTES];

    emx_ethernet_part_write(part, value);
    add_part(a, EMX_PACKET_PART, value, sizeof(value));
}

static void add_xdp(struct emx_address *a, const struct emx_xdp_part *part)
{
    uint8_t value[EMX_XDP_PART_BYTES];

    add_part(a, EMX_XDP_PART, value, emx_xdp_part_write(part, value));
}

static void add_verbs(struct emx_address *a, const struct emx_verbs_address *told)
{
    uint8_t value[EMX_VERBS_ADDRESS_BYTES];

    add_part(a, EMX_VERBS_ADDRESS_PART, value, emx_verbs_address_write(told, value));
}

/* The interface in this place is told by IPv6; with all the rest if it has no IPv4. */
static void build_peer_v6(const struct scenario *s, unsigned place, struct emx_address *a)
{
    struct emx_wire_if *told = &a->ifs[a->if_count];
    unsigned prefix_bits;

    read_ip6(s->theirs6[place], &told->ip, &prefix_bits);
    told->prefix_bits = (uint8_t)prefix_bits;
    if (!*s->theirs[place].ip) {
        told->frame_bytes = (uint16_t)s->theirs[place].mtu_bytes;
        mac_of(place, told->mac);
    }
    a->if_count++;
}

/* Interfaces are told by rank; the mac keeps the place in the description. */
static void build_peer(const struct scenario *s, struct emx_address *a)
{
    const struct emx_ethernet_part packet = {.frame_bytes = (uint16_t)(s->their_ring ? s->their_ring : 9000),
                                             .ethertype = s->other_ethertype ? 0x88b6 : 0x88b5,
                                             .gso_port = s->their_gso ? THEIR_PORT : 0};
    const struct emx_xdp_part xdp = {.ethernet = {.frame_bytes = 3000,
                                                  .ethertype = s->other_ethertype ? 0x88b8 : 0x88b6,
                                                  .gso_port = packet.gso_port},
                                     .ifs = (uint8_t)s->their_xdp};
    struct emx_verbs_address verbs = {.port = CALL_PORT};
    unsigned wires = s->their_wires ? s->their_wires : BOTH;

    *a = (struct emx_address){.id = 7, .host_id = s->same_host ? 1 : 2};
    snprintf(a->host, sizeof(a->host), "there");
    for (int rank = 0; rank < (int)ARRAY_LEN(s->theirs); rank++) {
        for (unsigned i = 0; i < ARRAY_LEN(s->theirs); i++) {
            const struct nic *nic = &s->theirs[i];
            struct emx_wire_if *told = &a->ifs[a->if_count];

            if (!nic->name || nic->rank != rank || (!*nic->ip && s->theirs6[i]))
                continue;
            told->ip = emx_ip_from_v4(ip_of(nic->ip));
            told->prefix_bits = (uint8_t)nic->prefix_bits;
            told->frame_bytes = (uint16_t)nic->mtu_bytes;
            verbs.fabric[a->if_count] = (uint8_t)fabric_of(s->their_verbs, i);
            mac_of(i, told->mac);
            a->if_count++;
        }
    }
    for (int rank = 0; rank < (int)ARRAY_LEN(s->theirs); rank++)
        for (unsigned i = 0; i < ARRAY_LEN(s->theirs); i++)
            if (s->theirs6[i] && s->theirs[i].rank == rank)
                build_peer_v6(s, i, a);
    if (wires & UDP)
        add_udp(a, 4242);
    if (wires & PACKET)
        add_packet(a, &packet);
    if (wires & XDP)
        add_xdp(a, &xdp);
    if (wires & VERBS)
        add_verbs(a, &verbs);
    if (wires & PIGEON)
        add_part(a, PIGEON_PART, s->their_loft, s->their_loft ? 2 : 0);
}

static bool covers(const struct line *l, const struct emx_ip *ip)
{
    bool v6 = strchr(l->ip, ':');
    struct emx_ip net;

    assert_true(emx_ip_parse(&net, l->ip));
    return v6 == emx_ip_is_v6(ip) && (!l->prefix_bits || emx_ip_same_network(&net, ip, l->prefix_bits));
}

static unsigned lookup(void *arg, const struct emx_ip *to, bool *on_link_p)
{
    const struct scenario *s = arg;

    for (const struct line *l = s->table; l < s->table + ARRAY_LEN(s->table) && l->ip; l++) {
        if (!covers(l, to))
            continue;
        *on_link_p = !l->gateway;
        return l->index;
    }
    return 0;
}

/* All that the finder looks at, of our end. */
struct here {
    struct emx_netifs netifs;
    struct emx_way_site site;
    struct emx_address self;
    struct emx_links links;
    struct emx_route_view view;
};

static void add_link(struct here *h, const struct emx_wire_ops *ops, unsigned frame_bytes)
{
    h->links.link[h->links.count++] = (struct emx_link){.ops = ops, .attr.frame_bytes = frame_bytes};
}

/* Our wires as they would be open, best first. */
static void build_links(const struct scenario *s, struct here *h)
{
    const uint16_t gso_port = s->our_gso ? 2121 : 0;
    const struct emx_ethernet_part packet = {.frame_bytes = 9000, .ethertype = 0x88b5, .gso_port = gso_port};
    const struct emx_xdp_part xdp = {.ethernet = {.frame_bytes = 9000, .ethertype = 0x88b6, .gso_port = gso_port},
                                     .ifs = (uint8_t)s->our_xdp};
    struct emx_verbs_address verbs = {.port = 5252};
    unsigned wires = s->our_wires ? s->our_wires : BOTH;

    for (unsigned i = 0; s->our_verbs && s->our_verbs[i]; i++)
        verbs.fabric[i] = (uint8_t)fabric_of(s->our_verbs, i);
    if (wires & PACKET) {
        add_link(h, &emx_wire_packet, 9000);
        add_packet(&h->self, &packet);
    }
    if (wires & XDP) {
        add_link(h, &emx_wire_xdp, 9000);
        add_xdp(&h->self, &xdp);
    }
    if (wires & VERBS) {
        add_link(h, &emx_wire_verbs, EMX_VERBS_FRAME_BYTES);
        add_verbs(&h->self, &verbs);
    }
    if (wires & PIGEON) {
        add_link(h, &pigeon, 8192);
        h->links.link[h->links.count - 1].attr.reliable = h->links.link[h->links.count - 1].attr.reads = true;
        add_part(&h->self, PIGEON_PART, NULL, 0);
    }
    if (wires & UDP) {
        add_link(h, &emx_wire_udp, 9000);
        add_udp(&h->self, 4141);
    }
}

/* In the scenarios, our interfaces are told in their order in the description. */
static void build_here(const struct scenario *s, struct here *h)
{
    memset(h, 0, sizeof(*h));
    h->self = (struct emx_address){.id = 3, .host_id = 1, .host = "here"};
    build_netifs(s, &h->netifs);
    h->site = (struct emx_way_site){
        .netifs = &h->netifs, .mtu_bytes = s->mtu, .lookup = lookup, .lookup_arg = (void *)(uintptr_t)s};
    for (unsigned i = 1; i < h->netifs.count; i++)
        h->site.told[h->site.told_count++] = &h->netifs.nif[i];
    build_links(s, h);
    h->view = (struct emx_route_view){.site = &h->site, .self = &h->self, .links = &h->links};
}

/* ---- Routes against expectations ---- */

/* Where udp sends to: "10.0.0.2", "2001:db8::2" or, through that interface, "fe80::2%eth0". */
static void udp_place(const char *where, unsigned index, struct emx_wire_addr *to_p)
{
    char text[EMX_IP_TEXT];
    struct emx_ip ip;

    snprintf(text, sizeof(text), "%.*s", (int)strcspn(where, "%"), where);
    assert_true(emx_ip_parse(&ip, text));
    emx_udp_addr(to_p, &ip, strchr(where, '%') ? index : 0, 4242);
}

/* Whether the route is what "wire interface where length" says. */
static bool is_route(const struct emx_route *r, const char *expect, const struct emx_netifs *n, unsigned links)
{
    char wire[16], interface[16], where[48], name[40], their_ip[32] = "";
    struct emx_offload_way gso = {.port = THEIR_PORT};
    struct emx_verbs_way way = {.id = 7, .port = CALL_PORT};
    unsigned frame_bytes, gso_bytes = 0, index = 0;
    struct emx_wire_addr to;
    uint8_t mac[6] = {0};

    if (sscanf(expect, "%15s %15s %47s %u gso %u %31s", wire, interface, where, &frame_bytes, &gso_bytes, their_ip) < 4)
        return false;
    for (unsigned i = 0; i < n->count; i++) {
        if (!strcmp(n->nif[i].name, interface)) {
            index = n->nif[i].index;
            gso.from = strchr(their_ip, ':') ? n->nif[i].ip6 : emx_ip_from_v4(n->nif[i].ip.s_addr);
        }
    }
    gso.frame_bytes = (uint16_t)gso_bytes;
    assert_true(!gso_bytes || emx_ip_parse(&gso.to, their_ip));
    snprintf(name, sizeof(name), "%s %s", wire, interface);
    if (!strcmp(wire, "packet")) {
        if (!strncmp(where, "mac", 3))
            mac_of((unsigned)atoi(where + 3), mac);
        emx_packet_addr(&to, index, mac, gso_bytes ? &gso : NULL);
    } else if (!strcmp(wire, "verbs")) {
        way.from.s_addr = emx_ip_v4(&gso.from);
        way.to.s_addr = inet_addr(where);
        emx_verbs_addr(&to, &way);
    } else if (!strcmp(wire, "xdp")) {
        mac_of((unsigned)atoi(where + 3), mac);
        emx_xdp_addr(&to, index, mac, gso_bytes ? &gso : NULL);
    } else {
        udp_place(where, index, &to);
    }
    return !strcmp(r->name, name) && r->frame_bytes == frame_bytes && r->gso_bytes == gso_bytes &&
           !memcmp(&r->to, &to, sizeof(to)) && r->link == (!strcmp(wire, "udp") && links == 2);
}

static void check_scenario(const struct scenario *s)
{
    struct emx_route r[EMX_ROUTES_MAX];
    struct emx_address peer;
    unsigned count, expected = 0;
    static struct here h;
    char why[512] = "?";

    build_here(s, &h);
    build_peer(s, &peer);
    count = emx_routes_find(&h.view, &peer, r, why, sizeof(why));
    while (expected < ARRAY_LEN(s->expect) && s->expect[expected])
        expected++;
    if (count != expected)
        fail_msg("%s: %u routes instead of %u (first \"%s\"), why: %s", s->what, count, expected,
                 count ? r[0].name : "", why);
    for (unsigned i = 0; i < count; i++) {
        if (!is_route(&r[i], s->expect[i], &h.netifs, h.links.count))
            fail_msg("%s: route %u is \"%s\" with %u bytes instead of \"%s\"", s->what, i, r[i].name, r[i].frame_bytes,
                     s->expect[i]);
    }
    if (s->why && !strstr(why, s->why))
        fail_msg("%s: the reason is \"%s\" and does not say \"%s\"", s->what, why, s->why);
    if (!count && strlen(why) < 20)
        fail_msg("%s: the reason \"%s\" is no sentence", s->what, why);
}

static void routes_are_as_expected(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(scenarios); i++)
        check_scenario(&scenarios[i]);
}

static void never_more_than_there_is_room_for(void **state)
{
    struct scenario s = {
        .what = "many", .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}}, .table = {{"10.0.0.0", 24, 2, 0}}};
    struct emx_route r[EMX_ROUTES_MAX + 1];
    struct emx_address peer;
    static struct here h;
    char why[4];

    (void)state;
    build_here(&s, &h);
    build_peer(&s, &peer);
    peer.if_count = EMX_WIRE_IFS;
    for (unsigned i = 0; i < EMX_WIRE_IFS; i++)
        peer.ifs[i] = (struct emx_wire_if){
            .ip = emx_ip_from_v4(htonl(0x0a000002 + i)), .prefix_bits = 24, .mac = {2}, .frame_bytes = 1500};
    memset(&r[EMX_ROUTES_MAX], 0xaa, sizeof(r[0]));
    assert_int_equal(emx_routes_find(&h.view, &peer, r, why, sizeof(why)), EMX_ROUTES_MAX);
    for (unsigned i = 0; i < sizeof(r[0]); i++)
        assert_int_equal(((const uint8_t *)&r[EMX_ROUTES_MAX])[i], 0xaa);
    peer.if_count = 0;
    assert_int_equal(emx_routes_find(&h.view, &peer, r, why, sizeof(why)), 0);
    assert_string_equal(why, "no ");
}

/* ---- A wire that nobody knows but its row ---- */

static const uint8_t home[2] = {5, 6};

static struct scenario flight(unsigned their_wires, const uint8_t *their_loft)
{
    return (struct scenario){.what = "pigeon",
                             .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
                             .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
                             .table = {{"10.0.0.0", 24, 2, false}},
                             .our_wires = PIGEON | UDP,
                             .their_wires = UDP | their_wires,
                             .their_loft = their_loft};
}

/* Routes of the scenario. Returns how many. */
static unsigned find(const struct scenario *s, struct emx_route r[EMX_ROUTES_MAX], char *why, size_t why_len_bytes)
{
    struct emx_address peer;
    static struct here h;

    build_here(s, &h);
    build_peer(s, &peer);
    return emx_routes_find(&h.view, &peer, r, why, why_len_bytes);
}

static void a_new_wire_is_a_row(void **state)
{
    const struct scenario open = flight(PIGEON, home), mute = flight(PIGEON, NULL), shut = flight(0, NULL);
    struct emx_route r[EMX_ROUTES_MAX];
    char why[512];

    (void)state;
    assert_int_equal(find(&open, r, why, sizeof(why)), 2);
    assert_string_equal(r[0].name, "pigeon");
    assert_int_equal(r[0].frame_bytes, 8192);
    assert_true(r[0].reliable && r[0].reads && !r[0].gso_bytes && r[0].link == 0);
    assert_memory_equal(r[0].to.b, home, sizeof(home));
    assert_string_equal(r[1].name, "udp eth0");
    assert_false(r[1].reliable || r[1].reads);
    assert_int_equal(find(&mute, r, why, sizeof(why)), 1);
    assert_non_null(strstr(why, "pigeon: it has no loft"));
    assert_int_equal(find(&shut, r, why, sizeof(why)), 1);
    assert_non_null(strstr(why, "pigeon: not open there"));
}

/* ---- What a launcher carries ---- */

/* An interface of that host is told by IPv4, or by one of these; a '+' before it: by both. */
static const char *const told_v6[] = {NULL,
                                      "2001:db8:1:2:3:4:5:6/64",
                                      "2001:db8:1:2::/64 eui64",
                                      "2001:db8:1:2:3:4:5:6/48",
                                      "2001:db8:1:2:3:4:5:6/120",
                                      "2001:db8:1::/48 eui64",
                                      "fe80::/64 eui64",
                                      "+2001:db8:1:2:3:4:5:6/64",
                                      "+2001:db8:1:2::/64 eui64"};

struct told {
    unsigned wires, ifs;
    bool auth;
    const char *v6; /* of told_v6 */
};

/* An interface by IPv6, each in a network of its own. */
static void make_told_v6(const char *v6, unsigned place, struct emx_wire_if *told)
{
    char text[64];
    unsigned bits;

    snprintf(text, sizeof(text), "%.*s", (int)strcspn(v6, " "), v6);
    read_ip6(text, &told->ip, &bits);
    told->prefix_bits = (uint8_t)bits;
    if (strchr(v6, ' '))
        emx_ip_put_eui64(&told->ip, told->mac);
    if (!emx_ip_is_link_local6(&told->ip))
        told->ip.b[5] = (uint8_t)place;
}

/* An address of all these, as an endpoint makes it. */
static void make_told(const struct told *t, struct emx_address *a)
{
    const struct emx_ethernet_part ethernet = {.frame_bytes = 9000, .ethertype = 0x1234, .gso_port = 4000};
    const struct emx_xdp_part xdp = {.ethernet = ethernet, .ifs = 0x3f};
    const struct emx_verbs_address verbs = {.port = 5000, .fabric = {1, 2, 3, 1, 2, 3}};

    memset(a, 0, sizeof(*a));
    a->id = 7;
    a->auth = a->has_secret = t->auth;
    snprintf(a->host, sizeof(a->host), "a-host-with-a-name.of.the.longest.kind.example");
    for (unsigned i = 0; i < t->ifs; i++) {
        struct emx_wire_if *told = &a->ifs[a->if_count++];

        *told = (struct emx_wire_if){
            .ip = emx_ip_from_v4(htonl(0x0a000001 + (i << 8))), .prefix_bits = 24, .frame_bytes = 9000};
        mac_of(i, told->mac);
        if (t->v6 && t->v6[0] != '+')
            make_told_v6(t->v6, i, told);
    }
    for (unsigned i = 0; t->v6 && t->v6[0] == '+' && i < t->ifs && a->if_count < EMX_WIRE_IFS; i++) {
        mac_of(i, a->ifs[a->if_count].mac);
        make_told_v6(t->v6 + 1, i, &a->ifs[a->if_count]);
        memset(a->ifs[a->if_count++].mac, 0, 6);
    }
    if (t->wires & SHM)
        add_part(a, EMX_SHM_PART, NULL, 0);
    if (t->wires & VERBS) {
        add_verbs(a, &verbs);
        a->min_bytes[EMX_VERBS_ADDRESS_PART] = EMX_VERBS_ADDRESS_MIN;
        a->by_ip |= (uint32_t)emx_wire_verbs.by_ip << EMX_VERBS_ADDRESS_PART;
    }
    if (t->wires & XDP) {
        add_xdp(a, &xdp);
        a->min_bytes[EMX_XDP_PART] = EMX_XDP_PART_MIN;
    }
    if (t->wires & PACKET)
        add_packet(a, &ethernet);
    if (t->wires & UDP) {
        add_udp(a, 6000);
        a->min_bytes[EMX_UDP_PART] = EMX_UDP_PART_BYTES;
        a->by_ip |= (uint32_t)emx_wire_udp.by_ip << EMX_UDP_PART;
    }
}

static unsigned part_count(const struct emx_address *a)
{
    unsigned n = 0;

    for (unsigned type = 1; type <= EMX_WIRE_PART_TYPES; type++)
        n += emx_address_part(a, type).b != NULL;
    return n;
}

/* What a launcher carries of it: at most 56 bytes. */
static void carry(const struct told *t, struct emx_address *a_p, struct emx_address *carried_p)
{
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[128];
    size_t len_bytes;

    make_told(t, a_p);
    len_bytes = emx_address_encode_within(a_p, ETHMX_ADDRESS_LAUNCHER, buf);
    assert_true(len_bytes && len_bytes <= 56);
    assert_true(emx_address_decode(carried_p, buf, len_bytes, err, sizeof(err)));
}

/* In every configuration: with authentication, six interfaces and all wires, too. Where not all interfaces fit, wires
 * are left to the hellos, but never the one that reaches each interface by its IP alone. */
static void a_launcher_carries_little(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 32 * 7 * 2 * ARRAY_LEN(told_v6); i++) {
        const struct told t = {
            .wires = i % 32, .ifs = i / 32 % 7, .auth = i / 32 / 7 % 2, .v6 = told_v6[i / 32 / 7 / 2]};
        struct emx_address a, b;

        carry(&t, &a, &b);
        assert_true(!(t.wires & UDP) == !emx_address_part(&b, EMX_UDP_PART).b);
        assert_true(!(t.wires & SHM) == !emx_address_part(&b, EMX_SHM_PART).b);
        assert_true(!(t.wires & PACKET) == !emx_address_part(&b, EMX_PACKET_PART).b);
        if (t.ifs && t.wires && !(t.wires & UDP))
            assert_true(emx_wire_if_has_mac(&b.ifs[0]));
        if ((t.ifs <= 1 || !(t.wires & UDP)) && (!t.v6 || t.v6[0] == '+'))
            assert_true(part_count(&a) == part_count(&b) && !memcmp(b.ifs[0].mac, a.ifs[0].mac, 6));
    }
}

/* So many interfaces are told that a first hello can reach. With udp 4 with authentication and else all 6; 5 would take
 * 18 bytes that each address has, 16 of the secret, 3 of udp and 21 of the interfaces: 58. Without a wire that goes by
 * IP each interface takes 11 bytes. */
static void as_many_networks_are_told_as_fit(void **state)
{
    static const struct {
        unsigned wires;
        unsigned ifs[2]; /* auth */
    } expect[] = {
        {UDP, {6, 4}},
        {SHM | PACKET | UDP, {6, 4}},
        {SHM | VERBS | PACKET | UDP, {6, 4}},
        {SHM | VERBS | XDP | PACKET | UDP, {6, 4}},
        {PACKET, {3, 1}},
        {SHM | PACKET, {3, 1}},
        {SHM | XDP | PACKET, {3, 1}},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(expect); i++) {
        for (unsigned auth = 0; auth < 2; auth++) {
            const struct told t = {.wires = expect[i].wires, .ifs = EMX_WIRE_IFS, .auth = auth};
            struct emx_address a, b;

            carry(&t, &a, &b);
            assert_int_equal(b.if_count, expect[i].ifs[auth]);
            for (unsigned k = 0; k < b.if_count && !(t.wires & UDP); k++)
                assert_true(emx_wire_if_has_mac(&b.ifs[k]));
        }
    }
}

/* Of a host with four networks we share one, whichever it is. */
static void any_network_in_common_is_a_way(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 32 * 2 * 4; i++) {
        const struct told t = {.wires = (i % 32) | UDP, .ifs = 4, .auth = i / 32 % 2};
        unsigned common = i / 32 / 2;
        struct scenario s = {.what = "one network in common", .our_wires = t.wires & ~(unsigned)SHM};
        struct emx_route r[EMX_ROUTES_MAX];
        char ip[16], net[16], why[512] = "";
        struct emx_address a, b;
        static struct here h;

        snprintf(ip, sizeof(ip), "10.0.%u.9", common);
        snprintf(net, sizeof(net), "10.0.%u.0", common);
        s.ours[0] = (struct nic){"eth0", ip, 24, 1500, 0};
        s.table[0] = (struct line){net, 24, 2, false};
        carry(&t, &a, &b);
        b.host_id = 2;
        build_here(&s, &h);
        if (!emx_routes_find(&h.view, &b, r, why, sizeof(why)))
            fail_msg("wires %u, auth %d, network %u: %s", t.wires, t.auth, common, why);
    }
}

/* ---- Every wire ---- */

static void every_wire_has_a_part_of_its_own(void **state)
{
    uint32_t types = 0;
    unsigned count = 0;

    (void)state;
    for (; emx_wires[count]; count++) {
        const struct emx_wire_ops *ops = emx_wires[count];

        assert_true(ops->part >= 1 && ops->part <= EMX_WIRE_PART_TYPES);
        assert_false(types >> ops->part & 1);
        assert_non_null(ops->ways);
        types |= UINT32_C(1) << ops->part;
    }
    assert_true(count && count <= EMX_ENGINE_LINKS);
}

/* Whatever a peer tells, of whatever length, a wire reads no further and offers ways that can be used, or says why not.
 * shm asks the system and not the value. */
static bool any_values(uint64_t seed)
{
    static const struct scenario s = {.what = "any",
                                      .ours = {{"eth0", "10.0.0.1", 24, 1500, 0}},
                                      .theirs = {{"eth0", "10.0.0.2", 24, 1500, 0}},
                                      .table = {{"10.0.0.0", 24, 2, false}},
                                      .our_wires = PACKET | UDP | XDP | VERBS,
                                      .our_xdp = 1,
                                      .our_verbs = "r"};
    struct emx_rng rng = {seed};
    struct emx_address peer;
    static struct here h;

    build_here(&s, &h);
    build_peer(&s, &peer);
    for (unsigned i = 0; i < h.links.count; i++) {
        const struct emx_wire_ops *ops = h.links.link[i].ops;
        unsigned len_bytes = (unsigned)emx_rng_below(&rng, 12);
        uint8_t *value = malloc(len_bytes ? len_bytes : 1);
        struct emx_way_search w = {.site = &h.site,
                                   .frame_bytes = 9000,
                                   .ours = emx_address_part(&h.self, ops->part),
                                   .theirs = {.b = value, .len_bytes = len_bytes},
                                   .same_host = emx_rng_below(&rng, 2),
                                   .ifs = peer.ifs,
                                   .if_count = peer.if_count};

        assert_non_null(value);
        for (unsigned j = 0; j < len_bytes; j++)
            value[j] = (uint8_t)emx_rng_next(&rng);
        ops->ways(NULL, &w);
        CHECK(w.count <= EMX_WAYS_MAX && (w.count || w.obstacle));
        for (unsigned j = 0; j < w.count; j++)
            CHECK(w.way[j].frame_bytes >= EMX_FRAME_MIN && w.way[j].frame_bytes <= 9000);
        free(value);
    }
    return true;
}

static void any_value_is_refused_or_harmless(void **state)
{
    (void)state;
    each_seed(500, any_values);
}

static void shared_memory_is_on_one_host_only(void **state)
{
    struct emx_way_search w = {.frame_bytes = 8192, .theirs = {.b = home}};

    (void)state;
    emx_wire_shm.ways(NULL, &w);
    assert_int_equal(w.count, 0);
    assert_string_equal(w.obstacle, "another host");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(routes_are_as_expected),
        cmocka_unit_test(a_new_wire_is_a_row),
        cmocka_unit_test(a_launcher_carries_little),
        cmocka_unit_test(as_many_networks_are_told_as_fit),
        cmocka_unit_test(any_network_in_common_is_a_way),
        cmocka_unit_test(every_wire_has_a_part_of_its_own),
        cmocka_unit_test(any_value_is_refused_or_harmless),
        cmocka_unit_test(shared_memory_is_on_one_host_only),
        cmocka_unit_test(never_more_than_there_is_room_for),
    };

    return cmocka_run_group_tests_name("route", tests, NULL, NULL);
}
