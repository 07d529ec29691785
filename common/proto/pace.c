/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pace: see pace.h.
 */
#include "proto/pace.h"

#define STEP_BYTES  2048  /* the smallest */
#define FIRST_PART  4     /* of the most */
#define LEAST_BYTES 65536 /* a long way with loss by chance needs so much to be of any use; switches keep it easily */

void emx_pace_init(struct emx_pace *p, uint64_t most_bytes)
{
    uint64_t least_bytes = most_bytes < LEAST_BYTES ? most_bytes : LEAST_BYTES;
    uint64_t first_bytes = most_bytes / FIRST_PART;

    *p = (struct emx_pace){.limit_bytes = first_bytes > least_bytes ? first_bytes : least_bytes,
                           .most_bytes = most_bytes,
                           .least_bytes = least_bytes,
                           .step_bytes = first_bytes};
}

static void rise(struct emx_pace *p, uint64_t bytes)
{
    uint64_t room = p->most_bytes - p->limit_bytes;

    p->limit_bytes += bytes < room ? bytes : room;
}

void emx_pace_arrived(struct emx_pace *p, uint64_t bytes)
{
    p->arrived_bytes += bytes;
    if (p->arrived_bytes < p->limit_bytes)
        return;
    p->arrived_bytes = 0;
    rise(p, p->step_bytes);
    if (p->step_bytes < p->most_bytes)
        p->step_bytes *= 2;
}

void emx_pace_lost(struct emx_pace *p, uint64_t bytes)
{
    uint64_t room = p->limit_bytes - p->least_bytes;

    p->limit_bytes -= bytes < room ? bytes : room;
    p->step_bytes = STEP_BYTES;
}

void emx_pace_twice(struct emx_pace *p, uint64_t bytes)
{
    rise(p, bytes);
}
