/* SPDX-License-Identifier: BSD-3-Clause
 *
 * History: engines on a network that does what it is told. After each call of an engine its invariants are checked
 * (emx_engine_check(); after output with the next call), what completes gives back its memory, and received contents
 * are compared as long as no frame was altered.
 */
#ifndef FUZZ_HISTORY_H
#define FUZZ_HISTORY_H

#include <stdbool.h>

#include "core/engine.h"

struct history;

/* Engines of this number (2 or 3). settings: bits choose among configurations and kinds of routes. */
struct history *history_begin(unsigned nodes, unsigned settings);
void history_end(struct history *h);

unsigned history_nodes(const struct history *h);
bool history_reliable(const struct history *h); /* its routes are */
uint32_t history_id(const struct history *h, unsigned node);
uint32_t history_cookie(void);
/* The number that a sequenced frame of `from` to `to` must have to be taken. */
uint32_t history_next_seq(const struct history *h, unsigned from, unsigned to);
/* Lengths of interest. */
size_t history_length(unsigned choice);

/* Operations; nodes are taken mod their number. how of receives: bit 0 from anyone, bit 1 any bits. */
void history_send(struct history *h, unsigned node, unsigned to, uint64_t bits, size_t len_bytes, bool sync, bool am);
void history_receive(struct history *h, unsigned node, unsigned from, uint64_t bits, size_t room_bytes, unsigned how);
void history_cancel(struct history *h, unsigned choice);
/* Probes; kind: 0 looks only, 1 gives what it found back, others receive it. */
void history_take(struct history *h, unsigned node, unsigned kind, uint64_t bits);
void history_flush(struct history *h, unsigned node, uint64_t bits);
/* One-sided operations on the region of a node; how: bits choose among kinds, types, places and lengths. */
void history_rma(struct history *h, unsigned node, unsigned to, unsigned how);
void history_rma_flush(struct history *h, unsigned node, unsigned to, bool all);
void history_withdraw(struct history *h, unsigned node);

/* The network: frames under way, by choice mod their number. */
void history_deliver(struct history *h, unsigned choice);
void history_deliver_all(struct history *h);
void history_lose(struct history *h, unsigned choice);
void history_double(struct history *h, unsigned choice);
/* Changes a byte, with or without setting checksum or tag right, and delivers. */
void history_alter(struct history *h, unsigned choice, unsigned at, uint8_t value, bool seal);
/* Sets the checksum right, or puts a tag before a frame, which may move it (it is in a block of its own). */
bool history_seal(struct history *h, unsigned from, unsigned to, uint8_t **data_p, uint32_t *len_bytes_p,
                  unsigned checksum);
/* A frame from outside; sealed: it may be taken. */
void history_input(struct history *h, unsigned node, const uint8_t *data, uint32_t len_bytes, bool sealed);

/* Time. */
void history_pass(struct history *h, uint64_t ns);
void history_next_deadline(struct history *h);

/* Life. */
void history_restart(struct history *h, unsigned node); /* as another incarnation; the former says nothing */
void history_goodbye(struct history *h, unsigned node);
void history_remove(struct history *h, unsigned node, unsigned other, bool force);
void history_connect(struct history *h, unsigned a, unsigned b);
void history_open_some(struct history *h); /* operations of all kinds between 0 and 1 */
/* Frames are delivered and time passes until nothing more happens, or for a while. */
void history_quiet(struct history *h);

#endif
