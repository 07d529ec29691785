/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses of processes, and their exchange through the launcher.
 */
#include "mpidimpl.h"

#include "ethmx_impl.h"
#include "ethmx_noinline.h"
#if !MPIDI_ETHMX_CH4_LPID
#include "mpidu_bc.h"
#endif

int MPIDI_ETHMX_card_own(struct MPIDI_ETHMX_card *card)
{
    size_t len_bytes = sizeof(card->addr);
    int mpi_errno = MPI_SUCCESS;

    MPL_COMPILE_TIME_ASSERT(sizeof(card->addr) <= UINT8_MAX);
    *card = (struct MPIDI_ETHMX_card){0};
    if (MPIDI_ETHMX_lib.ep_address(MPIDI_ETHMX_global.ep, card->addr, &len_bytes) != ETHMX_OK)
        MPIR_ERR_SET1(mpi_errno, MPI_ERR_OTHER, "**ethmx_address", "**ethmx_address %s", MPIDI_ETHMX_lib.error_text());
    card->len_bytes = (uint8_t)len_bytes;
    return mpi_errno;
}

/* ethmx keeps the process's number (plus one) with the peer, see ethmx_spawn.c. */
int MPIDI_ETHMX_peer_add(MPIDI_ETHMX_proc_t proc, const void *addr, size_t len_bytes)
{
    void *user = (void *)(uintptr_t)(proc + 1);
    int mpi_errno = MPI_SUCCESS;

    if (MPIDI_ETHMX_lib.peer_add(MPIDI_ETHMX_global.ep, addr, len_bytes, user,
                                 &MPIDI_ETHMX_PEER(MPIDI_ETHMX_PROC_AV(proc))) != ETHMX_OK)
        MPIR_ERR_SET2(mpi_errno, MPI_ERR_OTHER, "**ethmx_peer", "**ethmx_peer %d %s", MPIDI_ETHMX_PROC_RANK(proc),
                      MPIDI_ETHMX_lib.error_text());
    return mpi_errno;
}

int MPIDI_ETHMX_card_add(MPIDI_ETHMX_proc_t proc, const struct MPIDI_ETHMX_card *card)
{
    int mpi_errno = MPIDI_ETHMX_peer_add(proc, card->addr, card->len_bytes);

    if (mpi_errno != MPI_SUCCESS) {
        char text[1024];

        snprintf(text, sizeof(text), "ethmx: the address of rank %d is not usable: %s", MPIDI_ETHMX_PROC_RANK(proc),
                 MPIDI_ETHMX_lib.error_text());
        MPIDI_ETHMX_end_job(text);
    }
    return mpi_errno;
}

#if MPIDI_ETHMX_CH4_LPID

/* What a process tells the others when they are not in the order of their ranks. */
struct ranked_card {
    int rank;
    struct MPIDI_ETHMX_card card;
};

/* Makes the first process of each node known to those of the other nodes, through the launcher. */
static int exchange_roots(MPIR_Comm *comm, const struct MPIDI_ETHMX_card *own)
{
    int mpi_errno = MPI_SUCCESS, n = comm->num_external;
    struct MPIDI_ETHMX_card *cards = MPL_calloc(n, sizeof(*cards), MPL_MEM_ADDRESS);

    MPIR_ERR_CHKANDJUMP(!cards, mpi_errno, MPI_ERR_NO_MEM, "**nomem");
    mpi_errno = MPIDIU_bc_exchange_node_roots(comm, (const char *)own, sizeof(*own), cards);
    for (int i = 0; i < n && comm->local_rank == 0 && mpi_errno == MPI_SUCCESS; i++)
        mpi_errno = MPIDI_ETHMX_card_add(MPIR_comm_rank_to_lpid(MPIR_Comm_get_node_roots_comm(comm), i), &cards[i]);

fn_fail:
    MPL_free(cards);
    return mpi_errno;
}

/* Makes all processes known to each other, through shared memory and the first processes of the nodes. */
static int exchange_all(MPIR_Comm *comm, const struct MPIDI_ETHMX_card *own)
{
    const struct ranked_card mine = {.rank = comm->rank, .card = *own};
    int mpi_errno = MPI_SUCCESS, n = comm->local_size;
    struct ranked_card *cards = MPL_calloc(n, sizeof(*cards), MPL_MEM_ADDRESS);

    MPIR_ERR_CHKANDJUMP(!cards, mpi_errno, MPI_ERR_NO_MEM, "**nomem");
    mpi_errno = MPIR_Allgather_intra_smp_no_order(&mine, sizeof(mine), MPIR_BYTE_INTERNAL, cards, sizeof(mine),
                                                  MPIR_BYTE_INTERNAL, comm, MPIR_COLL_ATTR_SYNC);
    for (int i = 0; i < n && mpi_errno == MPI_SUCCESS; i++)
        mpi_errno = MPIDI_ETHMX_card_add(MPIR_comm_rank_to_lpid(comm, cards[i].rank), &cards[i].card);

fn_fail:
    MPL_free(cards);
    return mpi_errno;
}

int MPIDI_ETHMX_comm_address_exchange(MPIR_Comm *comm)
{
    struct MPIDI_ETHMX_card own;
    int mpi_errno = MPIDI_ETHMX_card_own(&own);

    if (mpi_errno == MPI_SUCCESS && comm->num_external > 1)
        mpi_errno = exchange_roots(comm, &own);
    if (mpi_errno == MPI_SUCCESS && comm->num_external < comm->local_size)
        mpi_errno = exchange_all(comm, &own);
    return mpi_errno;
}

#else

int MPIDI_ETHMX_init_world(void)
{
    struct MPIDI_ETHMX_card own;
    void *table;
    int unused, mpi_errno = MPIDI_ETHMX_card_own(&own);

    MPIR_ERR_CHECK(mpi_errno);
    mpi_errno = MPIDU_bc_table_create(MPIR_Process.rank, MPIR_Process.size, MPIR_Process.node_map, &own, sizeof(own),
                                      TRUE, FALSE, &table, &unused);
    MPIR_ERR_CHECK(mpi_errno);
    for (int i = 0; i < MPIR_Process.size && mpi_errno == MPI_SUCCESS; i++)
        mpi_errno = MPIDI_ETHMX_card_add(MPIDIU_GPID_CREATE(0, i), (const struct MPIDI_ETHMX_card *)table + i);
    MPIDU_bc_table_destroy();

fn_fail:
    return mpi_errno;
}

#endif
