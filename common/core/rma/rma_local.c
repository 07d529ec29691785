/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that other processes have mapped too is changed by the processor's atomic instructions where it has them; see
 * rma_atomic.h.
 *
 * Memory of a peer is used only while nothing is open at it. So an operation that needs no frame does not overtake one
 * that was sent, and the order of accumulates is kept.
 */
#include "core/rma/rma_local.h"

#include <string.h>

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/peer.h"
#include "core/rel/session.h"
#include "core/rma/rma_apply.h"
#include "core/rma/rma_atomic.h"
#include "core/rma/rma_region.h"

bool emx_rma_is_valid(const struct emx_rma_args *a)
{
    size_t bytes = emx_rma_type_bytes(a->type), len_bytes = a->data.len_bytes;

    if (a->kind == EMX_RMA_PUT || a->kind == EMX_RMA_GET)
        return len_bytes <= INT64_MAX;
    if (a->kind == EMX_RMA_COMPARE_SWAP)
        return emx_rma_is_integer(a->type) && len_bytes == bytes;
    if (len_bytes > (a->kind == EMX_RMA_ACCUMULATE ? INT64_MAX : ETHMX_RMA_ATOMIC_MAX))
        return false;
    return emx_rma_fits(a->op, a->type) && len_bytes && len_bytes % bytes == 0;
}

void emx_rma_count(struct emx_engine *e, const struct emx_rma_args *a)
{
    if (a->kind == EMX_RMA_PUT)
        emx_count(e, rma_puts);
    else if (a->kind == EMX_RMA_GET)
        emx_count(e, rma_gets);
    else
        emx_count(e, rma_atomics);
    if (a->kind == EMX_RMA_PUT || a->kind == EMX_RMA_GET)
        emx_add(e, rma_bytes, a->data.len_bytes);
}

static bool rma_local_is_atomic(const struct emx_rma_args *a)
{
    return a->kind != EMX_RMA_PUT && a->kind != EMX_RMA_GET;
}

/* ---- The operations. words: by the processor's atomic instructions ---- */

static void rma_local_accumulate(const struct emx_rma_args *a, uint8_t *memory, bool words)
{
    uint8_t stage[ETHMX_RMA_ATOMIC_MAX]; /* of complete elements */

    for (size_t at = 0, n; at < a->data.len_bytes; at += n) {
        n = emx_min(a->data.len_bytes - at, sizeof(stage));
        emx_data_read(&a->data, at, stage, n);
        emx_rma_change(a->op, a->type, memory + at, stage, NULL, n, words);
    }
}

/* The result may lie where the operand does. */
static void rma_local_fetch(const struct emx_rma_args *a, uint8_t *memory, bool words)
{
    uint8_t old[ETHMX_RMA_ATOMIC_MAX];
    size_t n = a->data.len_bytes;

    if (a->kind == EMX_RMA_FETCH_OP)
        emx_rma_change(a->op, a->type, memory, a->operand, old, n, words);
    else
        emx_rma_exchange(memory, a->compare, a->set, old, n, words);
    emx_data_write(&a->data, 0, old, n);
}

static void rma_local_do(const struct emx_rma_args *a, uint8_t *memory, bool words)
{
    const struct ethmx_data there = {.base = memory, .len_bytes = a->data.len_bytes};

    if (a->kind == EMX_RMA_PUT)
        emx_data_copy(&there, &a->data, a->data.len_bytes);
    else if (a->kind == EMX_RMA_GET)
        emx_data_copy(&a->data, &there, a->data.len_bytes);
    else if (a->kind == EMX_RMA_ACCUMULATE)
        rma_local_accumulate(a, memory, words);
    else
        rma_local_fetch(a, memory, words);
}

/* ---- The endpoint itself ---- */

static unsigned rma_local_access(const struct emx_rma_args *a)
{
    if (a->kind == EMX_RMA_GET || (a->kind == EMX_RMA_FETCH_OP && a->op == ETHMX_RMA_NO_OP))
        return ETHMX_RMA_MAY_READ;
    return a->kind == EMX_RMA_PUT || a->kind == EMX_RMA_ACCUMULATE ? ETHMX_RMA_MAY_WRITE : EMX_RMA_MAY_BOTH;
}

int emx_rma_self(struct emx_engine *e, const struct emx_rma_args *a)
{
    struct emx_rma_region *region;
    uint8_t *memory = emx_rma_memory(e, a->key, a->offset, a->data.len_bytes, rma_local_access(a), &region);

    if (!memory)
        return ETHMX_ERR_ACCESS;
    rma_local_do(a, memory, rma_local_is_atomic(a) && emx_rma_by_words(region, a->type, memory, a->data.len_bytes));
    emx_rma_changed(region);
    return ETHMX_OK;
}

/* ---- A peer ---- */

bool emx_engine_rma_is_idle(const struct emx_peer *peer, unsigned *link_p, const struct emx_wire_addr **to_p)
{
    const struct emx_session *s = peer->session;

    if (!s || s->state != EMX_S_CONNECTED || s->end_status || (s->rma && !emx_list_empty(&s->rma->open)))
        return false;
    *link_p = s->link;
    *to_p = &s->to;
    return true;
}

/* Whether the processor's atomic instructions do the operation. Then the gate is entered. */
static bool rma_local_enter(const struct emx_rma_args *a, const uint8_t *memory, struct emx_view *view)
{
    if (!emx_rma_is_word(a->type, memory) || a->data.len_bytes > EMX_BULK_BYTES)
        return false;
    view->wishes += !*view->words;
    return *view->words && emx_gate_enter(view->gate, view->slot);
}

bool emx_engine_rma_view(struct emx_engine *e, const struct emx_rma_args *a, struct emx_view *view)
{
    bool atomic = rma_local_is_atomic(a);
    uint8_t *memory;

    if (e->closing || !emx_rma_is_valid(a) || a->offset > view->len_bytes ||
        a->data.len_bytes > view->len_bytes - a->offset)
        return false;
    memory = view->memory + a->offset;
    if (atomic && !rma_local_enter(a, memory, view))
        return false;
    rma_local_do(a, memory, true);
    if (atomic)
        emx_gate_leave(view->gate, view->slot);
    if (a->kind == EMX_RMA_PUT) /* whatever this process reads after the put, it reads after it for all */
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
    emx_rma_count(e, a);
    emx_count(e, rma_direct);
    return true;
}
