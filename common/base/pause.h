/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pause: what a loop does that looks at memory until another thread has written there.
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

#endif
