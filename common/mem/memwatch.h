/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memwatch: hears of memory that leaves the program, for all registration caches of the process (a userfaultfd owns the
 * ranges it watches, so there must be one). Never by hooks of our own: from the kernel through userfaultfd, or from the
 * host, an MPI library that has hooks anyway and tells through ethmx_memory_gone().
 *
 * The lock. One lock covers the watch and what hangs on it: the tables of all caches. While it is held nothing may be
 * called that could unmap watched memory, above all neither free() nor malloc() nor a registrar: the kernel holds up
 * whoever unmaps until the event is read, and events are read under this lock. It is held for microseconds.
 */
#ifndef EMX_MEM_MEMWATCH_H
#define EMX_MEM_MEMWATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "ethmx.h"

/* As the words of ETHMX_REG_CACHE. */
enum emx_watch { EMX_WATCH_AUTO, EMX_WATCH_UFFD, EMX_WATCH_HOST, EMX_WATCH_OFF };

struct emx_watcher {
    struct emx_list link;
    /* The pages of [base, end) are not what they were. Called with the lock, in any thread, perhaps inside of munmap()
     * or free(): it may only change its tables. */
    void (*gone)(struct emx_watcher *w, uintptr_t base, uintptr_t end);
};

/* Joins the watch; the first who does starts it, and decides how it hears. Returns what it is: EMX_WATCH_OFF: nothing
 * will be heard, w has not joined. why has how it works, or why it does not. */
enum emx_watch emx_memwatch_join(struct emx_watcher *w, enum emx_watch mode, char *why, size_t why_len_bytes);

/* Without the lock. The last who leaves ends the watch. */
void emx_memwatch_leave(struct emx_watcher *w);

void emx_memwatch_lock(void);
void emx_memwatch_unlock(void);

/* Without the lock. true: whatever was unmapped by the time of the call is told, once the lock is taken after it.
 * false: not so yet. settle waits for it a little, and helps. */
bool emx_memwatch_quiet(void);
bool emx_memwatch_settle(void);

/* With the lock, after a true from quiet() or settle(). Watches [base, end), in which nothing changes during the call,
 * until it is gone. false: its fate cannot be heard of: shared memory and mappings of files, whose pages others may
 * change, or the program watches it itself. */
bool emx_memwatch_add(uintptr_t base, uintptr_t end);

/* The host's part: as ethmx_memory_host() and ethmx_memory_gone(). */
void emx_memwatch_host(const struct ethmx_memory_host *host);
void emx_memwatch_gone(uintptr_t base, uintptr_t end);

#endif
