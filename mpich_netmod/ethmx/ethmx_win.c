/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Windows: ch4's own, over active messages.
 */
#include "mpidimpl.h"

#include "ethmx_noinline.h"

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
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_allocate_hook(MPIR_Win *win)
{
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_allocate_shared_hook(MPIR_Win *win)
{
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_create_dynamic_hook(MPIR_Win *win)
{
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_attach_hook(MPIR_Win *win, void *base, MPI_Aint size)
{
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_detach_hook(MPIR_Win *win, const void *base)
{
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_win_free_hook(MPIR_Win *win)
{
    return MPI_SUCCESS;
}

void *MPIDI_ETHMX_mpi_alloc_mem(MPI_Aint size, MPIR_Info *info)
{
    return MPIDIG_mpi_alloc_mem(size, info);
}

int MPIDI_ETHMX_mpi_free_mem(void *ptr)
{
    return MPIDIG_mpi_free_mem(ptr);
}
