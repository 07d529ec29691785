/* SPDX-License-Identifier: BSD-3-Clause
 *
 * phases: programs that compute between their messages, in virtual time. Prints for each program how long it took and
 * how long it takes at least, and fails where the ratio is above its bound.
 *
 * A rank that computes looks at no frame: what comes waits in its ring, and nobody stands in for it. The least time
 * follows from the program and the network alone: a message takes its bytes' time on the link and the delay, programs
 * wait for nothing but their messages, and protocol and hosts cost nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fabric.h"

#define S_NS        1000000000ull
#define MS_NS       1000000ull
#define US_NS       1000ull
#define RATE_BPS    10000000000ull
#define DELAY_NS    3000
#define FRAME_BYTES 1500
#define QUEUE_BYTES (512 << 10)
#define RANKS_MAX   16
#define ANY         UINT32_MAX

struct job;
struct rank;

struct row {
    const char *name;
    /* Begins the next phase of a rank; false: it has none. */
    bool (*next)(struct rank *r);
    /* When the last rank is done at the earliest, from the beginning on. */
    uint64_t (*ideal_ns)(struct job *j);
    unsigned ranks, phases;
    size_t len_bytes;
    uint64_t compute_ns; /* of a phase; see compute_ns() */
    double most_times;   /* of the ideal time */
};

struct rank {
    struct job *job;
    struct fabric_endpoint *ep;
    unsigned index;
    unsigned phase, step; /* the next to begin */
    unsigned open;        /* operations under way */
    bool computes;
    uint8_t *in; /* a message for each other rank */
};

struct job {
    struct fabric fabric;
    const struct row *row;
    struct rank rank[RANKS_MAX];
    uint64_t left; /* ranks that are not done */
    uint8_t *out;
    unsigned tasks; /* that the master has not given away */
};

/* ---- What a rank does ---- */

static void proceed(struct rank *r);

static void fail(struct rank *r, const char *what, int status)
{
    struct fabric *f = &r->job->fabric;

    if (!f->failure[0])
        snprintf(f->failure, sizeof(f->failure), "rank %u: %s (%d)", r->index, what, status);
}

static void computed(void *arg, uint64_t unused)
{
    struct rank *r = arg;

    (void)unused;
    r->computes = false;
    proceed(r);
    fabric_pump(r->ep);
}

static void compute(struct rank *r, uint64_t ns)
{
    struct fabric *f = &r->job->fabric;

    if (!ns)
        return;
    r->computes = true;
    fabric_pump(r->ep); /* what was posted leaves before */
    r->ep->turn_ns = f->now_ns + ns;
    sim_queue_put(&f->queue, r->ep->turn_ns, computed, r, 0);
}

/* The time that a rank computes before it communicates: from half of the row's to three halves, always the same. */
static uint64_t compute_ns(const struct job *j, unsigned rank, unsigned phase)
{
    uint64_t mean_ns = j->row->compute_ns;

    return mean_ns ? mean_ns / 2 + emx_mix64((uint64_t)rank << 32 | phase) % mean_ns : 0;
}

static void over(void *arg, const struct ethmx_result *result)
{
    struct rank *r = arg;

    if (result->status != ETHMX_OK)
        fail(r, "an operation failed", result->status);
    r->open--;
    if (!r->open && !r->computes)
        proceed(r);
}

static void post_send(struct rank *r, unsigned to, uint64_t bits)
{
    struct job *j = r->job;
    struct emx_op_args a = {.bits = bits,
                            .data = {.len_bytes = j->row->len_bytes, .base = j->out},
                            .mode = ETHMX_SEND_STANDARD,
                            .done = over,
                            .arg = r};
    int rc = emx_engine_send(r->ep->engine, fabric_peer(&j->fabric, r->index, to), &a, j->fabric.now_ns);

    if (rc == ETHMX_INPROGRESS)
        r->open++;
    else if (rc != ETHMX_OK)
        fail(r, "a send was refused", rc);
}

static void post_receive(struct rank *r, unsigned from, uint64_t bits)
{
    struct job *j = r->job;
    struct emx_peer *peer = from == ANY ? NULL : fabric_peer(&j->fabric, r->index, from);
    struct emx_op_args a = {
        .bits = bits,
        .mask = UINT64_MAX,
        .data = {.len_bytes = j->row->len_bytes, .base = r->in + (from == ANY ? 0 : from) * j->row->len_bytes},
        .done = over,
        .arg = r};
    struct ethmx_result result;
    struct emx_op *op;
    int rc = emx_engine_recv(r->ep->engine, peer, &a, &op, &result, j->fabric.now_ns);

    if (rc == ETHMX_INPROGRESS)
        r->open++;
    else if (rc != ETHMX_OK)
        fail(r, "a receive was refused", rc);
}

