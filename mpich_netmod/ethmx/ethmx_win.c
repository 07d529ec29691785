/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows: ch4's. Those of the core (ethmx_window.h) have the keys of all processes beside.
 */
#include "mpidimpl.h"

#include "ethmx_noinline.h"
#include "ethmx_window.h"

/* ---- Windows of the core ---- */

/* What each process tells the others. */
struct window_card {
    uint64_t key, state_key;
    MPI_Aint disp_unit;
    uint64_t exposed; /* 0: its memory cannot be exposed */
};

/* Whether the core could do the operations of some process at another one, or ch4's shared memory does all. The same in
 * all processes. */
static bool window_spans_nodes(MPIR_Win *win)
{
#ifdef MPIDI_CH4_DIRECT_NETMOD
    return true;
#else
    for (int i = 0; i < win->comm_ptr->local_size; i++)
        if (!MPIDI_rank_is_local(i, win->comm_ptr))
            return true;
    return false;
#endif
}

static void window_withdraw(struct ethmx_region *region)
{
    while (region && MPIDI_ETHMX_lib.rma_withdraw(MPIDI_ETHMX_global.ep, region) == ETHMX_ERR_NO_MEMORY)
        ;
}

/* Exposes the window's memory and state, with the lock of the VCI held. false: not all is exposed. */
static bool window_expose(MPIR_Win *win, struct MPIDI_ETHMX_window *w, struct window_card *card)
{
    struct ethmx_ep *ep = MPIDI_ETHMX_global.ep;

    if (MPIDI_ETHMX_lib.rma_expose(ep, &w->state, sizeof(w->state), &w->state_memory, &card->state_key) != ETHMX_OK)
        return false;
    if (w->is_dynamic)
        return true;
    if (win->size > 0 && MPIDI_ETHMX_is_device(win->base))
        return false;
    return MPIDI_ETHMX_lib.rma_expose(ep, win->base, win->size, &w->memory, &card->key) == ETHMX_OK;
}

static void window_destroy(struct MPIDI_ETHMX_window *w, int targets)
{
    MPIDI_ETHMX_LOCK();
    MPIDI_ETHMX_dynamic_end(w, targets);
    window_withdraw(w->memory);
    window_withdraw(w->state_memory);
    MPIDI_ETHMX_UNLOCK();
    MPL_free(w);
}

static int window_gather(MPIR_Win *win, struct window_card *cards)
{
#if MPIDI_ETHMX_CH4_LPID
    return MPIR_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cards, sizeof(*cards), MPIR_BYTE_INTERNAL, win->comm_ptr,
                          MPIR_COLL_ATTR_SYNC);
#elif MPIDI_ETHMX_CH4_ATTR
    return MPIR_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cards, sizeof(*cards), MPI_BYTE, win->comm_ptr,
                          MPIR_ERR_NONE);
#else
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;

    return MPIR_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cards, sizeof(*cards), MPI_BYTE, win->comm_ptr, &errflag);
#endif
}

static int window_barrier(MPIR_Win *win)
{
#if MPIDI_ETHMX_CH4_LPID
    return MPIR_Barrier(win->comm_ptr, MPIR_COLL_ATTR_SYNC);
#elif MPIDI_ETHMX_CH4_ATTR
    return MPIR_Barrier(win->comm_ptr, MPIR_ERR_NONE);
#else
    MPIR_Errflag_t errflag = MPIR_ERR_NONE;

    return MPIR_Barrier(win->comm_ptr, &errflag);
#endif
}

/* false: not all have exposed their memory. */
static bool window_meet(MPIR_Win *win, struct MPIDI_ETHMX_window *w, const struct window_card *cards)
{
    bool all = true;

    for (int i = 0; i < win->comm_ptr->local_size; i++) {
        MPIDI_av_entry_t *av = MPIDIU_win_rank_to_av(win, i, MPIDI_WIN(win, winattr));

        w->target[i] = (struct MPIDI_ETHMX_target){.window = w,
                                                   .peer = MPIDI_ETHMX_PEER(av),
                                                   .key = cards[i].key,
                                                   .state_key = cards[i].state_key,
                                                   .disp_unit = cards[i].disp_unit};
        all = all && cards[i].exposed;
    }
    return all;
}

/* Makes it a window of the core if that is possible. */
static int window_create(MPIR_Win *win)
{
    int mpi_errno = MPI_SUCCESS, n = win->comm_ptr->local_size;
    struct MPIDI_ETHMX_window *w = NULL;
    struct window_card *cards = NULL, *own;

    MPIDI_ETHMX_WINDOW(win) = NULL;
    if (!window_spans_nodes(win))
        return MPI_SUCCESS;
    MPIDI_ETHMX_atomic_init();
    w = MPL_calloc(1, sizeof(*w) + n * sizeof(w->target[0]), MPL_MEM_RMA);
    cards = MPL_calloc(n, sizeof(*cards), MPL_MEM_RMA);
    MPIR_ERR_CHKANDJUMP(!w || !cards, mpi_errno, MPI_ERR_NO_MEM, "**nomem");
    own = &cards[win->comm_ptr->rank];
    w->is_dynamic = win->create_flavor == MPI_WIN_FLAVOR_DYNAMIC;
    own->disp_unit = w->is_dynamic ? 1 : win->disp_unit;
    MPIDI_ETHMX_LOCK();
    own->exposed = window_expose(win, w, own);
    MPIDI_ETHMX_UNLOCK();
    mpi_errno = window_gather(win, cards);
    if (mpi_errno != MPI_SUCCESS || !window_meet(win, w, cards)) {
        window_destroy(w, n);
        w = NULL;
        MPIR_ERR_CHECK(mpi_errno);
        goto fn_exit;
    }
    MPIDI_ETHMX_WINDOW(win) = w;
    MPIDI_WIN(win, winattr) |= MPIDI_WINATTR_ACCU_NO_SHM;

fn_exit:
    MPL_free(cards);
    return mpi_errno;
fn_fail:
    MPL_free(w);
    goto fn_exit;
}

