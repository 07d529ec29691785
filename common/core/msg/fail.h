/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Operations of a peer that fails.
 */
#ifndef EMX_CORE_FAIL_H
#define EMX_CORE_FAIL_H

#include "core/engine.h"

void emx_peer_fail(struct emx_engine *e, struct emx_peer *p, int status); /* completes all its operations */

#endif
