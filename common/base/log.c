/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES  1024
#define ERROR_BYTES 1024

_Atomic enum emx_log_level emx_log_limit = EMX_LOG_WARN;

static __thread char error_text[ERROR_BYTES];

static const char *log_level_name(enum emx_log_level level)
{
    static const char *const name[] = {"error", "warning", "info", "debug", "trace"};

    return (unsigned)level < sizeof(name) / sizeof(name[0]) ? name[level] : "?";
}

/* snprintf() tells the length it wanted; this is what it wrote. */
static size_t log_written(int wanted, size_t room)
{
    if (wanted < 0)
        return 0;
    return (size_t)wanted < room ? (size_t)wanted : room - 1;
}

void emx_log_write(enum emx_log_level level, const char *fmt, ...)
{
    char line[LINE_BYTES], host[64];
    const size_t room = sizeof(line) - 1; /* one for the newline */
    int saved_errno = errno;
    size_t n;
    va_list ap;

    if (gethostname(host, sizeof(host)))
        strcpy(host, "?");
    host[sizeof(host) - 1] = 0;
    n = log_written(snprintf(line, room, "ethmx: host %s, pid %d: %s: ", host, (int)getpid(), log_level_name(level)),
                    room);
    va_start(ap, fmt);
    n += log_written(vsnprintf(line + n, room - n, fmt, ap), room - n);
    va_end(ap);
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) {
        /* Nowhere left to say it. */
    }
    errno = saved_errno;
}

void emx_error_set(const char *fmt, ...)
{
    char text[ERROR_BYTES]; /* the arguments may refer to the former sentence */
    va_list ap;

    va_start(ap, fmt);
    if (vsnprintf(text, sizeof(text), fmt, ap) < 0)
        text[0] = 0;
    va_end(ap);
    memcpy(error_text, text, strlen(text) + 1);
}

const char *emx_error_get(void)
{
    return error_text[0] ? error_text : "no error";
}
