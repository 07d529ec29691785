/* SPDX-License-Identifier: BSD-3-Clause
 *
 * RDMA put: large messages that the sender's device writes from its memory into the receiver's. The mirror of
 * rdma_get.c, for receivers with ETHMX_VERBS_MOVE=write. The sender announces the message as always.
 *
 * The receiver exports its own memory, a part at a time, and requests the part with a key (rtr, sequenced). The
 * sender's device writes there, and when that has ended the sender replies (put_done, sequenced). Two parts may be
 * requested at once, so that the next is registered at both ends while the one before is written. fin ends the message
 * as always.
 *
 *     sender                                   receiver
 *     register          ----- rts -----------> match, register part 1
 *     write part 1      <---- rtr part 1 -----
 *                       <---- rtr part 2 ----- register part 2
 *                       ----- put_done ------> part 1 has arrived
 *     write part 2
 *                       ----- put_done ------> part 2 has arrived
 *                       <---- fin ------------
 *
 * Each rtr gets one reply, in order: the part was written (and nothing of it is still to come, the wire ensures that),
 * was refused before the write began, its key was stale, or the write failed. After a failure, data in flight on a
 * broken connection may still be written. So memory is the receiver's again only when each write that may have begun
 * has provably ended, or when the receiver has ended its own end of the connection that the memory was requested over.
 * Progress does the latter (EMX_UNEXPORT with disconnect), even if the connection seems gone. Only then is the rest of
 * the message requested again or pulled, or the receive completed. The same holds for a receive whose peer has died,
 * and for one whose peer is now reached another way.
 *
 * After a failure there may be no connection for an rtr. So an empty rtr goes first, and its reply shows that there is
 * one again.
 *
 * A send that fails, or that gets a fin early, completes when its writes have ended.
 */
#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/exported.h"
#include "core/msg/op.h"
#include "core/msg/rdma_put.h"
#include "core/msg/rndv.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define TRIES 3 /* failed attempts to write a message, before it is pulled */

static struct emx_put put_take_first(struct emx_exported *l)
{
    struct emx_put o = l->puts[0];

    l->put_count--;
    memmove(&l->puts[0], &l->puts[1], l->put_count * sizeof(l->puts[0]));
    return o;
}

/* ---- Receiver ---- */

bool emx_put_start(struct emx_session *s, struct emx_rndv *r)
{
    struct emx_exported *l = emx_exported_new(s, r->op);

    if (!l)
        return false;
    r->reading = r->by_put = true;
    emx_exported_queue(l, EMX_EXPORT);
    return true;
}

/* Requests the part up to end. false: no memory. */
static bool put_send_rtr(struct emx_exported *l, uint64_t key, uint64_t end)
{
    struct emx_session *s = l->session;
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, sizeof(struct emx_frame) + sizeof(struct emx_f_rtr));
    struct emx_rndv *r = l->op->rndv;
    struct emx_frame *h;

    if (!b)
        return false;
    h = emx_txbuf_frame(b);
    emx_engine_head(s->e, s->peer, h, EMX_F_rtr, sizeof(struct emx_f_rtr));
    *(struct emx_f_rtr *)(h + 1) = (struct emx_f_rtr){.op = r->sender_op,
                                                      .rop = r->op->id,
                                                      .remote = (uintptr_t)r->op->data.base,
                                                      .key = key,
                                                      .offset = r->lent_bytes,
                                                      .len_bytes = end - r->lent_bytes};
    emx_send_window_control(s, b);
    l->puts[l->put_count++] = (struct emx_put){.key = key, .offset = r->lent_bytes, .end = end};
    r->lent_bytes = end;
    return true;
}

/* Unexports the memory. Nothing is requested until that is done. */
static void put_take_back(struct emx_exported *l)
{
    l->failed = l->unproven;
    emx_exported_queue(l, EMX_UNEXPORT);
}

/* A part may still be written. Of several keys the last is enough: the connections of earlier ones have ended here. */
static void put_may_come(struct emx_exported *l, const struct emx_put *o)
{
    l->unproven = true;
    l->key = o->key;
}

/* Ignores further replies. Returns whether anything may still be written. */
static bool put_forsake(struct emx_exported *l)
{
    for (unsigned i = 0; i < l->put_count; i++) {
        if (l->puts[i].end > l->puts[i].offset)
            put_may_come(l, &l->puts[i]);
    }
    l->put_count = 0;
    return l->unproven;
}

/* Unexports the memory when all requests have replies and no more are to be sent with it. */
static void put_settle(struct emx_exported *l)
{
    const struct emx_rndv *r = l->op->rndv;

    if (!l->put_count && (r->last || r->broken))
        put_take_back(l);
}

