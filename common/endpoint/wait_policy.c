/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that waits in MPI polls, because nothing is faster than a look at memory. That is right while it has a core
 * for itself. Where ranks outnumber cores, a polling rank keeps the core from the very rank that it waits for, until
 * the kernel takes it away milliseconds later. So the policy must know whether others want the core, and then yield:
 *
 *     dedicated       polls; yields once (sched_yield) after DEDICATED_POLLS polls without a frame, to observe
 *     oversubscribed  yields after every OVERSUBSCRIBED_POLLS polls; after a while it sleeps on the wires' descriptors,
 *                     first for SLEEP_MIN_NS, each time longer, up to SLEEP_MAX_NS. The while is LARGE_NS where a large
 *                     message is under way, which takes longer than a wake-up, and SMALL_NS otherwise
 *
 * ETHMX_WAIT=spin is always dedicated and does not observe. yield is always oversubscribed, and takes only short sleeps
 * (below). sleep is always oversubscribed, and sleeps instead of the first yield. auto decides. When the job has more
 * processes on this host than the host has cores, it is oversubscribed for good. But other jobs, containers and virtual
 * nodes share cores, too. So auto observes: when a sched_yield() lets another thread run, the kernel counts an
 * involuntary context switch of this thread (ru_nivcsw). One such yield proves little, because daemons run now and
 * then; EVIDENCE ones in a row decide. A yield that lets nobody run proves even less: the others may be asleep and want
 * the core with the next message. So a rank stays oversubscribed until nobody has run for SHARED_NS. Without that rule
 * it would switch all the time. Wall time would tell less: how late a yield returns depends on the machine.
 *
 * Sleep is bounded, because MPI libraries poll other transports in the same loop, for which our descriptors do not
 * become readable. It is used only while the program waits for ethmx: an operation is under way, or the program has
 * probed in vain since the last check. An adapter whose loop drives other transports says so when it opens the
 * endpoint, and is never put to sleep. A program that calls MPI_Test between pieces of its own work must not be put to
 * sleep either: when polls are further apart than GAP_NS, it is at work. One check that finds this proves little where
 * others take the core in between, so yields and sleeps are counted until a poll succeeds.
 *
 * Yielding does not always help. An MPI library may yield between its polls, and then the policy finds polls far apart.
 * With autogroups (below) a rank that only yields keeps half of its core from a rank of another session that has work.
 * So where a large message is under way, a wait that has become *long* is judged by the processor time that it took,
 * every LONG_NS. If it has taken that much, and little of it for each poll, the program only waits. If others had a
 * third of the time as well, the core is shared. Then the program sleeps, and assumes the same for SHARED_NS without
 * another check. Waits for small messages are left alone: a wake-up is long compared with them, and sleepers among
 * ranks that yield may wait long for a core (below).
 *
 * That a probing program sleeps serves others, too. Linux 6.18 schedules sessions as groups (autogroup). Where the
 * ranks of one session only yielded while those of another slept and woke, the sleepers and all else on the machine got
 * no core as long as that lasted, and their peers declared them dead. It does not happen without autogroups, or when
 * all yield, or all sleep. Therefore a program that only yields in a long wait, here or in its MPI library, takes a
 * *short sleep* of SLEEP_MIN_NS now and then.
 */
#define _GNU_SOURCE
#include "endpoint/wait_policy.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/min.h"
#include "endpoint/ep.h"
#include "endpoint/wait.h"

#define DEDICATED_POLLS      512
#define OVERSUBSCRIBED_POLLS 4
#define CHECK_POLLS          16
#define YIELDS               8        /* in a row, at least, before sleep, */
#define LARGE_NS             50000    /* and after so long with a large message under way, */
#define SMALL_NS             10000000 /* or without */
#define SHORT_SLEEP_CHECKS   512      /* in a row that yielded, or found the program at work, before a short sleep */
#define SLEEP_MIN_NS         50000    /* first sleep */
#define SLEEP_MAX_NS         1000000  /* longest sleep */
#define GAP_NS               3000     /* mean distance of polls of a program that only waits */
#define EVIDENCE             3        /* observations in a row that change the decision */
#define SAMPLE               16       /* oversubscribed: one of so many yields is observed */
#define LONG_NS              100000   /* time between two checks of a long wait */
#define SHARED_NS            100000000 /* for this long after the last observation others are assumed to share the core */
#define WORK_NS              5000      /* processor time between polls of a program that does not only wait */

/* ---- The host ---- */

static uint64_t wait_policy_cpu_ns(void)
{
    struct timespec cpu;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu))
        return 0;
    return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

static long wait_policy_switches(void)
{
    struct rusage u;

    return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nivcsw;
}

