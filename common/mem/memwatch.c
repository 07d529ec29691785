/* SPDX-License-Identifier: BSD-3-Clause
 *
 * With userfaultfd. A thread of its own reads the events, because the program's threads may be computing, or be blocked
 * until their event is read. This must not happen: a thread unmaps a buffer, memory appears at the same address, in
 * this thread or another, and the cache still has the buffer. This order of steps excludes it:
 *
 *     a thread that unmaps                        a thread that looks up
 *     kernel: changes under way + 1               (gets memory at that address)
 *     kernel: unmapped                            quiet()? if not: wait
 *     kernel: event queued; waits                 lock
 *         reader: lock, read the event,           look up
 *                 tell the caches, unlock         unlock
 *     kernel: changes under way - 1
 *
 * A thread that gets the address gets it after the unmapping, so it calls quiet() after the "+ 1". Either the kernel
 * answers that changes are under way. Or the event has been read, which happens under the lock, and the lock is
 * released only after the caches know. A thread that looks up its own buffer while another unmaps a neighbour is always
 * right about its own.
 *
 * Discarding (madvise) is reported before it happens. Between the event and the discarding, a cache could register such
 * a page again only if it were asked for a buffer there, which the program is just discarding, or if it registered more
 * than it was asked for. It extends registrations only to what it has already, and that no longer contains the page.
 * The same holds for a host's hooks, which report everything before it happens.
 *
 * Whole mappings are watched, not the parts that messages use: a mapping that is watched in part becomes two for the
 * kernel, and mremap() over both fails. They are watched until they leave or the watch ends. Only private memory
 * without a file can be watched: pages of other mappings can be changed through the file, without a report.
 *
 * MADV_GUARD_INSTALL (Linux 6.13) is not reported either. It discards pages so that any access to them is an error.
 *
 * Deadlock. A thread that unmaps waits for the reader, and the reader needs the lock. So no thread may unmap while it
 * holds the lock, and the reader must not unmap at all. It uses no memory but its stack.
 *
 * fork(). The child gets a copy of the descriptor, which belongs to the parent's memory, and closes it: while a child
 * has it open, the kernel would block the parent's threads even after the parent has closed it. The child starts
 * without a watch.
 */
#define _GNU_SOURCE
#include "mem/memwatch.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "mem/mapping.h"
#include "mem/spans.h"
#include "mem/uffd.h"

#define SETTLE_TRIES 200
#define SLICE_NS     100000 /* the reader's share of a core at a time, as small as the kernel takes it */

static struct {
    pthread_mutex_t life; /* around starting and ending */
    pthread_mutex_t lock;
    enum emx_watch kind; /* changed with both locks held */
    struct emx_list watchers;
    int uffd, maps, stop;
    pthread_t reader;
    bool atfork; /* the handler is in place */
    struct emx_spans watched;
    const struct ethmx_memory_host *host; /* under life */
} watch = {.life = PTHREAD_MUTEX_INITIALIZER,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .kind = EMX_WATCH_OFF,
           .watchers = {&watch.watchers, &watch.watchers},
           .uffd = -1,
           .maps = -1,
           .stop = -1};

void emx_memwatch_lock(void)
{
    pthread_mutex_lock(&watch.lock);
}

void emx_memwatch_unlock(void)
{
    pthread_mutex_unlock(&watch.lock);
}

/* ---- Reports ---- */

static void memwatch_tell(uintptr_t base, uintptr_t end)
{
    emx_list_each(i, &watch.watchers)
    {
        struct emx_watcher *w = emx_list_entry(i, struct emx_watcher, link);

        w->gone(w, base, end);
    }
}

/* Stops watching everything. Mappings that have grown meanwhile are watched as a whole. */
static void memwatch_forget_all(void)
{
    while (watch.watched.count) {
        const struct emx_span s = watch.watched.span[--watch.watched.count];
        struct emx_mapping m;

        emx_uffd_remove(watch.uffd, s.base, emx_mapping_find(watch.maps, s.end - 1, &m) ? m.end : s.end);
    }
}

/* The table is full: all caches start again from nothing. */
static void memwatch_start_over(void)
{
    memwatch_forget_all();
    memwatch_tell(0, UINTPTR_MAX);
}

static void memwatch_handle(const struct emx_uffd_event *e)
{
    memwatch_tell(e->base, e->end);
    if (!e->mapped && !emx_spans_remove(&watch.watched, e->base, e->end))
        memwatch_start_over();
    if (e->moved_to && !emx_spans_add(&watch.watched, e->moved_to, e->moved_to + (e->end - e->base)))
        emx_uffd_remove(watch.uffd, e->moved_to, e->moved_to + (e->end - e->base));
}

