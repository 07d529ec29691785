/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Clock: monotonic nanoseconds, cheap to read. Belongs to a struct emx_progress and is read under its lock. clock.c
 * describes the mechanism.
 */
#ifndef EMX_PROGRESS_CLOCK_H
#define EMX_PROGRESS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct emx_clock {
    uint64_t anchor_ticks, anchor_ns; /* one moment in both units */
    uint64_t span_ticks;              /* validity of the anchor; 0: none, ask the kernel */
    uint64_t ns_per_tick_q32;         /* fixed point, 32 bits of fraction */
    uint64_t last_ns;                 /* the latest time returned */
    bool has_ticks;                   /* the processor's counter is usable */
    bool is_cheap;                    /* as emx_clock_drive() says */
    uint64_t (*read)(void *arg);      /* replaces the kernel's clock, or NULL */
    void *read_arg;
};

void emx_clock_init(struct emx_clock *c);

/* Replaces emx_clock_init() in tests: a clock whose time comes from read(), in nanoseconds. cheap: what
 * emx_clock_is_cheap() answers. */
static inline void emx_clock_drive(struct emx_clock *c, uint64_t (*read)(void *arg), void *arg, bool cheap)
{
    *c = (struct emx_clock){.last_ns = read(arg), .is_cheap = cheap, .read = read, .read_arg = arg};
}

/* The kernel's clock, for callers without the lock. */
static inline uint64_t emx_clock_kernel_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The slow path of emx_clock_now(): sets a new anchor by the kernel's clock, or calls read(). */
uint64_t emx_clock_reread(struct emx_clock *c);

/* The pure part of it: at counter value ticks the kernel's clock was ns. Returns the time to report. */
uint64_t emx_clock_anchor(struct emx_clock *c, uint64_t ticks, uint64_t ns);

/* The processor's counter; 0 where there is none that we use. */
static inline uint64_t emx_clock_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/* The time at counter ticks, without the kernel. The counter must be within the anchor's span. */
static inline uint64_t emx_clock_convert(const struct emx_clock *c, uint64_t ticks)
{
    return c->anchor_ns + (((ticks - c->anchor_ticks) * c->ns_per_tick_q32) >> 32);
}

/* The current time. Never goes backwards. */
static inline uint64_t emx_clock_now(struct emx_clock *c)
{
    uint64_t ticks = emx_clock_ticks();
    uint64_t now;

    if (__builtin_expect(ticks - c->anchor_ticks >= c->span_ticks, 0))
        return emx_clock_reread(c);
    now = emx_clock_convert(c, ticks);
    if (now < c->last_ns)
        now = c->last_ns;
    c->last_ns = now;
    return now;
}

/* Whether reading takes only a few instructions. */
static inline bool emx_clock_is_cheap(const struct emx_clock *c)
{
    return c->span_ticks || c->is_cheap;
}

#endif
