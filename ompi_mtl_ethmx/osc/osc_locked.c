/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Accumulates of types that ethmx has not: get, compute by Open MPI's operation, put. A lock in the target's state,
 * which is not that of MPI_Win_lock, keeps others from the same meanwhile.
 */
#include "osc_ethmx.h"

#include <string.h>

/* A copy of the target's data: of the same layout, from the first byte to the last one. */
struct copy {
    char *memory;
    ptrdiff_t gap; /* of the first byte from the address */
};

static void *copy_buffer(const struct copy *c)
{
    return c->memory - c->gap;
}

static int copy_move_segment(struct osc_ethmx_target *t, char *here, uint64_t address, size_t len_bytes, bool put)
{
    struct ethmx_ep *ep = t->module->ep;
    int rc = OMPI_SUCCESS;
    while (OMPI_SUCCESS == rc && len_bytes > 0) {
        struct osc_ethmx_waiting w = {.over = false};
        struct ethmx_data data = {.base = here, .len_bytes = len_bytes};
        struct ethmx_rma_target there;
        rc = osc_ethmx_locate(t, address, &data.len_bytes, &there);
        if (OMPI_SUCCESS == rc) {
            rc = osc_ethmx_error(
                osc_ethmx_await(&w, put ? ethmx_rma_put(ep, &there, &data, ETHMX_RMA_REMOTE, osc_ethmx_over, &w)
                                        : ethmx_rma_get(ep, &there, &data, osc_ethmx_over, &w)));
        }
        here += data.len_bytes;
        address += data.len_bytes;
        len_bytes -= data.len_bytes;
    }
    return rc;
}

/* Moves the data's segments between the target and the copy. */
static int copy_move(struct osc_ethmx_target *t, const struct osc_ethmx_accumulate *a, const struct copy *c, bool put)
{
    struct osc_ethmx_segments segments;
    uint64_t address;
    size_t len_bytes;
    int rc = OMPI_SUCCESS;
    osc_ethmx_segments_init(&segments, a->address, a->target_count, a->target_type);
    while (OMPI_SUCCESS == rc && osc_ethmx_segments_next(&segments, &address, &len_bytes)) {
        char *here = (char *)copy_buffer(c) + (ptrdiff_t)(address - a->address);
        rc = copy_move_segment(t, here, address, len_bytes, put);
    }
    osc_ethmx_segments_fini(&segments);
    return rc;
}

/* Elements of the primitive datatype, without what is between them. NULL: out of memory. */
static void *copy_elements(const void *buf, size_t count, ompi_datatype_t *type, ompi_datatype_t *primitive,
                           size_t elements)
{
    void *array = calloc(elements, (size_t)(primitive->super.ub - primitive->super.lb));
    if (NULL != array) {
        (void)ompi_datatype_sndrcv(buf, (int32_t)count, type, array, (int32_t)elements, primitive);
    }
    return array;
}

static int copy_reduce(const struct osc_ethmx_accumulate *a, const struct copy *c)
{
    ompi_datatype_t *primitive = osc_ethmx_primitive(a->target_type);
    size_t elements = a->target_count * a->target_type->super.size / primitive->super.size;
    void *there = copy_buffer(c);
    void *operand = copy_elements(a->origin, a->origin_count, a->origin_type, primitive, elements);
    void *result = copy_elements(there, a->target_count, a->target_type, primitive, elements);
    int rc = OMPI_ERR_OUT_OF_RESOURCE;
    if (NULL != operand && NULL != result) {
        rc = MPI_SUCCESS == PMPI_Reduce_local(operand, result, (int)elements, primitive, a->op)
                 ? ompi_datatype_sndrcv(result, (int32_t)elements, primitive, there, (int32_t)a->target_count,
                                        a->target_type)
                 : OMPI_ERR_NOT_SUPPORTED;
    }
    free(operand);
    free(result);
    return rc;
}

static int copy_compute(const struct osc_ethmx_accumulate *a, const struct copy *c)
{
    void *there = copy_buffer(c);
    int32_t target_count = (int32_t)a->target_count;
    if (NULL != a->result_type) {
        int rc = ompi_datatype_sndrcv(there, target_count, a->target_type, a->result, (int32_t)a->result_count,
                                      a->result_type);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
    }
    if (MPI_NO_OP == a->op) {
        return OMPI_SUCCESS;
    }
    return MPI_REPLACE == a->op ? ompi_datatype_sndrcv(a->origin, (int32_t)a->origin_count, a->origin_type, there,
                                                       target_count, a->target_type)
                                : copy_reduce(a, c);
}

static int locked_accumulate(struct osc_ethmx_target *t, const struct osc_ethmx_accumulate *a, const struct copy *c)
{
    int rc = osc_ethmx_error(osc_ethmx_state_accumulate_lock(t));
    if (OMPI_SUCCESS != rc) {
        return rc;
    }
    rc = copy_move(t, a, c, false);
    if (OMPI_SUCCESS == rc) {
        rc = copy_compute(a, c);
    }
    if (OMPI_SUCCESS == rc && MPI_NO_OP != a->op) {
        rc = copy_move(t, a, c, true);
    }
    int unlocked = osc_ethmx_error(osc_ethmx_state_accumulate_unlock(t));
    return OMPI_SUCCESS != rc ? rc : unlocked;
}

int osc_ethmx_locked_accumulate(struct osc_ethmx_target *t, const struct osc_ethmx_accumulate *a)
{
    struct copy c;
    ptrdiff_t span = opal_datatype_span(&a->target_type->super, (int64_t)a->target_count, &c.gap);
    c.memory = malloc((size_t)span);
    if (NULL == c.memory) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    int rc = locked_accumulate(t, a, &c);
    free(c.memory);
    return rc;
}

static int locked_swap(struct osc_ethmx_target *t, const struct ethmx_rma_target *there, size_t len_bytes,
                       const void *swap, const void *compare, void *old)
{
    const struct ethmx_data set = {.base = (void *)swap, .len_bytes = len_bytes};
    struct osc_ethmx_waiting w = {.over = false};
    int status = osc_ethmx_state_read(t, there->key, there->offset, old, len_bytes);
    if (ETHMX_OK == status && 0 == memcmp(old, compare, len_bytes)) {
        status = osc_ethmx_await(&w, ethmx_rma_put(t->module->ep, there, &set, ETHMX_RMA_REMOTE, osc_ethmx_over, &w));
    }
    return status;
}

int osc_ethmx_locked_compare_and_swap(struct osc_ethmx_target *t, const struct ethmx_rma_target *there,
                                      size_t len_bytes, const void *swap, const void *compare, void *old)
{
    int status = osc_ethmx_state_accumulate_lock(t);
    if (ETHMX_OK == status) {
        status = locked_swap(t, there, len_bytes, swap, compare, old);
        int unlocked = osc_ethmx_state_accumulate_unlock(t);
        status = ETHMX_OK != status ? status : unlocked;
    }
    return osc_ethmx_error(status);
}
