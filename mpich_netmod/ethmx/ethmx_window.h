/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows whose operations are the core's (ethmx_rma.h): the target's program takes no part in them.
 *
 * These are windows of MPI_Win_create, MPI_Win_allocate and MPI_Win_create_dynamic whose processes are on several
 * nodes. Each process exposes its memory, and a state with the words of its lock, as regions; the keys travel in an
 * allgather at creation. All processes decide alike: if one cannot expose its memory, all operations of the window are
 * active messages (MPIDIG). So are those of windows on one node, of which ch4's shared memory does most.
 *
 * Atomicity. MPI wants accumulates with one predefined datatype to be atomic with regard to each other. What does them
 * depends on the datatype alone (MPIDI_ETHMX_atomic_type()): the core, which has all operations on its types; or active
 * messages. ch4's shared memory, which would be a third way for processes of one node, is told to leave them to the
 * netmod.
 */
#ifndef ETHMX_WINDOW_H_INCLUDED
#define ETHMX_WINDOW_H_INCLUDED

#include "ethmx_data.h"
#include "ethmx_impl.h"

struct MPIDI_ETHMX_window;

/* Memory that a process has attached to a dynamic window. Addresses are of that process. */
struct MPIDI_ETHMX_range {
    uint64_t base, len_bytes, key;
};

/* Where the ranges are: count of them, in a region of their own. See ethmx_dynamic.c. */
struct MPIDI_ETHMX_table {
    uint64_t generation, key, count;
};

/* What one process of a window is to this one. */
struct MPIDI_ETHMX_target {
    struct MPIDI_ETHMX_window *window;
    struct ethmx_peer *peer;
    uint64_t key, state_key;
    MPI_Aint disp_unit;
    unsigned open;             /* operations that are not complete here */
    uint64_t changes, flushed; /* puts and accumulates begun; those of them that are complete there */
    uint8_t locked;            /* enum MPIDI_ETHMX_locked: the lock that this process holds there */
    /* Of a dynamic window: the table as last read, and its ranges. */
    struct MPIDI_ETHMX_table table;
    struct MPIDI_ETHMX_range *ranges;
};

enum MPIDI_ETHMX_locked { MPIDI_ETHMX_UNLOCKED, MPIDI_ETHMX_LOCKED_SHARED, MPIDI_ETHMX_LOCKED_EXCLUSIVE };

/* The words of a lock, in the order of memory: see ethmx_sync.c. */
enum { MPIDI_ETHMX_LOCK_TICKETS, MPIDI_ETHMX_LOCK_READERS, MPIDI_ETHMX_LOCK_WRITERS, MPIDI_ETHMX_LOCK_WORDS };

/* What all processes may read and change. */
struct MPIDI_ETHMX_state {
    uint64_t lock[MPIDI_ETHMX_LOCK_WORDS];
    struct MPIDI_ETHMX_table table;
};

struct MPIDI_ETHMX_window {
    struct MPIDI_ETHMX_state state;
    struct ethmx_region *memory, *state_memory; /* memory: NULL in a dynamic window */
    /* Of a dynamic window: what this process has attached, state.table.count of them; and the table's region. */
    bool is_dynamic;
    struct MPIDI_ETHMX_range *ranges;
    struct ethmx_region **regions, *table_memory;
    unsigned open; /* the sum of the targets' */
    int status;    /* the first error of an operation without a request, for the next synchronization; or ETHMX_OK */
    struct MPIDI_ETHMX_target target[]; /* by rank */
};

#define MPIDI_ETHMX_WINDOW(win) ((win)->dev.netmod.ethmx.window)

/* ---- Operations (ethmx_onesided.c, ethmx_atomic.c). req is NULL, or where the request goes ---- */

/* What the origin has: data to send, or room for a result. */
struct MPIDI_ETHMX_buffer {
    void *base;
    MPI_Aint count;
    MPI_Datatype datatype;
};

struct MPIDI_ETHMX_place {
    int rank;
    MPI_Aint disp, count;
    MPI_Datatype datatype;
};

int MPIDI_ETHMX_put(const struct MPIDI_ETHMX_buffer *from, const struct MPIDI_ETHMX_place *to, MPIR_Win *win,
                    MPIR_Request **req);
int MPIDI_ETHMX_get(const struct MPIDI_ETHMX_buffer *to, const struct MPIDI_ETHMX_place *from, MPIR_Win *win,
                    MPIR_Request **req);

/* Before the first window. */
void MPIDI_ETHMX_atomic_init(void);
/* The core's type (enum ethmx_rma_type) of the elements of datatype; -1: accumulates of it are active messages. */
int MPIDI_ETHMX_atomic_type(MPI_Datatype datatype);

/* result NULL: an accumulate. operand->base may be NULL if op is MPI_NO_OP. The type is not -1, nor is that of
 * MPIDI_ETHMX_compare_and_swap()'s datatype. */
int MPIDI_ETHMX_accumulate(const struct MPIDI_ETHMX_buffer *operand, const struct MPIDI_ETHMX_buffer *result,
                           const struct MPIDI_ETHMX_place *to, int type, MPI_Op op, MPIR_Win *win, MPIR_Request **req);
int MPIDI_ETHMX_compare_and_swap(const void *set, const void *compare, void *result, MPI_Datatype datatype, int rank,
                                 MPI_Aint disp, MPIR_Win *win);

/* ---- What those two files share ---- */

/* An operation in several parts, or with something to do at its end. */
struct MPIDI_ETHMX_operation {
    struct MPIDI_ETHMX_target *target;
    MPIR_Request *req; /* or NULL */
    unsigned parts;    /* under way, and one while they are being started */
    int status;
    MPIDI_ETHMX_strided_t strided; /* of the origin's data, if the core reads or writes it directly */
    char *operand;                 /* packed; or NULL */
    char *result;                  /* packed, for unpack; or NULL */
    MPIDI_ETHMX_strided_t unpack;
    size_t result_bytes;
};

