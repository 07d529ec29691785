/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fake registrars: measure and test what pinning memory costs without a device. They do what a device's driver asks of
 * the kernel's memory management, and nothing of what it does with the device.
 */
#ifndef EMX_MEM_FAKE_REGISTRAR_H
#define EMX_MEM_FAKE_REGISTRAR_H

#include <stddef.h>

#include "mem/regcache.h"

/* Opens a registrar by name. "pin": io_uring pins the pages with the kernel function that drivers use, up to 1 GiB at
 * once. "mlock": mlock() faults the pages in and locks them, at nearly the same cost. NULL: the first that works.
 * ETHMX_ERR_PARAM: the name is unknown, or it does not work here; why has the reason. */
int emx_fake_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes);

/* A sentence that says what it replaces. Static text. */
const char *emx_fake_registrar_text(const struct emx_registrar *r);

/* Closes it. The caller has deregistered all memory. */
void emx_fake_registrar_close(struct emx_registrar *r);

#endif
