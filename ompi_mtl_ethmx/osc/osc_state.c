/* SPDX-License-Identifier: BSD-3-Clause
 *
 * States of peers: locks and counters, by ethmx's atomic operations on 64 bits.
 *
 * A lock is tried again and again: shared, by adding one, which is taken back if it is held exclusively; exclusively,
 * by replacing 0. Who does not get it waits longer from time to time.
 */
#include "osc_ethmx.h"

#include <time.h>

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

static uint64_t state_now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Ranks wait for different times, so that they do not meet again. */
static void state_backoff(const struct osc_ethmx_target *t, unsigned attempt)
{
    uint64_t us = attempt < 8 ? 1u << attempt : BACKOFF_MAX_US;
    us += us * (uint64_t)(t->module->rank % 8) / 8;
    uint64_t until_us = state_now_us() + us;
    do {
        opal_progress();
    } while (state_now_us() < until_us);
}

/* *got_p: whether it has the lock now. */
static int state_try_shared(struct osc_ethmx_target *t, bool *got_p)
{
    uint64_t old = 0;
    int status = state_fetch_add(t, OSC_ETHMX_STATE(lock), 1, &old);
    *got_p = old < OSC_ETHMX_EXCLUSIVE;
    if (ETHMX_OK == status && !*got_p) {
        status = osc_ethmx_state_add(t, OSC_ETHMX_STATE(lock), (uint64_t)-1);
    }
    return status;
}

static int state_try_alone(struct osc_ethmx_target *t, size_t offset, uint64_t value, bool *got_p)
{
    uint64_t old = 1;
    int status = state_swap(t, offset, 0, value, &old);
    *got_p = 0 == old;
    return status;
}

int osc_ethmx_state_lock(struct osc_ethmx_target *t, enum osc_ethmx_held held)
{
    if (OSC_ETHMX_NOCHECK == held) {
        return ETHMX_OK;
    }
    for (unsigned attempt = 0;; attempt++) {
        bool got;
        int status = OSC_ETHMX_SHARED == held ? state_try_shared(t, &got)
                                              : state_try_alone(t, OSC_ETHMX_STATE(lock), OSC_ETHMX_EXCLUSIVE, &got);
        if (ETHMX_OK != status || got) {
            return status;
        }
        state_backoff(t, attempt);
    }
}

int osc_ethmx_state_unlock(struct osc_ethmx_target *t, enum osc_ethmx_held held)
{
    if (OSC_ETHMX_NOCHECK == held) {
        return ETHMX_OK;
    }
    return osc_ethmx_state_add(t, OSC_ETHMX_STATE(lock), -(OSC_ETHMX_SHARED == held ? 1 : OSC_ETHMX_EXCLUSIVE));
}

int osc_ethmx_state_accumulate_lock(struct osc_ethmx_target *t)
{
    for (unsigned attempt = 0;; attempt++) {
        bool got;
        int status = state_try_alone(t, OSC_ETHMX_STATE(accumulate), 1, &got);
        if (ETHMX_OK != status || got) {
            return status;
        }
        state_backoff(t, attempt);
    }
}

int osc_ethmx_state_accumulate_unlock(struct osc_ethmx_target *t)
{
    return osc_ethmx_state_add(t, OSC_ETHMX_STATE(accumulate), (uint64_t)-1);
}