/* ---- ch4's calls ---- */

int MPIDI_ETHMX_mpi_win_create(void *base, MPI_Aint length, int disp_unit, MPIR_Info *info, MPIR_Comm *comm_ptr,
                               MPIR_Win **win_p)
{
    return MPIDIG_mpi_win_create(base, length, disp_unit, info, comm_ptr, win_p);
}

int MPIDI_ETHMX_mpi_win_allocate(MPI_Aint size, int disp_unit, MPIR_Info *info, MPIR_Comm *comm, void *baseptr,
                                 MPIR_Win **win_p)
{
    return MPIDIG_mpi_win_allocate(size, disp_unit, info, comm, baseptr, win_p);
}

int MPIDI_ETHMX_mpi_win_allocate_shared(MPI_Aint size, int disp_unit, MPIR_Info *info, MPIR_Comm *comm_ptr,
                                        void **baseptr_p, MPIR_Win **win_p)
{
    return MPIDIG_mpi_win_allocate_shared(size, disp_unit, info, comm_ptr, baseptr_p, win_p);
}

int MPIDI_ETHMX_mpi_win_create_dynamic(MPIR_Info *info, MPIR_Comm *comm, MPIR_Win **win_p)
{
    return MPIDIG_mpi_win_create_dynamic(info, comm, win_p);
}

int MPIDI_ETHMX_mpi_win_attach(MPIR_Win *win, void *base, MPI_Aint size)
{
    return MPIDIG_mpi_win_attach(win, base, size);
}

int MPIDI_ETHMX_mpi_win_detach(MPIR_Win *win, const void *base)
{
    return MPIDIG_mpi_win_detach(win, base);
}

int MPIDI_ETHMX_mpi_win_free(MPIR_Win **win_p)
{
    return MPIDIG_mpi_win_free(win_p);
}

int MPIDI_ETHMX_mpi_win_set_info(MPIR_Win *win, MPIR_Info *info)
{
    return MPIDIG_mpi_win_set_info(win, info);
}

int MPIDI_ETHMX_mpi_win_get_info(MPIR_Win *win, MPIR_Info **info_p)
{
    return MPIDIG_mpi_win_get_info(win, info_p);
}

int MPIDI_ETHMX_mpi_win_create_hook(MPIR_Win *win)
{
    return window_create(win);
}

int MPIDI_ETHMX_mpi_win_allocate_hook(MPIR_Win *win)
{
    return window_create(win);
}

int MPIDI_ETHMX_mpi_win_allocate_shared_hook(MPIR_Win *win)
{
    MPIDI_ETHMX_WINDOW(win) = NULL;
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_create_dynamic_hook(MPIR_Win *win)
{
    return window_create(win);
}

int MPIDI_ETHMX_mpi_win_attach_hook(MPIR_Win *win, void *base, MPI_Aint size)
{
    int mpi_errno = MPI_SUCCESS, status = ETHMX_OK;

    MPIDI_ETHMX_LOCK();
    if (MPIDI_ETHMX_WINDOW(win) && size > 0)
        status = MPIDI_ETHMX_is_device(base) ? MPIDI_ETHMX_ERR_DEVICE : MPIDI_ETHMX_dynamic_attach(win, base, size);
    mpi_errno = MPIDI_ETHMX_ERROR(status);
    MPIDI_ETHMX_UNLOCK();
    return mpi_errno;
}

int MPIDI_ETHMX_mpi_win_detach_hook(MPIR_Win *win, const void *base)
{
    int mpi_errno = MPI_SUCCESS;

    MPIDI_ETHMX_LOCK();
    if (MPIDI_ETHMX_WINDOW(win))
        mpi_errno = MPIDI_ETHMX_ERROR(MPIDI_ETHMX_dynamic_detach(win, base));
    MPIDI_ETHMX_UNLOCK();
    return mpi_errno;
}

/* What was not waited for, such as the release of a lock, must be done before the target withdraws its memory. With
 * shared memory, ch4 leaves out MPIDI_ETHMX_mpi_win_free(), so all wait here. */
int MPIDI_ETHMX_mpi_win_free_hook(MPIR_Win *win)
{
    int mpi_errno, flushed;

    if (!MPIDI_ETHMX_WINDOW(win))
        return MPI_SUCCESS;
    flushed = MPIDI_ETHMX_complete_there(MPIDI_ETHMX_ALL_RANKS, win);
    mpi_errno = window_barrier(win);
    window_destroy(MPIDI_ETHMX_WINDOW(win), win->comm_ptr->local_size);
    MPIDI_ETHMX_WINDOW(win) = NULL;
    return flushed != MPI_SUCCESS ? flushed : mpi_errno;
}

void *MPIDI_ETHMX_mpi_alloc_mem(MPI_Aint size, MPIR_Info *info)
{
    return MPIDIG_mpi_alloc_mem(size, info);
}

int MPIDI_ETHMX_mpi_free_mem(void *ptr)
{
    return MPIDIG_mpi_free_mem(ptr);
}
