/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Program: what simulated programs do with their engines, and the reference model of what must come of it.
 *
 * Every message sent and every receive posted is on record. A completed receive tells by its content which message it
 * got; from this alone follows whether MPI's rules were kept, without knowing when frames arrived (see model.c).
 */
#ifndef SIM_PROGRAM_H
#define SIM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"
#include "world.h"

#define SIM_ANY       -1
#define SIM_FULL_MASK UINT64_MAX
#define SIM_UNTAGGED  (UINT64_C(1) << 63) /* in bits, with sim_program.untagged: of an untagged message */

struct sim_program;

/* A message sent, tagged or active. */
struct sim_message {
    struct sim_program *program;
    uint64_t ident;
    unsigned src, dst; /* parties */
    uint64_t bits;     /* active: the handler's number */
    size_t len_bytes;
    enum ethmx_send_mode mode;
    bool is_am;
    size_t am_header_bytes;
    struct sim_buffer *data; /* NULL: over */
    bool refused;            /* by the call itself: never sent */
    bool open;
    int status;
    uint64_t sent_step, done_step, handled_step; /* handled: given to the handler */
    struct sim_receive *receive;                 /* who got it, */
    bool doubtful;                               /* or perhaps another did (model.c) */
};

enum sim_receive_state { SIM_OPEN, SIM_DONE, SIM_CANCELED, SIM_FAILED };

/* A receive: posted, or of a message taken by a probe, or of an active message. Released messages stand here, too. */
struct sim_receive {
    struct sim_program *program;
    struct sim_node *node;
    unsigned party;
    int from; /* party, or SIM_ANY */
    uint64_t bits, mask;
    size_t room_bytes;
    struct sim_buffer *data; /* NULL: over */
    struct emx_op *op;
    struct emx_unexpected *kept; /* active: to be received later */
    enum sim_receive_state state;
    bool is_am, released;
    bool canceling; /* the engine has agreed to cancel it */
    bool bound;     /* it has matched for certain: cancel was refused, or it was taken by a probe */
    uint64_t posted_step, done_step, cancel_step;
    int status;
    unsigned src; /* of the message it got, with its bits and length */
    uint64_t got_bits;
    size_t msg_bytes;
    struct sim_message *message; /* known from the content; otherwise found by its rank in the end */
    uint8_t head[8];             /* of messages too short to say which they are */
    size_t head_bytes;
};

struct sim_program {
    struct sim_world *world;
    struct emx_rng rng;
    struct sim_message **message;
    size_t message_count, message_room;
    struct sim_receive **receive;
    size_t receive_count, receive_room;
    struct sim_junkyard junk;
    bool busy;           /* more operations will come */
    size_t open;         /* operations under way, active messages not handled, messages kept */
    size_t failed;       /* operations that ended with an error that is allowed */
    bool content;        /* contents must be right */
    bool remotes;        /* some messages have remote data: their ident */
    bool untagged;       /* some messages are untagged; all masks have SIM_UNTAGGED */
    bool no_memory;      /* operations may fail with ETHMX_ERR_NO_MEMORY */
    bool in_order;       /* active messages are handled in the order sent, of whatever handler */
    bool keeps;          /* handlers may keep a message for later */
    bool loses;          /* the engines may be gone: do not miss what has not come */
    uint64_t am_open_ns; /* handlers with odd numbers are registered from then on; earlier messages are deferred */
    bool doomed[SIM_PARTIES_MAX];                /* operations with these parties may fail */
    void (*then)(void *arg, struct sim_node *n); /* an operation of the node has completed */
    void *then_arg;
};

void sim_program_init(struct sim_program *p, struct sim_world *w, uint64_t seed);
/* Frees all; fails the world if a buffer was used after its operation. */
void sim_program_fini(struct sim_program *p);

/* Each of these leaves moving frames to a following sim_node_pump(). NULL: refused with an error that is allowed, or
 * the world has failed. */
struct sim_message *sim_send(struct sim_program *p, struct sim_node *n, unsigned dst, uint64_t bits, size_t len_bytes,
                             enum ethmx_send_mode mode, enum sim_shape shape);
struct sim_message *sim_am(struct sim_program *p, struct sim_node *n, unsigned dst, unsigned id, size_t header_bytes,
                           size_t len_bytes, enum sim_shape shape);
struct sim_receive *sim_recv(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                             size_t room_bytes, enum sim_shape shape);
void sim_cancel(struct sim_receive *r);

/* Probes; on success receives what was found, with all the room it needs, or gives it back unread. */
bool sim_probe_recv(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                    enum sim_shape shape);
bool sim_take_recv(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                   enum sim_shape shape);
bool sim_take_release(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask);

/* Messages sent to this party, less those that a receive has got or has coming for certain. space: 0 or SIM_UNTAGGED.
 */
long sim_missing(const struct sim_program *p, unsigned party, uint64_t space);
/* SIM_UNTAGGED in bits, if that means something. */
uint64_t sim_space(const struct sim_program *p, uint64_t bits);

/* Lets time pass until all operations have completed and all engines are drained. */
bool sim_program_run(struct sim_program *p, uint64_t limit_ns);
/* One line for people about what is still open. */
void sim_program_open_text(const struct sim_program *p, char *text, size_t text_bytes);

/* Forgets what a party that is gone had open. */
void sim_program_bury(struct sim_program *p, unsigned party);

/* The model: fails the world if the receives could not have come out so by MPI's rules. model.c */
void sim_model_check(struct sim_program *p);
/* Whether a receive could have taken a message. */
bool sim_fits(const struct sim_receive *r, const struct sim_message *m);

#endif
