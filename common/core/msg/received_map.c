/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Received maps: see received_map.h.
 */
#include "core/msg/received_map.h"

#include "base/min.h"
#include "core/engine_impl.h"
#include "core/msg/data.h"
#include "core/msg/rndv.h"

bool emx_received_map_add(struct emx_engine *e, struct emx_rndv *r)
{
    struct emx_received_map *had;

    if (!r->got_chunks)
        return true;
    had = emx_alloc_get(&e->alloc, sizeof(*had) + r->active * sizeof(had->block[0]));
    if (!had)
        return false;
    *had = (struct emx_received_map){
        .next = r->had, .next_chunk = r->next_chunk, .chunk_bytes = r->chunk_bytes, .active = r->active};
    for (unsigned i = 0; i < r->active; i++) {
        had->block[i].first = r->block[i].first;
        had->block[i].missing = r->block[i].missing;
    }
    r->had = had;
    return true;
}

static bool received_map_has(const struct emx_received_map *had, uint64_t chunk)
{
    for (unsigned i = 0; i < had->active; i++)
        if (chunk - had->block[i].first < 64 && had->block[i].missing >> (chunk - had->block[i].first) & 1)
            return false;
    return chunk < had->next_chunk;
}

void emx_received_map_write(const struct ethmx_data *to, const struct emx_received_map *had, uint64_t offset,
                            const uint8_t *data, size_t n)
{
    if (!had) {
        emx_data_write(to, offset, data, n);
        return;
    }
    while (n) {
        uint64_t chunk = offset / had->chunk_bytes;
        size_t part = emx_min(n, (chunk + 1) * had->chunk_bytes - offset);

        if (!received_map_has(had, chunk))
            emx_received_map_write(to, had->next, offset, data, part);
        offset += part;
        data += part;
        n -= part;
    }
}
