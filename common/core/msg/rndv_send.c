/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rendezvous, the sender: announces a message, and replies to pulls from the program's memory. pull.c explains the
 * protocol.
 */
#include <string.h>

#include "base/min.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/frame.h"
#include "core/msg/data.h"
#include "core/msg/exported.h"
#include "core/msg/op.h"
#include "core/msg/push.h"
#include "core/msg/read.h"
#include "core/msg/rndv.h"
#include "core/rel/connect.h"
#include "core/rel/path_mtu.h"
#include "core/rel/fragment.h"
#include "core/rel/offload_probe.h"
#include "core/rel/rail.h"
#include "core/rel/seal.h"
#include "core/rel/send_window.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define PROBE_ROUND 4 /* rounds after which the path MTU may have changed */

uint16_t emx_rndv_chunk_bytes(const struct emx_session *s)
{
    unsigned frame_bytes = emx_rails_frame_bytes(s, s->gso_bytes ? s->gso_bytes : s->frame_bytes);

    return (uint16_t)((frame_bytes - EMX_RNDV_HEAD_BYTES) & ~(size_t)7);
}

enum emx_drop emx_rndv_input_fin(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_fin *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->op, s);

    (void)now;
    if (op && op->is_send && op->where == EMX_OP_ANNOUNCED) {
        emx_rndv_forget_pull_requests(s, op);
        if (op->reading)
            emx_op_hold(s->e, op, ETHMX_OK);
        else
            emx_op_complete(s->e, op, ETHMX_OK);
    }
    return EMX_ACCEPTED;
}

/* The requests that are answered over this rail; NULL: there are no more rails. */
static struct emx_list *rndv_send_requests(struct emx_session *s, unsigned rail)
{
    if (rail == emx_rails_first(s))
        return &s->pulled.requests;
    return rail < emx_rails_count(s) ? &s->rails->rail[rail].requests : NULL;
}

/* The last queued request for the same block; NULL: none. */
static struct emx_pull_request *rndv_send_find_request(struct emx_session *s, const struct emx_op *op,
                                                       const struct emx_f_pull *f)
{
    struct emx_pull_request *found = NULL;
    struct emx_list *requests;

    for (unsigned rail = 0; (requests = rndv_send_requests(s, rail)); rail++)
        emx_list_each(l, requests)
        {
            struct emx_pull_request *j = emx_list_entry(l, struct emx_pull_request, link);

            if (j->op == op && j->first == f->first && j->chunk_bytes == f->chunk_bytes)
                found = j;
        }
    return found;
}

/* Whether a repeated pull extends this queued request. If not, it is queued behind it: the first request for a block
 * keeps its place and its packets, unless it is to leave its rail. The puller did not know that it was still queued. */
static bool rndv_send_is_extended(const struct emx_pull_request *j, unsigned to_rail)
{
    return j->round || j->rail != to_rail;
}

static void rndv_send_drop_request(struct emx_session *s, struct emx_pull_request *j)
{
    emx_list_del(&j->link);
    s->pulled.request_count--;
    emx_pool_put(&s->e->pull_requests, j);
}

void emx_rndv_forget_pull_requests(struct emx_session *s, const struct emx_op *op)
{
    struct emx_list *requests;

    for (unsigned rail = 0; (requests = rndv_send_requests(s, rail)); rail++)
        emx_list_each_safe(l, next, requests)
        {
            struct emx_pull_request *j = emx_list_entry(l, struct emx_pull_request, link);

            if (!op || j->op == op)
                rndv_send_drop_request(s, j);
        }
}

void emx_rndv_send_by_others(struct emx_session *s, unsigned rail)
{
    struct emx_list *requests = rndv_send_requests(s, rail), *l;

    if (rail == emx_rails_first(s) || !requests)
        return;
    while ((l = emx_list_pop(requests))) {
        emx_list_entry(l, struct emx_pull_request, link)->rail = (uint8_t)emx_rails_first(s);
        emx_list_append(&s->pulled.requests, l);
    }
    emx_session_ready(s);
}

