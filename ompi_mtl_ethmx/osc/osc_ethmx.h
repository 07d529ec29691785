/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The OSC component of Open MPI for ethmx: MPI's one-sided communication by ethmx's one-sided operations
 * (ethmx_rma.h), over the endpoint of the MTL component. The program of a target takes no part in anything here.
 *
 * Each process of a window exposes two regions: the window's memory, and a *state*, which peers change atomically: the
 * lock, and the counters of post and complete. In a dynamic window a process exposes each memory that is attached, and
 * a table of these, which origins read.
 *
 * Files: osc_component (selection, creation and end of windows), osc_state (states of peers), osc_target (epochs,
 * addresses), osc_watch (processes that die while they are waited for), osc_dynamic (attached memory), osc_op
 * (operations under way, requests), osc_put (put and get), osc_accumulate (accumulates of types that ethmx has),
 * osc_type (these types), osc_locked (accumulates of others), osc_active (fence; post, start, complete, wait),
 * osc_passive (locks, flushes).
 */
#ifndef OSC_ETHMX_H
#define OSC_ETHMX_H

#include "mtl_ethmx.h"

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/mca/osc/base/base.h"
#include "ompi/mca/osc/osc.h"
#include "ompi/request/request.h"
#include "ompi/win/win.h"
#include "opal/runtime/opal_progress.h"

#include <ethmx_rma.h>

/* Counts and displacement units in Open MPI's interface, and its version. */
#if MTL_ETHMX_SERIES == 600
#define OSC_ETHMX_BASE_VERSION OMPI_OSC_BASE_VERSION_4_0_0
typedef size_t osc_ethmx_count;
typedef ptrdiff_t osc_ethmx_disp_unit;
#else
#define OSC_ETHMX_BASE_VERSION OMPI_OSC_BASE_VERSION_3_0_0
typedef int osc_ethmx_count;
typedef int osc_ethmx_disp_unit;
#endif

/* ---- What peers see --------------------------------------------------------------------------------------- */

/* Memory that a process has exposed. Addresses are of that process. */
struct osc_ethmx_range {
    uint64_t base, len_bytes, key;
};

/* Where the ranges of a dynamic window are: in a region of their own, which never changes. A new one gets the next
 * generation. */
struct osc_ethmx_table {
    uint64_t generation, key, count;
};

/* lock: how many hold it shared, those included that just try; and from this bit on the rank that holds it alone, plus
 * one. */
#define OSC_ETHMX_ALONE_BIT 32
#define OSC_ETHMX_ROUNDS    32 /* of a barrier: 2^32 ranks */

struct osc_ethmx_state {
    uint64_t lock;
    uint64_t accumulate;                /* the same: held while somebody does an accumulate that ethmx has not */
    uint64_t completed;                 /* how often origins have called complete */
    uint64_t arrived[OSC_ETHMX_ROUNDS]; /* by round of a barrier: how often its message has come */
    struct osc_ethmx_table table;
    uint64_t posted[]; /* by rank: how often it has posted to this process */
};

/* What each process tells the others when a window is made. Keys are 0 if it failed. */
struct osc_ethmx_hello {
    struct osc_ethmx_range memory;
    uint64_t state_key;
    uint64_t word_key; /* of a word for which the process itself must answer: it is never mapped */
    int64_t disp_unit;
};

/* ---- Windows ---------------------------------------------------------------------------------------------- */

/* Which lock this process holds at a target. NOCHECK: the program says that there is no need for one. */
enum osc_ethmx_held { OSC_ETHMX_FREE, OSC_ETHMX_SHARED, OSC_ETHMX_ALONE, OSC_ETHMX_NOCHECK };

enum osc_ethmx_epoch {
    OSC_ETHMX_NONE, /* or locks of single targets */
    OSC_ETHMX_FENCE,
    OSC_ETHMX_START,
    OSC_ETHMX_LOCK_ALL
};

struct osc_ethmx_module;
struct osc_ethmx_ask;

/* A wait for other processes: zeroes, with the module and whom it waits for. */
struct osc_ethmx_watch {
    struct osc_ethmx_module *module;
    const int *ranks; /* NULL: any of the window */
    int count;
    unsigned turn, rounds;
    uint64_t due_us;           /* the next question */
    struct osc_ethmx_ask *ask; /* NULL: none is open */
};

struct osc_ethmx_target {
    struct osc_ethmx_module *module;
    struct osc_ethmx_hello hello;
    struct ethmx_peer *peer;            /* NULL: not used yet */
    struct osc_ethmx_target *next_used; /* of those with a peer */
    int rank;
    int32_t open;     /* operations that are not complete at the origin */
    int status;       /* the first error of an operation, until it is reported. ETHMX_* */
    uint32_t sent;    /* puts and accumulates, which may be complete at the origin before they are at the target */
    uint32_t flushed; /* so many of them are complete at the target */
    enum osc_ethmx_held held;
    bool started;         /* in the group of MPI_Win_start */
    uint64_t posts_taken; /* of state->posted[rank] */
    /* Of a dynamic window: what was last read. */
    struct osc_ethmx_range *ranges;
    struct osc_ethmx_table table;
};

