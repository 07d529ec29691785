/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copy: memcpy() without a function call for 4 to 16 bytes, the most frequent lengths. The buffers must not overlap.
 */
#ifndef EMX_BASE_COPY_H
#define EMX_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* 4 to 7 bytes or 8 to 16, as two words that may overlap. */
static inline void emx_copy_words4(uint8_t *to, const uint8_t *from, size_t len_bytes)
{
    uint32_t first, last;

    memcpy(&first, from, sizeof(first));
    memcpy(&last, from + len_bytes - sizeof(last), sizeof(last));
    memcpy(to, &first, sizeof(first));
    memcpy(to + len_bytes - sizeof(last), &last, sizeof(last));
}

static inline void emx_copy_words8(uint8_t *to, const uint8_t *from, size_t len_bytes)
{
    uint64_t first, last;

    memcpy(&first, from, sizeof(first));
    memcpy(&last, from + len_bytes - sizeof(last), sizeof(last));
    memcpy(to, &first, sizeof(first));
    memcpy(to + len_bytes - sizeof(last), &last, sizeof(last));
}

/* As memcpy(); with len_bytes 0 the pointers may be NULL. */
static inline void emx_copy(void *to, const void *from, size_t len_bytes)
{
    if (len_bytes >= 8 && len_bytes <= 16)
        emx_copy_words8(to, from, len_bytes);
    else if (len_bytes >= 4 && len_bytes < 8)
        emx_copy_words4(to, from, len_bytes);
    else if (len_bytes)
        memcpy(to, from, len_bytes);
}

#endif
