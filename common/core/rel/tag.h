/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tags of frames (ETHMX_AUTH=on). tag.c has the keys and the layout.
 */
#ifndef EMX_CORE_TAG_H
#define EMX_CORE_TAG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/rel/replay.h"
#include "base/txframe.h"

struct emx_session;

#define EMX_SEAL_TAG (EMX_CHECKSUM_FULL + 1)

struct emx_tag_keys {
    uint8_t first[16], rest[16];
};

/* State of tags, with ETHMX_AUTH=on: see tag.c. */
struct emx_tags {
    uint8_t whose; /* enum emx_tag_key: the secret that out is derived from */
    struct emx_tag_keys out;
    uint64_t sent; /* number of the last frame */
    struct emx_tag_keys in[EMX_TAG_KEYS];
    bool have[EMX_TAG_KEYS]; /* of in */
    struct emx_replay seen;
};

bool emx_tag_open(struct emx_session *s); /* false: no memory */
void emx_tag_put(struct emx_session *s, struct emx_frame *h, struct emx_txframe *f);
/* Checks a frame from a link with tags. EMX_ACCEPTED: a frame of t->frame_bytes follows the tag, and must be checked
 * like any other. */
enum emx_drop emx_tag_check(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes);
void emx_tag_greeted(struct emx_engine *e,
                     const uint8_t *data); /* a hello that was accepted, perhaps the first frame */

/* How frames over a link are sealed, and the length that this takes. */
static inline unsigned emx_tag_level(const struct emx_engine *e, unsigned link, unsigned checksum)
{
    return e->tagged_links >> link & 1 ? EMX_SEAL_TAG : checksum;
}

static inline unsigned emx_tag_bytes(const struct emx_engine *e, unsigned link)
{
    return e->tagged_links >> link & 1 ? sizeof(struct emx_tag) : 0;
}

#endif
