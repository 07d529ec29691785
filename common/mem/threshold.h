/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Critical size: shorter messages are copied into memory that is registered once and for all, longer ones are
 * registered where they lie. It depends on processor, kernel and device, so it is measured: once, and kept in a file
 * for all processes of this user on this host.
 *
 * Two sizes, for pages that are there and pages that are not, weigh registering at one end against copying there: they
 * decide about messages that wait for a rendezvous in any case. A message that would go eagerly if it were copied waits
 * for one only to be read. Whether that is worth while depends on how long a round trip to the peer takes, too. So what
 * was measured is kept for each size, and the engine weighs it against the round trip that it has seen
 * (base/crossing.h, core/msg/rdma_get.c).
 */
#ifndef EMX_MEM_THRESHOLD_H
#define EMX_MEM_THRESHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/crossing.h"
#include "mem/regcache.h"

#define EMX_REG_THRESHOLD_NEVER EMX_THRESHOLD_NEVER

struct emx_reg_threshold {
    uint64_t resident_bytes; /* from so many on it is cheaper to register and deregister; EMX_REG_THRESHOLD_NEVER */
    uint64_t fresh_bytes;    /* the same for memory whose pages are not there yet */
    bool fault_in;           /* such pages are better brought in before they are registered */
    struct emx_costs way;    /* of both ends together; count 0: ETHMX_REG_MIN decides, or it is a guess */
};

/* Measures. Takes some hundredths of a second. ETHMX_ERR_NO_MEMORY: not even the smallest could be registered. */
int emx_reg_threshold_measure(const struct emx_registrar *r, struct emx_reg_threshold *c_p);

/* What holds here: what ETHMX_REG_MIN says, or the file, or else what is measured now and put into the file. While
 * another process measures it waits, a second at most. Never fails: without any of these it is a guess. device: a word
 * that tells devices of this host apart. how: where it is from, for people. */
void emx_reg_threshold_get(const struct emx_registrar *r, const char *device, const struct emx_config *cfg,
                           struct emx_reg_threshold *c_p, char *how, size_t how_len_bytes);

#endif