/* Over which route a data frame is sent. */
struct rndv_send_route {
    const struct emx_wire_addr *to;
    uint32_t *last_rop; /* of the last data frame over it */
    uint16_t gso_bytes;
    bool tso;
    uint8_t seal;
};

static struct rndv_send_route rndv_send_route_of(struct emx_session *s, unsigned rail)
{
    struct emx_rail *k;

    if (rail == emx_rails_first(s))
        return (struct rndv_send_route){.to = &s->to,
                                        .last_rop = &s->pulled.last_rop,
                                        .gso_bytes = s->gso_bytes,
                                        .tso = emx_connect_route(s)->tso,
                                        .seal = s->seal};
    k = &s->rails->rail[rail];
    return (struct rndv_send_route){
        .to = &k->to, .last_rop = &k->last_rop, .gso_bytes = k->gso_bytes, .tso = k->tso, .seal = k->seal};
}

/* Whether data of the request may go in TSO packets. */
static bool rndv_send_suits_tso(const struct emx_session *s, const struct emx_pull_request *j,
                                const struct rndv_send_route *route)
{
    return route->tso && !s->fragment.out && EMX_RNDV_HEAD_BYTES + j->chunk_bytes <= route->gso_bytes &&
           (route->seal == EMX_CHECKSUM_OFF || route->seal == EMX_CHECKSUM_HEADER) && emx_data_contiguous(&j->op->data);
}

/* Decides whether a block requested for the first time is sent in GSO packets, and in which. All blocks of a message go
 * the same way, to keep their order. A message of one frame has nothing to be joined with. */
static void rndv_send_take_gso(struct emx_session *s, struct emx_pull_request *j, unsigned rail)
{
    const struct rndv_send_route route = rndv_send_route_of(s, rail);
    unsigned chunks = (unsigned)__builtin_popcountll(j->wanted);
    bool joins = (uint64_t)chunks * j->chunk_bytes >= EMX_JOINED_BYTES;

    if (j->round || !route.gso_bytes || (chunks == 1 && !j->first))
        return;
    j->tso = rndv_send_suits_tso(s, j, &route) && emx_offload_probe_take(&s->offload, EMX_GSO_OF_TSO, joins);
    j->gso = j->tso || emx_offload_probe_take(&s->offload, EMX_GSO_OF_UDP, joins);
}

/* The rail to reply over: that which is asked for, or, if it is unknown, carries no such frames, or was left because it
 * does not reach the peer, the session's. */
static unsigned rndv_send_rail(const struct emx_session *s, const struct emx_f_pull *f)
{
    if (f->rail == emx_rails_first(s) || f->rail >= emx_rails_count(s) || s->rails->rail[f->rail].left ||
        EMX_RNDV_HEAD_BYTES + f->chunk_bytes > s->rails->rail[f->rail].frame_bytes)
        return emx_rails_first(s);
    return f->rail;
}

static void rndv_send_ready(struct emx_session *s, unsigned rail)
{
    if (rail == emx_rails_first(s))
        emx_session_ready(s);
    else
        emx_rail_ready(&s->rails->rail[rail]);
}

/* The chunks of the k-th block of a pull. */
static uint64_t rndv_send_first(const struct emx_f_pull *f, unsigned k)
{
    return f->first + (uint64_t)k * (emx_rndv_highest_bit(f->wanted) + 1);
}

static bool rndv_send_is_pull(const struct emx_f_pull *f, const struct emx_op *op)
{
    uint64_t chunks;

    if (f->chunk_bytes < 8 || f->chunk_bytes > op->chunk_bytes)
        return false;
    chunks = emx_rndv_chunks(op->msg_bytes, f->chunk_bytes);
    if (!f->wanted || f->first >= chunks || emx_rndv_highest_bit(f->wanted) >= chunks - f->first)
        return false;
    return !f->more || (!f->round && !(f->wanted & (f->wanted + 1)) && rndv_send_first(f, f->more) < chunks);
}

