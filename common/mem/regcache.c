/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table. Kept regions lie in one array, ordered by base, and none contains another: a new one that contains kept
 * ones takes their place. So they are ordered by end, too, and if any region covers a buffer, then the last one that
 * begins at or before the buffer does. One binary search answers.
 *
 * Regions may overlap. A new buffer that a kept region covers by half or more is joined with it: one registration of
 * both takes its place. With less in common they stand side by side: joined again and again, the rows of a matrix,
 * which share their first and last pages, would be registered over and over.
 *
 * A region's life:
 *
 *     making    being registered, without the lock; not in the table, but pages that go are noticed
 *     kept      in the table. With users, or idle and then in the list of idle ones, least recently used first
 *     loose     not in the table (any more): its pages have gone, it was replaced, or nobody would tell of its pages.
 *               The last put() deregisters it
 *     dead      loose without users: waits to be deregistered by the next call that has time for it
 *
 * Caching a registration has a cost: pages of a new mapping are watched, and the program's munmap() waits until the
 * cache has handled the event. A program that sends each message from a new mapping gains nothing for it. So when
 * WASTED regions in a row were unmapped before they were used again, only each PROBE-th new region is kept, and fewer
 * with each of these that is not used again (PROBE_MAX). The first that is used again ends that.
 *
 * Registering and deregistering happen without the lock (see memwatch.h), so bytes are counted before the one and after
 * the other: the sum never exceeds the bound.
 */
#include "mem/regcache.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/min.h"
#include "ethmx.h"
#include "mem/measure.h"
#include "mem/memlock.h"
#include "mem/memwatch.h"

#define WASTED    8
#define PROBE     16
#define PROBE_MAX 256

enum state { MAKING, KEPT, LOOSE, DEAD };

struct region {
    struct emx_region r;  /* first: what the caller has */
    struct emx_list link; /* making, idle or dead */
    enum state state;
    bool watched;  /* making: its pages are, and have not gone since */
    bool faulted;  /* its pages were brought in first */
    bool reused;   /* found at least once, when it was idle */
    bool is_probe; /* kept to see whether it is */
    unsigned users;
};

struct emx_regcache {
    struct emx_watcher watcher;
    struct emx_registrar registrar;
    bool fault_in;
    struct emx_stats own_stats, *stats;
    atomic_bool needs_sweep; /* sweep() takes the lock only then */
    uintptr_t page_bytes, piece_bytes;
    uint64_t limit_bytes;
    unsigned limit_entries;
    enum emx_watch watch;
    char reason[256];

    /* with the lock */
    uint64_t bytes;       /* registered, or about to be */
    uint64_t idle_bytes;  /* of these: idle */
    uint64_t dead_bytes;  /* of these: dead */
    uint64_t invalidated; /* by any thread, and not yet in stats */
    unsigned wasted;      /* kept regions that have gone unused since one was found again; no more than WASTED */
    unsigned probe;       /* how many regions come on one that is kept all the same */
    unsigned skipped;     /* regions that were not kept for that, since the last one that was */
    struct emx_list making, idle, dead;
    unsigned count;
    struct region **table;
};

static uintptr_t regcache_end_of(const struct region *e)
{
    return e->r.base + e->r.len_bytes;
}

static bool regcache_overlaps(const struct region *e, uintptr_t base, uintptr_t end)
{
    return e->r.base < end && base < regcache_end_of(e);
}

/* ---- The table, with the lock ---- */

