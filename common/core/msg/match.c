/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/msg/match.h"

#include <assert.h>

#include "base/hash.h"

#define BUCKETS_FIRST 64

static int match_table_init(struct emx_match_table *t, const struct emx_alloc *alloc, unsigned buckets)
{
    t->bucket = emx_alloc_get(alloc, buckets * sizeof(*t->bucket));
    if (!t->bucket)
        return -1;
    for (unsigned i = 0; i < buckets; i++)
        emx_list_init(&t->bucket[i]);
    t->mask = buckets - 1;
    t->count = 0;
    t->ignore = 0;
    return 0;
}

/* Bits that differ in the last four only, such as consecutive tags, share cache lines, but no bucket. The other bits
 * are mixed, so that no other pattern collides systematically. */
static struct emx_list *match_table_bucket(const struct emx_match_table *t, uint64_t bits)
{
    bits |= t->ignore;
    return &t->bucket[(emx_mix64(bits >> 4) + (bits & 15)) & t->mask];
}

static uint64_t match_posted_bits(const struct emx_list *link)
{
    return emx_list_entry(link, struct emx_posted, link)->bits;
}

static uint64_t match_arrived_bits(const struct emx_list *link)
{
    return emx_list_entry(link, struct emx_unexpected_match, link)->bits;
}

/* Doubles the table when it is full. Each old bucket is moved to two new ones from front to back, so that the order
 * inside a bucket, which is the order of matching, stays. Without memory the table stays as it is. */
static inline void match_table_make_room(struct emx_match_table *t, const struct emx_alloc *alloc,
                                         uint64_t (*bits_of)(const struct emx_list *link))
{
    struct emx_match_table wide;

    if (t->count <= t->mask || t->mask >= 1u << 30)
        return;
    if (match_table_init(&wide, alloc, 2 * (t->mask + 1)))
        return;
    wide.ignore = t->ignore;
    for (unsigned i = 0; i <= t->mask; i++) {
        struct emx_list *link;

        while ((link = emx_list_pop(&t->bucket[i])))
            emx_list_append(match_table_bucket(&wide, bits_of(link)), link);
    }
    wide.count = t->count;
    emx_alloc_put(alloc, t->bucket);
    *t = wide;
}

int emx_match_init(struct emx_match *m, const struct emx_alloc *alloc)
{
    *m = (struct emx_match){.alloc = alloc};
    emx_list_init(&m->wild);
    emx_list_init(&m->multi);
    emx_list_init(&m->queue);
    if (match_table_init(&m->posted, alloc, BUCKETS_FIRST))
        return -1;
    if (match_table_init(&m->arrived, alloc, BUCKETS_FIRST))
        goto err_free_posted;
    return 0;

err_free_posted:
    emx_alloc_put(alloc, m->posted.bucket);
    m->posted.bucket = NULL;
    return -1;
}

void emx_match_fini(struct emx_match *m)
{
    emx_alloc_put(m->alloc, m->posted.bucket);
    emx_alloc_put(m->alloc, m->arrived.bucket);
    m->posted.bucket = m->arrived.bucket = NULL;
}

void emx_match_ignore(struct emx_match *m, uint64_t bits)
{
    assert(!m->posted.count && !m->wild_count && !m->arrived.count);
    m->ignore = m->posted.ignore = m->arrived.ignore = bits;
}

static bool match_is_exact(const struct emx_match *m, uint64_t mask)
{
    return (mask | m->ignore) == UINT64_MAX;
}

void emx_match_post(struct emx_match *m, struct emx_posted *p)
{
    p->order = m->order++;
    p->mask &= ~m->ignore;
    if (!match_is_exact(m, p->mask)) {
        emx_list_append(&m->wild, &p->link);
        m->wild_count++;
        return;
    }
    match_table_make_room(&m->posted, m->alloc, match_posted_bits);
    emx_list_append(match_table_bucket(&m->posted, p->bits), &p->link);
    m->posted.count++;
    m->alone = m->posted.count == 1 ? p : NULL;
}

void emx_match_unpost(struct emx_match *m, struct emx_posted *p)
{
    emx_list_del(&p->link);
    if (match_is_exact(m, p->mask)) {
        m->posted.count--;
        m->alone = NULL;
    } else {
        m->wild_count--;
    }
}

void emx_match_post_multi(struct emx_match *m, struct emx_posted *p)
{
    p->order = m->order++;
    p->mask &= ~m->ignore;
    emx_list_append(&m->multi, &p->link);
    m->wild_count++;
    m->multi_count++;
}

void emx_match_unpost_multi(struct emx_match *m, struct emx_posted *p)
{
    emx_list_del(&p->link);
    m->wild_count--;
    m->multi_count--;
}

