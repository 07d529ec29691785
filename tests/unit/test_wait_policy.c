/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a waiting program does between its polls, seen by the counters `yields` and `sleeps`.
 *
 * How long polls take, and who else wants the core, must not decide what a test finds. So what depends on them is
 * tested on a made-up host, in a time that passes as the test says. Endpoints on this machine (over udp on loopback
 * unless ETHMX_* variables say otherwise) show that decisions become yields and sleeps; for those that go on only if
 * polls are close, they are.
 */
#define _GNU_SOURCE
#include "api/role.h"

#include "endpoint/ep.h"
#include "endpoint/wait.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* Polls beyond all limits, yields beyond those that go before sleep. */
enum { POLLS = 20000, YIELDS = 40 };

struct idler {
    enum emx_wait_mode mode;
    bool polls_others;
    unsigned local_ranks;
};

enum waits_for { OTHER_THINGS, SMALL, LARGE, PROBE };

static const struct idler automatic = {.mode = EMX_WAIT_AUTO}, sleeper = {.mode = EMX_WAIT_SLEEP},
                          crowd = {.mode = EMX_WAIT_AUTO, .local_ranks = 1u << 20};

/* ---- A made-up host ---- */

static struct world {
    struct ethmx_ep ep; /* what idle touches of it */
    struct emx_stats stats;
    uint64_t now_ns, cpu_ns;
    uint64_t others_ns; /* so long others run when this one yields */
    uint64_t timeout_ns;
    long switches;
    unsigned looks; /* at the switches */
    long pauses;
    bool dozes; /* between polls */
} world;

/* Time in which this thread runs, and others do. */
static void pass(uint64_t own_ns, uint64_t others_ns)
{
    world.now_ns += own_ns + others_ns;
    world.cpu_ns += own_ns;
}

static uint64_t world_now(struct emx_clock *c)
{
    c->last_ns = world.now_ns;
    return world.now_ns;
}

static uint64_t world_cpu_ns(void)
{
    return world.cpu_ns;
}

static long world_switches(void)
{
    world.looks++;
    return world.switches;
}

static bool is_locked(void)
{
    return atomic_load(&world.ep.lock.mutex);
}

static void world_yield(void)
{
    assert_false(is_locked());
    world.switches += world.others_ns != 0;
    pass(500, world.others_ns);
}

static void world_prepare(struct ethmx_ep *ep, uint64_t timeout_ns, struct emx_wait *w)
{
    assert_ptr_equal(ep, &world.ep);
    assert_true(is_locked());
    w->timeout_ns = timeout_ns;
}

static bool world_sleep(struct emx_wait *w)
{
    assert_false(is_locked());
    assert_int_equal(world.ep.sleepers, 1);
    world.timeout_ns = w->timeout_ns;
    world.pauses++;
    pass(2000, w->timeout_ns);
    return false;
}

static long world_pauses(void)
{
    return world.pauses;
}

static const struct emx_wait_policy_host world_host = {.now = world_now,
                                                       .cpu_ns = world_cpu_ns,
                                                       .switches = world_switches,
                                                       .pauses = world_pauses,
                                                       .yield = world_yield,
                                                       .prepare = world_prepare,
                                                       .sleep = world_sleep};

static void begin(const struct idler *o, enum waits_for what)
{
    memset(&world, 0, sizeof(world));
    world.ep.stats = &world.stats;
    world.now_ns = 1000000000;
    world_now(&world.ep.progress.clock);
    emx_lock_init(&world.ep.lock, true, false);
    emx_wait_policy_init(&world.ep.wait_policy, o->mode, o->local_ranks, o->polls_others);
    world.ep.wait_policy.host = &world_host;
    world.ep.wait_policy.in_guest = false;
    world.ep.progress.open_ops = what == SMALL || what == LARGE;
    world.ep.large_ops = what == LARGE;
}

/* As ethmx_progress() when no frame comes, so much time after the last one. Progress reads the clock now and then. */
static void poll_after(uint64_t own_ns, uint64_t others_ns)
{
    struct ethmx_ep *ep = &world.ep;

    pass(own_ns, others_ns);
    world.pauses += world.dozes;
    emx_lock_take(&ep->lock);
    if (++ep->rounds % 8 == 0)
        world_now(&ep->progress.clock);
    if (emx_wait_policy_poll(&ep->wait_policy, ep->progress.clock.last_ns))
        emx_wait_policy_check(ep);
    emx_lock_give(&ep->lock);
}

