/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the scenarios of the end-to-end test share: the two roles, operations to their end, data to recognize.
 */
#ifndef EMX_TESTS_API_ROLE_H
#define EMX_TESTS_API_ROLE_H

#include "unit.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "ethmx.h"

#define FULL_MASK   UINT64_MAX
#define LARGE_BYTES (3u << 20)
#define GUARD       0x5a /* beyond the end of a buffer */

/* One role's view. */
struct side {
    struct ethmx_ep *ep;
    struct ethmx_peer *peer;
    struct ethmx_peer *self;
    int role;
    int fd; /* to the other role, beside the wire */
    unsigned scenario;
};

/* An operation under way. */
struct pending {
    _Atomic bool done;
    struct ethmx_result result;
};

struct pair_options {
    bool threads;          /* endpoints for several threads */
    const char *heartbeat; /* short, so that scenarios with absence are quick */
    const char *progress;  /* NULL: default; likewise wait */
    const char *wait;
};

/* An endpoint with these settings: names and values in turn, and a NULL. */
struct ethmx_ep *open_with(const struct ethmx_ep_options *opt, const char *const *settings);

/* Whether what has been awaited since then will never come. */
bool late(const struct timespec *since);

/* The callback of a struct pending. */
void done(void *arg, const struct ethmx_result *result);

/* Progress until *flag. False: it never comes. */
bool await(const struct side *s, const _Atomic bool *flag);

/* Progress n times. */
void poll_some(const struct side *s, unsigned n);

/* Match bits that only this scenario uses. */
uint64_t bits_of(const struct side *s, unsigned tag);
struct ethmx_data flat(void *base, size_t len_bytes);

/* Data that is wrong when it is shifted, or of another message. */
uint8_t pattern(unsigned seed, size_t i);
void fill(uint8_t *buf, size_t len_bytes, unsigned seed);
bool is_filled(const uint8_t *buf, size_t len_bytes, unsigned seed);

/* Operations that are under way after the call, or done. */
bool start_send(const struct side *s, unsigned tag, struct ethmx_data data, enum ethmx_send_mode mode,
                struct pending *p);
bool start_recv_from(const struct side *s, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                     struct ethmx_data data, struct pending *p, struct ethmx_req **req_p);
bool start_recv(const struct side *s, unsigned tag, struct ethmx_data data, struct pending *p);

/* Operations to their end. */
bool send_data(const struct side *s, unsigned tag, struct ethmx_data data);
bool recv_data(const struct side *s, unsigned tag, struct ethmx_data data, struct ethmx_result *result_p);

/* A message of zero bytes, as a signal. */
bool signal_other(const struct side *s, unsigned tag);
bool await_signal(const struct side *s, unsigned tag);

/* Beside the wire, without progress. */
bool tell(const struct side *s);
bool hear(const struct side *s);

/* As hear(), with progress meanwhile. */
bool hear_progressing(const struct side *s);

/* NULL: it cannot be opened, and the reason is printed. */
struct ethmx_ep *open_endpoint(const struct pair_options *o);

/* Gives our address to the other role and gets its. */
bool exchange(struct side *s);

/* Joins two roles beside the wire. */
void make_sockets(int fd[2]);
/* Forks a process for the other role, which has fd[1]. 0: in that process. */
pid_t fork_other(int fd[2]);

/* The counter's value; UINT64_MAX: there is none of this name. */
uint64_t counter(const struct ethmx_ep *ep, const char *name);

#endif
