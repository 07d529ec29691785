/* SPDX-License-Identifier: BSD-3-Clause
 *
 * MPI's order: messages from one source on one communicator match in the order they were sent; receives match in the
 * order they were posted. Where several receives and messages could meet, a naive model says which must.
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGES = 600, TAGS = 5 };

/* Sizes that go each way a transport may have, small ones most often. */
static size_t random_size(struct mt_random *r)
{
    static const size_t limits[] = {16, 16, 200, 1500, 3000, 9100, 33000, 70000};

    return sizeof(int) + mt_random_below(r, limits[mt_random_below(r, MT_COUNT(limits))]);
}

/* Computes for a while, so that messages arrive early or late. */
static void dawdle(struct mt_random *r)
{
    volatile uint64_t sum = 0;

    if (mt_random_below(r, 4) == 0)
        for (size_t n = mt_random_below(r, 200000); n > 0; n--)
            sum = sum + n;
    (void)sum;
}

static void *message_make(size_t len_bytes, int number, uint64_t seed)
{
    uint8_t *buf = mt_alloc(len_bytes);

    mt_fill(buf, len_bytes, mt_seed(seed, (uint64_t)number, len_bytes));
    memcpy(buf, &number, sizeof(number));
    return buf;
}

/* The message must be this one, of this length. */
static void message_check(void *buf, size_t len_bytes, int number, uint64_t seed, const MPI_Status *status)
{
    uint8_t *expected;
    int bytes, got;

    mt_ok(MPI_Get_count(status, MPI_BYTE, &bytes));
    memcpy(&got, buf, sizeof(got));
    mt_check(got == number, "message %d came where number %d was due", got, number);
    mt_check((size_t)bytes == len_bytes, "message %d has %d bytes, not %zu", number, bytes, len_bytes);
    expected = message_make(len_bytes, number, seed);
    mt_check(!memcmp(buf, expected, len_bytes), "message %d is damaged", number);
    mt_free(expected);
}

/* ---- One sender, one receiver ------------------------------------------------------------------------------- */

struct plan {
    int tag[MESSAGES];
    size_t len_bytes[MESSAGES];
    bool sync[MESSAGES];
};

static void plan_make(struct plan *plan, uint64_t seed, int tags)
{
    struct mt_random r = {seed};

    for (int i = 0; i < MESSAGES; i++) {
        plan->tag[i] = (int)mt_random_below(&r, (size_t)tags);
        plan->len_bytes[i] = random_size(&r);
        plan->sync[i] = mt_random_below(&r, 5) == 0;
    }
}

static void plan_send(const struct plan *plan, uint64_t seed, int to, MPI_Comm comm)
{
    MPI_Request requests[MESSAGES];
    void *bufs[MESSAGES];
    struct mt_random r = {seed ^ 0x5eed};

    for (int i = 0; i < MESSAGES; i++) {
        int len = (int)plan->len_bytes[i];

        bufs[i] = message_make(plan->len_bytes[i], i, seed);
        if (plan->sync[i])
            mt_ok(MPI_Issend(bufs[i], len, MPI_BYTE, to, plan->tag[i], comm, &requests[i]));
        else
            mt_ok(MPI_Isend(bufs[i], len, MPI_BYTE, to, plan->tag[i], comm, &requests[i]));
        dawdle(&r);
    }
    mt_ok(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES; i++)
        mt_free(bufs[i]);
}

enum { ROOM = 80000 };

static void one_tag_receive(const struct plan *plan, uint64_t seed, int from, MPI_Comm comm)
{
    struct mt_random r = {seed ^ 0xdeaf};
    void *buf = mt_alloc(ROOM);

    for (int i = 0; i < MESSAGES; i++) {
        bool any_source = mt_random_below(&r, 2), any_tag = mt_random_below(&r, 2);
        MPI_Status status;

        dawdle(&r);
        mt_ok(MPI_Recv(buf, ROOM, MPI_BYTE, any_source ? MPI_ANY_SOURCE : from, any_tag ? MPI_ANY_TAG : plan->tag[i],
                       comm, &status));
        mt_status(&status, from, plan->tag[i], plan->len_bytes[i]);
        message_check(buf, plan->len_bytes[i], i, seed, &status);
    }
    mt_free(buf);
}

