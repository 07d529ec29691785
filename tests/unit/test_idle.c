/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a waiting program does between its polls, seen by the counters `yields` and `sleeps`. Over udp on loopback
 * unless ETHMX_* variables say otherwise.
 */
#define _GNU_SOURCE
#include "api/role.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define POLLS 20000 /* many times what any mode waits for */

struct idler {
    const char *wait;
    bool polls_others;
    unsigned local_ranks;
};

static struct ethmx_ep *open_idler(const struct idler *o)
{
    struct ethmx_ep_options opt = {
        .api_version = ETHMX_API_VERSION, .polls_others = o->polls_others, .local_ranks = o->local_ranks};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    assert_int_equal(ethmx_config_set(cfg, "wait", o->wait, "test"), ETHMX_OK);
    assert_int_equal(ethmx_ep_open(cfg, &opt, &ep), ETHMX_OK);
    ethmx_config_destroy(cfg);
    return ep;
}

/* A receive that nothing matches. */
static void receive_in_vain(struct ethmx_ep *ep, void *buf, size_t len_bytes, struct pending *p)
{
    const struct ethmx_data room = flat(buf, len_bytes);

    assert_int_equal(ethmx_irecv(ep, NULL, 1, FULL_MASK, &room, done, p, NULL, &p->result), ETHMX_INPROGRESS);
}

static void receive_nothing(struct ethmx_ep *ep, struct pending *p)
{
    receive_in_vain(ep, NULL, 0, p);
}

enum waits_for { OTHER_THINGS, RECEIVE, PROBE };

static void probe_nothing(struct ethmx_ep *ep)
{
    struct ethmx_result result;

    assert_int_equal(ethmx_iprobe(ep, NULL, 1, FULL_MASK, &result), ETHMX_ERR_NO_MATCH);
}

static void expect(const struct idler *o, enum waits_for what, bool yields, bool sleeps)
{
    struct ethmx_ep *ep = open_idler(o);
    struct pending p = {.done = false};

    if (what == RECEIVE)
        receive_nothing(ep, &p);
    for (unsigned i = 0; i < POLLS && !(sleeps && counter(ep, "sleeps") >= 3); i++) {
        if (what == PROBE)
            probe_nothing(ep);
        ethmx_progress(ep);
    }
    assert_int_equal(counter(ep, "yields") > 0, yields);
    assert_int_equal(counter(ep, "sleeps") > 0, sleeps);
    ethmx_ep_close(ep);
    assert_false(p.done);
}

static void spin_only_polls(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "spin"}, RECEIVE, false, false);
    expect(&(struct idler){.wait = "spin", .local_ranks = 1u << 20}, RECEIVE, false, false);
}

static void yield_never_sleeps(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "yield"}, RECEIVE, true, false);
}

static void sleep_does_not_yield_first(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "sleep"}, RECEIVE, false, true);
}

/* More ranks than cores: known without looking. */
static void auto_counts_ranks(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "auto", .local_ranks = 1u << 20}, RECEIVE, true, true);
}

/* As many ranks as the host has cores, each bound to one: each has a core for itself, and polls. */
static void bound_ranks_are_no_crowd(void **state)
{
    struct idler bound = {.wait = "auto", .local_ranks = (unsigned)sysconf(_SC_NPROCESSORS_ONLN)};
    struct pending p = {.done = false};
    cpu_set_t before, one;
    struct ethmx_ep *ep;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    ep = open_idler(&bound);
    receive_nothing(ep, &p);
    for (unsigned i = 0; i < 100; i++)
        ethmx_progress(ep);
    assert_int_equal(counter(ep, "yields") + counter(ep, "sleeps"), 0);
    ethmx_ep_close(ep);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

/* The program waits for something that is not ours. */
static void without_operation_nobody_sleeps(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "sleep"}, OTHER_THINGS, true, false);
    expect(&(struct idler){.wait = "auto", .local_ranks = 1u << 20}, OTHER_THINGS, true, false);
}

