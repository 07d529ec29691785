/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Data: reads and writes at an offset of a message, whatever the layout of the program's memory.
 */
#ifndef EMX_CORE_DATA_H
#define EMX_CORE_DATA_H

#include <stddef.h>
#include <string.h>

#include "base/copy.h"
#include "ethmx.h"

/* Layouts other than contiguous. */
void emx_data_read_scattered(const struct ethmx_data *d, size_t offset, void *buf, size_t len_bytes);
void emx_data_write_scattered(const struct ethmx_data *d, size_t offset, const void *buf, size_t len_bytes);

static inline int emx_data_contiguous(const struct ethmx_data *d)
{
    return !d->copy && !d->iov;
}

/* Copies field by field. Reading two recently written fields at once would stall the processor on store forwarding. */
static inline struct ethmx_data emx_data_same(const struct ethmx_data *d)
{
    return (struct ethmx_data){.len_bytes = d->len_bytes,
                               .base = d->base,
                               .iov = d->iov,
                               .iov_count = d->iov_count,
                               .copy = d->copy,
                               .copy_arg = d->copy_arg};
}

/* Copies len_bytes at offset out of the data. */
static inline void emx_data_read(const struct ethmx_data *d, size_t offset, void *buf, size_t len_bytes)
{
    if (!len_bytes)
        return;
    if (emx_data_contiguous(d))
        memcpy(buf, (const char *)d->base + offset, len_bytes);
    else
        emx_data_read_scattered(d, offset, buf, len_bytes);
}

/* Copies len_bytes to offset of the data. Truncates what lies beyond its end. */
static inline void emx_data_write(const struct ethmx_data *d, size_t offset, const void *buf, size_t len_bytes)
{
    if (offset >= d->len_bytes)
        return;
    if (len_bytes > d->len_bytes - offset)
        len_bytes = d->len_bytes - offset;
    if (!len_bytes)
        return;
    if (emx_data_contiguous(d))
        emx_copy((char *)d->base + offset, buf, len_bytes);
    else
        emx_data_write_scattered(d, offset, buf, len_bytes);
}

/* The memory of len_bytes at offset if it is contiguous, or NULL. */
const void *emx_data_piece(const struct ethmx_data *d, size_t offset, size_t len_bytes);

/* Copies the first len_bytes of src to dst. */
void emx_data_copy(const struct ethmx_data *dst, const struct ethmx_data *src, size_t len_bytes);

#endif
