/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations: a program exposes memory, and its peers write, read and change it without its help. Part of the
 * interface of libethmx; ethmx.h has the rules for threads, callbacks and errors.
 *
 * A *region* is memory that an endpoint has exposed. Its *key* is a random number, which the program carries to the
 * peers that may use it (in a message). An operation names a peer, the key of one of its regions, and an offset there.
 * The peer's endpoint does the operation when the frame arrives: in ethmx_progress(), or in the helper thread while its
 * program computes, whatever ETHMX_PROGRESS says. No callback runs there.
 *
 * Completion. An operation is complete at its target when the target's memory has changed. It is complete here when
 * its data may be overwritten (put, accumulate), or has arrived (get, fetch, compare and swap). Then the call returns
 * ETHMX_OK, or done is called if it has returned ETHMX_INPROGRESS. ethmx_rma_flush() waits for completion at the
 * target. The target's program may look at its memory when a message of ethmx has told it of that.
 *
 * Order. Accumulates, fetches and compare and swaps of one endpoint to one target are done in the order of the calls.
 * There is no order between others, except by a flush. Callbacks may run in another order.
 *
 * Atomicity. Each element that an accumulate, fetch or compare and swap changes is changed atomically with regard to
 * all such operations of all endpoints, those of the target with itself included. Not with regard to put, get, and
 * what the target's program does to the memory itself.
 *
 * Errors. ETHMX_ERR_ACCESS: the key names no region of the peer, the range is not within it, or the region does not
 * permit the operation: nothing was changed. If the region was withdrawn during the operation, a part of a put may have
 * been written before, and a get by a process of the same node may have read what was there afterwards. An error of an
 * operation that is complete here already is the result of the next flush.
 */
#ifndef ETHMX_RMA_H
#define ETHMX_RMA_H

#include "ethmx.h"

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

#define ETHMX_RMA_ATOMIC_MAX 1024 /* bytes of the longest fetch; longer ones are several */

/* What peers may do with a region. A fetch that changes memory, and a compare and swap, need both. */
#define ETHMX_RMA_MAY_READ  1u /* get, fetch */
#define ETHMX_RMA_MAY_WRITE 2u /* put, accumulate */

struct ethmx_region;

/* Exposes memory to all peers that have the key. It must stay until it is withdrawn. Regions may overlap. The first one
 * starts the helper thread if there is none. ETHMX_ERR_NO_MEMORY: also if the system gives no thread. */
int ethmx_rma_expose(struct ethmx_ep *ep, void *base, size_t len_bytes, struct ethmx_region **region_p,
                     uint64_t *key_p);

/* The same with a key that the program has chosen, which is not 0: no message has to carry it. Whoever guesses it and
 * may send frames to the endpoint has access. ETHMX_ERR_PARAM: another region of the endpoint has it, or it is 0. */
int ethmx_rma_expose_as(struct ethmx_ep *ep, void *base, size_t len_bytes, uint64_t key,
                        struct ethmx_region **region_p);

/* The same for peers that may only do some operations; the others fail at them with ETHMX_ERR_ACCESS, and change
 * nothing. access: ETHMX_RMA_MAY_*, added. */
int ethmx_rma_expose_for(struct ethmx_ep *ep, void *base, size_t len_bytes, uint64_t key, unsigned access,
                         struct ethmx_region **region_p);

/* Memory for a region, zeroed and aligned to pages, exposed to all peers that have the key; they may do everything
 * there. Processes of this host that use it map it: their operations need no frames, except accumulates, fetches and
 * compare and swaps of elements that are longer than 8 bytes, or not aligned to their length. For these elements the
 * atomicity above holds among operations of the same length of an element. Where memory cannot be shared it is
 * exposed as other memory. ethmx_rma_withdraw() frees it, and so does closing the endpoint. */
int ethmx_rma_allocate(struct ethmx_ep *ep, size_t len_bytes, void **base_p, struct ethmx_region **region_p,
                       uint64_t *key_p);

/* Ends that. After ETHMX_OK nothing writes to the memory any more, and only a get that a process of the same node has
 * begun reads it. Operations that are under way there, and later ones, fail at their origin with ETHMX_ERR_ACCESS.
 * ETHMX_ERR_NO_MEMORY: try again. Closing the endpoint withdraws all regions. */
int ethmx_rma_withdraw(struct ethmx_ep *ep, struct ethmx_region *region);

/* The memory of a peer that an operation is about. The peer may be the endpoint itself. */
struct ethmx_rma_target {
    struct ethmx_peer *peer;
    uint64_t key;
    uint64_t offset; /* in the region, in bytes; no alignment is needed */
};

enum ethmx_rma_mode {
    ETHMX_RMA_LOCAL,  /* the operation completes when its data may be overwritten */
    ETHMX_RMA_REMOTE, /* it completes when it is complete at the target, with its status */
    /* Added to one of these: other operations follow at once, and frames may wait for theirs. They leave with the next
     * operation that has it not, or in ethmx_progress(). */
    ETHMX_RMA_MORE = 0x100,
};

