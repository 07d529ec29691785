/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Exported memory: memory of a message that devices reach. The sending side of RDMA get, and the receiving side of RDMA
 * put. Progress does what is queued with emx_exported_queue().
 */
#ifndef EMX_CORE_EXPORTED_H
#define EMX_CORE_EXPORTED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/engine.h"
#include "core/format/frame.h"
#include "core/time.h"

struct emx_op;
struct emx_session;
struct emx_txbuf;

#define EMX_PUTS 2 /* parts of a message that are requested (rtr) and not told of, see rdma_put.c */

enum emx_put_state {
    EMX_PUT_READY,
    EMX_PUT_TAKEN, /* a device writes */
    EMX_PUT_OVER,
};

/* A part of a message that is to be written to the receiver's memory, see rdma_put.c. The receiver knows only from
 * where to where. */
struct emx_put {
    uint64_t remote, key, offset, end; /* remote: of the message */
    struct emx_txbuf *answer;
    uint32_t rop;
    uint8_t state;  /* enum emx_put_state */
    uint8_t status; /* then: enum emx_put_status */
};

/* Memory of a message that devices reach: the sending side, see rdma_get.c, or the receiving side, see rdma_put.c. */
struct emx_exported {
    struct emx_list link;  /* in engine.exports while progress has something to do for it */
    struct emx_list write; /* sends: in engine.writes while there is something to be written */
    struct emx_session *session;
    struct emx_wire_addr to;  /* of the session when this began, */
    uint8_t on;               /* and its link: it may have left them */
    struct emx_op *op;        /* NULL: it is over */
    struct emx_txbuf *rts;    /* waits for its key; NULL: it has got it, or must do without */
    struct emx_txbuf *answer; /* to the receiver, who has asked; NULL: has not */
    void *held;               /* the wire's: what is exposed of the message */
    uint64_t key, from, end;  /* a piece that is exposed, and the receiver was not told; end 0: there is none. Of a
                                 receive: key is that of what is unproven */
    uint64_t asked_from;      /* what the receiver asked for last: from here, */
    uint64_t done_bytes;      /* and it has so much */
    uint32_t rop;             /* its operation */
    uint8_t what;             /* enum emx_export_what: to be done, while linked */
    bool failed;              /* nobody must reach what is held any more, when it is taken back */
    bool unproven;            /* receives: a write has failed, which may still come */
    uint8_t put_count;        /* not answered, the oldest first: */
    struct emx_put puts[EMX_PUTS];
};

bool emx_exported_start(struct emx_session *s, struct emx_op *op); /* false: no, or no memory */
void emx_exported_announced(struct emx_op *op, struct emx_txbuf *rts);
struct emx_exported *emx_exported_new(struct emx_session *s, struct emx_op *op); /* NULL: no memory */
void emx_exported_free(struct emx_exported *l);
void emx_exported_queue(struct emx_exported *l,
                        enum emx_export_what what); /* progress is to do this, and nothing else */
void emx_exported_unqueue(struct emx_exported *l);
void emx_exported_over(struct emx_op *op, int status); /* the operation is complete */
enum emx_drop emx_exported_input_rkey_request(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_exported_no_write(struct emx_exported *l);    /* nothing of it is to be written now */
void emx_exported_forget_puts(struct emx_exported *l); /* what was requested and not answered */
/* Progress has, or no longer has, something to do over the link. */
void emx_exported_has_work(struct emx_engine *e, unsigned link);
void emx_exported_no_work(struct emx_engine *e, unsigned link);

#endif
