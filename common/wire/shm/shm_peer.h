/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of the peers of a shm wire, and their sockets. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_SHM_PEER_H
#define EMX_WIRE_SHM_PEER_H

#include "wire/shm/shm_wire.h"

/* The peer, or NULL. */
struct emx_shm_peer *emx_shm_peer_find(const struct emx_shm_wire *w, uint32_t id);

/* Finds the peer or adds it. NULL: out of memory. Adding may move the table and invalidates pointers to other peers. */
struct emx_shm_peer *emx_shm_peer_get(struct emx_shm_wire *w, uint32_t id);

/* Adds the socket to the epoll set. false, and errno. */
bool emx_shm_port_watch(struct emx_shm_wire *w, struct emx_shm_port *p);

/* Closes the socket, if there is one, and removes it from the epoll set. */
void emx_shm_port_close(struct emx_shm_wire *w, struct emx_shm_port *p);

/* Handles the readable sockets: new connections, rings, wakeups, ends of peers. */
void emx_shm_ports_poll(struct emx_shm_wire *w);

#endif
