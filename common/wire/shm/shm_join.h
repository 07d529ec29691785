/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Join: how two endpoints on one host come to share memory. See shm_join.c. All sockets are non-blocking.
 */
#ifndef EMX_WIRE_SHM_JOIN_H
#define EMX_WIRE_SHM_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/shm/shm_mem.h"
#include "wire/shm/shm_ring.h"

/* What the sender of a join tells. */
struct emx_shm_hello {
    uint32_t magic, layout;
    uint32_t memory_bytes;
    uint32_t id; /* the sender's endpoint */
    struct emx_shm_token token;
};

/* Whether this process can tell its own user's processes from others. If not, why says so. */
bool emx_shm_knows_users(char *why, size_t why_len_bytes);

/* Listens for those who want to send to endpoint id. A socket, or -errno. */
int emx_shm_listen(uint32_t id);

/* The next one who has called; -1: nobody, or one who is not of this user. *pid_p: 0 if it is not visible here. */
int emx_shm_accept(int listener, pid_t *pid_p);

/* Calls endpoint id. A socket, or -errno: EAGAIN: its queue is full, try again later; ECONNREFUSED: there is no such
 * endpoint in this network namespace; EPERM: it belongs to another user. */
int emx_shm_call(uint32_t id);

/* Makes a ring's memory, zeroed. NULL and errno. The descriptor is for emx_shm_send(). */
struct emx_shm_memory *emx_shm_memory_new(int *fd_p);
void emx_shm_memory_free(struct emx_shm_memory *m);

/* Tells who we are and hands over the ring's memory, once. 0 or an errno; EAGAIN: try again. */
int emx_shm_send(int fd, uint32_t id, const struct emx_shm_token *token, int memory_fd);

/* Receives this. 0 or an errno; EAGAIN: not there yet. EPROTO: it was something else. */
int emx_shm_receive(int fd, struct emx_shm_hello *hello_p, struct emx_shm_memory **m_p);

/* A word without meaning, to wake the other end. */
void emx_shm_poke(int fd);

/* Takes all pokes. false: the other end has gone. */
bool emx_shm_drain(int fd);

#endif
