/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Log: lines on stderr such as "ethmx: host n1, pid 123: warning: ...". The levels differ by volume: error, warn, info
 * (a line per peer), debug (per connection event), trace (per operation). The level belongs to the process and is set
 * when an endpoint is opened. Only endpoint/, wire/ and base/config log; core/ reports by events and counters.
 * Thread-safe.
 */
#ifndef EMX_BASE_LOG_H
#define EMX_BASE_LOG_H

enum emx_log_level { EMX_LOG_ERROR, EMX_LOG_WARN, EMX_LOG_INFO, EMX_LOG_DEBUG, EMX_LOG_TRACE };

extern _Atomic enum emx_log_level emx_log_limit; /* endpoints may be opened in several threads at once */

/* Writes one line; fmt has no newline. Uses one write(2), so lines of several ranks do not mix. */
void emx_log_write(enum emx_log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define emx_log(level, ...)                                                                                            \
    do {                                                                                                               \
        if ((level) <= emx_log_limit)                                                                                  \
            emx_log_write(level, __VA_ARGS__);                                                                         \
    } while (0)

/* The calling thread's error sentence (ethmx_error_text). */
void emx_error_set(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
const char *emx_error_get(void);

#endif
