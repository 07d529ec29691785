/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A program that waits in MPI polls, because nothing is faster than reading memory. That is right while it has a core
 * of its own. If ranks outnumber cores, a polling rank keeps the core from the rank that it waits for, until the kernel
 * preempts it. So the policy must detect whether others need the core, and then yield:
 *
 *     dedicated       polls; yields once (sched_yield) after DEDICATED_POLLS polls without a frame, to observe
 *     oversubscribed  yields after every OVERSUBSCRIBED_POLLS polls; after a while it sleeps on the wires' descriptors,
 *                     first for SLEEP_MIN_NS, each time longer, up to SLEEP_MAX_NS. The while is LARGE_NS if a large
 *                     message is in progress, which takes longer than a wake-up, and SMALL_NS otherwise
 *
 * ETHMX_WAIT=spin is always dedicated and does not observe. yield is always oversubscribed, and takes only short sleeps
 * (below). sleep is always oversubscribed, and sleeps instead of the first yield. auto decides. If the job has more
 * processes on this host than the host has cores, it is oversubscribed for good. But other jobs, containers and virtual
 * nodes may share the cores, too. So auto observes: when a sched_yield() lets another thread run, the kernel counts an
 * involuntary context switch of this thread (ru_nivcsw). One such yield proves little, because daemons run now and
 * then; EVIDENCE ones in a row decide. A yield that lets no thread run proves even less: the others may be asleep and
 * need the core with the next message. So a rank stays oversubscribed until no other thread has run for SHARED_NS.
 * Otherwise it would switch all the time. The duration of a yield is no evidence, because it depends on the machine.
 *
 * Sleep is bounded, because MPI libraries poll other transports in the same loop, for which ethmx's descriptors do not
 * become readable. The policy sleeps only while the program waits for ethmx: an operation is in progress, or the
 * program has probed without success since the last check. An adapter whose loop drives other transports says so when
 * it opens the endpoint, and then the policy never sleeps. A program that calls MPI_Test between parts of its own work
 * must not sleep either: if polls are further apart than GAP_NS, it is at work. One check proves little if others take
 * the core in between, so yields and sleeps are counted until a poll succeeds.
 *
 * MPI_Init() and MPI_Finalize() wait for all ranks, not for ethmx. Open MPI polls in them and sleeps for 100 us between
 * two polls. If ranks outnumber cores by far, even that takes most of the cores from the ranks that still start or end.
 * So if the job is known to be oversubscribed, no operation is in progress, and the thread has slept between its polls
 * (ru_nvcsw), the policy sleeps as well, up to LAZY_MAX_NS. The end of such a wait does not wake it; a frame does.
 *
 * Yielding does not always help. An MPI library may yield between its polls, and then polls are far apart. With
 * autogroups (below) a rank that only yields keeps its share of the core from a rank of another session that has work.
 * So if a large message is in progress, a *long* wait is judged by its processor time, every LONG_NS. If it has taken
 * that much, and little for each poll, the program only waits. If others had a third of the time as well, the core is
 * shared. Then the program sleeps, and assumes the same for SHARED_NS without another check. Waits for small messages
 * are not judged: a wake-up is long compared with them, and a sleeper among ranks that yield may wait long for a core
 * (below).
 *
 * A program of somebody else that never waits keeps the core for a slice of the kernel's time after each yield, which
 * is longer than most waits. So if yields take longer than SLICE_NS, KEPT of them in a row, the policy polls as if the
 * core was dedicated, and then sleeps instead of the yield: the kernel gives a sleeper that a frame wakes the core
 * sooner. After KEPT_MIN_NS one yield shows whether the others still keep it; the intervals double. A yield that ends
 * sooner, and let others run, ends this: they wait, too, as ranks do. Fewer long yields in a row prove less, because
 * ranks also compute. Where more ranks than cores are known this is not done: there the others are ranks.
 *
 * In a virtual machine others may want the core whom nobody here sees: the host's threads that carry this machine's
 * frames. So there a long wait begins after LARGE_NS, and every core counts as shared. To spin for some time first and
 * then to sleep costs at most twice the better of both (Karlin et al., "Competitive snoopy caching", 1988).
 *
 * The sleep of a probing program also helps others. Recent kernels schedule sessions as groups (autogroup; seen with
 * Linux 6.18). While the ranks of one session only yield and those of another sleep and wake, the sleepers and all
 * other programs get no core, and their peers may declare them dead. This does not happen without autogroups, or if all
 * yield, or all sleep. Therefore a program that only yields in a long wait, here or in its MPI library, takes a *short
 * sleep* of SLEEP_MIN_NS now and then.
 */
