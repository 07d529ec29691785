/* SPDX-License-Identifier: BSD-3-Clause
 *
 * RDMA get: large messages that the receiver's device reads from the sender's memory into its own.
 *
 * A device accesses only memory that is registered with it, by a key. Registration takes time and is done by progress
 * (emx_engine_export()), so it must not delay the message. The sender first looks up what is still registered. If that
 * is the beginning of the message, the rts carries its key. If not, the rts leaves without a key, and the sender
 * registers while it is in flight. The receiver reads what it has a key for, part by part. It requests the key to the
 * next part (rkey_request, sequenced) as soon as the device works on the current one. The reply (rkey_reply, sequenced)
 * has the next key, or says that the rest is to be pulled in frames. So a part is registered while the one before is
 * read. Each request also says how much data has arrived, and the sender unexports that. fin ends the message as
 * always.
 *
 *     sender                                   receiver
 *     still registered? ----- rts, key ------> match, register, read part 1
 *     register part 2   <- rkey_request 2 ----
 *                       -- rkey_reply, key --> read part 2
 *                       <---- fin ------------
 *
 * Reads end later (emx_engine_read_ended()), those over one connection in their order. A failed read means only that
 * its connection has broken. The receiver requests a key again from what it has, and the sender's engine replies over
 * another connection, or not at all. After some tries the rest is pulled.
 *
 * No device may access memory that the program has back. A receive whose peer has died completes when the reads in
 * progress have ended, and ending the connection makes them end. A send that fails also ends the connection before the
 * program is notified. Keys are valid for one connection only (the wire ensures that), so a receiver that was away for
 * a while cannot read the memory any more, and cannot mistake its new content for the message.
 */
#include <string.h>

#include "base/threshold.h"
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/exported.h"
#include "core/msg/op.h"
#include "core/msg/rdma_get.h"
#include "core/msg/rdma_put.h"
#include "core/msg/rdma_threshold.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define TRIES 3 /* failed attempts to read a message, before it is pulled */
#define AHEAD 2 /* parts in progress at the device while the next key is requested */

/* ---- Sender ---- */

bool emx_exported_start(struct emx_session *s, struct emx_op *op)
{
    return emx_rdma_threshold_wanted(s, &op->data) && emx_exported_new(s, op);
}

void emx_exported_announced(struct emx_op *op, struct emx_txbuf *rts)
{
    op->exported->rts = rts;
    rts->unready = true;
    emx_exported_queue(op->exported, EMX_EXPORT_FOUND);
}

/* The end of the rts. */
static struct emx_f_lent *get_in_rts(const struct emx_exported *l)
{
    return (void *)(l->rts->frame + l->rts->len_bytes - sizeof(struct emx_f_lent));
}

static void get_release_rts(struct emx_exported *l)
{
    l->rts->unready = false;
    l->rts = NULL;
    emx_session_ready(l->session);
}

/* Nothing of the message can be exported: announces it without a key. */
static void get_announce_plainly(struct emx_exported *l)
{
    struct emx_frame *h = emx_txbuf_frame(l->rts);
    struct emx_f_rts *t = (struct emx_f_rts *)(h + 1);

    t->flags &= (uint16_t)~EMX_FF_LENT;
    h->body_bytes = (uint16_t)(h->body_bytes - sizeof(struct emx_f_lent));
    l->rts->len_bytes = (uint16_t)(l->rts->len_bytes - sizeof(struct emx_f_lent));
    get_release_rts(l);
    l->op->exported = NULL;
    emx_exported_free(l);
}

static void get_found(struct emx_exported *l, const struct emx_export *m, int status)
{
    emx_rdma_threshold_learn(l->session, l->op->msg_bytes, status == ETHMX_OK && m->kept);
    emx_exported_unqueue(l);
    if (status == ETHMX_OK) {
        get_in_rts(l)->key = m->key;
        get_in_rts(l)->len_bytes = m->end;
        get_release_rts(l);
    } else if (status == ETHMX_INPROGRESS) {
        get_release_rts(l);
        emx_exported_queue(l, EMX_EXPORT);
    } else {
        get_announce_plainly(l);
    }
}

static bool get_has_part(const struct emx_exported *l)
{
    return l->from <= l->asked_from && l->asked_from < l->end;
}

