/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that waits in MPI polls, because nothing is as quick as a look at memory. That is right while it has a core
 * for itself. Where ranks outnumber cores, the poller keeps the core from the very rank that it waits for, until the
 * kernel takes it away milliseconds later. So a poller must know whether others want its core, and then make way:
 *
 *     calm      polls; gives way for a moment (sched_yield) after CALM_POLLS polls without a frame, to find out
 *     crowded   gives way after every CROWDED_POLLS polls; after YIELDS of these in a row it sleeps on the wires'
 *               descriptors, first for SLEEP_MIN_NS, each time longer, SLEEP_MAX_NS at most
 *
 * ETHMX_WAIT=spin stays calm and does not even look; yield is crowded without sleep; sleep is crowded, and sleeps
 * instead of the first yield. auto finds out: when the job has more processes on this host than it has cores, it is
 * crowded for good. But the job's own count is not all: other jobs, other containers and other virtual nodes share
 * cores, too. So auto also observes: a sched_yield() that let somebody else run has made the kernel count an
 * involuntary context switch of this thread (ru_nivcsw). One such yield proves little, as there are always some
 * daemons; EVIDENCE ones in a row decide, in both directions. Wall time would tell less: how late a yield returns
 * depends on the machine.
 *
 * Sleep is bounded because MPI libraries poll other things in the same loop, to which our descriptors are deaf, and it
 * is tried only while an operation of ours is under way: otherwise the program waits for something else. (A probe loop
 * has no operation; it yields.) An adapter whose loop really drives other transports says so when it opens the
 * endpoint, and is never put to sleep. A program that calls MPI_Test now and then between pieces of its own work must
 * not be put to sleep either: when polls are further apart than GAP_NS, it is not waiting.
 *
 * Whoever has polled for PATIENCE_NS in vain sleeps, too, be it alone or not: a wake-up is little beside such a wait.
 * For those whom it keeps from the core cannot always be seen from here. Linux 6.18 with autogroups (each session a
 * group) may give a group whose threads wake often next to nothing, for seconds, as long as another group spins on all
 * cores: two sessions of two spinning processes are enough, if each process has a thread that wakes every 100 us. That
 * is the progress thread's way of life. Who spins in such a case waits for those whom it starves.
 *
 * Or it waits and *starves*: others have its core, and it gets to a poll now and then. That shows where the time
 * between two looks was spent neither by this thread nor blocked. Then nothing helps but sleep, which gives the core up
 * and comes back as soon as a frame is there. Yielding makes it worse, whoever does it (MPI libraries yield between
 * their polls, too): Linux 6.18 takes the rest of its time slice from who yields, as if it had been used, so that
 * beside one that does not yield there is a poll or two for each slice of the others, and ranks need seconds for what
 * takes milliseconds. And a yield lets nobody in who is in another group: with autogroups each session is one, so the
 * observation above is blind to the ranks of other jobs and virtual nodes.
 */
#define _GNU_SOURCE
#include "ctx/idle.h"

#include <sched.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "ctx/ep.h"
#include "ctx/wait.h"

#define CALM_POLLS    512 /* some 40 us */
#define CROWDED_POLLS 4
#define YIELDS        8       /* in a row, before sleep */
#define SLEEP_MIN_NS  50000   /* first sleep */
#define SLEEP_MAX_NS  1000000 /* longest sleep */
#define GAP_NS        6000    /* mean distance of polls of a program that only waits */
#define PATIENCE_NS   5000000 /* who has waited so long in vain sleeps */
#define LOOK_NS       2000000 /* who polls less than limit times in this time is looked at, too */
#define EVIDENCE      3       /* observations in a row that make calm crowded or the other way round */
#define SAMPLE        16      /* crowded: of so many yields one is observed */

/* Of the host, not those of this process: launchers bind each rank to a core of its own, and that is no crowd. Fewer
 * cores than the host has, as in containers, are found by observation. */
static unsigned cores(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (unsigned)count : 0;
}

static void set_limit(struct emx_idle *i)
{
    i->limit = i->mode == EMX_WAIT_SPIN ? UINT32_MAX : i->crowded || i->impatient ? CROWDED_POLLS : CALM_POLLS;
    i->limit_ns = i->mode == EMX_WAIT_SPIN ? UINT64_MAX : LOOK_NS;
}

void emx_idle_init(struct emx_idle *i, enum emx_wait_mode mode, unsigned local_ranks, bool never_sleeps)
{
    unsigned count = cores();

    *i = (struct emx_idle){.mode = mode, .never_sleeps = never_sleeps || mode == EMX_WAIT_YIELD};
    i->settled = mode != EMX_WAIT_AUTO || (count && local_ranks > count);
    i->crowded = i->settled;
    set_limit(i);
}

/* ---- Observation ---- */

