/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Group: the endpoints of one user on this host that share one interface through AF_XDP. See xdp_group.c.
 */
#ifndef EMX_WIRE_XDP_GROUP_H
#define EMX_WIRE_XDP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <xdp/xsk.h>

#include "base/config.h"

#ifndef XDP_PKT_CONTD
#define XDP_PKT_CONTD (1 << 0)
#endif

#define EMX_XDP_QUEUES 4   /* receive queues covered; Ethernet types of one's own come in on the first */
#define EMX_XDP_TX     256 /* chunks, and places in the ring, for each member to send from */

/* What a member wants. The first member's wish decides for those that come later. */
struct emx_xdp_want {
    const char *ifname, *kind; /* as in struct emx_netif */
    unsigned ifindex, mtu_bytes;
    uint32_t id; /* the endpoint's */
    const struct emx_config *cfg;
};

/* A chunk to send from. */
enum emx_xdp_tx {
    EMX_XDP_FREE,
    EMX_XDP_SENT /* the kernel's, until completed */,
    EMX_XDP_LISTED /* in free_tx, or written to */
};

/* A ring mapped from a socket. */
struct emx_xdp_map {
    void *mem;
    size_t bytes;
};

/* One receive queue. The fill and completion rings belong to all members: they are touched under the lock only. */
struct emx_xdp_queue {
    int sock_fd;
    struct xsk_ring_prod fill;
    struct xsk_ring_cons completed;
    struct xsk_ring_cons rx; /* ours; cached_cons: the next to lend, *consumer: the first not yet given back */
    struct xsk_ring_prod tx; /* ours; queue 0 only */
    struct emx_xdp_map map[4];
};

struct emx_xdp_shared; /* what all members see, xdp_group.c */

struct emx_xdp_group {
    struct emx_xdp_shared *shared;
    uint8_t *umem;
    size_t shared_bytes, umem_bytes;
    uint64_t host_id;
    int pid; /* a child has copies of these, but not the memory */
    unsigned ifindex, chunk_bytes, queue_count, slot;
    bool several_buffers; /* frames may span chunks */
    bool copies;          /* the kernel copies: sends happen inside our own system call */
    struct emx_xdp_queue queue[EMX_XDP_QUEUES];
    volatile const uint64_t *passed; /* frames that came in on queues without sockets */

    /* Our chunks to send from begin at tx_base. The numbers of those that are free are in a list; which are is told by
     * flags that others may clear. */
    uint64_t tx_base;
    uint32_t free_tx[EMX_XDP_TX];
    unsigned free_tx_count;
    uint32_t last_tx; /* the chunk that was taken last; may be free without being listed */
    uint8_t *tx_busy; /* enum emx_xdp_tx */

    int fd[9 + EMX_XDP_QUEUES]; /* see enum in xdp_group.c */
    struct emx_xdp_group *next; /* of this process */
};

/* Joins the interface's group, or makes it. Waits for other processes, some seconds at most. ETHMX_ERR_NO_WIRE or
 * ETHMX_ERR_NO_MEMORY: why has the reason. On success: why has what was found. */
int emx_xdp_group_join(struct emx_xdp_group **g_p, const struct emx_xdp_want *want, char *why, size_t why_len_bytes);
/* Leaves. What the member had goes back to the others; with the last, all vanishes. */
void emx_xdp_group_leave(struct emx_xdp_group *g);

/* Lets in others that wait to join. Cheap enough to be called now and then, not for each poll. */
void emx_xdp_group_serve(struct emx_xdp_group *g);
/* Becomes readable when others wait. */
int emx_xdp_group_serve_fd(const struct emx_xdp_group *g);

/* Gives all chunks of frames that were lent from queue q back to the kernel, and collects sent ones. */
void emx_xdp_group_refill(struct emx_xdp_group *g, unsigned q);
/* Collects sent chunks, of all members. */
void emx_xdp_group_reap(struct emx_xdp_group *g);

/* The longest frame (from the ethmx header on) of this group's chunks. */
unsigned emx_xdp_group_frame_bytes(const struct emx_xdp_group *g);

#endif