/* Queues a block. false: no memory. */
static bool rndv_send_add_request(struct emx_session *s, struct emx_op *op, const struct emx_f_pull *f, unsigned rail,
                                  unsigned k)
{
    uint64_t first = rndv_send_first(f, k), left = emx_rndv_chunks(op->msg_bytes, f->chunk_bytes) - first;
    struct emx_pull_request *j;

    if (s->pulled.request_count >= EMX_PULL_REQUESTS_MAX || !(j = emx_pool_get(&s->e->pull_requests)))
        return false;
    *j = (struct emx_pull_request){.op = op,
                                   .first = first,
                                   .wanted = left < 64 ? f->wanted & ((UINT64_C(1) << left) - 1) : f->wanted,
                                   .rop = f->rop,
                                   .round = f->round,
                                   .rail = (uint8_t)rail,
                                   .chunk_bytes = f->chunk_bytes};
    rndv_send_take_gso(s, j, rail);
    emx_list_append(rndv_send_requests(s, rail), &j->link);
    s->pulled.request_count++;
    return true;
}

/* Queues the message's first chunks, which follow the announcement. Returns how many. */
static unsigned rndv_send_push(struct emx_session *s, struct emx_op *op)
{
    unsigned chunks = emx_push_chunks(s, op);
    const struct emx_f_pull f = {.rop = op->id, .chunk_bytes = op->chunk_bytes, .wanted = emx_rndv_map(chunks)};

    if (!chunks || !rndv_send_add_request(s, op, &f, emx_rails_first(s), 0))
        return 0;
    /* there was no other request */
    emx_list_entry(emx_list_first(&s->pulled.requests), struct emx_pull_request, link)->pushed = true;
    emx_push_begin(s, op);
    return chunks;
}

bool emx_rndv_announce(struct emx_session *s, struct emx_op *op, bool starved)
{
    struct emx_engine *e = s->e;
    uint64_t address = emx_read_address(s, op);
    bool lends = op->exported || emx_exported_start(s, op);
    const struct emx_f_lent lent = {.remote = (uintptr_t)op->data.base};
    size_t end_bytes = lends ? sizeof(lent) : address ? sizeof(address) : 0;
    size_t body = sizeof(struct emx_f_rts) + op->am_header_bytes + end_bytes;
    struct emx_txbuf *b;
    struct emx_frame *h;
    struct emx_f_rts *t;
    unsigned pushed;

    if (sizeof(*h) + body > s->frame_bytes && !s->fragment.out && !emx_fragment_narrow(s, s->frame_bytes))
        return false;
    if (!emx_op_take_id(e, op) || !(b = emx_txbuf_get(&e->txbufs, sizeof(*h) + body)))
        return false;
    emx_rails_open(s);
    op->chunk_bytes = emx_rndv_chunk_bytes(s);
    pushed = end_bytes || starved ? 0 : rndv_send_push(s, op);
    h = emx_txbuf_frame(b);
    emx_engine_head(e, s->peer, h, EMX_F_rts, body);
    t = (struct emx_f_rts *)(h + 1);
    *t = (struct emx_f_rts){.bits = op->bits,
                            .total_bytes = op->msg_bytes,
                            .op = op->id,
                            .am_header_bytes = op->am_header_bytes,
                            .flags = emx_op_flags(op) | (starved ? EMX_FF_STARVED : 0) |
                                     (lends     ? EMX_FF_LENT
                                      : address ? EMX_FF_READ
                                                : 0),
                            .chunk_bytes = op->chunk_bytes,
                            .pushed = (uint16_t)pushed};
    if (op->am_header_bytes)
        memcpy(t + 1, op->am_header, op->am_header_bytes);
    if (end_bytes)
        memcpy((uint8_t *)(t + 1) + op->am_header_bytes, lends ? (const void *)&lent : &address, end_bytes);
    op->where = EMX_OP_ANNOUNCED;
    emx_op_await(op);
    if (lends)
        emx_exported_announced(op, b);
    emx_send_window_push(s, b);
    return true;
}

