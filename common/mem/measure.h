/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What registering memory costs on this machine, beside copying it.
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
    bool least;       /* or the shortest: programs beside this one only make rounds longer */
    bool resident;    /* the pages are there; otherwise the memory is as fresh from the system */
    bool huge;        /* transparent huge pages */
};

struct emx_measure {
    uint64_t reg_ns;
    uint64_t fault_reg_ns; /* faulted in first, then registered; resident: the same as reg_ns */
    uint64_t dereg_ns;
    uint64_t copy_ns; /* memcpy() into the memory */
};

/* Times by the registrar's clock, if it has one. Takes rounds times a few milliseconds for some megabytes.
 * ETHMX_ERR_NO_MEMORY: the registrar or the system has not so much. ETHMX_ERR_PARAM: there are no huge pages here, or
 * the case is out of bounds. */
int emx_measure(const struct emx_registrar *r, const struct emx_measure_case *c, struct emx_measure *m_p);

/* Brings in pages of writable memory, in one go. false: it cannot be written, or Linux before 5.14. */
bool emx_fault_in(void *base, size_t len_bytes);

/* Whether the first and the last page are there; then the others are, too, as a rule. */
bool emx_is_resident(const void *base, size_t len_bytes);

#endif
