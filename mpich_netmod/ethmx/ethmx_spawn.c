/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Dynamic processes. ch4 does the work: a port's name holds an ethmx address ("upid"), the connecting process sends its
 * own to it, and then they are processes like others, in tables of their own.
 */
#include "mpidimpl.h"

#include "ethmx_impl.h"
#include "ethmx_noinline.h"

/* ---- The first words ---- */

/* One message between programs that are not connected yet. Lives until ethmx is done with it, which may be after we
 * have given up. */
struct word {
    struct ethmx_data data;
    struct ethmx_req *req;
    int status; /* ETHMX_INPROGRESS until it is over */
    bool abandoned;
    char bytes[];
};

static struct word *word_create(const void *buf, int size)
{
    struct word *w = MPL_malloc(sizeof(*w) + size, MPL_MEM_BUFFER);

    if (w) {
        *w = (struct word){.data = {.len_bytes = size, .base = w->bytes}, .status = ETHMX_INPROGRESS};
        if (buf)
            memcpy(w->bytes, buf, size);
    }
    return w;
}

static void word_over(void *arg, const struct ethmx_result *result)
{
    struct word *w = arg;

    w->status = result->status;
    if (w->abandoned)
        MPL_free(w);
}

/* Waits for up to timeout seconds (0: for ever); then w is freed, now or later. Returns an MPI error code. */
static int word_wait(struct word *w, void *buf, int size, int timeout)
{
    MPL_time_t start, now;
    double seconds = 0;
    int mpi_errno = MPI_SUCCESS;

    MPL_wtime(&start);
    while (w->status == ETHMX_INPROGRESS && mpi_errno == MPI_SUCCESS && (timeout == 0 || seconds < timeout)) {
        mpi_errno = MPID_Progress_test(NULL);
        MPID_THREAD_CS_YIELD(GLOBAL, MPIR_THREAD_GLOBAL_ALLFUNC_MUTEX);
        MPL_wtime(&now);
        MPL_wtime_diff(&start, &now, &seconds);
    }
    if (w->status == ETHMX_INPROGRESS) {
        char text[16];

        if (mpi_errno == MPI_SUCCESS) {
            snprintf(text, sizeof(text), "%d", timeout);
            MPIR_ERR_SET1(mpi_errno, MPI_ERR_PORT, "**ethmx_dynamic", "**ethmx_dynamic %s", text);
        }
        w->abandoned = true;
        if (w->req)
            MPIDI_ETHMX_lib.cancel(MPIDI_ETHMX_global.ep, w->req);
        return mpi_errno;
    }
    if (w->status == ETHMX_OK && buf)
        memcpy(buf, w->bytes, size);
    else if (w->status < 0)
        mpi_errno = MPIDI_ETHMX_ERROR(w->status);
    MPL_free(w);
    return mpi_errno;
}

int MPIDI_ETHMX_dynamic_send(uint64_t remote_gpid, int tag, const void *buf, int size, int timeout)
{
    MPIDI_av_entry_t *av = &MPIDIU_get_av(MPIDIU_GPID_GET_AVTID(remote_gpid), MPIDIU_GPID_GET_LPID(remote_gpid));
    struct word *w = word_create(buf, size);

    if (!w)
        return MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
    w->status = MPIDI_ETHMX_lib.isend(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_PEER(av),
                                      MPIDI_ETHMX_bits(MPIDI_ETHMX_CONTEXT_DYNAMIC, 0, tag), &w->data,
                                      ETHMX_SEND_STANDARD, word_over, w);
    return word_wait(w, NULL, 0, timeout);
}

int MPIDI_ETHMX_dynamic_recv(int tag, void *buf, int size, int timeout)
{
    struct word *w = word_create(NULL, size);
    struct ethmx_result result = {0};
    int status;

    if (!w)
        return MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
    status = MPIDI_ETHMX_lib.irecv(MPIDI_ETHMX_global.ep, NULL, MPIDI_ETHMX_bits(MPIDI_ETHMX_CONTEXT_DYNAMIC, 0, tag),
                                   UINT64_MAX, &w->data, word_over, w, &w->req, &result);
    w->status = status == ETHMX_OK ? result.status : status;
    return word_wait(w, buf, size, timeout);
}

/* ---- Addresses of processes ---- */

/* A port's name is "tag#N$connentry#ADDRESS$" with the address in hexadecimal. */
#define PORT_ADDRESS_MAX ((MPI_MAX_PORT_NAME - 24) / 2)

