/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The registration cache in a program whose threads map, unmap, replace and discard memory without pause, at the same
 * addresses: what one thread unmaps another maps at once, while the first is still inside munmap(). Nobody tells the
 * cache but the kernel (or nobody: then it keeps nothing, and the same must hold). Each page has a generation, which
 * counts up when its content is replaced; a region that get() returns must be of the present one.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/memwatch.h"
#include "regdevice.h"

#define THREADS    4
#define STEPS      3000
#define UNITS      20 /* owned by a thread, or by nobody */
#define UNIT_PAGES 4
#define OUT        3 /* regions that a thread has out */
#define CLAIMS     1000

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static size_t page, unit_bytes;
static char *arena;
static _Atomic uint32_t generations[UNITS * UNIT_PAGES];
static _Atomic unsigned owner[UNITS]; /* 0: nobody; its pages may still be on their way out */
static struct regdevice device;
static struct emx_stats stats;
static struct emx_regcache *cache;
static _Atomic unsigned stale;
static pthread_barrier_t started; /* threads take memory of their own before they find the arena */

struct held {
    struct emx_region *r;
    char *buf;
    size_t len_bytes;
};

struct worker {
    pthread_t thread;
    unsigned id; /* as in owner */
    struct emx_rng rng;
    struct held out[OUT];
    unsigned claimed; /* units */
    unsigned failed;  /* line */
};

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition) && !w->failed)                                                                                \
            w->failed = __LINE__;                                                                                      \
    } while (0)

static _Atomic uint32_t *generation(uintptr_t at)
{
    static _Atomic uint32_t elsewhere;
    size_t i = (at - (uintptr_t)arena) / page;

    return at >= (uintptr_t)arena && i < UNITS * UNIT_PAGES ? &generations[i] : &elsewhere;
}

static void renew(const char *at, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += page)
        atomic_fetch_add(generation((uintptr_t)at + i), 1);
}

/* ---- Owning ---- */

