/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching against a model that does what MPI says in the plainest way: one array of receives and one of messages, in
 * order, searched from the front.
 */
#include "unit.h"

#include <string.h>

#include "core/msg/match.h"

#define PEERS   3
#define OBJECTS 4000

/* The engine's peers are unknown here; only their addresses count. */
static char peer_places[PEERS];

static struct emx_peer *peer(unsigned i)
{
    return (struct emx_peer *)(void *)&peer_places[i];
}

/* ---- The model ---- */

struct model {
    struct emx_posted *posted[OBJECTS];
    struct emx_unexpected_match *arrived[OBJECTS];
    unsigned posted_count, arrived_count;
};

static bool fits(uint64_t bits, uint64_t mask, const struct emx_peer *wanted, uint64_t msg_bits,
                 const struct emx_peer *from)
{
    return (bits & mask) == (msg_bits & mask) && (!wanted || wanted == from);
}

static void remove_at(void *array, unsigned *count, unsigned i)
{
    void **a = array;

    memmove(&a[i], &a[i + 1], (*count - i - 1) * sizeof(*a));
    --*count;
}

static struct emx_posted *model_arrive(const struct model *m, uint64_t bits, const struct emx_peer *from, unsigned *i_p)
{
    for (unsigned i = 0; i < m->posted_count; i++) {
        struct emx_posted *p = m->posted[i];

        if (fits(p->bits, p->mask, p->peer, bits, from)) {
            *i_p = i;
            return p;
        }
    }
    return NULL;
}

static struct emx_unexpected_match *model_find(const struct model *m, uint64_t bits, uint64_t mask,
                                               const struct emx_peer *wanted, unsigned *i_p)
{
    for (unsigned i = 0; i < m->arrived_count; i++)
        if (fits(bits, mask, wanted, m->arrived[i]->bits, m->arrived[i]->peer)) {
            *i_p = i;
            return m->arrived[i];
        }
    return NULL;
}

/* ---- Random use of both ---- */

struct run {
    struct emx_rng rng;
    struct emx_match match;
    struct model model;
    struct emx_posted posted[OBJECTS];
    bool multi[OBJECTS]; /* the receive takes several messages */
    struct emx_unexpected_match arrived[OBJECTS];
    unsigned posted_used, arrived_used;
    unsigned bit_values;   /* few: many messages alike; many: all differ */
    unsigned wild_ppm;     /* receives with a mask */
    unsigned any_peer_ppm; /* receives from any peer */
    unsigned multi_ppm;    /* receives that take several messages */
    unsigned arrival_ppm;  /* arrivals among arrivals and posts */
};

static uint64_t some_bits(struct run *r)
{
    uint64_t n = emx_rng_below(&r->rng, r->bit_values);

    return n << 32 | n % 3; /* both halves matter */
}

static uint64_t some_mask(struct run *r)
{
    static const uint64_t masks[] = {0, 0xffffffffull, ~0xffffffffull, ~1ull, 1ull << 32};

    if (!emx_rng_chance(&r->rng, r->wild_ppm))
        return UINT64_MAX;
    return masks[emx_rng_below(&r->rng, ARRAY_LEN(masks))];
}

static struct emx_peer *some_peer(struct run *r, unsigned any_ppm)
{
    return emx_rng_chance(&r->rng, any_ppm) ? NULL : peer((unsigned)emx_rng_below(&r->rng, PEERS));
}

static bool is_multi(const struct run *r, const struct emx_posted *p)
{
    return r->multi[p - r->posted];
}

static void unpost(struct run *r, unsigned i)
{
    struct emx_posted *p = r->model.posted[i];

    (is_multi(r, p) ? emx_match_unpost_multi : emx_match_unpost)(&r->match, p);
    remove_at(r->model.posted, &r->model.posted_count, i);
}

/* A message meets a receive, or none. One that takes several is full now and then. */
static bool meet(struct run *r, uint64_t bits, struct emx_peer *from, struct emx_posted **want_p)
{
    unsigned i = 0;
    struct emx_posted *want = model_arrive(&r->model, bits, from, &i);
    bool multi = want && is_multi(r, want);

    *want_p = want;
    CHECK(emx_match_multi(&r->match, bits, from) == (multi ? want : NULL));
    CHECK(emx_match_arrive(&r->match, bits, from) == (multi ? NULL : want));
    if (multi && emx_rng_chance(&r->rng, 300000))
        unpost(r, i);
    else if (want && !multi)
        remove_at(r->model.posted, &r->model.posted_count, i);
    return true;
}