/* Probes are no operations, but the program waits for us. */
static void who_probes_sleeps(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "sleep"}, PROBE, false, true);
    expect(&(struct idler){.wait = "auto", .local_ranks = 1u << 20}, PROBE, true, true);
    expect(&(struct idler){.wait = "yield"}, PROBE, true, false);
    expect(&(struct idler){.wait = "sleep", .polls_others = true}, PROBE, true, false);
}

/* One that has probed, and now waits for something that is not ours. */
static void a_probe_of_long_ago_does_not_count(void **state)
{
    struct ethmx_ep *ep = open_idler(&(struct idler){.wait = "sleep"});

    (void)state;
    probe_nothing(ep);
    for (unsigned i = 0; i < POLLS; i++)
        ethmx_progress(ep);
    assert_true(counter(ep, "sleeps") <= 1);
    ethmx_ep_close(ep);
}

static void who_polls_others_never_sleeps(void **state)
{
    (void)state;
    expect(&(struct idler){.wait = "sleep", .polls_others = true}, RECEIVE, true, false);
    expect(&(struct idler){.wait = "auto", .polls_others = true, .local_ranks = 1u << 20}, RECEIVE, true, false);
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* A program that computes, and tests a request now and then. */
static void who_computes_between_polls_is_left_alone(void **state)
{
    struct ethmx_ep *ep = open_idler(&(struct idler){.wait = "sleep"});
    struct pending p = {.done = false};

    (void)state;
    receive_nothing(ep, &p);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t end_ns = cpu_ns() + 20000;

        while (cpu_ns() < end_ns)
            ;
        ethmx_progress(ep);
    }
    assert_int_equal(counter(ep, "yields") + counter(ep, "sleeps"), 0);
    ethmx_ep_close(ep);
}

/* On one core with n processes that spin; elsewhere: in sessions of their own. */
static void share_core(pid_t *pid, unsigned n, bool elsewhere, cpu_set_t *before)
{
    cpu_set_t one;

    assert_int_equal(sched_getaffinity(0, sizeof(*before), before), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    fflush(NULL);
    for (unsigned i = 0; i < n; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (!pid[i]) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not end it */
            if (elsewhere)
                setsid();
            for (;;) /* a condition would let the compiler assume that this ends */
                ;
        }
    }
}

static void end_sharing(const pid_t *pid, unsigned n, const cpu_set_t *before)
{
    for (unsigned i = 0; i < n; i++) {
        kill(pid[i], SIGKILL);
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(*before), before), 0);
}

/* Nobody tells auto how many ranks there are, but another process wants the only core. */
static void auto_observes_who_else_runs(void **state)
{
    struct ethmx_ep *ep;
    struct pending p = {.done = false};
    cpu_set_t before;
    pid_t pid;

    (void)state;
    share_core(&pid, 1, false, &before);
    ep = open_idler(&(struct idler){.wait = "auto"});
    receive_nothing(ep, &p);
    while (!counter(ep, "sleeps"))
        ethmx_progress(ep);
    end_sharing(&pid, 1, &before);
    ethmx_ep_close(ep);
}

/* Others run for milliseconds while it yields: that is not work of its own, and it comes to sleep. */
static void long_yields_are_no_work(void **state)
{
    enum { SPINNERS = 3, ENOUGH = 60 }; /* yields; eight in a row are needed */
    struct pending p = {.done = false};
    struct ethmx_ep *ep;
    cpu_set_t before;
    pid_t pid[SPINNERS];

    (void)state;
    share_core(pid, SPINNERS, false, &before);
    ep = open_idler(&(struct idler){.wait = "auto", .local_ranks = 1u << 20});
    receive_nothing(ep, &p);
    while (!counter(ep, "sleeps") && counter(ep, "yields") < ENOUGH)
        ethmx_progress(ep);
    end_sharing(pid, SPINNERS, &before);
    assert_true(counter(ep, "yields") < ENOUGH);
    ethmx_ep_close(ep);
}

