/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Critical size: shorter messages are copied into memory that is registered once and for all, longer ones are
 * registered where they lie. It depends on processor, kernel and device, so it is measured: once, and kept in a file
 * for all processes of this user on this host.
 */
#ifndef EMX_MEM_CRITICAL_H
#define EMX_MEM_CRITICAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "mem/regcache.h"

#define EMX_CRITICAL_NEVER UINT64_MAX

struct emx_critical {
    uint64_t resident_bytes; /* from so many on it is cheaper to register and deregister; EMX_CRITICAL_NEVER */
    uint64_t fresh_bytes;    /* the same for memory whose pages are not there yet */
    bool fault_in;           /* such pages are better brought in before they are registered */
};

/* Of n sizes, which double from 4096 on: from which on registering is the better choice, all taken together. One that
 * was measured wrong does not decide, the largest least of all: each counts by how much the wrong choice costs there,
 * twice as much at most. EMX_CRITICAL_NEVER: from none. */
uint64_t emx_critical_crossing(const uint64_t *reg_ns, const uint64_t *copy_ns, unsigned n);

/* Measures. Takes some hundredths of a second. ETHMX_ERR_NO_MEMORY: not even the smallest could be registered. */
int emx_critical_measure(const struct emx_registrar *r, struct emx_critical *c_p);

/* What holds here: what ETHMX_REG_MIN says, or the file, or else what is measured now and put into the file. Never
 * fails: without any of these it is a guess. device: a word that tells devices of this host apart. how: where it is
 * from, for people. */
void emx_critical_get(const struct emx_registrar *r, const char *device, const struct emx_config *cfg,
                      struct emx_critical *c_p, char *how, size_t how_len_bytes);

#endif