static void wait_policy_yield_core(void)
{
    sched_yield();
}

static const struct emx_wait_policy_host this_host = {.now = emx_clock_now,
                                                      .cpu_ns = wait_policy_cpu_ns,
                                                      .switches = wait_policy_switches,
                                                      .yield = wait_policy_yield_core,
                                                      .prepare = emx_wait_prepare,
                                                      .sleep = emx_wait_sleep};

/* Cores of the host, not those of this process: launchers may bind each rank to a core of its own, which is not
 * oversubscription. Fewer cores than the host has, as in containers, are found by observation. */
static unsigned wait_policy_cores(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (unsigned)count : 0;
}

static void wait_policy_set_limit(struct emx_wait_policy *i)
{
    i->limit = i->mode == EMX_WAIT_SPIN ? UINT32_MAX : i->oversubscribed ? OVERSUBSCRIBED_POLLS : DEDICATED_POLLS;
    i->step = i->checks_long_waits && !i->oversubscribed ? CHECK_POLLS : i->limit;
    i->next_check = i->step;
}

void emx_wait_policy_init(struct emx_wait_policy *i, enum emx_wait_mode mode, unsigned local_ranks, bool never_sleeps)
{
    unsigned count = wait_policy_cores();

    *i = (struct emx_wait_policy){.mode = mode, .never_sleeps = never_sleeps, .host = &this_host};
    i->settled = mode != EMX_WAIT_AUTO || (count && local_ranks > count);
    i->oversubscribed = i->settled;
    i->checks_long_waits = !i->settled && !never_sleeps;
    wait_policy_set_limit(i);
}

/* ---- Observation ---- */

/* A yield was observed. */
static void wait_policy_learn(struct emx_wait_policy *i, bool others_ran, uint64_t now_ns)
{
    if (others_ran)
        i->seen_ns = now_ns;
    if (others_ran == i->oversubscribed) {
        i->agreements = 0;
    } else if (++i->agreements >= EVIDENCE && (others_ran || now_ns - i->seen_ns >= SHARED_NS)) {
        i->agreements = 0;
        i->oversubscribed = others_ran;
        wait_policy_set_limit(i);
    }
}

static bool wait_policy_is_observed(const struct ethmx_ep *ep)
{
    return !ep->wait_policy.settled && (!ep->wait_policy.oversubscribed || ep->stats.yields % SAMPLE == 0);
}

/* ---- Yielding and sleeping ---- */

static struct emx_wait_policy_mark wait_policy_mark_now(struct ethmx_ep *ep)
{
    const struct emx_wait_policy_host *host = ep->wait_policy.host;

    return (struct emx_wait_policy_mark){.now_ns = host->now(&ep->progress.clock),
                                         .cpu_ns = host->cpu_ns(),
                                         .rounds = atomic_load_explicit(&ep->rounds, memory_order_relaxed)};
}

/* Takes the lock again and reads the clock: rounds read it rarely, and with an old time the next polls would seem far
 * apart. */
static void wait_policy_retake_lock(struct ethmx_ep *ep)
{
    emx_lock_take(&ep->lock);
    ep->wait_policy.host->now(&ep->progress.clock);
}

static void wait_policy_yield(struct ethmx_ep *ep)
{
    const struct emx_wait_policy_host *host = ep->wait_policy.host;
    bool observe = wait_policy_is_observed(ep), others_ran;
    long before;

    if (!ep->wait_policy.yields++)
        ep->wait_policy.first_ns = ep->progress.clock.last_ns;
    ep->stats.yields++;
    emx_ep_leave(ep);
    before = observe ? host->switches() : 0;
    host->yield();
    others_ran = observe && host->switches() != before;
    wait_policy_retake_lock(ep);
    if (!observe)
        return;
    wait_policy_learn(&ep->wait_policy, others_ran, ep->progress.clock.last_ns);
    ep->progress.oversubscribed = ep->wait_policy.oversubscribed;
}

static uint64_t wait_policy_sleep_length(const struct emx_wait_policy *i)
{
    uint64_t ns = (uint64_t)SLEEP_MIN_NS << (i->sleeps < 8 ? i->sleeps : 8);

    return ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS;
}

static bool wait_policy_may_block(const struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->wait_policy;

    return i->oversubscribed && !i->never_sleeps && !ep->progress.delivering && (ep->progress.open_ops || i->probed);
}

/* A large message takes longer than a wake-up; small ones mostly arrive sooner. */
static bool wait_policy_has_waited(const struct ethmx_ep *ep)
{
    return ep->progress.clock.last_ns - ep->wait_policy.first_ns >= (ep->large_ops ? LARGE_NS : SMALL_NS);
}

