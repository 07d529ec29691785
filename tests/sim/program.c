/* SPDX-License-Identifier: BSD-3-Clause */
#include "program.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(void *p)
{
    if (!p)
        abort();
    return p;
}

/* ---- Life ---- */

static void heard_am(void *arg, struct sim_node *n, struct emx_unexpected *msg, const struct ethmx_am *am, unsigned id);

static const struct sim_program_ops program_ops = {.am = heard_am};

/* Where a node's program keeps what it sends now, there it can be read; anything else may lie elsewhere by now. */
static int read_memory(void *arg, struct sim_node *n, struct sim_node *from, const struct emx_wire_read *r)
{
    const struct sim_program *p = arg;

    (void)n;
    if (!r->len_bytes) /* the engine had no memory for it */
        return ETHMX_OK;
    for (size_t i = p->message_count; i--;) {
        const struct sim_message *m = p->message[i];
        uint64_t begin = m->data ? (uintptr_t)m->data->mem : 0;

        if (!m->data || m->src != from->party || r->remote < begin ||
            r->remote + r->len_bytes > begin + m->data->mem_bytes)
            continue;
        memcpy(r->local, (const void *)(uintptr_t)r->remote, r->len_bytes);
        return ETHMX_OK;
    }
    memset(r->local, 0xdb, r->len_bytes);
    return ETHMX_OK;
}

void sim_program_init(struct sim_program *p, struct sim_world *w, uint64_t seed)
{
    memset(p, 0, sizeof(*p));
    p->world = w;
    p->rng.state = emx_mix64(seed ^ 0x9209);
    p->content = p->in_order = p->keeps = true;
    sim_junkyard_init(&p->junk);
    w->read = read_memory;
    w->read_arg = p;
    for (unsigned i = 0; i < w->node_count; i++) {
        w->nodes[i].program = &program_ops;
        w->nodes[i].program_arg = p;
    }
}

void sim_program_fini(struct sim_program *p)
{
    const char *wrong = sim_junkyard_fini(&p->junk);

    if (wrong)
        sim_fail(p->world, "%s", wrong);
    for (size_t i = 0; i < p->message_count; i++) {
        sim_buffer_free(p->message[i]->data);
        free(p->message[i]);
    }
    for (size_t i = 0; i < p->receive_count; i++) {
        sim_buffer_free(p->receive[i]->data);
        free(p->receive[i]);
    }
    free(p->message);
    free(p->receive);
    for (unsigned i = 0; i < p->world->node_count; i++)
        p->world->nodes[i].program = NULL;
}

static struct sim_message *new_message(struct sim_program *p, struct sim_node *n, unsigned dst)
{
    struct sim_message *m = need(calloc(1, sizeof(*m)));

    if (p->message_count == p->message_room) {
        p->message_room = p->message_room ? 2 * p->message_room : 64;
        p->message = need(realloc(p->message, p->message_room * sizeof(*p->message)));
    }
    p->message[p->message_count++] = m;
    m->program = p;
    m->ident = (uint64_t)0x5eed << 32 | p->message_count;
    m->src = n->party;
    m->dst = dst;
    return m;
}

static struct sim_receive *new_receive(struct sim_program *p, struct sim_node *n)
{
    struct sim_receive *r = need(calloc(1, sizeof(*r)));

    if (p->receive_count == p->receive_room) {
        p->receive_room = p->receive_room ? 2 * p->receive_room : 64;
        p->receive = need(realloc(p->receive, p->receive_room * sizeof(*p->receive)));
    }
    p->receive[p->receive_count++] = r;
    r->program = p;
    r->node = n;
    r->party = n->party;
    r->posted_step = ++p->world->step;
    return r;
}

static struct sim_message *message_by_ident(const struct sim_program *p, uint64_t ident)
{
    uint64_t number = ident & UINT32_MAX;

    return ident >> 32 == 0x5eed && number && number <= p->message_count ? p->message[number - 1] : NULL;
}

