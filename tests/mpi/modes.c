/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Send modes: a synchronous send does not complete before it is matched; buffered sends complete alone; ready sends
 * meet their receive; persistent requests of each mode.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <unistd.h>

static const size_t sizes[] = {0, 1, 100, 1400, 9000, 32768, 33000, 100000, 1000000, 5000000};

enum { TAG_DATA = 1, TAG_GO = 2 };

/* The receiver gets TAG_GO only after the sender has seen its synchronous send stay open while it made progress. */
static void sync_sender(MPI_Comm comm, int partner, size_t len_bytes, uint8_t *buf)
{
    MPI_Request request;
    int done = 0;

    mt_ok(MPI_Issend(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm, &request));
    for (int i = 0; i < 200; i++) {
        mt_ok(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
        mt_check(!done, "a synchronous send of %zu bytes completed before it was received", len_bytes);
        if (i % 20 == 0)
            usleep(100); /* gives the message time to arrive, should it complete by that */
    }
    mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
    mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void receive_checked(MPI_Comm comm, int partner, size_t len_bytes, uint64_t seed, uint8_t *buf)
{
    MPI_Status status;

    mt_ok(MPI_Recv(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm, &status));
    mt_status(&status, partner, TAG_DATA, len_bytes);
    mt_check_fill(buf, len_bytes, seed, "message");
}

/* Runs one for each size; the lower half sends. */
static void for_sizes(MPI_Comm comm, void (*send)(MPI_Comm, int partner, size_t len_bytes, uint8_t *buf),
                      void (*receive)(MPI_Comm, int partner, size_t len_bytes, uint64_t seed, uint8_t *buf))
{
    int partner = mt_partner(comm);

    for (unsigned i = 0; i < MT_COUNT(sizes) && partner >= 0; i++) {
        uint8_t *buf = mt_alloc(sizes[i]);

        if (mt_rank(comm) < partner) {
            mt_fill(buf, sizes[i], i);
            send(comm, partner, sizes[i], buf);
            mt_check_fill(buf, sizes[i], i, "send buffer after sending");
        } else {
            receive(comm, partner, sizes[i], i, buf);
        }
        mt_free(buf);
    }
}

static void receive_after_go(MPI_Comm comm, int partner, size_t len_bytes, uint64_t seed, uint8_t *buf)
{
    mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
    receive_checked(comm, partner, len_bytes, seed, buf);
}

static void run_issend_waits(MPI_Comm comm)
{
    for_sizes(comm, sync_sender, receive_after_go);
}

static void ssend_one(MPI_Comm comm, int partner, size_t len_bytes, uint8_t *buf)
{
    mt_ok(MPI_Ssend(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm));
}

static void run_ssend(MPI_Comm comm)
{
    for_sizes(comm, ssend_one, receive_checked);
}

/* A synchronous send is matched also by a probe that takes the message. */
static void receive_by_mprobe(MPI_Comm comm, int partner, size_t len_bytes, uint64_t seed, uint8_t *buf)
{
    MPI_Message message;
    MPI_Status status;

    mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
    mt_ok(MPI_Mprobe(partner, TAG_DATA, comm, &message, &status));
    mt_status(&status, partner, TAG_DATA, len_bytes);
    mt_ok(MPI_Mrecv(buf, (int)len_bytes, MPI_BYTE, &message, &status));
    mt_status(&status, partner, TAG_DATA, len_bytes);
    mt_check_fill(buf, len_bytes, seed, "message received by Mrecv");
}

static void run_issend_mprobe(MPI_Comm comm)
{
    for_sizes(comm, sync_sender, receive_by_mprobe);
}

/* Rsend: the receiver posts, then says so. */
static void rsend_one(MPI_Comm comm, int partner, size_t len_bytes, uint8_t *buf)
{
    MPI_Request request;

    mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
    mt_ok(MPI_Rsend(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm));
    mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
    mt_ok(MPI_Irsend(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm, &request));
    mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
}

static void receive_ready(MPI_Comm comm, int partner, size_t len_bytes, uint64_t seed, uint8_t *buf)
{
    for (int round = 0; round < 2; round++) {
        MPI_Request request;
        MPI_Status status;

        mt_ok(MPI_Irecv(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm, &request));
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
        mt_ok(MPI_Wait(&request, &status));
        mt_status(&status, partner, TAG_DATA, len_bytes);
        mt_check_fill(buf, len_bytes, seed, "message sent ready");
    }
}

static void run_rsend(MPI_Comm comm)
{
    for_sizes(comm, rsend_one, receive_ready);
}

/* Buffered sends of all sizes both ways before anything is received; MPI_Buffer_detach() waits for them. */
static void run_bsend(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm), room = 0, detached_len;
    void *space, *detached;

    if (partner < 0)
        return;
    for (unsigned i = 0; i < MT_COUNT(sizes); i++)
        room += (int)sizes[i] + MPI_BSEND_OVERHEAD + 64;
    space = malloc((size_t)room);
    mt_ok(MPI_Buffer_attach(space, room));
    for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
        uint8_t *buf = mt_alloc(sizes[i]);

        mt_fill(buf, sizes[i], mt_seed((uint64_t)rank, i, 3));
        mt_ok(MPI_Bsend(buf, (int)sizes[i], MPI_BYTE, partner, TAG_DATA, comm));
        mt_fill(buf, sizes[i], 0);
        mt_free(buf);
    }
    for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
        uint8_t *buf = mt_alloc(sizes[i]);

        receive_checked(comm, partner, sizes[i], mt_seed((uint64_t)partner, i, 3), buf);
        mt_free(buf);
    }
    mt_ok(MPI_Buffer_detach(&detached, &detached_len));
    mt_check(detached == space && detached_len == room, "MPI_Buffer_detach gave back another buffer");
    free(space);
}