/* Each half of the world: partners exchange, one direction at a time. */
static void between_partners(MPI_Comm comm, int tags,
                             void (*receive)(const struct plan *, uint64_t seed, int from, MPI_Comm comm))
{
    int partner = mt_partner(comm), rank = mt_rank(comm);
    struct plan *plan = mt_alloc(sizeof(*plan));

    for (int direction = 0; direction < 2 && partner >= 0; direction++) {
        bool sending = (rank < partner) == (direction == 0);
        uint64_t seed = mt_seed((uint64_t)(sending ? rank : partner), (uint64_t)direction, (uint64_t)tags);

        plan_make(plan, seed, tags);
        if (sending)
            plan_send(plan, seed, partner, comm);
        else
            receive(plan, seed, partner, comm);
    }
    mt_free(plan);
}

static void run_one_tag(MPI_Comm comm)
{
    between_partners(comm, 1, one_tag_receive);
}

/* Tags in a random order; each tag's messages must come in order. */
static void many_tags_receive(const struct plan *plan, uint64_t seed, int from, MPI_Comm comm)
{
    struct mt_random r = {seed ^ 0xdeaf};
    void *buf = mt_alloc(ROOM);
    int next[TAGS] = {0};
    int left = MESSAGES;

    while (left > 0) {
        int tag = (int)mt_random_below(&r, TAGS);
        int i = next[tag];
        MPI_Status status;

        while (i < MESSAGES && plan->tag[i] != tag)
            i++;
        next[tag] = i + 1;
        if (i >= MESSAGES)
            continue;
        mt_ok(MPI_Recv(buf, ROOM, MPI_BYTE, from, tag, comm, &status));
        mt_status(&status, from, tag, plan->len_bytes[i]);
        message_check(buf, plan->len_bytes[i], i, seed, &status);
        dawdle(&r);
        left--;
    }
    mt_free(buf);
}

static void run_many_tags(MPI_Comm comm)
{
    between_partners(comm, TAGS, many_tags_receive);
}

/* ---- Wildcards against a model ------------------------------------------------------------------------------- */

/* match[i]: which message the i-th receive gets, or -1. With one sender this does not depend on time: all receives
 * prefer the message sent first, all messages the receive posted first. */
static void model(const struct plan *plan, const int *receive_tag, int *match)
{
    bool taken[MESSAGES] = {false};

    for (int i = 0; i < MESSAGES; i++) {
        match[i] = -1;
        for (int m = 0; m < MESSAGES && match[i] < 0; m++)
            if (!taken[m] && (receive_tag[i] == MPI_ANY_TAG || receive_tag[i] == plan->tag[m])) {
                match[i] = m;
                taken[m] = true;
            }
    }
}

/* Tags that receives ask for: as many of each as there are messages, some turned into wildcards; shuffled. */
static void receive_tags_make(const struct plan *plan, struct mt_random *r, int *receive_tag)
{
    memcpy(receive_tag, plan->tag, sizeof(plan->tag));
    mt_random_shuffle(r, receive_tag, MESSAGES);
    for (int i = 0; i < MESSAGES; i++)
        if (mt_random_below(r, 3) == 0)
            receive_tag[i] = MPI_ANY_TAG;
}

/* Waits for all receives that get a message; the others (a wildcard took what they asked for) must be cancellable. */
static void receives_finish(const struct plan *plan, uint64_t seed, int from, const int *match, MPI_Request *requests,
                            void **bufs)
{
    for (int i = 0; i < MESSAGES; i++) {
        MPI_Status status;
        int cancelled;

        if (match[i] < 0)
            mt_ok(MPI_Cancel(&requests[i]));
        mt_ok(MPI_Wait(&requests[i], &status));
        mt_ok(MPI_Test_cancelled(&status, &cancelled));
        mt_check(!cancelled == (match[i] >= 0), "receive %d was%s cancelled, but the model gives it message %d", i,
                 cancelled ? "" : " not", match[i]);
        if (match[i] >= 0) {
            mt_status(&status, from, plan->tag[match[i]], plan->len_bytes[match[i]]);
            message_check(bufs[i], plan->len_bytes[match[i]], match[i], seed, &status);
        }
        mt_free(bufs[i]);
    }
}

