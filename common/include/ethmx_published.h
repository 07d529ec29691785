/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published counters: the counters of the endpoints of this host, for programs that watch them (ethmx_top). Part of the
 * interface of libethmx.
 *
 * An endpoint publishes its counters if the parameter stats is on. It does nothing for those who read them.
 */
#ifndef ETHMX_PUBLISHED_H
#define ETHMX_PUBLISHED_H

#include "ethmx.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

struct ethmx_published {
    unsigned pid, uid;
    uint32_t endpoint, job;  /* their numbers in frames: id and cookie */
    uint64_t process;        /* as in ethmx_ep_options */
    const char *program;     /* its name, perhaps cut */
    const uint64_t *counter; /* as ethmx_counter(); NULL: of a library with another table */
};

/* Calls fn for each endpoint whose counters this user may read: those of its own processes, for root all. Processes
 * whose program got capabilities from its file are shown to root only. What p points to lives for the call; it is a
 * snapshot. ETHMX_ERR_NO_MEMORY, also if there is no /proc. */
int ethmx_each_published(void (*fn)(void *arg, const struct ethmx_published *p), void *arg);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