/* NULL: no memory. With one part, which MPIDI_ETHMX_operation_started() ends. */
struct MPIDI_ETHMX_operation *MPIDI_ETHMX_operation_new(struct MPIDI_ETHMX_target *t, MPIR_Request **req);
/* A part was started, with this result. */
void MPIDI_ETHMX_operation_part(struct MPIDI_ETHMX_operation *op, int status);
/* All parts were started. Returns an MPI error code. */
int MPIDI_ETHMX_operation_started(struct MPIDI_ETHMX_operation *op);
/* ethmx_done_fn. arg is the operation. */
void MPIDI_ETHMX_operation_done(void *arg, const struct ethmx_result *result);

/* Of an operation in one part without a request. arg is the target. */
void MPIDI_ETHMX_target_done(void *arg, const struct ethmx_result *result);
/* It was started, with this result. Returns an MPI error code. */
int MPIDI_ETHMX_target_started(struct MPIDI_ETHMX_target *t, int status);

/* Packed data of the origin: where it lies, or a copy, which the operation frees. NULL: no memory. */
char *MPIDI_ETHMX_operation_operand(struct MPIDI_ETHMX_operation *op, const struct MPIDI_ETHMX_buffer *from);
/* Where a packed result goes: to its place, or to memory that the end unpacks. NULL: no memory. */
char *MPIDI_ETHMX_operation_result(struct MPIDI_ETHMX_operation *op, const struct MPIDI_ETHMX_buffer *to);

/* The memory of a target that an operation is about. */
struct MPIDI_ETHMX_memory {
    const struct MPIDI_ETHMX_target *target;
    struct ethmx_rma_target to; /* of the first element; if is_address, to.offset is an address, and there is no key */
    size_t len_bytes;
    MPIDI_ETHMX_strided_t strided; /* if it is not contiguous */
    bool is_address;               /* each part of it is to be located */
};

/* Whether it is one part. */
MPL_STATIC_INLINE_PREFIX bool MPIDI_ETHMX_memory_is_whole(const struct MPIDI_ETHMX_memory *m)
{
    return !m->strided.layout && !m->is_address;
}

/* ETHMX_OK or an error. MPIDI_ETHMX_undescribe(&m->strided) ends it. */
int MPIDI_ETHMX_memory(struct MPIDI_ETHMX_memory *m, struct MPIDI_ETHMX_target *t,
                       const struct MPIDI_ETHMX_place *place);
/* The contiguous part that begins with this offset of the packed data; *to_p is where. Returns its length; 0: the
 * target has not attached that memory. */
size_t MPIDI_ETHMX_memory_part(struct MPIDI_ETHMX_memory *m, size_t offset, struct ethmx_rma_target *to_p);

/* An operation without data. */
int MPIDI_ETHMX_nothing(MPIR_Request **req);

/* The packed length of the data; *contiguous_p is where it begins, or NULL if it is in several pieces. */
size_t MPIDI_ETHMX_buffer_bytes(const struct MPIDI_ETHMX_buffer *b, char **contiguous_p);

/* ---- Dynamic windows (ethmx_dynamic.c). With the lock of the VCI held ---- */

/* Make memory of this process part of the window, or no longer. ETHMX_OK or an error. */
int MPIDI_ETHMX_dynamic_attach(MPIR_Win *win, void *base, size_t len_bytes);
int MPIDI_ETHMX_dynamic_detach(MPIR_Win *win, const void *base);
/* All that is still attached, and what was read of others. */
void MPIDI_ETHMX_dynamic_end(struct MPIDI_ETHMX_window *w, int targets);

/* Reads the target's table if it has changed. ETHMX_OK or an error. */
int MPIDI_ETHMX_dynamic_refresh(struct MPIDI_ETHMX_target *t);
/* Where an address is, as last read. Returns how many of len_bytes are there; 0: none. */
size_t MPIDI_ETHMX_dynamic_locate(const struct MPIDI_ETHMX_target *t, uint64_t address, size_t len_bytes,
                                  struct ethmx_rma_target *to);

/* ---- Synchronization (ethmx_sync.c). Each returns an MPI error code ---- */

/* One round of progress, for a loop that waits with the lock of the VCI held. */
void MPIDI_ETHMX_sync_progress(int *mpi_errno_p);

/* One operation of the core that is waited for. It ends by MPIDI_ETHMX_wait_over(). */
struct MPIDI_ETHMX_wait {
    bool over;
    int status; /* ETHMX_* */
};
void MPIDI_ETHMX_wait_over(void *wait, const struct ethmx_result *result);
/* status: as the operation was started. */
void MPIDI_ETHMX_wait_started(struct MPIDI_ETHMX_wait *w, int status);
/* Makes progress until it is over. Returns its status. */
int MPIDI_ETHMX_wait_end(const struct MPIDI_ETHMX_wait *w, int *mpi_errno_p);

#define MPIDI_ETHMX_ALL_RANKS (-1)

/* Waits until the operations at this rank, or at all, are complete there; or only here. */
int MPIDI_ETHMX_complete_there(int rank, MPIR_Win *win);
int MPIDI_ETHMX_complete_here(int rank, MPIR_Win *win);

/* With the words of the lock at the target: its program takes no part. */
int MPIDI_ETHMX_lock(int lock_type, int rank, MPIR_Win *win);
int MPIDI_ETHMX_lock_all(MPIR_Win *win);
/* Release what this process holds. */
int MPIDI_ETHMX_unlock(int rank, MPIR_Win *win);
int MPIDI_ETHMX_unlock_all(MPIR_Win *win);

#endif
