/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations of endpoints. Memory that ethmx_rma_allocate() gives: a process of the node maps it, and what it
 * does there without frames is atomic with regard to what the target's engine does for others, and for itself. What
 * ends while it is mapped. A target that computes is served in every mode of progress.
 */
#include "api/role.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "endpoint/ep.h"
#include "ethmx_rma.h"

#define TIMES   2000 /* at least */
#define HAMMERS 3

static const char *const by_shm[] = {"wires", "shm,udp", "udp_ports", "0", "heartbeat", "1ms", NULL};
static const char *const by_frames[] = {"wires", "udp", "udp_ports", "0", "heartbeat", "1ms", NULL};

static struct ethmx_ep *open_end(const char *const *settings)
{
    const struct ethmx_ep_options opt = {
        .api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt), .job_key = "a test's job"};

    return open_with(&opt, settings);
}

static struct ethmx_peer *add_peer(struct ethmx_ep *ep, const struct ethmx_ep *of)
{
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len_bytes = sizeof(addr);
    struct ethmx_peer *peer;

    assert_int_equal(ethmx_ep_address(of, addr, &len_bytes), ETHMX_OK);
    assert_int_equal(ethmx_peer_add(ep, addr, len_bytes, NULL, &peer), ETHMX_OK);
    return peer;
}

/* ---- Operations to their end ---- */

static int ended(const struct side *s, int rc, struct pending *p)
{
    if (rc != ETHMX_INPROGRESS)
        return rc;
    return await(s, &p->done) ? p->result.status : ETHMX_INPROGRESS;
}

static int add(const struct side *s, const struct ethmx_rma_target *to, enum ethmx_rma_type type, const void *n,
               void *old)
{
    const struct ethmx_data data = flat(old, ethmx_rma_type_bytes(type));
    struct pending p = {.done = false};

    return ended(s, ethmx_rma_fetch(s->ep, to, ETHMX_RMA_SUM, type, n, &data, done, &p), &p);
}

static int get(const struct side *s, const struct ethmx_rma_target *from, void *to, size_t len_bytes)
{
    const struct ethmx_data data = flat(to, len_bytes);
    struct pending p = {.done = false};

    return ended(s, ethmx_rma_get(s->ep, from, &data, done, &p), &p);
}

static int put(const struct side *s, const struct ethmx_rma_target *to, const void *from, size_t len_bytes)
{
    const struct ethmx_data data = flat((void *)(uintptr_t)from, len_bytes);
    struct pending p = {.done = false};

    return ended(s, ethmx_rma_put(s->ep, to, &data, ETHMX_RMA_REMOTE, done, &p), &p);
}

/* Until the memory is mapped. */
static bool await_map(const struct side *s, const struct ethmx_rma_target *to)
{
    struct timespec since;
    uint64_t word;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while (!counter(s->ep, "rma_direct")) {
        CHECK(get(s, to, &word, sizeof(word)) == ETHMX_OK);
        poll_some(s, 1);
        CHECK(!late(&since));
    }
    return true;
}

/* ---- One location, changed from all sides ---- */

struct words {
    uint64_t sum;
    double real;
    uint64_t swapped;
    struct {
        long double real;
    } long_one; /* longer than a word: always the target's engine */
};

struct hammer {
    struct side s;
    struct ethmx_rma_target to;
    bool maps;
    bool last; /* the slowest: all others go on until it has ended */
    bool ok;
    uint64_t hit; /* how often */
};

static _Atomic unsigned ready; /* hammers: all begin when the last is */
static _Atomic bool over;

static bool swap_next(const struct side *s, const struct ethmx_rma_target *to)
{
    uint64_t seen = 0, next, old;
    int rc = ETHMX_OK;

    do {
        struct pending p = {.done = false};

        next = seen + 1;
        rc = ended(s, ethmx_rma_compare_and_swap(s->ep, to, ETHMX_RMA_UINT64, &seen, &next, &old, done, &p), &p);
        if (rc != ETHMX_OK || old == seen)
            return rc == ETHMX_OK;
        seen = old;
    } while (true);
}

static struct ethmx_rma_target at(const struct hammer *h, size_t offset)
{
    return (struct ethmx_rma_target){.peer = h->to.peer, .key = h->to.key, .offset = offset};
}

