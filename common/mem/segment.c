/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A segment is a memfd, sealed against a change of its length, so that who has mapped it needs no care of that: first a
 * page with the head, then the memory. Without memfd_create(2), or without a free descriptor, it is memory of this
 * process alone.
 */
#define _GNU_SOURCE
#include "mem/segment.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static_assert(sizeof(struct emx_segment_head) <= 4096, "the head fits a page");

static size_t segment_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* The head and the memory; 0: it is too long. */
static size_t segment_map_bytes(uint64_t len_bytes)
{
    size_t page = segment_page_bytes();

    if (len_bytes > INT64_MAX - 2 * page)
        return 0;
    return page + ((size_t)len_bytes + page - 1) / page * page;
}

/* -1: there is none. */
static int segment_file(size_t map_bytes)
{
    int fd = memfd_create("ethmx-rma", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, (off_t)map_bytes) || fcntl(fd, F_ADD_SEALS, SEALS | F_SEAL_SEAL))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void *segment_map_file(int fd, size_t map_bytes)
{
    void *m = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    return m == MAP_FAILED ? NULL : m;
}

struct emx_segment *emx_segment_new(size_t len_bytes, bool shared)
{
    size_t map_bytes = segment_map_bytes(len_bytes);
    struct emx_segment *g = map_bytes ? calloc(1, sizeof(*g)) : NULL;

    if (!g)
        return NULL;
    emx_list_init(&g->link);
    g->len_bytes = len_bytes;
    g->fd = shared ? segment_file(map_bytes) : -1;
    g->head = segment_map_file(g->fd, map_bytes);
    if (!g->head) {
        if (g->fd >= 0)
            close(g->fd);
        free(g);
        return NULL;
    }
    g->memory = (uint8_t *)g->head + segment_page_bytes();
    g->sharing.gate = &g->head->gate;
    return g;
}

void emx_segment_name(struct emx_segment *g, uint64_t key)
{
    g->key = g->head->key = key;
}

void emx_segment_grant(struct emx_segment *g)
{
    g->sharing.words = true;
    g->head->words = 1;
}

void emx_segment_free(struct emx_segment *g)
{
    g->head->withdrawn = 1;
    emx_list_del(&g->link);
    munmap(g->head, segment_map_bytes(g->len_bytes));
    if (g->fd >= 0)
        close(g->fd);
    free(g);
}

/* ---- Of another process ---- */

static bool segment_is_sealed(int fd, size_t map_bytes)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & SEALS) == SEALS && !fstat(fd, &st) && st.st_size == (off_t)map_bytes;
}

int emx_segment_map(struct emx_segment_map *m, int fd, uint64_t key, uint64_t len_bytes)
{
    size_t map_bytes = segment_map_bytes(len_bytes);

    m->head = NULL;
    if (!map_bytes || !segment_is_sealed(fd, map_bytes))
        return EPROTO;
    m->head = segment_map_file(fd, map_bytes);
    if (!m->head)
        return errno;
    m->view = (struct emx_view){.memory = (uint8_t *)m->head + segment_page_bytes(),
                                .len_bytes = len_bytes,
                                .words = &m->head->words,
                                .gate = &m->head->gate,
                                .slot = (unsigned)getpid()};
    if (m->head->key == key)
        return 0;
    emx_segment_unmap(m);
    return EPROTO;
}

void emx_segment_unmap(struct emx_segment_map *m)
{
    if (m->head)
        munmap(m->head, segment_map_bytes(m->view.len_bytes));
    m->head = NULL;
}

bool emx_segment_ended(const struct emx_segment_map *m)
{
    return m->head->withdrawn;
}
