/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory is an unnamed file (memfd_create(2)), so nothing is left of a process that is killed. Readers find it by
 * the link of its descriptor in /proc, which the kernel shows to processes of the same user and to root only. They copy
 * it by pread(2): what a process does to its file cannot harm them.
 */
#define _GNU_SOURCE
#include "endpoint/published.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "ethmx_published.h"

#define PUBLISHED_NAME  "ethmx-counters"
#define PUBLISHED_LINK  "/memfd:" PUBLISHED_NAME " (deleted)"
#define PUBLISHED_MAGIC UINT64_C(0x31746174736d7865) /* and the layout's version */

struct emx_published_page {
    _Atomic uint64_t magic; /* set last */
    uint64_t table;         /* hash of the names of counters: which table they are of */
    uint32_t endpoint, job, pid;
    uint64_t process;
    char program[24];
    _Alignas(64) struct emx_stats stats;
};

/* ---- Writing ---- */

#define PUBLISHED_COUNTER_NAME(name, unit, level, help) #name ","

static uint64_t published_table(void)
{
    static const char names[] = EMX_COUNTERS(PUBLISHED_COUNTER_NAME);
    uint64_t hash = sizeof(names);

    for (const char *c = names; *c; c++)
        hash = emx_mix64(hash * 257 + (unsigned char)*c);
    return hash;
}

/* The pages are reserved: else writing to them could fail later, with a signal. */
static struct emx_published_page *published_map(int fd)
{
    const off_t len_bytes = sizeof(struct emx_published_page);
    void *page;

    if (posix_fallocate(fd, 0, len_bytes))
        return NULL;
    page = mmap(NULL, (size_t)len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return page == MAP_FAILED ? NULL : page;
}

struct emx_stats *emx_published_open(struct emx_published *p, bool wanted)
{
    *p = (struct emx_published){.fd = wanted ? memfd_create(PUBLISHED_NAME, MFD_CLOEXEC) : -1};
    if (p->fd >= 0) {
        p->page = published_map(p->fd);
        if (p->page)
            return &p->page->stats;
        close(p->fd);
        p->fd = -1;
    }
    p->own = calloc(1, sizeof(*p->own));
    return p->own;
}

void emx_published_name(struct emx_published *p, uint32_t endpoint, uint32_t job, uint64_t process)
{
    struct emx_published_page *page = p->page;

    if (!page)
        return;
    page->table = published_table();
    page->endpoint = endpoint;
    page->job = job;
    page->pid = (uint32_t)getpid();
    page->process = process;
    snprintf(page->program, sizeof(page->program), "%s", program_invocation_short_name);
    atomic_store_explicit(&page->magic, PUBLISHED_MAGIC, memory_order_release);
}

void emx_published_close(struct emx_published *p)
{
    if (p->page) {
        munmap(p->page, sizeof(*p->page));
        close(p->fd);
    }
    free(p->own);
    *p = (struct emx_published){.fd = -1};
}

/* ---- Reading ---- */

struct published_reader {
    void (*fn)(void *arg, const struct ethmx_published *p);
    void *arg;
    unsigned pid;
};

/* The number of a process in its own namespace. 0: unknown. */
static unsigned published_own_pid(unsigned pid)
{
    char path[64], line[256];
    unsigned own = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%u/status", pid);
    file = fopen(path, "re");
    if (!file)
        return 0;
    while (!own && fgets(line, sizeof(line), file)) {
        if (!strncmp(line, "NSpid:", strlen("NSpid:")))
            own = (unsigned)strtoul(strrchr(line, '\t') + 1, NULL, 10);
    }
    fclose(file);
    return own;
}

/* The name is shown on terminals: only visible characters are accepted. */
static void published_clean(char *text, size_t size)
{
    text[size - 1] = 0;
    for (; *text; text++) {
        if (*text <= ' ' || *text >= 0x7f)
            *text = '?';
    }
}

static void published_tell(struct published_reader *r, int fd)
{
    struct emx_published_page page;
    struct ethmx_published p;
    struct stat st;

    if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
        pread(fd, &page, sizeof(page), 0) < (ssize_t)offsetof(typeof(page), stats))
        return;
    if (page.magic != PUBLISHED_MAGIC || page.pid != published_own_pid(r->pid))
        return; /* a child of fork() has the descriptors of its parent */
    published_clean(page.program, sizeof(page.program));
    p = (struct ethmx_published){.pid = r->pid,
                                 .uid = st.st_uid,
                                 .endpoint = page.endpoint,
                                 .job = page.job,
                                 .process = page.process,
                                 .program = page.program};
    if (page.table == published_table())
        p.counter = (const uint64_t *)(const void *)&page.stats;
    r->fn(r->arg, &p);
}

/* Descriptors of a process, in its folder in /proc. */
static void published_read_process(struct published_reader *r, DIR *fds)
{
    const struct dirent *d;
    char target[sizeof(PUBLISHED_LINK)];

    while ((d = readdir(fds))) {
        ssize_t n = readlinkat(dirfd(fds), d->d_name, target, sizeof(target));
        int fd;

        if (n != sizeof(PUBLISHED_LINK) - 1 || memcmp(target, PUBLISHED_LINK, (size_t)n))
            continue;
        fd = openat(dirfd(fds), d->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
            continue;
        published_tell(r, fd);
        close(fd);
    }
}

int ethmx_each_published(void (*fn)(void *arg, const struct ethmx_published *p), void *arg)
{
    struct published_reader r = {.fn = fn, .arg = arg};
    DIR *proc = opendir("/proc");
    const struct dirent *d;

    if (!proc)
        return ETHMX_ERR_NO_MEMORY;
    while ((d = readdir(proc))) {
        char path[64];
        DIR *fds;

        r.pid = (unsigned)strtoul(d->d_name, NULL, 10);
        if (!r.pid)
            continue;
        snprintf(path, sizeof(path), "/proc/%u/fd", r.pid);
        fds = opendir(path); /* fails for processes of others */
        if (!fds)
            continue;
        published_read_process(&r, fds);
        closedir(fds);
    }
    closedir(proc);
    return ETHMX_OK;
}