enum emx_drop emx_rndv_input_pull(struct emx_session *s, const uint8_t *data, emx_time now)
{
    const struct emx_f_pull *f = (const void *)(data + sizeof(struct emx_frame));
    struct emx_op *op = emx_op_by_id(s->e, f->op, s);
    struct emx_pull_request *j;
    unsigned rail, k = 0;

    if (!op || !op->is_send || op->where != EMX_OP_ANNOUNCED)
        return EMX_DROP_STALE;
    if (!rndv_send_is_pull(f, op))
        return EMX_DROP_MALFORMED;
    emx_offload_probe_told(&s->offload, f->joined);
    emx_push_answered(s, op, f);
    rail = rndv_send_rail(s, f);
    if (f->round >= PROBE_ROUND && rail == emx_rails_first(s))
        emx_path_mtu_probe(s, EMX_RNDV_HEAD_BYTES + f->chunk_bytes, now);
    j = f->round ? rndv_send_find_request(s, op, f) : NULL;
    if (j && rndv_send_is_extended(j, rail)) {
        j->wanted |= f->wanted;
        j->round = f->round;
        j->rail = (uint8_t)rail;
        emx_list_del(&j->link); /* replies keep the order of requests: the puller relies on it */
        emx_list_append(rndv_send_requests(s, rail), &j->link);
        j->gso = j->tso = false;
        rndv_send_ready(s, rail);
        return EMX_ACCEPTED;
    }
    if (f->round == 1 && !j) /* its first reply has left, and did not arrive */
        emx_offload_probe_lost(&s->offload,
                               emx_connect_route(s)->tso && emx_offload_probe_trusts(&s->offload, EMX_GSO_OF_TSO)
                                   ? EMX_GSO_OF_TSO
                                   : EMX_GSO_OF_UDP);
    while (k <= f->more && rndv_send_add_request(s, op, f, rail, k))
        k++;
    if (k)
        rndv_send_ready(s, rail);
    return k ? EMX_ACCEPTED : EMX_DROP_MEMORY;
}

/* The n bytes at offset of the message, gathered if necessary. */
static const void *rndv_send_body(struct emx_engine *e, const struct emx_op *op, uint64_t offset, size_t n, unsigned i)
{
    const void *piece = emx_data_piece(&op->data, offset, n);
    uint8_t *gathered;

    if (piece || !(gathered = emx_engine_stage(e, i)))
        return piece;
    emx_data_read(&op->data, offset, gathered, n);
    return gathered;
}

static bool rndv_send_is_too_long(const struct emx_session *s, const struct emx_pull_request *j)
{
    return EMX_RNDV_HEAD_BYTES + j->chunk_bytes > s->frame_bytes;
}

/* Replies with a shorter length instead of data. */
static void rndv_send_ask_for_shorter(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch,
                                      const struct emx_pull_request *j)
{
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_shorter *t = (void *)(h + 1);

    *t = (struct emx_f_shorter){.rop = j->rop, .chunk_bytes = emx_rndv_chunk_bytes(s)};
    emx_engine_head(s->e, s->peer, h, EMX_F_shorter, sizeof(*t));
    emx_engine_stamp(s, h);
    *f = (struct emx_txframe){.to = &s->to, .head_bytes = sizeof(*h) + sizeof(*t)};
    emx_engine_seal(s, h, f, s->seal);
}

