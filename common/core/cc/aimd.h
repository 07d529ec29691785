/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control by additive increase and multiplicative decrease. aimd.c explains the rule.
 */
#ifndef EMX_CORE_AIMD_H
#define EMX_CORE_AIMD_H

#include "core/cc/cc.h"

#define EMX_AIMD_FLOOR   4      /* frames after a gap or a mark; 1 after a time-out */
#define EMX_AIMD_LONG_NS 500000 /* a longer round trip in a cluster means a queue */

extern const struct emx_cc_ops emx_cc_aimd;

#endif