struct osc_ethmx_module {
    ompi_osc_base_module_t super;
    struct mtl_ethmx_module *mtl;
    struct ethmx_ep *ep;
    ompi_communicator_t *comm; /* our own */
    int rank, size, flavor;
    opal_mutex_t lock;    /* epochs, peers, ranges; taken by threaded programs only */
    opal_mutex_t locking; /* one thread gets a lock for MPI_Win_lock_all */
    struct ethmx_region *memory_region, *state_region, *word_region;
    uint64_t word;                 /* of word_region */
    unsigned completions;          /* of operations at one target */
    struct osc_ethmx_state *state; /* ours */
    struct osc_ethmx_target *targets, *used;

    enum osc_ethmx_epoch epoch;
    bool fence_used;       /* operations since the fence */
    bool lock_all_nocheck; /* MPI_MODE_NOCHECK */
    unsigned locks;        /* of single targets */
    int *started;          /* ranks of MPI_Win_start */
    int start_count;
    bool posted; /* between MPI_Win_post and MPI_Win_wait */
    int post_count;
    int *posted_to;           /* ranks of MPI_Win_post */
    uint64_t completes_taken; /* of state->completed */
    struct osc_ethmx_watch waiting;
    uint64_t barriers; /* begun */

    /* Of a dynamic window: our own ranges, their regions, and the exposed table. */
    struct osc_ethmx_range *ranges;
    struct ethmx_region **regions;
    struct ethmx_region *table_region;
};

static inline struct osc_ethmx_module *osc_ethmx_module(const struct ompi_win_t *win)
{
    return (struct osc_ethmx_module *)win->w_osc_module;
}

/* ETHMX_* as OMPI_*. */
int osc_ethmx_error(int status);

/* ---- Waiting ---------------------------------------------------------------------------------------------- */

struct osc_ethmx_waiting {
    int status;
    bool over; /* last to be written, perhaps by another thread */
};

/* done of a blocking operation. */
void osc_ethmx_over(void *waiting, const struct ethmx_result *result);

/* Waits if the call has returned ETHMX_INPROGRESS. ETHMX_*. */
int osc_ethmx_await(struct osc_ethmx_waiting *w, int status);

/* Makes progress. ETHMX_*: an error if one of those who are waited for has failed. After the wait, in any case: end. */
int osc_ethmx_watch(struct osc_ethmx_watch *w);
void osc_ethmx_watch_end(struct osc_ethmx_watch *w);
uint64_t osc_ethmx_now_us(void);

/* ---- States of peers. ETHMX_* ----------------------------------------------------------------------------- */

#define OSC_ETHMX_STATE(field) offsetof(struct osc_ethmx_state, field)

/* Adds without waiting for the target: it is done in order with the other operations on states. */
int osc_ethmx_state_add(struct osc_ethmx_target *t, size_t offset, uint64_t n);

/* Get the lock of the target, and give it back. */
int osc_ethmx_state_lock(struct osc_ethmx_target *t, enum osc_ethmx_held held);
int osc_ethmx_state_unlock(struct osc_ethmx_target *t, enum osc_ethmx_held held);

/* The same for accumulates that ethmx has not. */
int osc_ethmx_state_accumulate_lock(struct osc_ethmx_target *t);
int osc_ethmx_state_accumulate_unlock(struct osc_ethmx_target *t);

/* Waits until all processes of the window are here. */
int osc_ethmx_state_barrier(struct osc_ethmx_module *m);

/* Reads len_bytes of one of the target's regions. */
int osc_ethmx_state_read(struct osc_ethmx_target *t, uint64_t key, uint64_t offset, void *to, size_t len_bytes);

/* ---- Targets. OMPI_* -------------------------------------------------------------------------------------- */

/* The target of this rank, with a peer. The module's lock is not held. */
int osc_ethmx_target(struct osc_ethmx_module *m, int rank, struct osc_ethmx_target **t_p);

/* The same for an operation: checks that there is an access epoch. */
int osc_ethmx_access(struct osc_ethmx_module *m, int rank, struct osc_ethmx_target **t_p);

/* A put or an accumulate is about to be started: completion must flush it. */
static inline void osc_ethmx_sends(struct osc_ethmx_target *t)
{
    __atomic_add_fetch(&t->sent, 1, __ATOMIC_RELAXED);
}

