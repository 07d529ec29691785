/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measure: the time to register memory on this machine, and to copy it.
 */
#ifndef EMX_MEM_MEASURE_H
#define EMX_MEM_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/regcache.h"

#define EMX_MEASURE_THREADS 64
#define EMX_MEASURE_ROUNDS  64

struct emx_measure_case {
    size_t len_bytes;
    unsigned threads; /* at the same time, each with memory of its own */
    unsigned rounds;  /* of which the median is taken, */
    bool minimum;     /* or the minimum: other programs only lengthen rounds */
    bool resident;    /* the pages are resident; otherwise the memory is new */
    bool huge;        /* transparent huge pages */
};

struct emx_measure {
    uint64_t reg_ns;
    uint64_t fault_reg_ns; /* faulted in first, then registered; resident: the same as reg_ns */
    uint64_t dereg_ns;
    uint64_t copy_ns; /* memcpy() into the memory */
};

/* Measures one case, with the registrar's clock if it has one. Takes rounds times a few milliseconds for some
 * megabytes. ETHMX_ERR_NO_MEMORY: the registrar or the system has too little. ETHMX_ERR_PARAM: there are no huge pages
 * here, or the case is out of bounds. */
int emx_measure(const struct emx_registrar *r, const struct emx_measure_case *c, struct emx_measure *m_p);

/* Faults in writable memory, in one call. false: it is not writable, or Linux is older than 5.14. */
bool emx_fault_in(void *base, size_t len_bytes);

/* Whether the first and the last page are resident; then the others usually are, too. */
bool emx_is_resident(const void *base, size_t len_bytes);

#endif
