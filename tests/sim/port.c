/* SPDX-License-Identifier: BSD-3-Clause */
#include "port.h"

#define ETHERNET_MIN   46 /* payload; shorter frames are padded */
#define ETHERNET_EXTRA 38 /* header, checksum, preamble, gap */

static uint64_t transfer_ns(uint64_t rate_bps, size_t bytes)
{
    return (uint64_t)bytes * 8 * 1000000000 / rate_bps;
}

bool sim_port_has_room(const struct sim_port *p, uint64_t now_ns, size_t bytes)
{
    return sim_port_room_at(p, now_ns, bytes) <= now_ns;
}

bool sim_port_marks(struct sim_port *p, uint64_t now_ns, size_t bytes)
{
    struct sim_port shorter = *p;
    bool marks;

    shorter.limit_bytes = p->mark_bytes;
    marks = p->mark_bytes && !sim_port_has_room(&shorter, now_ns, bytes);
    p->marked += marks;
    return marks;
}

uint64_t sim_port_room_at(const struct sim_port *p, uint64_t now_ns, size_t bytes)
{
    uint64_t ahead_ns;

    if (!p->rate_bps || !p->limit_bytes || p->busy_until_ns <= now_ns)
        return now_ns;
    ahead_ns = bytes < p->limit_bytes ? transfer_ns(p->rate_bps, p->limit_bytes - bytes) : 0;
    return p->busy_until_ns > now_ns + ahead_ns ? p->busy_until_ns - ahead_ns : now_ns;
}

uint64_t sim_port_pass(struct sim_port *p, uint64_t now_ns, size_t bytes)
{
    if (!p->rate_bps)
        return now_ns;
    if (p->busy_until_ns < now_ns)
        p->busy_until_ns = now_ns;
    p->busy_until_ns += transfer_ns(p->rate_bps, bytes);
    return p->busy_until_ns;
}

size_t sim_wire_bytes(size_t frame_bytes)
{
    return (frame_bytes < ETHERNET_MIN ? ETHERNET_MIN : frame_bytes) + ETHERNET_EXTRA;
}
