/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Bulk: how the packet wire sends and receives superframes. See bulk.c for the mechanism.
 */
#ifndef EMX_WIRE_BULK_H
#define EMX_WIRE_BULK_H

#include "wire/superframe.h"
#include "wire/wire.h"

#define EMX_BULK_COOKIE 0x80000000u /* bit in the cookies of frames that bulk lends */

struct emx_bulk;

/* NULL: superframes cannot be had, or are switched off; why says so, and otherwise what was found. */
struct emx_bulk *emx_bulk_open(const struct emx_wire_params *params, char *why, size_t why_len_bytes);
void emx_bulk_close(struct emx_bulk *b);

/* The UDP port that superframes to us carry, host order. */
uint16_t emx_bulk_port(const struct emx_bulk *b);

/* How many of the n frames at f go in one superframe; each at most limit_bytes long. 0: the first does not. */
unsigned emx_bulk_joinable(const struct emx_txframe *f, unsigned n, unsigned limit_bytes);

/* Sends n joinable frames through an interface. 0 or an errno. */
int emx_bulk_send(struct emx_bulk *b, unsigned ifindex, const struct emx_superframe_way *way,
                  const struct emx_txframe *f, unsigned n);

/* As rx() and rx_return() of a wire. */
unsigned emx_bulk_rx(struct emx_bulk *b, struct emx_rxframe *f, unsigned max);
void emx_bulk_return(struct emx_bulk *b, uint32_t cookie);

/* Becomes readable when emx_bulk_rx() has frames. */
int emx_bulk_fd(const struct emx_bulk *b);

#endif
