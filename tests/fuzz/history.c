/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How much a night of fuzzing finds goes by how many histories it plays. So messages are as short as they can be with
 * all that long ones have: several frames, several blocks pulled at once. Limits of memory are as low as fits them, and
 * an invariant is looked at once after what may have violated it.
 */

#include <string.h>

#include "base/config.h"
#include "base/hash.h"
#include "base/keyed_hash.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/rel/tag.h"
#include "core/msg/op.h"
#include "core/msg/unexpected.h"
#include "core/peer.h"
#include "core/rel/session.h"
#include "core/rma/rma.h"
#include "core/time.h"
#include "fuzz.h"
#include "history.h"
#include "node.h"

#define NODES_MAX     3
#define COOKIE        0xc00c1e
#define FRAMES_MAX    512 /* under way; more are lost */
#define OPS_MAX       256 /* open; no more are begun */
#define CONTENT_BYTES 16384
#define QUIET_STEPS   8
#define POLLS_MAX     10000 /* in a row; what there is to do at one time takes less */

/* An operation that is open, with its memory. */
struct call {
    struct history *h;
    unsigned node;
    bool is_send, done;
    struct emx_op *op; /* receives that may be cancelled */
    uint8_t *data;
};

struct packet {
    unsigned from, to;
    uint32_t len_bytes;
    uint8_t *data;
};

struct history {
    struct emx_config cfg;
    emx_time now;
    unsigned nodes;
    struct fuzz_node node[NODES_MAX];
    bool reliable, reads, auth, rails;
    bool altered; /* contents may be anything */
    unsigned lives;
    struct packet packet[FRAMES_MAX];
    unsigned packets;
    struct call *call[OPS_MAX];
    unsigned calls;
};

/* ---- Life ---- */

static struct emx_address address(const struct history *h, unsigned n)
{
    struct emx_address a = {.id = h->node[n].id,
                            .cookie = COOKIE,
                            .host_id = 1 + n / 2,
                            .if_count = 1,
                            .auth = h->auth,
                            .has_secret = h->auth};

    emx_address_add_part(&a, FUZZ_PART, &(uint8_t){(uint8_t)n}, 1);
    a.ifs[0].frame_bytes = FUZZ_FRAME_BYTES;
    snprintf(a.host, sizeof(a.host), "n%u", n);
    for (unsigned i = 0; h->auth && i < sizeof(a.secret); i++)
        a.secret[i] = (uint8_t)emx_mix64(a.id + i);
    return a;
}

static void start(struct history *h, unsigned n)
{
    struct fuzz_node *node = &h->node[n];
    struct emx_address self;

    *node = (struct fuzz_node){
        .history = h, .index = n, .cfg = &h->cfg, .reliable = h->reliable, .reads = h->reads, .rails = h->rails};
    node->id = (uint32_t)emx_mix64(++h->lives) | 1;
    self = address(h, n);
    fuzz_node_start(node, &self, &h->now);
}

struct history *history_begin(unsigned nodes, unsigned settings)
{
    static const uint64_t eager_max[] = {1000, 0, 100, 8000};
    static struct emx_config defaults;
    struct history *h = calloc(1, sizeof(*h));
    const char *why;

    FUZZ_CHECK(h, "no memory");
    if (!defaults.p_window)
        emx_config_defaults(&defaults);
    h->cfg = defaults;
    h->cfg.p_checksum = settings & 1 ? EMX_CHECKSUM_FULL : EMX_CHECKSUM_HEADER;
    h->cfg.p_eager_max = eager_max[settings >> 1 & 3];
    h->cfg.p_window = settings & 8 ? 8 : 128;
    h->cfg.p_unexpected_max = settings & 16 ? 16384 : 1 << 18;
    h->cfg.p_pull_window = settings & 32 ? 4096 : 1 << 16;
    h->reliable = settings & 64;
    h->reads = settings & 128;
    h->rails = !h->reliable && settings & 8;
    h->auth = h->reads && !h->reliable && emx_keyed_hash_usable(&why);
    h->now = 1000000000;
    h->nodes = nodes;
    for (unsigned i = 0; i < nodes; i++)
        start(h, i);
    return h;
}

static void free_call(struct call *c)
{
    free(c->data);
    free(c);
}