/* So many polls, each as far from the one before. */
static void poll_on(unsigned n, uint64_t own_ns, uint64_t others_ns)
{
    while (n--)
        poll_after(own_ns, others_ns);
}

/* Polls at such distances up to the next yield or sleep; 0: there is none. */
static unsigned polls_to_rest(uint64_t own_ns, uint64_t others_ns)
{
    const struct emx_stats *stats = world.ep.stats;
    uint64_t before = stats->yields + stats->sleeps;

    for (unsigned n = 1; n <= POLLS; n++) {
        poll_after(own_ns, others_ns);
        if (stats->yields + stats->sleeps > before)
            return n;
    }
    return 0;
}

static void expect_counts(uint64_t yields, uint64_t sleeps)
{
    assert_int_equal(world.ep.stats->yields, yields);
    assert_int_equal(world.ep.stats->sleeps, sleeps);
}

/* ---- Decisions, on the made-up host ---- */

static void calm_looks_around_seldom_and_a_crowd_often(void **state)
{
    (void)state;
    begin(&automatic, SMALL);
    assert_int_equal(polls_to_rest(100, 0), 512);
    assert_int_equal(polls_to_rest(100, 0), 512);
    expect_counts(2, 0);
    begin(&crowd, SMALL);
    assert_int_equal(polls_to_rest(100, 0), 4);
    expect_counts(1, 0);
}

static void crowded_yields_eight_times_and_sleeps_longer_each_time(void **state)
{
    static const uint64_t length_ns[] = {50000, 100000, 200000, 400000, 800000, 1000000, 1000000};

    (void)state;
    begin(&crowd, LARGE);
    world.others_ns = 10000;
    poll_on(8 * 4, 100, 0);
    expect_counts(8, 0);
    for (unsigned i = 0; i < ARRAY_LEN(length_ns); i++) {
        assert_int_equal(polls_to_rest(100, 0), 4);
        expect_counts(8, i + 1);
        assert_int_equal(world.timeout_ns, length_ns[i]);
    }
    emx_wait_policy_reset(&world.ep.wait_policy);
    poll_on(8 * 4, 100, 0);
    expect_counts(16, ARRAY_LEN(length_ns));
    poll_on(4, 100, 0);
    assert_int_equal(world.timeout_ns, length_ns[0]);
}

/* A large message is worth a wake-up soon, a small one after long: not before the eighth yield, and the time. */
static void crowd_waits_before_it_sleeps(void **state)
{
    (void)state;
    begin(&crowd, LARGE);
    poll_on(40 * 4, 100, 0);
    expect_counts(40, 0);
    poll_on(40 * 4, 100, 0);
    assert_true(world.ep.stats->sleeps > 0);
    begin(&crowd, SMALL);
    world.others_ns = 500000;
    poll_on(19 * 4, 100, 0);
    expect_counts(19, 0);
    poll_on(4 * 4, 100, 0);
    assert_true(world.ep.stats->sleeps > 0);
}

/* Nobody tells auto how many ranks there are, but yields let others run, or do no longer. A single one proves nothing.
 */
static void auto_learns_from_yields(void **state)
{
    (void)state;
    begin(&automatic, SMALL);
    for (unsigned i = 0; i < 10; i++) {
        world.others_ns = i % 3 ? 300000 : 0;
        assert_int_equal(polls_to_rest(100, 0), 512);
    }
    world.others_ns = 300000;
    poll_on(3 * 512, 100, 0);
    world.looks = 0;
    for (unsigned i = 0; i < 160; i++) {
        world.others_ns = i / 16 % 2 ? 300000 : 0; /* one of 16 is looked at, before and after */
        assert_int_equal(polls_to_rest(100, 0), 4);
        emx_wait_policy_reset(&world.ep.wait_policy);
    }
    assert_int_equal(world.looks, 2 * 10);
    world.others_ns = 0;
    for (unsigned i = 0; i < 3 * 16; i++) {
        assert_int_equal(polls_to_rest(100, 0), 4); /* nobody runs: perhaps the others sleep */
        emx_wait_policy_reset(&world.ep.wait_policy);
    }
    pass(100000000, 0);
    for (unsigned i = 0; i < 3 * 16; i++) {
        polls_to_rest(100, 0);
        emx_wait_policy_reset(&world.ep.wait_policy);
    }
    assert_int_equal(polls_to_rest(100, 0), 512);
}

