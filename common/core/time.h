/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Time as passed to the engine. The engine reads no clock.
 */
#ifndef EMX_CORE_TIME_H
#define EMX_CORE_TIME_H

#include <stdint.h>

typedef uint64_t emx_time; /* ns; any origin */

#define EMX_NEVER UINT64_MAX

#endif