#define _GNU_SOURCE
#include "endpoint/wait_policy.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/min.h"
#include "endpoint/ep.h"
#include "endpoint/wait.h"

#define DEDICATED_POLLS      512
#define OVERSUBSCRIBED_POLLS 4
#define CHECK_POLLS          16
#define YIELDS               8        /* minimum in a row before sleep, */
#define LARGE_NS             50000    /* and wait before sleep with a large message in progress, */
#define SMALL_NS             10000000 /* or without one */
#define SHORT_SLEEP_CHECKS   512 /* checks in a row that yielded, or found the program at work, before a short sleep */
#define SLEEP_MIN_NS         50000     /* first sleep */
#define SLEEP_MAX_NS         1000000   /* longest sleep, */
#define LAZY_MAX_NS          4000000   /* and if the MPI library sleeps itself */
#define LAZY_GAP_NS          10000000  /* between two such sleeps: longer, and another wait has begun */
#define GAP_NS               3000      /* mean interval of polls of a program that only waits */
#define EVIDENCE             3         /* observations in a row that change the decision */
#define SAMPLE               16        /* if oversubscribed, one of so many yields is observed */
#define LONG_NS              100000    /* interval of the checks of a long wait */
#define SHARED_NS            100000000 /* after the last observation the core is considered shared for this long */
#define SLICE_NS             500000    /* others that keep the core for longer only compute, */
#define KEPT                 32        /* if they do so as often in a row, */
#define KEPT_MIN_NS          8000000   /* and are assumed to do so for this long, each time twice as long, */
#define KEPT_MAX_NS          512000000 /* up to this long */
#define WORK_NS              5000      /* maximum processor time per poll of a program that only waits */

/* ---- The host ---- */

static uint64_t wait_policy_cpu_ns(void)
{
    struct timespec cpu;

    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu))
        return 0;
    return (uint64_t)cpu.tv_sec * 1000000000u + (uint64_t)cpu.tv_nsec;
}

static struct rusage wait_policy_usage(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_THREAD, &u))
        memset(&u, 0, sizeof(u));
    return u;
}

static long wait_policy_switches(void)
{
    return wait_policy_usage().ru_nivcsw;
}

static void wait_policy_yield_core(void)
{
    sched_yield();
}

static long wait_policy_pauses(void)
{
    return wait_policy_usage().ru_nvcsw;
}

static const struct emx_wait_policy_host this_host = {.now = emx_clock_now,
                                                      .cpu_ns = wait_policy_cpu_ns,
                                                      .switches = wait_policy_switches,
                                                      .pauses = wait_policy_pauses,
                                                      .yield = wait_policy_yield_core,
                                                      .prepare = emx_wait_prepare,
                                                      .sleep = emx_wait_sleep};

/* Whether this is a virtual machine that says so. */
static bool wait_policy_in_guest(void)
{
#if defined(__x86_64__)
    const unsigned hypervisor = 1u << 31;
    unsigned eax, ebx, ecx, edx;

    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && ecx & hypervisor;
#else
    return !access("/proc/device-tree/hypervisor", F_OK);
#endif
}

/* Cores of the host, not of this process: launchers may bind each rank to its own core, which is not oversubscription.
 * If fewer cores are available, as in containers, observation detects it. */
static unsigned wait_policy_cores(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    return count > 0 ? (unsigned)count : 0;
}

static void wait_policy_set_limit(struct emx_wait_policy *i)
{
    i->limit = i->mode == EMX_WAIT_SPIN              ? UINT32_MAX
               : i->oversubscribed && i->kept < KEPT ? OVERSUBSCRIBED_POLLS
                                                     : DEDICATED_POLLS;
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
    i->in_guest = wait_policy_in_guest();
    wait_policy_set_limit(i);
}

/* A time that was doubled so often. */
static uint64_t wait_policy_doubled(uint64_t first_ns, unsigned times, uint64_t max_ns)
{
    return emx_min(first_ns << emx_min_u(times, 8), max_ns);
}

/* ---- Observation ---- */

/* Evaluates an observed yield. */
static void wait_policy_learn(struct emx_wait_policy *i, bool others_ran, uint64_t now_ns)
{
    if (others_ran)
        i->seen_ns = now_ns;
    if (others_ran == i->oversubscribed) {
        i->agreements = 0;
    } else if (++i->agreements >= EVIDENCE && (others_ran || now_ns - i->seen_ns >= SHARED_NS)) {
        i->agreements = 0;
        i->oversubscribed = others_ran;
        if (!others_ran)
            i->kept = 0;
        wait_policy_set_limit(i);
    }
}