/* Completes operations: all with the target, or with all targets, there or (local) here. */
int osc_ethmx_complete(struct osc_ethmx_target *t, bool local);
int osc_ethmx_complete_all(struct osc_ethmx_module *m, bool local);

/* The target's address of a displacement. Of a dynamic window, reads the target's table if it has changed. */
int osc_ethmx_address(struct osc_ethmx_target *t, ptrdiff_t disp, uint64_t *address_p);

/* Finds the region with this memory of the target. *len_bytes_p becomes less if only so much is in the region: in a
 * dynamic window what follows may be in another one. OMPI_ERR_RMA_RANGE: there is none. */
int osc_ethmx_locate(const struct osc_ethmx_target *t, uint64_t address, size_t *len_bytes_p,
                     struct ethmx_rma_target *to);

/* The same if one region must have all. */
int osc_ethmx_locate_all(const struct osc_ethmx_target *t, uint64_t address, size_t len_bytes,
                         struct ethmx_rma_target *to);

/* ---- Dynamic windows. OMPI_* ------------------------------------------------------------------------------ */

int osc_ethmx_attach(struct ompi_win_t *win, void *base, size_t len_bytes);
int osc_ethmx_detach(struct ompi_win_t *win, const void *base);
int osc_ethmx_dynamic_refresh(struct osc_ethmx_target *t);
int osc_ethmx_dynamic_locate(const struct osc_ethmx_target *t, uint64_t address, size_t *len_bytes_p,
                             struct ethmx_rma_target *to);
void osc_ethmx_dynamic_end(struct osc_ethmx_module *m);

/* Withdraws a region, if it is not NULL. */
void osc_ethmx_withdraw(struct osc_ethmx_module *m, struct ethmx_region *region);

/* ---- Datatypes -------------------------------------------------------------------------------------------- */

/* The segments of contiguous memory of some elements of a datatype, in order. */
struct osc_ethmx_segments {
    size_t left_bytes; /* not listed yet */
    bool single;       /* no convertor */
    uint64_t address;
    opal_convertor_t convertor;
    struct iovec listed[32];
    uint32_t at, count;
};

void osc_ethmx_segments_init(struct osc_ethmx_segments *s, uint64_t address, size_t count, ompi_datatype_t *type);
/* false: there is no more. */
bool osc_ethmx_segments_next(struct osc_ethmx_segments *s, uint64_t *address_p, size_t *len_bytes_p);
void osc_ethmx_segments_fini(struct osc_ethmx_segments *s);

/* The memory of data that is contiguous, or NULL. */
static inline void *osc_ethmx_contiguous(const void *buf, size_t count, const ompi_datatype_t *type)
{
    return opal_datatype_is_contiguous_memory_layout(&type->super, (int32_t)count) ? (char *)buf + type->super.true_lb
                                                                                   : NULL;
}

/* Packs into, or unpacks, len_bytes. */
void osc_ethmx_pack(void *packed, size_t len_bytes, const void *buf, size_t count, ompi_datatype_t *type);
void osc_ethmx_unpack(const void *packed, size_t len_bytes, void *buf, size_t count, ompi_datatype_t *type);

/* The predefined datatype that all elements have, or NULL. */
ompi_datatype_t *osc_ethmx_primitive(ompi_datatype_t *type);

/* ethmx's type for elements of a predefined datatype; -1: it has none. Of those that it has, it has every operation
 * that MPI allows. */
int osc_ethmx_type(const ompi_datatype_t *primitive);

/* ethmx's operation, or -1. */
int osc_ethmx_op_of(MPI_Op op);

/* ---- Operations under way --------------------------------------------------------------------------------- */

/* An operation of several parts, or with memory or a request of its own. */
struct osc_ethmx_op {
    struct osc_ethmx_target *target;
    int32_t parts;  /* that are open, and one while parts are being started */
    unsigned begun; /* parts so far */
    int status;     /* the first error. ETHMX_* */
    void *operand;  /* to be freed at the end */
    /* fetched data, to be freed at the end, and where it goes then: as len_bytes of packed data, or as elements of
     * a predefined datatype. NULL: it was fetched to its place. */
    void *fetched;
    size_t fetched_count;
    ompi_datatype_t *fetched_type; /* NULL: packed */
    void *result;
    size_t result_count;
    ompi_datatype_t *result_type;
    ompi_request_t *request;
};

/* NULL: out of memory. request_p: NULL, or gets a request. */
struct osc_ethmx_op *osc_ethmx_op_new(struct ompi_win_t *win, struct osc_ethmx_target *t, ompi_request_t **request_p);

/* Where fetched data goes in the end. */
void osc_ethmx_op_result(struct osc_ethmx_op *op, void *result, size_t count, ompi_datatype_t *type);

/* Before a part is started, which has osc_ethmx_op_done() and the operation as callback; and with what the call
 * has returned, which is returned. */
