/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registration threshold: shorter messages are copied into memory that is always registered, longer ones are registered
 * where they are. It depends on processor, kernel and device. So it is measured once and kept in a file for all
 * processes of this user on this host.
 *
 * Two lengths, for resident pages and for absent ones, compare registering with copying at one end. They decide about
 * messages that use a rendezvous anyway. A message that would go eagerly if it were copied waits for a rendezvous only
 * to be read. Whether that pays depends on the round trip to the peer, too. So the costs at each length are kept, and
 * the engine compares them with the round trip that it measures (base/threshold.h, core/msg/rdma_threshold.c).
 */
#ifndef EMX_MEM_THRESHOLD_H
#define EMX_MEM_THRESHOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/threshold.h"
#include "mem/regcache.h"

#define EMX_REG_THRESHOLD_NEVER EMX_THRESHOLD_NEVER

struct emx_reg_threshold {
    uint64_t resident_bytes; /* registering pays from here on, or EMX_REG_THRESHOLD_NEVER */
    uint64_t fresh_bytes;    /* the same for memory whose pages are absent */
    bool fault_in;           /* faulting such pages in before registering is cheaper */
    struct emx_costs way;    /* of both ends together; count 0: ETHMX_REG_MIN decides, or it is a guess */
};

/* Measures. Takes some hundredths of a second. ETHMX_ERR_NO_MEMORY: not even the shortest could be registered. */
int emx_reg_threshold_measure(const struct emx_registrar *r, struct emx_reg_threshold *c_p);

/* Gets the threshold: from ETHMX_REG_MIN, or from the file, or by measuring, which writes the file. While another
 * process measures, it waits, at most a second. Never fails: without any of these it guesses. device: a word that is
 * different for each device of the host. how: the source, as text. */
void emx_reg_threshold_get(const struct emx_registrar *r, const char *device, const struct emx_config *cfg,
                           struct emx_reg_threshold *c_p, char *how, size_t how_len_bytes);

#endif
