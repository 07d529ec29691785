/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memwatch: everything that takes pages away from the program is told before the call that does it returns; what cannot
 * be told is not watched; nobody waits for ever, not after the end, not with a child about.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/memwatch.h"

static size_t page;

struct ear {
    struct emx_watcher w;
    uintptr_t base, end; /* what is listened for */
    unsigned told;
};

static void heard(struct emx_watcher *w, uintptr_t base, uintptr_t end)
{
    struct ear *e = emx_container(w, struct ear, w);

    if (base < e->end && e->base < end)
        e->told++;
}

/* false: nothing works here, and the test is left out. */
static bool join(struct ear *e, enum emx_watch mode)
{
    char why[256];

    *e = (struct ear){.w.gone = heard};
    if (emx_memwatch_join(&e->w, mode, why, sizeof(why)) != EMX_WATCH_OFF)
        return true;
    print_message("left out: %s\n", why);
    return false;
}

static char *map(size_t pages, int flags)
{
    char *p = mmap(NULL, pages * page, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    memset(p, 1, pages * page);
    return p;
}

static bool watch(struct ear *e, char *p, size_t pages)
{
    bool ok;

    assert_true(emx_memwatch_settle());
    emx_memwatch_lock();
    e->base = (uintptr_t)p;
    e->end = (uintptr_t)p + pages * page;
    e->told = 0;
    ok = emx_memwatch_add(e->base, e->end);
    emx_memwatch_unlock();
    return ok;
}

static unsigned told(struct ear *e)
{
    unsigned n;

    assert_true(emx_memwatch_quiet());
    emx_memwatch_lock();
    n = e->told;
    e->told = 0;
    emx_memwatch_unlock();
    return n;
}

static void test_each_way(void **state)
{
    struct ear e;
    char *p, *q;

    (void)state;
    if (!join(&e, EMX_WATCH_UFFD))
        return;
    p = map(8, MAP_PRIVATE);
    assert_true(watch(&e, p + 2 * page, 4));
    assert_int_equal(munmap(p, page), 0); /* of the mapping, not of what is listened for */
    assert_int_equal(told(&e), 0);
    assert_int_equal(madvise(p + 2 * page, page, MADV_DONTNEED), 0);
    assert_int_equal(told(&e), 1);
    assert_int_equal(madvise(p + 2 * page, page, MADV_FREE), 0);
    assert_int_equal(told(&e), 1);
    assert_ptr_equal(mmap(p + 3 * page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     p + 3 * page);
    assert_int_equal(told(&e), 1);
    q = mremap(p + 4 * page, page, 2 * page, MREMAP_MAYMOVE);
    assert_ptr_not_equal(q, MAP_FAILED);
    assert_true(told(&e) > 0);
    assert_true(watch(&e, q, 2));
    assert_int_equal(munmap(q, 2 * page), 0);
    assert_int_equal(told(&e), 1);
    assert_int_equal(munmap(p + page, 7 * page), 0);
    emx_memwatch_leave(&e.w);
}

static void test_brk(void **state)
{
    struct ear e;
    char *p;

    (void)state;
    if (!join(&e, EMX_WATCH_UFFD))
        return;
    p = sbrk((intptr_t)(16 * page));
    assert_ptr_not_equal(p, (char *)-1);
    p += page - (uintptr_t)p % page;
    assert_true(watch(&e, p, 8));
    assert_ptr_not_equal(sbrk(-(intptr_t)(16 * page)), (char *)-1);
    assert_true(told(&e) > 0);
    emx_memwatch_leave(&e.w);
}

/* A mapping watched stays one mapping for the program. */
static void test_mremap_as_before(void **state)
{
    struct ear e;
    char *p, *q;

    (void)state;
    if (!join(&e, EMX_WATCH_UFFD))
        return;
    p = map(8, MAP_PRIVATE);
    assert_true(watch(&e, p + 3 * page, 1));
    q = mremap(p, 8 * page, 512 * page, MREMAP_MAYMOVE);
    assert_ptr_not_equal(q, MAP_FAILED);
    p = mremap(q, 512 * page, 1024 * page, MREMAP_MAYMOVE);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(p[3 * page], 1);
    assert_true(watch(&e, p, 8)); /* known from before it was moved */
    munmap(p, 1024 * page);
    assert_int_equal(told(&e), 1);
    emx_memwatch_leave(&e.w);
}

static void test_not_watched(void **state)
{
    struct ear e;
    char *shared, *p;

    (void)state;
    if (!join(&e, EMX_WATCH_AUTO))
        return;
    shared = map(2, MAP_SHARED);
    assert_false(watch(&e, shared, 2));
    assert_int_equal(munmap(shared, 2 * page), 0);
    p = map(3, MAP_PRIVATE);
    assert_int_equal(munmap(p + page, page), 0);
    assert_false(watch(&e, p, 3)); /* a hole in it */
    assert_int_equal(munmap(p, 3 * page), 0);
    emx_memwatch_leave(&e.w);
}

/* More mappings than the table holds: it begins anew, and says that all is gone. */
static void test_very_many(void **state)
{
    enum { MANY = 2600 };
    char *p = map(2 * MANY, MAP_PRIVATE);
    unsigned refused = 0;
    struct ear e;

    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(mprotect(p + 2 * i * page, page, PROT_NONE), 0);
    if (!join(&e, EMX_WATCH_UFFD))
        return;
    for (unsigned i = 0; i < MANY; i++) {
        if (!watch(&e, p + (2 * i + 1) * page, 1)) {
            assert_true(told(&e) > 0);
            refused++;
        }
    }
    assert_true(refused >= 1 && refused < 10);
    munmap(p, 2 * MANY * page);
    emx_memwatch_leave(&e.w);
}

#if defined(__SANITIZE_THREAD__)
#define CHILD_MAY_WATCH 0 /* the thread sanitizer allows no new threads after fork() */
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILD_MAY_WATCH 0
#endif
#endif
#ifndef CHILD_MAY_WATCH
#define CHILD_MAY_WATCH 1
#endif

/* What the child does: unmaps, and has a watch of its own, with nobody in it. */
static bool child_watches(char *p)
{
    struct ear e;
    bool ok;

    munmap(p, page);
    if (!CHILD_MAY_WATCH)
        return true;
    ok = join(&e, EMX_WATCH_AUTO) && watch(&e, p + page, 1) && !munmap(p + page, page) && told(&e) == 1;
    emx_memwatch_leave(&e.w);
    return ok;
}

/* After the last has left, unmapping waits for nobody, even with a child that has got a copy of everything. */
static void test_child(void **state)
{
    int go[2], status;
    struct ear e;
    char *p, byte;
    pid_t child;

    (void)state;
    if (!join(&e, EMX_WATCH_AUTO))
        return;
    p = map(64, MAP_PRIVATE);
    assert_true(watch(&e, p, 64));
    assert_int_equal(pipe(go), 0);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        close(go[1]);
        if (!child_watches(p))
            _exit(1);
        _exit(read(go[0], &byte, 1) != 0); /* stays until the parent is through */
    }
    assert_int_equal(told(&e), 0); /* the child's memory is not ours */
    munmap(p, page);
    assert_int_equal(told(&e), 1);
    emx_memwatch_leave(&e.w);
    munmap(p + page, 63 * page);
    close(go[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    close(go[0]);
}

static bool host_can, host_tells;

static bool host_tell(bool on)
{
    host_tells = on && host_can;
    return host_tells;
}

static const struct ethmx_memory_host host = {.struct_bytes = sizeof(host), .name = "a test", .tell = host_tell};

static void test_host(void **state)
{
    struct ear e;
    char why[256], *p;

    (void)state;
    assert_int_equal(emx_memwatch_join(&e.w, EMX_WATCH_HOST, why, sizeof(why)), EMX_WATCH_OFF);
    assert_true(*why);
    emx_memwatch_gone(0, 1); /* heard by nobody */
    emx_memwatch_host(&host);
    assert_int_equal(emx_memwatch_join(&e.w, EMX_WATCH_HOST, why, sizeof(why)), EMX_WATCH_OFF);
    assert_non_null(strstr(why, "a test"));
    host_can = true;
    assert_true(join(&e, EMX_WATCH_HOST));
    assert_true(host_tells);
    p = map(1, MAP_PRIVATE);
    assert_true(watch(&e, p, 1));
    emx_memwatch_gone((uintptr_t)p, (uintptr_t)p + page);
    munmap(p, page);
    assert_int_equal(told(&e), 1);
    emx_memwatch_leave(&e.w);
    assert_false(host_tells);
    emx_memwatch_host(NULL);
}

/* ---- Many threads that unmap, and one that comes and goes ---- */

#define CHURN_THREADS 4
#define CHURN_ROUNDS  300

static struct ear churn_ear;

static void *churn(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < CHURN_ROUNDS; i++) {
        char *p = map(4, MAP_PRIVATE);

        if (emx_memwatch_settle()) {
            emx_memwatch_lock();
            emx_memwatch_add((uintptr_t)p, (uintptr_t)p + 4 * page);
            emx_memwatch_unlock();
        }
        munmap(p, 4 * page);
    }
    return NULL;
}

static void test_churn(void **state)
{
    pthread_t t[CHURN_THREADS];

    (void)state;
    if (!join(&churn_ear, EMX_WATCH_AUTO))
        return;
    for (unsigned i = 0; i < CHURN_THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, NULL), 0);
    for (unsigned i = 0; i < 50; i++) {
        struct ear e;

        assert_true(join(&e, EMX_WATCH_AUTO));
        emx_memwatch_leave(&e.w);
    }
    for (unsigned i = 0; i < CHURN_THREADS; i++)
        pthread_join(t[i], NULL);
    emx_memwatch_leave(&churn_ear.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_way),    cmocka_unit_test(test_brk),       cmocka_unit_test(test_mremap_as_before),
        cmocka_unit_test(test_not_watched), cmocka_unit_test(test_very_many), cmocka_unit_test(test_child),
        cmocka_unit_test(test_host),        cmocka_unit_test(test_churn),
    };

    page = (size_t)sysconf(_SC_PAGESIZE);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