/* The first that begins after addr. */
static unsigned regcache_first_after(const struct emx_regcache *c, uintptr_t addr)
{
    unsigned low = 0, high = c->count;

    while (low < high) {
        unsigned mid = (low + high) / 2;

        if (c->table[mid]->r.base > addr)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* The first that ends after addr. */
static unsigned regcache_first_beyond(const struct emx_regcache *c, uintptr_t addr)
{
    unsigned i = regcache_first_after(c, addr);

    while (i && regcache_end_of(c->table[i - 1]) > addr)
        i--;
    return i;
}

static struct region *regcache_find(const struct emx_regcache *c, uintptr_t base, uintptr_t end, unsigned access)
{
    unsigned i = regcache_first_after(c, base);
    struct region *e = i ? c->table[i - 1] : NULL;

    return e && regcache_end_of(e) >= end && (e->r.access & access) == access ? e : NULL;
}

static void regcache_count_bytes(struct emx_regcache *c)
{
    c->stats->reg_bytes = c->bytes;
    if (c->bytes > c->stats->reg_bytes_peak)
        c->stats->reg_bytes_peak = c->bytes;
}

static void regcache_request_sweep(struct emx_regcache *c)
{
    atomic_store_explicit(&c->needs_sweep, true, memory_order_relaxed);
}

static void regcache_to_dead(struct emx_regcache *c, struct region *e)
{
    e->state = DEAD;
    regcache_request_sweep(c);
    c->dead_bytes += e->r.len_bytes;
    emx_list_append(&c->dead, &e->link);
}

/* Out of the table: dead, or loose while it has users. */
static void regcache_take_out(struct emx_regcache *c, unsigned i)
{
    struct region *e = c->table[i];

    memmove(&c->table[i], &c->table[i + 1], (c->count - i - 1) * sizeof(c->table[0]));
    c->count--;
    if (e->users) {
        e->state = LOOSE;
        return;
    }
    emx_list_del(&e->link);
    c->idle_bytes -= e->r.len_bytes;
    regcache_to_dead(c, e);
}

static unsigned regcache_index_of(const struct emx_regcache *c, const struct region *e)
{
    return regcache_first_after(c, e->r.base) - 1; /* no two begin at the same place: one would contain the other */
}

static void regcache_hold(struct emx_regcache *c, struct region *e)
{
    if (e->users++)
        return;
    emx_list_del(&e->link);
    c->idle_bytes -= e->r.len_bytes;
}

/* A kept region has gone unused. */
static void regcache_count_unused(struct emx_regcache *c, const struct region *e)
{
    if (c->wasted < WASTED)
        c->wasted++;
    else if (e->is_probe && c->probe < PROBE_MAX)
        c->probe *= 2;
}

/* Called by memwatch: the pages are unmapped. */
static void regcache_gone(struct emx_watcher *w, uintptr_t base, uintptr_t end)
{
    struct emx_regcache *c = emx_container(w, struct emx_regcache, watcher);
    unsigned i = regcache_first_beyond(c, base);

    while (i < c->count && c->table[i]->r.base < end) {
        if (!c->table[i]->reused)
            regcache_count_unused(c, c->table[i]);
        regcache_take_out(c, i);
        c->invalidated++;
        regcache_request_sweep(c);
    }
    emx_list_each(m, &c->making)
    {
        struct region *e = emx_list_entry(m, struct region, link);

        if (regcache_overlaps(e, base, end))
            e->watched = false;
    }
}

/* The lock for calls of the cache, which alone may write the caller's counters. */
static void regcache_enter(struct emx_regcache *c)
{
    emx_memwatch_lock();
    c->stats->reg_invalidated += c->invalidated;
    c->invalidated = 0;
}

/* ---- Evicting ---- */

/* Deregisters the dead. The lock is given back in between. Returns how many. */
static unsigned regcache_dereg_dead(struct emx_regcache *c)
{
    struct emx_list *l;
    unsigned n = 0;

    while ((l = emx_list_pop(&c->dead))) {
        struct region *e = emx_list_entry(l, struct region, link);
        size_t len_bytes = e->r.len_bytes;

        emx_memwatch_unlock();
        c->registrar.dereg(c->registrar.arg, e->r.mr);
        free(e);
        emx_memwatch_lock();
        c->bytes -= len_bytes;
        c->dead_bytes -= len_bytes;
        n++;
    }
    regcache_count_bytes(c);
    return n;
}

static void regcache_evict_oldest(struct emx_regcache *c)
{
    regcache_take_out(c, regcache_index_of(c, emx_list_entry(emx_list_first(&c->idle), struct region, link)));
    c->stats->reg_evicted++;
}

/* Reserves so many bytes of the limit, evicting idle regions. false: too much is in use. */
static bool regcache_reserve(struct emx_regcache *c, uint64_t len_bytes)
{
    for (;;) {
        if (len_bytes > c->limit_bytes || c->bytes - c->idle_bytes - c->dead_bytes > c->limit_bytes - len_bytes)
            return false;
        while (c->bytes - c->dead_bytes > c->limit_bytes - len_bytes)
            regcache_evict_oldest(c);
        if (c->bytes <= c->limit_bytes - len_bytes)
            break;
        if (!regcache_dereg_dead(c)) { /* another thread deregisters them */
            emx_memwatch_unlock();
            sched_yield();
            emx_memwatch_lock();
        }
    }
    c->bytes += len_bytes;
    regcache_count_bytes(c);
    return true;
}

static void regcache_unreserve(struct emx_regcache *c, uint64_t len_bytes)
{
    c->bytes -= len_bytes;
    regcache_count_bytes(c);
}

/* ---- Registering ---- */

/* Whether e should be joined with [base, end): what they have in common is half of the latter or more, and the whole is
 * no more than twice as long. Or e covers it, but does not allow as much. */
static bool regcache_is_joined(const struct emx_regcache *c, const struct region *e, uintptr_t base, uintptr_t end)
{
    uintptr_t whole = emx_max(end, regcache_end_of(e)) - emx_min(base, e->r.base);
    uintptr_t common = emx_min(end, regcache_end_of(e)) - emx_max(base, e->r.base);

    if (c->registrar.max_bytes && whole > c->registrar.max_bytes)
        return false;
    if (common == end - base)
        return true;
    return common >= (end - base) / 2 && whole <= 2 * (end - base) && whole <= c->limit_bytes / 4;
}

static bool regcache_is_within(const struct region *e, uintptr_t base, uintptr_t end)
{
    return base <= e->r.base && regcache_end_of(e) <= end;
}

/* Joins r with kept regions, and lets it do what those could that it replaces. */
static void regcache_join(const struct emx_regcache *c, struct emx_region *r)
{
    uintptr_t base = r->base, end = r->base + r->len_bytes;

    for (unsigned i = regcache_first_beyond(c, base); i < c->count && c->table[i]->r.base < end; i++) {
        const struct region *e = c->table[i];

        if (regcache_is_joined(c, e, base, end)) {
            base = emx_min(base, e->r.base);
            end = emx_max(end, regcache_end_of(e));
            r->access |= e->r.access;
        } else if (regcache_is_within(e, base, end)) {
            r->access |= e->r.access;
        }
    }
    r->base = base;
    r->len_bytes = end - base;
}

/* Deregisters all idle regions, because the registrar is out of resources. Returns whether there were any. */
static bool regcache_free_idle(struct emx_regcache *c)
{
    unsigned freed;

    emx_memwatch_lock();
    while (!emx_list_empty(&c->idle))
        regcache_evict_oldest(c);
    freed = regcache_dereg_dead(c);
    emx_memwatch_unlock();
    return freed;
}

static int regcache_call_registrar(struct emx_regcache *c, struct region *e)
{
    const struct emx_registrar *r = &c->registrar;
    int rc;

    if (c->fault_in && !emx_is_resident((void *)e->r.base, e->r.len_bytes))
        e->faulted = emx_fault_in((void *)e->r.base, e->r.len_bytes);
    do
        rc = r->reg(r->arg, (void *)e->r.base, e->r.len_bytes, e->r.access, &e->r.mr);
    while (rc == ETHMX_ERR_NO_MEMORY && regcache_free_idle(c));
    return rc;
}

/* Puts e into the table, in place of those that it contains. e has a user. */
static void regcache_keep(struct emx_regcache *c, struct region *e)
{
    unsigned i = regcache_first_beyond(c, e->r.base);

    while (i < c->count && c->table[i]->r.base < regcache_end_of(e)) {
        if (c->table[i]->r.base >= e->r.base && regcache_end_of(c->table[i]) <= regcache_end_of(e))
            regcache_take_out(c, i);
        else
            i++;
    }
    while (c->count >= c->limit_entries && !emx_list_empty(&c->idle))
        regcache_evict_oldest(c);
    if (c->count >= c->limit_entries)
        return;
    i = regcache_first_after(c, e->r.base);
    memmove(&c->table[i + 1], &c->table[i], (c->count - i) * sizeof(c->table[0]));
    c->table[i] = e;
    c->count++;
    e->state = KEPT;
}

/* Whether another thread has meanwhile registered a region that serves as well. */
static bool regcache_is_contained(const struct emx_regcache *c, const struct region *e)
{
    const struct region *other = regcache_find(c, e->r.base, regcache_end_of(e), 0);

    return other && (other->r.len_bytes > e->r.len_bytes || (other->r.access & e->r.access) == e->r.access);
}

/* Reserves bytes for e, joined with others or, where that is too much, as it is. */
static bool regcache_reserve_joined(struct emx_regcache *c, struct region *e)
{
    const struct emx_region wanted = e->r;

    regcache_join(c, &e->r);
    if (regcache_reserve(c, e->r.len_bytes))
        return true;
    e->r = wanted;
    return regcache_reserve(c, e->r.len_bytes);
}

/* Whether it is worth while to keep a new region. */
static bool regcache_is_worth_keeping(struct emx_regcache *c)
{
    if (c->wasted == WASTED && ++c->skipped < c->probe)
        return false;
    c->skipped = 0;
    return true;
}

/* On ETHMX_OK e is counted and among those being made. */
static int regcache_begin_making(struct emx_regcache *c, struct region *e, bool quiet, bool alone)
{
    bool room;

    regcache_enter(c);
    regcache_dereg_dead(c);
    quiet = quiet && regcache_is_worth_keeping(c);
    e->is_probe = quiet && c->wasted == WASTED;
    room = quiet && !alone ? regcache_reserve_joined(c, e) : regcache_reserve(c, e->r.len_bytes);
    if (room) {
        e->state = MAKING;
        emx_list_append(&c->making, &e->link);
        e->watched = quiet && emx_memwatch_add(e->r.base, regcache_end_of(e));
    } else {
        c->stats->reg_refused++;
    }
    emx_memwatch_unlock();
    return room ? ETHMX_OK : ETHMX_ERR_NO_MEMORY;
}

static void regcache_end_making(struct emx_regcache *c, struct region *e, int rc)
{
    emx_memwatch_lock();
    emx_list_del(&e->link);
    if (rc) {
        regcache_unreserve(c, e->r.len_bytes);
        c->stats->reg_refused++;
        emx_memwatch_unlock();
        return;
    }
    e->users = 1;
    e->state = LOOSE;
    c->stats->reg_made++;
    c->stats->reg_faulted += e->faulted;
    if (e->watched && !regcache_is_contained(c, e))
        regcache_keep(c, e);
    if (e->state == LOOSE)
        c->stats->reg_once++;
    emx_memwatch_unlock();
}

/* alone: not joined with others. */
static int regcache_make(struct emx_regcache *c, const struct emx_region *wanted, bool quiet, bool alone,
                         struct emx_region **r_p)
{
    struct region *e = calloc(1, sizeof(*e));
    int rc;

    if (!e)
        return ETHMX_ERR_NO_MEMORY;
    e->r = *wanted;
    rc = regcache_begin_making(c, e, quiet, alone);
    if (!rc) {
        rc = regcache_call_registrar(c, e);
        regcache_end_making(c, e, rc);
    }
    if (rc) {
        free(e);
        return rc;
    }
    *r_p = &e->r;
    return ETHMX_OK;
}

/* ---- Get and put ---- */

/* The pages around buf. false: there are none. */
static bool regcache_pages(const struct emx_regcache *c, const void *buf, size_t len_bytes, uintptr_t *base_p,
                           uintptr_t *end_p)
{
    uintptr_t end;

    if (!len_bytes || __builtin_add_overflow((uintptr_t)buf, len_bytes, &end) ||
        __builtin_add_overflow(end, c->page_bytes - 1, &end))
        return false;
    *base_p = (uintptr_t)buf & ~(c->page_bytes - 1);
    *end_p = end & ~(c->page_bytes - 1);
    return true;
}

/* Keeping the region has paid off. (Only a region found idle counts: one in use would be there in any case.) */
static void regcache_mark_reused(struct emx_regcache *c, struct region *e)
{
    if (!e->reused) {
        c->wasted = 0;
        c->probe = PROBE;
    }
    e->reused = true;
}

static bool regcache_look_up(struct emx_regcache *c, uintptr_t base, uintptr_t end, unsigned access,
                             struct emx_region **r_p)
{
    struct region *e;

    regcache_enter(c);
    e = regcache_find(c, base, end, access);
    if (e) {
        if (!e->users)
            regcache_mark_reused(c, e);
        regcache_hold(c, e);
        c->stats->reg_hits++;
    }
    emx_memwatch_unlock();
    if (e)
        *r_p = &e->r;
    return e;
}

/* Joined with others the registration may fail: their memory may be unmapped just now, or not allow as much. */
static int regcache_either(struct emx_regcache *c, const struct emx_region *wanted, bool quiet, struct emx_region **r_p)
{
    int rc = regcache_make(c, wanted, quiet, false, r_p);

    return rc == ETHMX_ERR_PARAM && quiet ? regcache_make(c, wanted, quiet, true, r_p) : rc;
}

int emx_regcache_get(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access,
                     struct emx_region **r_p)
{
    bool quiet = false;
    uintptr_t base, end;

    if (!regcache_pages(c, buf, len_bytes, &base, &end) ||
        (c->registrar.max_bytes && end - base > c->registrar.max_bytes))
        return ETHMX_ERR_PARAM;
    if (c->watch != EMX_WATCH_OFF) {
        quiet = emx_memwatch_quiet() || emx_memwatch_settle();
        if (quiet && regcache_look_up(c, base, end, access, r_p))
            return ETHMX_OK;
    }
    return regcache_either(c, &(struct emx_region){.base = base, .len_bytes = end - base, .access = access}, quiet,
                           r_p);
}

bool emx_regcache_find(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access,
                       struct emx_region **r_p)
{
    uintptr_t base, end;

    if (c->watch == EMX_WATCH_OFF || !regcache_pages(c, buf, len_bytes, &base, &end))
        return false;
    return (emx_memwatch_quiet() || emx_memwatch_settle()) && regcache_look_up(c, base, end, access, r_p);
}

void emx_regcache_put(struct emx_regcache *c, struct emx_region *r)
{
    struct region *e = (struct region *)(void *)r;

    regcache_enter(c);
    if (!--e->users) {
        if (e->state == KEPT) {
            c->idle_bytes += e->r.len_bytes;
            emx_list_append(&c->idle, &e->link);
        } else {
            regcache_to_dead(c, e);
            if (c->watch == EMX_WATCH_OFF)
                regcache_dereg_dead(c);
        }
    }
    emx_memwatch_unlock();
}

bool emx_regcache_has(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access)
{
    uintptr_t base, end;
    bool has;

    if (!regcache_pages(c, buf, len_bytes, &base, &end))
        return false;
    regcache_enter(c);
    has = regcache_find(c, base, end, access);
    emx_memwatch_unlock();
    return has;
}

size_t emx_regcache_piece(const struct emx_regcache *c, const void *buf, size_t len_bytes)
{
    uintptr_t to_boundary = c->piece_bytes - (uintptr_t)buf % c->piece_bytes;

    return len_bytes < to_boundary ? len_bytes : to_boundary;
}

void emx_regcache_part(const struct emx_regcache *c, const void *buf, size_t len_bytes, uint64_t offset,
                       const void **at_p, size_t *n_p)
{
    uintptr_t base = (uintptr_t)buf, from = (base + offset) & ~(uintptr_t)(c->piece_bytes - 1);

    *at_p = buf;
    *n_p = len_bytes;
    if (len_bytes <= c->piece_bytes)
        return;
    *at_p = (const void *)emx_max(base, from);
    *n_p = emx_min(base + len_bytes, from + c->piece_bytes) - emx_max(base, from);
}

unsigned emx_regcache_sweep(struct emx_regcache *c)
{
    unsigned n;

    if (!atomic_load_explicit(&c->needs_sweep, memory_order_relaxed))
        return 0;
    regcache_enter(c);
    atomic_store_explicit(&c->needs_sweep, false, memory_order_relaxed);
    n = regcache_dereg_dead(c);
    emx_memwatch_unlock();
    return n;
}

void emx_regcache_flush(struct emx_regcache *c)
{
    regcache_enter(c);
    while (!emx_list_empty(&c->idle))
        regcache_take_out(c, regcache_index_of(c, emx_list_entry(emx_list_first(&c->idle), struct region, link)));
    regcache_dereg_dead(c);
    emx_memwatch_unlock();
}

void emx_regcache_query(struct emx_regcache *c, struct emx_regcache_info *info_p)
{
    static const char *const names[] = {
        [EMX_WATCH_AUTO] = "auto", [EMX_WATCH_UFFD] = "uffd", [EMX_WATCH_HOST] = "host", [EMX_WATCH_OFF] = "off"};

    *info_p = (struct emx_regcache_info){
        .keeps = c->watch != EMX_WATCH_OFF, .watch = names[c->watch], .limit_bytes = c->limit_bytes};
    memcpy(info_p->reason, c->reason, sizeof(info_p->reason));
    regcache_enter(c);
    info_p->bytes = c->bytes;
    info_p->entries = c->count;
    emx_memwatch_unlock();
}

/* ---- Open and close ---- */

/* Sets the limit; adds a sentence to the reason where the system's limit is lower. */
static void regcache_set_limit(struct emx_regcache *c, uint64_t wanted_bytes)
{
    uint64_t left = emx_memlock_left();
    size_t used;

    c->limit_bytes = left < wanted_bytes ? left : wanted_bytes;
    c->limit_bytes &= ~(uint64_t)(c->page_bytes - 1);
    if (left >= wanted_bytes)
        return;
    used = strlen(c->reason);
    snprintf(c->reason + used, sizeof(c->reason) - used,
             "%sRLIMIT_MEMLOCK leaves %llu KiB to register (raise it: ulimit -l unlimited)", used ? "; " : "",
             (unsigned long long)c->limit_bytes / 1024);
}

/* Whole pages, and several of them within the bound. */
static void regcache_set_piece(struct emx_regcache *c, uint64_t wanted_bytes)
{
    uint64_t most = c->limit_bytes / 4;

    if (c->registrar.max_bytes && c->registrar.max_bytes < most)
        most = c->registrar.max_bytes;
    c->piece_bytes = c->page_bytes;
    while (c->piece_bytes * 2 <= wanted_bytes && c->piece_bytes * 2 <= most)
        c->piece_bytes *= 2;
}

int emx_regcache_open(struct emx_regcache **c_p, const struct emx_regcache_params *params, char *why,
                      size_t why_len_bytes)
{
    const struct emx_config *cfg = params->cfg;
    struct emx_regcache *c = calloc(1, sizeof(*c));

    if (c)
        c->table = calloc(cfg->p_reg_entries, sizeof(c->table[0]));
    if (!c || !c->table) {
        free(c);
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    c->registrar = params->registrar;
    c->fault_in = params->fault_in;
    c->stats = params->stats ? params->stats : &c->own_stats;
    c->page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    c->limit_entries = (unsigned)cfg->p_reg_entries;
    c->probe = PROBE;
    emx_list_init(&c->making);
    emx_list_init(&c->idle);
    emx_list_init(&c->dead);
    c->watcher.gone = regcache_gone;
    c->watch = emx_memwatch_join(&c->watcher, (enum emx_watch)cfg->p_reg_cache, c->reason, sizeof(c->reason));
    if (c->watch == EMX_WATCH_OFF && cfg->p_reg_cache != EMX_WATCH_AUTO && cfg->p_reg_cache != EMX_WATCH_OFF) {
        snprintf(why, why_len_bytes, "ETHMX_REG_CACHE: cannot cache registrations in this way: %s", c->reason);
        free(c->table);
        free(c);
        return ETHMX_ERR_PARAM;
    }
    regcache_set_limit(c, cfg->p_reg_max);
    regcache_set_piece(c, cfg->p_reg_piece);
    *c_p = c;
    return ETHMX_OK;
}

void emx_regcache_close(struct emx_regcache *c)
{
    emx_regcache_flush(c);
    if (c->watch != EMX_WATCH_OFF)
        emx_memwatch_leave(&c->watcher);
    free(c->table);
    free(c);
}