static void forget_calls(struct history *h, unsigned n)
{
    unsigned left = 0;

    for (unsigned i = 0; i < h->calls; i++)
        if (h->call[i]->node == n)
            free_call(h->call[i]);
        else
            h->call[left++] = h->call[i];
    h->calls = left;
}

void history_restart(struct history *h, unsigned n)
{
    fuzz_node_stop(&h->node[n]);
    forget_calls(h, n);
    start(h, n);
}

void history_end(struct history *h)
{
    for (unsigned i = 0; i < h->nodes; i++) {
        fuzz_node_stop(&h->node[i]);
        forget_calls(h, i);
    }
    for (unsigned i = 0; i < h->packets; i++)
        free(h->packet[i].data);
    free(h);
}

unsigned history_nodes(const struct history *h)
{
    return h->nodes;
}

bool history_reliable(const struct history *h)
{
    return h->reliable;
}

uint32_t history_id(const struct history *h, unsigned node)
{
    return h->node[node].id;
}

uint32_t history_cookie(void)
{
    return COOKIE;
}

uint32_t history_next_seq(const struct history *h, unsigned from, unsigned to)
{
    const struct emx_peer *p = emx_peer_find(h->node[to].engine, h->node[from].id);

    return p && p->session ? p->session->rx.next : 0;
}

size_t history_length(unsigned choice)
{
    static const size_t lengths[] = {0, 1, 8, 100, 500, 520, 530, 1000, 1100, 1500, 3000, 7900, 12000};

    return lengths[choice % (sizeof(lengths) / sizeof(*lengths))] + choice / 64;
}

/* ---- The network ---- */

void history_carry(struct history *h, unsigned from, unsigned to, uint8_t *data, uint32_t len_bytes)
{
    if (h->packets == FRAMES_MAX) {
        free(data);
        return;
    }
    h->packet[h->packets++] = (struct packet){.from = from, .to = to % h->nodes, .len_bytes = len_bytes, .data = data};
}

static struct packet take_packet(struct history *h, unsigned i)
{
    struct packet p = h->packet[i];

    memmove(&h->packet[i], &h->packet[i + 1], (--h->packets - i) * sizeof(p));
    return p;
}

/* Only memory of a message that is being sent can be read; elsewhere the kernel would refuse. */
bool history_readable(const struct history *h, uint64_t remote, size_t len_bytes)
{
    for (unsigned i = 0; i < h->calls; i++) {
        const struct call *c = h->call[i];
        uint64_t start = (uintptr_t)c->data;
        size_t *bytes = (void *)c->data;

        if (c->is_send && remote >= start + sizeof(*bytes) && remote - start - sizeof(*bytes) <= *bytes &&
            len_bytes <= *bytes - (remote - start - sizeof(*bytes)))
            return true;
    }
    return false;
}

static void forget_call(struct call *c)
{
    struct history *h = c->h;

    for (unsigned i = 0; i < h->calls; i++)
        if (h->call[i] == c)
            h->call[i] = h->call[--h->calls];
    free_call(c);
}

/* What a message of n bytes says. */
static const uint8_t *content(size_t n)
{
    static uint8_t all[CONTENT_BYTES];

    for (size_t i = 0; !all[1] && i < sizeof(all); i++)
        all[i] = (uint8_t)emx_mix64(i + 1);
    return all + n % 251;
}

static void done(void *arg, const struct ethmx_result *result)
{
    struct call *c = arg;

    FUZZ_CHECK(!c->done, "completed twice");
    c->done = true;
    if (!c->is_send && result->status == ETHMX_OK && !c->h->altered)
        FUZZ_CHECK(!memcmp(c->data, content(result->msg_bytes), result->len_bytes), "a message of %zu bytes is wrong",
                   result->msg_bytes);
    forget_call(c);
}

static struct call *new_call(struct history *h, unsigned n, size_t len_bytes)
{
    struct call *c = h->calls < OPS_MAX ? calloc(1, sizeof(*c)) : NULL;

    if (!c)
        return NULL;
    c->h = h;
    c->node = n;
    c->data = malloc(len_bytes ? len_bytes : 1);
    FUZZ_CHECK(c->data, "no memory");
    h->call[h->calls++] = c;
    return c;
}

/* A receive has begun with this result of the call. */
static void begun(struct call *c, int rc, const struct ethmx_result *result)
{
    if (rc == ETHMX_OK)
        done(c, result);
    else if (rc != ETHMX_INPROGRESS)
        forget_call(c);
}