/* (The times that getrusage() tells are those of the last tick.) */
static struct emx_idle_sample take_sample(emx_time now)
{
    struct timespec cpu;
    struct rusage u;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu) || getrusage(RUSAGE_THREAD, &u))
        return (struct emx_idle_sample){0};
    return (struct emx_idle_sample){
        .at_ns = now, .cpu_ns = (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec, .blocks = u.ru_nvcsw};
}

static long switches(void)
{
    struct rusage u;

    return getrusage(RUSAGE_THREAD, &u) ? 0 : u.ru_nivcsw;
}

/* A yield was observed. */
static void learn(struct emx_idle *i, bool others_ran)
{
    if (others_ran == i->crowded) {
        i->agreements = 0;
    } else if (++i->agreements >= EVIDENCE) {
        i->agreements = 0;
        i->crowded = others_ran;
        set_limit(i);
    }
}

static bool is_observed(const struct ethmx_ep *ep)
{
    return !ep->idle.settled && (!ep->idle.crowded || ep->stats.yields % SAMPLE == 0);
}

/* ---- Making way ---- */

static void yield(struct ethmx_ep *ep)
{
    bool observe = is_observed(ep), others_ran;
    long before;

    ep->idle.yields++;
    ep->stats.yields++;
    emx_ep_leave(ep);
    before = observe ? switches() : 0;
    sched_yield();
    others_ran = observe && switches() != before;
    emx_lock_take(&ep->lock);
    if (observe)
        learn(&ep->idle, others_ran);
}

/* Who has only waited for long may have other things to look at. */
static uint64_t sleep_length(const struct emx_idle *i)
{
    uint64_t ns = (uint64_t)SLEEP_MIN_NS << (!i->crowded ? 0 : i->sleeps < 8 ? i->sleeps : 8);

    return ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS;
}

static bool can_sleep(const struct ethmx_ep *ep)
{
    return !ep->idle.never_sleeps && ep->open_ops && !ep->delivering;
}

static bool may_sleep(const struct ethmx_ep *ep)
{
    const struct emx_idle *i = &ep->idle;

    if (!can_sleep(ep))
        return false;
    return i->impatient || (i->crowded && (i->mode == EMX_WAIT_SLEEP || i->yields >= YIELDS));
}

static void sleep_a_while(struct ethmx_ep *ep)
{
    struct emx_wait w;

    emx_wait_prepare(ep, sleep_length(&ep->idle), &w);
    ep->idle.sleeps++;
    ep->stats.sleeps++;
    atomic_fetch_add(&ep->sleepers, 1);
    emx_ep_leave(ep);
    emx_wait_sleep(&w);
    atomic_fetch_sub(&ep->sleepers, 1);
    emx_lock_take(&ep->lock);
    ep->idle.sample = take_sample(emx_clock_now(&ep->clock)); /* it has blocked */
}

/* ---- Looking ---- */

enum state { WAITS, WORKS, STARVES };

/* Polls that are far apart: the program does things of its own between them, or others have its core. The first such
 * look cannot tell, and takes it for work. */
static enum state judge(struct ethmx_ep *ep)
{
    struct emx_idle *i = &ep->idle;
    struct emx_idle_sample before = i->sample;
    emx_time now = emx_clock_now(&ep->clock);
    uint64_t polling_ns = (uint64_t)i->polls * GAP_NS;

    if (!i->never_sleeps)
        i->sample = take_sample(now);
    if (now - i->since_ns <= polling_ns)
        return WAITS;
    if (!before.at_ns || !i->sample.at_ns || i->sample.blocks != before.blocks)
        return WORKS;
    return i->sample.cpu_ns - before.cpu_ns > polling_ns ? WORKS : STARVES;
}

static void note_work(struct emx_idle *i)
{
    struct emx_idle_sample sample = i->sample;

    emx_idle_reset(i);
    i->sample = sample;
}

/* Polls few times between its sleeps, as in a crowd, until something happens. */
static void lose_patience(struct emx_idle *i, emx_time now)
{
    bool impatient;

    if (!i->began_ns)
        i->began_ns = i->since_ns;
    impatient = i->mode == EMX_WAIT_AUTO && now - i->began_ns >= PATIENCE_NS;
    if (impatient == i->impatient)
        return;
    i->impatient = impatient;
    set_limit(i);
}

bool emx_idle_look(struct ethmx_ep *ep)
{
    struct emx_idle *i = &ep->idle;
    enum state state = judge(ep);

    lose_patience(i, emx_clock_now(&ep->clock));
    if (state == WORKS || (state == STARVES && !can_sleep(ep))) {
        note_work(i);
        return false;
    }
    i->polls = 0;
    if (state == STARVES || may_sleep(ep))
        sleep_a_while(ep);
    else
        yield(ep);
    return true;
}