/* Sends the reply. len_bytes 0: pull the rest. */
static void get_answer(struct emx_exported *l, uint64_t len_bytes)
{
    struct emx_frame *h = emx_txbuf_frame(l->answer);

    emx_engine_head(l->session->e, l->session->peer, h, EMX_F_rkey_reply, sizeof(struct emx_f_rkey_reply));
    *(struct emx_f_rkey_reply *)(h + 1) =
        (struct emx_f_rkey_reply){.rop = l->rop, .offset = l->asked_from, .key = l->key, .len_bytes = len_bytes};
    emx_send_window_control(l->session, l->answer);
    l->answer = NULL;
    l->end = 0;
}

static void get_lent(struct emx_exported *l, const struct emx_export *m, int status)
{
    emx_exported_unqueue(l);
    if (status == ETHMX_OK) {
        l->key = m->key;
        l->from = m->offset;
        l->end = m->end;
    }
    if (!l->answer)
        return; /* no request has arrived yet */
    if (status == ETHMX_OK && !get_has_part(l))
        emx_exported_queue(l, EMX_EXPORT); /* the request is for another part */
    else
        get_answer(l, status == ETHMX_OK ? l->end - l->asked_from : 0);
}

enum emx_drop emx_exported_input_rkey_request(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rkey_request *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->op, s);
    struct emx_exported *l;

    (void)now;
    if (!op || !op->is_send || op->where != EMX_OP_ANNOUNCED || !op->exported || op->exported->rts)
        return EMX_ACCEPTED;
    l = op->exported;
    if (f->offset >= op->msg_bytes || f->done_bytes > f->offset)
        return EMX_DROP_MALFORMED;
    if (!l->answer &&
        !(l->answer = emx_txbuf_get(&s->e->txbufs, sizeof(struct emx_frame) + sizeof(struct emx_f_rkey_reply))))
        return EMX_DROP_MEMORY;
    l->rop = f->rop;
    l->asked_from = f->offset;
    l->done_bytes = f->done_bytes;
    if (!f->again && get_has_part(l) && !emx_list_linked(&l->link))
        get_answer(l, l->end - l->asked_from);
    else
        emx_exported_queue(l, EMX_EXPORT);
    return EMX_ACCEPTED;
}

/* ---- Receiver ---- */

static void get_queue_read(struct emx_session *s, struct emx_rndv *r)
{
    emx_list_append(&s->e->reads[s->link], &r->wait);
    s->e->ready_flags.reads |= 1u << s->link;
}

static void get_unqueue_read(struct emx_session *s, struct emx_rndv *r)
{
    emx_list_del(&r->wait);
    emx_read_ended(s->e, s->link);
}

/* Requests a key from lent_bytes on. false: no memory. */
static bool get_ask(struct emx_session *s, struct emx_rndv *r)
{
    struct emx_txbuf *b = emx_txbuf_get(&s->e->txbufs, sizeof(struct emx_frame) + sizeof(struct emx_f_rkey_request));
    struct emx_frame *h;

    if (!b)
        return false;
    h = emx_txbuf_frame(b);
    emx_engine_head(s->e, s->peer, h, EMX_F_rkey_request, sizeof(struct emx_f_rkey_request));
    *(struct emx_f_rkey_request *)(h + 1) = (struct emx_f_rkey_request){.op = r->sender_op,
                                                                        .rop = r->op->id,
                                                                        .offset = r->lent_bytes,
                                                                        .done_bytes = r->read_bytes,
                                                                        .again = r->tries != 0};
    emx_send_window_control(s, b);
    r->asked = true;
    return true;
}

bool emx_get_start(struct emx_session *s, struct emx_rndv *r, const struct emx_f_lent *lent)
{
    if (!lent->remote || !s->get.min_bytes || s->state != EMX_S_CONNECTED || !emx_data_contiguous(&r->op->data))
        return false;
    if (s->e->cfg->p_verbs_move == EMX_MOVE_WRITE)
        return emx_put_start(s, r);
    r->remote = lent->remote;
    r->key = lent->key;
    r->lent_bytes = emx_min(lent->len_bytes, r->want_bytes);
    if (!r->lent_bytes && !get_ask(s, r))
        return false;
    r->reading = r->by_get = true;
    if (r->lent_bytes)
        get_queue_read(s, r);
    return true;
}

static void get_pull_rest(struct emx_session *s, struct emx_rndv *r, emx_time now)
{
    r->reading = r->by_get = false;
    emx_rndv_pull_rest(s->e, r, r->read_bytes, now);
}

