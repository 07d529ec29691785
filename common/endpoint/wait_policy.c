/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that waits in MPI polls, because nothing is as quick as a look at memory. That is right while it has a core
 * for itself. Where ranks outnumber cores, the poller keeps the core from the very rank that it waits for, until the
 * kernel takes it away milliseconds later. So a poller must know whether others want its core, and then make way:
 *
 *     calm      polls; gives way for a moment (sched_yield) after CALM_POLLS polls without a frame, to find out
 *     crowded   gives way after every CROWDED_POLLS polls; when it has done so for a while it sleeps on the wires'
 *               descriptors, first for SLEEP_MIN_NS, each time longer, SLEEP_MAX_NS at most. For LARGE_NS where a large
 *               message is under way, which takes longer than a wake-up; else for SMALL_NS
 *
 * ETHMX_WAIT=spin stays calm and does not even look; yield is crowded, and only naps (below); sleep is crowded, and
 * sleeps instead of the first yield. auto finds out: when the job has more processes on this host than it has cores, it
 * is crowded for good. But the job's own count is not all: other jobs, other containers and other virtual nodes share
 * cores, too. So auto also observes: a sched_yield() that let somebody else run has made the kernel count an
 * involuntary context switch of this thread (ru_nivcsw). One such yield proves little, as there are always some
 * daemons; EVIDENCE ones in a row decide. That nobody runs proves still less: the others wait, too, and sleep, and want
 * the core back with the next message. So what was crowded stays so until nobody has run for SHARED_NS. Without that a
 * rank changes its mind all the time, and polls for 40 us each time that its neighbour has work. Wall time would tell
 * less: how late a yield returns depends on the machine.
 *
 * Sleep is bounded because MPI libraries poll other things in the same loop, to which our descriptors are deaf, and it
 * is tried only while the program waits for us: an operation is under way, or it has probed in vain since the last
 * look. Otherwise it waits for something else. An adapter whose loop really drives other transports says so when it
 * opens the endpoint, and is never put to sleep. A program that calls MPI_Test now and then between pieces of its own
 * work must not be put to sleep either: when polls are further apart than GAP_NS, it is not waiting. But one look
 * that finds them so proves little where others take the core in between, so yields and sleeps are counted on until
 * something happens.
 *
 * All this does not help where yielding does not help. An MPI library may yield between its polls, and then our own
 * looks find polls far apart; and with autogroups (below) a rank that only yields keeps half of its core from a rank of
 * another session that has work: of 640,000 yields beside such a one 1,600 let it run. So where a large message is
 * under way, a wait that has become *long* is looked at by the processor time it took, every LONG_NS. If it has taken
 * as much as that, little of it on each poll, the program only waits, whoever yields; and if others had a third of the
 * time, the core is shared with them. Then the program sleeps; and for SHARED_NS it believes so without seeing it
 * again. Waits for small messages stay as they are: a wake-up is long beside them, and sleepers among ranks that yield
 * may be kept waiting (below).
 *
 * That a probing program sleeps is not for its own good only. Linux 6.18 schedules sessions as groups (autogroup), and
 * where the ranks of one session did nothing but yield while those of another slept and woke, the sleepers, and all
 * else on the machine, got no core for as long as that lasted: their peers took them for dead. Without autogroups, or
 * when all yield, or all sleep, it does not happen. For the same reason who only yields in a long wait, here or in its
 * MPI library, takes a *nap* of SLEEP_MIN_NS now and then.
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

#define CALM_POLLS    512 /* some 40 us */
#define CROWDED_POLLS 4
#define LOOK_POLLS    16
#define YIELDS        8         /* in a row, at least, before sleep, */
#define LARGE_NS      50000     /* and so long with a large message under way, */
#define SMALL_NS      10000000  /* or without */
#define NAP_LOOKS     512       /* in a row that yielded, or found the program at work, before a nap */
#define SLEEP_MIN_NS  50000     /* first sleep */
#define SLEEP_MAX_NS  1000000   /* longest sleep */
#define GAP_NS        3000      /* mean distance of polls of a program that only waits */
#define EVIDENCE      3         /* observations in a row that make calm crowded or the other way round */
#define SAMPLE        16        /* crowded: of so many yields one is observed */
#define LONG_NS       100000    /* a wait is looked at so often whether it is one for sleep */
#define SHARED_NS     100000000 /* so long others are believed to share the core, once they have been seen */
#define WORK_NS       5000      /* processor time between polls of a program that does not only wait */

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

