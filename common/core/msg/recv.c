/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives: they take an arrived message, or are posted; probes; messages given back unread.
 */
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/msg/eager.h"
#include "core/msg/match.h"
#include "core/msg/multi.h"
#include "core/msg/op.h"
#include "core/msg/recv.h"
#include "core/msg/rndv.h"
#include "core/msg/self.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/session.h"

static int recv_take_unexpected(struct emx_engine *e, struct emx_unexpected *a, struct emx_op *op, emx_time now)
{
    if (emx_unexpected_lost(a)) {
        op->peer = a->match.peer;
        emx_unexpected_free(e, a);
        emx_op_complete(e, op, ETHMX_ERR_PEER_DEAD);
        return ETHMX_OK;
    }
    if (!a->session) {
        emx_self_receive(e, a, op);
        return ETHMX_OK;
    }
    return a->is_rts ? emx_rndv_receive(e, a, op, now) : emx_eager_receive(e, a, op);
}

/* A complete message needs no operation, unless it has remote data to hand over. */
static bool recv_deliver_whole(struct emx_engine *e, struct emx_unexpected *a, const struct ethmx_data *data,
                               struct ethmx_result *result_p)
{
    bool fits = a->total_bytes <= data->len_bytes;

    if (!a->whole || a->is_rts || a->local || a->has_remote)
        return false;
    if (a->sync && emx_eager_matched(a->session, a->sender_op))
        return false;
    a->sync = false;
    *result_p = (struct ethmx_result){.status = fits ? ETHMX_OK : ETHMX_ERR_TRUNCATED,
                                      .bits = a->match.bits,
                                      .peer = (struct ethmx_peer *)a->match.peer,
                                      .len_bytes = fits ? a->total_bytes : data->len_bytes,
                                      .msg_bytes = a->total_bytes};
    emx_data_write(data, 0, a->buf + a->am_header_bytes, a->total_bytes);
    emx_count(e, msgs_received);
    emx_add(e, bytes_received, result_p->len_bytes);
    emx_unexpected_free(e, a);
    return true;
}

/* a is out of matching, and is freed unless this fails. */
static int recv_taken(struct emx_engine *e, struct emx_unexpected *a, const struct emx_op_args *args,
                      struct ethmx_result *result_p, emx_time now)
{
    struct emx_op *op;
    int rc;

    if (recv_deliver_whole(e, a, &args->data, result_p))
        return ETHMX_OK;
    op = emx_op_new(e, args, now);
    if (!op)
        return ETHMX_ERR_NO_MEMORY;
    op->where = EMX_OP_FILLING;
    op->bits = a->match.bits;
    rc = recv_take_unexpected(e, a, op, now);
    if (rc) {
        emx_op_recycle(e, op);
        return rc;
    }
    return ETHMX_INPROGRESS;
}

bool emx_engine_posts_timeless(const struct emx_engine *e)
{
    return !e->stats->unexpected_now && emx_timer_is_set(&e->tick);
}

static inline __attribute__((always_inline)) int recv_in(struct emx_engine *e, enum emx_space space,
                                                         struct emx_peer *peer, const struct emx_op_args *args,
                                                         struct emx_op **op_p, struct ethmx_result *result_p,
                                                         emx_time now)
{
    struct emx_unexpected_match *m = emx_match_find(&e->match[space], args->bits, args->mask, peer);
    struct emx_op *op;
    int rc;

    if (m) {
        struct emx_unexpected *a = emx_container(m, struct emx_unexpected, match);
        /* The message leaves matching only when the receive cannot fail any more. Otherwise the order would be lost. */
        if (result_p && recv_deliver_whole(e, a, &args->data, result_p))
            return ETHMX_OK;
        if (!(op = emx_op_new(e, args, now)))
            return ETHMX_ERR_NO_MEMORY;
        op->where = EMX_OP_FILLING;
        op->bits = a->match.bits;
        if (op_p)
            *op_p = op;
        if ((rc = recv_take_unexpected(e, a, op, now))) {
            emx_op_recycle(e, op);
            return rc;
        }
        return ETHMX_INPROGRESS;
    }
    if (e->closing)
        return ETHMX_ERR_CLOSED;
    if (peer && peer->session && peer->session->end_status)
        return peer->session->end_status;
    if (!(op = emx_op_new(e, args, now)))
        return ETHMX_ERR_NO_MEMORY;
    op->where = EMX_OP_POSTED;
    op->space = space;
    op->match.bits = args->bits;
    op->match.mask = args->mask;
    op->match.peer = peer;
    if (peer) {
        emx_op_depend(e, op, peer);
        peer->posted++;
    } else {
        e->posted_any++;
    }
    e->stats->posted_now++;
    emx_match_post(&e->match[space], &op->match);
    if (op_p)
        *op_p = op;
    return ETHMX_INPROGRESS;
}

static __attribute__((noinline)) int recv_untagged(struct emx_engine *e, struct emx_peer *peer,
                                                   const struct emx_op_args *args, struct emx_op **op_p,
                                                   struct ethmx_result *result_p, emx_time now)
{
    return recv_in(e, EMX_UNTAGGED, peer, args, op_p, result_p, now);
}

/* Two functions, so that tagged messages do not cost the choice of a table. */
int emx_engine_recv(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *args, struct emx_op **op_p,
                    struct ethmx_result *result_p, emx_time now)
{
    if (args->kind)
        return recv_untagged(e, peer, args, op_p, result_p, now);
    return recv_in(e, EMX_TAGGED, peer, args, op_p, result_p, now);
}

