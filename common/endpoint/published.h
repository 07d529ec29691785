/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Published counters: an endpoint keeps its counters in memory that other processes of its user can read (ethmx_top),
 * without any help of the endpoint.
 */
#ifndef EMX_ENDPOINT_PUBLISHED_H
#define EMX_ENDPOINT_PUBLISHED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/stats.h"

struct emx_published {
    struct emx_published_page *page; /* NULL: own is in use */
    int fd;
    struct emx_stats *own;
};

/* Returns zeroed counters, published if wanted and possible; NULL: out of memory. */
struct emx_stats *emx_published_open(struct emx_published *p, bool wanted);

/* Says whose counters they are. From now on readers take them. */
void emx_published_name(struct emx_published *p, uint32_t endpoint, uint32_t job, uint64_t process);

void emx_published_close(struct emx_published *p);

#endif
