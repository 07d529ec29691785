/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memlock: the limit of pinned memory.
 */
#ifndef EMX_MEM_MEMLOCK_H
#define EMX_MEM_MEMLOCK_H

#include <stdint.h>

/* Bytes that this process may still pin: RLIMIT_MEMLOCK less what is pinned. UINT64_MAX: no limit. */
uint64_t emx_memlock_left(void);

#endif
