/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large messages in the verbs wire: the sender's memory is exposed, the receiver's device reads it; or the other way
 * round, and the sender's writes. See verbs_read.c.
 * No thread safety: the endpoint's lock.
 */
#ifndef EMX_WIRE_VERBS_READ_H
#define EMX_WIRE_VERBS_READ_H

#include "wire/verbs/verbs_peer.h"

/* As in struct emx_wire_ops. */
int emx_verbs_export(struct emx_wire *w, struct emx_wire_export *l, void **held);
void emx_verbs_unexport(struct emx_wire *w, void **held, const void *until);
int emx_verbs_read_start(struct emx_wire *w, const struct emx_wire_read *r);
bool emx_verbs_read_end(struct emx_wire *w, struct emx_wire_read_end *end_p);

/* Hands parts of the connection's reads to the device, as many as it may have. */
void emx_verbs_reads_go_on(struct emx_verbs_conn *c);
/* A part that was with the device is over. */
void emx_verbs_read_part_over(struct emx_verbs_conn *c, const struct emx_verbs_part *part, bool well);
/* The device has given up on packets to that peer. */
void emx_verbs_write_less(struct emx_verbs_conn *c);
/* The connection is of no use any more. Its reads end, those that the device is at when it has given them back. */
void emx_verbs_reads_fail(struct emx_verbs_conn *c);

/* The connection is over: nothing is exposed over it any more. */
void emx_verbs_exported_over(struct emx_verbs_wire *w, const struct emx_verbs_conn *c);
/* The device is closed: nothing is exposed there any more. */
void emx_verbs_exported_forget(struct emx_verbs_wire *w, const struct emx_verbs_dev *d);
/* Frees reads whose ends nobody wants to know, and gives back all that is exposed; the devices are there still. */
void emx_verbs_reads_drop(struct emx_verbs_wire *w);

/* From how many bytes on reading may be worth while on any device; 0: none reads. */
uint64_t emx_verbs_export_min(const struct emx_verbs_wire *w);
/* What it saves, on the first device that reads; NULL: not known. */
const struct emx_costs *emx_verbs_export_costs(const struct emx_verbs_wire *w);

#endif
