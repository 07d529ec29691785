/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Put and get by the core, and what all its operations share. The origin's data is copied between its place and the
 * frames, contiguous or not. If the target's memory is not contiguous, each contiguous part of it is an operation of
 * the core; if the parts are many and short, all is one active message.
 */
#include "mpidimpl.h"

#include "ethmx_window.h"

#define PARTS_MAX      64
#define PART_BYTES_MIN 512

/* ---- Ends ---- */

static void onesided_note(struct MPIDI_ETHMX_window *w, int status)
{
    if (unlikely(status < 0) && w->status == ETHMX_OK)
        w->status = status;
}

static void onesided_opened(struct MPIDI_ETHMX_target *t)
{
    t->open++;
    t->window->open++;
}

static void onesided_closed(struct MPIDI_ETHMX_target *t)
{
    t->open--;
    t->window->open--;
}

void MPIDI_ETHMX_target_done(void *arg, const struct ethmx_result *result)
{
    struct MPIDI_ETHMX_target *t = arg;

    onesided_note(t->window, result->status);
    onesided_closed(t);
}

int MPIDI_ETHMX_target_started(struct MPIDI_ETHMX_target *t, int status)
{
    if (status == ETHMX_INPROGRESS)
        onesided_opened(t);
    return MPIDI_ETHMX_ERROR(status);
}

int MPIDI_ETHMX_nothing(MPIR_Request **req)
{
    if (req)
        *req = MPIR_Request_create_complete(MPIR_REQUEST_KIND__RMA);
    return MPI_SUCCESS;
}

/* ---- Operations in parts ---- */

struct MPIDI_ETHMX_operation *MPIDI_ETHMX_operation_new(struct MPIDI_ETHMX_target *t, MPIR_Request **req)
{
    struct MPIDI_ETHMX_operation *op = MPL_calloc(1, sizeof(*op), MPL_MEM_RMA);

    if (!op)
        return NULL;
    op->target = t;
    op->parts = 1;
    if (req) {
        op->req = MPIR_Request_create_from_pool(MPIR_REQUEST_KIND__RMA, 0, 2);
        MPIDI_REQUEST_SET_LOCAL(op->req, 0, NULL);
        *req = op->req;
    }
    onesided_opened(t);
    return op;
}

static void operation_end(struct MPIDI_ETHMX_operation *op)
{
    if (op->result && op->status == ETHMX_OK)
        MPIDI_ETHMX_unpack(&op->unpack, 0, op->result, op->result_bytes);
    MPIDI_ETHMX_undescribe(&op->unpack);
    MPIDI_ETHMX_undescribe(&op->strided);
    MPL_free(op->result);
    MPL_free(op->operand);
    onesided_closed(op->target);
    if (!op->req) {
        onesided_note(op->target->window, op->status);
    } else {
        op->req->status.MPI_ERROR = MPIDI_ETHMX_ERROR(op->status);
        MPIDI_ETHMX_complete(op->req);
    }
    MPL_free(op);
}

void MPIDI_ETHMX_operation_done(void *arg, const struct ethmx_result *result)
{
    struct MPIDI_ETHMX_operation *op = arg;

    if (unlikely(result->status < 0) && op->status == ETHMX_OK)
        op->status = result->status;
    if (--op->parts == 0)
        operation_end(op);
}

void MPIDI_ETHMX_operation_part(struct MPIDI_ETHMX_operation *op, int status)
{
    if (status == ETHMX_INPROGRESS)
        op->parts++;
    else if (unlikely(status < 0) && op->status == ETHMX_OK)
        op->status = status;
}

/* An error of an operation with a request is the request's. Otherwise it is told now, and not again. */
int MPIDI_ETHMX_operation_started(struct MPIDI_ETHMX_operation *op)
{
    int status = op->req ? ETHMX_OK : op->status;

    if (--op->parts == 0) {
        if (!op->req)
            op->status = ETHMX_OK;
        operation_end(op);
    }
    return MPIDI_ETHMX_ERROR(status);
}

/* ---- The origin's data ---- */

size_t MPIDI_ETHMX_buffer_bytes(const struct MPIDI_ETHMX_buffer *b, char **contiguous_p)
{
    int is_contig;
    size_t bytes;
    MPI_Aint true_lb;
    MPIR_Datatype *dt;

    MPIDI_Datatype_get_info(b->count, b->datatype, is_contig, bytes, dt, true_lb);
    *contiguous_p = is_contig ? MPIR_get_contig_ptr(b->base, true_lb) : NULL;
    return bytes;
}

