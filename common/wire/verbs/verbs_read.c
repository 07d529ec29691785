/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Exporting. The registration cache holds the requested part of the message's memory until the message ends. The key is
 * the device's, with the connection's number (nonce) in its upper half. The peer uses it over that connection only. So
 * after a sender has ended the connection, nobody reads its memory any more, even if it stays registered for the next
 * message.
 *
 * Reading. A read is split into parts of ETHMX_VERBS_READ_BYTES, of which the device gets at most ETHMX_VERBS_READS,
 * because all messages of a peer share the connection, and frames must be sent between the parts. Parts complete in any
 * order; reads are reported in order. Memory is registered part by part, just before it is needed, while earlier parts
 * are in flight.
 *
 * Writing is the same with the ends exchanged: the receiver exports, the sender's device writes. With RoCE and
 * InfiniBand a write is complete when the other device has acknowledged it. With iWARP, completion only means that TCP
 * has it. So an empty read follows the last part, and the write ends when that completes: the other device replies to
 * it after it has placed all data before it (RFC 5040, 5.5).
 *
 * RoCE treats packets that arrive out of order as lost. The device goes back and retransmits, and gives up after some
 * time without an acknowledgement. Only the end of a part is sure to be acknowledged. (The data of a read acknowledges
 * it.) So after a device has given up, parts to that peer are much shorter, and become longer again step by step.
 *
 * Messages below the registration threshold (mem/threshold.h) are refused and go in frames. The engine knows the lower
 * of the two thresholds. For memory whose pages are absent only longer messages may pay, so this file checks again. The
 * engine does not export messages that should be sent eagerly.
 */
#include "wire/verbs/verbs_read.h"

#include <stdlib.h>
#include <string.h>

#include "mem/measure.h"

#define SHORTER   16   /* factor, when the device has given up */
#define SHORTEST  4096 /* bytes, at least */
#define WELL_MANY 256  /* successful parts before the length is doubled */

/* Registered memory, in use by parts of reads. */
struct emx_verbs_hold {
    struct emx_regcache *cache;
    struct emx_region *region;
    unsigned users;
};

struct emx_verbs_read {
    struct emx_list link; /* in conn.reads, then in wire.ended */
    struct emx_wire_read r;
    size_t started, over; /* bytes started, completed */
    struct emx_verbs_hold *hold;
    int status;
    bool flushing, flushed; /* with iWARP: the empty read after a write */
};

/* An exported part of a message. */
struct verbs_export {
    struct verbs_export *next;   /* of the same message */
    struct emx_list link;        /* in wire.exports */
    struct emx_verbs_conn *conn; /* NULL: the connection has ended */
    struct emx_regcache *cache;
    struct emx_region *region;
    uintptr_t end;
};

/* ---- The registration threshold ---- */

static uint64_t verbs_read_threshold(const struct emx_reg_threshold *c)
{
    return c->resident_bytes < c->fresh_bytes ? c->resident_bytes : c->fresh_bytes;
}

uint64_t emx_verbs_export_min(const struct emx_verbs_wire *w)
{
    uint64_t min = 0;

    for (unsigned i = 0; i < w->dev_count; i++) {
        if (w->dev[i]->cache && (!min || verbs_read_threshold(&w->dev[i]->threshold) < min))
            min = verbs_read_threshold(&w->dev[i]->threshold);
    }
    return min;
}

const struct emx_costs *emx_verbs_export_costs(const struct emx_verbs_wire *w)
{
    for (unsigned i = 0; i < w->dev_count; i++) {
        if (w->dev[i]->cache && w->dev[i]->threshold.way.count)
            return &w->dev[i]->threshold.way;
    }
    return NULL;
}

static bool verbs_read_pays(const struct emx_verbs_dev *d, const void *base, size_t len_bytes)
{
    const struct emx_reg_threshold *c = &d->threshold;
    bool if_there = len_bytes >= c->resident_bytes, if_not = len_bytes >= c->fresh_bytes;

    return if_there == if_not ? if_there : emx_is_resident(base, len_bytes) ? if_there : if_not;
}

/* ---- Exporting ---- */

static struct emx_verbs_conn *verbs_read_connected(struct emx_wire *base, const struct emx_wire_addr *to)
{
    struct emx_verbs_way way;
    struct emx_verbs_peer *p;

