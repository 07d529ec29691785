/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening the wires of an endpoint, which become its links (progress/link.h), and why others could not be opened; what
 * peers must know of them, and how to sleep until one has something.
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

/* Opens them. ETHMX_ERR_PARAM; ETHMX_ERR_NO_WIRE when none could be opened: the sentence has each one's reason. A wire
 * that is declined while others remain is told on the log. */
int emx_links_open(struct emx_links *l, const struct emx_wire_params *params);
void emx_links_close(struct emx_links *l);

/* Adds to a what peers must know of each wire. ETHMX_ERR_PARAM: it is too much for an address; the thread's error
 * sentence is set. */
int emx_links_tell(const struct emx_links *l, const struct emx_way_site *site, struct emx_address *a);

/* Whether a wire holds frames that close() would lose (emx_wire_ops.unsent). */
bool emx_links_unsent(const struct emx_links *l);

/* Before sleeping on emx_links_fds(), under the lock: false: do not sleep, a wire has something (emx_wire_ops.arm). */
bool emx_links_arm(const struct emx_links *l);

/* Fills fd with what becomes readable when frames come, also writable for links in the
 * mask full. Returns how many; *all_p: every link has one. */
unsigned emx_links_fds(const struct emx_links *l, unsigned full, struct pollfd fd[EMX_LINKS_FDS], bool *all_p);

#endif