static void give_up_buffer(struct sim_program *p, struct sim_buffer **b)
{
    const char *wrong = sim_buffer_over(*b, &p->junk);

    *b = NULL;
    if (wrong)
        sim_fail(p->world, "%s", wrong);
}

/* Whether an operation between these may fail so; src may be SIM_ANY. */
static bool may_fail(const struct sim_program *p, int status, int a, int b)
{
    if (status == ETHMX_ERR_NO_MEMORY)
        return p->no_memory;
    if (status != ETHMX_ERR_PEER_DEAD && status != ETHMX_ERR_UNREACHABLE && status != ETHMX_ERR_CLOSED)
        return false;
    return (a >= 0 && p->doomed[a]) || (b >= 0 && p->doomed[b]);
}

static void then(struct sim_program *p, struct sim_node *n)
{
    if (p->then && !sim_failed(p->world))
        p->then(p->then_arg, n);
}

/* ---- Sends ---- */

static void end_send(struct sim_message *m, int status)
{
    struct sim_program *p = m->program;

    m->open = false;
    m->status = status;
    m->done_step = ++p->world->step;
    sim_hash(p->world, m->ident * 4 + (status == ETHMX_OK));
    if (status != ETHMX_OK) {
        p->failed++;
        if (!may_fail(p, status, m->src, m->dst))
            sim_fail(p->world, "message %u of party %u to %u (%zu bytes) failed with %d", (unsigned)m->ident, m->src,
                     m->dst, m->len_bytes, status);
    }
    sim_trace(p->world, "message %u is sent: %d", (unsigned)m->ident, status);
    give_up_buffer(p, &m->data);
}

static void sent(void *arg, const struct ethmx_result *result)
{
    struct sim_message *m = arg;
    struct sim_program *p = m->program;
    struct sim_node *n = &p->world->nodes[p->world->party[m->src].node];

    if (!m->open) {
        sim_fail(p->world, "message %u completes twice", (unsigned)m->ident);
        return;
    }
    p->open--;
    if (sim_node_party(n, result->peer) != m->dst)
        sim_fail(p->world, "message %u for party %u was sent to another", (unsigned)m->ident, m->dst);
    end_send(m, result->status);
    then(p, n);
}

static bool has_remote(const struct sim_program *p, const struct sim_message *m)
{
    return p->remotes && !m->is_am && m->ident & 1;
}

uint64_t sim_space(const struct sim_program *p, uint64_t bits)
{
    return p->untagged ? bits & SIM_UNTAGGED : 0;
}

/* The engine's bits and kind. */
static void set_bits(const struct sim_program *p, struct emx_op_args *a, uint64_t bits)
{
    a->bits = bits ^ sim_space(p, bits);
    a->kind = sim_space(p, bits) ? EMX_KIND_UNTAGGED : EMX_KIND_TAGGED;
}

static struct sim_message *begin_send(struct sim_program *p, struct sim_node *n, struct sim_message *m,
                                      enum sim_shape shape, const void *am_header)
{
    struct emx_peer *peer = sim_node_peer(n, m->dst);
    struct emx_op_args a = {.bits = m->bits, .mode = m->mode, .kind = EMX_KIND_AM, .done = sent, .arg = m};
    int rc = ETHMX_ERR_NO_MEMORY;

