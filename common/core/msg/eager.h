/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Eager messages: sent with their data, for which the receiver has promised memory (credit.h). Functions named input
 * return EMX_ACCEPTED or the reason for dropping. EMX_DROP_MEMORY: the frame will be retransmitted.
 */
#ifndef EMX_CORE_EAGER_H
#define EMX_CORE_EAGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/engine.h"
#include "core/format/frame.h"
#include "core/time.h"

struct emx_op;
struct emx_session;
struct emx_unexpected;

/* The eager message that is incomplete. */
struct emx_eager_rx {
    struct emx_op *op;                 /* the receive it goes to, */
    struct emx_unexpected *unexpected; /* or the unexpected message */
    uint16_t head_bytes;               /* of a header before the data */
    bool discard;                      /* it goes nowhere */
    bool sync;                         /* matched, and the sender is to be told when all has arrived: */
    uint32_t sync_op;                  /* its operation */
    uint32_t got, total;               /* header and data */
};

/* Whether a message may begin, because the last one is complete. All code that accepts eager messages checks this,
 * emx_credit_covers(), and emx_eager_fits() or emx_eager_is_whole(). */
static inline bool emx_eager_rx_idle(const struct emx_eager_rx *r)
{
    return !r->op && !r->unexpected && !r->discard;
}

static inline void emx_eager_rx_stop(struct emx_eager_rx *r) /* the rest will not arrive */
{
    *r = (struct emx_eager_rx){0};
}

static inline void emx_eager_rx_forget(struct emx_eager_rx *r, const struct emx_unexpected *a) /* a is being freed */
{
    if (r->unexpected == a)
        r->unexpected = NULL;
}

static inline void emx_eager_rx_discard(struct emx_eager_rx *r,
                                        const struct emx_unexpected *a) /* the rest is not wanted */
{
    if (r->unexpected == a)
        r->discard = true;
}

struct emx_eager_source { /* source of an eager message */
    const struct ethmx_data *data;
    const uint8_t *am_header;
    uint32_t total_bytes; /* header and data */
    uint16_t am_header_bytes;
    uint16_t flags;
    uint32_t op;
    uint64_t bits;
};

bool emx_eager_compact(struct emx_session *s, const struct emx_eager_source *m, unsigned frames); /* false: no memory */
size_t emx_eager_room(const struct emx_session *s);       /* longest message in one frame */
size_t emx_eager_part_limit(const struct emx_session *s); /* length of the frames of a message of several */
bool emx_eager_take_slot(struct emx_session *s); /* whether the next ones, of EMX_JOINED_BYTES, are a GSO packet */
unsigned emx_eager_frames(const struct emx_session *s, uint64_t total_bytes);
/* Whether a message is sent eagerly to this peer, and whether that is possible now. */
bool emx_eager_suits(struct emx_session *s, const struct ethmx_data *data, size_t total_bytes);
bool emx_eager_now(struct emx_session *s, const struct emx_op_args *a);
void emx_eager_count(struct emx_session *s, uint64_t len_bytes, unsigned frames); /* a message sent in this many */
/* The frame that begins at offset: the length of its data, the length of its headers, and the headers. */
size_t emx_eager_part(const struct emx_session *s, uint64_t total_bytes, size_t offset);

static inline size_t emx_eager_head_bytes(size_t offset)
{
    return sizeof(struct emx_frame) + (offset ? sizeof(struct emx_f_more) : sizeof(struct emx_f_eager));
}

void emx_eager_head(struct emx_session *s, const struct emx_eager_source *m, size_t offset, size_t n,
                    struct emx_frame *h);
bool emx_eager_continue(struct emx_session *s, struct emx_op *op); /* true: all of it is in the window */
enum emx_drop emx_eager_input(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_eager_input_compact(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_eager_input_short(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now);
/* Handles a frame with n bytes of a message. The fields of f have been checked, by emx_eager_is_valid() or as that
 * does. */
bool emx_eager_is_valid(const struct emx_session *s, const struct emx_f_eager *f, size_t n);
enum emx_drop emx_eager_accept(struct emx_session *s, const struct emx_f_eager *f, const uint8_t *from, size_t n);
/* Handles n bytes at offset of the message that is incomplete. */
enum emx_drop emx_eager_accept_more(struct emx_session *s, uint32_t offset, const uint8_t *from, size_t n);
enum emx_drop emx_eager_input_more(struct emx_session *s, const uint8_t *data, emx_time now);
enum emx_drop emx_eager_input_matched(struct emx_session *s, const uint8_t *data, emx_time now);
/* A receive takes an unexpected eager message and frees it. NO_MEMORY: nothing was changed. */
int emx_eager_receive(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op);
int emx_eager_matched(struct emx_session *s, uint32_t sender_op); /* notifies a synchronous sender; 0 or NO_MEMORY */

#endif
