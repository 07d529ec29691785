/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registrars without a device: what pinning memory costs on this machine, for measuring and for tests. They do what a
 * device's driver asks of the kernel's memory management and none of what it does with the device itself.
 */
#ifndef EMX_MEM_FAKE_REGISTRAR_H
#define EMX_MEM_FAKE_REGISTRAR_H

#include <stddef.h>

#include "mem/regcache.h"

/* "pin": pages pinned for input and output by io_uring, the very function of the kernel that drivers call (up to 1 GiB
 * at once). "mlock": pages locked by mlock(), which faults in and marks them one by one, much as pinning does. NULL:
 * the first that works. ETHMX_ERR_PARAM: there is none of this name, or it does not work here; why has the reason. */
int emx_fake_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes);

/* A sentence that says what it is in place of. */
const char *emx_fake_registrar_text(const struct emx_registrar *r);

/* Nothing is registered any more. */
void emx_fake_registrar_close(struct emx_registrar *r);

#endif
