/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Text: a sentence that is built step by step in a buffer of fixed length. What does not fit is cut off.
 */
#ifndef EMX_ENDPOINT_TEXT_H
#define EMX_ENDPOINT_TEXT_H

#include <stddef.h>

struct emx_text {
    char *buf;
    size_t room_bytes; /* the final 0 included, at least 1 */
    size_t len_bytes;
};

/* Starts an empty text in buf. */
void emx_text_init(struct emx_text *t, char *buf, size_t room_bytes);

void emx_text_add(struct emx_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Adds separator unless the text is empty. */
void emx_text_separate(struct emx_text *t, const char *separator);

#endif
