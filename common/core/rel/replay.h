/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Replay: records which of a sender's numbers were seen, so that no frame is accepted twice. Frames may be reordered,
 * so numbers arrive in any order. Those too far behind the highest count as seen. A ring of bits, as in RFC 6479.
 */
#ifndef EMX_CORE_REPLAY_H
#define EMX_CORE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_REPLAY_WORDS  128
/* One word less, because the highest number may be the first in its word. */
#define EMX_REPLAY_WINDOW ((EMX_REPLAY_WORDS - 1) * 64)

struct emx_replay {
    uint64_t last; /* highest number seen; 0: none, because numbers begin at 1 */
    uint64_t seen[EMX_REPLAY_WORDS];
};

/* Records the number. false: it was seen before, or is too old to know. */
bool emx_replay_take(struct emx_replay *r, uint64_t number);

#endif
