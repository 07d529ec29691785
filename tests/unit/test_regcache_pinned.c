/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The registration cache before a device that really holds pages: io_uring pins a registered buffer as a driver does,
 * and writes from those pages to a file, whatever is mapped at their address by now. What arrives in the file must be
 * what the program sees: over and over with other memory at the same address, in several threads, and with children
 * that share the pages after fork().
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ethmx.h"
#include "mem/regcache.h"

#define BYTES   ((size_t)32 << 10)
#define ROUNDS  1000
#define THREADS 3
#define AGAIN   3 /* messages from each buffer */

/* ---- The device: a ring for each registration. Rings are used again: one that is closed goes some time later, and
 * until then its memory counts against RLIMIT_MEMLOCK. ---- */

struct ring {
    struct ring *next;
    int fd;
    struct io_uring_params p;
    char *sq, *cq;
    size_t sq_bytes, cq_bytes;
    struct io_uring_sqe *sqe;
};

static void *ring_map(const struct ring *r, size_t bytes, off_t what)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, what);

    if (p == MAP_FAILED)
        abort();
    return p;
}

static struct ring *ring_open(void)
{
    struct ring *r = calloc(1, sizeof(*r));

    if (!r)
        abort();
    r->fd = (int)syscall(SYS_io_uring_setup, 1, &r->p);
    if (r->fd < 0) {
        free(r);
        return NULL;
    }
    r->sq_bytes = r->p.sq_off.array + r->p.sq_entries * sizeof(uint32_t);
    r->cq_bytes = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
    r->sq = ring_map(r, r->sq_bytes, IORING_OFF_SQ_RING);
    r->cq = ring_map(r, r->cq_bytes, IORING_OFF_CQ_RING);
    r->sqe = ring_map(r, r->p.sq_entries * sizeof(*r->sqe), IORING_OFF_SQES);
    return r;
}

static void ring_close(struct ring *r)
{
    munmap(r->sq, r->sq_bytes);
    munmap(r->cq, r->cq_bytes);
    munmap(r->sqe, r->p.sq_entries * sizeof(*r->sqe));
    close(r->fd);
    free(r);
}

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ring *idle;

static struct ring *ring_take(void)
{
    struct ring *r;

    pthread_mutex_lock(&idle_lock);
    r = idle;
    if (r)
        idle = r->next;
    pthread_mutex_unlock(&idle_lock);
    return r ? r : ring_open();
}

static void ring_give(struct ring *r)
{
    pthread_mutex_lock(&idle_lock);
    r->next = idle;
    idle = r;
    pthread_mutex_unlock(&idle_lock);
}

static int teardown(void **state)
{
    (void)state;
    while (idle) {
        struct ring *r = idle;

        idle = r->next;
        ring_close(r);
    }
    return 0;
}

static int reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    struct iovec iov = {.iov_base = base, .iov_len = len_bytes};
    struct ring *r = ring_take();

    (void)arg, (void)access;
    if (!r)
        return ETHMX_ERR_NO_MEMORY;
    if (!syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &iov, 1)) {
        *mr_p = r;
        return ETHMX_OK;
    }
    ring_give(r);
    return errno == ENOMEM ? ETHMX_ERR_NO_MEMORY : ETHMX_ERR_PARAM;
}