/* Until it waits for a message, computes, or is done. */
static void proceed(struct rank *r)
{
    while (!r->open && !r->computes)
        if (!r->job->row->next(r)) {
            r->open = 1; /* never over */
            r->job->left--;
        }
}

/* ---- Time on the network ---- */

/* So many messages on one link, and the way. */
static uint64_t way_ns(const struct job *j, unsigned messages)
{
    uint64_t bytes = fabric_message_bytes(j->row->len_bytes, FRAME_BYTES);

    return DELAY_NS + messages * bytes * 8 * S_NS / RATE_BPS;
}

/* The first frame of a message is on its way while the last one still waits for the card; the card and the port of the
 * switch each take a frame's time. */
static uint64_t hop_ns(const struct job *j)
{
    size_t bytes = j->row->len_bytes < FRAME_BYTES ? j->row->len_bytes + 64 : FRAME_BYTES;

    return sim_wire_bytes(bytes) * 8 * S_NS / RATE_BPS;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t latest(const uint64_t *at_ns, unsigned n)
{
    uint64_t ns = 0;

    for (unsigned i = 0; i < n; i++)
        ns = later(ns, at_ns[i]);
    return ns;
}

/* ---- Exchange: compute, then with both neighbours on a ring ---- */

static unsigned right_of(const struct rank *r)
{
    return (r->index + 1) % r->job->row->ranks;
}

static unsigned left_of(const struct rank *r)
{
    return (r->index + r->job->row->ranks - 1) % r->job->row->ranks;
}

static void exchange(struct rank *r)
{
    uint64_t bits = r->phase++;

    post_receive(r, left_of(r), bits << 1);
    post_receive(r, right_of(r), bits << 1 | 1);
    post_send(r, right_of(r), bits << 1);
    post_send(r, left_of(r), bits << 1 | 1);
}

static bool exchange_next(struct rank *r)
{
    if (r->phase == r->job->row->phases)
        return false;
    if (r->step ^= 1)
        compute(r, compute_ns(r->job, r->index, r->phase));
    else
        exchange(r);
    return true;
}

static uint64_t exchange_ideal_ns(struct job *j)
{
    unsigned n = j->row->ranks;
    uint64_t at_ns[RANKS_MAX] = {0}, ready_ns[RANKS_MAX];

    for (unsigned p = 0; p < j->row->phases; p++) {
        for (unsigned i = 0; i < n; i++)
            ready_ns[i] = at_ns[i] + compute_ns(j, i, p);
        for (unsigned i = 0; i < n; i++) {
            uint64_t left_ns = ready_ns[(i + n - 1) % n], right_ns = ready_ns[(i + 1) % n];

            at_ns[i] = later(ready_ns[i], later(left_ns, right_ns) + way_ns(j, 1) + hop_ns(j));
            at_ns[i] = later(at_ns[i], (left_ns < right_ns ? left_ns : right_ns) + way_ns(j, 2) + hop_ns(j));
        }
    }
    return latest(at_ns, n);
}

/* ---- Wavefront: from the left, compute a plane, to the right; the first rank waits for nobody ---- */

static bool wavefront_next(struct rank *r)
{
    unsigned last = r->job->row->ranks - 1;

    if (r->phase == r->job->row->phases)
        return false;
    switch (r->step++) {
    case 0:
        if (r->index)
            post_receive(r, r->index - 1, r->phase);
        break;
    case 1:
        compute(r, r->job->row->compute_ns);
        break;
    default:
        if (r->index < last)
            post_send(r, r->index + 1, r->phase);
        r->step = 0;
        r->phase++;
    }
    return true;
}

static uint64_t wavefront_ideal_ns(struct job *j)
{
    return (j->row->phases + j->row->ranks - 1) * j->row->compute_ns + (j->row->ranks - 1) * (way_ns(j, 1) + hop_ns(j));
}

/* ---- All to all: compute, then with everybody ---- */

static bool alltoall_next(struct rank *r)
{
    unsigned n = r->job->row->ranks;

    if (r->phase == r->job->row->phases)
        return false;
    if (r->step ^= 1) {
        compute(r, compute_ns(r->job, r->index, r->phase));
        return true;
    }
    for (unsigned i = 1; i < n; i++)
        post_receive(r, (r->index + i) % n, r->phase);
    for (unsigned i = 1; i < n; i++)
        post_send(r, (r->index + i) % n, r->phase);
    r->phase++;
    return true;
}

static uint64_t alltoall_ideal_ns(struct job *j)
{
    unsigned n = j->row->ranks;
    uint64_t at_ns = 0, ready_ns;

    for (unsigned p = 0; p < j->row->phases; p++) {
        ready_ns = 0;
        for (unsigned i = 0; i < n; i++)
            ready_ns = later(ready_ns, compute_ns(j, i, p));
        at_ns += ready_ns + way_ns(j, 1) + hop_ns(j); /* of the slowest; what the others sent before is there */
    }
    return at_ns;
}

/* ---- Master and workers: a task, its computing, a result, the next task ---- */

#define TASK   1
#define RESULT 2

/* Tasks for all, then one for each result. */
static bool master_next(struct rank *r)
{
    struct job *j = r->job;
    unsigned workers = j->row->ranks - 1;

    if (r->phase == j->row->phases)
        return false;
    for (; r->step < workers; r->step++)
        post_send(r, r->step + 1, TASK);
    post_receive(r, r->phase % workers + 1, RESULT);
    r->phase++;
    if (r->phase > 1 && r->phase + workers <= j->row->phases + 1)
        post_send(r, (r->phase - 2) % workers + 1, TASK);
    return true;
}

static bool worker_next(struct rank *r)
{
    struct job *j = r->job;
    unsigned workers = j->row->ranks - 1;

    if (r->phase * workers + r->index - 1 >= j->row->phases)
        return false;
    switch (r->step++) {
    case 0:
        post_receive(r, 0, TASK);
        break;
    case 1:
        compute(r, j->row->compute_ns);
        break;
    default:
        post_send(r, 0, RESULT);
        r->step = 0;
        r->phase++;
    }
    return true;
}

static bool masterworker_next(struct rank *r)
{
    return r->index ? worker_next(r) : master_next(r);
}

static uint64_t masterworker_ideal_ns(struct job *j)
{
    unsigned workers = j->row->ranks - 1;
    uint64_t task_ns = j->row->compute_ns + 2 * (way_ns(j, 1) + hop_ns(j));

    return (j->row->phases + workers - 1) / workers * task_ns;
}

/* ---- Late: ten exchanges in which rank 0 comes late, then the row's phases without ---- */

#define LATE_PHASES 10
#define LATE_NS     (5 * MS_NS)

static bool late_next(struct rank *r)
{
    if (r->phase == LATE_PHASES + r->job->row->phases)
        return false;
    if ((r->step ^= 1) && !r->index && r->phase < LATE_PHASES)
        compute(r, LATE_NS);
    else if (!r->step)
        exchange(r);
    return true;
}

static uint64_t late_ideal_ns(struct job *j)
{
    return LATE_PHASES * LATE_NS + (LATE_PHASES + j->row->phases) * (way_ns(j, 2) + hop_ns(j));
}

/* ---- Away: all exchange, but the last rank only sends its large message to rank 0 and computes ---- */

#define AWAY_NS (100 * MS_NS)

static bool away_last(struct rank *r)
{
    post_send(r, 0, UINT64_C(1) << 40);
    fabric_pump(r->ep);
    r->ep->turn_ns = r->job->fabric.now_ns + AWAY_NS;
    return false; /* nobody waits for it */
}

/* Rank 0 has the receive open all the while. */
static bool away_next(struct rank *r)
{
    unsigned others = r->job->row->ranks - 1;
    uint64_t bits = r->phase;

    if (r->index == others)
        return away_last(r);
    if (!r->step++ && !r->index) {
        post_receive(r, others, UINT64_C(1) << 40);
        r->open = 0;
    }
    if (r->phase++ == r->job->row->phases)
        return false;
    post_receive(r, (r->index + others - 1) % others, bits);
    post_send(r, (r->index + 1) % others, bits);
    return true;
}

static uint64_t away_ideal_ns(struct job *j)
{
    return j->row->phases * (way_ns(j, 1) + hop_ns(j));
}

/* ---- Playing ---- */

static const struct row rows[] = {
    {"exchange 200 B", exchange_next, exchange_ideal_ns, 16, 200, 200, 20 * US_NS, 1.05},
    {"exchange 2 KiB", exchange_next, exchange_ideal_ns, 16, 200, 2048, 20 * US_NS, 1.1},
    {"exchange 32 KiB", exchange_next, exchange_ideal_ns, 16, 100, 32768, 100 * US_NS, 1.2},
    {"exchange 256 KiB", exchange_next, exchange_ideal_ns, 8, 50, 256 << 10, 500 * US_NS, 1.4},
    {"wavefront 200 B, 2 us", wavefront_next, wavefront_ideal_ns, 8, 500, 200, 2 * US_NS, 1.1},
    {"wavefront 8 B, 1 us", wavefront_next, wavefront_ideal_ns, 16, 500, 8, 1 * US_NS, 1.1},
    {"wavefront 4 KiB, 5 us", wavefront_next, wavefront_ideal_ns, 8, 500, 4096, 5 * US_NS, 1.1},
    {"all to all 64 B", alltoall_next, alltoall_ideal_ns, 16, 100, 64, 30 * US_NS, 1.2},
    {"all to all 1 KiB", alltoall_next, alltoall_ideal_ns, 16, 100, 1024, 50 * US_NS, 1.3},
    {"all to all 16 KiB", alltoall_next, alltoall_ideal_ns, 16, 30, 16384, 1 * MS_NS, 1.3},
    {"all to all 256 KiB", alltoall_next, alltoall_ideal_ns, 8, 10, 256 << 10, 2 * MS_NS, 2},
    {"master and workers 1000 B", masterworker_next, masterworker_ideal_ns, 8, 700, 1000, 20 * US_NS, 1.2},
    {"32 KiB, one rank late", late_next, late_ideal_ns, 4, 20, 32768, 0, 1.1},
    {"4 MiB beside one away", away_next, away_ideal_ns, 5, 20, 4 << 20, 0, 1.2},
};

static void job_init(struct job *j, const struct row *row, uint64_t seed)
{
    struct fabric_shape shape = {.endpoints = row->ranks,
                                 .per_node = 1,
                                 .rate_bps = RATE_BPS,
                                 .delay_ns = DELAY_NS,
                                 .card_bytes = QUEUE_BYTES,
                                 .port_bytes = QUEUE_BYTES,
                                 .frame_bytes = FRAME_BYTES};

    memset(j, 0, sizeof(*j));
    fabric_init(&j->fabric, &shape, seed);
    j->row = row;
    j->left = row->ranks;
    j->out = calloc(1, row->len_bytes);
    if (!j->out)
        abort();
    for (unsigned i = 0; i < row->ranks; i++) {
        j->rank[i] = (struct rank){.job = j, .ep = &j->fabric.endpoint[i], .index = i};
        j->rank[i].in = malloc(row->ranks * row->len_bytes);
        if (!j->rank[i].in)
            abort();
    }
}

static void job_fini(struct job *j)
{
    fabric_fini(&j->fabric);
    for (unsigned i = 0; i < j->row->ranks; i++)
        free(j->rank[i].in);
    free(j->out);
}

/* Each rank has exchanged a message with each other, so that connecting is not measured. */
static bool meet_next(struct rank *r)
{
    unsigned n = r->job->row->ranks;

    if (r->phase++)
        return false;
    for (unsigned i = 1; i < n; i++) {
        post_receive(r, (r->index + i) % n, UINT64_MAX);
        post_send(r, (r->index + i) % n, UINT64_MAX);
    }
    return true;
}

static void begin(struct job *j)
{
    j->left = j->row->ranks;
    for (unsigned i = 0; i < j->row->ranks; i++) {
        j->rank[i].phase = j->rank[i].step = j->rank[i].open = 0;
        proceed(&j->rank[i]);
        fabric_pump(j->rank[i].ep);
    }
}

static bool play(const struct row *row, uint64_t seed)
{
    static const struct row meet = {.next = meet_next, .len_bytes = 8};
    struct row first = meet;
    struct job j;
    uint64_t begin_ns, took_ns = 0, ideal_ns;
    bool ok;

    job_init(&j, row, seed);
    first.ranks = row->ranks;
    j.row = &first;
    begin(&j);
    ok = fabric_run(&j.fabric, &j.left, 10 * S_NS);
    fabric_rest(&j.fabric, 20 * MS_NS);
    j.row = row;
    begin_ns = j.fabric.now_ns;
    ideal_ns = row->ideal_ns(&j);
    if (ok) {
        begin(&j);
        ok = fabric_run(&j.fabric, &j.left, begin_ns + 100 * S_NS);
        took_ns = j.fabric.now_ns - begin_ns;
    }
    printf("%-26s %2u ranks: ideal %9.1f us, took %9.1f us, %.2f times (%.2f allowed)", row->name, row->ranks,
           (double)ideal_ns / US_NS, (double)took_ns / US_NS, (double)took_ns / (double)ideal_ns, row->most_times);
    if (!ok)
        printf("; FAILED: %s", j.fabric.failure);
    else if (!(ok = (double)took_ns <= row->most_times * (double)ideal_ns))
        printf("; FAILED: too long");
    printf("\n");
    job_fini(&j);
    return ok;
}

int main(void)
{
    unsigned failed = 0, count = sizeof(rows) / sizeof(*rows);

    for (unsigned i = 0; i < count; i++)
        failed += !play(&rows[i], i + 1);
    printf("%u passed, %u failed\n", count - failed, failed);
    return failed != 0;
}
