/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Join: how two endpoints on one host come to share memory. shm_join.c describes it. All sockets are non-blocking. The
 * caller owns descriptors and memory.
 */
#ifndef EMX_WIRE_SHM_JOIN_H
#define EMX_WIRE_SHM_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/shm/shm_mem.h"
#include "wire/shm/shm_ring.h"

/* The message of a sender to the endpoint that it joins. */
struct emx_shm_hello {
    uint32_t magic, layout;
    uint32_t memory_bytes;
    uint32_t id; /* the sender's endpoint */
    struct emx_shm_token token;
};

/* Whether this process can distinguish its own user's processes from others. If not, why has the reason. */
bool emx_shm_knows_users(char *why, size_t why_len_bytes);

/* Listens for senders to endpoint id. A socket, or -errno. */
int emx_shm_listen(uint32_t id);

/* Accepts the next connection of a process of this user; -1: there is none. *pid_p: its pid, 0 if it is not visible
 * here. */
int emx_shm_accept(int listener, pid_t *pid_p);

/* Connects to endpoint id. A socket, or -errno: EAGAIN: its queue is full, try again later; ECONNREFUSED: there is no
 * such endpoint in this network namespace; EPERM: it belongs to another user. */
int emx_shm_call(uint32_t id);

/* Creates the memory of a ring, zeroed. NULL and errno. *fd_p is for emx_shm_send(). */
struct emx_shm_memory *emx_shm_memory_new(int *fd_p);
void emx_shm_memory_free(struct emx_shm_memory *m);

/* Sends the sender's identity and the ring's memory, once. 0 or an errno; EAGAIN: try again. */
int emx_shm_send(int fd, uint32_t id, const struct emx_shm_token *token, int memory_fd);

/* Receives that message. 0 or an errno; EAGAIN: it has not arrived; EPROTO: it was something else. */
int emx_shm_receive(int fd, struct emx_shm_hello *hello_p, struct emx_shm_memory **m_p);

/* Sends a message without meaning, to wake the other end. */
void emx_shm_poke(int fd);

enum emx_shm_note_kind {
    EMX_SHM_WANTED,   /* the segment with this key is wanted */
    EMX_SHM_ANSWERED, /* here it is: with its descriptor */
    EMX_SHM_WORDS,    /* it would be changed by the processor's atomic instructions; see emx_segment_grant() */
};

/* What else the two ends tell each other. A writer of a ring wants to map a segment of its reader, which answers. */
struct emx_shm_note {
    uint32_t magic, kind; /* enum emx_shm_note_kind */
    uint64_t key;
    uint64_t len_bytes; /* of the segment */
};

/* segment_fd: -1, or passed to the other end. What cannot be sent now is not sent. */
void emx_shm_send_note(int fd, const struct emx_shm_note *note, int segment_fd);

/* Reads all messages, and calls fn for notes. segment_fd: -1, or what was passed, closed after the call. false: the
 * other end has ended. */
typedef void (*emx_shm_note_fn)(void *arg, void *port, const struct emx_shm_note *note, int segment_fd);
bool emx_shm_drain(int fd, emx_shm_note_fn fn, void *arg, void *port);

#endif
