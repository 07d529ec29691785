/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All threads begin a round together, and each takes its own times: what they cost one another is in them.
 */
#define _GNU_SOURCE
#include "mem/measure.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ethmx.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_BYTES ((size_t)2 << 20)

enum { REG, FAULT_REG, DEREG, COPY, TIMES };

/* What the workers share. */
struct crew {
    pthread_mutex_t gate; /* held until all have been started, or not */
    bool give_up;
    pthread_barrier_t together;
};

struct worker {
    pthread_t thread;
    const struct emx_registrar *registrar;
    const struct emx_measure_case *c;
    struct crew *crew;
    char *map, *mem, *bounce; /* mem: within map, aligned */
    size_t map_bytes;
    uint64_t (*ns)[TIMES]; /* of each round */
    int rc;
};

static uint64_t measure_now_ns(const struct worker *w)
{
    struct timespec t;

    if (w->registrar->now_ns)
        return w->registrar->now_ns(w->registrar->arg);
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void measure_copy(const struct worker *w)
{
    if (w->registrar->copy)
        w->registrar->copy(w->registrar->arg, w->mem, w->bounce, w->c->len_bytes);
    else
        memcpy(w->mem, w->bounce, w->c->len_bytes);
}

bool emx_fault_in(void *base, size_t len_bytes)
{
    return !madvise(base, len_bytes, MADV_POPULATE_WRITE);
}

static bool measure_page_is_resident(uintptr_t at)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    unsigned char vec = 0;

    return !mincore((void *)(at & ~(page - 1)), page, &vec) && vec & 1;
}

bool emx_is_resident(const void *base, size_t len_bytes)
{
    return measure_page_is_resident((uintptr_t)base) && measure_page_is_resident((uintptr_t)base + len_bytes - 1);
}

/* ---- A round ---- */

static void measure_prepare(const struct worker *w)
{
    if (!w->c->resident)
        madvise(w->mem, w->c->len_bytes, MADV_DONTNEED);
    pthread_barrier_wait(&w->crew->together);
}

/* Registers, perhaps after faulting in, and deregisters; adds the times. */
static void measure_time_registration(struct worker *w, bool fault, uint64_t *reg_ns, uint64_t *dereg_ns)
{
    uint64_t begin, registered;
    void *mr;
    int rc;

    measure_prepare(w);
    begin = measure_now_ns(w);
    if (fault)
        emx_fault_in(w->mem, w->c->len_bytes);
    rc = w->registrar->reg(w->registrar->arg, w->mem, w->c->len_bytes, EMX_MEM_READ | EMX_MEM_WRITE, &mr);
    registered = measure_now_ns(w);
    *reg_ns = registered - begin;
    if (rc) {
        w->rc = rc;
        return;
    }
    w->registrar->dereg(w->registrar->arg, mr);
    *dereg_ns = measure_now_ns(w) - registered;
}

static void measure_time_copy(const struct worker *w, uint64_t *copy_ns)
{
    uint64_t begin;

    measure_prepare(w);
    begin = measure_now_ns(w);
    measure_copy(w);
    *copy_ns = measure_now_ns(w) - begin;
}

/* A round more than asked for: the first one warms up. */
static void *measure_work(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 0; i <= w->c->rounds; i++) {
        uint64_t *ns = w->ns[i ? i - 1 : 0];

        measure_time_registration(w, false, &ns[REG], &ns[DEREG]);
        measure_time_registration(w, !w->c->resident, &ns[FAULT_REG], &ns[DEREG]);
        measure_time_copy(w, &ns[COPY]);
    }
    return NULL;
}

static void *measure_begin_work(void *arg)
{
    struct worker *w = arg;

    pthread_mutex_lock(&w->crew->gate);
    pthread_mutex_unlock(&w->crew->gate);
    return w->crew->give_up ? NULL : measure_work(arg);
}

/* ---- The whole ---- */

static bool measure_have_huge_pages(void)
{
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");
    char text[64] = "";
    bool have;

    if (!f)
        return false;
    have = fgets(text, sizeof(text), f) && !strstr(text, "[never]");
    fclose(f);
    return have;
}

