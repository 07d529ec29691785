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

static int word_progress(void)
{
#if MPIDI_ETHMX_CH4_LPID /* ch4 holds the lock of the VCI */
    MPID_THREAD_CS_YIELD(VCI, MPIDI_ETHMX_VCI_LOCK);
    return MPIDI_progress_test_vci(0);
#else
    return MPID_Progress_test(NULL);
#endif
}

/* Waits for up to timeout seconds (0: for ever); then w is freed, now or later. Returns an MPI error code. */
static int word_wait(struct word *w, void *buf, int size, int timeout)
{
    MPL_time_t start, now;
    double seconds = 0;
    int mpi_errno = MPI_SUCCESS;

    MPL_wtime(&start);
    while (w->status == ETHMX_INPROGRESS && mpi_errno == MPI_SUCCESS && (timeout == 0 || seconds < timeout)) {
        mpi_errno = word_progress();
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

/* The place of the sender's rank in the match bits has the context of the communicator that the two have, or 0. */
static uint64_t word_bits(int context, int tag)
{
    return MPIDI_ETHMX_bits(MPIDI_ETHMX_CONTEXT_DYNAMIC, context, tag);
}

/* NULL: no memory. */
static struct word *word_send(MPIDI_ETHMX_proc_t to, int context, int tag, const void *buf, int size)
{
    struct word *w = word_create(buf, size);

    if (w)
        w->status = MPIDI_ETHMX_lib.isend(MPIDI_ETHMX_global.ep, MPIDI_ETHMX_PEER(MPIDI_ETHMX_PROC_AV(to)),
                                          word_bits(context, tag), &w->data, ETHMX_SEND_STANDARD, word_over, w);
    return w;
}

/* From this process, or from any (NULL). NULL: no memory. */
static struct word *word_recv(struct ethmx_peer *from, int context, int tag, int size)
{
    struct word *w = word_create(NULL, size);
    struct ethmx_result result = {0};
    int status;

    if (!w)
        return NULL;
    status = MPIDI_ETHMX_lib.irecv(MPIDI_ETHMX_global.ep, from, word_bits(context, tag), UINT64_MAX, &w->data,
                                   word_over, w, &w->req, &result);
    w->status = status == ETHMX_OK ? result.status : status;
    return w;
}

int MPIDI_ETHMX_dynamic_send(MPIDI_ETHMX_proc_t remote, int tag, const void *buf, int size, int timeout)
{
    struct word *w = word_send(remote, 0, tag, buf, size);

    return w ? word_wait(w, NULL, 0, timeout) : MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
}

int MPIDI_ETHMX_dynamic_recv(int tag, void *buf, int size, int timeout)
{
    struct word *w = word_recv(NULL, 0, tag, size);

    return w ? word_wait(w, buf, size, timeout) : MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
}

#if MPIDI_ETHMX_CH4_LPID

int MPIDI_ETHMX_dynamic_sendrecv(MPIR_Lpid remote_lpid, MPIR_Comm *peer_comm, int tag, const void *send_buf,
                                 int send_size, void *recv_buf, int recv_size, int timeout)
{
    struct ethmx_peer *peer = MPIDI_ETHMX_PEER(MPIDI_ETHMX_PROC_AV(remote_lpid));
    struct word *in = word_recv(peer, peer_comm->recvcontext_id, tag, recv_size);
    struct word *out = word_send(remote_lpid, peer_comm->context_id, tag, send_buf, send_size);
    int received = in ? word_wait(in, recv_buf, recv_size, timeout) : MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);
    int sent = out ? word_wait(out, NULL, 0, timeout) : MPIDI_ETHMX_ERROR(ETHMX_ERR_NO_MEMORY);

    return received != MPI_SUCCESS ? received : sent;
}

#endif

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

#if MPIDI_ETHMX_CH4_LPID

int MPIDI_ETHMX_insert_upid(MPIR_Lpid lpid, const char *upid, int upid_len)
{
    return MPIDI_ETHMX_peer_add(lpid, upid, upid_len);
}

#else

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
        remote_gpids[i] = MPIDIU_GPID_CREATE(avtid, lpid++);
        mpi_errno = MPIDI_ETHMX_peer_add(remote_gpids[i], addr, remote_upid_size[i]);
        MPIR_ERR_CHECK(mpi_errno);
    }

fn_exit:
    MPL_free(known);
    return mpi_errno;
fn_fail:
    goto fn_exit;
}

#endif
