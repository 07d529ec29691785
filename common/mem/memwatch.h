/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memwatch: reports memory that leaves the program (unmapped, moved, discarded) to all registration caches of the
 * process. The reports come from the kernel (userfaultfd), or from the host: an MPI library that has memory hooks and
 * calls ethmx_memory_gone(). ethmx installs no hooks. There is one watch per process, because a userfaultfd owns the
 * ranges that it watches. All functions are thread-safe.
 *
 * The lock. One lock covers the watch and the tables of all caches. While it is held, nothing may be called that could
 * unmap watched memory: neither free() nor malloc() nor a registrar. The kernel blocks a thread that unmaps until the
 * event is read, and events are read under this lock. It is held for microseconds.
 */
#ifndef EMX_MEM_MEMWATCH_H
#define EMX_MEM_MEMWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "ethmx.h"

/* In the order of the words of ETHMX_REG_CACHE. */
enum emx_watch { EMX_WATCH_AUTO, EMX_WATCH_UFFD, EMX_WATCH_HOST, EMX_WATCH_OFF };

struct emx_watcher {
    struct emx_list link;
    /* The pages of [base, end) have left. Called under the lock, in any thread, perhaps inside munmap() or free(): it
     * may only change its tables. */
    void (*gone)(struct emx_watcher *w, uintptr_t base, uintptr_t end);
};

/* Adds w, which the caller owns, to the watch. The first one starts the watch and chooses its source by mode. Returns
 * the source. EMX_WATCH_OFF: nothing will be reported, and w was not added. why: how it works, or why it does not. */
enum emx_watch emx_memwatch_join(struct emx_watcher *w, enum emx_watch mode, char *why, size_t why_len_bytes);

/* Removes w. Called without the lock. The last one ends the watch. */
void emx_memwatch_leave(struct emx_watcher *w);

void emx_memwatch_lock(void);
void emx_memwatch_unlock(void);

/* Called without the lock. true: everything that was unmapped before the call has been reported when the lock is taken
 * afterwards. false: not yet. settle() waits a little for that and reads events itself. */
bool emx_memwatch_quiet(void);
bool emx_memwatch_settle(void);

/* Called under the lock, after quiet() or settle() returned true. Watches [base, end), which must not change during the
 * call, until it leaves. false: it cannot be watched: shared memory and file mappings, whose pages others may change,
 * or memory that the program watches itself. */
bool emx_memwatch_add(uintptr_t base, uintptr_t end);

/* Called for the host: ethmx_memory_host() and ethmx_memory_gone(). */
void emx_memwatch_host(const struct ethmx_memory_host *host);
void emx_memwatch_gone(uintptr_t base, uintptr_t end);

#endif
