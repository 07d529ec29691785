/* SPDX-License-Identifier: BSD-3-Clause */
#include "memory.h"

#include <string.h>

#define FILL_MAX    65536 /* filling more only costs time */
#define ALIGN_BYTES 16

struct block {
    size_t len_bytes;
    void *start; /* what malloc gave */
};

static void fill(void *p, int byte, size_t len_bytes)
{
    memset(p, byte, len_bytes < FILL_MAX ? len_bytes : FILL_MAX);
}

static void *get(void *arg, size_t len_bytes)
{
    struct sim_memory *m = arg;
    struct block *b;
    char *start;

    m->calls++;
    if (m->calls >= m->fail_first && m->calls < m->fail_end) {
        m->failures++;
        return NULL;
    }
    start = malloc(m->skew_bytes + sizeof(*b) + len_bytes);
    if (!start)
        return NULL;
    b = (void *)(start + m->skew_bytes);
    b->start = start;
    b->len_bytes = len_bytes;
    m->live_blocks++;
    m->live_bytes += len_bytes;
    if (m->live_bytes > m->peak_bytes)
        m->peak_bytes = m->live_bytes;
    fill(b + 1, 0xa5, len_bytes);
    return b + 1;
}

static void put(void *arg, void *ptr)
{
    struct sim_memory *m = arg;
    struct block *b;

    if (!ptr)
        return;
    b = (struct block *)ptr - 1;
    m->live_blocks--;
    m->live_bytes -= b->len_bytes;
    fill(b + 1, 0x5a, b->len_bytes);
    free(b->start);
}

void sim_memory_init(struct sim_memory *m, size_t skew_bytes)
{
    memset(m, 0, sizeof(*m));
    m->alloc = (struct emx_alloc){.get = get, .put = put, .arg = m};
    m->skew_bytes = skew_bytes / ALIGN_BYTES * ALIGN_BYTES;
}
