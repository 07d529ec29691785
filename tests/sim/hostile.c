/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Hostile: frames that are not ours, among random programs. They are counted for what they are, and nothing else
 * happens.
 */
#include <string.h>

#include "base/crc32c.h"
#include "scenario.h"

#define STRANGERS 300 /* frames injected in a history */
#define WITHIN_NS (30 * SIM_MS)

struct stranger {
    uint8_t data[2048] __attribute__((aligned(8)));
    size_t len_bytes;
};

static struct emx_frame *head(struct stranger *x)
{
    return (void *)x->data;
}

static void seal(const struct sim_node *n, struct stranger *x)
{
    emx_frame_seal(x->data, x->len_bytes, NULL, 0, n->cfg.p_checksum);
}

/* A frame as a peer of node n could send it; from: an id. */
static void make(struct sim_node *n, uint32_t from, enum emx_frame_type type, struct emx_rng *rng, struct stranger *x)
{
    size_t body = emx_frame_info[type].head_bytes + emx_rng_below(rng, 1400);

    x->len_bytes = sizeof(struct emx_frame) + body;
    for (size_t i = 0; i < x->len_bytes; i += 8)
        *(uint64_t *)(void *)(x->data + i) = emx_rng_next(rng);
    *head(x) = (struct emx_frame){.type = type,
                                  .body_bytes = body,
                                  .dst_id = n->world->party[n->party].id,
                                  .cookie = n->world->cookie,
                                  .src_id = from};
    seal(n, x);
}

/* One frame of each reason to drop it; returns the reason. */
static enum emx_drop make_stranger(struct sim_node *n, struct emx_rng *rng, struct stranger *x)
{
    const uint32_t nobody = 0x0bad1dea;
    enum emx_frame_type type = 1 + emx_rng_below(rng, EMX_F_COUNT - 1);

    while (!emx_frame_info[type].name)
        type--;
    make(n, nobody, type, rng, x);
    switch (emx_rng_below(rng, 9)) {
    case 0: /* of another protocol with the same EtherType */
        x->data[0] = emx_rng_below(rng, 0xb0);
        return EMX_DROP_VERSION;
    case 1:
        x->len_bytes = emx_rng_below(rng, sizeof(struct emx_frame));
        return EMX_DROP_SHORT;
    case 2:
        head(x)->body_bytes += 1 + emx_rng_below(rng, 10000);
        return EMX_DROP_SHORT;
    case 3:
        head(x)->dst_id ^= 1 + emx_rng_below(rng, 1000000);
        seal(n, x);
        return EMX_DROP_NOT_MINE;
    case 4:
        head(x)->cookie ^= 1 + emx_rng_below(rng, 1000000);
        seal(n, x);
        return EMX_DROP_COOKIE;
    case 5:
        head(x)->check ^= 1 + emx_rng_below(rng, UINT32_MAX);
        return EMX_DROP_CHECK;
    case 6:
        head(x)->type = EMX_F_COUNT + emx_rng_below(rng, 256 - EMX_F_COUNT);
        seal(n, x);
        return EMX_DROP_TYPE;
    case 7: /* too short for its own header */
        head(x)->body_bytes = emx_rng_below(rng, emx_frame_info[EMX_F_pull].head_bytes);
        head(x)->type = EMX_F_pull;
        x->len_bytes = sizeof(struct emx_frame) + head(x)->body_bytes;
        seal(n, x);
        /* With checksums, one over more than there is cannot fit. */
        return n->cfg.p_checksum == EMX_CHECKSUM_HEADER ? EMX_DROP_CHECK : EMX_DROP_MALFORMED;
    default: /* well-formed, but from somebody who never said hello */
        return type == EMX_F_hello ? EMX_DROP_MALFORMED : EMX_DROP_NO_SESSION;
    }
}

static uint64_t *counter(struct sim_node *n, unsigned i)
{
    return &((uint64_t *)(void *)&n->stats)[i];
}

static void strangers(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    uint64_t expected[4][EMX_C_COUNT] = {{0}};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;
    struct stranger x;
    uint64_t end_ns;
    unsigned dst;

    sim_case_begin(c, 2 + c->seed % 3, 1);
    w->cfg.p_checksum = c->seed / 3 % 3;
    if (w->cfg.p_checksum == EMX_CHECKSUM_OFF)
        w->cfg.p_checksum = EMX_CHECKSUM_FULL;
    sim_world_start(w);
    end_ns = w->now_ns + WITHIN_NS;
    for (unsigned i = 0; i < STRANGERS; i++) {
        dst = emx_rng_below(&rng, w->node_count);
        expected[dst][make_stranger(&w->nodes[dst], &rng, &x)]++;
        sim_link_inject(sim_world_link(w, (dst + 1) % w->node_count, dst, 0), x.data, x.len_bytes,
                        w->now_ns + emx_rng_below(&rng, WITHIN_NS));
    }
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed);
    sim_traffic_run(t, w->now_ns + 5 * SIM_S);
    sim_world_run_until(w, end_ns);
    for (unsigned i = 0; i < w->node_count && !sim_failed(w); i++)
        for (unsigned k = EMX_C_drop_short; k <= EMX_C_drop_no_session; k++)
            if (*counter(&w->nodes[i], k) != expected[i][k])
                sim_fail(w, "n%u: drop counter %u is %llu; %llu such frames came", i, k - EMX_C_drop_short,
                         (unsigned long long)*counter(&w->nodes[i], k), (unsigned long long)expected[i][k]);
    sim_traffic_free(t);
    sim_case_end(c);
}

