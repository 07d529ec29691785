/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Replay: which of a sender's numbers have been seen, so that no frame is taken twice. Frames overtake each other, so
 * the numbers come in any order; those too far behind the highest count as seen. A ring of bits, as in RFC 6479.
 */
#ifndef EMX_CORE_REPLAY_H
#define EMX_CORE_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_REPLAY_WORDS  128
/* One word is not to be relied upon: the highest number may be the first in it. */
#define EMX_REPLAY_WINDOW ((EMX_REPLAY_WORDS - 1) * 64)

struct emx_replay {
    uint64_t last; /* highest number seen; 0: none, for numbers begin at 1 */
    uint64_t seen[EMX_REPLAY_WORDS];
};

/* Takes the number; false: it was taken before, or is too old to tell. */
bool emx_replay_take(struct emx_replay *r, uint64_t number);

#endif
