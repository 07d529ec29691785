/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Exported memory: message memory that devices access. The sending side of RDMA get, and the receiving side of RDMA
 * put. Progress executes what is queued with emx_exported_queue().
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

#define EMX_PUTS 2 /* parts of a message that are requested (rtr) without a put_done yet, see rdma_put.c */

enum emx_put_state {
    EMX_PUT_READY,
    EMX_PUT_TAKEN, /* a device is writing */
    EMX_PUT_OVER,
};

/* A part of a message to be written to the receiver's memory, see rdma_put.c. The receiver sets only key, offset and
 * end. */
struct emx_put {
    uint64_t remote, key, offset, end; /* remote: of the message */
    struct emx_txbuf *answer;
    uint32_t rop;
    uint8_t state;  /* enum emx_put_state */
    uint8_t status; /* in state EMX_PUT_OVER: enum emx_put_status */
};

/* Message memory that devices access: at the sender, see rdma_get.c, or at the receiver, see rdma_put.c. */
struct emx_exported {
    struct emx_list link;  /* in engine.exports while progress has work for it */
    struct emx_list write; /* sends: in engine.writes while a part is to be written */
    struct emx_session *session;
    struct emx_wire_addr to;  /* the session's address when this began, */
    uint8_t on;               /* and its link: the session may have left them */
    struct emx_op *op;        /* NULL: the operation has ended */
    struct emx_txbuf *rts;    /* waits for its key; NULL: it has left, or is sent without */
    struct emx_txbuf *answer; /* reply to the receiver's request; NULL: no request */
    void *held;               /* of the wire: what is exported of the message */
    uint64_t key, from, end;  /* an exported part that the receiver does not know; end 0: none. For a receive, key is
                                 that of an unproven write */
    uint64_t asked_from;      /* start of the receiver's last request */
    uint64_t done_bytes;      /* received so far, from the same request */
    uint32_t rop;             /* the receiver's operation */
    uint8_t what;             /* enum emx_export_what: while linked, work for progress */
    bool failed;              /* end the connection before the memory is unexported */
    bool unproven;            /* receives: a write has failed, and may still change memory */
    uint8_t put_count;        /* without a reply, oldest first */
    struct emx_put puts[EMX_PUTS];
};

bool emx_exported_start(struct emx_session *s, struct emx_op *op); /* false: no, or no memory */
void emx_exported_announced(struct emx_op *op, struct emx_txbuf *rts);
struct emx_exported *emx_exported_new(struct emx_session *s, struct emx_op *op); /* NULL: out of memory */
void emx_exported_free(struct emx_exported *l);
void emx_exported_queue(struct emx_exported *l,
                        enum emx_export_what what); /* progress must do this, and nothing else */
void emx_exported_unqueue(struct emx_exported *l);
void emx_exported_over(struct emx_op *op, int status); /* the operation has completed */
enum emx_drop emx_exported_input_rkey_request(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_exported_no_write(struct emx_exported *l);    /* nothing of it is to be written now */
void emx_exported_forget_puts(struct emx_exported *l); /* drops requests without a reply */
/* Progress has, or no longer has, work for the link. */
void emx_exported_has_work(struct emx_engine *e, unsigned link);
void emx_exported_no_work(struct emx_engine *e, unsigned link);

#endif