/* What is known from the beginning is not unlearned. */
static void a_crowd_by_number_stays_one(void **state)
{
    (void)state;
    begin(&crowd, OTHER_THINGS);
    poll_on(1000 * 4, 100, 0);
    expect_counts(1000, 0);
}

/* A program that computes, and tests a request now and then; also on a shared core, and however long it takes. But it
 * may be a library that yields between polls, in vain: a short sleep now and then, which costs the program next to
 * nothing. */
static void distant_polls_are_work(void **state)
{
    (void)state;
    begin(&automatic, SMALL);
    assert_int_equal(polls_to_rest(20000, 0), 0);
    begin(&automatic, LARGE);
    assert_int_equal(polls_to_rest(20000, 20000), 0);
    begin(&crowd, OTHER_THINGS);
    assert_int_equal(polls_to_rest(20000, 0), 0);
}

static void expect_naps(const struct idler *who, enum waits_for what, uint64_t others_ns)
{
    begin(who, what);
    for (unsigned i = 1; i <= 3; i++) {
        assert_int_equal(polls_to_rest(20000, others_ns), 512 * 4);
        expect_counts(0, i);
        assert_int_equal(world.timeout_ns, 50000);
    }
    poll_on(511 * 4, 20000, others_ns);
    emx_wait_policy_reset(&world.ep.wait_policy);
    assert_int_equal(polls_to_rest(20000, others_ns), 512 * 4);
}

static void in_a_crowd_they_nap(void **state)
{
    (void)state;
    expect_naps(&crowd, SMALL, 0);
    expect_naps(&crowd, LARGE, 20000);
    expect_naps(&sleeper, SMALL, 0);
}

/* Others run for milliseconds while it yields or sleeps: that is not work of its own. */
static void long_yields_are_no_work(void **state)
{
    (void)state;
    begin(&crowd, SMALL);
    world.others_ns = 9000000;
    poll_on(8 * 4, 1000, 0);
    expect_counts(8, 0);
    poll_on(3 * 4, 1000, 0);
    expect_counts(8, 3);
}

/* Others take the core between two polls: that look finds them far apart, and what was counted before goes on. */
static void one_look_that_finds_work_proves_little(void **state)
{
    (void)state;
    begin(&crowd, LARGE);
    poll_on(7 * 4, 100, 0);
    poll_after(100, 9000000);
    poll_on(3, 100, 0);
    expect_counts(7, 0);
    poll_on(4, 100, 0);
    expect_counts(8, 0);
    poll_on(4, 100, 0);
    expect_counts(8, 1);
}

/* The MPI library yields between the polls, in vain, and others have half of the core. A large message is worth sleep
 * once the wait has cost something, a small one is not. */
static void who_yields_in_vain_sleeps_for_a_large_message(void **state)
{
    (void)state;
    begin(&automatic, SMALL);
    assert_int_equal(polls_to_rest(2000, 2000), 0);
    begin(&automatic, LARGE);
    assert_true(polls_to_rest(2000, 2000) > 0);
    expect_counts(0, 1);
    assert_in_range(world.cpu_ns, 100000, 400000);
    poll_on(1000, 2000, 2000);
    assert_true(world.ep.stats->sleeps > 10);
    begin(&(struct idler){.mode = EMX_WAIT_AUTO, .polls_others = true}, LARGE);
    assert_int_equal(polls_to_rest(2000, 2000), 0);
}

/* So many yields, with waits of so many polls before each; after each of them others run. */
static void yield_to_others(unsigned n, unsigned polls, uint64_t others_ns)
{
    world.others_ns = others_ns;
    while (n--) {
        assert_int_equal(polls_to_rest(100, 0), polls);
        emx_wait_policy_reset(&world.ep.wait_policy);
    }
}

/* Somebody else's program takes a slice of time after each yield. Then sleep replaces the yields, until it is time to
 * look again, each time later; for a small message, too. A program that never sleeps only yields seldom. */