    m->data = sim_buffer_to_send(m->ident, m->len_bytes, shape, &p->rng);
    a.data = m->data->data;
    a.am_header = am_header;
    a.am_header_bytes = m->am_header_bytes;
    if (!m->is_am)
        set_bits(p, &a, m->bits);
    if (has_remote(p, m)) {
        if (a.kind == EMX_KIND_TAGGED)
            a.kind = EMX_KIND_REMOTE;
        a.am_header = &m->ident;
        a.am_header_bytes = sizeof(m->ident);
    }
    m->sent_step = ++p->world->step;
    if (peer)
        rc = sim_node_send(n, peer, &a);
    sim_trace(p->world, "n%u sends message %u to party %u: %s bits %" PRIx64 ", %zu bytes%s: %d", n->index,
              (unsigned)m->ident, m->dst, m->is_am ? "active" : "tagged", m->bits, m->len_bytes,
              m->mode == ETHMX_SEND_SYNC ? ", synchronous" : "", rc);
    if (rc == ETHMX_INPROGRESS) {
        m->open = true;
        p->open++;
        return m;
    }
    m->refused = rc < 0;
    end_send(m, rc);
    return m->refused ? NULL : m;
}

struct sim_message *sim_send(struct sim_program *p, struct sim_node *n, unsigned dst, uint64_t bits, size_t len_bytes,
                             enum ethmx_send_mode mode, enum sim_shape shape)
{
    struct sim_message *m = new_message(p, n, dst);

    m->bits = bits;
    m->len_bytes = len_bytes;
    m->mode = mode;
    return begin_send(p, n, m, shape, NULL);
}

/* ---- Receives ---- */

/* The message says itself which it is. */
static void identify(struct sim_receive *r)
{
    struct sim_program *p = r->program;
    struct sim_message *m;
    uint64_t ident;

    memcpy(&ident, r->head, sizeof(ident));
    m = message_by_ident(p, ident);
    if (!m)
        sim_fail(p->world, "party %u received %zu bytes that nobody sent (from party %u, bits %" PRIx64 ")", r->party,
                 r->msg_bytes, r->src, r->got_bits);
    else if (m->is_am || m->src != r->src || m->dst != r->party || m->bits != r->got_bits ||
             m->len_bytes != r->msg_bytes)
        sim_fail(p->world,
                 "party %u received message %u (party %u to %u, bits %" PRIx64 ", %zu bytes) as one of party %u, bits "
                 "%" PRIx64 ", %zu bytes",
                 r->party, (unsigned)m->ident, m->src, m->dst, m->bits, m->len_bytes, r->src, r->got_bits,
                 r->msg_bytes);
    else if (m->receive)
        sim_fail(p->world, "party %u received message %u twice", r->party, (unsigned)m->ident);
    else {
        m->receive = r;
        r->message = m;
    }
}

static void check_received(struct sim_receive *r, size_t got_bytes)
{
    struct sim_program *p = r->program;
    const char *wrong;

    r->head_bytes = sim_buffer_peek(r->data, r->head, got_bytes < sizeof(r->head) ? got_bytes : sizeof(r->head));
    if (p->content && !r->message && r->head_bytes == sizeof(r->head))
        identify(r);
    wrong = sim_buffer_check(r->data, r->message ? r->message->ident : 0, got_bytes, p->content && r->message);
    if (wrong)
        sim_fail(p->world, "party %u, receive of message %u, %zu bytes: %s", r->party,
                 r->message ? (unsigned)r->message->ident : 0, got_bytes, wrong);
}

static void check_result(struct sim_receive *r, const struct ethmx_result *result)
{
    struct sim_program *p = r->program;
    size_t fits = result->msg_bytes < r->room_bytes ? result->msg_bytes : r->room_bytes;

    r->src = sim_node_party(r->node, result->peer);
    r->got_bits = result->bits | sim_space(p, r->bits);
    r->msg_bytes = result->msg_bytes;
    if (result->len_bytes != fits || (result->status == ETHMX_ERR_TRUNCATED) != (result->msg_bytes > r->room_bytes))
        sim_fail(p->world, "party %u: status %d, %zu bytes for a message of %zu in a buffer of %zu", r->party,
                 result->status, result->len_bytes, result->msg_bytes, r->room_bytes);
    else if (!r->is_am && ((r->from >= 0 && r->src != (unsigned)r->from) || ((r->got_bits ^ r->bits) & r->mask)))
        sim_fail(p->world, "party %u: a receive from %d of bits %" PRIx64 "/%" PRIx64 " got party %u, bits %" PRIx64,
                 r->party, r->from, r->bits, r->mask, r->src, r->got_bits);
    else
        check_received(r, fits);
}

