/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Records of one-sided operations.
 *
 * A record is there from the call until the operation is complete at its target. Its struct emx_op is there until the
 * operation is complete here, which is earlier for a put of a few bytes: these were copied into frames. Records are in
 * a list of their session and in one of the engine, in the order of the calls. A flush is a record too. When it is the
 * first of its list, all before it are complete.
 *
 * Ids are consecutive, except those whose slot is in use, so that one reply can name many operations. None is used
 * twice in 2^32, so a reply that crossed the end of its operation means no later one.
 */
#include <string.h>

#include "core/engine_impl.h"
#include "core/msg/op.h"
#include "core/peer.h"
#include "core/rel/fragment.h"
#include "core/rel/seal.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"
#include "core/rma/rma_record.h"

#define RECORDS 32 /* allocated at a time */

struct emx_rma_engine *emx_rma_engine(struct emx_engine *e)
{
    struct emx_rma_engine *all = e->rma;

    if (all)
        return all;
    all = emx_alloc_get(&e->alloc, sizeof(*all));
    if (!all)
        return NULL;
    memset(all, 0, sizeof(*all));
    emx_pool_init(&all->records, &e->alloc, sizeof(struct emx_rma), RECORDS);
    emx_list_init(&all->all);
    e->rma = all;
    return all;
}

struct emx_rma_peer *emx_rma_peer(struct emx_session *s)
{
    struct emx_rma_peer *p = s->rma;

    if (p)
        return p;
    p = emx_alloc_get(&s->e->alloc, sizeof(*p));
    if (!p)
        return NULL;
    memset(p, 0, sizeof(*p));
    emx_list_init(&p->open);
    emx_list_init(&p->held);
    s->rma = p;
    return p;
}

struct emx_op *emx_rma_new(struct emx_engine *e, struct emx_session *s, enum emx_rma_kind kind,
                           const struct emx_op_args *a, emx_time now)
{
    struct emx_rma *r = emx_pool_get(&e->rma->records);
    struct emx_op *op = r ? emx_op_new(e, a, now) : NULL;

    if (!op) {
        if (r)
            emx_pool_put(&e->rma->records, r);
        return NULL;
    }
    memset(r, 0, sizeof(*r));
    emx_list_init(&r->open);
    emx_list_init(&r->all);
    r->session = s;
    r->kind = (uint8_t)kind;
    r->op = op;
    op->rma = r;
    return op;
}

struct emx_txbuf *emx_rma_buffer(struct emx_session *s, enum emx_frame_type type, size_t body_bytes)
{
    struct emx_txbuf *b;
    size_t len_bytes = sizeof(struct emx_frame) + body_bytes;

    if (len_bytes > s->frame_bytes && !s->fragment.out && !emx_fragment_narrow(s, s->frame_bytes))
        return NULL;
    b = emx_txbuf_get(&s->e->txbufs, len_bytes);
    if (b)
        emx_engine_head(s->e, s->peer, emx_txbuf_frame(b), type, body_bytes);
    return b;
}

void emx_rma_free(struct emx_engine *e, struct emx_rma *r)
{
    emx_list_del(&r->open);
    emx_list_del(&r->all);
    emx_pool_put(&e->rma->records, r);
}

void emx_rma_part(struct emx_rma *r)
{
    r->op->rma = NULL;
    r->op = NULL;
}

/* ---- Ids ---- */

static struct emx_rma **rma_record_slot(struct emx_rma_peer *p, uint32_t id)
{
    return &p->slot[id % EMX_RMA_OPEN_MAX];
}

bool emx_rma_take_id(struct emx_rma *r)
{
    struct emx_rma_peer *p = r->session->rma;

    if (p->ids == EMX_RMA_OPEN_MAX)
        return false;
    while (*rma_record_slot(p, p->next_id))
        p->next_id++;
    r->id = p->next_id++;
    r->has_id = true;
    p->ids++;
    *rma_record_slot(p, r->id) = r;
    return true;
}

struct emx_rma *emx_rma_by_id(const struct emx_session *s, uint32_t id)
{
    struct emx_rma *r = s->rma ? *rma_record_slot(s->rma, id) : NULL;

    return r && r->id == id ? r : NULL;
}

/* Gives free ids to operations that wait for one. */
static void rma_record_release_held(struct emx_session *s)
{
    struct emx_list *l;

    while ((l = emx_list_first(&s->rma->held))) {
        struct emx_op *op = emx_list_entry(l, struct emx_op, link);

        if (!emx_rma_take_id(op->rma))
            return;
        emx_list_del(l);
        emx_op_queue(s, op);
    }
}

/* ---- Flushes ---- */

static int rma_record_take_error(int *error)
{
    int first = *error;

    *error = ETHMX_OK;
    return first;
}

static void rma_record_flushed(struct emx_engine *e, struct emx_rma *r, int *error)
{
    struct emx_op *op = r->op;

    emx_rma_part(r);
    emx_rma_free(e, r);
    emx_op_complete(e, op, rma_record_take_error(error));
}

/* Completes the flushes that have become the first. */
static void rma_record_flush(struct emx_engine *e, struct emx_session *s)
{
    struct emx_list *l;

    while (s && (l = emx_list_first(&s->rma->open)) && emx_list_entry(l, struct emx_rma, open)->kind == EMX_RMA_FLUSH)
        rma_record_flushed(e, emx_list_entry(l, struct emx_rma, open), &s->rma->error);
    while ((l = emx_list_first(&e->rma->all)) && emx_list_entry(l, struct emx_rma, all)->kind == EMX_RMA_FLUSH)
        rma_record_flushed(e, emx_list_entry(l, struct emx_rma, all), &e->rma->error);
}

