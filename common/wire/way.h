/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ways: how a wire reaches a peer, from what both ends tell. Each wire implements emx_wire_ops.ways() with these
 * functions. Pure, except that a wire may call site->lookup() for the kernel's route. way.c has the rules.
 */
#ifndef EMX_WIRE_WAY_H
#define EMX_WIRE_WAY_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/txframe.h"
#include "base/wire_part.h"
#include "wire/netif.h"

#define EMX_WAYS_MAX       8
#define EMX_WAY_FRAME_MIN  256   /* a way with shorter frames is not used */
#define EMX_WAY_GATEWAY    1000u /* added to the score of a way through a router */
#define EMX_IP_UDP_BYTES   28    /* headers of IPv4 and UDP */
#define EMX_IP6_UDP_BYTES  48    /* headers of IPv6 and UDP */
#define EMX_WAY_V6         2000u /* added to the score of a way by IPv6, whose header is longer */
#define EMX_WAY_SPARE      8000u /* added to the score of a way that is not the kernel's */
#define EMX_WAY_SCOPED     4000u /* added to the score of a way by a link-local address: its link is a guess */
#define EMX_UDP_DATA_BYTES 65507 /* longest datagram's */

/* The local host, as seen by all wires. All pointers are borrowed. */
struct emx_way_site {
    const struct emx_netifs *netifs;
    const struct emx_netif *told[EMX_WIRE_IFS]; /* the interfaces that peers are told of, in their order */
    bool told_v6[EMX_WIRE_IFS];                 /* by its IPv6 address */
    unsigned told_count;
    unsigned mtu_bytes;                                                      /* ETHMX_MTU; 0: no limit */
    unsigned (*lookup)(void *arg, const struct emx_ip *ip, bool *on_link_p); /* as emx_netif_route() */
    void *lookup_arg;
};

struct emx_way {
    unsigned score; /* lower is better; emx_way_score() */
    struct emx_wire_addr to;
    uint16_t frame_bytes;
    uint16_t gso_bytes;          /* longest frame that may travel in a GSO packet, 0: none does */
    bool tso;                    /* these may be TSO packets: the wire takes frames with several chunks */
    uint8_t more_bytes;          /* by which its headers are longer than those of IPv4 and UDP */
    uint8_t theirs;              /* the peer's interface: its number + 1; 0: none */
    bool guess;                  /* it leads to the peer if a guess is right */
    char interface[IF_NAMESIZE]; /* that it leaves through, for people; "": none */
    uint8_t card;                /* the same: its place among the host's + 1; 0: none */
};

/* A request to a wire, and its result. */
struct emx_way_search {
    const struct emx_way_site *site;
    unsigned frame_bytes;               /* the longest that our wire takes: struct emx_wire_attr */
    struct emx_wire_value ours, theirs; /* this wire's parts of both addresses, theirs from the network */
    uint32_t peer_id;
    bool same_host;
    bool decides;                  /* of two pairs of interfaces that suit both ends alike, our end chooses */
    const struct emx_wire_if *ifs; /* the peer's */
    unsigned if_count;
    unsigned theirs_tried; /* emx_way_each_ip(): the number + 1 of the peer's interface; otherwise 0 */

    struct emx_way way[EMX_WAYS_MAX]; /* best first */
    unsigned count;
    const char *obstacle; /* why the last candidate failed; only without any way */
    char told[128];       /* room for an obstacle */
};

/* Adds a way, sorted by score, of which the lowest three bits count after the length of frames. If its frames are too
 * short, it becomes an obstacle instead.
 */
void emx_way_add(struct emx_way_search *s, const struct emx_way *w);

/* The score of a way between nif and the peer's interface of that place. Both ends find the same best pair. */
unsigned emx_way_score(const struct emx_way_search *s, const struct emx_netif *nif, unsigned place);

/* A way through nif (NULL: through none) for frames that this wire takes as well; without its address. */
struct emx_way emx_way_start(const struct emx_way_search *s, const struct emx_netif *nif, unsigned frame_bytes,
                             unsigned score);

/* The loopback interface, or NULL and an obstacle. */
const struct emx_netif *emx_way_loopback(struct emx_way_search *s);

/* The longest Ethernet payload to use on an interface. Peers are told this. */
unsigned emx_way_mtu(const struct emx_way_site *site, const struct emx_netif *nif);

/* The same for both ends. If the address does not have it yet, the local value is assumed. */
unsigned emx_way_common_mtu(const struct emx_way_site *site, const struct emx_netif *nif,
                            const struct emx_wire_if *theirs);

/* The chosen interface towards an address of the peer, or NULL and an obstacle. No link-local address of IPv6. */
const struct emx_netif *emx_way_towards(struct emx_way_search *s, const struct emx_ip *ip, bool *on_link_p);

/* The next chosen interface behind *at_p (0 at first) on whose link a link-local address of IPv6 may be; NULL: none
 * is left, and s has an obstacle. No kernel knows which of the links it is: a hello shows it. */
const struct emx_netif *emx_way_next_link(struct emx_way_search *s, const struct emx_ip *ip, unsigned *at_p);

/* Calls try for each of the peer's interfaces that has an IP address. place: its index in s->ifs. */
typedef void emx_way_try_fn(struct emx_way_search *s, unsigned place, const void *arg);
void emx_way_each_ip(struct emx_way_search *s, emx_way_try_fn *try, const void *arg);

/* The index of nif among the interfaces that peers are told of; EMX_WIRE_IFS: it is not among them. */
unsigned emx_way_told(const struct emx_way_site *site, const struct emx_netif *nif);

#endif