/* Of the host, not those of this process: launchers bind each rank to a core of its own, and that is no crowd. Fewer
 * cores than the host has, as in containers, are found by observation. */
static unsigned wait_policy_cores(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (unsigned)count : 0;
}

static void wait_policy_set_limit(struct emx_wait_policy *i)
{
    i->limit = i->mode == EMX_WAIT_SPIN ? UINT32_MAX : i->crowded ? CROWDED_POLLS : CALM_POLLS;
    i->step = i->may_tire && !i->crowded ? LOOK_POLLS : i->limit;
    i->look = i->step;
}

void emx_wait_policy_init(struct emx_wait_policy *i, enum emx_wait_mode mode, unsigned local_ranks, bool never_sleeps)
{
    unsigned count = wait_policy_cores();

    *i = (struct emx_wait_policy){.mode = mode, .never_sleeps = never_sleeps, .host = &this_host};
    i->settled = mode != EMX_WAIT_AUTO || (count && local_ranks > count);
    i->crowded = i->settled;
    i->may_tire = !i->settled && !never_sleeps;
    wait_policy_set_limit(i);
}

/* ---- Observation ---- */

/* A yield was observed. */
static void wait_policy_learn(struct emx_wait_policy *i, bool others_ran, uint64_t now_ns)
{
    if (others_ran)
        i->seen_ns = now_ns;
    if (others_ran == i->crowded) {
        i->agreements = 0;
    } else if (++i->agreements >= EVIDENCE && (others_ran || now_ns - i->seen_ns >= SHARED_NS)) {
        i->agreements = 0;
        i->crowded = others_ran;
        wait_policy_set_limit(i);
    }
}

static bool wait_policy_is_observed(const struct ethmx_ep *ep)
{
    return !ep->idle.settled && (!ep->idle.crowded || ep->stats.yields % SAMPLE == 0);
}

/* ---- Making way ---- */

static struct emx_wait_policy_mark wait_policy_mark_now(struct ethmx_ep *ep)
{
    const struct emx_wait_policy_host *host = ep->idle.host;

    return (struct emx_wait_policy_mark){.now_ns = host->now(&ep->progress.clock),
                                         .cpu_ns = host->cpu_ns(),
                                         .rounds = atomic_load_explicit(&ep->rounds, memory_order_relaxed)};
}

/* Others have run for a while. Rounds read the clock now and then only; by its old time the polls that follow would
 * seem far apart. */
static void wait_policy_return(struct ethmx_ep *ep)
{
    emx_lock_take(&ep->lock);
    ep->idle.host->now(&ep->progress.clock);
}

static void wait_policy_yield(struct ethmx_ep *ep)
{
    const struct emx_wait_policy_host *host = ep->idle.host;
    bool observe = wait_policy_is_observed(ep), others_ran;
    long before;

    if (!ep->idle.yields++)
        ep->idle.first_ns = ep->progress.clock.last_ns;
    ep->stats.yields++;
    emx_ep_leave(ep);
    before = observe ? host->switches() : 0;
    host->yield();
    others_ran = observe && host->switches() != before;
    wait_policy_return(ep);
    if (!observe)
        return;
    wait_policy_learn(&ep->idle, others_ran, ep->progress.clock.last_ns);
    ep->progress.crowded = ep->idle.crowded;
}

static uint64_t wait_policy_sleep_length(const struct emx_wait_policy *i)
{
    uint64_t ns = (uint64_t)SLEEP_MIN_NS << (i->sleeps < 8 ? i->sleeps : 8);

    return ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS;
}

static bool wait_policy_may_block(const struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->idle;

    return i->crowded && !i->never_sleeps && !ep->progress.delivering && (ep->progress.open_ops || i->probed);
}

/* A message that is long takes longer than a wake-up; others are mostly there sooner. */
static bool wait_policy_has_waited(const struct ethmx_ep *ep)
{
    return ep->progress.clock.last_ns - ep->idle.first_ns >= (ep->large_ops ? LARGE_NS : SMALL_NS);
}