void osc_ethmx_op_begin(struct osc_ethmx_op *op);
/* The mode of a part that is a put or an accumulate. Frames of several leave together. */
enum ethmx_rma_mode osc_ethmx_op_mode(struct osc_ethmx_op *op, bool last);
int osc_ethmx_op_begun(struct osc_ethmx_op *op, int status);
void osc_ethmx_op_done(void *op, const struct ethmx_result *result);

/* All parts were started. rc: what the call of MPI would return; if it is an error the request goes. Returns it. */
int osc_ethmx_op_started(struct osc_ethmx_op *op, int rc, ompi_request_t **request_p);

/* An operation of a single part, without such memory, needs no struct: the same with the target. */
void osc_ethmx_single_begin(struct osc_ethmx_target *t);
int osc_ethmx_single_begun(struct osc_ethmx_target *t, int status);
void osc_ethmx_single_done(void *target, const struct ethmx_result *result);

/* ---- Accumulates ------------------------------------------------------------------------------------------ */

/* The arguments of any accumulate. result NULL: nothing is fetched. */
struct osc_ethmx_accumulate {
    const void *origin;
    size_t origin_count;
    ompi_datatype_t *origin_type;
    void *result;
    size_t result_count;
    ompi_datatype_t *result_type;
    size_t target_count;
    ompi_datatype_t *target_type;
    uint64_t address; /* of the target's data */
    MPI_Op op;
};

/* Types that ethmx has not: get, compute, put, while nobody else does the same at this target. OMPI_*. */
int osc_ethmx_locked_accumulate(struct osc_ethmx_target *t, const struct osc_ethmx_accumulate *a);
int osc_ethmx_locked_compare_and_swap(struct osc_ethmx_target *t, const struct ethmx_rma_target *there,
                                      size_t len_bytes, const void *swap, const void *compare, void *old);

/* ---- The verbs (documented in ompi/mca/osc/osc.h). OMPI_* ------------------------------------------------- */

int osc_ethmx_put(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                  ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win);
int osc_ethmx_get(void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank, ptrdiff_t disp,
                  osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win);
int osc_ethmx_rput(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                   ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win,
                   ompi_request_t **request_p);
int osc_ethmx_rget(void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank, ptrdiff_t disp,
                   osc_ethmx_count target_count, ompi_datatype_t *target_type, struct ompi_win_t *win,
                   ompi_request_t **request_p);
int osc_ethmx_accumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                         ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                         struct ompi_win_t *win);
int osc_ethmx_raccumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type, int rank,
                          ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                          struct ompi_win_t *win, ompi_request_t **request_p);
int osc_ethmx_get_accumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type,
                             void *result, osc_ethmx_count result_count, ompi_datatype_t *result_type, int rank,
                             ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                             struct ompi_win_t *win);
int osc_ethmx_rget_accumulate(const void *origin, osc_ethmx_count origin_count, ompi_datatype_t *origin_type,
                              void *result, osc_ethmx_count result_count, ompi_datatype_t *result_type, int rank,
                              ptrdiff_t disp, osc_ethmx_count target_count, ompi_datatype_t *target_type, MPI_Op op,
                              struct ompi_win_t *win, ompi_request_t **request_p);
int osc_ethmx_fetch_and_op(const void *origin, void *result, ompi_datatype_t *type, int rank, ptrdiff_t disp, MPI_Op op,
                           struct ompi_win_t *win);
int osc_ethmx_compare_and_swap(const void *origin, const void *compare, void *result, ompi_datatype_t *type, int rank,
                               ptrdiff_t disp, struct ompi_win_t *win);
int osc_ethmx_fence(int assert, struct ompi_win_t *win);
int osc_ethmx_start(ompi_group_t *group, int assert, struct ompi_win_t *win);
int osc_ethmx_complete_epoch(struct ompi_win_t *win);
int osc_ethmx_post(ompi_group_t *group, int assert, struct ompi_win_t *win);
int osc_ethmx_wait(struct ompi_win_t *win);
int osc_ethmx_test(struct ompi_win_t *win, int *flag);
int osc_ethmx_lock(int lock_type, int rank, int assert, struct ompi_win_t *win);
int osc_ethmx_unlock(int rank, struct ompi_win_t *win);
int osc_ethmx_lock_all(int assert, struct ompi_win_t *win);
int osc_ethmx_unlock_all(struct ompi_win_t *win);
int osc_ethmx_flush(int rank, struct ompi_win_t *win);
int osc_ethmx_flush_local(int rank, struct ompi_win_t *win);
int osc_ethmx_flush_all(struct ompi_win_t *win);
int osc_ethmx_flush_local_all(struct ompi_win_t *win);
int osc_ethmx_sync(struct ompi_win_t *win);

#endif
