/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fast path of short messages; the functions that progress calls are in engine.h.
 */
#ifndef EMX_CORE_FAST_PATH_H
#define EMX_CORE_FAST_PATH_H

#include "core/engine.h"

struct emx_session;

void emx_fast_open(struct emx_session *s); /* the session is connected */

#endif
