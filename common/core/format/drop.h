/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Drop: why a received frame was not accepted.
 */
#ifndef EMX_CORE_DROP_H
#define EMX_CORE_DROP_H

#include "base/stats.h"

/* Why a frame was dropped; EMX_ACCEPTED otherwise. Names as the drop_* counters. */
enum emx_drop {
    EMX_ACCEPTED = -1,
    EMX_DROP_SHORT = EMX_C_drop_short,
    EMX_DROP_VERSION = EMX_C_drop_version,
    EMX_DROP_NOT_MINE = EMX_C_drop_not_mine,
    EMX_DROP_COOKIE = EMX_C_drop_cookie,
    EMX_DROP_CHECK = EMX_C_drop_check,
    EMX_DROP_TYPE = EMX_C_drop_type,
    EMX_DROP_MALFORMED = EMX_C_drop_malformed,
    EMX_DROP_NO_SESSION = EMX_C_drop_no_session,
    EMX_DROP_DUPLICATE = EMX_C_drop_duplicate,
    EMX_DROP_WINDOW = EMX_C_drop_window,
    EMX_DROP_STALE = EMX_C_drop_stale,
    EMX_DROP_MEMORY = EMX_C_drop_memory,
    EMX_DROP_FORGED = EMX_C_drop_forged,
    EMX_DROP_REPLAYED = EMX_C_drop_replayed,
};

#endif
