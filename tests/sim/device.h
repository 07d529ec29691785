/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Device: reads the memory of other nodes by itself, where it was lent (core/msg/rdma_get.c), or writes to it
 * (core/msg/rdma_put.c). Between each two nodes there is a connection, over which keys are told and reads go; it can
 * break at any time.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include <stdbool.h>

#include "node.h"
#include "queue.h"

/* As export(), unexport(), disconnect(), read_start() and read_end() of struct emx_wire_ops; from, party: whose memory
 * it is.
 */
int sim_device_export(struct sim_node *n, struct emx_wire_export *lend, void **held);
void sim_device_unexport(struct sim_node *n, void **held, const void *until);
void sim_device_disconnect(struct sim_node *n, const struct emx_wire_addr *to, const uint64_t *key);
int sim_device_read(struct sim_node *n, struct sim_node *from, unsigned party, const struct emx_wire_read *r);
bool sim_device_ended(struct sim_node *n, struct emx_wire_read_end *end_p);

/* Whether a read or write for this operation is under way. */
bool sim_device_is_at(const struct sim_node *n, const struct emx_op *op);

/* Whether any memory is lent. */
bool sim_device_lends(const struct sim_world *w);

/* The event will not happen. */
void sim_device_drop(const struct sim_event *ev);
/* The node has crashed. */
void sim_device_forget(struct sim_node *n);
void sim_device_fini(struct sim_world *w);

#endif