/* Starts no further reads. */
static void get_end_reads(struct emx_session *s, struct emx_rndv *r, emx_time now)
{
    r->last = true;
    if (!r->op->reading)
        get_pull_rest(s, r, now);
}

/* All reads have ended, and not all successfully: tries again from what was read. */
static void get_try_again(struct emx_session *s, struct emx_rndv *r, emx_time now)
{
    if (emx_list_linked(&r->wait))
        get_unqueue_read(s, r);
    r->broken = false;
    r->started_bytes = r->lent_bytes = r->read_bytes;
    if (r->last || r->tries >= TRIES || s->state != EMX_S_CONNECTED) {
        get_pull_rest(s, r, now);
        return;
    }
    r->tries++;
    if (!get_ask(s, r))
        get_pull_rest(s, r, now);
}

static void get_ask_for_more(struct emx_session *s, struct emx_rndv *r)
{
    if (!r->asked && !r->broken && !r->last && r->started_bytes == r->lent_bytes && r->lent_bytes < r->want_bytes &&
        r->op->reading < AHEAD)
        get_ask(s, r); /* without memory: when the next read ends, or as below */
}

enum emx_drop emx_get_input_rkey_reply(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_rkey_reply *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->rop, s);
    struct emx_rndv *r;

    if (!op || op->is_send || op->where != EMX_OP_PULLING || !op->rndv->by_get)
        return EMX_ACCEPTED;
    r = op->rndv;
    if (!r->asked || r->broken || r->last || f->offset != r->lent_bytes)
        return EMX_ACCEPTED;
    r->asked = false;
    if (!f->len_bytes) {
        get_end_reads(s, r, now);
        return EMX_ACCEPTED;
    }
    r->key = f->key;
    r->lent_bytes += emx_min(f->len_bytes, r->want_bytes - r->lent_bytes);
    get_queue_read(s, r);
    return EMX_ACCEPTED;
}

void emx_get_next(const struct emx_rndv *r, struct emx_read *rd)
{
    const struct emx_op *op = r->op;

    *rd = (struct emx_read){.from = &op->peer->session->to,
                            .remote = r->remote + r->started_bytes,
                            .local = (char *)op->data.base + r->started_bytes,
                            .len_bytes = r->lent_bytes - r->started_bytes,
                            .op = r->op,
                            .key = r->key,
                            .message = op->data.base,
                            .message_bytes = r->want_bytes};
}

void emx_engine_read_started(struct emx_engine *e, const struct emx_read *rd, int status, emx_time now)
{
    struct emx_op *op = rd->op;
    struct emx_rndv *r = op->rndv;
    struct emx_session *s = op->peer->session;

    if (rd->write) {
        emx_put_write_started(op, status);
        return;
    }
    get_unqueue_read(s, r);
    if (status == ETHMX_OK) {
        op->reading++;
        e->ready_flags.in_flight++;
        r->started_bytes += rd->len_bytes;
        get_ask_for_more(s, r);
        return;
    }
    if (status != ETHMX_INPROGRESS) {
        get_end_reads(s, r, now);
        return;
    }
    r->broken = true;
    if (!op->reading)
        get_try_again(s, r, now);
}

static void get_read_done(struct emx_session *s, struct emx_op *op, uint64_t len_bytes, emx_time now)
{
    struct emx_rndv *r = op->rndv;

    emx_add(s->e, bytes_read, len_bytes);
    r->read_bytes += len_bytes;
    if (r->read_bytes == r->want_bytes) {
        emx_rndv_finish(s, op);
        return;
    }
    get_ask_for_more(s, r);
    if (op->reading)
        return;
    if (r->last || (!r->asked && r->started_bytes == r->lent_bytes))
        get_pull_rest(s, r, now); /* it was the last read, or there was no memory for a request */
}

/* The link over which devices access an operation's memory. */
static unsigned get_link_of(const struct emx_op *op)
{
    return op->exported ? op->exported->on : op->peer->session->link;
}

static void get_severed(struct emx_engine *e, struct emx_op *op)
{
    if (emx_list_linked(&op->link)) {
        emx_list_del(&op->link);
        emx_exported_no_work(e, get_link_of(op));
    }
    emx_op_complete(e, op, op->status);
}

