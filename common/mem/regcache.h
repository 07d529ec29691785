/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registration cache: memory of the program that a device may read and write, kept registered for the next message.
 *
 * Registering pins pages and tells the device about them. It costs as much as copying tens of kilobytes, and programs
 * send from the same buffers again and again. So a registration is kept after its message, until the memory limit needs
 * it for another (least recently used first), or until its pages leave the program (memwatch). Where that cannot be
 * detected, nothing is kept: each get() registers and the last put() deregisters. emx_regcache_query() says which
 * applies, and why.
 *
 * Guarantee: between get() and put(), the device's pages are those that the program sees at buf, as long as the program
 * does not unmap the buffer of a message under way. A region found in the cache never stands for memory that was
 * unmapped, remapped or discarded before the call, by any thread.
 *
 * Threads: all functions but open and close may be called by several threads at once, and none in a signal handler. The
 * caller may hold locks of its own that the registrar does not take.
 *
 * fork(): the child must not use the cache (the endpoint prevents it) and has no registrations. The parent keeps its
 * own: since Linux 5.12 pinned pages are copied for the child. On older kernels the registrar must exempt them
 * (ibv_fork_init() does).
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

/* The functions that register, such as ibv_reg_mr() and ibv_dereg_mr(). Called without the cache's lock, by several
 * threads at once. They may allocate and free memory. */
struct emx_registrar {
    const char *name;
    /* Registers whole pages for at least this access. ETHMX_OK and *mr_p. ETHMX_ERR_NO_MEMORY: too much is registered;
     * the cache gives back what is idle and asks again. ETHMX_ERR_PARAM: not this memory (not mapped, read-only). */
    int (*reg)(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p);
    void (*dereg)(void *arg, void *mr); /* cannot fail */
    void *arg;
    size_t max_bytes; /* longest region; 0: any */
    /* The clock of emx_measure(), and the copy that it compares. NULL: the monotonic clock, and memcpy(). */
    uint64_t (*now_ns)(void *arg);
    void (*copy)(void *arg, void *to, const void *from, size_t len_bytes);
};

/* Registered memory. Owned by the cache; valid from get() to put(). */
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
    bool fault_in;           /* fault in absent pages before registering (mem/threshold.h) */
    struct emx_stats *stats; /* reg_* counters, or NULL; written inside calls of this cache only, one at a time */
};

/* Opens a cache. ETHMX_ERR_NO_MEMORY. ETHMX_ERR_PARAM: ETHMX_REG_CACHE names a source of reports that does not work
 * here; why has the reason. auto takes what works. */
int emx_regcache_open(struct emx_regcache **c_p, const struct emx_regcache_params *params, char *why,
                      size_t why_len_bytes);

/* Deregisters everything. The caller has put back all regions. */
void emx_regcache_close(struct emx_regcache *c);

/* Gets a region that covers buf, for put(). len_bytes > 0. ETHMX_ERR_NO_MEMORY: the limits do not allow it while so
 * many regions are in use, or the registrar is full: copy, or try again after a put(). ETHMX_ERR_PARAM: this memory
 * cannot be registered: copy. */
int emx_regcache_get(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access,
                     struct emx_region **r_p);
void emx_regcache_put(struct emx_regcache *c, struct emx_region *r);

/* As get(), but registers nothing. false: it is not in the cache. */
bool emx_regcache_find(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access,
                       struct emx_region **r_p);

/* Whether get() would find it in the cache. The answer may be out of date at once. */
bool emx_regcache_has(struct emx_regcache *c, const void *buf, size_t len_bytes, unsigned access);

/* How many bytes at the start of a long buffer to get() at once: up to a multiple of ETHMX_REG_PIECE, so that the
 * registrations of messages from the same memory meet and do not overlap. Never more than may be registered at once. */
size_t emx_regcache_piece(const struct emx_regcache *c, const void *buf, size_t len_bytes);
/* The part of a message's memory around this offset to get() at once: all of it, or the ETHMX_REG_PIECE there. */
void emx_regcache_part(const struct emx_regcache *c, const void *buf, size_t len_bytes, uint64_t offset,
                       const void **at_p, size_t *n_p);

/* Deregisters what has left the program. Called now and then while idle; get() does it too. Returns how many. */
unsigned emx_regcache_sweep(struct emx_regcache *c);

/* Deregisters all regions that are not in use. */
void emx_regcache_flush(struct emx_regcache *c);

struct emx_regcache_info {
    bool keeps;           /* registrations outlive their put() */
    const char *watch;    /* "uffd", "host" or "off" */
    char reason[256];     /* the source of reports, or why there is none; the limit */
    uint64_t limit_bytes; /* most that may be registered at once */
    uint64_t bytes;       /* registered now: kept, in use, or to be deregistered */
    unsigned entries;     /* kept now */
};
void emx_regcache_query(struct emx_regcache *c, struct emx_regcache_info *info_p);

#endif