static int rma_record_wait(struct emx_engine *e, struct emx_peer *peer, struct emx_list *open, ethmx_done_fn done,
                           void *arg, emx_time now)
{
    const struct emx_op_args a = {.done = done, .arg = arg};
    struct emx_op *op = emx_rma_new(e, peer ? peer->session : NULL, EMX_RMA_FLUSH, &a, now);

    if (!op)
        return ETHMX_ERR_NO_MEMORY;
    op->where = EMX_OP_REMOTE;
    emx_list_append(open, peer ? &op->rma->open : &op->rma->all);
    if (peer)
        emx_op_expect(e, op, peer);
    return ETHMX_INPROGRESS;
}

int emx_engine_rma_flush(struct emx_engine *e, struct emx_peer *peer, ethmx_done_fn done, void *arg, emx_time now)
{
    struct emx_session *s = peer ? peer->session : NULL;

    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (!peer) {
        if (!e->rma || emx_list_empty(&e->rma->all))
            return e->rma ? rma_record_take_error(&e->rma->error) : ETHMX_OK;
        return rma_record_wait(e, NULL, &e->rma->all, done, arg, now);
    }
    if (s && s->end_status)
        return s->end_status;
    if (!s || !s->rma)
        return ETHMX_OK;
    if (emx_list_empty(&s->rma->open))
        return rma_record_take_error(&s->rma->error);
    return rma_record_wait(e, peer, &s->rma->open, done, arg, now);
}

/* ---- The end ---- */

void emx_rma_end(struct emx_rma *r)
{
    struct emx_session *s = r->session;
    struct emx_engine *e = s->e;

    if (r->has_id) {
        *rma_record_slot(s->rma, r->id) = NULL;
        s->rma->ids--;
    }
    emx_rma_free(e, r);
    rma_record_release_held(s);
    rma_record_flush(e, s);
}

/* A served operation has ended: nobody here waits for it. Its session may have ended before, while data was read. */
static void rma_record_served(struct emx_engine *e, struct emx_rma *r, struct emx_op *op)
{
    if (r->session->rma)
        r->session->rma->serving--;
    emx_rma_free(e, r);
    emx_op_discard(e, op);
}

/* The first error is kept for a flush. */
static void rma_record_note(struct emx_session *s, int status)
{
    if (!s->rma->error)
        s->rma->error = status;
    if (!s->e->rma->error)
        s->e->rma->error = status;
}

void emx_rma_failed_late(struct emx_rma *r, int status)
{
    rma_record_note(r->session, status);
    emx_rma_end(r);
}

void emx_rma_ended(struct emx_engine *e, struct emx_op *op, int status)
{
    struct emx_rma *r = op->rma;

    emx_rma_part(r);
    if (r->kind == EMX_RMA_SERVE) {
        rma_record_served(e, r, op);
        return;
    }
    if (status && status != ETHMX_ERR_ACCESS) /* the peer has failed: so do flushes */
        rma_record_note(r->session, status);
    if (r->kind == EMX_RMA_FLUSH)
        emx_rma_free(e, r);
    else
        emx_rma_end(r);
}

void emx_rma_stop(struct emx_session *s, int status)
{
    struct emx_engine *e = s->e;
    struct emx_list *l;

    if (!s->rma)
        return;
    while ((l = emx_list_first(&s->rma->open)))
        emx_rma_failed_late(emx_list_entry(l, struct emx_rma, open), status ? status : ETHMX_ERR_CLOSED);
    emx_alloc_put(&e->alloc, s->rma);
    s->rma = NULL;
}

/* ---- Checks ---- */

const char *emx_rma_check_session(const struct emx_session *s)
{
    const struct emx_rma_peer *p = s->rma;
    unsigned ids = 0, used = 0;

    if (!p)
        return NULL;
    emx_list_each(l, &p->open)
    {
        const struct emx_rma *r = emx_list_entry(l, struct emx_rma, open);

        if (r->session != s || (r->op && r->op->rma != r))
            return "one-sided: a record of another session or operation";
        if (r->has_id && emx_rma_by_id(s, r->id) != r)
            return "one-sided: an id that does not lead to its record";
        if (!r->op && (!r->has_id || !r->local))
            return "one-sided: nobody waits for an operation that was not sent";
        ids += r->has_id;
    }
    for (unsigned i = 0; i < EMX_RMA_OPEN_MAX; i++)
        used += p->slot[i] != NULL;
    if (ids != p->ids || used != ids)
        return "one-sided: the count of ids is wrong";
    if (!emx_list_empty(&p->held) && ids < EMX_RMA_OPEN_MAX)
        return "one-sided: operations wait for ids, which are there";
    if (p->owed + p->serving > EMX_RMA_OPEN_MAX)
        return "one-sided: the peer has more operations open than it may";
    return p->done && !emx_list_linked(&p->done->link) ? "one-sided: a reply that takes more is gone" : NULL;
}

const char *emx_rma_check(const struct emx_engine *e)
{
    const struct emx_list *l = e->rma ? emx_list_first(&e->rma->all) : NULL;

    if (l && emx_list_entry(l, struct emx_rma, all)->kind == EMX_RMA_FLUSH)
        return "one-sided: a flush waits for nothing";
    return NULL;
}