/* ---- Forged: a member of the job gone mad. Nothing is promised but that no engine breaks. ---- */

struct mad {
    struct sim_world *w;
    struct emx_rng rng;
    unsigned open;
};

static void mad_done(void *arg, const struct ethmx_result *result)
{
    struct mad *m = arg;

    (void)result;
    m->open--;
}

static uint8_t mad_memory[65536];

static void mad_op(struct mad *m)
{
    struct sim_world *w = m->w;
    struct sim_node *n = &w->nodes[emx_rng_below(&m->rng, w->node_count)];
    struct emx_peer *peer = sim_node_peer(n, w->nodes[emx_rng_below(&m->rng, w->node_count)].party);
    struct emx_op_args a = {.bits = emx_rng_below(&m->rng, 4),
                            .mask = emx_rng_below(&m->rng, 4),
                            .data = {.len_bytes = emx_rng_below(&m->rng, sizeof(mad_memory)), .base = mad_memory},
                            .mode = emx_rng_below(&m->rng, 2),
                            .done = mad_done,
                            .arg = m};
    struct ethmx_result result;
    struct emx_op *op;
    int rc;

    if (!peer)
        return;
    if (emx_rng_below(&m->rng, 2))
        rc = sim_node_send(n, peer, &a);
    else
        rc = emx_progress_recv(&n->progress, emx_rng_below(&m->rng, 2) ? peer : NULL, &a, &op, &result);
    m->open += rc == ETHMX_INPROGRESS;
    sim_node_pump(n);
}

/* Frames on the way have bytes behind the addresses changed, and a checksum that fits. */
static enum sim_verdict forge(void *arg, const struct sim_look *look, uint64_t *delay_ns_p)
{
    struct mad *m = arg;
    struct sim_world *w = m->w;
    uint8_t *data = (void *)(uintptr_t)look->data;
    size_t from = offsetof(struct emx_frame, seq);

    (void)delay_ns_p;
    if (!emx_rng_chance(&m->rng, 100000))
        return emx_rng_chance(&m->rng, 20000) ? SIM_DUPLICATE : SIM_PASS;
    for (unsigned n = 1 + emx_rng_below(&m->rng, 3); n; n--)
        data[from + emx_rng_below(&m->rng, look->len_bytes < 96 ? look->len_bytes - from : 64)] =
            emx_rng_below(&m->rng, 2) ? emx_rng_next(&m->rng) : emx_rng_below(&m->rng, 2) * 0xff;
    if (emx_rng_chance(&m->rng, 100000))
        data[1] = 1 + emx_rng_below(&m->rng, EMX_F_COUNT - 1);
    emx_frame_seal(data, look->len_bytes, NULL, 0, w->nodes[look->link->dst].cfg.p_checksum);
    return SIM_PASS;
}

/* Who believes a forged address reads what lies there, or nothing. */
static int mad_read(void *arg, struct sim_node *n, struct sim_node *from, const struct emx_wire_read *r)
{
    uint64_t begin = (uintptr_t)mad_memory;

    (void)arg, (void)n, (void)from;
    if (r->remote < begin || r->len_bytes > sizeof(mad_memory) || r->remote - begin > sizeof(mad_memory) - r->len_bytes)
        return ETHMX_ERR_UNREACHABLE;
    memmove(r->local, (const void *)(uintptr_t)r->remote, r->len_bytes);
    return ETHMX_OK;
}

static void mad_am(void *arg, struct sim_node *n, struct emx_unexpected *msg, const struct ethmx_am *am, unsigned id)
{
    (void)arg, (void)am, (void)id;
    emx_engine_release(n->engine, msg, sim_node_now(n));
}