static void receive_message(struct history *h, unsigned n, struct emx_unexpected *msg, size_t room_bytes)
{
    struct call *c = new_call(h, n, room_bytes);
    struct emx_op_args a = {.data = {.len_bytes = room_bytes}, .done = done, .arg = c};
    struct ethmx_result result;
    int rc;

    if (!c) {
        emx_engine_release(h->node[n].engine, msg, fuzz_node_now(&h->node[n]));
        return;
    }
    a.data.base = c->data;
    rc = emx_engine_mrecv(h->node[n].engine, msg, &a, &result, fuzz_node_now(&h->node[n]));
    begun(c, rc, &result);
}

/* ---- Progress ---- */

static void tell(struct emx_engine *e, struct emx_op *op)
{
    struct ethmx_result result;
    ethmx_done_fn fn;
    void *arg;

    emx_op_result(op, &fn, &arg, &result);
    emx_engine_op_free(e, op);
    fn(arg, &result);
}

static bool deliver(struct history *h, unsigned n)
{
    struct emx_engine *e = h->node[n].engine;
    struct emx_unexpected *msg;
    struct ethmx_am am;
    struct emx_op *op;
    unsigned id;
    bool any = false;

    while ((op = emx_engine_completed(e))) {
        any = true;
        tell(e, op);
    }
    while ((msg = emx_engine_am(e, &am, &id))) {
        any = true;
        if (am.data_bytes < 100000)
            receive_message(h, n, msg, am.data_bytes);
        else
            emx_engine_release(e, msg, fuzz_node_now(&h->node[n]));
    }
    return any;
}

/* A call of ethmx_progress(). Returns whether anything was found. */
static bool poll_once(struct history *h, unsigned n)
{
    struct emx_progress *p = &h->node[n].progress;
    struct emx_op *quick = NULL;
    bool any;

    h->node[n].unchecked |= emx_engine_deadline(p->engine) <= h->now;
    any = emx_progress_round(p, false, &quick);
    h->node[n].unchecked |= any;
    p->delivering = true;
    if (quick)
        tell(p->engine, quick);
    any |= deliver(h, n);
    p->delivering = false;
    h->node[n].unchecked |= any;
    return any;
}

/* After any call of an engine: polls until nothing is left to do. */
static void pump(struct history *h, unsigned n)
{
    struct emx_progress *p = &h->node[n].progress;
    unsigned polls = 0;

    h->node[n].unchecked = true;
    while (poll_once(h, n) || !emx_progress_looked_around(p) || emx_engine_wants_read(p->engine, 0))
        FUZZ_CHECK(++polls < POLLS_MAX, "engine %u does not come to rest", n);
    fuzz_node_check_once(&h->node[n]);
    FUZZ_CHECK(emx_progress_deadline(p) > h->now, "output is drained and the deadline has passed");
    FUZZ_CHECK(!emx_engine_has_results(p->engine), "all was taken, but there is news");
}

/* The frame with a tag as `from` would put it; as it is, if they do not know each other. */
static bool tag(struct history *h, unsigned from, unsigned to, uint8_t **data_p, uint32_t *len_bytes_p)
{
    const struct emx_peer *p = emx_peer_find(h->node[from].engine, h->node[to].id);
    struct emx_txframe f = {0};
    struct emx_frame *head;
    uint8_t *tagged;

    if (!p || !p->session || !p->session->tags)
        return false;
    tagged = malloc(sizeof(struct emx_tag) + *len_bytes_p);
    FUZZ_CHECK(tagged, "no memory");
    head = (void *)(tagged + sizeof(struct emx_tag));
    memcpy(head, *data_p, *len_bytes_p);
    f.head_bytes = (uint16_t)(sizeof(*head) + head->body_bytes);
    emx_tag_put(p->session, head, &f);
    free(*data_p);
    *data_p = tagged;
    *len_bytes_p += (uint32_t)sizeof(struct emx_tag);
    return true;
}

bool history_seal(struct history *h, unsigned from, unsigned to, uint8_t **data_p, uint32_t *len_bytes_p,
                  unsigned checksum)
{
    struct emx_frame *f = (void *)*data_p;

    if (*len_bytes_p < sizeof(*f) || sizeof(*f) + f->body_bytes > *len_bytes_p)
        return false;
    if (h->auth)
        return tag(h, from, to, data_p, len_bytes_p);
    emx_frame_seal(f, sizeof(*f) + f->body_bytes, NULL, 0, checksum);
    return true;
}