static bool arrival(struct run *r)
{
    uint64_t bits = some_bits(r);
    struct emx_peer *from = some_peer(r, 0);
    struct emx_posted *want;
    struct emx_unexpected_match *a;

    CHECK(meet(r, bits, from, &want));
    if (want)
        return true;
    a = &r->arrived[r->arrived_used++];
    a->bits = bits;
    a->peer = from;
    emx_match_add(&r->match, a);
    r->model.arrived[r->model.arrived_count++] = a;
    return true;
}

/* A receive, a probe (looks only) or a matched probe (takes, posts nothing). */
static bool receive(struct run *r, bool take, bool post)
{
    uint64_t bits = some_bits(r), mask = some_mask(r);
    struct emx_peer *from = some_peer(r, r->any_peer_ppm);
    struct emx_posted *p;
    unsigned i = 0;
    struct emx_unexpected_match *want = model_find(&r->model, bits, mask, from, &i);

    CHECK(emx_match_find(&r->match, bits, mask, from) == want);
    if (want && take) {
        emx_match_take(&r->match, want);
        remove_at(r->model.arrived, &r->model.arrived_count, i);
    }
    if (want || !post)
        return true;
    p = &r->posted[r->posted_used++];
    p->bits = bits;
    p->mask = mask;
    p->peer = from;
    r->multi[p - r->posted] = emx_rng_chance(&r->rng, r->multi_ppm);
    (is_multi(r, p) ? emx_match_post_multi : emx_match_post)(&r->match, p);
    r->model.posted[r->model.posted_count++] = p;
    return true;
}

static void cancel(struct run *r)
{
    if (r->model.posted_count)
        unpost(r, (unsigned)emx_rng_below(&r->rng, r->model.posted_count));
}

static bool step(struct run *r)
{
    uint64_t what = emx_rng_below(&r->rng, 100);

    if (what < 6) {
        cancel(r);
        return true;
    }
    if (what < 12)
        return receive(r, false, false);
    if (what < 16)
        return receive(r, true, false);
    if (emx_rng_chance(&r->rng, r->arrival_ppm))
        return arrival(r);
    return receive(r, true, true);
}

static bool counts_agree(const struct run *r)
{
    CHECK(r->match.posted.count + r->match.wild_count == r->model.posted_count);
    CHECK(r->match.arrived.count == r->model.arrived_count);
    return true;
}

static bool against_model(uint64_t seed, const struct emx_alloc *alloc)
{
    struct run *r = calloc(1, sizeof(*r));
    bool ok = true;

    CHECK(r);
    r->rng.state = seed;
    r->bit_values = 1u << emx_rng_below(&r->rng, 13);
    r->wild_ppm = (unsigned)emx_rng_below(&r->rng, 3) * 200000;
    r->any_peer_ppm = (unsigned)emx_rng_below(&r->rng, 3) * 300000;
    r->multi_ppm = (unsigned)emx_rng_below(&r->rng, 2) * 200000;
    r->arrival_ppm = 300000 + (unsigned)emx_rng_below(&r->rng, 400000);
    ok = !emx_match_init(&r->match, alloc);
    for (unsigned i = 0; ok && i < OBJECTS; i++)
        ok = step(r) && counts_agree(r);
    while (ok && r->model.posted_count) { /* what is left comes out by arrival, in order */
        struct emx_posted *p = r->model.posted[0];

        ok = meet(r, p->bits, p->peer ? p->peer : peer(0), &p);
    }
    ok = ok && counts_agree(r);
    emx_match_fini(&r->match);
    free(r);
    return ok;
}

static bool plain_run(uint64_t seed)
{
    return against_model(seed, &emx_alloc_libc);
}

static void matches_as_the_model_does(void **state)
{
    (void)state;
    each_seed(300, plain_run);
}

/* The tables cannot grow: slower, but right. */
static bool starved_run(uint64_t seed)
{
    struct unit_alloc u;
    bool ok;

    unit_alloc_init(&u);
    u.fail_at = 3 + (unsigned)(seed % 4);
    ok = against_model(seed, &u.alloc);
    CHECK(u.live == 0);
    return ok;
}

static void matches_also_without_memory_to_grow(void **state)
{
    (void)state;
    each_seed(60, starved_run);
}

/* ---- Single rules ---- */

static void init_without_memory_leaves_nothing(void **state)
{
    struct emx_match m;
    struct unit_alloc u;

    (void)state;
    for (unsigned fail_at = 1; fail_at <= 2; fail_at++) {
        unit_alloc_init(&u);
        u.fail_at = fail_at;
        assert_int_equal(emx_match_init(&m, &u.alloc), -1);
        assert_int_equal(u.live, 0);
    }
}

