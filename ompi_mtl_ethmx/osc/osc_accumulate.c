/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates, fetches, compare and swap, of types that ethmx has: it does them atomically, in the order of the calls.
 * A type's accumulates are either all done here or all by osc_locked.c, since neither is atomic with regard to the
 * other.
 *
 * The operand is an array of elements of the primitive datatype, with its gaps (MPI_DOUBLE_INT has one); so is what is
 * fetched. Data that has this form already stays where it is.
 */
#include "osc_ethmx.h"

#include <string.h>

/* ---- Elements at the target ------------------------------------------------------------------------------- */

/* Runs of consecutive elements, from segments. */
struct runs {
    struct osc_ethmx_segments segments;
    uint64_t address; /* the rest of a segment */
    size_t len_bytes;
    size_t size, extent; /* of an element; with a gap behind it, or inside, extent is longer */
};

/* Skips len_bytes of the packed data. */
static void runs_skip(struct runs *r, size_t len_bytes)
{
    while (len_bytes > r->len_bytes) {
        len_bytes -= r->len_bytes;
        if (!osc_ethmx_segments_next(&r->segments, &r->address, &r->len_bytes)) {
            r->len_bytes = 0;
            return;
        }
    }
    r->address += len_bytes;
    r->len_bytes -= len_bytes;
}

/* false: there are no more. */
static bool runs_next(struct runs *r, uint64_t *address_p, size_t *count_p)
{
    if (0 == r->len_bytes && !osc_ethmx_segments_next(&r->segments, &r->address, &r->len_bytes)) {
        return false;
    }
    *address_p = r->address;
    *count_p = r->size == r->extent && r->len_bytes >= r->size ? r->len_bytes / r->size : 1;
    runs_skip(r, *count_p * r->size);
    return true;
}

/* ---- Parts ------------------------------------------------------------------------------------------------ */

struct parts {
    struct osc_ethmx_op *op;
    enum ethmx_rma_op rma_op;
    enum ethmx_rma_type type;
    size_t extent;
    const char *operand; /* NULL: MPI_NO_OP */
    char *fetched;       /* NULL: nothing is fetched */
};

static int parts_start(const struct parts *p, const struct ethmx_rma_target *to, size_t offset, size_t len_bytes,
                       bool last)
{
    struct ethmx_ep *ep = p->op->target->module->ep;
    const char *operand = NULL == p->operand ? NULL : p->operand + offset;
    if (NULL == p->fetched) {
        const struct ethmx_data data = {.base = (void *)operand, .len_bytes = len_bytes};
        osc_ethmx_sends(p->op->target);
        return ethmx_rma_accumulate(ep, to, p->rma_op, p->type, &data, osc_ethmx_op_mode(p->op, last),
                                    osc_ethmx_op_done, p->op);
    }
    const struct ethmx_data old = {.base = p->fetched + offset, .len_bytes = len_bytes};
    return ethmx_rma_fetch(ep, to, p->rma_op, p->type, operand, &old, osc_ethmx_op_done, p->op);
}

/* One run; of a fetch, in parts that ethmx does at a time. offset: of the array of elements. last: of the runs. */
static int parts_of_run(const struct parts *p, uint64_t address, size_t offset, size_t len_bytes, bool last)
{
    size_t most = NULL == p->fetched ? len_bytes : ETHMX_RMA_ATOMIC_MAX / p->extent * p->extent;
    int rc = OMPI_SUCCESS;
    while (OMPI_SUCCESS == rc && len_bytes > 0) {
        struct ethmx_rma_target to;
        size_t n = len_bytes < most ? len_bytes : most;
        rc = osc_ethmx_locate(p->op->target, address, &n, &to);
        n = n / p->extent * p->extent;
        if (OMPI_SUCCESS == rc && 0 == n) { /* an element that lies in two regions */
            rc = OMPI_ERR_RMA_RANGE;
        }
        if (OMPI_SUCCESS == rc) {
            osc_ethmx_op_begin(p->op);
            rc = osc_ethmx_error(osc_ethmx_op_begun(p->op, parts_start(p, &to, offset, n, last && n == len_bytes)));
        }
        address += n;
        offset += n;
        len_bytes -= n;
    }
    return rc;
}