static void forged(struct sim_case *c)
{
    static const struct sim_program_ops ops = {.am = mad_am};
    struct sim_world *w = &c->world;
    struct mad m = {.w = w, .rng = {.state = emx_mix64(c->seed)}};

    sim_case_begin(c, 2 + c->seed % 2, 1);
    w->cfg.p_checksum = EMX_CHECKSUM_FULL;
    w->cfg.p_peer_timeout = 2 * SIM_S;
    w->cfg.p_unexpected_max = 200000;
    w->reads = c->seed & 4;
    w->read = mad_read;
    w->mad = true;
    if (!w->reads && c->seed & 8) {
        w->connected = w->lend_mixed = true;
        w->export_min_bytes = 100;
        w->lend_bytes = 5000;
    }
    sim_world_start(w);
    for (unsigned i = 0; i < w->node_count; i++)
        w->nodes[i].program = &ops;
    sim_world_judge(w, forge, &m);
    for (unsigned i = 0; i < 200 && !sim_failed(w); i++) {
        mad_op(&m);
        sim_world_run_until(w, w->now_ns + emx_rng_below(&m.rng, SIM_MS));
    }
    sim_world_run_until(w, w->now_ns + 10 * SIM_S);
    sim_case_end(c);
}

/* ---- Pieces of frames that are none ---- */

#define PIECES       2000
#define PLACES_BYTES (4 * (9216 + 256)) /* docs/architecture.md, and what it costs to manage them */

/* A piece as node 0 could send it to node 1. Half of them pretend to be of the frames that come next. */
static void forge_piece(struct sim_case *c, struct emx_rng *rng)
{
    struct sim_world *w = &c->world;
    const struct sim_node *a = &w->nodes[0], *b = &w->nodes[1];
    uint16_t n = (uint16_t)(8 + emx_rng_below(rng, 60) * 8);
    struct {
        struct emx_frame h;
        struct emx_f_fragment t;
        uint8_t data[512];
    } EMX_LAYOUT f = {.h = {.type = EMX_F_fragment,
                            .body_bytes = (uint16_t)(sizeof(f.t) + n),
                            .dst_id = w->party[b->party].id,
                            .cookie = w->cookie,
                            .src_id = w->party[a->party].id},
                      .t = {.number = (uint32_t)emx_rng_next(rng) >> (emx_rng_below(rng, 2) ? 0 : 29),
                            .offset = (uint16_t)(emx_rng_below(rng, 1200) * 8),
                            .total_bytes = (uint16_t)emx_rng_below(rng, 9300)}};

    memset(f.data, (int)emx_rng_below(rng, 256), sizeof(f.data));
    emx_frame_seal(&f, sizeof(f.h) + f.h.body_bytes, NULL, 0, w->cfg.p_checksum);
    sim_link_inject(sim_world_link(w, 0, 1, 0), &f, sizeof(f.h) + f.h.body_bytes,
                    w->now_ns + emx_rng_below(rng, SIM_MS));
}

/* What is kept of them is bounded, and a frame that does come in pieces is put together all the same. */
static void forged_pieces(struct sim_case *c)
{
    struct emx_rng rng = {.state = emx_mix64(c->seed)};
    struct sim_program *p = &c->program;
    struct sim_world *w = &c->world;
    struct sim_node *a, *b;
    size_t before, now;

    sim_case_begin(c, 2, 1);
    w->frame_bytes[0] = 9000;
    w->cfg.p_checksum = EMX_CHECKSUM_FULL;
    sim_world_start(w);
    a = &w->nodes[0];
    b = &w->nodes[1];
    sim_connect(c, a, b);
    before = emx_engine_memory(b->engine);
    for (unsigned i = 0; i < PIECES; i++)
        forge_piece(c, &rng);
    sim_world_run_until(w, w->now_ns + 2 * SIM_MS);
    now = emx_engine_memory(b->engine);
    if (now <= before || now > before + PLACES_BYTES)
        sim_fail(w, "the engine holds %zu bytes more after pieces came", now - before);
    sim_world_link(w, 0, 1, 0)->faults.max_bytes = 437;
    sim_recv(p, b, a->party, 1, SIM_FULL_MASK, 8000, SIM_CONTIGUOUS);
    sim_send(p, a, b->party, 1, 8000, ETHMX_SEND_STANDARD, SIM_CONTIGUOUS);
    sim_node_pump(b);
    sim_node_pump(a);
    if (sim_program_run(p, w->now_ns + 5 * SIM_S))
        sim_model_check(p);
    if (!a->stats.fragments_sent)
        sim_fail(w, "no frame was cut");
    sim_case_end(c);
}

const struct sim_scenario sim_hostile[] = {
    {"strangers", "frames of others among random programs: counted by reason, nothing else", strangers, 0, 5},
    {"forged", "frames changed with a checksum that fits: no engine breaks", forged, 0, 5},
    {"forged-pieces", "pieces of frames that are none: memory is bounded, pieces of real ones come through",
     forged_pieces, 20, 0},
    {0},
};
