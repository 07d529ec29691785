/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads: large messages between processes of one host, copied once, from the sender's memory into the receiver's.
 *
 * If the route can read, the rts has the address of contiguous data. A receive that matches it requests reads instead
 * of blocks, part by part, in turn with other messages, and ends with fin as always. The sender is not involved. If a
 * read fails, the message is pulled from where it is, and so are all others of this peer from then on.
 *
 * The sender does not confirm a read, so it is not certain that the data is still the message. A sender that has
 * declared this side dead has told its program, which may reuse the memory. That can only happen if this side was
 * silent for peer_timeout. So data counts only if no two consecutive frames to the sender, and the last one and now,
 * are further apart than half of that. After such a *lapse* (the process was stopped, or made no progress) messages are
 * pulled, which requires the sender's engine. A reply proves that the sender has not declared this side dead, and the
 * next message is read again.
 *
 * A read may take many rounds of progress, while the sender and this side copy together (the shm wire). So a receive
 * whose read is in progress at the wire is not completed, even if the peer fails: the program would have its memory
 * back while it is written. The receive fails when progress reports the end of the read.
 *
 * Data for non-contiguous memory passes a small buffer, which stays in the processor's cache.
 */
#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/event.h"
#include "core/msg/data.h"
#include "core/msg/lapse.h"
#include "core/msg/op.h"
#include "core/msg/rdma_get.h"
#include "core/msg/rdma_put.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/session.h"

#define PIECE_BYTES     1048576 /* longest read: other peers are served in between */
#define SCATTERED_BYTES 65536   /* the same for reads through the buffer */

uint64_t emx_read_address(const struct emx_session *s, const struct emx_op *op)
{
    return s->read.on && emx_data_contiguous(&op->data) ? (uintptr_t)op->data.base : 0;
}

/* ---- Requesting ---- */

bool emx_read_start(struct emx_session *s, struct emx_rndv *r, uint64_t remote, emx_time now)
{
    struct emx_engine *e = s->e;

    if (!remote || !s->read.on || s->state != EMX_S_CONNECTED || !emx_lapse_none(s, now))
        return false;
    r->reading = true;
    r->remote = remote;
    r->read_bytes = 0;
    emx_list_append(&e->reads[s->link], &r->wait);
    e->ready_flags.reads |= 1u << s->link;
    return true;
}

/* Whole chunks, so that the rest can be pulled and no byte is written twice. */
static uint64_t read_part_bytes(const struct emx_rndv *r, uint64_t most)
{
    uint64_t chunks = most > r->chunk_bytes ? most / r->chunk_bytes : 1;

    return emx_min(r->want_bytes - r->read_bytes, chunks * r->chunk_bytes);
}

/* Chooses the destination: the program's memory if it is contiguous there, else the buffer. */
static bool read_place(struct emx_engine *e, const struct emx_rndv *r, struct emx_read *rd)
{
    rd->len_bytes = read_part_bytes(r, emx_min(PIECE_BYTES, e->cfg->p_pull_window));
    rd->local = (void *)(uintptr_t)emx_data_piece(&r->op->data, r->read_bytes, rd->len_bytes);
    rd->lasting = rd->local;
    if (rd->local)
        return true;
    rd->len_bytes = read_part_bytes(r, SCATTERED_BYTES);
    rd->local = emx_engine_stage(e, 0);
    return rd->local;
}

/* Pulls this message in frames from now on. */
static void read_fall_back(struct emx_engine *e, struct emx_rndv *r, emx_time now)
{
    emx_list_del(&r->wait);
    r->reading = false;
    emx_read_ended(e, r->op->peer->session->link);
    emx_rndv_pull_rest(e, r, r->read_bytes, now);
}

bool emx_engine_read(struct emx_engine *e, unsigned link, struct emx_read *rd)
{
    struct emx_list *l = emx_list_first(&e->reads[link]);
    struct emx_rndv *r;

    if (!l)
        return emx_put_next(e, link, rd);
    r = emx_list_entry(l, struct emx_rndv, wait);
    if (r->by_get) {
        emx_get_next(r, rd);
        return true;
    }
    *rd = (struct emx_read){.from = &r->op->peer->session->to, .remote = r->remote + r->read_bytes, .op = r->op};
    if (!read_place(e, r, rd))
        rd->len_bytes = 0; /* no memory: a read of nothing reports that nothing was read */
    r->in_hand = true;
    return true;
}

/* ---- Results ---- */

/* The peer cannot be read: its other messages do not try. */
static void read_stop(struct emx_session *s, emx_time now)
{
    struct emx_engine *e = s->e;

    emx_lapse_set(&s->read, false);
    emx_list_each_safe(l, next, &e->reads[s->link])
    {
        struct emx_rndv *r = emx_list_entry(l, struct emx_rndv, wait);

        if (r->op->peer == s->peer)
            read_fall_back(e, r, now);
    }
    emx_event_post(e, EMX_EVENT_NOTE, s->peer, ETHMX_OK,
                   "the memory of a process on this host cannot be read (another user, a container, or ptrace is "
                   "restricted): large messages from it are copied twice");
}

bool emx_read_late(struct emx_op *op, int status)
{
    if (op->where != EMX_OP_PULLING || !op->rndv->in_hand)
        return false;
    emx_list_del(&op->peer_link);
    op->rndv->ends = (int8_t)status;
    return true;
}

static void read_end_late(struct emx_engine *e, struct emx_op *op)
{
    int status = op->rndv->ends;

    emx_rndv_drop(e, op);
    emx_op_complete(e, op, status);
}

void emx_engine_read_done(struct emx_engine *e, const struct emx_read *rd, int status, emx_time now)
{
    struct emx_op *op = rd->op;
    struct emx_rndv *r = op->rndv;
    struct emx_session *s = op->peer->session;

    r->in_hand = false;
    if (r->ends) {
        read_end_late(e, op);
        return;
    }
    if (status != ETHMX_OK) {
        emx_count(e, reads_failed);
        read_stop(s, now);
        return;
    }
    if (!rd->len_bytes || !emx_lapse_none(s, now)) {
        read_fall_back(e, r, now);
        return;
    }
    if (rd->local == e->stage)
        emx_data_write(&op->data, r->read_bytes, rd->local, rd->len_bytes);
    emx_add(e, bytes_read, rd->len_bytes);
    r->read_bytes += rd->len_bytes;
    emx_list_del(&r->wait);
    if (r->read_bytes < r->want_bytes)
        emx_list_append(&e->reads[s->link], &r->wait); /* behind the other messages */
    else
        emx_rndv_finish(s, op);
    emx_read_ended(e, s->link);
}
