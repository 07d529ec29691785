/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One-sided operations: the core's, in windows of the core (ethmx_window.h); otherwise ch4's, over active messages.
 */
#ifndef ETHMX_ONESIDED_H_INCLUDED
#define ETHMX_ONESIDED_H_INCLUDED

#include "ethmx_window.h"

/* ---- Put and get ---- */

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_put(const void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                              MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                                              MPIDI_ETHMX_count_t target_count, MPI_Datatype target_datatype,
                                              MPIR_Win *win, MPIDI_av_entry_t *addr, MPIDI_winattr_t winattr)
{
    const struct MPIDI_ETHMX_buffer from = {(void *)origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, target_count, target_datatype};

    if (MPIDI_ETHMX_WINDOW(win))
        return MPIDI_ETHMX_put(&from, &to, win, NULL);
    return MPIDIG_mpi_put(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rput(const void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                               MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                                               MPIDI_ETHMX_count_t target_count, MPI_Datatype target_datatype,
                                               MPIR_Win *win, MPIDI_av_entry_t *addr, MPIDI_winattr_t winattr,
                                               MPIR_Request **request)
{
    const struct MPIDI_ETHMX_buffer from = {(void *)origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, target_count, target_datatype};

    if (MPIDI_ETHMX_WINDOW(win))
        return MPIDI_ETHMX_put(&from, &to, win, request);
    return MPIDIG_mpi_rput(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                           target_datatype, win, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get(void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                              MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                                              MPIDI_ETHMX_count_t target_count, MPI_Datatype target_datatype,
                                              MPIR_Win *win, MPIDI_av_entry_t *addr, MPIDI_winattr_t winattr)
{
    const struct MPIDI_ETHMX_buffer to = {origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_place from = {target_rank, target_disp, target_count, target_datatype};

    if (MPIDI_ETHMX_WINDOW(win))
        return MPIDI_ETHMX_get(&to, &from, win, NULL);
    return MPIDIG_mpi_get(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                          target_datatype, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget(void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                               MPI_Datatype origin_datatype, int target_rank, MPI_Aint target_disp,
                                               MPIDI_ETHMX_count_t target_count, MPI_Datatype target_datatype,
                                               MPIR_Win *win, MPIDI_av_entry_t *addr, MPIDI_winattr_t winattr,
                                               MPIR_Request **request)
{
    const struct MPIDI_ETHMX_buffer to = {origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_place from = {target_rank, target_disp, target_count, target_datatype};

    if (MPIDI_ETHMX_WINDOW(win))
        return MPIDI_ETHMX_get(&to, &from, win, request);
    return MPIDIG_mpi_rget(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                           target_datatype, win, request);
}

/* ---- Accumulates ---- */

/* -1: they are active messages. */
MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_win_atomic_type(const MPIR_Win *win, MPI_Datatype datatype)
{
    return MPIDI_ETHMX_WINDOW(win) ? MPIDI_ETHMX_atomic_type(datatype) : -1;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_accumulate(const void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                                     MPI_Datatype origin_datatype, int target_rank,
                                                     MPI_Aint target_disp, MPIDI_ETHMX_count_t target_count,
                                                     MPI_Datatype target_datatype, MPI_Op op, MPIR_Win *win,
                                                     MPIDI_av_entry_t *addr, MPIDI_winattr_t winattr)
{
    const struct MPIDI_ETHMX_buffer operand = {(void *)origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, target_count, target_datatype};
    int type = MPIDI_ETHMX_win_atomic_type(win, target_datatype);

    if (type >= 0)
        return MPIDI_ETHMX_accumulate(&operand, NULL, &to, type, op, win, NULL);
    return MPIDIG_mpi_accumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                 target_datatype, op, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_raccumulate(const void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                                      MPI_Datatype origin_datatype, int target_rank,
                                                      MPI_Aint target_disp, MPIDI_ETHMX_count_t target_count,
                                                      MPI_Datatype target_datatype, MPI_Op op, MPIR_Win *win,
                                                      MPIDI_av_entry_t *addr, MPIDI_winattr_t winattr,
                                                      MPIR_Request **request)
{
    const struct MPIDI_ETHMX_buffer operand = {(void *)origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, target_count, target_datatype};
    int type = MPIDI_ETHMX_win_atomic_type(win, target_datatype);

    if (type >= 0)
        return MPIDI_ETHMX_accumulate(&operand, NULL, &to, type, op, win, request);
    return MPIDIG_mpi_raccumulate(origin_addr, origin_count, origin_datatype, target_rank, target_disp, target_count,
                                  target_datatype, op, win, request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_get_accumulate(const void *origin_addr, MPIDI_ETHMX_count_t origin_count,
                                                         MPI_Datatype origin_datatype, void *result_addr,
                                                         MPIDI_ETHMX_count_t result_count, MPI_Datatype result_datatype,
                                                         int target_rank, MPI_Aint target_disp,
                                                         MPIDI_ETHMX_count_t target_count, MPI_Datatype target_datatype,
                                                         MPI_Op op, MPIR_Win *win, MPIDI_av_entry_t *addr,
                                                         MPIDI_winattr_t winattr)
{
    const struct MPIDI_ETHMX_buffer operand = {(void *)origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_buffer result = {result_addr, result_count, result_datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, target_count, target_datatype};
    int type = MPIDI_ETHMX_win_atomic_type(win, target_datatype);

    if (type >= 0)
        return MPIDI_ETHMX_accumulate(&operand, &result, &to, type, op, win, NULL);
    return MPIDIG_mpi_get_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                     result_datatype, target_rank, target_disp, target_count, target_datatype, op, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_rget_accumulate(
    const void *origin_addr, MPIDI_ETHMX_count_t origin_count, MPI_Datatype origin_datatype, void *result_addr,
    MPIDI_ETHMX_count_t result_count, MPI_Datatype result_datatype, int target_rank, MPI_Aint target_disp,
    MPIDI_ETHMX_count_t target_count, MPI_Datatype target_datatype, MPI_Op op, MPIR_Win *win, MPIDI_av_entry_t *addr,
    MPIDI_winattr_t winattr, MPIR_Request **request)
{
    const struct MPIDI_ETHMX_buffer operand = {(void *)origin_addr, origin_count, origin_datatype};
    const struct MPIDI_ETHMX_buffer result = {result_addr, result_count, result_datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, target_count, target_datatype};
    int type = MPIDI_ETHMX_win_atomic_type(win, target_datatype);

    if (type >= 0)
        return MPIDI_ETHMX_accumulate(&operand, &result, &to, type, op, win, request);
    return MPIDIG_mpi_rget_accumulate(origin_addr, origin_count, origin_datatype, result_addr, result_count,
                                      result_datatype, target_rank, target_disp, target_count, target_datatype, op, win,
                                      request);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_fetch_and_op(const void *origin_addr, void *result_addr,
                                                       MPI_Datatype datatype, int target_rank, MPI_Aint target_disp,
                                                       MPI_Op op, MPIR_Win *win, MPIDI_av_entry_t *addr,
                                                       MPIDI_winattr_t winattr)
{
    const struct MPIDI_ETHMX_buffer operand = {(void *)origin_addr, 1, datatype}, result = {result_addr, 1, datatype};
    const struct MPIDI_ETHMX_place to = {target_rank, target_disp, 1, datatype};
    int type = MPIDI_ETHMX_win_atomic_type(win, datatype);

    if (type >= 0)
        return MPIDI_ETHMX_accumulate(&operand, &result, &to, type, op, win, NULL);
    return MPIDIG_mpi_fetch_and_op(origin_addr, result_addr, datatype, target_rank, target_disp, op, win);
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_mpi_compare_and_swap(const void *origin_addr, const void *compare_addr,
                                                           void *result_addr, MPI_Datatype datatype, int target_rank,
                                                           MPI_Aint target_disp, MPIR_Win *win, MPIDI_av_entry_t *addr,
                                                           MPIDI_winattr_t winattr)
{
    if (MPIDI_ETHMX_win_atomic_type(win, datatype) >= 0)
        return MPIDI_ETHMX_compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp,
                                            win);
    return MPIDIG_mpi_compare_and_swap(origin_addr, compare_addr, result_addr, datatype, target_rank, target_disp, win);
}

#endif