/* Takes the messages that no receive of the model got, in order. */
static void receive_rest(const struct plan *plan, uint64_t seed, int from, const int *match, MPI_Comm comm)
{
    bool taken[MESSAGES] = {false};
    void *buf = mt_alloc(ROOM);

    for (int i = 0; i < MESSAGES; i++)
        if (match[i] >= 0)
            taken[match[i]] = true;
    for (int m = 0; m < MESSAGES; m++) {
        MPI_Status status;

        if (taken[m])
            continue;
        mt_ok(MPI_Recv(buf, ROOM, MPI_BYTE, from, MPI_ANY_TAG, comm, &status));
        message_check(buf, plan->len_bytes[m], m, seed, &status);
    }
    mt_free(buf);
}

enum when { RECEIVES_FIRST, MESSAGES_FIRST, AS_IT_COMES };
enum { TAG_GO = 1000 };

static void wildcards_receive(const struct plan *plan, uint64_t seed, enum when when, int from, MPI_Comm comm,
                              MPI_Comm signals)
{
    struct mt_random r = {seed};
    int receive_tag[MESSAGES], match[MESSAGES];
    MPI_Request requests[MESSAGES];
    void *bufs[MESSAGES];

    receive_tags_make(plan, &r, receive_tag);
    model(plan, receive_tag, match);
    if (when == MESSAGES_FIRST)
        mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, from, TAG_GO, signals, MPI_STATUS_IGNORE));
    for (int i = 0; i < MESSAGES; i++) {
        bufs[i] = mt_alloc(ROOM);
        mt_ok(MPI_Irecv(bufs[i], ROOM, MPI_BYTE, from, receive_tag[i], comm, &requests[i]));
    }
    if (when == RECEIVES_FIRST)
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG_GO, signals));
    receives_finish(plan, seed, from, match, requests, bufs);
    receive_rest(plan, seed, from, match, comm);
}

static void wildcards_send(const struct plan *plan, uint64_t seed, enum when when, int to, MPI_Comm comm,
                           MPI_Comm signals)
{
    MPI_Request requests[MESSAGES];
    void *bufs[MESSAGES];

    if (when == RECEIVES_FIRST)
        mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, to, TAG_GO, signals, MPI_STATUS_IGNORE));
    for (int i = 0; i < MESSAGES; i++) {
        bufs[i] = message_make(plan->len_bytes[i], i, seed);
        mt_ok(MPI_Isend(bufs[i], (int)plan->len_bytes[i], MPI_BYTE, to, plan->tag[i], comm, &requests[i]));
    }
    if (when == MESSAGES_FIRST)
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, to, TAG_GO, signals));
    mt_ok(MPI_Waitall(MESSAGES, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MESSAGES; i++)
        mt_free(bufs[i]);
}

static void wildcards(MPI_Comm comm, enum when when)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);
    uint64_t seed = mt_seed((uint64_t)(rank < partner ? rank : partner), 77, when);
    struct plan *plan = mt_alloc(sizeof(*plan));
    MPI_Comm signals;

    mt_ok(MPI_Comm_dup(comm, &signals));
    plan_make(plan, seed, TAGS);
    if (partner >= 0 && rank < partner)
        wildcards_send(plan, seed, when, partner, comm, signals);
    else if (partner >= 0)
        wildcards_receive(plan, seed, when, partner, comm, signals);
    mt_free(plan);
    mt_ok(MPI_Comm_free(&signals));
}

static void run_receives_first(MPI_Comm comm)
{
    wildcards(comm, RECEIVES_FIRST);
}

static void run_messages_first(MPI_Comm comm)
{
    wildcards(comm, MESSAGES_FIRST);
}

static void run_as_it_comes(MPI_Comm comm)
{
    wildcards(comm, AS_IT_COMES);
}

static const struct mt_scenario scenarios[] = {
    {"one-tag", 2, run_one_tag},
    {"many-tags", 2, run_many_tags},
    {"receives-first", 2, run_receives_first},
    {"messages-first", 2, run_messages_first},
    {"as-it-comes", 2, run_as_it_comes},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
