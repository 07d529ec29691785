/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Table of the peers of a shm wire, and the sockets to them.
 */
#ifndef EMX_WIRE_SHM_PEER_H
#define EMX_WIRE_SHM_PEER_H

#include "wire/shm/shm_wire.h"

/* The peer, or NULL. */
struct emx_shm_peer *emx_shm_peer_find(const struct emx_shm_wire *w, uint32_t id);

/* Finds the peer or adds it. NULL: out of memory. Adding may move the table: pointers to other peers end. */
struct emx_shm_peer *emx_shm_peer_get(struct emx_shm_wire *w, uint32_t id);

/* Adds the socket to the epoll set. false: errno. */
bool emx_shm_port_watch(struct emx_shm_wire *w, struct emx_shm_port *p);

/* Closes the socket, if there is one, and takes it out of the epoll set. */
void emx_shm_port_close(struct emx_shm_wire *w, struct emx_shm_port *p);

/* Handles the sockets that are readable: new connections, rings, wakeups, ends of peers. */
void emx_shm_ports_poll(struct emx_shm_wire *w);

#endif