static void who_never_gets_the_core_back_soon_sleeps(void **state)
{
    (void)state;
    begin(&automatic, SMALL);
    yield_to_others(3, 512, 3000000);
    yield_to_others(29, 4, 3000000);
    expect_counts(32, 0);
    for (unsigned i = 0; i < 10; i++) {
        uint64_t until_ns = world.now_ns + emx_min(UINT64_C(8000000) << i, 512000000);

        while (world.now_ns < until_ns - 1000000) { /* the longest sleep */
            assert_int_equal(polls_to_rest(100, 0), 512);
            assert_int_equal(world.ep.stats->yields, 32 + i);
        }
        while (world.ep.stats->yields == 32 + i)
            polls_to_rest(100, 0);
        assert_in_range(world.now_ns, until_ns, until_ns + 5000000);
        emx_wait_policy_reset(&world.ep.wait_policy);
    }
    begin(&(struct idler){.mode = EMX_WAIT_AUTO, .polls_others = true}, SMALL);
    yield_to_others(3, 512, 3000000);
    yield_to_others(29, 4, 3000000);
    yield_to_others(100, 512, 3000000);
    expect_counts(132, 0);
}

/* Ranks compute, too, but they also wait. If a yield let nobody run, it is not known who is there. */
static void who_gets_the_core_back_soon_yields(void **state)
{
    (void)state;
    begin(&automatic, SMALL);
    yield_to_others(3, 512, 3000000);
    for (unsigned i = 0; i < 4; i++) {
        yield_to_others(28, 4, 3000000);
        yield_to_others(1, 4, 10000);
    }
    yield_to_others(28, 4, 3000000);
    yield_to_others(2, 4, 0);
    expect_counts(3 + 4 * 29 + 30, 0);
    yield_to_others(4, 4, 3000000);
    assert_int_equal(polls_to_rest(100, 0), 512);
    expect_counts(3 + 4 * 29 + 34, 1);
    pass(8000000, 0);
    world_now(&world.ep.progress.clock);
    emx_wait_policy_reset(&world.ep.wait_policy);
    yield_to_others(1, 512, 10000);
    yield_to_others(1, 4, 10000);
    begin(&crowd, SMALL);
    yield_to_others(100, 4, 3000000);
    expect_counts(100, 0);
}

/* Nobody shares the core of this one; then somebody does, and for a while that is believed without seeing it again. */
static void shared_cores_are_remembered_for_a_while(void **state)
{
    uint64_t seen_ns;

    (void)state;
    begin(&automatic, LARGE);
    assert_int_equal(polls_to_rest(3500, 0), 0);
    emx_wait_policy_reset(&world.ep.wait_policy);
    assert_true(polls_to_rest(2000, 2000) > 0);
    expect_counts(0, 1);
    seen_ns = world.now_ns;
    emx_wait_policy_reset(&world.ep.wait_policy);
    assert_true(polls_to_rest(3500, 0) > 0);
    expect_counts(0, 2);
    emx_wait_policy_reset(&world.ep.wait_policy);
    assert_true(world.now_ns - seen_ns < 50000000);
    pass(0, 100000000);
    poll_after(100, 0);
    emx_wait_policy_reset(&world.ep.wait_policy);
    assert_int_equal(polls_to_rest(3500, 0), 0);
}

/* A virtual machine cannot see who else wants its core: a large message is worth sleep soon, unless the program works.
 */
static void a_guest_sleeps_for_a_large_message(void **state)
{
    static const struct idler spinner = {.mode = EMX_WAIT_SPIN},
                              polls_others = {.mode = EMX_WAIT_AUTO, .polls_others = true};
    static const struct {
        const struct idler *who;
        enum waits_for what;
        uint64_t poll_ns;
        bool sleeps;
    } plays[] = {{&automatic, LARGE, 200, true},   {&automatic, LARGE, 3500, true},
                 {&automatic, LARGE, 6000, false}, {&automatic, LARGE, 100000, false},
                 {&automatic, SMALL, 200, false},  {&polls_others, LARGE, 200, false},
                 {&spinner, LARGE, 200, false}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(plays); i++) {
        begin(plays[i].who, plays[i].what);
        world.ep.wait_policy.in_guest = true;
        polls_to_rest(plays[i].poll_ns, 0);
        assert_int_equal(world.stats.sleeps, plays[i].sleeps);
        if (plays[i].sleeps)
            assert_in_range(world.cpu_ns, 50000, 200000);
    }
}

static void begin_dozing(const struct idler *who, enum waits_for what)
{
    begin(who, what);
    world.dozes = true;
}