    memcpy(&way, to, sizeof(way));
    p = emx_verbs_peer_get((struct emx_verbs_wire *)base, way.id);
    return p && p->conn && p->conn->state == EMX_VERBS_UP && !p->conn->broken ? p->conn : NULL;
}

static int verbs_read_get_region(const struct emx_verbs_dev *d, struct emx_wire_export *l, const void *at, size_t n,
                                 struct emx_region **r_p)
{
    unsigned access = l->write ? EMX_MEM_WRITE : EMX_MEM_READ;

    l->kept = emx_regcache_find(d->cache, at, n, access, r_p);
    if (l->kept)
        return ETHMX_OK;
    if (!verbs_read_pays(d, l->base, l->len_bytes))
        return ETHMX_ERR_PARAM;
    if (l->free_only && d->overlap)
        return ETHMX_INPROGRESS;
    return emx_regcache_get(d->cache, at, n, access, r_p);
}

int emx_verbs_export(struct emx_wire *base, struct emx_wire_export *l, void **held)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;
    struct emx_verbs_conn *c = verbs_read_connected(base, l->to);
    struct verbs_export *x;
    const void *at;
    size_t n;
    int rc;

    if (!c)
        return ETHMX_INPROGRESS;
    if (!c->dev->cache || (l->write && !emx_verbs_halts(c->dev)))
        return ETHMX_ERR_PARAM;
    x = calloc(1, sizeof(*x));
    if (!x)
        return ETHMX_ERR_NO_MEMORY;
    emx_regcache_part(c->dev->cache, l->base, l->len_bytes, l->offset, &at, &n);
    rc = verbs_read_get_region(c->dev, l, at, n, &x->region);
    if (rc) {
        free(x);
        return rc;
    }
    x->conn = c;
    c->exposed++;
    x->cache = c->dev->cache;
    x->end = (uintptr_t)at + n;
    x->next = *held;
    *held = x;
    emx_list_init(&x->link);
    emx_list_append(&w->exports, &x->link);
    l->key = (uint64_t)c->nonce << 32 | ((struct ibv_mr *)x->region->mr)->rkey;
    l->end = x->end - (uintptr_t)l->base;
    return ETHMX_OK;
}

static void verbs_read_unexport_one(struct verbs_export *x)
{
    emx_list_del(&x->link);
    if (x->conn)
        x->conn->exposed--;
    if (x->cache)
        emx_regcache_put(x->cache, x->region);
    free(x);
}

void emx_verbs_exported_over(struct emx_verbs_wire *w, const struct emx_verbs_conn *c)
{
    emx_list_each(l, &w->exports)
    {
        struct verbs_export *x = emx_list_entry(l, struct verbs_export, link);

        if (x->conn == c)
            x->conn = NULL;
    }
}

void emx_verbs_exported_forget(struct emx_verbs_wire *w, const struct emx_verbs_dev *d)
{
    emx_list_each(l, &w->exports)
    {
        struct verbs_export *x = emx_list_entry(l, struct verbs_export, link);

        if (x->cache != d->cache)
            continue;
        if (x->cache)
            emx_regcache_put(x->cache, x->region);
        x->cache = NULL;
    }
}

void emx_verbs_unexport(struct emx_wire *w, void **held, const void *until)
{
    struct verbs_export *rest = NULL, *next;

    (void)w;
    for (struct verbs_export *x = *held; x; x = next) {
        next = x->next;
        if (until && x->end > (uintptr_t)until) {
            x->next = rest;
            rest = x;
        } else {
            verbs_read_unexport_one(x);
        }
    }
    *held = rest;
}

/* ---- Local memory ---- */

static void verbs_read_release(struct emx_verbs_hold *h)
{
    if (!h || --h->users)
        return;
    emx_regcache_put(h->cache, h->region);
    free(h);
}

static uintptr_t verbs_read_end_of(const struct emx_verbs_hold *h)
{
    return h->region->base + h->region->len_bytes;
}

