/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pause: for loops that poll memory until another thread writes to it.
 *
 * emx_pause() gives the core to its other hardware thread for a moment. emx_pause_loads() is shorter: it waits until
 * earlier loads have completed. Without it, such a loop has dozens of loads in flight. They compete with the writer for
 * the cache line and with the other hardware thread for execution units, and all are discarded when the first one sees
 * the change.
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