char *MPIDI_ETHMX_operation_operand(struct MPIDI_ETHMX_operation *op, const struct MPIDI_ETHMX_buffer *from)
{
    struct ethmx_data data;
    MPIDI_ETHMX_strided_t s;

    if (MPIDI_ETHMX_describe(from->base, from->count, from->datatype, MPIDI_ETHMX_pack, &s, &data) != ETHMX_OK)
        return NULL;
    if (!s.layout)
        return data.base;
    op->operand = MPL_malloc(data.len_bytes, MPL_MEM_RMA);
    if (op->operand)
        MPIDI_ETHMX_pack(&s, 0, op->operand, data.len_bytes);
    MPIDI_ETHMX_undescribe(&s);
    return op->operand;
}

char *MPIDI_ETHMX_operation_result(struct MPIDI_ETHMX_operation *op, const struct MPIDI_ETHMX_buffer *to)
{
    struct ethmx_data data;

    if (MPIDI_ETHMX_describe(to->base, to->count, to->datatype, MPIDI_ETHMX_unpack, &op->unpack, &data) != ETHMX_OK)
        return NULL;
    if (!op->unpack.layout)
        return data.base;
    op->result = MPL_malloc(data.len_bytes, MPL_MEM_RMA);
    op->result_bytes = data.len_bytes;
    return op->result;
}

/* ---- The target's memory ---- */

/* An address of a dynamic window. What is in one attached range is a target like others. */
static int memory_locate(struct MPIDI_ETHMX_memory *m, struct MPIDI_ETHMX_target *t)
{
    struct ethmx_rma_target to;
    int status = MPIDI_ETHMX_dynamic_refresh(t);

    if (status != ETHMX_OK)
        return status;
    m->is_address = m->strided.layout || MPIDI_ETHMX_dynamic_locate(t, m->to.offset, m->len_bytes, &to) < m->len_bytes;
    if (!m->is_address)
        m->to = to;
    return ETHMX_OK;
}

int MPIDI_ETHMX_memory(struct MPIDI_ETHMX_memory *m, struct MPIDI_ETHMX_target *t,
                       const struct MPIDI_ETHMX_place *place)
{
    int is_contig, status = ETHMX_OK;
    MPI_Aint true_lb;
    MPIR_Datatype *dt;

    MPIDI_Datatype_get_info(place->count, place->datatype, is_contig, m->len_bytes, dt, true_lb);
    m->to = (struct ethmx_rma_target){
        .peer = t->peer, .key = t->key, .offset = (uint64_t)(place->disp * t->disp_unit + (is_contig ? true_lb : 0))};
    m->target = t;
    m->is_address = false;
    m->strided.layout = NULL;
    if (unlikely(!is_contig && m->len_bytes > 0 && !MPIDI_ETHMX_strided_begin(&m->strided, NULL, place->datatype, dt)))
        status = ETHMX_ERR_NO_MEMORY;
    if (unlikely(t->window->is_dynamic && m->len_bytes > 0 && status == ETHMX_OK))
        status = memory_locate(m, t);
    return status;
}

size_t MPIDI_ETHMX_memory_part(struct MPIDI_ETHMX_memory *m, size_t offset, struct ethmx_rma_target *to_p)
{
    MPI_Aint at = (MPI_Aint)offset;
    size_t left = m->len_bytes - offset, n = left;

    if (m->strided.layout)
        n = MPIDI_ETHMX_strided_piece(&m->strided, offset, &at);
    *to_p = m->to;
    to_p->offset += (uint64_t)at;
    n = n < left ? n : left;
    return m->is_address ? MPIDI_ETHMX_dynamic_locate(m->target, to_p->offset, n, to_p) : n;
}

static bool onesided_has_many_parts(const struct MPIDI_ETHMX_memory *m)
{
    size_t parts = m->strided.layout ? MPIDI_ETHMX_strided_pieces(&m->strided, m->len_bytes) : 1;

    return parts > PARTS_MAX && m->len_bytes / parts < PART_BYTES_MIN;
}

/* ---- Put and get ---- */

static int onesided_start(bool put, struct MPIDI_ETHMX_target *t, const struct ethmx_rma_target *to,
                          const struct ethmx_data *data, ethmx_done_fn done, void *arg)
{
    struct ethmx_ep *ep = MPIDI_ETHMX_global.ep;

    if (!put)
        return MPIDI_ETHMX_lib.rma_get(ep, to, data, done, arg);
    t->changes++;
    return MPIDI_ETHMX_lib.rma_put(ep, to, data, ETHMX_RMA_LOCAL, done, arg);
}