/* A frame comes. */
static void input(struct history *h, unsigned n, const uint8_t *data, uint32_t len_bytes)
{
    h->node[n].data = data;
    h->node[n].len_bytes = len_bytes;
    pump(h, n);
    FUZZ_CHECK(!h->node[n].data, "a frame was not taken");
}

void history_input(struct history *h, unsigned n, const uint8_t *data, uint32_t len_bytes, bool sealed)
{
    h->altered |= sealed || !h->auth;
    input(h, n, data, len_bytes);
}

/* ---- Operations ---- */

/* NULL: it is refused. */
static struct emx_peer *peer_of(struct history *h, unsigned n, unsigned other)
{
    struct emx_address a = address(h, other % h->nodes);
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_peer *peer;
    char err[256];

    if (!emx_engine_peer(h->node[n].engine, buf, emx_address_encode(&a, buf), &peer, err, sizeof(err)))
        return peer;
    FUZZ_CHECK(h->altered, "%s", err); /* an altered hello may have come first, with the number of that one */
    return NULL;
}

/* Messages with some bits are untagged. */
static uint8_t tagged_kind(uint64_t bits)
{
    return bits % 8 == 5 ? EMX_KIND_UNTAGGED : EMX_KIND_TAGGED;
}

void history_send(struct history *h, unsigned n, unsigned to, uint64_t bits, size_t len_bytes, bool sync, bool am)
{
    struct call *c;
    struct emx_op_args a = {.bits = bits,
                            .data = {.len_bytes = len_bytes},
                            .mode = sync ? ETHMX_SEND_SYNC : ETHMX_SEND_STANDARD,
                            .kind = am ? EMX_KIND_AM : tagged_kind(bits),
                            .am_header = "header",
                            .am_header_bytes = am ? 6 : 0,
                            .done = done};
    struct emx_peer *peer = peer_of(h, n, to);
    uint8_t *data;
    int rc;

    if (!peer || !(c = new_call(h, n, sizeof(size_t) + len_bytes)))
        return;
    a.arg = c;
    memcpy(c->data, &len_bytes, sizeof(len_bytes));
    data = c->data + sizeof(len_bytes);
    memcpy(data, content(len_bytes), len_bytes);
    c->is_send = true;
    a.data.base = data;
    if (bits % 4 == 3) /* a short message may go the long way, too */
        rc = emx_progress_send_long(&h->node[n].progress, peer, &a);
    else
        rc = emx_progress_send(&h->node[n].progress, peer, &a);
    if (rc != ETHMX_INPROGRESS)
        forget_call(c);
    pump(h, n);
}

void history_receive(struct history *h, unsigned n, unsigned from, uint64_t bits, size_t room_bytes, unsigned how)
{
    struct emx_op_args a = {.bits = bits,
                            .mask = how & 2 ? 0 : UINT64_MAX,
                            .data = {.len_bytes = room_bytes},
                            .kind = tagged_kind(bits),
                            .done = done};
    struct emx_peer *peer = how & 1 ? NULL : peer_of(h, n, from);
    struct ethmx_result result;
    struct call *c;
    int rc;

    if ((!peer && !(how & 1)) || !(c = new_call(h, n, room_bytes)))
        return;
    a.arg = c;
    a.data.base = c->data;
    rc = emx_progress_recv(&h->node[n].progress, peer, &a, &c->op, &result);
    begun(c, rc, &result);
    pump(h, n);
}

void history_cancel(struct history *h, unsigned choice)
{
    struct call *c = h->calls ? h->call[choice % h->calls] : NULL;

    if (!c || !c->op)
        return;
    emx_engine_cancel(h->node[c->node].engine, c->op);
    pump(h, c->node);
}

void history_take(struct history *h, unsigned n, unsigned kind, uint64_t bits)
{
    struct emx_unexpected *msg = NULL;
    struct ethmx_result result;
    const struct emx_op_args a = {.bits = bits, .mask = bits ? UINT64_MAX : 0, .kind = tagged_kind(bits)};
    int rc = emx_engine_probe(h->node[n].engine, NULL, &a, kind ? &msg : NULL, &result, NULL);

    if (rc == ETHMX_OK && kind == 1)
        emx_engine_release(h->node[n].engine, msg, fuzz_node_now(&h->node[n]));
    else if (rc == ETHMX_OK && kind)
        receive_message(h, n, msg, result.msg_bytes < 100000 ? result.msg_bytes : 100000);
    pump(h, n);
}

