/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/text.h"

#include <stdarg.h>
#include <stdio.h>

void emx_text_init(struct emx_text *t, char *buf, size_t room_bytes)
{
    *t = (struct emx_text){.buf = buf, .room_bytes = room_bytes};
    buf[0] = 0;
}

void emx_text_add(struct emx_text *t, const char *fmt, ...)
{
    size_t left = t->room_bytes - t->len_bytes;
    va_list ap;
    int wanted;

    va_start(ap, fmt);
    wanted = vsnprintf(t->buf + t->len_bytes, left, fmt, ap);
    va_end(ap);
    if (wanted > 0)
        t->len_bytes += (size_t)wanted < left ? (size_t)wanted : left - 1;
}

void emx_text_separate(struct emx_text *t, const char *separator)
{
    if (t->len_bytes)
        emx_text_add(t, "%s", separator);
}