static void put_ask_more(struct emx_exported *l)
{
    const struct emx_rndv *r = l->op->rndv;

    if (!r->last && !r->broken && l->put_count < EMX_PUTS && r->lent_bytes < r->want_bytes &&
        !emx_list_linked(&l->link))
        emx_exported_queue(l, EMX_EXPORT);
}

void emx_put_exposed(struct emx_exported *l, const struct emx_export *m, int status)
{
    struct emx_rndv *r = l->op->rndv;

    emx_exported_unqueue(l);
    if (r->last || r->broken)
        ; /* too late */
    else if (status == ETHMX_INPROGRESS)
        r->broken = true; /* there is no connection */
    else if (status != ETHMX_OK || !put_send_rtr(l, m->key, emx_min(m->end, r->want_bytes)))
        r->last = true;
    put_settle(l);
    put_ask_more(l);
}

void emx_put_taken_back(struct emx_exported *l, emx_time now)
{
    struct emx_session *s = l->session;
    struct emx_op *op = l->op;
    struct emx_rndv *r = op->rndv;

    emx_exported_unqueue(l);
    l->failed = l->unproven = false;
    if (op->where == EMX_OP_QUIESCING) {
        emx_op_complete(s->e, op, op->status);
        return;
    }
    r->broken = false;
    r->lent_bytes = r->read_bytes;
    if (!r->last && r->tries < TRIES && s->state == EMX_S_CONNECTED && put_send_rtr(l, 0, r->lent_bytes)) {
        r->tries++;
        return;
    }
    op->exported = NULL;
    emx_exported_free(l);
    r->reading = r->by_put = false;
    emx_rndv_pull_rest(s->e, r, r->read_bytes, now);
}

static void put_told(struct emx_exported *l, const struct emx_put *o, enum emx_put_status status)
{
    struct emx_rndv *r = l->op->rndv;

    if (status == EMX_PUT_DONE && o->offset == r->read_bytes)
        r->read_bytes = o->end; /* otherwise data before it is missing */
    r->last |= status == EMX_PUT_DONE_REFUSED;
    r->broken |= status != EMX_PUT_DONE && status != EMX_PUT_DONE_REFUSED;
    if (status == EMX_PUT_DONE_FAILED)
        put_may_come(l, o);
}

enum emx_drop emx_put_input_done(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_put_done *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->rop, s);
    struct emx_put o;
    struct emx_exported *l;

    (void)now;
    if (!op || op->is_send || op->where != EMX_OP_PULLING || !op->rndv->by_put || !op->exported->put_count)
        return EMX_ACCEPTED;
    l = op->exported;
    if (f->end != l->puts[0].end || f->status >= EMX_PUT_DONE_COUNT)
        return EMX_DROP_MALFORMED;
    o = put_take_first(l);
    put_told(l, &o, f->status);
    if (op->rndv->read_bytes == op->rndv->want_bytes) {
        emx_rndv_finish(s, op);
        return EMX_ACCEPTED;
    }
    put_settle(l);
    put_ask_more(l);
    return EMX_ACCEPTED;
}

void emx_put_moved(struct emx_op *op)
{
    struct emx_exported *l = op->exported;

    op->rndv->last = true;
    put_forsake(l);
    put_take_back(l);
}

bool emx_put_sever(struct emx_op *op, int status)
{
    struct emx_exported *l = op->exported;

    if (op->is_send || !l || !put_forsake(l))
        return false;
    emx_op_hold(l->session->e, op, status);
    put_take_back(l);
    return true;
}

/* ---- Sender ---- */

/* The first part in this state, or NULL. */
static struct emx_put *put_first(struct emx_exported *l, enum emx_put_state state)
{
    for (unsigned i = 0; i < l->put_count; i++) {
        if (l->puts[i].state == state)
            return &l->puts[i];
    }
    return NULL;
}

static void put_answer(struct emx_session *s, const struct emx_put *o)
{
    struct emx_frame *h = emx_txbuf_frame(o->answer);

    emx_engine_head(s->e, s->peer, h, EMX_F_put_done, sizeof(struct emx_f_put_done));
    *(struct emx_f_put_done *)(h + 1) = (struct emx_f_put_done){.rop = o->rop, .status = o->status, .end = o->end};
    emx_send_window_control(s, o->answer);
}

