/* SPDX-License-Identifier: BSD-3-Clause
 *
 * States of peers: locks and counters, by ethmx's atomic operations on 64 bits.
 *
 * A lock is tried again and again: shared, by adding one, which is taken back if it is held exclusively; exclusively,
 * by replacing 0. Who does not get it waits longer from time to time.
 */
#include "osc_ethmx.h"

#define BACKOFF_MAX_US 256

void osc_ethmx_over(void *waiting, const struct ethmx_result *result)
{
    struct osc_ethmx_waiting *w = waiting;
    w->status = result->status;
    __atomic_store_n(&w->over, true, __ATOMIC_RELEASE);
}

int osc_ethmx_await(struct osc_ethmx_waiting *w, int status)
{
    if (ETHMX_INPROGRESS != status) {
        return status;
    }
    while (!__atomic_load_n(&w->over, __ATOMIC_ACQUIRE)) {
        opal_progress();
    }
    return w->status;
}

static struct ethmx_rma_target state_of(const struct osc_ethmx_target *t, size_t offset)
{
    return (struct ethmx_rma_target){.peer = t->peer, .key = t->hello.state_key, .offset = offset};
}

int osc_ethmx_state_add(struct osc_ethmx_target *t, size_t offset, uint64_t n)
{
    const struct ethmx_rma_target to = state_of(t, offset);
    const struct ethmx_data data = {.base = &n, .len_bytes = sizeof(n)};
    struct osc_ethmx_waiting w = {.over = false};
    osc_ethmx_sends(t);
    return osc_ethmx_await(&w, ethmx_rma_accumulate(t->module->ep, &to, ETHMX_RMA_SUM, ETHMX_RMA_UINT64, &data,
                                                    ETHMX_RMA_LOCAL, osc_ethmx_over, &w));
}

static int state_fetch_add(struct osc_ethmx_target *t, size_t offset, uint64_t n, uint64_t *old)
{
    const struct ethmx_rma_target to = state_of(t, offset);
    const struct ethmx_data data = {.base = old, .len_bytes = sizeof(*old)};
    struct osc_ethmx_waiting w = {.over = false};
    return osc_ethmx_await(
        &w, ethmx_rma_fetch(t->module->ep, &to, ETHMX_RMA_SUM, ETHMX_RMA_UINT64, &n, &data, osc_ethmx_over, &w));
}

static int state_swap(struct osc_ethmx_target *t, size_t offset, uint64_t compare, uint64_t swap, uint64_t *old)
{
    const struct ethmx_rma_target to = state_of(t, offset);
    struct osc_ethmx_waiting w = {.over = false};
    return osc_ethmx_await(
        &w, ethmx_rma_compare_and_swap(t->module->ep, &to, ETHMX_RMA_UINT64, &compare, &swap, old, osc_ethmx_over, &w));
}

int osc_ethmx_state_read(struct osc_ethmx_target *t, uint64_t key, uint64_t offset, void *to, size_t len_bytes)
{
    const struct ethmx_rma_target from = {.peer = t->peer, .key = key, .offset = offset};
    const struct ethmx_data data = {.base = to, .len_bytes = len_bytes};
    struct osc_ethmx_waiting w = {.over = false};
    return osc_ethmx_await(&w, ethmx_rma_get(t->module->ep, &from, &data, osc_ethmx_over, &w));
}

/* ---- Locks ------------------------------------------------------------------------------------------------ */

/* What a lock is while this process holds it alone. */
static uint64_t state_alone(const struct osc_ethmx_target *t)
{
    return (uint64_t)(t->module->rank + 1) << OSC_ETHMX_ALONE_BIT;
}

/* Ranks wait for different times, so that they do not meet again. old: the lock; who holds it alone is watched, if it
 * is held shared any rank may be the holder. */
static int state_backoff(const struct osc_ethmx_target *t, unsigned attempt, uint64_t old, struct osc_ethmx_watch *w)
{
    int holder = (int)(old >> OSC_ETHMX_ALONE_BIT) - 1, status;
    uint64_t us = attempt < 8 ? 1u << attempt : BACKOFF_MAX_US;
    us += us * (uint64_t)(t->module->rank % 8) / 8;
    uint64_t until_us = osc_ethmx_now_us() + us;
    w->ranks = holder < 0 || holder >= t->module->size ? NULL : &holder;
    w->count = 1;
    do {
        status = osc_ethmx_watch(w);
    } while (ETHMX_OK == status && osc_ethmx_now_us() < until_us);
    w->ranks = NULL;
    return status;
}