static bool wait_policy_may_sleep(const struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->wait_policy;

    if (!wait_policy_may_block(ep))
        return false;
    if (i->mode == EMX_WAIT_YIELD)
        return i->yields >= SHORT_SLEEP_CHECKS;
    return i->mode == EMX_WAIT_SLEEP || (i->yields >= YIELDS && wait_policy_has_waited(ep));
}

static void wait_policy_sleep(struct ethmx_ep *ep, bool short_sleep)
{
    const struct emx_wait_policy_host *host = ep->wait_policy.host;
    struct emx_wait w;

    host->prepare(ep, short_sleep ? SLEEP_MIN_NS : wait_policy_sleep_length(&ep->wait_policy), &w);
    if (short_sleep)
        ep->wait_policy.yields = ep->wait_policy.at_work = 0;
    else
        ep->wait_policy.sleeps++;
    ep->stats.sleeps++;
    atomic_fetch_add(&ep->sleepers, 1);
    emx_ep_leave(ep);
    host->sleep(&w);
    atomic_fetch_sub(&ep->sleepers, 1);
    wait_policy_retake_lock(ep);
    if (ep->wait_policy.mark.now_ns) {
        ep->wait_policy.mark = wait_policy_mark_now(ep);
        ep->wait_policy.long_ns = ep->wait_policy.mark.now_ns;
    }
}

/* ---- Long waits ---- */

/* Whether others have had a third of the time since the mark, or had it at most SHARED_NS ago. */
static bool wait_policy_is_shared(struct emx_wait_policy *i, const struct emx_wait_policy_mark *now)
{
    if (now->cpu_ns - i->mark.cpu_ns < (now->now_ns - i->mark.now_ns) / 3 * 2)
        i->shared_ns = now->now_ns + SHARED_NS;
    return now->now_ns < i->shared_ns;
}

/* Whether to sleep in this long wait now. If not, it is checked again after LONG_NS. */
static bool wait_policy_ends_long_wait(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;
    struct emx_wait_policy_mark now = wait_policy_mark_now(ep);
    uint64_t taken_ns = now.cpu_ns - i->mark.cpu_ns;
    bool only_waited = taken_ns <= (uint64_t)(now.rounds - i->mark.rounds) * WORK_NS;

    i->long_ns = now.now_ns + LONG_NS;
    if (i->mark.now_ns && !i->sleeps && taken_ns < LONG_NS)
        return false; /* it has taken little processor time */
    if (i->mark.now_ns && only_waited && ep->large_ops && !ep->progress.delivering &&
        (i->sleeps || wait_policy_is_shared(i, &now)))
        return true;
    i->mark = now;
    return false;
}

/* The program works between its polls, or its MPI library yields between them. The policy does not yield then. */
static bool wait_policy_is_at_work(struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->wait_policy;

    return i->host->now(&ep->progress.clock) - i->since_ns > (uint64_t)i->polls * GAP_NS;
}

/* A check has found the program at work, which is no reason to yield. But in a long wait the cause may be the library's
 * yields alone, and these may let nobody run (above). */
static bool wait_policy_wants_short_sleep(struct ethmx_ep *ep)
{
    return ++ep->wait_policy.at_work >= SHORT_SLEEP_CHECKS && wait_policy_may_block(ep);
}

/* Sets the polls up to the next check. from_beginning: after a yield or sleep was due. */
static void wait_policy_set_next_check(struct emx_wait_policy *i, bool from_beginning)
{
    if (from_beginning)
        i->polls = 0;
    i->next_check = emx_min_u(i->polls + i->step, i->limit);
}

/* Whether this wait has become long, and the program should sleep. */
static bool wait_policy_wants_long_sleep(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;

    if (!i->checks_long_waits)
        return false;
    if (!i->long_ns) {
        i->long_ns = ep->progress.clock.last_ns + LONG_NS;
        i->mark.now_ns = 0;
    }
    return ep->progress.clock.last_ns >= i->long_ns && wait_policy_ends_long_wait(ep);
}

bool emx_wait_policy_check(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;
    bool long_sleep = wait_policy_wants_long_sleep(ep), due = i->polls >= i->limit,
         at_work = !long_sleep && due && wait_policy_is_at_work(ep);

    wait_policy_set_next_check(i, long_sleep || due);
    if (!(long_sleep || due) || (at_work && !wait_policy_wants_short_sleep(ep)))
        return false;
    if (at_work || long_sleep || wait_policy_may_sleep(ep))
        wait_policy_sleep(ep, at_work || i->mode == EMX_WAIT_YIELD);
    else
        wait_policy_yield(ep);
    i->probed = false;
    return true;
}