static void end_receive(struct sim_receive *r, const struct ethmx_result *result)
{
    struct sim_program *p = r->program;
    int from;

    r->status = result->status;
    r->done_step = ++p->world->step;
    r->op = NULL;
    if (result->status == ETHMX_OK || result->status == ETHMX_ERR_TRUNCATED) {
        r->state = SIM_DONE;
        check_result(r, result);
        if (r->canceling)
            sim_fail(p->world, "party %u: a receive that was cancelled has received", r->party);
    } else if (result->status == ETHMX_ERR_CANCELED && r->canceling) {
        r->state = SIM_CANCELED;
    } else {
        r->state = SIM_FAILED;
        p->failed++;
        from = r->from;
        if (from == SIM_ANY && result->peer)
            from = sim_node_party(r->node, result->peer);
        if (!may_fail(p, result->status, r->party, from))
            sim_fail(p->world, "party %u: a receive from %d failed with %d", r->party, r->from, result->status);
    }
    sim_hash(p->world, r->posted_step << 8 | r->state);
    sim_hash(p->world, r->state == SIM_DONE ? r->got_bits : 0);
    sim_trace(p->world, "n%u: receive from %d of %" PRIx64 "/%" PRIx64 " ends: %d, message %u, bits %" PRIx64 ", %zu",
              r->node->index, r->from, r->bits, r->mask, r->status, r->message ? (unsigned)r->message->ident : 0,
              r->got_bits, r->msg_bytes);
    if (r->data)
        give_up_buffer(p, &r->data);
}

/* Whether a receive that has completed has the remote data of its message. */
static void check_remote(const struct sim_receive *r, struct ethmx_remote remote)
{
    const struct sim_program *p = r->program;

    if (r->state != SIM_DONE || !r->message || !p->content || r->is_am)
        return;
    if (remote.present != has_remote(p, r->message) || (remote.present && remote.data != r->message->ident))
        sim_fail(p->world, "party %u: message %u came with the remote data %" PRIx64, r->party,
                 (unsigned)r->message->ident, remote.data);
}

static void received(void *arg, const struct ethmx_result *result)
{
    struct sim_receive *r = arg;
    bool posted = r->op;
    struct ethmx_remote remote = posted ? emx_op_remote(r->op) : (struct ethmx_remote){0};

    if (r->state != SIM_OPEN) {
        sim_fail(r->program->world, "party %u: a receive completes twice", r->party);
        return;
    }
    r->program->open--;
    end_receive(r, result);
    if (posted)
        check_remote(r, remote);
    then(r->program, r->node);
}

/* What the engine's receive functions have in common. */
static struct sim_receive *begin_receive(struct sim_receive *r, int rc, const struct ethmx_result *result)
{
    struct ethmx_result failed = {.status = rc};

    if (rc == ETHMX_INPROGRESS) {
        r->program->open++;
        return r;
    }
    end_receive(r, rc == ETHMX_OK ? result : &failed);
    return r->state == SIM_DONE ? r : NULL;
}

struct sim_receive *sim_recv(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                             size_t room_bytes, enum sim_shape shape)
{
    struct sim_receive *r = new_receive(p, n);
    struct emx_op_args a = {.mask = mask, .done = received, .arg = r};
    struct ethmx_result result = {0};
    struct emx_peer *peer = from == SIM_ANY ? NULL : sim_node_peer(n, from);
    int rc = ETHMX_ERR_NO_MEMORY;

