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
 * is tried only while the program waits for us: an operation is under way, or it has probed in vain since the last
 * look. Otherwise it waits for something else. An adapter whose loop really drives other transports says so when it
 * opens the endpoint, and is never put to sleep. A program that calls MPI_Test now and then between pieces of its own
 * work must not be put to sleep either: when polls are further apart than GAP_NS, it is not waiting. But one look
 * that finds them so proves little where others take the core in between, so yields and sleeps are counted on until
 * something happens.
 *
 * That a probing program sleeps is not for its own good only. Linux 6.18 schedules sessions as groups (autogroup), and
 * where the ranks of one session did nothing but yield while those of another slept and woke, the sleepers, and all
 * else on the machine, got no core for as long as that lasted: their peers took them for dead. Without autogroups, or
 * when all yield, or all sleep, it does not happen.
 */
#define _GNU_SOURCE
#include "ctx/idle.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ctx/ep.h"
#include "ctx/wait.h"

#define CALM_POLLS    512 /* some 40 us */
#define CROWDED_POLLS 4
#define YIELDS        8       /* in a row, before sleep */
#define SLEEP_MIN_NS  50000   /* first sleep */
#define SLEEP_MAX_NS  1000000 /* longest sleep */
#define GAP_NS        3000    /* mean distance of polls of a program that only waits */
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
    i->limit = i->mode == EMX_WAIT_SPIN ? UINT32_MAX : i->crowded ? CROWDED_POLLS : CALM_POLLS;
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

/* Others have run for a while. The pump reads the clock now and then only; by its old time the polls that follow would
 * seem far apart. */
static void come_back(struct ethmx_ep *ep)
{
    emx_lock_take(&ep->lock);
    emx_clock_now(&ep->clock);
}

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
    come_back(ep);
    if (observe)
        learn(&ep->idle, others_ran);
}

static uint64_t sleep_length(const struct emx_idle *i)
{
    uint64_t ns = (uint64_t)SLEEP_MIN_NS << (i->sleeps < 8 ? i->sleeps : 8);

    return ns < SLEEP_MAX_NS ? ns : SLEEP_MAX_NS;
}

static bool may_sleep(const struct ethmx_ep *ep)
{
    const struct emx_idle *i = &ep->idle;

    if (!i->crowded || i->never_sleeps || ep->delivering || !(ep->open_ops || i->probed))
        return false;
    return i->mode == EMX_WAIT_SLEEP || i->yields >= YIELDS;
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
    come_back(ep);
}

/* The program does things of its own between its polls; or its MPI library yields between them, and does it alone.
 * (Both together seemed to do worse.) */
static bool is_at_work(struct ethmx_ep *ep)
{
    const struct emx_idle *i = &ep->idle;

    return emx_clock_now(&ep->clock) - i->since_ns > (uint64_t)i->polls * GAP_NS;
}

bool emx_idle_look(struct ethmx_ep *ep)
{
    struct emx_idle *i = &ep->idle;
    bool at_work = is_at_work(ep);

    i->polls = 0;
    if (at_work)
        return false;
    if (may_sleep(ep))
        sleep_a_while(ep);
    else
        yield(ep);
    i->probed = false;
    return true;
}
