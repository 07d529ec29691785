/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Removal of peers.
 */
#ifndef EMX_CORE_REMOVAL_H
#define EMX_CORE_REMOVAL_H

#include "core/engine.h"

void emx_removal_expire(struct emx_engine *e, emx_time now);
void emx_removal_fini(struct emx_engine *e);

#endif