#ifndef MPICH_VERSION
/* MPI_Testsome() once: the request is open before its other side ran, and over after it. */
static void testsome_once(MPI_Request *request, bool over, const char *what)
{
    int n, index;

    mt_ok(MPI_Testsome(1, request, &n, &index, MPI_STATUSES_IGNORE));
    mt_check(n == over, "%s to ourselves is %s after its other side has%s ended", what, n ? "over" : "open",
             over ? "" : " not");
}

/* A message to ourselves: when one side has ended, so has the other, without more progress. */
static void run_self(MPI_Comm comm)
{
    int rank = mt_rank(comm);

    for (unsigned i = 0; i < MT_COUNT(sizes); i++) {
        uint8_t *from = mt_alloc(sizes[i]), *to = mt_alloc(sizes[i]);
        int len = (int)sizes[i];
        MPI_Request request, sent;

        mt_fill(from, sizes[i], i);
        mt_ok(MPI_Irecv(to, len, MPI_BYTE, rank, TAG_DATA, comm, &request));
        testsome_once(&request, false, "a receive");
        mt_ok(MPI_Ssend(from, len, MPI_BYTE, rank, TAG_DATA, comm));
        testsome_once(&request, true, "a receive");
        mt_check_fill(to, sizes[i], i, "message to ourselves");
        mt_ok(MPI_Irecv(to, len, MPI_BYTE, rank, TAG_DATA, comm, &request));
        mt_ok(MPI_Isend(from, len, MPI_BYTE, rank, TAG_DATA, comm, &sent));
        testsome_once(&request, true, "a receive");
        mt_ok(MPI_Wait(&sent, MPI_STATUS_IGNORE));
        mt_ok(MPI_Issend(from, len, MPI_BYTE, rank, TAG_DATA, comm, &request));
        testsome_once(&request, false, "a synchronous send");
        mt_ok(MPI_Recv(to, len, MPI_BYTE, rank, TAG_DATA, comm, MPI_STATUS_IGNORE));
        testsome_once(&request, true, "a synchronous send");
        mt_free(from);
        mt_free(to);
    }
}
#endif

typedef int (*init_fn)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

/* Started five times with new data each. Ready sends are held back until the receive is posted. */
static void persistent(MPI_Comm comm, init_fn init, size_t len_bytes)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);
    uint8_t *buf = mt_alloc(len_bytes);
    MPI_Request request;

    if (rank < partner)
        mt_ok(init(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm, &request));
    else
        mt_ok(MPI_Recv_init(buf, (int)len_bytes, MPI_BYTE, partner, TAG_DATA, comm, &request));
    for (uint64_t round = 0; round < 5; round++) {
        if (rank < partner) {
            mt_fill(buf, len_bytes, round);
            mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
            mt_ok(MPI_Start(&request));
            mt_ok(MPI_Wait(&request, MPI_STATUS_IGNORE));
        } else {
            MPI_Status status;

            mt_ok(MPI_Start(&request));
            mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
            mt_ok(MPI_Wait(&request, &status));
            mt_status(&status, partner, TAG_DATA, len_bytes);
            mt_check_fill(buf, len_bytes, round, "message of a persistent request");
        }
        mt_check(request != MPI_REQUEST_NULL, "a persistent request became null");
    }
    mt_ok(MPI_Request_free(&request));
    mt_free(buf);
}

static void run_persistent(MPI_Comm comm)
{
    static const init_fn inits[] = {MPI_Send_init, MPI_Ssend_init, MPI_Rsend_init, MPI_Bsend_init};
    unsigned modes = MT_COUNT(inits);
    int len, room = 8 << 20;
    void *space, *detached;

    if (mt_partner(comm) < 0)
        return;
    space = malloc((size_t)room);
    mt_ok(MPI_Buffer_attach(space, room));
    if (!mt_transport_is("ucx")) {
        mt_skip(comm, "MPI_Bsend_init: ob1 and cm of Open MPI 4.1 send the data of the first start again");
        modes--;
    }
    for (unsigned mode = 0; mode < modes; mode++)
        for (unsigned i = 0; i < MT_COUNT(sizes) - 1; i++)
            persistent(comm, inits[mode], sizes[i]);
    mt_ok(MPI_Buffer_detach(&detached, &len));
    free(space);
}

/* A request freed while it is under way still delivers. */
static void run_request_free(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);

    for (unsigned i = 0; i < MT_COUNT(sizes) && partner >= 0; i++) {
        uint8_t *buf = mt_alloc(sizes[i]);

        if (rank < partner) {
            MPI_Request request;

            mt_fill(buf, sizes[i], i);
            mt_ok(MPI_Isend(buf, (int)sizes[i], MPI_BYTE, partner, TAG_DATA, comm, &request));
            mt_ok(MPI_Request_free(&request));
            mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, partner, TAG_GO, comm, MPI_STATUS_IGNORE));
        } else {
            receive_checked(comm, partner, sizes[i], i, buf);
            mt_ok(MPI_Send(NULL, 0, MPI_BYTE, partner, TAG_GO, comm));
        }
        mt_free(buf);
    }
}

static const struct mt_scenario scenarios[] = {
    {"issend-waits", 2, run_issend_waits},
    {"ssend", 2, run_ssend},
    {"issend-mprobe", 2, run_issend_mprobe},
    {"rsend", 2, run_rsend},
    {"bsend", 2, run_bsend},
#ifndef MPICH_VERSION /* its MPI_Testsome() does not see it, over its own transports either, and need not */
    {"self", 1, run_self},
#endif
    {"persistent", 2, run_persistent},
    {"request-free", 2, run_request_free},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
