/* SPDX-License-Identifier: BSD-3-Clause */
#include "json.h"

#include <inttypes.h>

void emx_json_init(struct emx_json *j, FILE *out)
{
    j->out = out;
    j->depth = 0;
    j->filled = false;
}

static void json_quote(struct emx_json *j, const char *text)
{
    fputc('"', j->out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(j->out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(j->out, "\\u%04x", *c);
        else
            fputc(*c, j->out);
    }
    fputc('"', j->out);
}

static void json_indent(struct emx_json *j)
{
    fprintf(j->out, "\n%*s", (int)(2 * j->depth), "");
}

/* All that stands before a value. */
static void json_begin(struct emx_json *j, const char *name)
{
    if (j->filled)
        fputc(',', j->out);
    if (j->depth)
        json_indent(j);
    if (name) {
        json_quote(j, name);
        fputs(": ", j->out);
    }
    j->filled = true;
}

void emx_json_open(struct emx_json *j, const char *name, char bracket)
{
    json_begin(j, name);
    fputc(bracket, j->out);
    j->depth++;
    j->filled = false;
}

void emx_json_close(struct emx_json *j, char bracket)
{
    j->depth--;
    if (j->filled)
        json_indent(j);
    fputc(bracket, j->out);
    j->filled = true;
    if (!j->depth)
        fputc('\n', j->out);
}

void emx_json_string(struct emx_json *j, const char *name, const char *text)
{
    json_begin(j, name);
    json_quote(j, text);
}

void emx_json_bool(struct emx_json *j, const char *name, bool value)
{
    json_begin(j, name);
    fputs(value ? "true" : "false", j->out);
}

void emx_json_uint(struct emx_json *j, const char *name, uint64_t value)
{
    json_begin(j, name);
    fprintf(j->out, "%" PRIu64, value);
}

void emx_json_real(struct emx_json *j, const char *name, double value)
{
    json_begin(j, name);
    fprintf(j->out, "%.3f", value);
}
