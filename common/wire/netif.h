/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Network interfaces: what the host has, which ones ethmx uses and why, and the kernel's route to a peer.
 *
 * ETHMX_IF chooses interfaces by name or subnet. Without it, every interface is chosen that is up and reaches other
 * hosts, except bridges of containers and virtual machines. Which of them reaches a given peer is decided per peer, by
 * the kernel's route to it. Thread-safe; no privilege is needed.
 */
#ifndef EMX_WIRE_NETIF_H
#define EMX_WIRE_NETIF_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/ip.h"

#define EMX_NETIF_MAX 64 /* interfaces kept; on a host with more, name one in ETHMX_IF */

struct emx_netif {
    char name[IF_NAMESIZE];
    char kind[16];         /* the kernel's link kind, "" for hardware */
    char reason[96];       /* why chosen or not, as text */
    unsigned index;        /* ifindex */
    unsigned master_index; /* ifindex of the bridge or bond that this is a port of, or 0 */
    unsigned mtu_bytes;    /* payload of an Ethernet frame */
    struct in_addr ip;     /* 0: none */
    unsigned prefix_bits;
    struct emx_ip ip6; /* link-local only if the interface has no other address; none: it may use no address of IPv6 */
    unsigned prefix6_bits;
    bool duplicate6; /* the kernel found an IPv6 address of it at another host, too */
    uint8_t mac[6];
    bool has_mac; /* Ethernet */
    bool up;      /* up and running */
    bool loopback;
    unsigned speed_mbit; /* 0: unknown */
    bool segments;       /* TCP, so that the kernel does not have to (TSO) */
    int numa_node;       /* -1: unknown */
    bool far;            /* its NUMA node has none of the cores that this process may use */
    bool chosen;
    unsigned place; /* of the word in ETHMX_IF that names it */
    unsigned rank;  /* among the chosen: 0 is preferred */
};

struct emx_netifs {
    unsigned count;
    struct emx_netif nif[EMX_NETIF_MAX];
    unsigned loopback_index; /* ifindex of lo when it is up, or 0 */
};

/* Reads the kernel's interfaces (rtnetlink) and chooses by cfg->p_if. Of several addresses of an interface and a family
 * the first counts, of IPv6 the first that a prefix in cfg->p_if covers; IPv6 addresses that are temporary, deprecated,
 * tentative or duplicate do not. An interface that is chosen by prefixes of one family has no address of the other.
 * reach: see ethmx_ep_options; of interfaces as good, the one of the route to it comes first (without it, or if it
 * leads nowhere, that of the route to other hosts). ETHMX_ERR_PARAM: ETHMX_IF names an interface that is missing, down
 * or without address; err lists those that exist. ETHMX_ERR_NO_WIRE, ETHMX_ERR_NO_MEMORY: the kernel's answer cannot be
 * read. An empty choice is not an error. */
int emx_netifs_read(struct emx_netifs *n, const struct emx_config *cfg, const char *reach, char *err,
                    size_t err_len_bytes);

/* Chooses among given interfaces (for tests). */
int emx_netifs_choose(struct emx_netifs *n, const struct emx_config *cfg, unsigned route_index, char *err,
                      size_t err_len_bytes);

/* What the kernel says now of an interface. */
struct emx_netif_state {
    struct emx_netif nif; /* with the addresses that it would be known by; index 0: there is none of this name */
    bool up;
    bool running;    /* it has a carrier */
    bool has4, has6; /* its address of the family is still one of it */
};

/* Reads the state of each interface of n, by its name. false: the kernel does not say. */
bool emx_netifs_look(const struct emx_netifs *n, const struct emx_config *cfg,
                     struct emx_netif_state state[EMX_NETIF_MAX]);

/* Gives the processes of a host different interfaces to prefer, if several are as good as the first: at the same place
 * in ETHMX_IF, of the same known speed and frame length, and as near to this process. local_rank: its number on the
 * host. */
void emx_netifs_spread(struct emx_netifs *n, unsigned local_rank);

/* Whether a prefix in ETHMX_IF covers this address of the interface. */
bool emx_netif_is_asked(const struct emx_config *cfg, const struct emx_netif *nif, const struct emx_ip *ip);

/* The ifindex of the kernel's route to ip; 0: there is none. *on_link_p: there is no gateway. */
unsigned emx_netif_route(const struct emx_ip *ip, bool *on_link_p);

/* The first address of an interface; none: it has none. */
static inline struct emx_ip emx_netif_ip(const struct emx_netif *nif)
{
    return nif->ip.s_addr ? emx_ip_from_v4(nif->ip.s_addr) : nif->ip6;
}

const struct emx_netif *emx_netif_by_index(const struct emx_netifs *n, unsigned index);

/* A number of 48 bits, never 0: equal in processes that share a kernel and a network namespace, different otherwise
 * (from boot id and namespace). */
uint64_t emx_host_id(void);

#endif
