/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pause: what a loop does that looks at memory until another thread has written there.
 *
 * emx_pause() gives the core to its other thread for a moment: 10 to 50 ns on x86-64, depending on the processor.
 * emx_pause_loads() takes a few nanoseconds: it waits until what was loaded before is there. A loop without it has
 * dozens of looks under way at once, which are all thrown away when the first sees the change, and which take the
 * memory's line away from the writer, and units of the core from its other thread.
 */
#ifndef EMX_BASE_PAUSE_H
#define EMX_BASE_PAUSE_H

static inline void emx_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static inline void emx_pause_loads(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

#endif
