/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Open MPI's memory hooks as they reach ethmx: nothing before they are asked for, then every munmap(), before it
 * happens; and nothing any more afterwards. This program is ethmx, as far as memory.c can see.
 */
#include "mtl_ethmx.h"

#include "opal/runtime/opal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BYTES 65536

static const struct ethmx_memory_host *host;
static char *watched;
static unsigned told, too_late;

void ethmx_memory_host(const struct ethmx_memory_host *h)
{
    host = h;
}

void ethmx_memory_gone(const void *base, size_t len_bytes)
{
    const char *from = base;
    unsigned char there;

    if (from >= watched + BYTES || watched >= from + len_bytes) {
        return;
    }
    told++;
    too_late += 0 != mincore(watched, BYTES / 16, &there);
}

static void expect(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "test-memory: %s\n", what);
        exit(1);
    }
}

static void map_and_unmap(void)
{
    watched = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    expect(MAP_FAILED != (void *)watched, "mmap failed");
    memset(watched, 1, BYTES);
    told = 0;
    munmap(watched, BYTES);
}

int main(int argc, char **argv)
{
    expect(OPAL_SUCCESS == opal_init(&argc, &argv), "opal_init failed");
    mtl_ethmx_memory_offer(true);
    expect(NULL != host, "nothing was offered");
    map_and_unmap();
    expect(0 == told, "told before it was asked for");
    if (!host->tell(true)) {
        printf("left out: this Open MPI has no memory hooks\n");
        return 77;
    }
    map_and_unmap();
    expect(0 < told, "munmap was not told");
    expect(0 == too_late, "munmap was told after it had happened");
    watched = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(watched, BYTES, MADV_DONTNEED);
    expect(0 < told, "madvise was not told");
    host->tell(false);
    map_and_unmap();
    expect(0 == told, "told after the end");
    mtl_ethmx_memory_offer(false);
    expect(NULL == host, "the offer was not taken back");
    opal_finalize();
    printf("ok\n");
    return 0;
}
