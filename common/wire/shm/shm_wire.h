/* SPDX-License-Identifier: BSD-3-Clause
 *
 * State of an open shm wire, shared by its files: shm.c (open, close), shm_peer.c (table of peers, sockets), shm_out.c
 * (rings that this endpoint writes), shm_in.c (rings that it reads), shm_copy.c (large messages), shm_view.c (memory of
 * peers that is mapped). The caller of the wire holds the endpoint's lock in all of them.
 */
#ifndef EMX_WIRE_SHM_WIRE_H
#define EMX_WIRE_SHM_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "base/list.h"
#include "base/stats.h"
#include "wire/shm/shm_mem.h"
#include "wire/shm/shm_ring.h"
#include "wire/wire.h"

#define EMX_SHM_NEAR         4   /* rings polled in each round: those that had frames last, */
#define EMX_SHM_FAR          2   /* and so many of the others */
#define EMX_SHM_VIEWS        16  /* chains of segments, for each peer */
#define EMX_SHM_FILES_MEMORY 128 /* descriptors for the memory of peers: emx_shm_in.memory_fd */

/* A socket in the epoll set. Each struct below that owns one begins with it. */
enum emx_shm_port_kind { EMX_SHM_PORT_LISTENER, EMX_SHM_PORT_IN, EMX_SHM_PORT_OUT };
struct emx_shm_port {
    enum emx_shm_port_kind kind;
    int fd; /* -1: none */
};

/* A ring that this endpoint reads. */
struct emx_shm_in {
    struct emx_shm_port port;
    struct emx_shm_rx rx; /* m NULL: the peer has connected but not sent its ring yet */
    uint32_t id;
    unsigned index; /* in emx_shm_wire.in */
    bool gone;      /* the writer has ended, or wrote invalid data: freed when the ring is empty */
    bool lent;      /* frames of it are in use (rx() to rx_return()) */
    pid_t pid;      /* 0: not visible in our PID namespace */
    bool readable;  /* its memory can be read */
    uint64_t proof; /* coarse time when its token was last found there */
    struct emx_shm_token token;
    int memory_fd;        /* its memory, to check whether the process lives; -1: not opened, or not possible */
    bool no_help;         /* it must not help: its memory cannot be opened, or it cannot write to ours */
    struct emx_list link; /* emx_shm_wire.joining */
};

/* A frame in a backlog. */
struct emx_shm_queued;

/* A ring that this endpoint writes. */
struct emx_shm_out {
    struct emx_shm_port port; /* fd -1: not connected yet */
    struct emx_shm_tx tx;
    uint32_t id;
    int memory_fd; /* -1: sent to the peer */
    bool joined, gone;
    struct emx_shm_owner owner;             /* of a copy from the peer's memory, */
    bool split;                             /* the peer may be helping with it; */
    bool helped;                            /* it helped the last time */
    int err;                                /* errno of the owner's part */
    uint64_t since_ns;                      /* coarse time since when only the peer's share is missing, or 0 */
    bool warned;                            /* that this takes long */
    struct emx_shm_queued *first, **last_p; /* backlog */
    struct emx_list link;                   /* emx_shm_wire.busy: has a backlog, or is not joined */
    struct emx_list view[EMX_SHM_VIEWS];    /* emx_shm_view.of_peer: its memory, by key */
};

struct emx_shm_peer {
    uint32_t id; /* 0: free slot */
    struct emx_shm_in *in;
    struct emx_shm_out *out;
};

struct emx_shm_wire {
    struct emx_wire base;
    struct emx_stats *stats;
    struct emx_shm_port listener;
    int epoll;
    uint32_t id;
    bool reads;
    bool registered; /* for membarrier(2) */
    uint64_t token;  /* random; peers are told it and the address of this field */
    uint64_t guard;  /* of emx_shm_guard_new(); 0: nobody may write here */

    bool awake; /* the readers are AWAKE, not DOZY */
    bool armed;
    unsigned sweeps; /* since the last sleep */

    struct emx_shm_in *near[EMX_SHM_NEAR];
    unsigned near_count;
    unsigned first;  /* the near ring that the next peek begins with */
    unsigned peeked; /* the near ring whose frame was peeked at, */
    uint32_t peeked_bytes;
    struct emx_shm_in **in; /* all that have a ring */
    unsigned in_count, in_capacity;
    unsigned turn;                                         /* the far ring that was polled last */
    unsigned lent;                                         /* frames in use */
    struct emx_shm_in *lender[EMX_SHM_NEAR + EMX_SHM_FAR]; /* their rings */
    unsigned lenders;
    unsigned memories; /* emx_shm_in.memory_fd that are open */

    struct emx_list joining;   /* emx_shm_in without ring */
    struct emx_list busy;      /* emx_shm_out */
    struct emx_list *segments; /* emx_segment.link: what peers may map; NULL: nothing */
    struct emx_list views;     /* emx_shm_view.link, those looked at last are last */

    struct emx_shm_peer *peer; /* hashed by id */
    unsigned peer_count, peer_capacity;
    struct emx_shm_out *reserved; /* between reserve() and commit() */
    struct emx_shm_peer *last;    /* the peer that was sent to last; NULL when the table has moved */
};

/* A destination. */
struct emx_shm_addr {
    uint32_t id;
};

static inline uint32_t emx_shm_id_of(const struct emx_wire_addr *a)
{
    struct emx_shm_addr s;

    memcpy(&s, a, sizeof(s));
    return s.id;
}

#endif