/* Whether the kernel comes back from sched_yield() without having run the process that wants the core too, as it does
 * where that one is of another session (autogroup). */
static bool yields_are_vain(void)
{
    enum { YIELDS = 100 };
    struct rusage before, after;

    assert_int_equal(getrusage(RUSAGE_THREAD, &before), 0);
    for (unsigned i = 0; i < YIELDS; i++)
        sched_yield();
    assert_int_equal(getrusage(RUSAGE_THREAD, &after), 0);
    return after.ru_nivcsw - before.ru_nivcsw < YIELDS / 4;
}

/* The MPI library yields between the polls, in vain. A large message is worth sleep once the wait has cost something, a
 * small one is not. Where a poll takes as long as work (a sanitizer on a busy machine) nothing can be told. */
static void who_yields_in_vain_sleeps_for_a_large_message(void **state)
{
    enum { SMALL_NS = 3000000, LARGE_NS = 1000000000, CHEAP_NS = 4000 }; /* of our processor time */
    static uint8_t buf[1 << 20];
    cpu_set_t before;
    bool vain, cheap = true;
    pid_t pid;

    (void)state;
    share_core(&pid, 1, true, &before);
    vain = yields_are_vain();
    for (unsigned large = 0; vain && cheap && large < 2; large++) {
        struct ethmx_ep *ep = open_idler(&(struct idler){.wait = "auto"});
        uint64_t begin_ns = cpu_ns(), most_ns = large ? LARGE_NS : SMALL_NS, rounds = 0;
        struct pending p = {.done = false};

        receive_in_vain(ep, buf, large ? sizeof(buf) : 16, &p);
        while (!counter(ep, "sleeps") && cpu_ns() - begin_ns < most_ns) {
            sched_yield();
            ethmx_progress(ep);
            rounds++;
        }
        cheap = cpu_ns() - begin_ns < rounds * CHEAP_NS;
        assert_true(!cheap || (counter(ep, "sleeps") > 0) == large);
        ethmx_ep_close(ep);
    }
    end_sharing(&pid, 1, &before);
    if (!vain || !cheap)
        skip();
}

/* Also on a shared core, and however long it takes until something comes. */
static void who_computes_on_a_shared_core_is_left_alone(void **state)
{
    static uint8_t buf[1 << 20];
    struct ethmx_ep *ep;
    struct pending p = {.done = false};
    cpu_set_t before;
    pid_t pid;

    (void)state;
    share_core(&pid, 1, false, &before);
    ep = open_idler(&(struct idler){.wait = "auto"});
    receive_in_vain(ep, buf, sizeof(buf), &p);
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t end_ns = cpu_ns() + 20000;

        while (cpu_ns() < end_ns)
            ;
        ethmx_progress(ep);
    }
    assert_int_equal(counter(ep, "sleeps"), 0);
    end_sharing(&pid, 1, &before);
    ethmx_ep_close(ep);
}

static struct ethmx_ep *open_threaded(void)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    assert_int_equal(ethmx_config_set(cfg, "progress", "thread", "test"), ETHMX_OK);
    assert_int_equal(ethmx_config_set(cfg, "heartbeat", "0", "test"), ETHMX_OK);
    assert_int_equal(ethmx_ep_open(cfg, &opt, &ep), ETHMX_OK);
    ethmx_config_destroy(cfg);
    return ep;
}

/* The program is away: the progress thread stands in, and ends its sleep when the endpoint closes. */
static void thread_stands_in(void **state)
{
    static uint8_t buf[1 << 20];
    struct ethmx_ep *ep = open_threaded();
    struct pending p = {.done = false};
    const struct ethmx_data data = flat(buf, sizeof(buf));

    (void)state;
    assert_int_equal(ethmx_irecv(ep, NULL, 1, FULL_MASK, &data, done, &p, NULL, &p.result), ETHMX_INPROGRESS);
    while (!counter(ep, "stand_ins"))
        sched_yield();
    ethmx_progress(ep);
    assert_false(p.done);
    ethmx_ep_close(ep);
}