    r->from = from;
    r->bits = bits;
    r->mask = mask;
    r->room_bytes = room_bytes;
    r->data = sim_buffer_to_receive(room_bytes, shape, &p->rng);
    set_bits(p, &a, bits);
    a.data = r->data->data;
    if (peer || from == SIM_ANY)
        rc = emx_progress_recv(&n->progress, peer, &a, &r->op, &result);
    sim_trace(p->world, "n%u posts a receive from %d of %" PRIx64 "/%" PRIx64 ", %zu bytes: %d", n->index, from, bits,
              mask, room_bytes, rc);
    return begin_receive(r, rc, &result);
}

void sim_cancel(struct sim_receive *r)
{
    struct sim_program *p = r->program;
    int rc;

    if (r->state != SIM_OPEN || r->bound || r->canceling)
        return;
    rc = emx_engine_cancel(r->node->engine, r->op);
    sim_trace(p->world, "n%u cancels the receive from %d of %" PRIx64 "/%" PRIx64 ": %d", r->node->index, r->from,
              r->bits, r->mask, rc);
    r->cancel_step = ++p->world->step;
    if (rc == ETHMX_OK)
        r->canceling = true;
    else if (rc == ETHMX_ERR_NO_MATCH)
        r->bound = true;
    else
        sim_fail(p->world, "party %u: cancel returns %d", r->party, rc);
}

/* ---- Probes ---- */

static bool probe(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                  struct emx_unexpected **msg_p, struct ethmx_result *result)
{
    struct emx_peer *peer = from == SIM_ANY ? NULL : sim_node_peer(n, from);
    struct emx_op_args a = {.mask = mask};
    int rc;

    memset(result, 0, sizeof(*result));
    if (from != SIM_ANY && !peer)
        return false;
    set_bits(p, &a, bits);
    rc = emx_engine_probe(n->engine, peer, &a, msg_p, result, NULL);
    if (rc == ETHMX_ERR_NO_MATCH || may_fail(p, rc, n->party, from))
        return false;
    if (rc != ETHMX_OK) {
        sim_fail(p->world, "party %u: probe returns %d", n->party, rc);
        return false;
    }
    result->bits |= sim_space(p, bits);
    if (((result->bits ^ bits) & mask) || (peer && (void *)result->peer != peer))
        sim_fail(p->world, "party %u: a probe of %" PRIx64 "/%" PRIx64 " finds bits %" PRIx64, n->party, bits, mask,
                 result->bits);
    return !sim_failed(p->world);
}

/* What a probe has seen, a receive with the same bits from the same peer must get. */
bool sim_probe_recv(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                    enum sim_shape shape)
{
    struct ethmx_result result;
    struct sim_receive *r;

    if (!probe(p, n, from, bits, mask, NULL, &result))
        return false;
    r = sim_recv(p, n, sim_node_party(n, result.peer), result.bits, SIM_FULL_MASK, result.msg_bytes, shape);
    if (!r)
        return false;
    r->bound = true;
    if (r->state == SIM_DONE && r->msg_bytes != result.msg_bytes)
        sim_fail(p->world, "party %u: a message of %zu bytes was probed, one of %zu received", n->party,
                 result.msg_bytes, r->msg_bytes);
    return true;
}

static struct sim_receive *taken(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                                 const struct ethmx_result *result)
{
    struct sim_receive *r = new_receive(p, n);

    r->from = from;
    r->bits = bits;
    r->mask = mask;
    r->bound = true;
    r->src = sim_node_party(n, result->peer);
    r->got_bits = result->bits;
    r->msg_bytes = result->msg_bytes;
    return r;
}

/* mrecv does not consume the message when it fails for want of memory; it is given back then and has had its turn, as
 * one that was released unread. */
static struct sim_receive *receive_taken(struct sim_receive *r, struct emx_unexpected *msg, enum sim_shape shape)
{
    struct sim_program *p = r->program;
    struct emx_op_args a = {.done = received, .arg = r};
    struct ethmx_result result = {0};
    int rc;

