/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Links: the open wires of an engine, numbered as the engine numbers them. They belong to a struct emx_progress and are
 * used under its lock.
 */
#ifndef EMX_PROGRESS_LINK_H
#define EMX_PROGRESS_LINK_H

#include <stdbool.h>

#include "core/engine.h"
#include "wire/wire.h"

struct emx_link {
    struct emx_wire *wire;
    const struct emx_wire_ops *ops;
    struct emx_wire_attr attr;
    struct emx_rxframe rx[EMX_WIRE_BATCH]; /* owned by the wire; [rx_next, rx_count) not handled yet */
    unsigned rx_next, rx_count;
    struct emx_read read; /* given to the wire, while reading */
    bool reading;
};

struct emx_links {
    struct emx_link link[EMX_ENGINE_LINKS];
    unsigned count;
    unsigned cheap, syscall_poll; /* masks: polled without a system call, or with one; */
    unsigned peekable;            /* of the cheap ones: can be peeked at */
    unsigned reliable, guarded;   /* masks of emx_wire_attr */
};

/* Adds an open wire as the next link; there must be fewer than EMX_ENGINE_LINKS. The caller closes the wire. */
void emx_links_add(struct emx_links *l, const struct emx_wire_ops *ops, struct emx_wire *wire);

/* Lets each wire do its deferred work (emx_wire_ops.sweep). */
void emx_links_sweep(const struct emx_links *l);

#endif
