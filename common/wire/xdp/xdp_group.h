/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Group: the endpoints of one user on this host that share one interface through AF_XDP. xdp_group.c has the mechanism.
 * Used under the endpoint's lock; the groups of a process are protected by a lock of their own.
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

#define EMX_XDP_QUEUES 4   /* receive queues served; frames of unknown EtherTypes arrive on the first */
#define EMX_XDP_TX     256 /* chunks and ring entries of each member for sending */

/* The request of a member. Values of the first member apply to later ones. */
struct emx_xdp_want {
    const char *ifname, *kind; /* as in struct emx_netif */
    unsigned ifindex, mtu_bytes;
    uint32_t id; /* of the endpoint */
    const struct emx_config *cfg;
};

/* The state of a chunk for sending. */
enum emx_xdp_tx {
    EMX_XDP_FREE,
    EMX_XDP_SENT /* owned by the kernel until completed */,
    EMX_XDP_LISTED /* in free_tx, or written to */
};

/* A ring mapped from a socket. */
struct emx_xdp_map {
    void *mem;
    size_t bytes;
};

/* One receive queue. All members share the fill and completion rings and use them under the group's lock. */
struct emx_xdp_queue {
    int sock_fd;
    struct xsk_ring_prod fill;
    struct xsk_ring_cons completed;
    struct xsk_ring_cons rx; /* this member's; cached_cons: the next frame, *consumer: the first not returned */
    struct xsk_ring_prod tx; /* this member's; queue 0 only */
    struct emx_xdp_map map[4];
};

struct emx_xdp_shared; /* state seen by all members; xdp_shared.h */

struct emx_xdp_group {
    struct emx_xdp_shared *shared;
    uint8_t *umem;
    size_t shared_bytes, umem_bytes;
    uint64_t host_id;
    int pid; /* a forked child inherits the descriptors, but not the memory */
    unsigned ifindex, chunk_bytes, queue_count, slot;
    bool several_buffers; /* frames may span chunks */
    bool copies;          /* the kernel copies, and sends inside our system call */
    struct emx_xdp_queue queue[EMX_XDP_QUEUES];
    bool busy_polls;                 /* the sockets are polled by system calls */
    const char *busy_poll_text;      /* the result, for the end of a sentence */
    volatile const uint64_t *passed; /* frames that arrived on queues without sockets */

    /* This member's chunks for sending begin at tx_base. free_tx lists the numbers of free ones. A flag per chunk says
     * which are free; other members may clear it. */
    uint64_t tx_base;
    uint32_t free_tx[EMX_XDP_TX];
    unsigned free_tx_count;
    uint32_t last_tx; /* the chunk taken last; it may be free without being listed */
    uint8_t *tx_busy; /* enum emx_xdp_tx */

    int fd[9 + EMX_XDP_QUEUES]; /* see enum in xdp_group.c */
    struct emx_xdp_group *next; /* next group of this process */
};

/* Joins the interface's group, or creates it. Waits for other processes, for some seconds at most. ETHMX_ERR_NO_WIRE or
 * ETHMX_ERR_NO_MEMORY: why has the reason. On success why says what was found. */
int emx_xdp_group_join(struct emx_xdp_group **g_p, const struct emx_xdp_want *want, char *why, size_t why_len_bytes);
/* Leaves the group. The member's chunks go back to the others; the last member frees everything. */
void emx_xdp_group_leave(struct emx_xdp_group *g);

/* Accepts members that wait to join. Called from time to time, not in each poll. */
void emx_xdp_group_serve(struct emx_xdp_group *g);
/* A descriptor that becomes readable when others wait to join. */
int emx_xdp_group_serve_fd(const struct emx_xdp_group *g);

/* Returns the chunks of all frames received on queue q to the kernel, and collects sent chunks. */
void emx_xdp_group_refill(struct emx_xdp_group *g, unsigned q);
/* Collects the sent chunks of all members. */
void emx_xdp_group_reap(struct emx_xdp_group *g);

/* The longest frame (from the ethmx header on) that this group's chunks hold. */
unsigned emx_xdp_group_frame_bytes(const struct emx_xdp_group *g);

#endif