/* MPI_Init() and MPI_Finalize() of Open MPI sleep between polls, and wait for ranks that want the cores. */
static void who_dozes_in_a_crowd_sleeps(void **state)
{
    (void)state;
    begin_dozing(&crowd, OTHER_THINGS);
    assert_int_equal(polls_to_rest(20000, 100000), 8); /* seen at the first check and the second */
    for (uint64_t length_ns = 50000; length_ns < 4000000; length_ns *= 2) {
        assert_int_equal(world.timeout_ns, length_ns);
        assert_int_equal(polls_to_rest(20000, 100000), 1);
    }
    assert_int_equal(world.timeout_ns, 4000000);
    expect_counts(0, 8);
}

/* Its next wait begins with a short sleep, and so does a wait for a message. */
static void each_wait_of_who_dozes_begins_anew(void **state)
{
    (void)state;
    begin_dozing(&crowd, OTHER_THINGS);
    poll_on(20, 20000, 100000);
    assert_int_equal(world.timeout_ns, 4000000);
    pass(20000000, 0);
    poll_after(20000, 100000);
    assert_int_equal(world.timeout_ns, 50000);
    poll_on(20, 20000, 100000);
    assert_int_equal(world.timeout_ns, 4000000);
    world.dozes = false;
    world.ep.progress.open_ops = world.ep.large_ops = 1;
    world.others_ns = 10000;
    world.stats.sleeps = world.stats.yields = 0;
    poll_on(8 * 4, 100, 0);
    expect_counts(8, 0);
    poll_on(4, 100, 0);
    expect_counts(8, 1);
    assert_int_equal(world.timeout_ns, 50000);
}

/* A callback that polls does not sleep. */
static void who_dozes_in_a_callback_does_not_sleep(void **state)
{
    (void)state;
    begin_dozing(&crowd, OTHER_THINGS);
    world.ep.progress.delivering = true;
    poll_on(20 * 4, 20000, 100000);
    expect_counts(0, 0);
}

/* One sleep between many polls is none of the library's. */
static void who_dozes_once_only_yields(void **state)
{
    (void)state;
    begin(&crowd, OTHER_THINGS);
    for (unsigned i = 0; i < 1000; i++) {
        world.pauses++;
        poll_on(4, 100, 0);
    }
    expect_counts(1000, 0);
}

static void *doze_in_thread(void *unused)
{
    poll_on(4, 20000, 100000);
    return unused;
}

/* The kernel counts the sleeps of each thread: those of one say nothing of the polls of another. */
static void sleeps_of_two_threads_are_not_compared(void **state)
{
    pthread_t other;

    (void)state;
    begin_dozing(&crowd, OTHER_THINGS);
    for (unsigned i = 0; i < 8; i++) {
        poll_on(4, 20000, 100000);
        assert_int_equal(pthread_create(&other, NULL, doze_in_thread, NULL), 0);
        assert_int_equal(pthread_join(other, NULL), 0);
    }
    expect_counts(0, 0);
}

static void expect_no_sleep_of_who_dozes(const struct idler *who, enum waits_for what)
{
    begin_dozing(who, what);
    poll_on(511 * 4, 100000, 0);
    assert_int_equal(world.ep.stats->sleeps, 0);
}

/* Not where each rank has a core, where sleeping was ruled out, or with a request of ours between parts of work. */
static void not_all_who_doze_sleep(void **state)
{
    (void)state;
    expect_no_sleep_of_who_dozes(&automatic, OTHER_THINGS);
    expect_no_sleep_of_who_dozes(&(struct idler){.mode = EMX_WAIT_SPIN, .local_ranks = 1u << 20}, OTHER_THINGS);
    expect_no_sleep_of_who_dozes(&(struct idler){.mode = EMX_WAIT_YIELD, .local_ranks = 1u << 20}, OTHER_THINGS);
    expect_no_sleep_of_who_dozes(&(struct idler){.mode = EMX_WAIT_AUTO, .local_ranks = 1u << 20, .polls_others = true},
                                 OTHER_THINGS);
    expect_no_sleep_of_who_dozes(&crowd, SMALL);
}

/* ---- Endpoints on this machine ---- */

static const struct emx_wait_policy_host *this_host;
static struct emx_wait_policy_host with_close_polls;