static void measure_unmap(struct worker *w)
{
    if (w->map)
        munmap(w->map, w->map_bytes);
    if (w->bounce)
        munmap(w->bounce, w->c->len_bytes);
    free(w->ns);
}

static char *measure_map(size_t len_bytes)
{
    char *p = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

static bool measure_make_worker(struct worker *w)
{
    w->map_bytes = w->c->len_bytes + 2 * HUGE_BYTES;
    w->ns = calloc(w->c->rounds, sizeof(w->ns[0]));
    w->map = measure_map(w->map_bytes);
    w->bounce = measure_map(w->c->len_bytes);
    if (!w->ns || !w->map || !w->bounce)
        return false;
    w->mem = w->map + (HUGE_BYTES - (uintptr_t)w->map % HUGE_BYTES);
    madvise(w->map, w->map_bytes, w->c->huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(w->mem, 1, w->c->len_bytes);
    memset(w->bounce, 2, w->c->len_bytes);
    return true;
}

static int measure_by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* The median of the rounds, or the minimum. */
static uint64_t measure_median(const struct worker *w, unsigned which)
{
    uint64_t v[EMX_MEASURE_THREADS * EMX_MEASURE_ROUNDS] = {0};
    unsigned n = 0;

    for (unsigned t = 0; t < w->c->threads; t++)
        for (unsigned i = 0; i < w->c->rounds; i++)
            v[n++] = w[t].ns[i][which];
    qsort(v, n, sizeof(v[0]), measure_by_value);
    return v[w->c->minimum ? 0 : n / 2];
}

/* Runs the workers, the first of them here. Returns ETHMX_OK or what one of them met. */
static int measure_run(struct worker *w, struct crew *crew)
{
    unsigned threads = w->c->threads, started = 1;
    int rc = ETHMX_OK;

    pthread_mutex_lock(&crew->gate);
    while (started < threads && !pthread_create(&w[started].thread, NULL, measure_begin_work, &w[started]))
        started++;
    crew->give_up = started < threads;
    pthread_mutex_unlock(&crew->gate);
    if (!crew->give_up)
        measure_work(&w[0]);
    for (unsigned t = 1; t < started; t++)
        pthread_join(w[t].thread, NULL);
    for (unsigned t = 0; t < threads; t++)
        rc = w[t].rc ? w[t].rc : rc;
    return crew->give_up ? ETHMX_ERR_NO_MEMORY : rc;
}

static int measure_make_and_run(struct worker *w, struct crew *crew)
{
    for (unsigned t = 0; t < w->c->threads; t++) {
        w[t].crew = crew;
        if (!measure_make_worker(&w[t]))
            return ETHMX_ERR_NO_MEMORY;
    }
    return measure_run(w, crew);
}

int emx_measure(const struct emx_registrar *r, const struct emx_measure_case *c, struct emx_measure *m_p)
{
    struct worker w[EMX_MEASURE_THREADS] = {{.rc = 0}};
    struct crew crew = {.gate = PTHREAD_MUTEX_INITIALIZER};
    int rc;

    if (!c->len_bytes || !c->threads || c->threads > EMX_MEASURE_THREADS || !c->rounds ||
        c->rounds > EMX_MEASURE_ROUNDS || (c->huge && !measure_have_huge_pages()))
        return ETHMX_ERR_PARAM;
    if (pthread_barrier_init(&crew.together, NULL, c->threads))
        return ETHMX_ERR_NO_MEMORY;
    for (unsigned t = 0; t < c->threads; t++) {
        w[t].registrar = r;
        w[t].c = c;
    }
    rc = measure_make_and_run(w, &crew);
    if (!rc)
        *m_p = (struct emx_measure){.reg_ns = measure_median(w, REG),
                                    .fault_reg_ns = measure_median(w, FAULT_REG),
                                    .dereg_ns = measure_median(w, DEREG),
                                    .copy_ns = measure_median(w, COPY)};
    for (unsigned t = 0; t < c->threads; t++)
        measure_unmap(&w[t]);
    pthread_barrier_destroy(&crew.together);
    return rc;
}
