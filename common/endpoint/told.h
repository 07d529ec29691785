/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Told interfaces: which of the chosen interfaces peers are told of, in which order, and which of them have no room in
 * the address that a launcher carries.
 */
#ifndef EMX_ENDPOINT_TOLD_H
#define EMX_ENDPOINT_TOLD_H

#include <stdbool.h>
#include <stddef.h>

#include "core/format/address.h"
#include "wire/way.h"

/* Fills site->told from the chosen interfaces of n: first the preferred one of each network, then the others. */
void emx_told_choose(const struct emx_netifs *n, struct emx_way_site *site);

/* The address, in its family, and the prefix of the told interface i; nothing else. */
struct emx_wire_if emx_told_ip(const struct emx_way_site *site, unsigned i);

/* Whether the launcher's address of self leaves out the only interface of a network; then text has a sentence. */
bool emx_told_incomplete(const struct emx_address *self, const struct emx_way_site *site, char *text,
                         size_t text_len_bytes);

#endif
