/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much memory this process may pin.
 */
#ifndef EMX_MEM_MEMLOCK_H
#define EMX_MEM_MEMLOCK_H

#include <stdint.h>

/* Bytes that may still be pinned: RLIMIT_MEMLOCK less what is pinned already; UINT64_MAX: as many as there are. */
uint64_t emx_memlock_left(void);

#endif