static bool hit(struct hammer *h)
{
    const struct ethmx_rma_target sum = at(h, offsetof(struct words, sum)), real = at(h, offsetof(struct words, real)),
                                  swapped = at(h, offsetof(struct words, swapped)),
                                  longer = at(h, offsetof(struct words, long_one));
    uint64_t one = 1, old, last = 0;
    double half = 0.5, real_old;
    long double quarter = 0.25L, long_old;

    if (h->maps)
        CHECK(await_map(&h->s, &h->to));
    atomic_fetch_add(&ready, 1);
    while (atomic_load(&ready) < HAMMERS)
        poll_some(&h->s, 1);
    for (; h->hit < TIMES || (!h->last && !atomic_load(&over)); h->hit++) {
        CHECK(add(&h->s, &sum, ETHMX_RMA_UINT64, &one, &old) == ETHMX_OK);
        CHECK(!h->hit || old > last);
        last = old;
        CHECK(add(&h->s, &real, ETHMX_RMA_DOUBLE, &half, &real_old) == ETHMX_OK);
        CHECK(h->hit % 16 || swap_next(&h->s, &swapped));
        CHECK(h->hit % 64 || add(&h->s, &longer, ETHMX_RMA_LONG_DOUBLE, &quarter, &long_old) == ETHMX_OK);
    }
    return true;
}

static void *hammer_main(void *arg)
{
    struct hammer *h = arg;

    h->ok = hit(h);
    if (h->last || !h->ok)
        atomic_store(&over, true);
    return NULL;
}

/* One process maps the memory, one uses frames, and the target changes it itself. */
static void from_all_sides(void **state)
{
    struct ethmx_ep *target = open_end(by_shm);
    struct hammer h[HAMMERS] = {
        {.s.ep = open_end(by_shm), .maps = true}, {.s.ep = open_end(by_frames), .last = true}, {.s.ep = target}};
    uint64_t hit = 0, swapped = 0, longer = 0, key;
    struct ethmx_region *region;
    struct words *w;
    pthread_t t[2];
    void *base;

    (void)state;
    assert_int_equal(ethmx_rma_allocate(target, sizeof(*w), &base, &region, &key), ETHMX_OK);
    w = base;
    for (unsigned i = 0; i < HAMMERS; i++)
        h[i].to = (struct ethmx_rma_target){.peer = add_peer(h[i].s.ep, target), .key = key};
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, hammer_main, &h[i]), 0);
    hammer_main(&h[2]);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(t[i], NULL); /* the helper thread serves them */
    for (unsigned i = 0; i < HAMMERS; i++) {
        assert_true(h[i].ok);
        hit += h[i].hit;
        swapped += (h[i].hit + 15) / 16;
        longer += (h[i].hit + 63) / 64;
    }
    assert_true(counter(h[0].s.ep, "rma_direct") >= 2 * h[0].hit);
    assert_int_equal(counter(h[1].s.ep, "rma_direct"), 0);
    assert_int_equal(w->sum, hit);
    assert_true(w->real == (double)hit * 0.5);
    assert_int_equal(w->swapped, swapped);
    assert_true(w->long_one.real == (long double)longer * 0.25L);
    for (unsigned i = 0; i < 2; i++)
        ethmx_ep_close(h[i].s.ep);
    assert_int_equal(ethmx_rma_withdraw(target, region), ETHMX_OK);
    ethmx_ep_close(target);
}

/* ---- A target that computes ---- */

enum { ROUNDS = 300 };

/* Lock, put, unlock, each time. */
static bool lock_put_unlock(struct hammer *h)
{
    const struct ethmx_rma_target lock = at(h, offsetof(struct words, swapped)),
                                  word = at(h, offsetof(struct words, sum));
    const uint64_t is_free = 0, taken = 1, release = UINT64_MAX;

    for (uint64_t i = 1; i <= ROUNDS; i++) {
        struct pending p = {.done = false};
        uint64_t old = 1;

        CHECK(ended(&h->s,
                    ethmx_rma_compare_and_swap(h->s.ep, &lock, ETHMX_RMA_UINT64, &is_free, &taken, &old, done, &p),
                    &p) == ETHMX_OK);
        CHECK(old == 0);
        CHECK(put(&h->s, &word, &i, sizeof(i)) == ETHMX_OK);
        CHECK(add(&h->s, &lock, ETHMX_RMA_UINT64, &release, &old) == ETHMX_OK && old == 1);
    }
    return true;
}

static void *lock_put_unlock_main(void *arg)
{
    struct hammer *h = arg;

    h->ok = lock_put_unlock(h);
    return NULL;
}

/* The target makes no call while it is used. If nobody serves the origin, the origin gives up. */
static void computes(bool threads, const char *const *settings)
{
    const struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION,
                                         .struct_bytes = sizeof(opt),
                                         .job_key = "a test's job",
                                         .thread_multiple = threads};
    struct ethmx_ep *target = open_with(&opt, settings);
    struct hammer h = {.s.ep = open_end(by_frames)};
    struct ethmx_region *region;
    struct words w = {.sum = 0};
    pthread_t t;

    assert_int_equal(ethmx_rma_expose(target, &w, sizeof(w), &region, &h.to.key), ETHMX_OK);
    h.to.peer = add_peer(h.s.ep, target);
    assert_int_equal(pthread_create(&t, NULL, lock_put_unlock_main, &h), 0);
    pthread_join(t, NULL);
    assert_true(h.ok);
    assert_true(counter(target, "helper_runs") > 0);
    assert_int_equal(w.sum, ROUNDS);
    ethmx_ep_close(h.s.ep);
    assert_int_equal(ethmx_rma_withdraw(target, region), ETHMX_OK);
    ethmx_ep_close(target);
}