/* Between two polls of one endpoint no time passes. */
static uint64_t time_of_first_poll(struct emx_clock *c)
{
    return ((struct ethmx_ep *)((char *)c - offsetof(struct ethmx_ep, progress.clock)))->wait_policy.since_ns;
}

static struct ethmx_ep *open_as_it_is(const struct idler *o)
{
    static const char *const name[] = {
        [EMX_WAIT_SPIN] = "spin", [EMX_WAIT_YIELD] = "yield", [EMX_WAIT_SLEEP] = "sleep", [EMX_WAIT_AUTO] = "auto"};
    const char *const settings[] = {"wait", name[o->mode], NULL};
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION,
                                   .struct_bytes = sizeof(opt),
                                   .polls_others = o->polls_others,
                                   .local_ranks = o->local_ranks};

    return open_with(&opt, settings);
}

/* Its polls are close, however long the machine takes for them. */
static struct ethmx_ep *open_idler(const struct idler *o)
{
    struct ethmx_ep *ep = open_as_it_is(o);

    this_host = ep->wait_policy.host;
    with_close_polls = *this_host;
    with_close_polls.now = time_of_first_poll;
    ep->wait_policy.host = &with_close_polls;
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

static void receive_much_of_nothing(struct ethmx_ep *ep, struct pending *p)
{
    static uint8_t buf[1 << 20];

    receive_in_vain(ep, buf, sizeof(buf), p);
}

static void probe_nothing(struct ethmx_ep *ep)
{
    struct ethmx_result result;

    assert_int_equal(ethmx_iprobe(ep, NULL, 1, FULL_MASK, &result), ETHMX_ERR_NO_MATCH);
}

static void expect(const struct idler *o, enum waits_for what, bool yields, bool sleeps)
{
    struct ethmx_ep *ep = open_idler(o);
    struct pending p = {.done = false};

    if (what == SMALL)
        receive_nothing(ep, &p);
    for (unsigned i = 0; i < (sleeps ? 1000 * POLLS : POLLS) && counter(ep, "sleeps") < 3; i++) {
        if (!sleeps && counter(ep, "yields") >= YIELDS)
            break;
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
    expect(&(struct idler){.mode = EMX_WAIT_SPIN}, SMALL, false, false);
    expect(&(struct idler){.mode = EMX_WAIT_SPIN, .local_ranks = 1u << 20}, SMALL, false, false);
}

static void yield_does_not_sleep_at_once(void **state)
{
    (void)state;
    expect(&(struct idler){.mode = EMX_WAIT_YIELD}, SMALL, true, false);
}

/* Others may sleep between their polls, and get no core beside ranks that do nothing but yield. */
static void who_yields_for_long_naps(void **state)
{
    struct ethmx_ep *ep = open_idler(&(struct idler){.mode = EMX_WAIT_YIELD});
    struct pending p = {.done = false};
    uint64_t yields;

    (void)state;
    receive_nothing(ep, &p);
    for (unsigned sleep_count = 1; sleep_count <= 3; sleep_count++) {
        yields = counter(ep, "yields");
        for (unsigned i = 0; i < 100 * POLLS && counter(ep, "sleeps") < sleep_count; i++)
            ethmx_progress(ep);
        assert_int_equal(counter(ep, "sleeps"), sleep_count);
        assert_true(counter(ep, "yields") - yields > YIELDS);
    }
    ethmx_ep_close(ep);
    assert_false(p.done);
}

static void sleep_does_not_yield_first(void **state)
{
    (void)state;
    expect(&sleeper, SMALL, false, true);
}

/* More ranks than cores: known without looking. */
static void auto_counts_ranks(void **state)
{
    (void)state;
    expect(&crowd, SMALL, true, true);
}

/* As many ranks as the host has cores, each bound to one: each has a core for itself, and polls. */
static void bound_ranks_are_no_crowd(void **state)
{
    struct idler bound = {.mode = EMX_WAIT_AUTO, .local_ranks = (unsigned)sysconf(_SC_NPROCESSORS_ONLN)};
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

/* It waits for something that is not ours, and sleeps between polls by itself; until an operation begins. */
static void dozing_is_seen_on_this_machine(void **state)
{
    const struct timespec nap = {.tv_nsec = 1000};
    struct ethmx_ep *ep = open_as_it_is(&crowd);
    struct pending p = {.done = false};
    uint64_t sleeps;

    (void)state;
    while (counter(ep, "sleeps") < 8) {
        nanosleep(&nap, NULL);
        ethmx_progress(ep);
    }
    receive_nothing(ep, &p);
    sleeps = counter(ep, "sleeps");
    for (unsigned i = 0; i < 100; i++) {
        nanosleep(&nap, NULL);
        ethmx_progress(ep);
    }
    assert_int_equal(counter(ep, "sleeps"), sleeps);
    ethmx_ep_close(ep);
    assert_false(p.done);
}

/* The program waits for something that is not ours. */
static void without_operation_nobody_sleeps(void **state)
{
    (void)state;
    expect(&sleeper, OTHER_THINGS, true, false);
    expect(&crowd, OTHER_THINGS, true, false);
}

/* Probes are no operations, but the program waits for us. */
static void who_probes_sleeps(void **state)
{
    (void)state;
    expect(&sleeper, PROBE, false, true);
    expect(&crowd, PROBE, true, true);
    expect(&(struct idler){.mode = EMX_WAIT_YIELD}, PROBE, true, false);
    expect(&(struct idler){.mode = EMX_WAIT_SLEEP, .polls_others = true}, PROBE, true, false);
}

/* One that has probed, and now waits for something that is not ours. */
static void a_probe_of_long_ago_does_not_count(void **state)
{
    struct ethmx_ep *ep = open_idler(&sleeper);

    (void)state;
    probe_nothing(ep);
    while (counter(ep, "sleeps") < 3 && counter(ep, "yields") < YIELDS)
        ethmx_progress(ep);
    assert_int_equal(counter(ep, "sleeps"), 1);
    ethmx_ep_close(ep);
}

static void who_polls_others_never_sleeps(void **state)
{
    (void)state;
    expect(&(struct idler){.mode = EMX_WAIT_SLEEP, .polls_others = true}, SMALL, true, false);
    expect(&(struct idler){.mode = EMX_WAIT_AUTO, .polls_others = true, .local_ranks = 1u << 20}, SMALL, true, false);
}

/* What is told of this thread's processor time lies between what the kernel says before and after. */
static void processor_time_is_the_kernels(void **state)
{
    struct ethmx_ep *ep = open_idler(&automatic);
    struct timespec before, after;
    uint64_t told_ns;

    (void)state;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before), 0);
    told_ns = this_host->cpu_ns();
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after), 0);
    assert_true(told_ns >= (uint64_t)before.tv_sec * 1000000000u + (uint64_t)before.tv_nsec);
    assert_true(told_ns <= (uint64_t)after.tv_sec * 1000000000u + (uint64_t)after.tv_nsec);
    ethmx_ep_close(ep);
}