/* Data types of elements, as the compiler of this host has them. */
enum ethmx_rma_type {
    ETHMX_RMA_INT8,
    ETHMX_RMA_UINT8,
    ETHMX_RMA_INT16,
    ETHMX_RMA_UINT16,
    ETHMX_RMA_INT32,
    ETHMX_RMA_UINT32,
    ETHMX_RMA_INT64,
    ETHMX_RMA_UINT64,
    ETHMX_RMA_FLOAT,
    ETHMX_RMA_DOUBLE,
    ETHMX_RMA_LONG_DOUBLE,
    ETHMX_RMA_COMPLEX_FLOAT, /* two of them: real, imaginary */
    ETHMX_RMA_COMPLEX_DOUBLE,
    ETHMX_RMA_COMPLEX_LONG_DOUBLE,
    ETHMX_RMA_SHORT_INT, /* struct { short value; int index; }, for the least and greatest with their places */
    ETHMX_RMA_INT_INT,
    ETHMX_RMA_LONG_INT,
    ETHMX_RMA_FLOAT_INT,
    ETHMX_RMA_DOUBLE_INT,
    ETHMX_RMA_LONG_DOUBLE_INT,
    ETHMX_RMA_TYPES
};

/* What becomes of an element at the target and an operand. */
enum ethmx_rma_op {
    ETHMX_RMA_REPLACE, /* all types */
    ETHMX_RMA_NO_OP,   /* all types; for fetches */
    ETHMX_RMA_SUM,     /* numbers: all types but those with an index; integers wrap around */
    ETHMX_RMA_PROD,
    ETHMX_RMA_MIN, /* integers and real numbers */
    ETHMX_RMA_MAX,
    ETHMX_RMA_LAND, /* integers; logical operations result in 0 or 1 */
    ETHMX_RMA_LOR,
    ETHMX_RMA_LXOR,
    ETHMX_RMA_BAND,
    ETHMX_RMA_BOR,
    ETHMX_RMA_BXOR,
    ETHMX_RMA_MINLOC, /* types with an index; the smaller index of equal values */
    ETHMX_RMA_MAXLOC,
    ETHMX_RMA_OPS
};

/* The bytes of an element; 0: no such type. */
size_t ethmx_rma_type_bytes(enum ethmx_rma_type type);

/* Each of these returns ETHMX_OK: done here, done is not called. ETHMX_INPROGRESS: done will be called once; all that
 * was passed by pointer must stay until then (struct ethmx_data as ethmx.h says). Errors: PARAM (an operation that the
 * type has not, a length that is not of whole elements, or a fetch above ETHMX_RMA_ATOMIC_MAX), PEER_DEAD, UNREACHABLE,
 * NO_MEMORY, CLOSED, ACCESS (that is known here already): nothing was done, done is not called. */

int ethmx_rma_put(struct ethmx_ep *ep, const struct ethmx_rma_target *to, const struct ethmx_data *data,
                  enum ethmx_rma_mode mode, ethmx_done_fn done, void *arg);

/* result.len_bytes is the length of the data. */
int ethmx_rma_get(struct ethmx_ep *ep, const struct ethmx_rma_target *from, const struct ethmx_data *data,
                  ethmx_done_fn done, void *arg);

int ethmx_rma_accumulate(struct ethmx_ep *ep, const struct ethmx_rma_target *to, enum ethmx_rma_op op,
                         enum ethmx_rma_type type, const struct ethmx_data *data, enum ethmx_rma_mode mode,
                         ethmx_done_fn done, void *arg);

/* As accumulate, and gets what was there before into old. operand has the length of old (NULL for NO_OP). */
int ethmx_rma_fetch(struct ethmx_ep *ep, const struct ethmx_rma_target *to, enum ethmx_rma_op op,
                    enum ethmx_rma_type type, const void *operand, const struct ethmx_data *old, ethmx_done_fn done,
                    void *arg);

/* Replaces one element by *swap if it equals *compare, bit by bit. Gets what was there before into *old. Integers only.
 * compare and swap are copied. */
int ethmx_rma_compare_and_swap(struct ethmx_ep *ep, const struct ethmx_rma_target *to, enum ethmx_rma_type type,
                               const void *compare, const void *swap, void *old, ethmx_done_fn done, void *arg);

/* Waits until all operations with peer (NULL: with all peers) for which the call has returned are complete at their
 * targets. ETHMX_OK: they are. ETHMX_INPROGRESS: done will be called, with the status. The status, or the result of the
 * call if nothing is open, is the first error of operations that were complete here before, or of a peer that has
 * failed; it is reported once to a flush of that peer, and once to a flush of all. Other errors: as above. */
int ethmx_rma_flush(struct ethmx_ep *ep, struct ethmx_peer *peer, ethmx_done_fn done, void *arg);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