/* Evaluates how long a yield took. One that let nobody run says nothing. */
static void wait_policy_learn_slice(struct emx_wait_policy *i, uint64_t took_ns, bool others_ran, uint64_t now_ns)
{
    if (took_ns >= SLICE_NS) {
        i->kept = now_ns < i->kept_until_ns + KEPT_MAX_NS ? i->kept + 1 : 1;
        i->kept_until_ns = now_ns;
        if (i->kept >= KEPT)
            i->kept_until_ns += wait_policy_doubled(KEPT_MIN_NS, i->kept - KEPT, KEPT_MAX_NS);
    } else if (others_ran) {
        i->kept = 0;
    }
    wait_policy_set_limit(i);
}

static bool wait_policy_is_observed(const struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->wait_policy;

    return !i->settled && (!i->oversubscribed || i->kept || ep->stats->yields % SAMPLE == 0);
}

/* ---- Yielding and sleeping ---- */

static struct emx_wait_policy_mark wait_policy_mark_now(struct ethmx_ep *ep)
{
    const struct emx_wait_policy_host *host = ep->wait_policy.host;

    return (struct emx_wait_policy_mark){.now_ns = host->now(&ep->progress.clock),
                                         .cpu_ns = host->cpu_ns(),
                                         .rounds = atomic_load_explicit(&ep->rounds, memory_order_relaxed)};
}

/* Takes the lock again and reads the clock. Rounds rarely read it, and with an old time the next polls would seem far
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
    const uint64_t from_ns = ep->progress.clock.last_ns;
    uint64_t now_ns;
    long before;

    if (!ep->wait_policy.yields++)
        ep->wait_policy.first_ns = from_ns;
    ep->stats->yields++;
    emx_ep_leave(ep);
    before = observe ? host->switches() : 0;
    host->yield();
    others_ran = observe && host->switches() != before;
    wait_policy_retake_lock(ep);
    now_ns = ep->progress.clock.last_ns;
    if (!ep->wait_policy.settled)
        wait_policy_learn_slice(&ep->wait_policy, now_ns - from_ns, others_ran, now_ns);
    if (!observe)
        return;
    wait_policy_learn(&ep->wait_policy, others_ran, now_ns);
    ep->progress.oversubscribed = ep->wait_policy.oversubscribed;
}

static bool wait_policy_waits_for_us(const struct ethmx_ep *ep)
{
    return ep->progress.open_ops || ep->wait_policy.probed;
}

static bool wait_policy_can_block(const struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->wait_policy;

    return i->oversubscribed && !i->never_sleeps && !ep->progress.delivering;
}

static bool wait_policy_may_block(const struct ethmx_ep *ep)
{
    return wait_policy_can_block(ep) && wait_policy_waits_for_us(ep);
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
    return i->mode == EMX_WAIT_SLEEP || i->kept_until_ns > ep->progress.clock.last_ns ||
           (i->yields >= YIELDS && wait_policy_has_waited(ep));
}

static void wait_policy_sleep(struct ethmx_ep *ep, uint64_t longest_ns)
{
    const struct emx_wait_policy_host *host = ep->wait_policy.host;
    struct emx_wait w;

    host->prepare(ep, longest_ns, &w);
    ep->stats->sleeps++;
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

static void wait_policy_sleep_shortly(struct ethmx_ep *ep)
{
    ep->wait_policy.yields = ep->wait_policy.at_work = 0;
    wait_policy_sleep(ep, SLEEP_MIN_NS);
}

static void wait_policy_sleep_longer(struct ethmx_ep *ep)
{
    wait_policy_sleep(ep, wait_policy_doubled(SLEEP_MIN_NS, ep->wait_policy.sleeps++, SLEEP_MAX_NS));
}

/* ---- Waits for other things ---- */

static struct emx_wait_policy_pauses wait_policy_pauses_now(const struct ethmx_ep *ep)
{
    return (struct emx_wait_policy_pauses){.set = true,
                                           .thread = pthread_self(),
                                           .rounds = atomic_load_explicit(&ep->rounds, memory_order_relaxed),
                                           .count = ep->wait_policy.host->pauses()};
}

/* Whether the MPI library waits for something that is not ours, and has slept between its polls since the last look. */
static bool wait_policy_is_lazy(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;
    const struct emx_wait_policy_pauses before = i->pauses;

    if (!i->settled || i->mode == EMX_WAIT_YIELD || !wait_policy_can_block(ep) || wait_policy_waits_for_us(ep))
        return false;
    i->pauses = wait_policy_pauses_now(ep);
    return before.set && pthread_equal(before.thread, i->pauses.thread) &&
           i->pauses.count - before.count >= (long)(i->pauses.rounds - before.rounds);
}