    r->room_bytes = r->msg_bytes;
    if (r->room_bytes && emx_rng_chance(&p->rng, 100000))
        r->room_bytes = emx_rng_below(&p->rng, r->room_bytes);
    r->data = sim_buffer_to_receive(r->room_bytes, shape, &p->rng);
    a.data = r->data->data;
    rc = emx_engine_mrecv(r->node->engine, msg, &a, &result, sim_node_now(r->node));
    sim_trace(p->world, "n%u receives the %s message it took, %zu bytes: %d", r->node->index,
              r->is_am ? "active" : "tagged", r->msg_bytes, rc);
    if (rc != ETHMX_ERR_NO_MEMORY)
        return begin_receive(r, rc, &result);
    emx_engine_release(r->node->engine, msg, sim_node_now(r->node));
    begin_receive(r, rc, &result);
    r->released = true;
    r->state = SIM_DONE;
    return NULL;
}

bool sim_take_recv(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask,
                   enum sim_shape shape)
{
    struct ethmx_result result;
    struct emx_unexpected *msg = NULL;

    if (!probe(p, n, from, bits, mask, &msg, &result))
        return false;
    receive_taken(taken(p, n, from, bits, mask, &result), msg, shape);
    return true;
}

static void released(struct sim_receive *r, struct emx_unexpected *msg)
{
    struct sim_program *p = r->program;

    emx_engine_release(r->node->engine, msg, sim_node_now(r->node));
    r->released = true;
    r->state = SIM_DONE;
    r->done_step = ++p->world->step;
}

bool sim_take_release(struct sim_program *p, struct sim_node *n, int from, uint64_t bits, uint64_t mask)
{
    struct ethmx_result result;
    struct emx_unexpected *msg = NULL;

    if (!probe(p, n, from, bits, mask, &msg, &result))
        return false;
    released(taken(p, n, from, bits, mask, &result), msg);
    return true;
}

/* ---- Active messages ---- */

/* The header's content is that of another message, made from the first one's ident. */
static uint64_t header_ident(uint64_t ident)
{
    return emx_mix64(ident);
}

struct sim_message *sim_am(struct sim_program *p, struct sim_node *n, unsigned dst, unsigned id, size_t header_bytes,
                           size_t len_bytes, enum sim_shape shape)
{
    struct sim_message *m = new_message(p, n, dst);
    uint8_t header[ETHMX_AM_HEADER_MAX];

    m->is_am = true;
    m->bits = id;
    m->am_header_bytes = header_bytes;
    m->len_bytes = len_bytes;
    sim_content(header_ident(m->ident), 0, header, header_bytes);
    m = begin_send(p, n, m, shape, header);
    memset(header, 0xdd, sizeof(header)); /* copied, says ethmx.h */
    return m;
}

/* A message never left its sender if the sender had no memory for it. One that failed because either side is gone may
 * have arrived before; and all that was sent before it, too. */
static bool may_arrive(const struct sim_message *m)
{
    return !m->refused && m->status != ETHMX_ERR_NO_MEMORY;
}

/* The earliest active message of this sender, for this handler, that has not been handled: they come without gaps,
 * also those of a sender that died. */
static struct sim_message *next_am(const struct sim_program *p, unsigned src, unsigned dst, int id)
{
    for (size_t i = 0; i < p->message_count; i++) {
        struct sim_message *m = p->message[i];

        if (m->is_am && may_arrive(m) && !m->handled_step && m->src == src && m->dst == dst &&
            (id < 0 || m->bits == (unsigned)id))
            return m;
    }
    return NULL;
}

static void receive_kept(void *arg, uint64_t party)
{
    struct sim_receive *r = arg;
    struct sim_node *n = r->node;
    struct sim_world *w = r->program->world;

    if (n->pace == SIM_GONE || n->party != party)
        return;
    if (n->pace != SIM_POLLS) {
        sim_queue_put(&w->queue, n->pace_until_ns + 1, receive_kept, r, party);
        return;
    }
    r->program->open--;
    receive_taken(r, r->kept, emx_rng_below(&r->program->rng, SIM_SHAPES));
    sim_node_pump(n);
}

