/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens the wires of an endpoint as its links (progress/link.h), reports why others could not be opened, writes their
 * parts of the endpoint's address, and provides the descriptors to sleep on. All functions are called under the
 * endpoint's lock, or before others know the endpoint.
 */
#ifndef EMX_ENDPOINT_LINKS_H
#define EMX_ENDPOINT_LINKS_H

#include <poll.h>
#include <stddef.h>

#include "base/config.h"
#include "progress/link.h"
#include "core/format/address.h"
#include "wire/way.h"
#include "wire/wire.h"

#define EMX_LINKS_FDS (EMX_ENGINE_LINKS * EMX_WIRE_FDS)

/* The wires of ETHMX_WIRES in its order, each once. ETHMX_ERR_PARAM: an unknown name, none, or too many; the thread's
 * error sentence is set. */
int emx_links_parse(const struct emx_config *cfg, const struct emx_wire_ops *ops[EMX_ENGINE_LINKS], unsigned *count_p);

/* Opens them. ETHMX_ERR_PARAM. ETHMX_ERR_NO_WIRE: none could be opened, and the error sentence has each one's reason. A
 * wire that cannot be opened while others can is reported in the log. */
int emx_links_open(struct emx_links *l, const struct emx_wire_params *params);
void emx_links_close(struct emx_links *l);

/* Adds the part of each wire to the address. ETHMX_ERR_PARAM: they do not fit; the thread's error sentence is set. */
int emx_links_tell(const struct emx_links *l, const struct emx_way_site *site, struct emx_address *a);

/* Whether a wire holds frames that close() would lose (emx_wire_ops.unsent). */
bool emx_links_unsent(const struct emx_links *l);

/* Called under the lock before sleeping on emx_links_fds(). false: do not sleep, a wire has frames (emx_wire_ops.arm).
 */
bool emx_links_arm(const struct emx_links *l);

/* Fills fd with the descriptors that become readable when frames arrive; those of links in the mask full also when they
 * become writable. Returns how many; *all_p: every link has one. */
unsigned emx_links_fds(const struct emx_links *l, unsigned full, struct pollfd fd[EMX_LINKS_FDS], bool *all_p);

#endif