static void the_earlier_of_exact_and_wildcard_wins(void **state)
{
    struct emx_match m;
    struct emx_posted wild = {.bits = 0, .mask = 0}, exact = {.bits = 5, .mask = UINT64_MAX};

    (void)state;
    assert_int_equal(emx_match_init(&m, &emx_alloc_libc), 0);
    emx_match_post(&m, &wild);
    emx_match_post(&m, &exact);
    assert_ptr_equal(emx_match_arrive(&m, 5, peer(0)), &wild);
    assert_ptr_equal(emx_match_arrive(&m, 5, peer(0)), &exact);
    emx_match_post(&m, &exact);
    emx_match_post(&m, &wild);
    assert_ptr_equal(emx_match_arrive(&m, 5, peer(0)), &exact);
    assert_ptr_equal(emx_match_arrive(&m, 6, peer(0)), &wild);
    assert_null(emx_match_arrive(&m, 5, peer(0)));
    emx_match_fini(&m);
}

/* Bits that only travel do not make a receive a wildcard, nor keep a message from it, nor lead to another bucket. */
static void ignored_bits_decide_nothing(void **state)
{
    enum { FLAG = 0x60, MANY = 1000 };
    struct emx_posted p = {.bits = 5, .mask = ~(uint64_t)FLAG}, full = {.bits = 5, .mask = UINT64_MAX};
    struct emx_unexpected_match a = {.bits = 5 | FLAG, .peer = peer(0)};
    struct emx_posted *many = calloc(MANY, sizeof(*many));
    struct emx_match m;

    (void)state;
    assert_non_null(many);
    assert_int_equal(emx_match_init(&m, &emx_alloc_libc), 0);
    emx_match_ignore(&m, FLAG);
    emx_match_post(&m, &p);
    emx_match_post(&m, &full);
    assert_int_equal(m.wild_count, 0);
    assert_ptr_equal(emx_match_arrive(&m, 5 | FLAG, peer(0)), &p);
    assert_ptr_equal(emx_match_arrive(&m, 5 | 0x20, peer(0)), &full);
    emx_match_add(&m, &a);
    assert_ptr_equal(emx_match_find(&m, 5, UINT64_MAX, NULL), &a);
    assert_ptr_equal(emx_match_find(&m, 5 | 0x40, ~(uint64_t)FLAG, peer(0)), &a);
    assert_null(emx_match_find(&m, 6, UINT64_MAX, NULL));
    emx_match_take(&m, &a);
    for (unsigned i = 0; i < MANY; i++) { /* the tables grow */
        many[i] = (struct emx_posted){.bits = (uint64_t)i << 16, .mask = UINT64_MAX};
        emx_match_post(&m, &many[i]);
    }
    for (unsigned i = 0; i < MANY; i++)
        assert_ptr_equal(emx_match_arrive(&m, (uint64_t)i << 16 | FLAG, peer(0)), &many[i]);
    emx_match_fini(&m);
    free(many);
}

/* The reason for the hash: many elements, yet each look-up sees about one. Counted, not timed. */
static void tables_grow_with_their_load(void **state)
{
    enum { MANY = 10000 };
    struct emx_unexpected_match *a = calloc(MANY, sizeof(*a));
    struct emx_match m;
    unsigned longest = 0;

    (void)state;
    assert_non_null(a);
    assert_int_equal(emx_match_init(&m, &emx_alloc_libc), 0);
    for (unsigned i = 0; i < MANY; i++) {
        a[i].bits = (uint64_t)i << 16;
        a[i].peer = peer(0);
        emx_match_add(&m, &a[i]);
    }
    for (unsigned b = 0; b <= m.arrived.mask; b++) {
        unsigned n = 0;

        emx_list_each(link, &m.arrived.bucket[b]) n += link != NULL;
        if (n > longest)
            longest = n;
    }
    assert_true(longest <= 10);
    for (unsigned i = MANY; i-- > 0;) {
        assert_ptr_equal(emx_match_find(&m, (uint64_t)i << 16, UINT64_MAX, NULL), &a[i]);
        emx_match_take(&m, &a[i]);
    }
    assert_true(emx_list_empty(&m.queue));
    emx_match_fini(&m);
    free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_as_the_model_does),          cmocka_unit_test(matches_also_without_memory_to_grow),
        cmocka_unit_test(init_without_memory_leaves_nothing), cmocka_unit_test(the_earlier_of_exact_and_wildcard_wins),
        cmocka_unit_test(ignored_bits_decide_nothing),        cmocka_unit_test(tables_grow_with_their_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