/* The address of process i of comm. Of ourselves alone it is asked for a port's name, which has less room than an
 * address may take, but enough for the one that we tell. */
static int local_upid(MPIR_Comm *comm, int i, void *addr, size_t *len_bytes)
{
    MPL_COMPILE_TIME_ASSERT(ETHMX_ADDRESS_LAUNCHER <= PORT_ADDRESS_MAX);
    *len_bytes = ETHMX_ADDRESS_MAX;
    if (comm != MPIR_Process.comm_self)
        return MPIDI_ETHMX_lib.peer_address(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_PEER(MPIDIU_comm_rank_to_av(comm, i)),
                                            addr, len_bytes);
    return MPIDI_ETHMX_lib.ep_address(MPIDI_ETHMX_global.ep, addr, len_bytes);
}

/* The addresses of all processes of comm's own group, one after the other. */
int MPIDI_ETHMX_get_local_upids(MPIR_Comm *comm, int **local_upid_size, char **local_upids)
{
    int n = comm->local_size;
    int *size = MPL_malloc(n * sizeof(*size), MPL_MEM_ADDRESS);
    char *addrs = MPL_malloc((size_t)n * ETHMX_ADDRESS_MAX, MPL_MEM_ADDRESS), *at = addrs;

    if (!size || !addrs)
        goto err;
    for (int i = 0; i < n; i++) {
        size_t len_bytes;

        if (local_upid(comm, i, at, &len_bytes) != ETHMX_OK)
            goto err;
        size[i] = (int)len_bytes;
        at += len_bytes;
    }
    *local_upid_size = size;
    *local_upids = addrs;
    return MPI_SUCCESS;

err:
    MPL_free(size);
    MPL_free(addrs);
    return MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
}

/* The number of a process that has an entry in a table already. A table may have been given up since the number was
 * noted, and its own number be used again. */
static bool known_gpid(const struct ethmx_peer *peer, uint64_t *gpid)
{
    uintptr_t user = (uintptr_t)MPIDI_ETHMX_lib.peer_user(peer);
    int avtid, lpid;

    if (user == 0)
        return false;
    avtid = MPIDIU_GPID_GET_AVTID(user - 1);
    lpid = MPIDIU_GPID_GET_LPID(user - 1);
    if (avtid >= MPIDIU_get_n_avts() || !MPIDIU_get_av_table(avtid) || lpid >= MPIDIU_get_av_table(avtid)->size ||
        MPIDI_ETHMX_PEER(&MPIDIU_get_av(avtid, lpid)) != peer)
        return false;
    *gpid = user - 1;
    return true;
}

/* Gives the processes with these addresses numbers; those not known yet come into a new table together. */
int MPIDI_ETHMX_upids_to_gpids(int size, int *remote_upid_size, char *remote_upids, uint64_t *remote_gpids)
{
    int fresh = 0, avtid, mpi_errno = MPI_SUCCESS;
    const char *addr = remote_upids;
    bool *known = MPL_calloc(size, sizeof(*known), MPL_MEM_ADDRESS);

    MPIR_ERR_CHKANDJUMP(!known, mpi_errno, MPI_ERR_NO_MEM, "**nomem");
    for (int i = 0; i < size; i++) {
        struct ethmx_peer *peer;

        MPIR_ERR_CHKANDJUMP2(
            MPIDI_ETHMX_lib.peer_add(MPIDI_ETHMX_global.ep, addr, remote_upid_size[i], NULL, &peer) != ETHMX_OK,
            mpi_errno, MPI_ERR_PORT, "**ethmx_peer", "**ethmx_peer %d %s", i, MPIDI_ETHMX_lib.error_text());
        known[i] = known_gpid(peer, &remote_gpids[i]);
        fresh += !known[i];
        addr += remote_upid_size[i];
    }
    if (fresh == 0)
        goto fn_exit;
    mpi_errno = MPIDIU_new_avt(fresh, &avtid);
    MPIR_ERR_CHECK(mpi_errno);
    addr = remote_upids;
    for (int i = 0, lpid = 0; i < size; addr += remote_upid_size[i++]) {
        if (known[i])
            continue;
        mpi_errno = MPIDI_ETHMX_peer_add(avtid, lpid, addr, remote_upid_size[i]);
        MPIR_ERR_CHECK(mpi_errno);
        remote_gpids[i] = MPIDIU_GPID_CREATE(avtid, lpid);
        lpid++;
    }

fn_exit:
    MPL_free(known);
    return mpi_errno;
fn_fail:
    goto fn_exit;
}
