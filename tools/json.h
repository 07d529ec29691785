/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Json: writes JSON to a stream, one value at a time, with commas, indentation and escapes. name is NULL inside arrays
 * and for the outermost value. Errors are those of the stream. Not thread-safe.
 */
#ifndef EMX_TOOLS_JSON_H
#define EMX_TOOLS_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct emx_json {
    FILE *out;
    unsigned depth;
    bool filled; /* the innermost object or array has a value already */
};

void emx_json_init(struct emx_json *j, FILE *out);

/* Opens an object '{' or an array '['. */
void emx_json_open(struct emx_json *j, const char *name, char bracket);

/* Closes the innermost with '}' or ']'; after the outermost a newline is written. */
void emx_json_close(struct emx_json *j, char bracket);

void emx_json_string(struct emx_json *j, const char *name, const char *text);
void emx_json_bool(struct emx_json *j, const char *name, bool value);
void emx_json_uint(struct emx_json *j, const char *name, uint64_t value);

/* With three decimals. */
void emx_json_real(struct emx_json *j, const char *name, double value);

#endif