static void keep(struct sim_receive *r, struct emx_unexpected *msg)
{
    struct sim_world *w = r->program->world;

    r->kept = msg;
    r->program->open++;
    sim_queue_put(&w->queue, w->now_ns + emx_rng_below(&r->program->rng, 2 * SIM_MS), receive_kept, r, r->party);
}

static void check_am(struct sim_program *p, const struct sim_message *m, const struct ethmx_am *am, unsigned party)
{
    if (am->header_bytes != m->am_header_bytes || am->data_bytes != m->len_bytes)
        sim_fail(p->world, "party %u: active message %u has %zu + %zu bytes; %zu + %zu were sent", party,
                 (unsigned)m->ident, am->header_bytes, am->data_bytes, m->am_header_bytes, m->len_bytes);
    else if (!p->content)
        return;
    else if (!sim_content_fits(header_ident(m->ident), 0, am->header, am->header_bytes))
        sim_fail(p->world, "party %u: the header of active message %u is not what was sent", party, (unsigned)m->ident);
    else if (am->data && !sim_content_fits(m->ident, 0, am->data, am->data_bytes))
        sim_fail(p->world, "party %u: the data of active message %u is not what was sent", party, (unsigned)m->ident);
}

/* What a handler does with its message: look and leave it, receive it now or later, or give it back unread. */
static void handle_am(struct sim_program *p, struct sim_node *n, struct emx_unexpected *msg, const struct ethmx_am *am,
                      struct sim_message *m)
{
    struct sim_receive *r = new_receive(p, n);
    unsigned choice = emx_rng_below(&p->rng, 8);

    r->is_am = r->bound = true;
    r->from = r->src = m->src;
    r->msg_bytes = m->len_bytes;
    r->message = m;
    m->receive = r;
    if (choice == 0 || (am->data && choice < 5))
        released(r, msg);
    else if (choice == 7 && p->keeps)
        keep(r, msg);
    else
        receive_taken(r, msg, emx_rng_below(&p->rng, SIM_SHAPES));
}

static void open_handlers(void *arg, uint64_t party)
{
    struct sim_node *n = arg;

    if (n->pace == SIM_GONE || n->party != party)
        return;
    emx_engine_am_retry(n->engine);
    sim_node_pump(n);
}

static void defer(struct sim_program *p, struct sim_node *n, struct emx_unexpected *msg)
{
    emx_engine_am_defer(n->engine, msg);
    sim_queue_put(&p->world->queue, p->am_open_ns, open_handlers, n, n->party);
}

static void heard_am(void *arg, struct sim_node *n, struct emx_unexpected *msg, const struct ethmx_am *am, unsigned id)
{
    struct sim_program *p = arg;
    unsigned src = sim_node_party(n, am->peer);
    struct sim_message *m;

    sim_hash(p->world, (uint64_t)src << 32 | id);
    if (id % 2 && p->world->now_ns < p->am_open_ns) {
        defer(p, n, msg);
        return;
    }
    m = next_am(p, src, n->party, p->in_order ? -1 : (int)id);
    if (!m || m->bits != id) {
        sim_fail(p->world, "party %u: an active message of party %u for handler %u; next should come %d", n->party, src,
                 id, m ? (int)m->bits : -1);
        return;
    }
    sim_trace(p->world, "n%u handles active message %u of party %u", n->index, (unsigned)m->ident, src);
    m->handled_step = ++p->world->step;
    check_am(p, m, am, n->party);
    if (!sim_failed(p->world))
        handle_am(p, n, msg, am, m);
}

/* ---- All of it ---- */

static bool never_comes(const struct sim_program *p, const struct sim_message *m)
{
    return m->refused || m->status < 0 || p->doomed[m->src] || p->doomed[m->dst];
}

