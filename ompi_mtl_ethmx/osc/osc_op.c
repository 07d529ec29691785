/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations under way, and requests of MPI. An operation is complete when its data may be overwritten or has arrived;
 * completion at the target is what flushes wait for. Errors that come later than the call are kept for the next
 * flush, unlock, fence or complete, unless a request reports them.
 */
#include "osc_ethmx.h"

/* More than this at one target: the call makes progress first. */
#define OPEN_MAX 4096
#define TOGETHER 32 /* parts of an operation whose frames leave together */

/* ---- Requests --------------------------------------------------------------------------------------------- */

static int request_free(ompi_request_t **request_p)
{
    ompi_request_t *request = *request_p;
    if (REQUEST_COMPLETED != request->req_complete) {
        return MPI_ERR_REQUEST;
    }
    OMPI_REQUEST_FINI(request);
    OBJ_RELEASE(request);
    *request_p = MPI_REQUEST_NULL;
    return OMPI_SUCCESS;
}

static int request_cancel(ompi_request_t *request, int complete)
{
    (void)request, (void)complete;
    return MPI_ERR_REQUEST;
}

static ompi_request_t *request_new(struct ompi_win_t *win)
{
    ompi_request_t *request = OBJ_NEW(ompi_request_t);
    if (NULL == request) {
        return NULL;
    }
    OMPI_REQUEST_INIT(request, false);
    request->req_type = OMPI_REQUEST_WIN;
    request->req_state = OMPI_REQUEST_ACTIVE;
    request->req_free = request_free;
    request->req_cancel = request_cancel;
    request->req_mpi_object.win = win;
    request->req_status = (ompi_status_public_t){.MPI_SOURCE = MPI_ANY_SOURCE, .MPI_TAG = MPI_ANY_TAG};
    return request;
}

static void request_complete(ompi_request_t *request, int status)
{
    int rc = osc_ethmx_error(status);
    request->req_status.MPI_ERROR = OMPI_SUCCESS == rc ? MPI_SUCCESS : ompi_errcode_get_mpi_code(rc);
    ompi_request_complete(request, true);
}

/* ---- Operations of a single part -------------------------------------------------------------------------- */

static void target_error(struct osc_ethmx_target *t, int status)
{
    int none = ETHMX_OK;
    (void)__atomic_compare_exchange_n(&t->status, &none, status, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void osc_ethmx_single_begin(struct osc_ethmx_target *t)
{
    if (OPAL_UNLIKELY(__atomic_add_fetch(&t->open, 1, __ATOMIC_RELAXED) > OPEN_MAX)) {
        while (__atomic_load_n(&t->open, __ATOMIC_RELAXED) > OPEN_MAX / 2) {
            opal_progress();
        }
    }
}

int osc_ethmx_single_begun(struct osc_ethmx_target *t, int status)
{
    if (ETHMX_INPROGRESS != status) {
        __atomic_sub_fetch(&t->open, 1, __ATOMIC_RELEASE);
    }
    return status;
}

void osc_ethmx_single_done(void *target, const struct ethmx_result *result)
{
    struct osc_ethmx_target *t = target;
    if (OPAL_UNLIKELY(ETHMX_OK != result->status)) {
        target_error(t, result->status);
    }
    __atomic_sub_fetch(&t->open, 1, __ATOMIC_RELEASE);
}

/* ---- Others ----------------------------------------------------------------------------------------------- */

struct osc_ethmx_op *osc_ethmx_op_new(struct ompi_win_t *win, struct osc_ethmx_target *t, ompi_request_t **request_p)
{
    struct osc_ethmx_op *op = calloc(1, sizeof(*op));
    if (NULL == op) {
        return NULL;
    }
    if (NULL != request_p) {
        op->request = request_new(win);
        if (NULL == op->request) {
            free(op);
            return NULL;
        }
    }
    op->target = t;
    op->parts = 1;
    osc_ethmx_single_begin(t);
    return op;
}

void osc_ethmx_op_result(struct osc_ethmx_op *op, void *result, size_t count, ompi_datatype_t *type)
{
    op->result = result;
    op->result_count = count;
    op->result_type = type;
    OMPI_DATATYPE_RETAIN(type);
}

/* Fetched data goes to its place. */
static void op_deliver(struct osc_ethmx_op *op)
{
    if (ETHMX_OK != op->status || NULL == op->result_type) {
        return;
    }
    if (NULL == op->fetched_type) {
        osc_ethmx_unpack(op->fetched, op->fetched_count, op->result, op->result_count, op->result_type);
    } else {
        (void)ompi_datatype_sndrcv(op->fetched, (int32_t)op->fetched_count, op->fetched_type, op->result,
                                   (int32_t)op->result_count, op->result_type);
    }
}

/* A part is over, or the start. The last one ends the operation. */
static void op_part_over(struct osc_ethmx_op *op)
{
    if (0 != __atomic_sub_fetch(&op->parts, 1, __ATOMIC_ACQ_REL)) {
        return;
    }
    op_deliver(op);
    if (NULL != op->result_type) {
        OMPI_DATATYPE_RELEASE_NO_NULLIFY(op->result_type);
    }
    struct osc_ethmx_target *t = op->target;
    if (NULL != op->request) {
        request_complete(op->request, op->status);
    } else if (ETHMX_OK != op->status) {
        target_error(t, op->status);
    }
    free(op->operand);
    free(op->fetched);
    free(op);
    __atomic_sub_fetch(&t->open, 1, __ATOMIC_RELEASE);
}

void osc_ethmx_op_begin(struct osc_ethmx_op *op)
{
    __atomic_add_fetch(&op->parts, 1, __ATOMIC_RELAXED);
}

enum ethmx_rma_mode osc_ethmx_op_mode(struct osc_ethmx_op *op, bool last)
{
    return last || 0 == ++op->begun % TOGETHER ? ETHMX_RMA_LOCAL : ETHMX_RMA_LOCAL | ETHMX_RMA_MORE;
}

int osc_ethmx_op_begun(struct osc_ethmx_op *op, int status)
{
    if (ETHMX_INPROGRESS != status) {
        __atomic_sub_fetch(&op->parts, 1, __ATOMIC_RELAXED);
    }
    return status;
}

void osc_ethmx_op_done(void *arg, const struct ethmx_result *result)
{
    struct osc_ethmx_op *op = arg;
    if (OPAL_UNLIKELY(ETHMX_OK != result->status)) {
        int none = ETHMX_OK;
        (void)__atomic_compare_exchange_n(&op->status, &none, result->status, false, __ATOMIC_RELAXED,
                                          __ATOMIC_RELAXED);
    }
    op_part_over(op);
}

int osc_ethmx_op_started(struct osc_ethmx_op *op, int rc, ompi_request_t **request_p)
{
    if (NULL == op) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    if (NULL != request_p) {
        if (OMPI_SUCCESS == rc) {
            *request_p = op->request;
        } else { /* what was started is not reported */
            OBJ_RELEASE(op->request);
            op->request = NULL;
        }
    }
    op_part_over(op);
    return rc;
}