/* Looks again after the next poll. */
static void wait_policy_sleep_lazily(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;

    if (i->host->now(&ep->progress.clock) - i->lazy_ns > LAZY_GAP_NS)
        i->lazy_sleeps = 0;
    i->polls = 0;
    i->next_check = 1;
    wait_policy_sleep(ep, wait_policy_doubled(SLEEP_MIN_NS, i->lazy_sleeps++, LAZY_MAX_NS));
    i->lazy_ns = ep->progress.clock.last_ns;
    i->pauses = wait_policy_pauses_now(ep);
}

/* ---- Long waits ---- */

/* After which a wait is long, and is judged again. */
static uint64_t wait_policy_long_ns(const struct emx_wait_policy *i)
{
    return i->in_guest ? LARGE_NS : LONG_NS;
}

/* Whether others have had a third of the time since the mark, or had it less than SHARED_NS ago. */
static bool wait_policy_is_shared(struct emx_wait_policy *i, const struct emx_wait_policy_mark *now)
{
    if (i->in_guest)
        return true;
    if (now->cpu_ns - i->mark.cpu_ns < (now->now_ns - i->mark.now_ns) / 3 * 2)
        i->shared_ns = now->now_ns + SHARED_NS;
    return now->now_ns < i->shared_ns;
}

/* Whether to sleep now in this long wait. If not, it is checked again later. */
static bool wait_policy_ends_long_wait(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;
    struct emx_wait_policy_mark now = wait_policy_mark_now(ep);
    uint64_t taken_ns = now.cpu_ns - i->mark.cpu_ns;
    bool only_waited = taken_ns <= (uint64_t)(now.rounds - i->mark.rounds) * WORK_NS;

    i->long_ns = now.now_ns + wait_policy_long_ns(i);
    if (i->mark.now_ns && !i->sleeps && taken_ns < wait_policy_long_ns(i))
        return false; /* little processor time was used */
    if (i->mark.now_ns && only_waited && !ep->progress.delivering && (i->sleeps || wait_policy_is_shared(i, &now)))
        return true;
    i->mark = now;
    return false;
}

/* The program works between its polls, or its MPI library yields between them. Then the policy does not yield. */
static bool wait_policy_is_at_work(struct ethmx_ep *ep)
{
    const struct emx_wait_policy *i = &ep->wait_policy;

    return i->host->now(&ep->progress.clock) - i->since_ns > (uint64_t)i->polls * GAP_NS;
}

/* A check has found the program at work, so it need not yield. But in a long wait the reason may be only the library's
 * yields, and these may let no other thread run (above). */
static bool wait_policy_wants_short_sleep(struct ethmx_ep *ep)
{
    return ++ep->wait_policy.at_work >= SHORT_SLEEP_CHECKS && wait_policy_may_block(ep);
}

/* Sets the number of polls at the next check. from_beginning: a yield or sleep was due. */
static void wait_policy_set_next_check(struct emx_wait_policy *i, bool from_beginning)
{
    if (from_beginning)
        i->polls = 0;
    i->next_check = emx_min_u(i->polls + i->step, i->limit);
}

/* Whether this wait is long, and the program should sleep. Only waits for large messages are judged. */
static bool wait_policy_wants_long_sleep(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;

    if (!i->checks_long_waits || !ep->large_ops)
        return false;
    if (!i->long_ns) {
        i->long_ns = ep->progress.clock.last_ns + (i->in_guest ? 0 : LONG_NS);
        i->mark.now_ns = 0;
    }
    return ep->progress.clock.last_ns >= i->long_ns && wait_policy_ends_long_wait(ep);
}

bool emx_wait_policy_check(struct ethmx_ep *ep)
{
    struct emx_wait_policy *i = &ep->wait_policy;
    bool long_sleep, due, at_work;

    if (wait_policy_is_lazy(ep)) {
        wait_policy_sleep_lazily(ep);
        return true;
    }
    long_sleep = wait_policy_wants_long_sleep(ep);
    due = i->polls >= i->limit;
    at_work = !long_sleep && due && wait_policy_is_at_work(ep);
    wait_policy_set_next_check(i, long_sleep || due);
    if (!(long_sleep || due) || (at_work && !wait_policy_wants_short_sleep(ep)))
        return false;
    if (!at_work && !long_sleep && !wait_policy_may_sleep(ep))
        wait_policy_yield(ep);
    else if (at_work || i->mode == EMX_WAIT_YIELD)
        wait_policy_sleep_shortly(ep);
    else
        wait_policy_sleep_longer(ep);
    i->probed = false;
    return true;
}
