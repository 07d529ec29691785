/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The clock is read on sends and on polls, so it must be cheap. The kernel's CLOCK_MONOTONIC costs several times as
 * much as the processor's time stamp counter, or a system call where the machine has no fast path for it. The counter
 * counts in a unit of its own.
 *
 * So: from time to time both are read together, which gives an *anchor*; between anchors the time is the anchor's plus
 * the counter's advance times a rate. The rate comes from the two latest anchors. An anchor is used for SPAN_NS only,
 * so that a jump of the counter (a virtual machine that moves to another host, a resume from sleep) has no effect for
 * longer. Nothing is calibrated when the endpoint opens: until two anchors are BASELINE_NS apart, the kernel's clock is
 * read each time.
 *
 * The counter is used only if the processor says that it is invariant (it counts at one rate in all power states, and
 * Linux has set it equal on all cores), or if the kernel keeps its own time by it: virtual machines often do not say
 * the first, and a kernel that finds the counter wanting, as it checks all the time, takes another clock. Whatever
 * happens, the time told never goes backwards: emx_clock_now() keeps the latest value, and the endpoint's lock keeps it
 * the same for all threads.
 */
#include "progress/clock.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define SPAN_NS     50000000u /* an anchor serves so long */
#define BASELINE_NS 10000000u /* shortest distance of two anchors that a rate is computed from */
#define SPAN_TICKS  (1ull << 28)
#define RATE_MIN    (1ull << 28)  /* 16 ticks in a nanosecond */
#define RATE_MAX    (16ull << 32) /* 16 ns a tick; times SPAN_TICKS it still fits 64 bits */

#if defined(__x86_64__)

#define KERNELS_CLOCK "/sys/devices/system/clocksource/clocksource0/current_clocksource"

static bool clock_kernel_counts_by_it(void)
{
    char name[16] = "";
    FILE *f = fopen(KERNELS_CLOCK, "re");
    bool told = f && fgets(name, sizeof(name), f);

    if (f)
        fclose(f);
    return told && !strcmp(name, "tsc\n");
}

static bool clock_counter_is_fit(void)
{
    unsigned eax, ebx, ecx, edx;
    bool invariant = __get_cpuid(0x80000007, &eax, &ebx, &ecx, &edx) && edx & (1u << 8);

    return invariant || clock_kernel_counts_by_it();
}

#else

static bool clock_counter_is_fit(void)
{
    return false;
}

#endif

/* Both clocks at one moment. A thread that loses its processor between the reads would pair moments that lie apart:
 * the closest of three pairs is taken. */
static void clock_read_both(uint64_t *ticks_p, uint64_t *ns_p)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < 3; i++) {
        uint64_t before = emx_clock_ticks();
        uint64_t ns = emx_clock_kernel_ns();
        uint64_t apart = emx_clock_ticks() - before;

        if (apart >= best)
            continue;
        best = apart;
        *ticks_p = before + apart / 2;
        *ns_p = ns;
    }
}

void emx_clock_init(struct emx_clock *c)
{
    *c = (struct emx_clock){.has_ticks = clock_counter_is_fit()};
    if (c->has_ticks)
        clock_read_both(&c->anchor_ticks, &c->anchor_ns);
    c->last_ns = emx_clock_kernel_ns();
}

/* The rate between the anchor and this moment. 0: not plausible. */
static uint64_t clock_rate_since(const struct emx_clock *c, uint64_t ticks, uint64_t ns)
{
    unsigned __int128 rate;

    if (ticks <= c->anchor_ticks || ns <= c->anchor_ns)
        return 0;
    rate = ((unsigned __int128)(ns - c->anchor_ns) << 32) / (ticks - c->anchor_ticks);
    return rate < RATE_MIN || rate > RATE_MAX ? 0 : (uint64_t)rate;
}

uint64_t emx_clock_anchor(struct emx_clock *c, uint64_t ticks, uint64_t ns)
{
    bool calibrating = !c->span_ticks;

    if (c->has_ticks && !(calibrating && ns - c->anchor_ns < BASELINE_NS)) {
        c->ns_per_tick_q32 = clock_rate_since(c, ticks, ns);
        c->anchor_ticks = ticks;
        c->anchor_ns = ns;
        c->span_ticks = 0;
        if (c->ns_per_tick_q32)
            c->span_ticks = ((uint64_t)SPAN_NS << 32) / c->ns_per_tick_q32;
        if (c->span_ticks > SPAN_TICKS)
            c->span_ticks = SPAN_TICKS;
    }
    if (ns < c->last_ns)
        ns = c->last_ns;
    c->last_ns = ns;
    return ns;
}

uint64_t emx_clock_reread(struct emx_clock *c)
{
    uint64_t ticks = 0, ns = c->read ? c->read(c->read_arg) : emx_clock_kernel_ns();

    if (c->has_ticks && (c->span_ticks || ns - c->anchor_ns >= BASELINE_NS))
        clock_read_both(&ticks, &ns);
    return emx_clock_anchor(c, ticks, ns);
}
