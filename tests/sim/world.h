/* SPDX-License-Identifier: BSD-3-Clause
 *
 * World: one clock, one queue of events, the nodes and the links between them. Everything random comes from its seed;
 * nothing in it knows the machine's clock or addresses of memory, so a seed gives the same history everywhere.
 *
 * What must hold is asserted with sim_fail(): the first failure is kept, and the run stops at the next event.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/hash.h"
#include "link.h"
#include "node.h"
#include "core/engine.h"
#include "queue.h"

#define SIM_MS        1000000ull
#define SIM_S         1000000000ull
#define SIM_NODES_MAX 40

/* Each start of a node's engine is a party: it has an id of its own. */
struct sim_party {
    uint32_t id;
    unsigned node;
};

/* What becomes of GSO packets. */
enum sim_gso {
    SIM_GSO_JOINED, /* they come as they were sent */
    SIM_GSO_CUT,    /* their frames come one by one */
    SIM_GSO_LOST,
    SIM_GSO_PIECES, /* their frames come one by one, but an interface has made them of TSO packets */
    SIM_GSO_NO_TSO, /* TSO packets are lost, the others come as they were sent */
};

struct sim_world {
    uint64_t now_ns;
    uint64_t step; /* counts what happens within one instant, too */
    struct sim_queue queue;
    uint64_t seed;
    struct emx_rng rng;
    struct emx_config cfg; /* for nodes that start from now on */
    unsigned node_count, wire_count;
    struct sim_node *nodes;
    struct sim_link *links; /* by (src, dst, wire) */
    uint32_t frame_bytes[EMX_ENGINE_LINKS];
    uint32_t gso_bytes; /* longest frame of a GSO packet on any wire; 0: there are none */
    enum sim_gso gso;
    bool tso;                         /* these may be TSO packets: every other seed */
    uint64_t tso_frames, tso_packets; /* sent in frames of several chunks; these */
    uint64_t gso_frames, data_frames; /* sent; gso ones are among data */
    bool reliable;                    /* routes say so, and rings lose nothing; links must be without faults */
    bool connected;                   /* routes say so; with lend_first: those of wire 0 */
    bool reads;                       /* routes offer to read the sender's memory */
    uint64_t export_min_bytes;        /* routes offer devices that read messages from this length on; 0: they do not */
    const struct emx_costs *export_costs; /* NULL: routes say nothing of it */
    bool lend_new;                        /* all memory is new: nothing is found registered */
    bool lend_sure;                       /* what is registered is always found */
    bool lend_first;                      /* over the first wire only */
    bool lend_mixed;                      /* each node chooses by chance who moves large messages to it */
    uint64_t lend_bytes;                  /* what is lent in one piece at most */
    unsigned lend_fail_ppm;               /* of memory that cannot be lent */
    unsigned sever_ppm;                   /* of reads by devices under which the connection breaks */
    struct sim_lent *lent;                /* what is, see device.c */
    uint64_t lent_count;
    uint32_t *epoch;   /* by two nodes: connections that have ended */
    uint32_t *ended;   /* by node and other node: those of which nothing is taken any more there */
    uint64_t read_bps; /* how fast; 0: in no time */
    unsigned read_fail_ppm;
    uint64_t read_slow_ns; /* some reads take up to so long, and something is written until then */
    /* Does a read by n of another node's memory; ETHMX_OK or an error. */
    int (*read)(void *arg, struct sim_node *n, struct sim_node *from, const struct emx_wire_read *r);
    void *read_arg;
    bool maps; /* processes map each other's regions */
    /* The region with this key, if n has mapped it; or NULL. */
    struct emx_view *(*view)(void *arg, struct sim_node *n, struct sim_node *owner, uint64_t key);
    void *view_arg;
    bool mad;            /* nodes may be lied to by others: what is written then is nobody's fault */
    uint64_t resolve_ns; /* the answer to EMX_EVENT_ROUTES takes up to so long */
    uint32_t cookie;
    bool brief;         /* a launcher tells nodes what a first hello needs, and not the best routes */
    uint8_t more_bytes; /* by which the headers of all wires are longer than those of IPv4 and UDP */
    unsigned guesses;   /* ways of a wire to a node: one leads there, and chance chooses which; 0: as 1 */
    bool auth;          /* frames carry tags, unless the wires are reliable */
    struct sim_party party[SIM_PARTIES_MAX];
    unsigned party_count;

    unsigned check_every; /* emx_engine_check() after so many events of a node */
    size_t skew_bytes;    /* of the engines' memory */
    bool trace;           /* print what happens */
    uint64_t hash;        /* of what happened */
    char failure[1024];   /* what was violated first; "": nothing */
};

/* Nodes are there but not started. */
void sim_world_init(struct sim_world *w, uint64_t seed, unsigned nodes, unsigned wires);
void sim_world_fini(struct sim_world *w);

struct sim_link *sim_world_link(struct sim_world *w, unsigned src, unsigned dst, unsigned wire);
void sim_world_start(struct sim_world *w);                                   /* all nodes */
void sim_world_faults(struct sim_world *w, const struct sim_faults *faults); /* on all links */
/* Who judges each frame of every link from now on; NULL: nobody. */
void sim_world_judge(struct sim_world *w, enum sim_verdict (*verdict)(void *, const struct sim_look *, uint64_t *),
                     void *arg);
void sim_world_rate(struct sim_world *w, uint64_t rate_bps, size_t out_bytes, size_t in_bytes); /* of all ports */
/* No frames between the nodes of the set (bit i: node i) and the others in this time. slot: which of SIM_CUTS. */
void sim_world_cut(struct sim_world *w, uint64_t set, unsigned slot, uint64_t from_ns, uint64_t until_ns);

/* Ends the connection between the devices of two nodes. */
void sim_world_break(struct sim_world *w, unsigned a, unsigned b);

/* The party that has this id, or -1. */
int sim_world_party(const struct sim_world *w, uint32_t id);

/* Lets things happen until done(arg) is true; false on a failure, which is also: nothing pending any more (what says
 * what was waited for), or the time limit_ns reached. */
bool sim_world_run(struct sim_world *w, bool (*done)(void *arg), void *arg, uint64_t limit_ns, const char *what);
/* Lets things happen up to this time. */
bool sim_world_run_until(struct sim_world *w, uint64_t at_ns);

void sim_fail(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool sim_failed(const struct sim_world *w)
{
    return w->failure[0];
}

/* A line of the trace, and a number of its hash. */
void sim_say(struct sim_world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void sim_hash(struct sim_world *w, uint64_t value)
{
    w->hash = emx_mix64(w->hash ^ value) + 0x9e3779b97f4a7c15ull;
}

#define sim_trace(w, ...)                                                                                              \
    do {                                                                                                               \
        if ((w)->trace)                                                                                                \
            sim_say(w, __VA_ARGS__);                                                                                   \
    } while (0)

#endif