/* The unit's former owner may be about to unmap it; its pages are gone before its munmap() returns. */
static bool map_unit(char *at)
{
    for (unsigned i = 0; i < CLAIMS; i++) {
        char *p =
            mmap(at, unit_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

        if (p == at)
            return true;
        if (p != MAP_FAILED)
            munmap(p, unit_bytes);
        sched_yield();
    }
    return false; /* somebody else's memory lies there */
}

static void claim(struct worker *w)
{
    unsigned u = (unsigned)emx_rng_below(&w->rng, UNITS), nobody = 0;
    char *at = arena + u * unit_bytes;

    if (!atomic_compare_exchange_strong(&owner[u], &nobody, w->id))
        return;
    if (!map_unit(at)) {
        atomic_store(&owner[u], 0);
        return;
    }
    renew(at, unit_bytes);
    memset(at, (int)w->id, unit_bytes);
    w->claimed++;
}

/* A random range of pages of one owner, up to the end of its run of units. */
static bool pick(struct worker *w, char **at_p, size_t *bytes_p)
{
    unsigned u = (unsigned)emx_rng_below(&w->rng, UNITS), run = 0;
    size_t first, pages;

    while (u + run < UNITS && atomic_load(&owner[u + run]) == w->id)
        run++;
    if (!run)
        return false;
    first = emx_rng_below(&w->rng, UNIT_PAGES);
    pages = run * UNIT_PAGES - first;
    *at_p = arena + u * unit_bytes + first * page;
    *bytes_p = (1 + emx_rng_below(&w->rng, pages)) * page;
    return true;
}

static bool is_out(const struct worker *w, const char *at, size_t bytes)
{
    for (unsigned i = 0; i < OUT; i++)
        if (w->out[i].r && at < w->out[i].buf + w->out[i].len_bytes && w->out[i].buf < at + bytes)
            return true;
    return false;
}

/* A range as pick() gives it, of which nothing is in a message under way. */
static bool pick_idle(struct worker *w, char **at_p, size_t *bytes_p)
{
    return pick(w, at_p, bytes_p) && !is_out(w, *at_p, *bytes_p);
}

/* ---- What is done with memory ---- */

static void leave(struct worker *w)
{
    char *at;
    size_t bytes;
    unsigned u, n;

    if (!pick(w, &at, &bytes))
        return;
    u = (unsigned)((size_t)(at - arena) / unit_bytes); /* whole units: from its first page */
    n = (unsigned)(bytes / unit_bytes);
    at = arena + u * unit_bytes;
    if (!n || is_out(w, at, n * unit_bytes))
        return;
    for (unsigned i = 0; i < n; i++)
        atomic_store(&owner[u + i], 0);
    EXPECT(!munmap(at, n * unit_bytes));
}

static void leave_all(struct worker *w)
{
    for (unsigned u = 0; u < UNITS; u++) {
        if (atomic_load(&owner[u]) != w->id)
            continue;
        atomic_store(&owner[u], 0);
        EXPECT(!munmap(arena + u * unit_bytes, unit_bytes));
    }
}

static void discard(struct worker *w)
{
    static const int advice[] = {MADV_DONTNEED, MADV_FREE};
    char *at;
    size_t bytes;

    if (!pick_idle(w, &at, &bytes))
        return;
    EXPECT(!madvise(at, bytes, advice[emx_rng_below(&w->rng, ARRAY_LEN(advice))]));
    renew(at, bytes);
}

static void map_over(struct worker *w)
{
    char *at;
    size_t bytes;

    if (!pick_idle(w, &at, &bytes))
        return;
    EXPECT(mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == at);
    renew(at, bytes);
}

/* Another page is moved here, or this one away. */
static void move(struct worker *w)
{
    char *at, *other;
    size_t bytes;

    if (!pick_idle(w, &at, &bytes))
        return;
    if (emx_rng_below(&w->rng, 2)) {
        other = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        EXPECT(other != MAP_FAILED);
        EXPECT(mremap(other, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, at) == at);
    } else {
        other = mremap(at, page, page, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
        if (other == MAP_FAILED)
            return; /* Linux before 5.7 */
        EXPECT(!munmap(other, page));
    }
    renew(at, page);
}

static void allocate(struct worker *w)
{
    size_t bytes = 1 + emx_rng_below(&w->rng, 100000);
    char *p = malloc(bytes);

    memset(p, 1, bytes);
    free(p);
}

/* ---- What is sent ---- */

static void give_back(struct worker *w, struct held *l)
{
    if (!regdevice_fresh(&device, l->r, l->buf, l->len_bytes))
        atomic_fetch_add(&stale, 1);
    emx_regcache_put(cache, l->r);
    l->r = NULL;
    (void)w;
}

static void take(struct worker *w, struct held *l)
{
    unsigned access = 1 + (unsigned)emx_rng_below(&w->rng, 3);
    int rc;

    if (!pick(w, &l->buf, &l->len_bytes))
        return;
    rc = emx_regcache_get(cache, l->buf, l->len_bytes, access, &l->r);
    EXPECT(rc == ETHMX_OK || rc == ETHMX_ERR_NO_MEMORY);
    if (rc) {
        l->r = NULL;
        return;
    }
    EXPECT(regdevice_covers(l->r, l->buf, l->len_bytes, access));
    if (!regdevice_fresh(&device, l->r, l->buf, l->len_bytes))
        atomic_fetch_add(&stale, 1);
}

static void step(struct worker *w)
{
    static void (*const acts[])(struct worker * w) = {claim,   claim,    claim, leave,   leave,
                                                      discard, map_over, move,  allocate};
    struct held *l = &w->out[emx_rng_below(&w->rng, OUT)];

    if (emx_rng_below(&w->rng, 3))
        (l->r ? give_back : take)(w, l);
    else
        acts[emx_rng_below(&w->rng, ARRAY_LEN(acts))](w);
}

static void *work(void *arg)
{
    struct worker *w = arg;

    allocate(w);
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&started);
    for (unsigned i = 0; i < STEPS && !w->failed; i++)
        step(w);
    for (unsigned i = 0; i < OUT; i++)
        if (w->out[i].r)
            give_back(w, &w->out[i]);
    leave_all(w);
    return NULL;
}

/* ---- Runs ---- */

/* Where nothing lies, as far as can be known: others may map there, too, and are left alone. */
static void find_arena(void)
{
    arena = mmap(NULL, UNITS * unit_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(arena, MAP_FAILED);
    munmap(arena, UNITS * unit_bytes);
}

static void open_cache(enum emx_watch watch, struct emx_rng *rng)
{
    struct emx_regcache_params params = {.registrar = regdevice_registrar(&device), .stats = &stats};
    struct emx_config cfg;
    char why[256];

    emx_config_defaults(&cfg);
    cfg.p_reg_cache = watch;
    cfg.p_reg_max = (20 + emx_rng_below(rng, UNITS * UNIT_PAGES)) * page;
    cfg.p_reg_entries = 4 + emx_rng_below(rng, 30);
    params.cfg = &cfg;
    memset(&stats, 0, sizeof(stats));
    device = (struct regdevice){.page_bytes = page, .generation = generation};
    assert_int_equal(emx_regcache_open(&cache, &params, why, sizeof(why)), ETHMX_OK);
}

static bool close_cache(void)
{
    struct emx_regcache_info info;

    emx_regcache_query(cache, &info);
    emx_regcache_close(cache);
    CHECK(!device.live && !device.bytes && !device.faults);
    CHECK(device.most_bytes <= info.limit_bytes);
    return true;
}

static bool run(uint64_t seed, enum emx_watch watch)
{
    struct worker w[THREADS];
    struct emx_rng rng = {seed};
    unsigned claimed = 0;
    bool ok = true;

    atomic_store(&stale, 0);
    open_cache(watch, &rng);
    assert_int_equal(pthread_barrier_init(&started, NULL, THREADS + 1), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.id = i + 1, .rng = {emx_rng_next(&rng)}};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    pthread_barrier_wait(&started);
    find_arena();
    pthread_barrier_wait(&started);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(w[i].thread, NULL);
        if (w[i].failed)
            print_error("thread %u failed in line %u\n", i, w[i].failed);
        ok = ok && !w[i].failed;
        claimed += w[i].claimed;
    }
    pthread_barrier_destroy(&started);
    CHECK(close_cache());
    CHECK(ok && claimed > UNITS);
    CHECK(!atomic_load(&stale));
    return true;
}

static bool run_auto(uint64_t seed)
{
    return run(seed, EMX_WATCH_AUTO);
}

static bool run_off(uint64_t seed)
{
    return run(seed, EMX_WATCH_OFF);
}

static void test_threads(void **state)
{
    (void)state;
    each_seed(10, run_auto);
    print_message("the last: %u made, %u hits, %u invalidated, %u evicted, %u not kept\n", (unsigned)stats.reg_made,
                  (unsigned)stats.reg_hits, (unsigned)stats.reg_invalidated, (unsigned)stats.reg_evicted,
                  (unsigned)stats.reg_once);
}

static void test_threads_off(void **state)
{
    (void)state;
    each_seed(2, run_off);
    assert_int_equal(stats.reg_hits, 0);
}

/* As programs do it: the same size again and again from malloc(), at the same address and with other pages. */
static void test_same_address(void **state)
{
    struct emx_rng rng = {1};
    struct emx_region *r;

    (void)state;
    open_cache(EMX_WATCH_AUTO, &rng);
    for (unsigned i = 0; i < 300; i++) {
        size_t bytes = 256 << 10;
        char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        arena = p;
        renew(p, UNITS * unit_bytes < bytes ? UNITS * unit_bytes : bytes);
        for (unsigned again = 0; again < 3; again++) {
            assert_int_equal(emx_regcache_get(cache, p, 8 * page, EMX_MEM_READ, &r), ETHMX_OK);
            assert_true(regdevice_fresh(&device, r, p, 8 * page));
            emx_regcache_put(cache, r);
        }
        munmap(p, bytes);
    }
    assert_true(close_cache());
}

/* Shared memory can be changed by others without a word: it is registered each time. */
static void test_shared(void **state)
{
    char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct emx_rng rng = {1};
    struct emx_region *r;

    (void)state;
    assert_ptr_not_equal(p, MAP_FAILED);
    open_cache(EMX_WATCH_AUTO, &rng);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(emx_regcache_get(cache, p, 4 * page, EMX_MEM_READ, &r), ETHMX_OK);
        emx_regcache_put(cache, r);
    }
    assert_int_equal(stats.reg_made, 5);
    assert_int_equal(stats.reg_once, 5);
    assert_true(close_cache());
    munmap(p, 4 * page);
}

/* A child that unmaps and writes is not our business; we go on as before. */
static void test_fork(void **state)
{
    struct emx_rng rng = {1};
    struct emx_region *r;
    char *p = mmap(NULL, 8 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int status;
    pid_t child;

    (void)state;
    arena = p;
    open_cache(EMX_WATCH_AUTO, &rng);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(emx_regcache_get(cache, p, 8 * page, EMX_MEM_READ, &r), ETHMX_OK);
        child = fork();
        assert_true(child >= 0);
        if (!child)
            _exit(munmap(p, 8 * page) != 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        emx_regcache_put(cache, r);
    }
    assert_true(stats.reg_hits == 19 || stats.reg_once == 20);
    munmap(p, 8 * page);
    assert_true(close_cache());
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_threads_off),
                                       cmocka_unit_test(test_same_address), cmocka_unit_test(test_shared),
                                       cmocka_unit_test(test_fork)};

    page = (size_t)sysconf(_SC_PAGESIZE);
    unit_bytes = UNIT_PAGES * page;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
