/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published counters: other processes find them under the right name, as long as they are open, each once.
 */
#include "unit.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "endpoint/published.h"
#include "ethmx_published.h"

struct found {
    unsigned pid, count;
    struct ethmx_published p;
    uint64_t counter[EMX_C_COUNT];
    bool has_counters;
};

static void take(void *arg, const struct ethmx_published *p)
{
    struct found *f = arg;

    if (p->pid != f->pid)
        return;
    f->count++;
    f->p = *p;
    f->has_counters = p->counter != NULL;
    if (p->counter)
        memcpy(f->counter, p->counter, sizeof(f->counter));
}

static struct found look(pid_t pid)
{
    struct found f = {.pid = (unsigned)pid};

    assert_int_equal(ethmx_each_published(take, &f), ETHMX_OK);
    return f;
}

static void test_found(void **state)
{
    struct emx_published p;
    struct emx_stats *stats = emx_published_open(&p, true);
    struct found f;

    (void)state;
    assert_non_null(stats);
    stats->msgs_sent = 7;
    assert_int_equal(look(getpid()).count, 0); /* it has no name yet */
    emx_published_name(&p, 0x1234, 0x5678, 4);
    stats->drop_memory = UINT64_C(1) << 40;
    f = look(getpid());
    assert_int_equal(f.count, 1);
    assert_true(f.has_counters);
    assert_int_equal(f.p.uid, getuid());
    assert_int_equal(f.p.endpoint, 0x1234);
    assert_int_equal(f.p.job, 0x5678);
    assert_int_equal(f.p.process, 4);
    assert_int_equal(f.counter[EMX_C_msgs_sent], 7);
    assert_true(f.counter[EMX_C_drop_memory] == UINT64_C(1) << 40);
    emx_published_close(&p);
    assert_int_equal(look(getpid()).count, 0);
}

static void test_not_wanted(void **state)
{
    struct emx_published p;
    struct emx_stats *stats = emx_published_open(&p, false);

    (void)state;
    assert_non_null(stats);
    assert_int_equal(stats->msgs_sent, 0);
    emx_published_name(&p, 1, 2, 3);
    assert_int_equal(look(getpid()).count, 0);
    emx_published_close(&p);
}

/* A process that is killed leaves nothing behind. A child of fork() is not counted beside its parent. */
static void test_another_process(void **state)
{
    int ready[2], end[2], status;
    char byte = 0;
    pid_t child;

    (void)state;
    assert_int_equal(pipe(ready) | pipe(end), 0);
    child = fork();
    if (!child) {
        struct emx_published p;
        struct emx_stats *stats = emx_published_open(&p, true);

        emx_published_name(&p, 1, 2, 3);
        stats->frames_sent = 9;
        fork();
        close(end[1]);
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        _exit(read(end[0], &byte, 1) != 0);
    }
    close(end[0]);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(look(child).count, 1);
    assert_int_equal(look(child).counter[EMX_C_frames_sent], 9);
    close(end[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
    assert_int_equal(look(child).count, 0);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_not_wanted),
        cmocka_unit_test(test_another_process),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