void history_flush(struct history *h, unsigned n, uint64_t bits)
{
    emx_engine_flush_unexpected(h->node[n].engine, bits, UINT64_MAX, fuzz_node_now(&h->node[n]));
    pump(h, n);
}

/* The rest of how chooses the length; some are not within the region. */
void history_rma(struct history *h, unsigned n, unsigned to, unsigned how)
{
    static const size_t places[] = {0, 1, 100, 3000, FUZZ_REGION_BYTES - 8, FUZZ_REGION_BYTES, SIZE_MAX - 20};
    enum emx_rma_kind kind = (enum emx_rma_kind)(how % 5);
    bool atomic = kind != EMX_RMA_PUT && kind != EMX_RMA_GET;
    size_t len_bytes = kind == EMX_RMA_COMPARE_SWAP ? 8
                       : atomic                     ? 8 * (1 + how / 640 % 128)
                                                    : history_length(how / 640);
    struct emx_rma_args a = {.kind = kind,
                             .op = (enum ethmx_rma_op)(how / 10 % 4),
                             .type = ETHMX_RMA_INT64,
                             .key = FUZZ_REGION_KEY,
                             .offset = places[how / 40 % (sizeof(places) / sizeof(*places))],
                             .mode = how / 5 % 2 ? ETHMX_RMA_LOCAL : ETHMX_RMA_REMOTE,
                             .done = done};
    struct emx_peer *peer = peer_of(h, n, to);
    size_t none = 0;
    struct call *c;

    if (!peer || !(c = new_call(h, n, sizeof(none) + len_bytes)))
        return;
    c->is_send = true; /* nobody knows what is there */
    memcpy(c->data, &none, sizeof(none));
    memcpy(c->data + sizeof(none), content(len_bytes), len_bytes);
    a.arg = c;
    a.data = (struct ethmx_data){.base = c->data + sizeof(none), .len_bytes = len_bytes};
    a.operand = a.compare = a.set = a.data.base;
    if (emx_progress_rma(&h->node[n].progress, peer, &a, how / 5 % 2) != ETHMX_INPROGRESS)
        forget_call(c);
    pump(h, n);
}

void history_rma_flush(struct history *h, unsigned n, unsigned to, bool all)
{
    struct emx_peer *peer = all ? NULL : peer_of(h, n, to);
    size_t none = 0;
    struct call *c;

    if ((!peer && !all) || !(c = new_call(h, n, sizeof(none))))
        return;
    c->is_send = true;
    memcpy(c->data, &none, sizeof(none));
    if (emx_engine_rma_flush(h->node[n].engine, peer, done, c, fuzz_node_now(&h->node[n])) != ETHMX_INPROGRESS)
        forget_call(c);
    pump(h, n);
}

/* What comes afterwards must not touch the memory: it is given back. */
void history_withdraw(struct history *h, unsigned n)
{
    struct fuzz_node *node = &h->node[n];

    if (!node->region)
        return;
    FUZZ_CHECK(emx_engine_withdraw(node->engine, node->region, fuzz_node_now(node)) == ETHMX_OK, "no memory");
    node->region = NULL;
    free(node->exposed);
    node->exposed = NULL;
    pump(h, n);
}

void history_goodbye(struct history *h, unsigned n)
{
    emx_engine_close(h->node[n].engine, fuzz_node_now(&h->node[n]));
    pump(h, n);
}

/* Of a peer that is open still: it is refused, unless by force. */
void history_remove(struct history *h, unsigned n, unsigned other, bool force)
{
    struct emx_engine *e = h->node[n].engine;
    uint32_t id = h->node[other % h->nodes].id;
    struct emx_peer *peer = emx_peer_find(e, id);
    int rc;

    if (!peer)
        return;
    rc = emx_engine_remove(e, peer, force, fuzz_node_now(&h->node[n]));
    FUZZ_CHECK(rc == ETHMX_OK || rc == ETHMX_ERR_PARAM || rc == ETHMX_ERR_CLOSED || (rc == ETHMX_ERR_BUSY && !force),
               "a removal returns %d", rc);
    FUZZ_CHECK(rc != ETHMX_OK || !emx_peer_find(e, id), "a peer is found that was removed");
    pump(h, n);
}