/* With the lock. */
static unsigned memwatch_take_events(void)
{
    struct emx_uffd_event e[EMX_UFFD_BATCH];
    unsigned n = emx_uffd_read(watch.uffd, e);

    for (unsigned i = 0; i < n; i++)
        memwatch_handle(&e[i]);
    return n;
}

/* Linux 6.12 lets a thread ask for short time slices, which come sooner. A thread that unmaps waits for this one. */
static void memwatch_ask_for_short_turns(void)
{
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } a = {.size = 48, .runtime = SLICE_NS};

    (void)syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *memwatch_read_events(void *arg)
{
    struct pollfd fd[2] = {{.fd = watch.uffd, .events = POLLIN}, {.fd = watch.stop, .events = POLLIN}};

    (void)arg;
    memwatch_ask_for_short_turns();
    for (;;) {
        poll(fd, 2, -1);
        if (fd[1].revents)
            return NULL;
        emx_memwatch_lock();
        memwatch_take_events();
        emx_memwatch_unlock();
    }
}

void emx_memwatch_host(const struct ethmx_memory_host *host)
{
    pthread_mutex_lock(&watch.life);
    watch.host = host;
    pthread_mutex_unlock(&watch.life);
}

void emx_memwatch_gone(uintptr_t base, uintptr_t end)
{
    emx_memwatch_lock();
    memwatch_tell(base, end);
    emx_memwatch_unlock();
}

/* ---- Queries ---- */

bool emx_memwatch_quiet(void)
{
    return watch.kind != EMX_WATCH_UFFD || emx_uffd_quiet(watch.uffd);
}

bool emx_memwatch_settle(void)
{
    for (unsigned i = 0; i < SETTLE_TRIES; i++) {
        if (emx_memwatch_quiet())
            return true;
        emx_memwatch_lock();
        if (!memwatch_take_events()) { /* the event is not there yet: the kernel is still unmapping */
            emx_memwatch_unlock();
            sched_yield();
            continue;
        }
        emx_memwatch_unlock();
    }
    return false;
}

/* The mapping around addr is looked up before it is watched, and again afterwards. If it is still one mapping, all of
 * it is watched: the kernel merges only neighbours that are watched alike. */
static bool memwatch_watch_mapping(uintptr_t addr, uintptr_t *end_p)
{
    struct emx_mapping m;

    if (!emx_mapping_find(watch.maps, addr, &m) || !m.anonymous)
        return false;
    *end_p = m.end;
    if (watch.kind != EMX_WATCH_UFFD)
        return true;
    if (emx_uffd_add(watch.uffd, m.base, m.end) || !emx_mapping_find(watch.maps, addr, &m) || !m.anonymous)
        return false;
    *end_p = m.end;
    if (emx_spans_add(&watch.watched, m.base, m.end))
        return true;
    memwatch_start_over();
    return false;
}

bool emx_memwatch_add(uintptr_t base, uintptr_t end)
{
    uintptr_t at = base;

    while (at < end) {
        const struct emx_span *s = emx_spans_find(&watch.watched, at);

        if (s)
            at = s->end;
        else if (!memwatch_watch_mapping(at, &at))
            return false;
    }
    return true;
}

/* ---- Beginning and end ---- */

static bool memwatch_start_reader(char *why, size_t why_len_bytes)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    rc = pthread_create(&watch.reader, NULL, memwatch_read_events, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) {
        snprintf(why, why_len_bytes, "no thread to read events: %s", strerror(rc));
        return false;
    }
    pthread_setname_np(watch.reader, "ethmx-mem");
    return true;
}

static void memwatch_close_one(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void memwatch_close_fds(void)
{
    memwatch_close_one(&watch.uffd);
    memwatch_close_one(&watch.stop);
    memwatch_close_one(&watch.maps);
}

static void memwatch_in_child(void)
{
    memwatch_close_fds();
    pthread_mutex_init(&watch.life, NULL);
    pthread_mutex_init(&watch.lock, NULL);
    watch.kind = EMX_WATCH_OFF;
    emx_list_init(&watch.watchers);
    watch.watched.count = 0;
}

static void memwatch_stop_reader(void)
{
    eventfd_write(watch.stop, 1);
    pthread_join(watch.reader, NULL);
}

/* Unmaps a page and checks that this is reported: the kernel may lack an option. */
static bool memwatch_works(char *why, size_t why_len_bytes)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t base = (uintptr_t)page;
    bool watched, told;

    if (page == MAP_FAILED) {
        snprintf(why, why_len_bytes, "out of memory");
        return false;
    }
    emx_memwatch_lock();
    watched = emx_memwatch_add(base, base + bytes);
    emx_memwatch_unlock();
    munmap(page, bytes); /* returns when it is told */
    emx_memwatch_lock();
    told = watched && !emx_spans_find(&watch.watched, base);
    memwatch_forget_all(); /* the page may have become part of another mapping */
    emx_memwatch_unlock();
    if (!told)
        snprintf(why, why_len_bytes, "userfaultfd: %s",
                 watched ? "the kernel does not tell that memory is unmapped"
                         : "the kernel does not watch memory here");
    return told;
}