/* Reads over a later connection may end before those over an earlier one. Then the data before this read is missing. */
static bool get_is_next(const struct emx_rndv *r, uint64_t remote)
{
    return remote == r->remote + r->read_bytes;
}

void emx_engine_read_ended(struct emx_engine *e, struct emx_op *op, uint64_t remote, uint64_t len_bytes, int status,
                           emx_time now)
{
    struct emx_rndv *r = op->rndv;

    op->reading--;
    e->ready_flags.in_flight--;
    if (op->where == EMX_OP_QUIESCING) {
        if (!op->reading)
            get_severed(e, op);
        return;
    }
    if (op->is_send) {
        emx_put_write_ended(op, remote, len_bytes, status);
        return;
    }
    if (status == ETHMX_OK && !r->broken && get_is_next(r, remote)) {
        get_read_done(op->peer->session, op, len_bytes, now);
        return;
    }
    if (!r->broken)
        emx_count(e, reads_failed);
    r->broken = true;
    if (!op->reading)
        get_try_again(op->peer->session, r, now);
}

void emx_get_moved(struct emx_session *s, emx_time now)
{
    emx_list_each(l, &s->peer->ops)
    {
        struct emx_op *op = emx_list_entry(l, struct emx_op, peer_link);

        if (op->where == EMX_OP_PULLING && op->rndv->by_put)
            emx_put_moved(op);
        if (op->where != EMX_OP_PULLING || !op->rndv->by_get)
            continue;
        if (emx_list_linked(&op->rndv->wait))
            get_unqueue_read(s, op->rndv);
        get_end_reads(s, op->rndv, now);
    }
}

bool emx_get_sever(struct emx_engine *e, struct emx_op *op, int status)
{
    struct emx_session *s = op->peer->session; /* of an operation that reads; others may have none */

    if (!op->reading)
        return emx_put_sever(op, status);
    emx_op_hold(e, op, status);
    if (!op->exported && !s->get.min_bytes)
        return true; /* the session has left that link, because its connection is gone: the reads end by themselves */
    emx_list_append(&e->disconnects[get_link_of(op)], &op->link);
    emx_exported_has_work(e, get_link_of(op));
    return true;
}

/* ---- Work for progress ---- */

static bool get_next_disconnect(struct emx_engine *e, unsigned link, struct emx_export *m)
{
    struct emx_list *l = emx_list_pop(&e->disconnects[link]);
    const struct emx_op *op;

    if (!l)
        return false;
    op = emx_list_entry(l, struct emx_op, link);
    *m = (struct emx_export){.what = EMX_EXPORT_DISCONNECT,
                             .to = op->exported ? &op->exported->to : &op->peer->session->to};
    emx_exported_no_work(e, link);
    return true;
}

bool emx_engine_export(struct emx_engine *e, unsigned link, struct emx_export *m)
{
    struct emx_list *first = emx_list_first(&e->exports[link]);
    struct emx_exported *l;

    if (get_next_disconnect(e, link, m))
        return true;
    if (!first)
        return false;
    l = emx_list_entry(first, struct emx_exported, link);
    *m = (struct emx_export){.what = l->what, .to = &l->to, .held = &l->held, .exported = l};
    if (l->what == EMX_UNEXPORT) {
        m->disconnect = l->failed && l->held;
        m->keyed = l->op; /* of a receive */
        m->key = l->key;
        return true;
    }
    m->base = l->op->data.base;
    m->write = !l->op->is_send;
    m->len_bytes = m->write ? l->op->rndv->want_bytes : l->op->msg_bytes;
    m->offset = m->write ? l->op->rndv->lent_bytes : l->answer ? l->asked_from : 0;
    m->done_bytes = m->write ? l->op->rndv->read_bytes : l->done_bytes;
    return true;
}

void emx_engine_export_done(struct emx_engine *e, const struct emx_export *m, int status, emx_time now)
{
    (void)e;
    switch (m->what) {
    case EMX_EXPORT_FOUND:
        get_found(m->exported, m, status);
        break;
    case EMX_EXPORT:
        if (m->write)
            emx_put_exposed(m->exported, m, status);
        else
            get_lent(m->exported, m, status);
        break;
    case EMX_UNEXPORT:
        if (m->exported->op)
            emx_put_taken_back(m->exported, now);
        else
            emx_exported_free(m->exported);
        break;
    case EMX_EXPORT_DISCONNECT:
        break;
    }
}
