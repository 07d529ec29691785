/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Push: the first data of a large message leaves with its announcement.
 *
 * A message that is pulled waits for a round trip before any of its data leaves. The rts tells how many of the first
 * chunks follow it as data frames that nobody has requested. A receiver that has a receive for the message treats them
 * as a block that it has just requested, and requests the rest. Without a receive it drops them, and requests all of
 * the message later. Those that get lost are requested again like others.
 *
 * A program that has slept finds the end of its last message and the next announcement at once, and its next receive
 * comes after that. So pushed data without a receive first waits in the kernel for EARLY_LOOKS polls (emx_placer).
 *
 * Data that nobody has requested is not paced by its receiver (pace.h), so it is little, and is sent only over a path
 * that has proved good: one TSO packet, to a peer that has responded to the last one, as part of a congestion window
 * that has room for it, after frames that arrived without a loss. It is never all of a message: if the packet is lost,
 * or overtakes the rts and is dropped, the data that follows shows that at once (pull_gap.c). If a peer requests what
 * was pushed, no receive was there, or it was lost: then the next messages are not pushed.
 */
#include "core/msg/push.h"

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/msg/op.h"
#include "core/msg/rndv.h"
#include "core/rel/connect.h"
#include "core/rel/offload_probe.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"

#define SKIP_UNUSED 16 /* messages that are not pushed after one that found no receive, */
#define SKIP_LOST   64 /* or that was lost */
#define EARLY_LOOKS 32 /* polls: a round of progress may poll eight times */

/* Whether TSO packets with data of the message can be sent to the peer, and arrive. */
static bool push_suits_route(struct emx_session *s, const struct emx_op *op)
{
    return emx_connect_has_tso(s) && !s->rails && emx_offload_probe_trusts(&s->offload, EMX_GSO_OF_TSO) &&
           emx_data_contiguous(&op->data);
}

/* Whether the announcement leaves at once, and the path has room for so many chunks more. */
static bool push_suits_window(const struct emx_session *s, unsigned chunks)
{
    const struct emx_send_window *w = &s->tx;

    return w->send_next == &w->unacked && w->cc.clean_frames >= EMX_CC_CLEAN &&
           emx_send_window_takes(w, 1 + chunks, w->cc.flight_frames);
}

/* Whether the peer has not responded to the last message that was pushed. */
static bool push_is_waiting(const struct emx_session *s)
{
    const struct emx_op *last = emx_op_by_id(s->e, s->pushed_op, s);

    return last && !last->asked;
}

unsigned emx_push_chunks(struct emx_session *s, const struct emx_op *op)
{
    unsigned most = emx_min_u(EMX_WIRE_JOIN_BYTES / (unsigned)(EMX_RNDV_HEAD_BYTES + op->chunk_bytes), EMX_PUSH_MOST);

    if (op->is_am || emx_rndv_chunks(op->msg_bytes, op->chunk_bytes) <= most || !push_suits_route(s, op) ||
        !push_suits_window(s, most) || !emx_list_empty(&s->pulled.requests) || push_is_waiting(s))
        return 0;
    if (s->unpushed) {
        s->unpushed--;
        return 0;
    }
    return most;
}

void emx_push_begin(struct emx_session *s, const struct emx_op *op)
{
    s->pushed_op = op->id;
    emx_count(s->e, sent_pushed);
}

void emx_push_answered(struct emx_session *s, struct emx_op *op, const struct emx_f_pull *f)
{
    op->asked = true;
    if (op->id == s->pushed_op && !f->first)
        s->unpushed = f->round ? SKIP_LOST : SKIP_UNUSED;
}

/* ---- Receiver ---- */

/* Whether a receive is under way for which the peer has pushed data. */
static bool push_has_receive(const struct emx_session *s)
{
    return !s->early && emx_op_by_id(s->e, s->pushed_rx, s);
}

/* Whether what the peer has pushed last is of this operation, and has no receive. */
static bool push_is_unmatched(const struct emx_session *s, uint32_t sender_op)
{
    return s->early && s->pushed_rx == sender_op;
}

void emx_push_unmatched(struct emx_session *s, uint32_t sender_op)
{
    if (push_is_unmatched(s, sender_op))
        return;
    s->early = true;
    s->pushed_rx = sender_op;
    s->early_looks = EARLY_LOOKS;
}

bool emx_push_is_early(struct emx_session *s, const struct emx_f_data *f)
{
    if (!f->pushed || push_has_receive(s))
        return false;
    emx_push_unmatched(s, f->rop); /* the packet may have overtaken its announcement */
    if (!s->early_looks)
        return false;
    s->early_looks--;
    return true;
}

void emx_push_dropped(struct emx_session *s, const struct emx_f_data *f)
{
    if (push_has_receive(s))
        return;
    emx_push_unmatched(s, f->rop);
    s->early_looks = 0;
}

bool emx_push_is_coming(const struct emx_session *s, uint32_t sender_op)
{
    return push_is_unmatched(s, sender_op) && s->early_looks;
}

bool emx_push_is_gone(const struct emx_session *s, uint32_t sender_op)
{
    return push_is_unmatched(s, sender_op) && !s->early_looks;
}