/* Computes for 20 us between two polls; others can only make that longer. */
static void compute_and_test(struct ethmx_ep *ep)
{
    for (unsigned i = 0; i < 1000; i++) {
        uint64_t end_ns = this_host->cpu_ns() + 20000;

        while (this_host->cpu_ns() < end_ns)
            ;
        ethmx_progress(ep);
    }
}

static void who_computes_between_polls_is_left_alone(void **state)
{
    struct ethmx_ep *ep = open_as_it_is(&sleeper);
    struct pending p = {.done = false};

    (void)state;
    receive_nothing(ep, &p);
    compute_and_test(ep);
    assert_int_equal(counter(ep, "yields") + counter(ep, "sleeps"), 0);
    ethmx_ep_close(ep);
}

/* On one core with another process that spins. */
static pid_t share_core(cpu_set_t *before)
{
    cpu_set_t one;
    pid_t pid;

    assert_int_equal(sched_getaffinity(0, sizeof(*before), before), 0);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails does not end it */
        for (;;)                          /* a condition would let the compiler assume that this ends */
            ;
    }
    return pid;
}

static void end_sharing(pid_t pid, const cpu_set_t *before)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(sched_setaffinity(0, sizeof(*before), before), 0);
}

/* Nobody tells auto how many ranks there are, but another process wants the only core. */
static void auto_observes_who_else_runs(void **state)
{
    struct pending p = {.done = false};
    struct ethmx_ep *ep;
    cpu_set_t before;
    pid_t pid;

    (void)state;
    pid = share_core(&before);
    ep = open_idler(&automatic);
    receive_nothing(ep, &p);
    while (!counter(ep, "sleeps"))
        ethmx_progress(ep);
    end_sharing(pid, &before);
    ethmx_ep_close(ep);
}