/* Registers the memory at `at`, if it is not registered yet. ETHMX_OK, or an error. */
static int verbs_read_hold(struct emx_verbs_dev *d, struct emx_verbs_read *r, const char *at)
{
    struct emx_verbs_hold *h;
    const void *part;
    size_t n;
    int rc;

    if (r->hold && (uintptr_t)at < verbs_read_end_of(r->hold))
        return ETHMX_OK;
    h = calloc(1, sizeof(*h));
    if (!h)
        return ETHMX_ERR_NO_MEMORY;
    h->cache = d->cache;
    h->users = 1;
    emx_regcache_part(d->cache, r->r.message, r->r.message_bytes, (uint64_t)(at - (char *)r->r.message), &part, &n);
    rc = emx_regcache_get(d->cache, part, n, r->r.write ? EMX_MEM_READ : EMX_MEM_WRITE, &h->region);
    if (rc) {
        free(h);
        return rc;
    }
    verbs_read_release(r->hold);
    r->hold = h;
    return ETHMX_OK;
}

/* ---- Reading and writing ---- */

static void free_read(struct emx_verbs_read *r)
{
    emx_list_del(&r->link);
    free(r);
}

/* Whether an empty read must follow the write. */
static bool verbs_read_needs_flush(const struct emx_verbs_conn *c, const struct emx_verbs_read *r)
{
    return r->r.write && c->dev->fabric == EMX_VERBS_IWARP && r->started && r->status != ETHMX_ERR_UNREACHABLE &&
           !r->flushed;
}

/* Whether all parts that there will be have been posted. */
static bool verbs_read_is_started(const struct emx_verbs_read *r)
{
    return r->status || r->started == r->r.len_bytes;
}

static bool verbs_read_is_over(const struct emx_verbs_conn *c, const struct emx_verbs_read *r)
{
    return verbs_read_is_started(r) && r->over == r->started && !r->flushing && !verbs_read_needs_flush(c, r);
}

/* Ends reads in the order in which they began. */
static void end_reads(struct emx_verbs_conn *c)
{
    struct emx_list *l;

    while ((l = emx_list_first(&c->reads))) {
        struct emx_verbs_read *r = emx_list_entry(l, struct emx_verbs_read, link);

        if (!verbs_read_is_over(c, r))
            return;
        verbs_read_release(r->hold);
        r->hold = NULL;
        emx_list_del(&r->link);
        emx_list_append(c->ended, &r->link);
    }
}

static uint32_t verbs_read_write_bytes(const struct emx_verbs_conn *c)
{
    return c->peer->write_bytes ? c->peer->write_bytes : c->dev->read_bytes;
}

static uint32_t verbs_read_part_bytes(const struct emx_verbs_conn *c, const struct emx_verbs_read *r)
{
    return r->r.write ? verbs_read_write_bytes(c) : c->dev->read_bytes;
}

void emx_verbs_write_less(struct emx_verbs_conn *c)
{
    uint32_t n = verbs_read_write_bytes(c) / SHORTER;

    c->peer->written_well = 0;
    c->peer->write_bytes = n > SHORTEST ? n : SHORTEST;
}

static void verbs_read_write_more(const struct emx_verbs_conn *c)
{
    struct emx_verbs_peer *p = c->peer;

    if (!p->write_bytes || ++p->written_well < WELL_MANY)
        return;
    p->written_well = 0;
    p->write_bytes = p->write_bytes < c->dev->read_bytes / 2 ? 2 * p->write_bytes : 0;
}

/* Posts the next part of r to the device. false: no room. */
static bool verbs_read_start_part(struct emx_verbs_conn *c, struct emx_verbs_read *r)
{
    char *at = (char *)r->r.local + r->started;
    size_t n = r->r.len_bytes - r->started;
    struct emx_verbs_part part = {.read = r};
    struct ibv_sge sge = {.addr = (uintptr_t)at};
    struct ibv_send_wr wr = {
        .opcode = r->r.write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};

    r->status = verbs_read_hold(c->dev, r, at);
    if (r->status)
        return true;
    if (n > verbs_read_part_bytes(c, r))
        n = verbs_read_part_bytes(c, r);
    if (n > verbs_read_end_of(r->hold) - (uintptr_t)at)
        n = verbs_read_end_of(r->hold) - (uintptr_t)at;
    sge.length = part.len_bytes = (uint32_t)n;
    sge.lkey = ((struct ibv_mr *)r->hold->region->mr)->lkey;
    wr.wr.rdma.remote_addr = r->r.remote + r->started;
    wr.wr.rdma.rkey = (uint32_t)r->r.key;
    part.hold = r->hold;
    if (!emx_verbs_conn_read(c, &wr, &part))
        return false;
    r->hold->users++;
    r->started += n;
    return true;
}