static int parts_of_target(const struct parts *p, const struct osc_ethmx_accumulate *a, size_t size)
{
    struct runs runs = {.size = size, .extent = p->extent};
    uint64_t address;
    size_t count, offset = 0;
    int rc = OMPI_SUCCESS;
    if (ompi_datatype_is_predefined(a->target_type)) { /* also with gaps */
        return parts_of_run(p, a->address, 0, a->target_count * p->extent, true);
    }
    osc_ethmx_segments_init(&runs.segments, a->address, a->target_count, a->target_type);
    while (OMPI_SUCCESS == rc && runs_next(&runs, &address, &count)) {
        bool last = 0 == runs.len_bytes && 0 == runs.segments.left_bytes;
        rc = parts_of_run(p, address, offset, count * p->extent, last);
        offset += count * p->extent;
    }
    osc_ethmx_segments_fini(&runs.segments);
    return rc;
}

/* ---- The array of elements -------------------------------------------------------------------------------- */

/* Whether the data is such an array. */
static bool array_is(const ompi_datatype_t *type, size_t count, const ompi_datatype_t *primitive)
{
    return type == primitive || (primitive->super.size == (size_t)(primitive->super.ub - primitive->super.lb) &&
                                 opal_datatype_is_contiguous_memory_layout(&type->super, (int32_t)count));
}

static bool array_of_operand(struct parts *p, const struct osc_ethmx_accumulate *a, ompi_datatype_t *primitive,
                             size_t count)
{
    if (ETHMX_RMA_NO_OP == p->rma_op) {
        return true;
    }
    if (array_is(a->origin_type, a->origin_count, primitive)) {
        p->operand = (const char *)a->origin + a->origin_type->super.true_lb;
        return true;
    }
    p->op->operand = calloc(count, p->extent);
    if (NULL == p->op->operand) {
        return false;
    }
    (void)ompi_datatype_sndrcv(a->origin, (int32_t)a->origin_count, a->origin_type, p->op->operand, (int32_t)count,
                               primitive);
    p->operand = p->op->operand;
    return true;
}

static bool array_of_result(struct parts *p, const struct osc_ethmx_accumulate *a, ompi_datatype_t *primitive,
                            size_t count)
{
    if (NULL == a->result_type) {
        return true;
    }
    if (array_is(a->result_type, a->result_count, primitive)) {
        p->fetched = (char *)a->result + a->result_type->super.true_lb;
        return true;
    }
    p->op->fetched = malloc(count * p->extent);
    if (NULL == p->op->fetched) {
        return false;
    }
    p->op->fetched_count = count;
    p->op->fetched_type = primitive;
    osc_ethmx_op_result(p->op, a->result, a->result_count, a->result_type);
    p->fetched = p->op->fetched;
    return true;
}

static int accumulate_parts(struct osc_ethmx_op *op, const struct osc_ethmx_accumulate *a, ompi_datatype_t *primitive,
                            int type)
{
    size_t count = a->target_count * a->target_type->super.size / primitive->super.size;
    struct parts p = {.op = op,
                      .rma_op = (enum ethmx_rma_op)osc_ethmx_op_of(a->op),
                      .type = (enum ethmx_rma_type)type,
                      .extent = ethmx_rma_type_bytes(type)};
    if (!array_of_operand(&p, a, primitive, count) || !array_of_result(&p, a, primitive, count)) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    return parts_of_target(&p, a, primitive->super.size);
}

/* ---- Any accumulate --------------------------------------------------------------------------------------- */

static int accumulate_general(struct osc_ethmx_op *op, const struct osc_ethmx_accumulate *a)
{
    if (0 == a->target_count * a->target_type->super.size || (NULL == a->result_type && MPI_NO_OP == a->op)) {
        return OMPI_SUCCESS;
    }
    ompi_datatype_t *primitive = osc_ethmx_primitive(a->target_type);
    if (NULL == primitive || osc_ethmx_op_of(a->op) < 0) {
        return OMPI_ERR_NOT_SUPPORTED;
    }
    int type = osc_ethmx_type(primitive);
    return type < 0 ? osc_ethmx_locked_accumulate(op->target, a) : accumulate_parts(op, a, primitive, type);
}

/* a: without address. */
static int accumulate(struct osc_ethmx_accumulate *a, int rank, ptrdiff_t disp, struct ompi_win_t *win,
                      ompi_request_t **request_p)
{
    struct osc_ethmx_target *t;
    int rc = osc_ethmx_access(osc_ethmx_module(win), rank, &t);
    if (OMPI_SUCCESS == rc && a->target_count * a->target_type->super.size > 0) {
        rc = osc_ethmx_address(t, disp, &a->address);
    }
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    struct osc_ethmx_op *op = osc_ethmx_op_new(win, t, request_p);
    if (NULL == op) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    return osc_ethmx_op_started(op, accumulate_general(op, a), request_p);
}

