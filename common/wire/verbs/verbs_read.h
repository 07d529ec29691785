/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Large messages of the verbs wire: the sender exports memory and the receiver's device reads it (RDMA get), or the
 * receiver exports and the sender's device writes (RDMA put). verbs_read.c has the mechanism. Used under the endpoint's
 * lock.
 */
#ifndef EMX_WIRE_VERBS_READ_H
#define EMX_WIRE_VERBS_READ_H

#include "wire/verbs/verbs_peer.h"

/* As in struct emx_wire_ops. */
int emx_verbs_export(struct emx_wire *w, struct emx_wire_export *l, void **held);
void emx_verbs_unexport(struct emx_wire *w, void **held, const void *until);
int emx_verbs_read_start(struct emx_wire *w, const struct emx_wire_read *r);
bool emx_verbs_read_end(struct emx_wire *w, struct emx_wire_read_end *end_p);

/* Posts parts of the connection's reads, as many as the device may have. */
void emx_verbs_reads_go_on(struct emx_verbs_conn *c);
/* The device has completed a part, successfully (well) or not. */
void emx_verbs_read_part_over(struct emx_verbs_conn *c, const struct emx_verbs_part *part, bool well);
/* The device has given up retransmitting to that peer. Further writes have shorter parts. */
void emx_verbs_write_less(struct emx_verbs_conn *c);
/* The connection is broken. Its reads end; those in progress at the device end when it returns them. */
void emx_verbs_reads_fail(struct emx_verbs_conn *c);

/* The connection has ended, and its exports with it. */
void emx_verbs_exported_over(struct emx_verbs_wire *w, const struct emx_verbs_conn *c);
/* The device is being closed: releases the memory that is exported there. */
void emx_verbs_exported_forget(struct emx_verbs_wire *w, const struct emx_verbs_dev *d);
/* Frees all ended reads and all exports. The devices are still open. */
void emx_verbs_reads_drop(struct emx_verbs_wire *w);

/* The shortest message for which reading may pay on any device; 0: no device reads. */
uint64_t emx_verbs_export_min(const struct emx_verbs_wire *w);
/* The costs on the first device that reads; NULL: unknown. */
const struct emx_costs *emx_verbs_export_costs(const struct emx_verbs_wire *w);

#endif
