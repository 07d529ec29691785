/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Links: the wires that an endpoint has open, numbered as the engine knows them, and why the others are not.
 */
#ifndef EMX_CTX_LINKS_H
#define EMX_CTX_LINKS_H

#include <poll.h>
#include <stddef.h>

#include "base/config.h"
#include "proto/address.h"
#include "proto/engine.h"
#include "wire/wire.h"

#define EMX_LINKS_FDS (EMX_ENGINE_LINKS * EMX_WIRE_FDS)

struct emx_link {
    struct emx_wire *wire;
    const struct emx_wire_ops *ops;
    struct emx_wire_attr attr;
    struct emx_rxframe rx[EMX_WIRE_BATCH]; /* lent by the wire: rx_next up to rx_count have not been looked at */
    unsigned rx_next, rx_count;
    struct emx_read read; /* in the wire's hands, while reading */
    bool reading;
    enum emx_address_wire kind;
};

struct emx_links {
    struct emx_link link[EMX_ENGINE_LINKS];
    unsigned count;
    unsigned cheap, dear;       /* masks: polled without a system call, or with one; */
    unsigned shows;             /* of the cheap ones: can be peeked at */
    unsigned reliable, guarded; /* masks of emx_wire_attr */
};

/* The wires of ETHMX_WIRES in its order, each once. ETHMX_ERR_PARAM: an unknown name, or none at all; the thread's
 * error sentence is set. */
int emx_links_parse(const struct emx_config *cfg, const struct emx_wire_ops *ops[EMX_ENGINE_LINKS], unsigned *count_p);

/* Opens them. ETHMX_ERR_PARAM; ETHMX_ERR_NO_WIRE when none could be opened: the sentence has each one's reason. A wire
 * that is declined while others remain is told on the log. */
int emx_links_open(struct emx_links *l, const struct emx_wire_params *params);
void emx_links_close(struct emx_links *l);

/* Fills in what peers must know of the wires: wires, their ports, packet_bytes. */
void emx_links_tell(const struct emx_links *l, struct emx_address *a);

/* Whether a wire holds frames that close() would lose (emx_wire_ops.unsent). */
bool emx_links_unsent(const struct emx_links *l);

/* Lets each wire do what can wait a little (emx_wire_ops.sweep). */
void emx_links_sweep(const struct emx_links *l);

/* Before sleeping on emx_links_fds(), under the lock: false: do not sleep, a wire has something (emx_wire_ops.arm). */
bool emx_links_arm(const struct emx_links *l);

/* Fills fd with what becomes readable when frames come, also writable for links in the
 * mask full. Returns how many; *all_p: every link has one. */
unsigned emx_links_fds(const struct emx_links *l, unsigned full, struct pollfd fd[EMX_LINKS_FDS], bool *all_p);

#endif