static bool memwatch_start_uffd(char *why, size_t why_len_bytes)
{
    watch.uffd = emx_uffd_open(why, why_len_bytes);
    if (watch.uffd < 0)
        return false;
    watch.stop = eventfd(0, EFD_CLOEXEC);
    if (watch.stop < 0) {
        snprintf(why, why_len_bytes, "eventfd: %s", strerror(errno));
        return false;
    }
    watch.kind = EMX_WATCH_UFFD;
    if (!memwatch_start_reader(why, why_len_bytes)) {
        watch.kind = EMX_WATCH_OFF;
        return false;
    }
    if (memwatch_works(why, why_len_bytes)) {
        snprintf(why, why_len_bytes, "the kernel tells of unmapped memory (userfaultfd)");
        return true;
    }
    memwatch_stop_reader();
    watch.kind = EMX_WATCH_OFF;
    return false;
}

static bool memwatch_start_host(char *why, size_t why_len_bytes)
{
    if (!watch.host) {
        snprintf(why, why_len_bytes, "the program that uses ethmx tells of no unmapped memory");
        return false;
    }
    if (!watch.host->tell(true)) {
        snprintf(why, why_len_bytes, "%s cannot tell of unmapped memory here", watch.host->name);
        return false;
    }
    watch.kind = EMX_WATCH_HOST;
    snprintf(why, why_len_bytes, "%s tells of unmapped memory", watch.host->name);
    return true;
}

static void memwatch_start(enum emx_watch mode, char *why, size_t why_len_bytes)
{
    char no_uffd[200] = "", no_host[128] = "";

    watch.maps = emx_mapping_open(why, why_len_bytes);
    if (watch.maps < 0)
        return;
    if (!watch.atfork)
        watch.atfork = !pthread_atfork(NULL, NULL, memwatch_in_child);
    if (mode != EMX_WATCH_HOST && memwatch_start_uffd(no_uffd, sizeof(no_uffd))) {
        snprintf(why, why_len_bytes, "%s", no_uffd);
        return;
    }
    memwatch_close_one(&watch.uffd);
    memwatch_close_one(&watch.stop);
    if (mode != EMX_WATCH_UFFD && memwatch_start_host(no_host, sizeof(no_host))) {
        snprintf(why, why_len_bytes, "%s", no_host);
        return;
    }
    memwatch_close_fds();
    snprintf(why, why_len_bytes, "%s%s%s", no_uffd, *no_uffd && *no_host ? "; " : "", no_host);
}

/* Events may still be queued for mappings that have grown beyond the known spans. */
static void memwatch_end(void)
{
    if (watch.kind == EMX_WATCH_UFFD) {
        emx_memwatch_lock();
        memwatch_forget_all();
        emx_memwatch_unlock();
        emx_memwatch_settle();
        memwatch_stop_reader();
    }
    if (watch.kind == EMX_WATCH_HOST)
        watch.host->tell(false);
    watch.kind = EMX_WATCH_OFF;
    memwatch_close_fds();
}

static void memwatch_add_watcher(struct emx_watcher *w)
{
    emx_memwatch_lock();
    emx_list_append(&watch.watchers, &w->link);
    emx_memwatch_unlock();
}

enum emx_watch emx_memwatch_join(struct emx_watcher *w, enum emx_watch mode, char *why, size_t why_len_bytes)
{
    enum emx_watch kind;

    if (mode == EMX_WATCH_OFF) {
        snprintf(why, why_len_bytes, "ETHMX_REG_CACHE=off");
        return EMX_WATCH_OFF;
    }
    pthread_mutex_lock(&watch.life);
    if (watch.kind == EMX_WATCH_OFF)
        memwatch_start(mode, why, why_len_bytes);
    else
        snprintf(why, why_len_bytes, "as for the endpoints of this process that were opened before");
    kind = watch.kind;
    if (kind != EMX_WATCH_OFF)
        memwatch_add_watcher(w);
    pthread_mutex_unlock(&watch.life);
    return kind;
}

void emx_memwatch_leave(struct emx_watcher *w)
{
    pthread_mutex_lock(&watch.life);
    emx_memwatch_lock();
    emx_list_del(&w->link);
    emx_memwatch_unlock();
    if (emx_list_empty(&watch.watchers))
        memwatch_end();
    pthread_mutex_unlock(&watch.life);
}