static void dereg(void *arg, void *mr)
{
    struct ring *r = mr;

    (void)arg;
    (void)syscall(SYS_io_uring_register, r->fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
    ring_give(r);
}

/* Sends what the device has for buf to the file. */
static bool ring_send(struct ring *r, const char *buf, size_t len_bytes, int file)
{
    uint32_t *tail = (uint32_t *)(void *)(r->sq + r->p.sq_off.tail);
    uint32_t *array = (uint32_t *)(void *)(r->sq + r->p.sq_off.array);
    uint32_t *cq_head = (uint32_t *)(void *)(r->cq + r->p.cq_off.head);
    uint32_t *cq_tail = (uint32_t *)(void *)(r->cq + r->p.cq_off.tail);
    const struct io_uring_cqe *cqe = (const void *)(r->cq + r->p.cq_off.cqes);
    uint32_t head = *cq_head;

    r->sqe[0] = (struct io_uring_sqe){
        .opcode = IORING_OP_WRITE_FIXED, .fd = file, .addr = (uintptr_t)buf, .len = (uint32_t)len_bytes};
    array[*tail & (r->p.sq_entries - 1)] = 0;
    __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
    if (syscall(SYS_io_uring_enter, r->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
        return false;
    if (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) == head)
        return false;
    cqe += head & (r->p.cq_entries - 1);
    __atomic_store_n(cq_head, head + 1, __ATOMIC_RELEASE);
    return cqe->res == (int)len_bytes;
}

/* ---- The program ---- */

static struct emx_stats stats;
static struct emx_regcache *cache;

/* false: there is no such device here. */
static bool begin(void)
{
    struct emx_regcache_params params = {.registrar = {.name = "io_uring", .reg = reg, .dereg = dereg},
                                         .stats = &stats};
    struct emx_config cfg;
    struct ring *r = ring_take();
    char why[256];

    if (!r) {
        print_message("left out: io_uring: %s\n", strerror(errno));
        return false;
    }
    ring_give(r);
    emx_config_defaults(&cfg);
    params.cfg = &cfg;
    memset(&stats, 0, sizeof(stats));
    assert_int_equal(emx_regcache_open(&cache, &params, why, sizeof(why)), ETHMX_OK);
    return true;
}

/* Sends buf by way of the device. Whether the file has it then. */
static bool arrives(const char *buf, size_t len_bytes, int file)
{
    static _Thread_local char got[BYTES];
    struct emx_region *r;
    bool sent;

    CHECK(!emx_regcache_get(cache, buf, len_bytes, EMX_MEM_READ, &r));
    sent = ring_send(r->mr, buf, len_bytes, file);
    emx_regcache_put(cache, r);
    CHECK(sent);
    CHECK(pread(file, got, len_bytes, 0) == (ssize_t)len_bytes);
    CHECK(!memcmp(got, buf, len_bytes));
    return true;
}

static void fill(char *buf, struct emx_rng *rng)
{
    for (size_t i = 0; i < BYTES; i += sizeof(uint64_t)) {
        uint64_t v = emx_rng_next(rng);

        memcpy(buf + i, &v, sizeof(v));
    }
}

/* New memory at the same address, in one way or another. */
static char *renew(char *buf, struct emx_rng *rng)
{
    switch (emx_rng_below(rng, 4)) {
    case 0:
        madvise(buf, BYTES, MADV_DONTNEED);
        return buf;
    case 1:
        return mmap(buf, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    default: /* the place goes to whoever asks first, and that may be another thread */
        munmap(buf, BYTES);
        return mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
}

static void *work(void *arg)
{
    struct emx_rng rng = {(uintptr_t)arg};
    int file = memfd_create("ethmx", MFD_CLOEXEC);
    char *buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool ok = file >= 0;

    for (unsigned i = 0; i < ROUNDS && ok; i++) {
        for (unsigned again = 0; again < AGAIN && ok; again++) {
            size_t from = emx_rng_below(&rng, BYTES / 2);

            fill(buf, &rng);
            ok = arrives(buf + from, 1 + emx_rng_below(&rng, BYTES - from), file);
        }
        buf = renew(buf, &rng);
        ok = ok && buf != MAP_FAILED;
    }
    close(file);
    munmap(buf, BYTES);
    return ok ? arg : NULL;
}

static void test_same_address(void **state)
{
    pthread_t t[THREADS];
    void *ok;

    (void)state;
    if (!begin())
        return;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, work, (void *)(i + 1)), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(t[i], &ok);
        assert_non_null(ok);
    }
    print_message("%u made, %u hits, %u invalidated, %u not kept\n", (unsigned)stats.reg_made, (unsigned)stats.reg_hits,
                  (unsigned)stats.reg_invalidated, (unsigned)stats.reg_once);
    emx_regcache_close(cache);
}

/* The pages are shared with a child, and then the parent writes: it must write to those that the device has. */
static void test_fork(void **state)
{
    char *buf = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), byte;
    int file = memfd_create("ethmx", MFD_CLOEXEC), stay[2], status;
    struct emx_rng rng = {1};
    pid_t child;

    (void)state;
    assert_ptr_not_equal(buf, MAP_FAILED);
    if (!begin())
        return;
    for (unsigned i = 0; i < 20; i++) {
        fill(buf, &rng);
        assert_true(arrives(buf, BYTES, file));
        assert_int_equal(pipe(stay), 0);
        child = fork();
        assert_true(child >= 0);
        if (!child) {
            close(stay[1]);
            buf[i] = 1;
            _exit(read(stay[0], &byte, 1) != 0);
        }
        fill(buf, &rng);
        assert_true(arrives(buf, BYTES, file));
        close(stay[1]);
        close(stay[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    assert_true(stats.reg_made == 1 || stats.reg_hits == 0);
    emx_regcache_close(cache);
    close(file);
    munmap(buf, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_address), cmocka_unit_test(test_fork)};

    return cmocka_run_group_tests(tests, NULL, teardown);
}