/* *old_p: the lock before, *got_p: whether it has the lock now. */
static int state_try_shared(struct osc_ethmx_target *t, uint64_t *old_p, bool *got_p)
{
    *old_p = 0;
    int status = state_fetch_add(t, OSC_ETHMX_STATE(lock), 1, old_p);
    *got_p = 0 == *old_p >> OSC_ETHMX_ALONE_BIT;
    if (ETHMX_OK == status && !*got_p) {
        status = osc_ethmx_state_add(t, OSC_ETHMX_STATE(lock), (uint64_t)-1);
    }
    return status;
}

static int state_try_alone(struct osc_ethmx_target *t, size_t offset, uint64_t *old_p, bool *got_p)
{
    *old_p = 1;
    int status = state_swap(t, offset, 0, state_alone(t), old_p);
    *got_p = 0 == *old_p;
    return status;
}

/* Tries until it has the lock, or knows that it will never be given back. */
static int state_get(struct osc_ethmx_target *t, size_t offset, bool shared)
{
    struct osc_ethmx_watch w = {.module = t->module};
    int status = ETHMX_OK;
    bool got = false;
    for (unsigned attempt = 0; ETHMX_OK == status && !got; attempt++) {
        uint64_t old;
        status = shared ? state_try_shared(t, &old, &got) : state_try_alone(t, offset, &old, &got);
        if (ETHMX_OK == status && !got) {
            status = state_backoff(t, attempt, old, &w);
        }
    }
    osc_ethmx_watch_end(&w);
    return status;
}

int osc_ethmx_state_lock(struct osc_ethmx_target *t, enum osc_ethmx_held held)
{
    return OSC_ETHMX_NOCHECK == held ? ETHMX_OK : state_get(t, OSC_ETHMX_STATE(lock), OSC_ETHMX_SHARED == held);
}

int osc_ethmx_state_unlock(struct osc_ethmx_target *t, enum osc_ethmx_held held)
{
    if (OSC_ETHMX_NOCHECK == held) {
        return ETHMX_OK;
    }
    return osc_ethmx_state_add(t, OSC_ETHMX_STATE(lock), -(OSC_ETHMX_SHARED == held ? 1 : state_alone(t)));
}

int osc_ethmx_state_accumulate_lock(struct osc_ethmx_target *t)
{
    return state_get(t, OSC_ETHMX_STATE(accumulate), false);
}

int osc_ethmx_state_accumulate_unlock(struct osc_ethmx_target *t)
{
    return osc_ethmx_state_add(t, OSC_ETHMX_STATE(accumulate), -state_alone(t));
}

/* ---- Barrier ---------------------------------------------------------------------------------------------- */

/* In round k each process tells the one that is 2^k ranks ahead, and hears of the one that is 2^k behind. */
int osc_ethmx_state_barrier(struct osc_ethmx_module *m)
{
    struct osc_ethmx_watch w = {.module = m};
    int status = ETHMX_OK;
    m->barriers++;
    for (unsigned k = 0; ETHMX_OK == status && 1ull << k < (uint64_t)m->size; k++) {
        struct osc_ethmx_target *t;
        int rank = (int)(((uint64_t)m->rank + (1ull << k)) % (uint64_t)m->size);
        if (OMPI_SUCCESS != osc_ethmx_target(m, rank, &t)) {
            return ETHMX_ERR_UNREACHABLE;
        }
        status = osc_ethmx_state_add(t, OSC_ETHMX_STATE(arrived) + k * sizeof(uint64_t), 1);
        while (ETHMX_OK == status && __atomic_load_n(&m->state->arrived[k], __ATOMIC_ACQUIRE) < m->barriers) {
            status = osc_ethmx_watch(&w);
        }
    }
    osc_ethmx_watch_end(&w);
    /* Who has freed the window already has not waited for all: it knows of one that has died. */
    return ETHMX_ERR_ACCESS == status ? ETHMX_ERR_PEER_DEAD : status;
}
