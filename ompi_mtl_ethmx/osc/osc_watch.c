/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting for other processes of a window, which may die meanwhile. Nothing is sent to them that ethmx would miss an
 * answer to. So a wait that takes long asks one of them after the other for a word that is never mapped: the operation
 * fails when the process is known to be dead.
 */
#include "osc_ethmx.h"

#include <time.h>

#define ROUNDS      64     /* rounds of progress for one look at the clock */
#define INTERVAL_US 100000 /* between two questions */

/* A question. It may be left alone before the answer comes. Who comes second frees it. */
struct osc_ethmx_ask {
    bool ended; /* the answer is here, or nobody waits for it any more */
    int status;
    uint64_t word;
};

uint64_t osc_ethmx_now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static void watch_answered(void *arg, const struct ethmx_result *result)
{
    struct osc_ethmx_ask *ask = arg;
    ask->status = result->status;
    if (__atomic_exchange_n(&ask->ended, true, __ATOMIC_ACQ_REL)) {
        free(ask);
    }
}

void osc_ethmx_watch_end(struct osc_ethmx_watch *w)
{
    if (NULL != w->ask && __atomic_exchange_n(&w->ask->ended, true, __ATOMIC_ACQ_REL)) {
        free(w->ask);
    }
    w->ask = NULL;
}

/* What an answer says of the process: it lives if it refuses, since it has freed the window. */
static int watch_verdict(int status)
{
    return ETHMX_ERR_ACCESS == status ? ETHMX_OK : status;
}

static int watch_ask(struct osc_ethmx_watch *w, int rank)
{
    struct osc_ethmx_module *m = w->module;
    struct osc_ethmx_target *t;
    struct osc_ethmx_ask *ask;
    if (rank == m->rank || OMPI_SUCCESS != osc_ethmx_target(m, rank, &t)) {
        return ETHMX_OK;
    }
    ask = calloc(1, sizeof(*ask));
    if (NULL == ask) {
        return ETHMX_ERR_NO_MEMORY;
    }
    const struct ethmx_rma_target from = {.peer = t->peer, .key = t->hello.word_key};
    const struct ethmx_data data = {.base = &ask->word, .len_bytes = sizeof(ask->word)};
    int status = ethmx_rma_get(m->ep, &from, &data, watch_answered, ask);
    if (ETHMX_INPROGRESS == status) {
        w->ask = ask;
        return ETHMX_OK;
    }
    free(ask);
    return watch_verdict(status);
}

/* The answer, if it has come. */
static int watch_answer(struct osc_ethmx_watch *w)
{
    int status = ETHMX_OK;
    if (__atomic_load_n(&w->ask->ended, __ATOMIC_ACQUIRE)) {
        status = watch_verdict(w->ask->status);
        free(w->ask);
        w->ask = NULL;
    }
    return status;
}

int osc_ethmx_watch(struct osc_ethmx_watch *w)
{
    opal_progress();
    if (0 != ++w->rounds % ROUNDS) {
        return ETHMX_OK;
    }
    if (NULL != w->ask) {
        return watch_answer(w);
    }
    uint64_t now_us = osc_ethmx_now_us();
    if (now_us < w->due_us) {
        return ETHMX_OK;
    }
    bool begins = 0 == w->due_us;
    w->due_us = now_us + INTERVAL_US;
    if (begins) {
        return ETHMX_OK;
    }
    unsigned turn = w->turn++;
    return watch_ask(w,
                     NULL == w->ranks ? (int)(turn % (unsigned)w->module->size) : w->ranks[turn % (unsigned)w->count]);
}
