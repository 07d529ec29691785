/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The public interface from end to end: two endpoints, each with its role in every scenario, over real wires. They are
 * two threads of one process, then two processes; with EMX_TEST_PEER_NETNS, the second process lives in that network
 * namespace, on another "host". Which wire: ETHMX_* variables; without them udp on loopback, which needs no privileges.
 *
 * The roles meet through messages, or through a pair of sockets (tell, hear) where the wire must not help.
 */
#define _GNU_SOURCE
#include "api/scenario.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define SCENARIO_ROW(name, flags) {#name, name, flags},

static const struct {
    const char *name;
    bool (*run)(const struct side *s);
    unsigned flags;
} scenarios[] = {SCENARIOS(SCENARIO_ROW)};

static bool run_role(int role, int fd, const struct pair_options *o)
{
    struct side s = {.role = role, .fd = fd, .ep = open_endpoint(o)};

    CHECK(s.ep);
    CHECK(exchange(&s));
    for (unsigned i = 0; i < ARRAY_LEN(scenarios); i++) {
        if (scenarios[i].flags & ONLY_THREADS && !o->threads)
            continue;
        s.scenario = i + 1;
        if (!scenarios[i].run(&s)) {
            print_error("scenario %s, role %d\n", scenarios[i].name, role);
            return false;
        }
        if (role == 0 && scenarios[i].flags & CLOSES_ROLE_0)
            return true;
    }
    ethmx_ep_close(s.ep);
    return true;
}

struct role_thread {
    int fd;
    const struct pair_options *o;
    bool ok;
};

static void *role_main(void *arg)
{
    struct role_thread *r = arg;

    r->ok = run_role(1, r->fd, r->o);
    if (!r->ok)
        exit(1); /* role 0 would wait in vain */
    return NULL;
}

static void one_process(const struct pair_options *o)
{
    struct role_thread r = {.o = o};
    pthread_t t;
    int fd[2];

    make_sockets(fd);
    r.fd = fd[1];
    assert_int_equal(pthread_create(&t, NULL, role_main, &r), 0);
    assert_true(run_role(0, fd[0], o));
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(r.ok);
    close(fd[0]);
    close(fd[1]);
}

/* The second process moves to the namespace that EMX_TEST_PEER_NETNS names. */
static bool move_away(void)
{
    const char *path = getenv("EMX_TEST_PEER_NETNS");
    int fd, rc;

    if (!path)
        return true;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    rc = setns(fd, CLONE_NEWNET);
    close(fd);
    CHECK(rc == 0);
    return true;
}

static void two_processes(const struct pair_options *o)
{
    int fd[2], status = -1;
    pid_t pid;
    bool ok;

    pid = fork_other(fd);
    if (!pid) {
        close(fd[0]);
        _exit(!(move_away() && run_role(1, fd[1], o)));
    }
    close(fd[1]);
    ok = run_role(0, fd[0], o);
    if (!ok)
        kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(ok);
    assert_int_equal(status, 0);
    close(fd[0]);
}

static void scenarios_in_one_process(void **state)
{
    (void)state;
    one_process(&(struct pair_options){.heartbeat = "20ms"});
}

static void scenarios_in_one_process_with_threads(void **state)
{
    (void)state;
    one_process(&(struct pair_options){.heartbeat = "20ms", .threads = true});
}

static void scenarios_in_two_processes(void **state)
{
    (void)state;
    two_processes(&(struct pair_options){.heartbeat = "20ms"});
}

static void scenarios_in_two_processes_with_threads(void **state)
{
    (void)state;
    two_processes(&(struct pair_options){.heartbeat = "20ms", .threads = true});
}

/* Two roles that sleep and wake each other. */
static void scenarios_asleep(void **state)
{
    (void)state;
    two_processes(&(struct pair_options){.heartbeat = "20ms", .wait = "sleep"});
    one_process(&(struct pair_options){.heartbeat = "20ms", .wait = "sleep", .threads = true});
}

/* Without the heartbeat: the thread alone stands in for who computes. */
static void scenarios_with_progress_thread(void **state)
{
    (void)state;
    two_processes(&(struct pair_options){.heartbeat = "0", .progress = "thread"});
    two_processes(&(struct pair_options){.heartbeat = "0", .progress = "thread", .wait = "sleep"});
    one_process(&(struct pair_options){.heartbeat = "0", .progress = "thread", .threads = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scenarios_in_one_process),   cmocka_unit_test(scenarios_in_one_process_with_threads),
        cmocka_unit_test(scenarios_in_two_processes), cmocka_unit_test(scenarios_in_two_processes_with_threads),
        cmocka_unit_test(scenarios_asleep),           cmocka_unit_test(scenarios_with_progress_thread),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("api", tests, NULL, NULL);
}