/* Of this process, by name. */
static pid_t helper_thread(void)
{
    DIR *tasks = opendir("/proc/self/task");
    struct dirent *task;
    pid_t found = 0;

    assert_non_null(tasks);
    while ((task = readdir(tasks))) {
        char path[300], name[32] = "";
        FILE *f;

        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
        f = fopen(path, "r");
        if (!f)
            continue;
        if (fgets(name, sizeof(name), f) && !strcmp(name, "ethmx-beat\n"))
            found = atoi(task->d_name);
        fclose(f);
    }
    closedir(tasks);
    return found;
}

/* Messages that move while the program computes do not take its core, if there is another: the thread leaves it. */
static void thread_leaves_the_programs_core(void **state)
{
    static uint8_t buf[1 << 20];
    const struct ethmx_data data = flat(buf, sizeof(buf));
    struct ethmx_ep *ep = open_threaded();
    struct pending p = {.done = false};
    cpu_set_t before, one, its;
    int core = sched_getcpu();
    pid_t helper;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    while (!(helper = helper_thread()) || !counter(ep, "stand_ins"))
        sched_yield();
    CPU_ZERO(&one);
    CPU_SET((unsigned)core, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(sched_setaffinity(helper, sizeof(one), &one), 0);
    assert_int_equal(ethmx_irecv(ep, NULL, 1, FULL_MASK, &data, done, &p, NULL, &p.result), ETHMX_INPROGRESS);
    do {
        sched_yield();
        assert_int_equal(sched_getaffinity(helper, sizeof(its), &its), 0);
    } while (CPU_COUNT(&before) > 1 && CPU_ISSET((unsigned)core, &its));
    assert_true(CPU_COUNT(&its) > 0);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    ethmx_ep_close(ep);
}

static void nothing(int signal)
{
    (void)signal;
}

/* A signal that comes all the time ends sleeps early and does no other harm. */
static void signals_do_no_harm(void **state)
{
    struct ethmx_ep *ep = open_idler(&(struct idler){.wait = "sleep"});
    struct sigaction catch = {.sa_handler = nothing}, before;
    struct itimerval often = {.it_interval = {.tv_usec = 100}, .it_value = {.tv_usec = 100}}, never = {.it_value = {0}};
    struct pending p = {.done = false};

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &catch, &before), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    receive_nothing(ep, &p);
    while (counter(ep, "sleeps") < 100)
        ethmx_progress(ep);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
    assert_false(p.done);
    ethmx_ep_close(ep);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spin_only_polls),
        cmocka_unit_test(yield_never_sleeps),
        cmocka_unit_test(sleep_does_not_yield_first),
        cmocka_unit_test(auto_counts_ranks),
        cmocka_unit_test(bound_ranks_are_no_crowd),
        cmocka_unit_test(without_operation_nobody_sleeps),
        cmocka_unit_test(who_probes_sleeps),
        cmocka_unit_test(a_probe_of_long_ago_does_not_count),
        cmocka_unit_test(who_polls_others_never_sleeps),
        cmocka_unit_test(who_computes_between_polls_is_left_alone),
        cmocka_unit_test(auto_observes_who_else_runs),
        cmocka_unit_test(long_yields_are_no_work),
        cmocka_unit_test(who_yields_in_vain_sleeps_for_a_large_message),
        cmocka_unit_test(who_computes_on_a_shared_core_is_left_alone),
        cmocka_unit_test(thread_stands_in),
        cmocka_unit_test(thread_leaves_the_programs_core),
        cmocka_unit_test(signals_do_no_harm),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("idle", tests, NULL, NULL);
}
