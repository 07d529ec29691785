! SPDX-License-Identifier: BSD-3-Clause
!
! A vector of reals goes round all ranks, every other element of it; each rank adds its number. And a reduction.
program ring
    use mpi
    implicit none
    integer, parameter :: n = 50000
    integer :: ierr, rank, ranks, every_other, i, total
    real(8) :: v(2 * n)

    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
    call MPI_Type_vector(n, 1, 2, MPI_DOUBLE_PRECISION, every_other, ierr)
    call MPI_Type_commit(every_other, ierr)
    v = [(real(i, 8), i = 1, 2 * n)]
    if (rank == 0) call MPI_Send(v, 1, every_other, modulo(1, ranks), 7, MPI_COMM_WORLD, ierr)
    call MPI_Recv(v, 1, every_other, modulo(rank - 1, ranks), 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    v(1::2) = v(1::2) + rank
    if (rank /= 0) call MPI_Send(v, 1, every_other, modulo(rank + 1, ranks), 7, MPI_COMM_WORLD, ierr)
    call MPI_Allreduce(rank, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    if (rank == 0) then
        if (all(v(1::2) == [(real(i + total, 8), i = 1, 2 * n, 2)]) .and. all(v(2::2) == [(real(i, 8), i = 2, 2 * n, 2)])) then
            print '(a, i0, a)', 'ring of ', ranks, ': ok'
        else
            call MPI_Abort(MPI_COMM_WORLD, 1, ierr)
        end if
    end if
    call MPI_Type_free(every_other, ierr)
    call MPI_Finalize(ierr)
end program ring