/* ---- What becomes of frames ---- */

static void arrive(struct history *h, struct packet p)
{
    input(h, p.to, p.data, p.len_bytes);
    free(p.data);
}

/* A reliable wire keeps the order of frames between two, and may be chosen from among the first of each pair only. */
static unsigned choose(const struct history *h, unsigned choice)
{
    unsigned i = choice % h->packets;

    for (unsigned k = 0; h->reliable && k < i; k++)
        if (h->packet[k].from == h->packet[i].from && h->packet[k].to == h->packet[i].to)
            return k;
    return i;
}

void history_deliver(struct history *h, unsigned choice)
{
    if (h->packets)
        arrive(h, take_packet(h, choose(h, choice)));
}

void history_deliver_all(struct history *h)
{
    for (unsigned i = 0; h->packets && i < 4 * FRAMES_MAX; i++)
        arrive(h, take_packet(h, 0));
}

void history_lose(struct history *h, unsigned choice)
{
    if (h->packets)
        free(take_packet(h, choose(h, choice)).data);
}

void history_double(struct history *h, unsigned choice)
{
    const struct packet *p = h->packets ? &h->packet[choose(h, choice)] : NULL;

    if (p)
        history_carry(h, p->from, p->to, fuzz_copy(p->data, p->len_bytes), p->len_bytes);
}

/* The frame of a packet, without its tag. */
static void untag(struct packet *p)
{
    if (p->len_bytes < sizeof(struct emx_tag) || p->data[0] != EMX_FRAME_V_TAGGED)
        return;
    p->len_bytes -= (uint32_t)sizeof(struct emx_tag);
    memmove(p->data, p->data + sizeof(struct emx_tag), p->len_bytes);
}

void history_alter(struct history *h, unsigned choice, unsigned at, uint8_t value, bool seal)
{
    struct packet p;

    if (!h->packets)
        return;
    p = take_packet(h, choose(h, choice));
    h->altered |= seal || !h->auth;
    p.data[at % p.len_bytes] = value;
    if (seal) {
        untag(&p);
        history_seal(h, p.from, p.to, &p.data, &p.len_bytes, (unsigned)h->cfg.p_checksum);
    }
    arrive(h, p);
}

/* ---- Time ---- */

/* Engines that wait for a later time are left alone: to them nothing happens. */
void history_pass(struct history *h, uint64_t ns)
{
    h->now += ns;
    for (unsigned i = 0; i < h->nodes; i++)
        if (emx_engine_deadline(h->node[i].engine) <= h->now)
            pump(h, i);
}

static emx_time next_deadline(const struct history *h)
{
    emx_time first = EMX_NEVER;

    for (unsigned i = 0; i < h->nodes; i++)
        if (emx_engine_deadline(h->node[i].engine) < first)
            first = emx_engine_deadline(h->node[i].engine);
    return first;
}

void history_next_deadline(struct history *h)
{
    emx_time at = next_deadline(h);

    if (at != EMX_NEVER)
        history_pass(h, at - h->now);
}

void history_quiet(struct history *h)
{
    for (unsigned i = 0; i < QUIET_STEPS && (h->packets || next_deadline(h) != EMX_NEVER); i++) {
        history_deliver_all(h);
        history_next_deadline(h);
    }
}

/* ---- A beginning for frames from outside ---- */

void history_connect(struct history *h, unsigned a, unsigned b)
{
    history_send(h, a, b, 0, 1, false, false);
    history_receive(h, b, a, 0, 1, 0);
    history_deliver_all(h);
}

void history_open_some(struct history *h)
{
    history_receive(h, 0, 1, 1, 1200, 0);
    history_receive(h, 0, 1, 2, 1500, 1);
    history_receive(h, 0, 1, 3, 100, 3);
    history_send(h, 0, 1, 4, 1500, false, false);
    history_send(h, 0, 1, 5, 100, true, false);
    history_send(h, 1, 0, 2, 1500, false, false);
    history_rma(h, 0, 1, 1 + 640 * 10);
    history_rma(h, 0, 1, 3);
    history_rma(h, 0, 1, 0 + 640 * 9);
    for (unsigned i = 0; i < 4; i++)
        history_deliver(h, 0);
}
