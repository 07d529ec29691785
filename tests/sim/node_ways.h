/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How nodes find each other: as endpoints do (endpoint/links.h, endpoint/route.h). A node opens its wires by the table
 * of wires, each wire describes itself in the node's address, and the wire of the other node finds the way from that.
 */
#ifndef SIM_NODE_WAYS_H
#define SIM_NODE_WAYS_H

#include "endpoint/route.h"
#include "node.h"

/* A wire on each network, in the node's order, as links of its progress. chance: of how they are to be polled. */
void sim_node_open_wires(struct sim_node *n, uint64_t chance);
void sim_node_close_wires(struct sim_node *n);

/* Makes n->self, the address of the node's party; its wires are open. */
void sim_node_make_address(struct sim_node *n);

/* The address of n as the launcher of the world carries it, with this id: perhaps of an engine that is gone. Returns
 * its length; 0: n has none yet. */
size_t sim_node_address(const struct sim_node *n, uint32_t id, uint8_t addr[ETHMX_ADDRESS_MAX]);

/* As emx_routes_find(). */
unsigned sim_node_routes(struct sim_node *n, struct emx_peer *peer, struct emx_route r[EMX_ROUTES_MAX], char *why,
                         size_t why_len_bytes);

#endif
