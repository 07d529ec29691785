/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Control: the TCP connection between the two ends of an ethmx_perf run. It carries the plan, the addresses of the
 * endpoints, and each end's report. When it closes, the other end has ended.
 */
#ifndef EMX_TOOLS_PERF_CONTROL_H
#define EMX_TOOLS_PERF_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ethmx.h"
#include "perf_plan.h"

#define PERF_PORT         "18515"
#define PERF_COUNTERS_MAX 256
#define PERF_TEXT_MAX     512

/* What an end sends before the tests: its address, or a sentence that says why it has none. */
struct perf_greeting {
    int32_t status;
    uint32_t addr_bytes;
    uint8_t addr[ETHMX_ADDRESS_MAX];
    char text[PERF_TEXT_MAX];
};

/* What an end sends after the tests. */
struct perf_report {
    int32_t status; /* of the run; text has the sentence */
    uint32_t counter_count;
    uint64_t data_errors; /* messages that failed the check */
    uint64_t counter[PERF_COUNTERS_MAX];
    char text[PERF_TEXT_MAX];
};

/* All functions that can fail write the sentence to stderr and return -1. */

/* Client: connects, and tries again for a few seconds while nobody listens. Returns the descriptor. */
int perf_control_connect(const char *host, const char *port);

/* Server: a listening descriptor, and the next client of it. peer: the client's numeric address. */
int perf_control_listen(const char *port);
int perf_control_accept(int listener, char *peer, size_t peer_len_bytes);

/* Blocking, with a time limit. The receiver of a plan or greeting checks it. */
int perf_control_send_plan(int fd, const struct perf_plan *p);
int perf_control_recv_plan(int fd, struct perf_plan *p);
int perf_control_send_greeting(int fd, const struct perf_greeting *g);
int perf_control_recv_greeting(int fd, struct perf_greeting *g);
int perf_control_send_report(int fd, const struct perf_report *r);

enum perf_peek { PERF_PEEK_NOTHING, PERF_PEEK_REPORT, PERF_PEEK_CLOSED };

/* Checks, without blocking, whether the other end's complete report is there (and leaves it) or the connection has
 * ended. */
enum perf_peek perf_control_peek(int fd, struct perf_report *r_p);

/* The same, and removes the report. A connection that is closed with a report unread is reset (RFC 1122, 4.2.2.13),
 * and what of our own report the network has lost is then never sent again. */
enum perf_peek perf_control_take(int fd, struct perf_report *r_p);

#endif