/* Why nothing can be posted; 0: it can. */
static int recv_refusal(const struct emx_engine *e, const struct emx_peer *peer)
{
    if (e->closing)
        return ETHMX_ERR_CLOSED;
    return peer && peer->session ? peer->session->end_status : ETHMX_OK;
}

/* Takes the messages that have arrived, until there is none or the buffer is full. */
static int recv_collect(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *args,
                        struct emx_op *whole, emx_time now)
{
    const struct emx_match *match = &e->match[whole->space];
    struct emx_unexpected_match *m;

    while (!emx_multi_is_full(whole) && (m = emx_match_find(match, args->bits, args->mask, peer))) {
        struct emx_unexpected *a = emx_container(m, struct emx_unexpected, match);
        struct emx_op *part = emx_multi_part(e, whole, a->total_bytes, now);

        if (!part)
            return ETHMX_ERR_NO_MEMORY;
        part->bits = a->match.bits;
        if (recv_take_unexpected(e, a, part, now)) {
            emx_multi_unpart(e, part);
            return ETHMX_ERR_NO_MEMORY;
        }
    }
    return ETHMX_OK;
}

int emx_engine_recv_multi(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *args,
                          const struct emx_multi_args *m, struct emx_op **op_p, emx_time now)
{
    struct emx_op *whole = emx_multi_new(e, peer, args, m, now);
    int rc;

    if (!whole)
        return ETHMX_ERR_NO_MEMORY;
    rc = recv_collect(e, peer, args, whole, now);
    if (!rc && !emx_multi_is_full(whole)) {
        rc = recv_refusal(e, peer);
        if (!rc)
            emx_multi_post(e, whole);
    }
    if (rc && !whole->multi->parts) {
        emx_multi_free(e, whole);
        return rc;
    }
    *op_p = whole;
    return ETHMX_INPROGRESS;
}

int emx_engine_mrecv(struct emx_engine *e, struct emx_unexpected *msg, const struct emx_op_args *a,
                     struct ethmx_result *result_p, emx_time now)
{
    return recv_taken(e, msg, a, result_p, now);
}

int emx_engine_cancel(struct emx_engine *e, struct emx_op *op)
{
    if (op->where == EMX_OP_COLLECTING) {
        emx_multi_end(e, op, ETHMX_ERR_CANCELED);
        return ETHMX_OK;
    }
    if (op->where != EMX_OP_POSTED)
        return ETHMX_ERR_NO_MATCH;
    emx_match_unpost(&e->match[op->space], &op->match);
    emx_op_complete(e, op, ETHMX_ERR_CANCELED);
    return ETHMX_OK;
}

int emx_engine_probe(struct emx_engine *e, struct emx_peer *peer, const struct emx_op_args *args,
                     struct emx_unexpected **msg_p, struct ethmx_result *result_p, struct ethmx_remote *remote_p)
{
    const struct emx_match *match = &e->match[emx_op_args_space(args)];
    struct emx_unexpected_match *m = emx_match_find(match, args->bits, args->mask, peer);
    struct emx_unexpected *a;

    if (!m)
        return peer && peer->session && peer->session->end_status ? peer->session->end_status : ETHMX_ERR_NO_MATCH;
    a = emx_container(m, struct emx_unexpected, match);
    *result_p = (struct ethmx_result){.bits = m->bits,
                                      .peer = (struct ethmx_peer *)m->peer,
                                      .len_bytes = a->total_bytes,
                                      .msg_bytes = a->total_bytes};
    if (remote_p)
        *remote_p = emx_unexpected_remote(a);
    if (msg_p) {
        emx_unexpected_take(e, a);
        emx_list_append(&e->taken, &a->am_link);
        *msg_p = a;
    }
    return ETHMX_OK;
}

/* Notifies the sender that the message is not needed. NO_MEMORY: not notified. */
static int recv_tell_sender(struct emx_engine *e, struct emx_unexpected *a)
{
    if (a->local) {
        emx_op_complete(e, a->local, ETHMX_OK);
        a->local = NULL;
        return ETHMX_OK;
    }
    if (!a->session || emx_session_over(a->session))
        return ETHMX_OK;
    if (a->is_rts)
        return emx_rndv_refuse(a->session, a->sender_op);
    return a->sync ? emx_eager_matched(a->session, a->sender_op) : ETHMX_OK;
}

int emx_recv_release(struct emx_engine *e, struct emx_unexpected *a)
{
    if (recv_tell_sender(e, a))
        return ETHMX_ERR_NO_MEMORY;
    if (a->session)
        emx_eager_rx_discard(&a->session->eager, a);
    emx_unexpected_free(e, a);
    return ETHMX_OK;
}

void emx_engine_release(struct emx_engine *e, struct emx_unexpected *msg, emx_time now)
{
    emx_unexpected_take(e, msg);
    if (emx_list_linked(&msg->am_link))
        emx_list_del(&msg->am_link);
    if (emx_recv_release(e, msg)) {
        emx_list_append(&e->unreleased, &msg->am_link);
        emx_engine_tick_arm(e, now);
    }
}

unsigned emx_engine_flush_unexpected(struct emx_engine *e, uint64_t bits, uint64_t mask, emx_time now)
{
    struct emx_unexpected_match *m;
    unsigned n = 0;

    while ((m = emx_match_find(&e->match[EMX_TAGGED], bits, mask, NULL))) {
        emx_engine_release(e, emx_container(m, struct emx_unexpected, match), now);
        n++;
    }
    return n;
}
