/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Data: non-contiguous layouts.
 */
#include "core/msg/data.h"

#include <stdint.h>

/* The iov element that holds *offset_p, which becomes the offset in it. */
static size_t data_iov_find(const struct ethmx_data *d, size_t *offset_p)
{
    size_t i = 0;

    while (i < d->iov_count && *offset_p >= d->iov[i].len_bytes)
        *offset_p -= d->iov[i++].len_bytes;
    return i;
}

static size_t data_min_bytes(size_t a, size_t b)
{
    return a < b ? a : b;
}

void emx_data_read_scattered(const struct ethmx_data *d, size_t offset, void *buf, size_t len_bytes)
{
    if (d->copy) {
        d->copy(d->copy_arg, offset, buf, len_bytes);
        return;
    }
    for (size_t i = data_iov_find(d, &offset); len_bytes && i < d->iov_count; i++, offset = 0) {
        size_t n = data_min_bytes(len_bytes, d->iov[i].len_bytes - offset);

        memcpy(buf, (const char *)d->iov[i].base + offset, n);
        buf = (char *)buf + n;
        len_bytes -= n;
    }
}

void emx_data_write_scattered(const struct ethmx_data *d, size_t offset, const void *buf, size_t len_bytes)
{
    if (d->copy) {
        d->copy(d->copy_arg, offset, (void *)(uintptr_t)buf, len_bytes);
        return;
    }
    for (size_t i = data_iov_find(d, &offset); len_bytes && i < d->iov_count; i++, offset = 0) {
        size_t n = data_min_bytes(len_bytes, d->iov[i].len_bytes - offset);

        memcpy((char *)d->iov[i].base + offset, buf, n);
        buf = (const char *)buf + n;
        len_bytes -= n;
    }
}

const void *emx_data_piece(const struct ethmx_data *d, size_t offset, size_t len_bytes)
{
    size_t i;

    if (d->copy)
        return NULL;
    if (!d->iov)
        return (const char *)d->base + offset;
    i = data_iov_find(d, &offset);
    if (i == d->iov_count || len_bytes > d->iov[i].len_bytes - offset)
        return NULL;
    return (const char *)d->iov[i].base + offset;
}

void emx_data_copy(const struct ethmx_data *dst, const struct ethmx_data *src, size_t len_bytes)
{
    char stage[4096];

    if (emx_data_contiguous(src)) {
        emx_data_write(dst, 0, src->base, len_bytes);
        return;
    }
    for (size_t offset = 0; offset < len_bytes; offset += sizeof(stage)) {
        size_t n = data_min_bytes(sizeof(stage), len_bytes - offset);

        emx_data_read(src, offset, stage, n);
        emx_data_write(dst, offset, stage, n);
    }
}