/* false: no room. */
static bool verbs_read_start_flush(struct emx_verbs_conn *c, struct emx_verbs_read *r)
{
    const struct emx_verbs_part part = {.read = r};

    if (!emx_verbs_conn_read_nothing(c, &part))
        return false;
    r->flushing = true;
    return true;
}

/* Posts the parts of r that the device may have. false: no room for more. */
static bool verbs_read_start_parts(struct emx_verbs_conn *c, struct emx_verbs_read *r)
{
    while (!verbs_read_is_started(r)) {
        if (c->parts_in_flight >= c->dev->reads_max || !verbs_read_start_part(c, r))
            return false;
    }
    if (!r->flushing && verbs_read_needs_flush(c, r))
        return c->parts_in_flight < c->dev->reads_max && verbs_read_start_flush(c, r);
    return true;
}

void emx_verbs_reads_go_on(struct emx_verbs_conn *c)
{
    emx_list_each(l, &c->reads)
    {
        if (!verbs_read_start_parts(c, emx_list_entry(l, struct emx_verbs_read, link)))
            break;
    }
    end_reads(c);
}

int emx_verbs_read_start(struct emx_wire *base, const struct emx_wire_read *wr)
{
    struct emx_verbs_conn *c = verbs_read_connected(base, wr->from);
    struct emx_verbs_read *r;

    if (!c || c->nonce != (uint32_t)(wr->key >> 32))
        return ETHMX_INPROGRESS;
    if (!c->dev->cache || !verbs_read_pays(c->dev, wr->message, wr->message_bytes))
        return ETHMX_ERR_PARAM;
    r = calloc(1, sizeof(*r));
    if (!r)
        return ETHMX_ERR_NO_MEMORY;
    r->r = *wr;
    emx_list_init(&r->link);
    emx_list_append(&c->reads, &r->link);
    c->used_ns = *c->now_ns;
    emx_verbs_reads_go_on(c);
    return ETHMX_OK;
}

void emx_verbs_read_part_over(struct emx_verbs_conn *c, const struct emx_verbs_part *part, bool well)
{
    part->read->over += part->len_bytes;
    if (!part->hold) {
        part->read->flushing = false;
        part->read->flushed = true;
    }
    if (!well)
        part->read->status = ETHMX_ERR_UNREACHABLE;
    else if (part->read->r.write)
        verbs_read_write_more(c);
    verbs_read_release(part->hold);
    end_reads(c);
}

void emx_verbs_reads_fail(struct emx_verbs_conn *c)
{
    emx_list_each(l, &c->reads)
    {
        struct emx_verbs_read *r = emx_list_entry(l, struct emx_verbs_read, link);

        if (!verbs_read_is_started(r) || (!r->flushing && verbs_read_needs_flush(c, r)))
            r->status = ETHMX_ERR_UNREACHABLE;
    }
    end_reads(c);
}

bool emx_verbs_read_end(struct emx_wire *base, struct emx_wire_read_end *end_p)
{
    struct emx_verbs_wire *w = (struct emx_verbs_wire *)base;
    struct emx_list *l = emx_list_first(&w->ended);
    struct emx_verbs_read *r;

    if (!l)
        return false;
    r = emx_list_entry(l, struct emx_verbs_read, link);
    *end_p = (struct emx_wire_read_end){
        .cookie = r->r.cookie, .remote = r->r.remote, .len_bytes = r->r.len_bytes, .status = r->status};
    free_read(r);
    return true;
}

void emx_verbs_reads_drop(struct emx_verbs_wire *w)
{
    struct emx_list *l;

    while ((l = emx_list_first(&w->ended)))
        free_read(emx_list_entry(l, struct emx_verbs_read, link));
    while ((l = emx_list_first(&w->exports)))
        verbs_read_unexport_one(emx_list_entry(l, struct verbs_export, link));
}