/* Also on a shared core, and however long it takes until something comes. */
static void who_computes_on_a_shared_core_is_left_alone(void **state)
{
    struct pending p = {.done = false};
    struct ethmx_ep *ep;
    cpu_set_t before;
    pid_t pid;

    (void)state;
    pid = share_core(&before);
    ep = open_as_it_is(&automatic);
    receive_much_of_nothing(ep, &p);
    compute_and_test(ep);
    assert_int_equal(counter(ep, "sleeps"), 0);
    end_sharing(pid, &before);
    ethmx_ep_close(ep);
}

/* Messages of which size make a wait one that is looked at by its processor time. */
static void large_messages_are_counted(void **state)
{
    struct ethmx_ep *ep = open_idler(&automatic);
    struct pending small = {.done = false}, large = {.done = false};

    (void)state;
    receive_nothing(ep, &small);
    assert_int_equal(ep->large_ops, 0);
    receive_much_of_nothing(ep, &large);
    assert_int_equal(ep->large_ops, 1);
    assert_int_equal(ep->progress.open_ops, 2);
    ethmx_ep_close(ep);
}

static struct ethmx_ep *open_threaded(void)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt)};
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
    while (!counter(ep, "helper_runs"))
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
        if (fgets(name, sizeof(name), f) && !strcmp(name, "ethmx-helper\n"))
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
    while (!(helper = helper_thread()) || !counter(ep, "helper_runs"))
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
    struct ethmx_ep *ep = open_idler(&sleeper);
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
        cmocka_unit_test(calm_looks_around_seldom_and_a_crowd_often),
        cmocka_unit_test(crowded_yields_eight_times_and_sleeps_longer_each_time),
        cmocka_unit_test(crowd_waits_before_it_sleeps),
        cmocka_unit_test(auto_learns_from_yields),
        cmocka_unit_test(a_crowd_by_number_stays_one),
        cmocka_unit_test(distant_polls_are_work),
        cmocka_unit_test(in_a_crowd_they_nap),
        cmocka_unit_test(long_yields_are_no_work),
        cmocka_unit_test(one_look_that_finds_work_proves_little),
        cmocka_unit_test(who_yields_in_vain_sleeps_for_a_large_message),
        cmocka_unit_test(who_never_gets_the_core_back_soon_sleeps),
        cmocka_unit_test(who_gets_the_core_back_soon_yields),
        cmocka_unit_test(shared_cores_are_remembered_for_a_while),
        cmocka_unit_test(a_guest_sleeps_for_a_large_message),
        cmocka_unit_test(who_dozes_in_a_crowd_sleeps),
        cmocka_unit_test(each_wait_of_who_dozes_begins_anew),
        cmocka_unit_test(who_dozes_in_a_callback_does_not_sleep),
        cmocka_unit_test(who_dozes_once_only_yields),
        cmocka_unit_test(sleeps_of_two_threads_are_not_compared),
        cmocka_unit_test(not_all_who_doze_sleep),
        cmocka_unit_test(spin_only_polls),
        cmocka_unit_test(yield_does_not_sleep_at_once),
        cmocka_unit_test(who_yields_for_long_naps),
        cmocka_unit_test(sleep_does_not_yield_first),
        cmocka_unit_test(auto_counts_ranks),
        cmocka_unit_test(bound_ranks_are_no_crowd),
        cmocka_unit_test(dozing_is_seen_on_this_machine),
        cmocka_unit_test(without_operation_nobody_sleeps),
        cmocka_unit_test(who_probes_sleeps),
        cmocka_unit_test(a_probe_of_long_ago_does_not_count),
        cmocka_unit_test(who_polls_others_never_sleeps),
        cmocka_unit_test(processor_time_is_the_kernels),
        cmocka_unit_test(large_messages_are_counted),
        cmocka_unit_test(who_computes_between_polls_is_left_alone),
        cmocka_unit_test(auto_observes_who_else_runs),
        cmocka_unit_test(who_computes_on_a_shared_core_is_left_alone),
        cmocka_unit_test(thread_stands_in),
        cmocka_unit_test(thread_leaves_the_programs_core),
        cmocka_unit_test(signals_do_no_harm),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("idle", tests, NULL, NULL);
}