/* The target's memory is contiguous. */
static int onesided_whole(bool put, struct MPIDI_ETHMX_target *t, struct MPIDI_ETHMX_memory *m,
                          const struct MPIDI_ETHMX_buffer *b, MPIR_Request **req)
{
    struct MPIDI_ETHMX_operation *op;
    MPIDI_ETHMX_strided_t s;
    struct ethmx_data data;
    int status =
        MPIDI_ETHMX_describe(b->base, b->count, b->datatype, put ? MPIDI_ETHMX_pack : MPIDI_ETHMX_unpack, &s, &data);

    if (unlikely(status != ETHMX_OK))
        return MPIDI_ETHMX_ERROR(status);
    if (data.len_bytes > m->len_bytes)
        data.len_bytes = m->len_bytes;
    if (likely(!s.layout && !req))
        return MPIDI_ETHMX_target_started(t, onesided_start(put, t, &m->to, &data, MPIDI_ETHMX_target_done, t));
    op = MPIDI_ETHMX_operation_new(t, req);
    if (!op) {
        MPIDI_ETHMX_undescribe(&s);
        return MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
    }
    op->strided = s;
    data.copy_arg = s.layout ? &op->strided : NULL;
    MPIDI_ETHMX_operation_part(op, onesided_start(put, t, &m->to, &data, MPIDI_ETHMX_operation_done, op));
    return MPIDI_ETHMX_operation_started(op);
}

static int onesided_parts(bool put, struct MPIDI_ETHMX_target *t, struct MPIDI_ETHMX_memory *m,
                          const struct MPIDI_ETHMX_buffer *b, MPIR_Request **req)
{
    struct MPIDI_ETHMX_operation *op = MPIDI_ETHMX_operation_new(t, req);
    struct ethmx_rma_target to;
    size_t n;
    char *data;

    if (!op)
        return MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
    data = put ? MPIDI_ETHMX_operation_operand(op, b) : MPIDI_ETHMX_operation_result(op, b);
    if (!data)
        op->status = ETHMX_ERR_NO_MEMORY;
    for (size_t offset = 0; offset < m->len_bytes && op->status == ETHMX_OK; offset += n) {
        n = MPIDI_ETHMX_memory_part(m, offset, &to);
        if (n == 0) {
            op->status = ETHMX_ERR_ACCESS;
            break;
        }
        MPIDI_ETHMX_operation_part(op, onesided_start(put, t, &to,
                                                      &(struct ethmx_data){.base = data + offset, .len_bytes = n},
                                                      MPIDI_ETHMX_operation_done, op));
    }
    return MPIDI_ETHMX_operation_started(op);
}

/* *many_p: nothing was done, as the target's memory is in many short parts. */
static int onesided_put_or_get(bool put, const struct MPIDI_ETHMX_buffer *b, const struct MPIDI_ETHMX_place *place,
                               MPIR_Win *win, MPIR_Request **req, bool *many_p)
{
    struct MPIDI_ETHMX_target *t = &MPIDI_ETHMX_WINDOW(win)->target[place->rank];
    int mpi_errno = MPI_SUCCESS, status;
    struct MPIDI_ETHMX_memory m;
    char *contiguous;
    size_t bytes;

    *many_p = false;
    MPIDIG_RMA_OP_CHECK_SYNC(place->rank, win);
    MPIDI_ETHMX_LOCK();
    status = MPIDI_ETHMX_memory(&m, t, place);
    bytes = MPIDI_ETHMX_buffer_bytes(b, &contiguous);
    if (bytes < m.len_bytes)
        m.len_bytes = bytes;
    if (unlikely(status != ETHMX_OK))
        mpi_errno = MPIDI_ETHMX_ERROR(status);
    else if (m.len_bytes == 0)
        mpi_errno = MPIDI_ETHMX_nothing(req);
    else if (likely(MPIDI_ETHMX_memory_is_whole(&m)))
        mpi_errno = onesided_whole(put, t, &m, b, req);
    else if (onesided_has_many_parts(&m))
        *many_p = true;
    else
        mpi_errno = onesided_parts(put, t, &m, b, req);
    MPIDI_ETHMX_undescribe(&m.strided);
    MPIDI_ETHMX_UNLOCK();

fn_fail:
    return mpi_errno;
}

int MPIDI_ETHMX_put(const struct MPIDI_ETHMX_buffer *from, const struct MPIDI_ETHMX_place *to, MPIR_Win *win,
                    MPIR_Request **req)
{
    bool many;
    int mpi_errno = onesided_put_or_get(true, from, to, win, req, &many);

    if (likely(!many))
        return mpi_errno;
    if (req)
        return MPIDIG_mpi_rput(from->base, from->count, from->datatype, to->rank, to->disp, to->count, to->datatype,
                               win, req);
    return MPIDIG_mpi_put(from->base, from->count, from->datatype, to->rank, to->disp, to->count, to->datatype, win);
}

int MPIDI_ETHMX_get(const struct MPIDI_ETHMX_buffer *to, const struct MPIDI_ETHMX_place *from, MPIR_Win *win,
                    MPIR_Request **req)
{
    bool many;
    int mpi_errno = onesided_put_or_get(false, to, from, win, req, &many);

    if (likely(!many))
        return mpi_errno;
    if (req)
        return MPIDIG_mpi_rget(to->base, to->count, to->datatype, from->rank, from->disp, from->count, from->datatype,
                               win, req);
    return MPIDIG_mpi_get(to->base, to->count, to->datatype, from->rank, from->disp, from->count, from->datatype, win);
}
