/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registration cache: memory of the program that a device may read and write, kept registered for the next message.
 *
 * Registering pins pages and tells the device about them. It costs as much as copying tens of kilobytes, and programs
 * send from the same buffers again and again. So a registration is kept when its message is through, until memory is
 * needed for another (least recently used first), or until its pages leave the program: unmapped, mapped anew, given
 * back to the system. The cache hears of that from memwatch. Where nobody can tell it, it keeps nothing: each get()
 * registers and the last put() deregisters. emx_regcache_query() says which, and why.
 *
 * What a region stands for: between get() and its put(), the device's pages are those that the program sees at buf, as
 * long as the program leaves the buffer of a message under way alone, as it must. A region that get() finds in the
 * cache is never one of memory that was unmapped, remapped or discarded before the call, by whatever thread.
 *
 * Threads: every function may be called by several threads at once, but for open and close. No function may be called
 * from a signal handler. The caller may hold locks of its own, unless ops->reg or ops->dereg take them.
 *
 * fork(): the child must not touch the cache (ctx sees to that) and has no registrations. The parent keeps its own, if
 * the registrar's pages stay the parent's at fork: since Linux 5.12 pages pinned for a device are copied for the child.
 * A registrar on an older kernel must exempt them (ibv_fork_init() does).
 */
#ifndef EMX_MEM_REGCACHE_H
#define EMX_MEM_REGCACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/stats.h"

/* What a device may do with memory. */
#define EMX_MEM_READ  1u /* it, or a peer through it, reads: what is sent */
#define EMX_MEM_WRITE 2u /* it writes: what is received */

/* Who registers: ibv_reg_mr() and ibv_dereg_mr() in a coat. Called without any lock of the cache, by several threads at
 * once. They may allocate and free memory. */
struct emx_registrar {
    const char *name;
    /* Registers whole pages for at least this access. ETHMX_OK and *mr_p. ETHMX_ERR_NO_MEMORY: too much is registered;
     * the cache gives back what is idle and asks again. ETHMX_ERR_PARAM: not this memory (not mapped, read-only). */
    int (*reg)(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p);
    void (*dereg)(void *arg, void *mr); /* cannot fail */
    void *arg;
    size_t max_bytes; /* longest region of the device; 0: any */
    /* What emx_measure() times by, and times beside registering. NULL: the monotonic clock, and memcpy(). */
    uint64_t (*now_ns)(void *arg);
    void (*copy)(void *arg, void *to, const void *from, size_t len_bytes);
};

/* A registered piece of memory, lent by get(). */
struct emx_region {
    uintptr_t base; /* whole pages around the buffer that was asked for, or more */
    size_t len_bytes;
    unsigned access;
    void *mr; /* the registrar's: has the keys */
};

struct emx_regcache;

struct emx_regcache_params {
    const struct emx_config *cfg; /* reg_*; read, not kept */
    struct emx_registrar registrar;
    bool fault_in;           /* pages that are not there are brought in before they are registered (mem/threshold.h) */
    struct emx_stats *stats; /* reg_* counters, or NULL; written inside calls of this cache only, one at a time */
};

/* Opens a cache. ETHMX_ERR_NO_MEMORY. ETHMX_ERR_PARAM: ETHMX_REG_CACHE asks for a way to hear of unmapped memory that
 * does not work here; why has the reason. Otherwise it opens whatever works. */
int emx_regcache_open(struct emx_regcache **c_p, const struct emx_regcache_params *params, char *why,
                      size_t why_len_bytes);

/* Deregisters everything. No region is out. */
void emx_regcache_close(struct emx_regcache *c);

/* Lends a region that covers buf; the caller gives it back with put(). len_bytes > 0.
 * ETHMX_ERR_NO_MEMORY: the bounds do not allow it while so many regions are out, or the registrar has no more: copy, or
 * try again after a put(). ETHMX_ERR_PARAM: this memory cannot be registered: copy. */
int emx_regcache_get(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access,
                     struct emx_region **r_p);
void emx_regcache_put(struct emx_regcache *c, struct emx_region *r);

/* As get(), but registers nothing. false: it is not in the cache. */
bool emx_regcache_find(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access,
                       struct emx_region **r_p);

/* Whether get() would find it: for deciding between copying and registering. May be out of date at once. */
bool emx_regcache_has(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access);

/* How many bytes at the start of a long buffer to get() at once: up to a boundary of ETHMX_REG_PIECE that is the same
 * for all messages from the same memory, so that their pieces meet instead of overlapping. Not more than may be
 * registered at once. */
size_t emx_regcache_piece(const struct emx_regcache *c, const void *buf, size_t len_bytes);
/* The part of a message's memory around this offset that should be got at once: all of it, or the piece there. */
void emx_regcache_part(const struct emx_regcache *c, const void *buf, size_t len_bytes, uint64_t offset,
                       const void **at_p, size_t *n_p);

/* Deregisters what has left the program in the meantime: to be called now and then, when there is nothing better to do.
 * get() does it too. Returns how many. */
unsigned emx_regcache_sweep(struct emx_regcache *c);

/* Deregisters all that is not out. */
void emx_regcache_flush(struct emx_regcache *c);

struct emx_regcache_info {
    bool keeps;           /* registrations outlive their put() */
    const char *watch;    /* "uffd", "host" or "off" */
    char reason[256];     /* how it hears of memory that leaves, or why it cannot; what bounds it */
    uint64_t limit_bytes; /* most that may be registered at once */
    uint64_t bytes;       /* registered now: kept, lent, and waiting to be deregistered */
    unsigned entries;     /* kept now */
};
void emx_regcache_query(struct emx_regcache *c, struct emx_regcache_info *info_p);

#endif