long sim_missing(const struct sim_program *p, unsigned party, uint64_t space)
{
    long sent = 0, got = 0;

    for (size_t i = 0; i < p->message_count; i++) {
        const struct sim_message *m = p->message[i];

        if (m->dst == party && !m->is_am && sim_space(p, m->bits) == space)
            sent += !never_comes(p, m);
    }
    for (size_t i = 0; i < p->receive_count; i++) {
        const struct sim_receive *r = p->receive[i];

        if (r->party == party && !r->is_am && sim_space(p, r->bits) == space)
            got += (r->state == SIM_DONE && !p->doomed[r->src]) || (r->state == SIM_OPEN && r->bound);
    }
    return sent - got;
}

static bool unhandled(const struct sim_program *p)
{
    for (size_t i = 0; i < p->message_count; i++)
        if (p->message[i]->is_am && !p->message[i]->handled_step && !never_comes(p, p->message[i]))
            return true;
    return false;
}

static bool settled(void *arg)
{
    const struct sim_program *p = arg;

    if (p->busy || p->open || (!p->loses && unhandled(p)))
        return false;
    for (unsigned i = 0; i < p->world->node_count; i++) {
        const struct sim_node *n = &p->world->nodes[i];

        if (n->engine && (n->pace != SIM_POLLS || !emx_engine_drained(n->engine)))
            return false;
    }
    return true;
}

void sim_program_open_text(const struct sim_program *p, char *text, size_t text_bytes)
{
    size_t at = snprintf(text, text_bytes, "%zu open", p->open);

    for (size_t i = 0; i < p->message_count && at < text_bytes; i++) {
        const struct sim_message *m = p->message[i];

        if (m->open || (m->is_am && !m->handled_step && !never_comes(p, m)))
            at += snprintf(text + at, text_bytes - at, "; message %u of party %u to %u, %zu bytes%s%s",
                           (unsigned)m->ident, m->src, m->dst, m->len_bytes,
                           m->mode == ETHMX_SEND_SYNC ? ", synchronous" : "", m->is_am ? ", active" : "");
    }
    for (size_t i = 0; i < p->receive_count && at < text_bytes; i++) {
        const struct sim_receive *r = p->receive[i];

        if (r->state == SIM_OPEN)
            at += snprintf(text + at, text_bytes - at, "; receive of party %u from %d, bits %" PRIx64 "/%" PRIx64 "%s",
                           r->party, r->from, r->bits, r->mask, r->bound ? ", matched" : "");
    }
    for (unsigned i = 0; i < p->world->node_count && at < text_bytes; i++)
        if (p->world->nodes[i].engine && !emx_engine_drained(p->world->nodes[i].engine))
            at += snprintf(text + at, text_bytes - at, "; n%u is not drained", i);
}

bool sim_program_run(struct sim_program *p, uint64_t limit_ns)
{
    struct sim_world *w = p->world;
    char text[600], first[400];

    if (sim_world_run(w, settled, p, limit_ns, "all done and drained"))
        return true;
    if (strstr(w->failure, "all done")) {
        sim_program_open_text(p, text, sizeof(text));
        snprintf(first, sizeof(first), "%.399s", w->failure);
        snprintf(w->failure, sizeof(w->failure), "%s (%s)", first, text);
    }
    return false;
}

void sim_program_bury(struct sim_program *p, unsigned party)
{
    p->doomed[party] = true;
    for (size_t i = 0; i < p->message_count; i++) {
        struct sim_message *m = p->message[i];

        if (m->src != party || !m->open)
            continue;
        p->open--;
        m->open = false;
        m->status = ETHMX_ERR_CLOSED;
        give_up_buffer(p, &m->data);
    }
    for (size_t i = 0; i < p->receive_count; i++) {
        struct sim_receive *r = p->receive[i];

        if (r->party != party || r->state != SIM_OPEN)
            continue;
        p->open--;
        r->state = SIM_FAILED;
        r->status = ETHMX_ERR_CLOSED;
        if (r->data)
            give_up_buffer(p, &r->data);
    }
}