static void served_in_every_mode(void **state)
{
    static const char *const progress[] = {"caller", "thread"}, *const wait[] = {"auto", "spin", "yield", "sleep"},
                             *const heartbeat[] = {"0", "60s"};

    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        const char *const settings[] = {
            "wires",         "udp",       "udp_ports",      "0", "progress", progress[i % 2], "wait",
            wait[i / 2 % 4], "heartbeat", heartbeat[i / 8], NULL};

        computes(false, settings);
        computes(true, settings);
    }
}

/* ---- The end ---- */

/* Withdrawn while it is mapped: refused from then on. Its maps go, also those that nobody uses again. */
static void withdrawn(void **state)
{
    struct ethmx_ep *target = open_end(by_shm);
    struct side s = {.ep = open_end(by_shm)};
    struct ethmx_rma_target to = {.peer = add_peer(s.ep, target)};
    struct ethmx_region *region;
    uint64_t word = 5;
    void *base;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        uint64_t before = counter(s.ep, "rma_direct");
        struct timespec since;

        assert_int_equal(ethmx_rma_allocate(target, 1 << 20, &base, &region, &to.key), ETHMX_OK);
        to.offset = (1 << 20) - sizeof(word);
        clock_gettime(CLOCK_MONOTONIC, &since);
        while (counter(s.ep, "rma_direct") == before) {
            assert_int_equal(put(&s, &to, &word, sizeof(word)), ETHMX_OK);
            poll_some(&s, 1);
            assert_false(late(&since));
        }
        ethmx_progress(target); /* whose helper thread wrote what came before the map */
        assert_int_equal(__atomic_load_n((uint64_t *)((char *)base + to.offset), __ATOMIC_RELAXED), 5);
        to.offset++;
        assert_int_equal(put(&s, &to, &word, sizeof(word)), ETHMX_ERR_ACCESS);
        to.offset--;
        assert_int_equal(ethmx_rma_withdraw(target, region), ETHMX_OK);
        assert_int_equal(put(&s, &to, &word, sizeof(word)), ETHMX_ERR_ACCESS);
        assert_int_equal(get(&s, &to, &word, sizeof(word)), ETHMX_ERR_ACCESS);
    }
    ethmx_ep_close(s.ep);
    ethmx_ep_close(target);
}

/* A target that is killed: what this process has mapped stays readable until the death is known, and then operations
 * fail. */
static void target_dies(void **state)
{
    const struct pair_options plain = {.heartbeat = "1ms"};
    struct side s = {.fd = -1};
    struct ethmx_rma_target to = {.offset = 0};
    struct timespec since;
    uint64_t word;
    int fd[2], status, rc;
    pid_t pid;

    (void)state;
    pid = fork_other(fd);
    if (!pid) {
        struct ethmx_region *region;
        void *base;

        s = (struct side){.role = 1, .fd = fd[1], .ep = open_endpoint(&plain)};
        if (!s.ep || !exchange(&s) || ethmx_rma_allocate(s.ep, 64, &base, &region, &to.key) ||
            !send_data(&s, 1, flat(&to.key, sizeof(to.key))) || !await_signal(&s, 2))
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    s.ep = open_end((const char *const[]){"wires", "shm,udp", "udp_ports", "0", "peer_timeout", "1s", NULL});
    s.fd = fd[0];
    assert_true(exchange(&s));
    to.peer = s.peer;
    {
        struct ethmx_result r;

        assert_true(recv_data(&s, 1, flat(&to.key, sizeof(to.key)), &r));
    }
    assert_true(await_map(&s, &to));
    assert_true(signal_other(&s, 2));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    clock_gettime(CLOCK_MONOTONIC, &since);
    do {
        rc = get(&s, &to, &word, sizeof(word));
        poll_some(&s, 1);
    } while (rc == ETHMX_OK && !late(&since));
    assert_int_equal(rc, ETHMX_ERR_PEER_DEAD);
    ethmx_ep_close(s.ep);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(target_dies), /* first: it forks */
        cmocka_unit_test(from_all_sides),
        cmocka_unit_test(withdrawn),
        cmocka_unit_test(served_in_every_mode),
    };

    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("rma", tests, NULL, NULL);
}
