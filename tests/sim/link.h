/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Link: the way of frames from one node to another over one wire, and all that can happen to them there.
 *
 *     engine -> [out port] -> link: faults, delay -> [in port] -> ring of the receiving node
 *
 * A node has an out port per wire (its network card: full means that the engine must wait) and an in port (the
 * switch's port towards it: full means that frames are lost). Links only delay and damage. A frame that is neither
 * picked out for reordering nor doubled or delayed stays in order behind those before it.
 */
#ifndef SIM_LINK_H
#define SIM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "port.h"
#include "core/format/frame.h"
#include "wire/wire.h"

#define SIM_MASK_FRAMES 64 /* frames a drop mask can choose from */
#define SIM_CUTS        4  /* times at which a link is down */

struct sim_world;

enum sim_verdict { SIM_PASS, SIM_DROP, SIM_DUPLICATE, SIM_DELAY };

/* What a verdict hook sees of a frame. */
struct sim_look {
    struct sim_link *link;
    const struct emx_frame *head; /* of data, behind the tag if there is one */
    const uint8_t *data;
    uint32_t len_bytes;
    uint64_t number; /* of the frame on this link, from 0 */
    uint64_t nth;    /* the same among frames of its type */
};

struct sim_faults {
    uint64_t delay_ns, jitter_ns;
    unsigned drop_ppm;
    unsigned burst_ppm; /* chance that a burst starts with a frame */
    uint64_t burst_ns;  /* all frames are lost for so long, at most */
    unsigned duplicate_ppm;
    unsigned reorder_ppm;
    uint64_t reorder_ns; /* how much later a frame picked for it comes, at most */
    unsigned spike_ppm;
    uint64_t spike_ns; /* a frame and all behind it come so much later, at most */
    unsigned corrupt_ppm, truncate_ppm;
    unsigned mark_ppm;  /* with a mark of congestion, whether there is some or not */
    uint32_t max_bytes; /* longer frames vanish; 0: none */
    uint64_t drop_mask; /* bit i: frame mask_first + i of the link is lost */
    uint64_t mask_first;
    struct {
        uint64_t from_ns, until_ns;
    } cut[SIM_CUTS]; /* frames sent meanwhile are lost */
};

struct sim_link {
    struct sim_world *world;
    unsigned src, dst, wire;
    struct sim_faults faults;
    enum sim_verdict (*verdict)(void *arg, const struct sim_look *look, uint64_t *delay_ns_p);
    void *verdict_arg;
    uint64_t number; /* frames so far */
    uint64_t of_type[EMX_F_COUNT];
    uint64_t burst_until_ns;
    uint64_t last_ns; /* when the last frame in order arrives */
};

/* A frame under way: its own memory, no byte longer than the frame, so that reading past its end shows. */
struct sim_frame {
    struct sim_frame *next; /* in the ring of the receiver */
    unsigned src, dst, wire;
    uint32_t len_bytes;
    bool tso;    /* of a TSO packet */
    bool counts; /* its first piece: as in struct emx_rxframe */
    bool joined; /* came in a GSO packet */
    bool marked; /* by a queue on the way */
    uint8_t *data;
};

/* What precedes the header in these bytes of a frame: a tag or nothing. */
static inline size_t sim_tag_bytes(const void *data, size_t len_bytes)
{
    bool tagged =
        len_bytes >= sizeof(struct emx_tag) + sizeof(struct emx_frame) && *(const uint8_t *)data == EMX_FRAME_V_TAGGED;

    return tagged ? sizeof(struct emx_tag) : 0;
}

struct sim_frame *sim_frame_new(unsigned src, unsigned dst, unsigned wire, const void *head, size_t head_bytes,
                                const void *body, size_t body_bytes);
void sim_frame_free(struct sim_frame *f);

/* Sends f, which is the link's from now on, at time at_ns (not before now). */
void sim_link_send(struct sim_link *l, struct sim_frame *f, uint64_t at_ns);

/* Lets a frame that no engine of this world sent arrive at this time, without faults. */
void sim_link_inject(struct sim_link *l, const void *data, size_t len_bytes, uint64_t at_ns);

struct sim_event;
/* Frees the frame of an event that will not happen; other events it leaves alone. */
void sim_link_forget(const struct sim_event *ev);

#endif
