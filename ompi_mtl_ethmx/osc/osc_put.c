/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Put and get. Data that is contiguous on both sides is one operation of ethmx, from and to its place. Otherwise each
 * segment at the target is one; data that is not contiguous here is packed first, or unpacked in the end.
 */
#include "osc_ethmx.h"

struct transfer {
    bool is_get;
    void *origin;
    size_t origin_count;
    ompi_datatype_t *origin_type;
    int rank;
    ptrdiff_t disp;
    size_t target_count;
    ompi_datatype_t *target_type;
    size_t len_bytes;
};

static int transfer_start(const struct transfer *x, struct osc_ethmx_target *t, const struct ethmx_rma_target *there,
                          void *here, size_t len_bytes, enum ethmx_rma_mode mode, ethmx_done_fn done, void *arg)
{
    const struct ethmx_data data = {.base = here, .len_bytes = len_bytes};
    if (x->is_get) {
        return ethmx_rma_get(t->module->ep, there, &data, done, arg);
    }
    osc_ethmx_sends(t);
    return ethmx_rma_put(t->module->ep, there, &data, mode, done, arg);
}

static int transfer_single(const struct transfer *x, struct osc_ethmx_target *t, void *here,
                           const struct ethmx_rma_target *there)
{
    osc_ethmx_single_begin(t);
    int status = transfer_start(x, t, there, here, x->len_bytes, ETHMX_RMA_LOCAL, osc_ethmx_single_done, t);
    return osc_ethmx_error(osc_ethmx_single_begun(t, status));
}

/* One segment; in a dynamic window several regions may have it. */
static int transfer_segment(const struct transfer *x, struct osc_ethmx_op *op, char *here, uint64_t address,
                            size_t len_bytes, bool last)
{
    int rc = OMPI_SUCCESS;
    while (OMPI_SUCCESS == rc && len_bytes > 0) {
        struct ethmx_rma_target there;
        size_t n = len_bytes;
        rc = osc_ethmx_locate(op->target, address, &n, &there);
        if (OMPI_SUCCESS == rc) {
            osc_ethmx_op_begin(op);
            int status = transfer_start(x, op->target, &there, here, n, osc_ethmx_op_mode(op, last && n == len_bytes),
                                        osc_ethmx_op_done, op);
            rc = osc_ethmx_error(osc_ethmx_op_begun(op, status));
        }
        here += n;
        address += n;
        len_bytes -= n;
    }
    return rc;
}

static int transfer_parts(const struct transfer *x, struct osc_ethmx_op *op, char *here,
                          struct osc_ethmx_segments *segments)
{
    uint64_t address;
    size_t len_bytes;
    int rc = OMPI_SUCCESS;
    while (OMPI_SUCCESS == rc && osc_ethmx_segments_next(segments, &address, &len_bytes)) {
        rc = transfer_segment(x, op, here, address, len_bytes, 0 == segments->left_bytes);
        here += len_bytes;
    }
    return rc;
}

/* Makes packed data of what is not contiguous here. */
static void *transfer_stage(const struct transfer *x, struct osc_ethmx_op *op)
{
    void *packed = malloc(x->len_bytes);
    if (NULL == packed) {
        return NULL;
    }
    if (!x->is_get) {
        op->operand = packed;
        osc_ethmx_pack(packed, x->len_bytes, x->origin, x->origin_count, x->origin_type);
    } else {
        op->fetched = packed;
        op->fetched_count = x->len_bytes;
        osc_ethmx_op_result(op, x->origin, x->origin_count, x->origin_type);
    }
    return packed;
}

static int transfer_general(const struct transfer *x, struct osc_ethmx_op *op, void *here, uint64_t address)
{
    struct osc_ethmx_segments segments;
    if (0 == x->len_bytes) {
        return OMPI_SUCCESS;
    }
    if (NULL == here) {
        here = transfer_stage(x, op);
        if (NULL == here) {
            return OMPI_ERR_OUT_OF_RESOURCE;
        }
    }
    osc_ethmx_segments_init(&segments, address, x->target_count, x->target_type);
    int rc = transfer_parts(x, op, here, &segments);
    osc_ethmx_segments_fini(&segments);
    return rc;
}

/* request_p: NULL, or of MPI_Rput and MPI_Rget. */
static int transfer(const struct transfer *x, struct ompi_win_t *win, ompi_request_t **request_p)
{
    struct osc_ethmx_target *t;
    uint64_t address = 0;
    int rc = osc_ethmx_access(osc_ethmx_module(win), x->rank, &t);
    if (OMPI_SUCCESS == rc && x->len_bytes > 0) {
        rc = osc_ethmx_address(t, x->disp, &address);
    }
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc)) {
        return rc;
    }
    if (NULL == request_p && 0 == x->len_bytes) {
        return OMPI_SUCCESS;
    }
    void *here = osc_ethmx_contiguous(x->origin, x->origin_count, x->origin_type);
    void *there = osc_ethmx_contiguous((void *)(uintptr_t)address, x->target_count, x->target_type);
    struct ethmx_rma_target to;
    if (NULL == request_p && NULL != here && NULL != there &&
        OMPI_SUCCESS == osc_ethmx_locate_all(t, (uintptr_t)there, x->len_bytes, &to)) {
        return transfer_single(x, t, here, &to);
    }
    struct osc_ethmx_op *op = osc_ethmx_op_new(win, t, request_p);
    if (NULL == op) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    return osc_ethmx_op_started(op, transfer_general(x, op, here, address), request_p);
}

int osc_ethmx_rput(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                   ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win,
                   ompi_request_t **request_p)
{
    const struct transfer x = {false,
                               (void *)origin,
                               (size_t)origin_count,
                               origin_type,
                               rank,
                               disp,
                               (size_t)target_count,
                               target_type,
                               (size_t)origin_count * origin_type->super.size};
    return transfer(&x, win, request_p);
}

int osc_ethmx_rget(void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank, ptrdiff_t disp,
                   osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win,
                   ompi_request_t **request_p)
{
    const struct transfer x = {true,
                               origin,
                               (size_t)origin_count,
                               origin_type,
                               rank,
                               disp,
                               (size_t)target_count,
                               target_type,
                               (size_t)origin_count * origin_type->super.size};
    return transfer(&x, win, request_p);
}

int osc_ethmx_put(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                  ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win)
{
    return osc_ethmx_rput(origin, origin_count, origin_type, rank, disp, target_count, target_type, win, NULL);
}

int osc_ethmx_get(void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank, ptrdiff_t disp,
                  osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win)
{
    return osc_ethmx_rget(origin, origin_count, origin_type, rank, disp, target_count, target_type, win, NULL);
}