/* Sends replies for ended parts, in the order of requests. */
static void put_answer_all(struct emx_exported *l)
{
    while (l->put_count && l->puts[0].state == EMX_PUT_OVER) {
        const struct emx_put o = put_take_first(l);

        put_answer(l->session, &o);
    }
}

static void put_end_rtr(struct emx_exported *l, struct emx_put *o, enum emx_put_status status)
{
    o->state = EMX_PUT_OVER;
    o->status = (uint8_t)status;
    put_answer_all(l);
}

static void put_queue_write(struct emx_exported *l)
{
    struct emx_engine *e = l->session->e;

    if (!emx_list_linked(&l->write))
        emx_list_append(&e->writes[l->on], &l->write);
    e->ready_flags.reads |= 1u << l->on;
}

static bool put_is_valid(const struct emx_op *op, const struct emx_f_rtr *f)
{
    return f->offset <= op->msg_bytes && f->len_bytes <= op->msg_bytes - f->offset &&
           f->remote <= UINT64_MAX - op->msg_bytes && op->exported->put_count < EMX_PUTS;
}

enum emx_drop emx_put_input(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rtr *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->op, s);
    struct emx_put *o;
    struct emx_txbuf *b;
    struct emx_exported *l;

    (void)now;
    if (!op || !op->is_send || op->where != EMX_OP_ANNOUNCED || !op->exported || op->exported->rts)
        return EMX_ACCEPTED;
    l = op->exported;
    if (!put_is_valid(op, f))
        return EMX_DROP_MALFORMED;
    b = emx_txbuf_get(&s->e->txbufs, sizeof(struct emx_frame) + sizeof(struct emx_f_put_done));
    if (!b)
        return EMX_DROP_MEMORY;
    o = &l->puts[l->put_count++];
    *o = (struct emx_put){.remote = f->remote,
                          .key = f->key,
                          .offset = f->offset,
                          .end = f->offset + f->len_bytes,
                          .answer = b,
                          .rop = f->rop};
    if (!f->len_bytes)
        put_end_rtr(l, o, EMX_PUT_DONE);
    else if (l->on != s->link || !s->get.min_bytes)
        put_end_rtr(l, o, EMX_PUT_DONE_REFUSED); /* this side uses another link now */
    else
        put_queue_write(l);
    return EMX_ACCEPTED;
}

bool emx_put_next(struct emx_engine *e, unsigned link, struct emx_read *w)
{
    struct emx_list *first_loan = emx_list_first(&e->writes[link]);
    const struct emx_put *o;
    struct emx_exported *l;

    if (!first_loan)
        return false;
    l = emx_list_entry(first_loan, struct emx_exported, write);
    o = put_first(l, EMX_PUT_READY);
    *w = (struct emx_read){.from = &l->to,
                           .remote = o->remote + o->offset,
                           .local = (char *)l->op->data.base + o->offset,
                           .len_bytes = o->end - o->offset,
                           .op = l->op,
                           .key = o->key,
                           .message = l->op->data.base,
                           .message_bytes = l->op->msg_bytes,
                           .write = true};
    return true;
}

void emx_put_write_started(struct emx_op *op, int status)
{
    struct emx_exported *l = op->exported;
    struct emx_put *o = put_first(l, EMX_PUT_READY);

    if (status == ETHMX_OK) {
        o->state = EMX_PUT_TAKEN;
        op->reading++;
        l->session->e->ready_flags.in_flight++;
    } else {
        put_end_rtr(l, o, status == ETHMX_INPROGRESS ? EMX_PUT_DONE_STALE : EMX_PUT_DONE_REFUSED);
    }
    emx_exported_no_write(l);
    if (put_first(l, EMX_PUT_READY))
        put_queue_write(l); /* behind the other messages */
}

/* The part being written at `remote`: writes over several connections end in any order. */
static struct emx_put *put_taken(struct emx_exported *l, uint64_t remote)
{
    struct emx_put *o = l->puts;

    while (o->state != EMX_PUT_TAKEN || o->remote + o->offset != remote)
        o++;
    return o;
}

void emx_put_write_ended(struct emx_op *op, uint64_t remote, uint64_t len_bytes, int status)
{
    struct emx_engine *e = op->exported->session->e;
    struct emx_put *o = put_taken(op->exported, remote);

    if (status == ETHMX_OK)
        emx_add(e, bytes_written, len_bytes);
    else
        emx_count(e, writes_failed);
    put_end_rtr(op->exported, o,
                status == ETHMX_OK                ? EMX_PUT_DONE
                : status == ETHMX_ERR_UNREACHABLE ? EMX_PUT_DONE_FAILED
                                                  : EMX_PUT_DONE_REFUSED);
}