static bool wait_policy_may_sleep(const struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->idle;

    if (!wait_policy_may_block(ep))
        return false;
    if (i->mode == EMX_WAIT_YIELD)
        return i->yields >= NAP_LOOKS;
    return i->mode == EMX_WAIT_SLEEP || (i->yields >= YIELDS && wait_policy_has_waited(ep));
}

static void wait_policy_sleep(struct ethmx_ep *ep, bool nap)
{
    const struct emx_wait_policy_host *host = ep->idle.host;
    struct emx_wait w;

    host->prepare(ep, nap ? SLEEP_MIN_NS : wait_policy_sleep_length(&ep->idle), &w);
    if (nap)
        ep->idle.yields = ep->idle.at_work = 0;
    else
        ep->idle.sleeps++;
    ep->stats.sleeps++;
    atomic_fetch_add(&ep->sleepers, 1);
    emx_ep_leave(ep);
    host->sleep(&w);
    atomic_fetch_sub(&ep->sleepers, 1);
    wait_policy_return(ep);
    if (ep->idle.mark.now_ns) {
        ep->idle.mark = wait_policy_mark_now(ep);
        ep->idle.long_ns = ep->idle.mark.now_ns;
    }
}

/* ---- Long waits ---- */

/* Whether others have run for a third of the time in which this one did, so that they are believed to share the core.
 */
static bool wait_policy_is_shared(struct emx_wait_policy *i, const struct emx_wait_policy_mark *now)
{
    if (now->cpu_ns - i->mark.cpu_ns < (now->now_ns - i->mark.now_ns) / 3 * 2)
        i->shared_ns = now->now_ns + SHARED_NS;
    return now->now_ns < i->shared_ns;
}

/* Whether to sleep in this wait now. If not, it is looked at again after a while. */
static bool wait_policy_ends_long_wait(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->idle;
    struct emx_wait_policy_mark now = wait_policy_mark_now(ep);
    uint64_t taken_ns = now.cpu_ns - i->mark.cpu_ns;
    bool only_waited = taken_ns <= (uint64_t)(now.rounds - i->mark.rounds) * WORK_NS;

    i->long_ns = now.now_ns + LONG_NS;
    if (i->mark.now_ns && !i->sleeps && taken_ns < LONG_NS)
        return false; /* it has cost little */
    if (i->mark.now_ns && only_waited && ep->large_ops && !ep->progress.delivering &&
        (i->sleeps || wait_policy_is_shared(i, &now)))
        return true;
    i->mark = now;
    return false;
}

/* The program does things of its own between its polls; or its MPI library yields between them, and does it alone.
 * (Both together seemed to do worse.) */
static bool wait_policy_is_at_work(struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->idle;

    return i->host->now(&ep->progress.clock) - i->since_ns > (uint64_t)i->polls * GAP_NS;
}

/* A look has found it so, which is no reason to make way; but in a long wait it may be the library's yields alone that
 * do, and these may let nobody run (above). */
static bool wait_policy_wants_short_sleep(struct ethmx_ep *ep)
{
    return ++ep->idle.at_work >= NAP_LOOKS && wait_policy_may_block(ep);
}

/* The next look is after some polls, from the beginning if it was a yield or sleep that was looked for. */
static void wait_policy_set_next_look(struct emx_wait_policy *i, bool from_beginning)
{
    if (from_beginning)
        i->polls = 0;
    i->look = emx_min_u(i->polls + i->step, i->limit);
}

/* Whether this wait has become long and is for sleep. */
static bool wait_policy_wants_long_sleep(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->idle;

    if (!i->may_tire)
        return false;
    if (!i->long_ns) {
        i->long_ns = ep->progress.clock.last_ns + LONG_NS;
        i->mark.now_ns = 0;
    }
    return ep->progress.clock.last_ns >= i->long_ns && wait_policy_ends_long_wait(ep);
}

bool emx_wait_policy_look(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->idle;
    bool tired = wait_policy_wants_long_sleep(ep), due = i->polls >= i->limit,
         at_work = !tired && due && wait_policy_is_at_work(ep);

    wait_policy_set_next_look(i, tired || due);
    if (!(tired || due) || (at_work && !wait_policy_wants_short_sleep(ep)))
        return false;
    if (at_work || tired || wait_policy_may_sleep(ep))
        wait_policy_sleep(ep, at_work || i->mode == EMX_WAIT_YIELD);
    else
        wait_policy_yield(ep);
    i->probed = false;
    return true;
}