/* How many wanted chunks from the first on go in one frame; 0: a frame has one, and is no TSO packet. */
static unsigned rndv_send_chunks(const struct emx_session *s, const struct emx_pull_request *j,
                                 const struct rndv_send_route *route)
{
    uint64_t wanted = j->wanted >> __builtin_ctzll(j->wanted);
    unsigned frame_bytes = EMX_RNDV_HEAD_BYTES + j->chunk_bytes, n = ~wanted ? (unsigned)__builtin_ctzll(~wanted) : 64;

    if (!j->tso || !rndv_send_suits_tso(s, j, route)) /* the route may have changed */
        return 0;
    return emx_min_u(emx_min_u(n, EMX_WIRE_JOIN_BYTES / frame_bytes), s->e->output_room);
}

/* The first n wanted chunks, which follow each other, have been sent. */
static void rndv_send_done(struct emx_session *s, struct emx_pull_request *j, unsigned n)
{
    j->wanted &= ~(emx_rndv_map(n) << __builtin_ctzll(j->wanted));
    if (!j->wanted)
        rndv_send_drop_request(s, j);
}

/* Makes the next data frame for a request. false: no memory. */
static inline bool rndv_send_make_data(struct emx_session *s, struct emx_pull_request *j,
                                       const struct rndv_send_route *route, struct emx_txframe *f,
                                       struct emx_scratch *scratch, unsigned i)
{
    struct emx_frame *h = (void *)scratch->b;
    struct emx_f_data *t = (void *)(h + 1);
    uint64_t chunk, offset;
    unsigned chunks = rndv_send_chunks(s, j, route);
    size_t n;

    chunk = j->first + (unsigned)__builtin_ctzll(j->wanted);
    offset = chunk * j->chunk_bytes;
    n = emx_min(j->op->msg_bytes - offset, (uint64_t)j->chunk_bytes * (chunks ? chunks : 1));
    *f = (struct emx_txframe){.to = route->to,
                              .head_bytes = EMX_RNDV_HEAD_BYTES,
                              .body = rndv_send_body(s->e, j->op, offset, n, i),
                              .body_bytes = (uint16_t)n,
                              .chunk_bytes = chunks ? j->chunk_bytes : 0,
                              .gso = j->gso,
                              .apart = j->rop != *route->last_rop};
    if (!f->body) {
        emx_rndv_forget_pull_requests(s, NULL); /* the puller requests again */
        return false;
    }
    *route->last_rop = j->rop;
    *t = (struct emx_f_data){.rop = j->rop,
                             .round = j->round,
                             .rail = j->rail & 0xf,
                             .pushed = j->pushed,
                             .chunk_bytes = j->chunk_bytes,
                             .chunk = chunk};
    emx_engine_head(s->e, s->peer, h, EMX_F_data, sizeof(*t) + n);
    emx_engine_stamp(s, h);
    rndv_send_done(s, j, emx_txframe_chunks(f));
    emx_engine_seal(s, h, f, route->seal);
    return true;
}

bool emx_rndv_output_data(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i)
{
    const struct rndv_send_route route = rndv_send_route_of(s, emx_rails_first(s));
    struct emx_list *l = emx_list_first(&s->pulled.requests);
    struct emx_pull_request *j;

    if (!l)
        return false;
    j = emx_list_entry(l, struct emx_pull_request, link);
    if (rndv_send_is_too_long(s, j)) {
        const bool pushed = j->pushed; /* the receiver will ask for it, and then is told */

        if (!pushed)
            rndv_send_ask_for_shorter(s, f, scratch, j);
        rndv_send_drop_request(s, j);
        return pushed ? emx_rndv_output_data(s, f, scratch, i) : true;
    }
    return rndv_send_make_data(s, j, &route, f, scratch, i);
}

bool emx_rndv_output_rail(struct emx_rail *k, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i)
{
    const struct rndv_send_route route = rndv_send_route_of(k->rails->s, (unsigned)(k - k->rails->rail));
    struct emx_list *l = emx_list_first(&k->requests);

    return l &&
           rndv_send_make_data(k->rails->s, emx_list_entry(l, struct emx_pull_request, link), &route, f, scratch, i);
}