static bool match_peer_fits(const struct emx_peer *wanted, const struct emx_peer *peer)
{
    return !wanted || wanted == peer;
}

static bool match_takes(const struct emx_posted *p, uint64_t bits, const struct emx_peer *peer)
{
    return !((p->bits ^ bits) & p->mask) && match_peer_fits(p->peer, peer);
}

/* The earliest receive in the list that takes the message and was posted before order. */
static struct emx_posted *match_first_taker(const struct emx_list *list, uint64_t bits, const struct emx_peer *peer,
                                            uint64_t order)
{
    emx_list_each(link, list)
    {
        struct emx_posted *p = emx_list_entry(link, struct emx_posted, link);

        if (p->order >= order)
            return NULL;
        if (match_takes(p, bits, peer))
            return p;
    }
    return NULL;
}

struct emx_posted *emx_match_multi(const struct emx_match *m, uint64_t bits, const struct emx_peer *peer)
{
    struct emx_posted *p = match_first_taker(&m->multi, bits, peer, UINT64_MAX);

    if (!p || match_first_taker(match_table_bucket(&m->posted, bits), bits, peer, p->order) ||
        match_first_taker(&m->wild, bits, peer, p->order))
        return NULL;
    return p;
}

/* The earliest receive without wildcards that takes the message. */
static inline struct emx_posted *match_exact(const struct emx_match *m, uint64_t bits, const struct emx_peer *peer)
{
    if (m->alone)
        return match_takes(m->alone, bits, peer) ? m->alone : NULL;
    return m->posted.count ? match_first_taker(match_table_bucket(&m->posted, bits), bits, peer, UINT64_MAX) : NULL;
}

/* The earliest of all receives; exact: of those without wildcards. */
static struct emx_posted *match_earliest(const struct emx_match *m, uint64_t bits, const struct emx_peer *peer,
                                         struct emx_posted *exact)
{
    struct emx_posted *wild;

    if (m->multi_count && emx_match_multi(m, bits, peer))
        return NULL;
    wild = match_first_taker(&m->wild, bits, peer, exact ? exact->order : UINT64_MAX);
    return wild ? wild : exact;
}

/* Not inline, so that an arrival without these receives saves no registers. */
static __attribute__((noinline)) struct emx_posted *match_arrive_wild(struct emx_match *m, uint64_t bits,
                                                                      struct emx_peer *peer, struct emx_posted *exact)
{
    struct emx_posted *p = match_earliest(m, bits, peer, exact);

    if (p)
        emx_match_unpost(m, p);
    return p;
}

struct emx_posted *emx_match_arrive(struct emx_match *m, uint64_t bits, struct emx_peer *peer)
{
    struct emx_posted *exact = match_exact(m, bits, peer);

    if (m->wild_count)
        return match_arrive_wild(m, bits, peer, exact);
    if (exact)
        emx_match_unpost(m, exact);
    return exact;
}

struct emx_posted *emx_match_peek(const struct emx_match *m, uint64_t bits, const struct emx_peer *peer)
{
    return match_earliest(m, bits, peer, match_exact(m, bits, peer));
}

void emx_match_add(struct emx_match *m, struct emx_unexpected_match *a)
{
    match_table_make_room(&m->arrived, m->alloc, match_arrived_bits);
    emx_list_append(match_table_bucket(&m->arrived, a->bits), &a->link);
    emx_list_append(&m->queue, &a->queue);
    m->arrived.count++;
}

static bool match_arrived_fits(const struct emx_unexpected_match *a, uint64_t bits, uint64_t mask,
                               const struct emx_peer *peer)
{
    return !((a->bits ^ bits) & mask) && match_peer_fits(peer, a->peer);
}

struct emx_unexpected_match *emx_match_find(const struct emx_match *m, uint64_t bits, uint64_t mask,
                                            const struct emx_peer *peer)
{
    if (!m->arrived.count)
        return NULL;
    mask &= ~m->ignore;
    if (match_is_exact(m, mask)) {
        emx_list_each(link, match_table_bucket(&m->arrived, bits))
        {
            struct emx_unexpected_match *a = emx_list_entry(link, struct emx_unexpected_match, link);

            if (match_arrived_fits(a, bits, mask, peer))
                return a;
        }
        return NULL;
    }
    emx_list_each(link, &m->queue)
    {
        struct emx_unexpected_match *a = emx_list_entry(link, struct emx_unexpected_match, queue);

        if (match_arrived_fits(a, bits, mask, peer))
            return a;
    }
    return NULL;
}

void emx_match_take(struct emx_match *m, struct emx_unexpected_match *a)
{
    emx_list_del(&a->link);
    emx_list_del(&a->queue);
    m->arrived.count--;
}