int osc_ethmx_raccumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                          ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                          struct ompi_win_t *win, ompi_request_t **request_p)
{
    struct osc_ethmx_accumulate a = {.origin = origin,
                                     .origin_count = (size_t)origin_count,
                                     .origin_type = origin_type,
                                     .target_count = (size_t)target_count,
                                     .target_type = target_type,
                                     .op = op};
    return accumulate(&a, rank, disp, win, request_p);
}

int osc_ethmx_accumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                         ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                         struct ompi_win_t *win)
{
    return osc_ethmx_raccumulate(origin, origin_count, origin_type, rank, disp, target_count, target_type, op, win,
                                 NULL);
}

int osc_ethmx_rget_accumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type,
                              void *result, osc_ethmx_count result_count, ompi_datatype_t *result_type, int rank,
                              ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                              struct ompi_win_t *win, ompi_request_t **request_p)
{
    struct osc_ethmx_accumulate a = {.origin = origin,
                                     .origin_count = (size_t)origin_count,
                                     .origin_type = origin_type,
                                     .result = result,
                                     .result_count = (size_t)result_count,
                                     .result_type = result_type,
                                     .target_count = (size_t)target_count,
                                     .target_type = target_type,
                                     .op = op};
    return accumulate(&a, rank, disp, win, request_p);
}

int osc_ethmx_get_accumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type,
                             void *result, osc_ethmx_count result_count, ompi_datatype_t *result_type, int rank,
                             ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                             struct ompi_win_t *win)
{
    return osc_ethmx_rget_accumulate(origin, origin_count, origin_type, result, result_count, result_type, rank, disp,
                                     target_count, target_type, op, win, NULL);
}

/* ---- One element ------------------------------------------------------------------------------------------ */

int osc_ethmx_fetch_and_op(const void *origin, void *result, ompi_datatype_t *type, int rank, ptrdiff_t disp, MPI_Op op,
                           struct ompi_win_t *win)
{
    int rma_type = osc_ethmx_type(type), rma_op = osc_ethmx_op_of(op);
    struct osc_ethmx_target *t;
    uint64_t address;
    struct ethmx_rma_target to;
    if (OPAL_UNLIKELY(rma_type < 0 || rma_op < 0)) {
        return osc_ethmx_get_accumulate(origin, 1, type, result, 1, type, rank, disp, 1, type, op, win);
    }
    const struct ethmx_data old = {.base = result, .len_bytes = ethmx_rma_type_bytes(rma_type)};
    int rc = osc_ethmx_access(osc_ethmx_module(win), rank, &t);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc || OMPI_SUCCESS != (rc = osc_ethmx_address(t, disp, &address)) ||
                      OMPI_SUCCESS != (rc = osc_ethmx_locate_all(t, address, old.len_bytes, &to)))) {
        return rc;
    }
    osc_ethmx_single_begin(t);
    return osc_ethmx_error(osc_ethmx_single_begun(
        t, ethmx_rma_fetch(t->module->ep, &to, (enum ethmx_rma_op)rma_op, (enum ethmx_rma_type)rma_type,
                           ETHMX_RMA_NO_OP == rma_op ? NULL : origin, &old, osc_ethmx_single_done, t)));
}

int osc_ethmx_compare_and_swap(const void *origin, const void *compare, void *result, ompi_datatype_t *type, int rank,
                               ptrdiff_t disp, struct ompi_win_t *win)
{
    int rma_type = osc_ethmx_type(type);
    struct osc_ethmx_target *t;
    uint64_t address;
    struct ethmx_rma_target to;
    int rc = osc_ethmx_access(osc_ethmx_module(win), rank, &t);
    if (OPAL_UNLIKELY(OMPI_SUCCESS != rc || OMPI_SUCCESS != (rc = osc_ethmx_address(t, disp, &address)) ||
                      OMPI_SUCCESS != (rc = osc_ethmx_locate_all(t, address, type->super.size, &to)))) {
        return rc;
    }
    if (OPAL_UNLIKELY(rma_type < 0)) {
        return osc_ethmx_locked_compare_and_swap(t, &to, type->super.size, origin, compare, result);
    }
    osc_ethmx_single_begin(t);
    return osc_ethmx_error(
        osc_ethmx_single_begun(t, ethmx_rma_compare_and_swap(t->module->ep, &to, (enum ethmx_rma_type)rma_type, compare,
                                                             origin, result, osc_ethmx_single_done, t)));
}
