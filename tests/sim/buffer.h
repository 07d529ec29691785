/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Buffer: the memory of a simulated program, in each shape that ethmx.h allows, and the content of messages.
 *
 * Each byte of a message is a function of the message's ident and its offset; the first 8 bytes are the ident itself,
 * so that any received message of 8 bytes or more says which it is. Pieces of memory have guards around them. After
 * its operation a buffer is filled with junk and kept for a while: an engine that still reads or writes it is seen.
 */
#ifndef SIM_BUFFER_H
#define SIM_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "ethmx.h"

enum sim_shape { SIM_CONTIGUOUS, SIM_IOV, SIM_COPY, SIM_SHAPES };

struct sim_buffer {
    struct ethmx_data data; /* hand this to the engine */
    enum sim_shape shape;
    size_t len_bytes;
    bool sends;
    uint64_t ident; /* sends by copy: content on demand */
    uint8_t *mem;   /* pieces with guards between, before and behind them */
    size_t mem_bytes;
    struct ethmx_iov *iov; /* the pieces, of every shape */
    size_t iov_count;
    uint8_t *seen;     /* receives by copy: which bytes came */
    const char *wrong; /* what the engine did wrong to it */
    bool over;         /* its operation has completed */
    struct sim_buffer *next;
};

/* Buffers whose operation is over, oldest first. */
struct sim_junkyard {
    struct sim_buffer *first, **last;
    size_t bytes;
};

void sim_junkyard_init(struct sim_junkyard *y);
/* Returns what is wrong with any of the buffers left, or NULL. */
const char *sim_junkyard_fini(struct sim_junkyard *y);

/* A buffer to send message ident from. */
struct sim_buffer *sim_buffer_to_send(uint64_t ident, size_t len_bytes, enum sim_shape shape, struct emx_rng *rng);
struct sim_buffer *sim_buffer_to_receive(size_t len_bytes, enum sim_shape shape, struct emx_rng *rng);
void sim_buffer_free(struct sim_buffer *b);

/* The operation is over. Returns what is wrong with a buffer that leaves the junkyard for it, or NULL. */
const char *sim_buffer_over(struct sim_buffer *b, struct sim_junkyard *y);

/* Copies up to len_bytes from the start of a received message; returns how many. */
size_t sim_buffer_peek(const struct sim_buffer *b, void *buf, size_t len_bytes);

/* What is wrong with a receive buffer into which got_bytes of message ident came; NULL: nothing.
 * content false: the bytes themselves do not matter. */
const char *sim_buffer_check(const struct sim_buffer *b, uint64_t ident, size_t got_bytes, bool content);

/* Bytes of message ident, into buf. */
void sim_content(uint64_t ident, size_t offset, void *buf, size_t len_bytes);
bool sim_content_fits(uint64_t ident, size_t offset, const void *buf, size_t len_bytes);

#endif
