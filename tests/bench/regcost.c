/* SPDX-License-Identifier: BSD-3-Clause
 *
 * regcost: what the registration cache itself costs, with a registrar that does nothing: a hit, a miss in memory that
 * is watched already and in a new mapping, and what the program's munmap() and madvise() cost more when somebody
 * listens.
 *
 *     regcost [--spin]        --spin: other threads keep all cores busy, as ranks that poll do
 *     regcost --hits N        nothing but N hits, without a kernel that tells: for counting instructions
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ethmx.h"
#include "mem/memwatch.h"
#include "mem/regcache.h"

#define BYTES  ((size_t)256 << 10)
#define ROUNDS 400
#define HITS   200000

static struct emx_stats stats;

static int reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    (void)arg, (void)base, (void)len_bytes, (void)access;
    *mr_p = NULL;
    return ETHMX_OK;
}

static void dereg(void *arg, void *mr)
{
    (void)arg, (void)mr;
}

static bool host_tell(bool on)
{
    (void)on;
    return true;
}

static const struct ethmx_memory_host host = {.struct_bytes = sizeof(host), .name = "regcost", .tell = host_tell};

static struct emx_regcache *open_cache(enum emx_watch watch)
{
    struct emx_regcache_params params = {.registrar = {.name = "nothing", .reg = reg, .dereg = dereg}, .stats = &stats};
    struct emx_config cfg;
    struct emx_regcache *c;
    char why[256];

    emx_config_defaults(&cfg);
    cfg.p_reg_cache = watch;
    params.cfg = &cfg;
    if (emx_regcache_open(&c, &params, why, sizeof(why))) {
        fprintf(stderr, "regcost: %s\n", why);
        exit(1);
    }
    return c;
}

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

static uint64_t median(uint64_t *v, unsigned n)
{
    qsort(v, n, sizeof(*v), by_value);
    return v[n / 2];
}

static char *map(void)
{
    char *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        exit(1);
    memset(p, 1, BYTES);
    return p;
}

__attribute__((noinline)) void measured_use(struct emx_regcache *c, char *p, size_t bytes)
{
    struct emx_region *r;

    if (emx_regcache_get(c, p, bytes, EMX_MEM_READ, &r))
        exit(1);
    emx_regcache_put(c, r);
}

static double hits(struct emx_regcache *c, char *p, unsigned n)
{
    uint64_t start = now();

    for (unsigned i = 0; i < n; i++)
        measured_use(c, p, BYTES);
    return (double)(now() - start) / n;
}

static void *spin(void *arg)
{
    volatile uint64_t *n = arg;

    for (;;)
        ++*n;
    return NULL;
}

static void spin_on_all(void)
{
    static uint64_t count[64];
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t t;

    for (long i = 0; i < cores && i < 64; i++)
        pthread_create(&t, NULL, spin, &count[i]);
}

/* Unmapping and discarding, watched or not, in turn. */
static void events(struct emx_regcache *c)
{
    static uint64_t t[5][ROUNDS];
    uint64_t start;

    for (unsigned i = 0; i < 2 * ROUNDS; i++) {
        char *p = map();
        unsigned watched = i % 2;

        start = now();
        if (watched)
            measured_use(c, p, BYTES);
        t[4][i / 2] = now() - start;
        start = now();
        madvise(p, 4096, MADV_DONTNEED);
        t[2 + watched][i / 2] = now() - start;
        start = now();
        munmap(p, BYTES);
        t[watched][i / 2] = now() - start;
    }
    printf("miss in a new mapping (median)          %7llu ns\n", (unsigned long long)median(t[4], ROUNDS));
    printf("munmap of 256 KiB, not watched          %7llu ns\n", (unsigned long long)median(t[0], ROUNDS));
    printf("munmap of 256 KiB, watched              %7llu ns\n", (unsigned long long)median(t[1], ROUNDS));
    printf("madvise(DONTNEED) of 4 KiB, not watched %7llu ns\n", (unsigned long long)median(t[2], ROUNDS));
    printf("madvise(DONTNEED) of 4 KiB, watched     %7llu ns\n", (unsigned long long)median(t[3], ROUNDS));
}

/* 4 KiB pieces of one mapping, each for the first time. */
static double misses(struct emx_regcache *c)
{
    char *p = map();
    uint64_t start;

    measured_use(c, p, 1);
    start = now();
    for (size_t at = 4096; at < BYTES; at += 4096)
        measured_use(c, p + at, 4096);
    return (double)(now() - start) / (BYTES / 4096 - 1);
}

static int run(void)
{
    struct emx_regcache_info info;
    struct emx_regcache *c;
    char *p = map();

    emx_memwatch_host(&host);
    c = open_cache(EMX_WATCH_HOST);
    hits(c, p, HITS / 10);
    printf("hit, get and put, hooks of a host       %7.0f ns\n", hits(c, p, HITS));
    emx_regcache_close(c);
    c = open_cache(EMX_WATCH_AUTO);
    emx_regcache_query(c, &info);
    hits(c, p, HITS / 10);
    printf("hit, get and put, %-4s                  %7.0f ns\n", info.watch, hits(c, p, HITS));
    printf("miss in watched memory                  %7.0f ns\n", misses(c));
    events(c);
    emx_regcache_close(c);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "--hits")) {
        emx_memwatch_host(&host);
        hits(open_cache(EMX_WATCH_HOST), map(), (unsigned)atoi(argv[2]));
        return 0;
    }
    if (argc == 2 && !strcmp(argv[1], "--spin"))
        spin_on_all();
    else if (argc > 1) {
        fprintf(stderr, "usage: regcost [--spin | --hits N]\n");
        return 2;
    }
    return run();
}
