/* SPDX-License-Identifier: BSD-3-Clause
 *
 * scale: jobs of hundreds or thousands of endpoints around one switch, in virtual time.
 *
 *     scale          short jobs, with bars for time, losses and memory
 *     scale --long   the large ones: minutes, and up to 8 GB of memory; with a number, one of them
 *
 * Prints a table. Each endpoint knows all others from the start, as MPI's ranks do. A pattern is played twice: the
 * first time peers have to connect.
 *
 * The ideal time is what the frames with the messages' data alone take on the busiest link; programs and hosts are
 * infinitely fast.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/hash.h"
#include "fabric.h"

#define S_NS              1000000000ull
#define RATE_BPS          10000000000ull
#define DELAY_NS          2000
#define REST_NS           20000000 /* between the plays: acknowledgements and the like are over */
#define CARD_BYTES        65536
#define FRAME_BYTES       1500
#define SHORT_BYTES       8 /* messages of this length carry their sender */
#define MOST_PLACES_BYTES (4ull << 30)

enum pattern {
    LINEAR,   /* all to all, everything at once */
    PAIRWISE, /* all to all, one partner after the other */
    BRUCK,    /* all to all in log2 N rounds of N/2 messages in one (Bruck et al., IEEE TPDS 1997) */
    RANDOM,   /* each to so many others, everything at once */
    INCAST,   /* the first so many others to endpoint 0 */
};

static const char *const pattern_name[] = {"all-to-all, at once", "all-to-all, pairwise", "all-to-all, Bruck",
                                           "to random peers, at once", "incast"};

struct row {
    enum pattern pattern;
    unsigned endpoints, per_node, partners; /* partners: RANDOM, INCAST */
    size_t len_bytes;
    size_t port_bytes;   /* queue of each port of the switch */
    double most_times;   /* the second play may take so many times the ideal; 0: any */
    double most_percent; /* of the frames may be lost in both plays */
    double connect_ms;   /* the first play may take so much longer than the second; 0: any */
};

static const struct row short_rows[] = {
    {LINEAR, 192, 1, 0, 8, 512 << 10, 2, 1, 0},
    {LINEAR, 128, 8, 0, 8, 512 << 10, 2, 1, 0},
    {LINEAR, 128, 16, 0, 8, 512 << 10, 3, 1, 0},
    {LINEAR, 128, 16, 0, 1024, 512 << 10, 3, 1, 0},
    {LINEAR, 128, 16, 0, 65536, 512 << 10, 3, 1, 0},
    {LINEAR, 256, 16, 0, 1024, 512 << 10, 3, 1, 0},
    {PAIRWISE, 192, 1, 0, 8, 512 << 10, 0, 0, 0},
    {BRUCK, 256, 1, 0, 8, 512 << 10, 6, 0, 0},
    {RANDOM, 256, 1, 32, 8, 512 << 10, 2, 1, 0},
    {INCAST, 65, 1, 64, 1 << 20, 512 << 10, 1.05, 0.1, 1},
    {INCAST, 65, 1, 64, 1 << 20, 128 << 10, 1.05, 0.5, 1},
    /* The hellos alone overflow the queue: what is lost twice comes after time-outs of 20 and 40 ms. */
    {INCAST, 513, 1, 512, 65536, 128 << 10, 1.15, 5, 65},
};

static const struct row long_rows[] = {
    {BRUCK, 4096, 1, 0, 8, 512 << 10, 0, 0, 0},
    {RANDOM, 4096, 1, 256, 8, 512 << 10, 0, 5, 0},
    {LINEAR, 1024, 1, 0, 8, 512 << 10, 0, 5, 0},
    {LINEAR, 1024, 16, 0, 8, 512 << 10, 3, 5, 0},
    {LINEAR, 1024, 16, 0, 1024, 512 << 10, 3, 5, 0},
    {LINEAR, 1024, 16, 0, 65536, 512 << 10, 3, 5, 0},
    {PAIRWISE, 1024, 1, 0, 8, 512 << 10, 0, 5, 0},
    {INCAST, 4096, 1, 512, 1 << 20, 1 << 20, 1.05, 0.5, 10},
    {INCAST, 4096, 1, 512, 1 << 20, 512 << 10, 1.05, 0.5, 10},
    {INCAST, 4096, 1, 512, 1 << 20, 128 << 10, 1.05, 0.5, 10},
};

/* ---- The program of an endpoint ---- */

struct job;

struct rank {
    struct job *job;
    struct fabric_endpoint *ep;
    unsigned step; /* the next to begin */
    unsigned open; /* operations of the steps begun */
    uint64_t number;
};

struct job {
    struct fabric fabric;
    const struct row *row;
    struct rank *rank;
    unsigned steps, at_once;
    unsigned *distance; /* by step: to whom; RANDOM */
    uint64_t left;      /* operations of all ranks */
    size_t len_bytes;
    uint8_t *content;
    /* Where messages are received: a place for each rank and each of its receives at once. Where that would not fit
     * into memory, receives of a rank share places: these messages are all alike. */
    uint8_t *places;
    size_t rank_places;
};

struct receive {
    struct rank *rank;
    unsigned from;
    uint8_t *data; /* a place of job.places */
};

static void proceed(struct rank *r);

static unsigned distance(const struct job *j, unsigned step)
{
    switch (j->row->pattern) {
    case BRUCK:
        return 1u << step;
    case RANDOM:
        return j->distance[step];
    default:
        return step + 1;
    }
}

static void fail(struct job *j, const char *what, const struct rank *r, int status)
{
    if (!j->fabric.failure[0])
        snprintf(j->fabric.failure, sizeof(j->fabric.failure), "endpoint %u: %s (%d)", r->ep->index, what, status);
}

static void over(struct rank *r)
{
    r->open--;
    r->job->left--;
    if (!r->open)
        proceed(r);
}

static void sent(void *arg, const struct ethmx_result *result)
{
    struct rank *r = arg;

    if (result->status != ETHMX_OK)
        fail(r->job, "a send failed", r, result->status);
    over(r);
}

static void received(void *arg, const struct ethmx_result *result)
{
    struct receive *in = arg;
    struct rank *r = in->rank;
    struct job *j = r->job;
    const void *want = j->len_bytes == SHORT_BYTES ? (const void *)&j->rank[in->from].number : j->content;

    if (result->status != ETHMX_OK || result->len_bytes != j->len_bytes)
        fail(j, "a receive failed", r, result->status);
    else if (memcmp(in->data, want, j->len_bytes))
        fail(j, "a message has other content than was sent", r, 0);
    free(in);
    over(r);
}

static void post_send(struct rank *r, unsigned to, uint64_t bits)
{
    struct job *j = r->job;
    const void *data = j->len_bytes == SHORT_BYTES ? (const void *)&r->number : j->content;
    struct emx_op_args a = {.bits = bits,
                            .data = {.len_bytes = j->len_bytes, .base = (void *)data},
                            .mode = ETHMX_SEND_STANDARD,
                            .done = sent,
                            .arg = r};
    int rc = emx_progress_send(&r->ep->progress, fabric_peer(&j->fabric, r->ep->index, to), &a);

    if (rc == ETHMX_OK) {
        r->open--;
        j->left--;
    } else if (rc != ETHMX_INPROGRESS) {
        fail(j, "a send was refused", r, rc);
    }
}

static void post_receive(struct rank *r, unsigned from, uint64_t bits, unsigned place)
{
    struct job *j = r->job;
    struct receive *in = malloc(sizeof(*in));
    struct emx_op_args a = {
        .bits = bits, .mask = UINT64_MAX, .data = {.len_bytes = j->len_bytes}, .done = received, .arg = in};
    struct ethmx_result result;
    struct emx_op *op;
    int rc;

    if (!in)
        abort();
    in->rank = r;
    in->from = from;
    in->data = j->places + j->len_bytes * (r->ep->index * j->rank_places + place % j->rank_places);
    a.data.base = in->data;
    rc = emx_progress_recv(&r->ep->progress, fabric_peer(&j->fabric, r->ep->index, from), &a, &op, &result);
    if (rc == ETHMX_OK)
        received(in, &result);
    else if (rc != ETHMX_INPROGRESS)
        fail(j, "a receive was refused", r, rc);
}

static unsigned operations(const struct job *j, unsigned index)
{
    if (j->row->pattern == INCAST)
        return index == 0 ? j->row->partners : index <= j->row->partners;
    return 2 * j->steps;
}

/* All of an incast, or a step of another pattern. */
static void begin_step(struct rank *r)
{
    struct job *j = r->job;
    unsigned n = j->row->endpoints, me = r->ep->index, step = r->step++;

    if (j->row->pattern != INCAST) {
        r->open += 2;
        post_receive(r, (me + n - distance(j, step)) % n, step, step % j->at_once);
        post_send(r, (me + distance(j, step)) % n, step);
        return;
    }
    r->open += operations(j, me);
    for (unsigned i = 1; !me && i <= j->row->partners; i++)
        post_receive(r, i, 0, i - 1);
    if (me && me <= j->row->partners)
        post_send(r, 0, 0);
}

/* Goes on when the steps before are over. */
static void proceed(struct rank *r)
{
    while (!r->open && r->step < r->job->steps) {
        r->open++; /* holds this function off until all is posted */
        for (unsigned i = 0; i < r->job->at_once && r->step < r->job->steps; i++)
            begin_step(r);
        r->open--;
    }
}

/* ---- A play ---- */

static void draw_distances(struct job *j)
{
    struct emx_rng rng = {.state = 1};
    unsigned n = j->row->endpoints, *all = malloc(n * sizeof(*all));

    if (!all)
        abort();
    for (unsigned i = 0; i < n; i++)
        all[i] = i;
    for (unsigned i = 1; i <= j->row->partners; i++) {
        unsigned k = i + (unsigned)emx_rng_below(&rng, n - i), t = all[i];

        all[i] = all[k];
        all[k] = t;
    }
    j->distance = all;
    memmove(all, all + 1, j->row->partners * sizeof(*all));
}

static void job_make_places(struct job *j)
{
    unsigned ranks = j->row->pattern == INCAST ? 1 : j->row->endpoints;
    uint64_t most = MOST_PLACES_BYTES / (ranks * j->len_bytes);

    j->rank_places = j->row->pattern == INCAST ? j->row->partners : j->at_once;
    if (j->len_bytes != SHORT_BYTES && j->rank_places > most)
        j->rank_places = most;
    j->places = malloc(ranks * j->rank_places * j->len_bytes);
    if (!j->places)
        abort();
}

static void job_init(struct job *j, const struct row *row)
{
    struct fabric_shape shape = {.endpoints = row->endpoints,
                                 .per_node = row->per_node,
                                 .rate_bps = RATE_BPS,
                                 .delay_ns = DELAY_NS,
                                 .card_bytes = CARD_BYTES,
                                 .port_bytes = row->port_bytes,
                                 .frame_bytes = FRAME_BYTES};

    memset(j, 0, sizeof(*j));
    fabric_init(&j->fabric, &shape, 1);
    j->row = row;
    j->len_bytes = row->pattern == BRUCK ? row->endpoints / 2 * row->len_bytes : row->len_bytes;
    j->content = malloc(j->len_bytes);
    j->rank = calloc(row->endpoints, sizeof(*j->rank));
    if (!j->content || !j->rank)
        abort();
    for (size_t i = 0; i < j->len_bytes; i++)
        j->content[i] = (uint8_t)emx_mix64(i);
    switch (row->pattern) {
    case BRUCK:
        while (1u << j->steps < row->endpoints)
            j->steps++;
        break;
    case RANDOM:
        j->steps = row->partners;
        draw_distances(j);
        break;
    case INCAST:
        j->steps = 1;
        break;
    default:
        j->steps = row->endpoints - 1;
    }
    j->at_once = row->pattern == PAIRWISE || row->pattern == BRUCK ? 1 : j->steps;
    for (unsigned i = 0; i < row->endpoints; i++)
        j->rank[i] = (struct rank){.job = j, .ep = &j->fabric.endpoint[i], .number = i};
    job_make_places(j);
}

static void job_fini(struct job *j)
{
    fabric_fini(&j->fabric);
    free(j->places);
    free(j->rank);
    free(j->content);
    free(j->distance);
}

/* Returns how long it took in virtual time. */
static uint64_t play(struct job *j)
{
    uint64_t begin_ns = j->fabric.now_ns;

    j->left = 0;
    for (unsigned i = 0; i < j->row->endpoints; i++) {
        j->rank[i].step = 0;
        j->left += operations(j, i);
    }
    for (unsigned i = 0; i < j->row->endpoints; i++) {
        proceed(&j->rank[i]);
        fabric_pump(j->rank[i].ep);
    }
    fabric_run(&j->fabric, &j->left, begin_ns + 100 * S_NS);
    return j->fabric.now_ns - begin_ns;
}

/* On the busiest link, frames with data alone. */
static uint64_t ideal_ns(const struct job *j)
{
    uint64_t message = fabric_message_bytes(j->len_bytes, FRAME_BYTES), others = j->row->endpoints - j->row->per_node;

    switch (j->row->pattern) {
    case INCAST:
        others = j->row->partners;
        break;
    case LINEAR:
    case PAIRWISE:
        others *= j->row->per_node;
        break;
    default:
        others = j->steps;
    }
    return message * others * 8 * S_NS / RATE_BPS + DELAY_NS;
}

/* ---- The report ---- */

struct totals {
    uint64_t sent, resent, in_vain;
    size_t memory, most_memory;
    uint64_t connected;
};

static struct totals add_up(const struct job *j)
{
    struct totals t = {0};

    for (unsigned i = 0; i < j->row->endpoints; i++) {
        const struct fabric_endpoint *ep = &j->fabric.endpoint[i];
        size_t memory = emx_engine_memory(ep->engine);

        t.sent += ep->stats.frames_sent;
        t.resent += ep->stats.frames_resent + ep->stats.pulls_resent;
        t.in_vain += ep->stats.drop_duplicate + ep->stats.drop_stale;
        t.connected += ep->stats.peers_connected;
        t.memory += memory;
        if (memory > t.most_memory)
            t.most_memory = memory;
    }
    return t;
}

static void head(void)
{
    printf("Links of %.0f Gbit/s, %.1f us, MTU %d. Frames: in both plays; resent:\n"
           "frames and pulls; in vain: came twice or too late. Memory: of the engines at the end; bytes of a\n"
           "connected peer with a share of all that the engine has allocated since.\n\n",
           RATE_BPS / 1e9, DELAY_NS / 1e3, FRAME_BYTES);
    printf("| pattern | endpoints | a node | message | partners | switch queue | ideal ms | first ms | again ms | "
           "frames | "
           "lost | resent | in vain | KB an endpoint | most KB | B a silent peer | B a connected peer | host s |\n");
    printf("| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | "
           "--: |\n");
}

static bool bars_hold(struct job *j, uint64_t first_ns, uint64_t again_ns, const struct totals *t, double silent,
                      double connected)
{
    double times = (double)again_ns / (double)ideal_ns(j);
    double percent = 100.0 * (double)fabric_lost(&j->fabric) / (double)t->sent;
    const char *wrong = j->fabric.failure;

    for (unsigned i = 0; i < j->row->endpoints && !*wrong; i += 1 + j->row->endpoints / 64)
        if (emx_engine_check(j->fabric.endpoint[i].engine))
            wrong = emx_engine_check(j->fabric.endpoint[i].engine);
    if (!*wrong && j->row->most_times > 0 && times > j->row->most_times)
        wrong = "it took too long";
    if (!*wrong && j->row->connect_ms > 0 && (double)first_ns > (double)again_ns + j->row->connect_ms * 1e6)
        wrong = "connecting took too long";
    if (!*wrong && percent > j->row->most_percent)
        wrong = "too many frames were lost";
    if (!*wrong && t->resent && !fabric_lost(&j->fabric))
        wrong = "frames were sent again though none was lost";
    if (!*wrong && silent >= 128)
        wrong = "a silent peer costs 128 bytes or more";
    if (!*wrong && t->connected >= 100ull * j->row->endpoints && connected >= 4096)
        wrong = "a connected peer costs 4096 bytes or more";
    if (*wrong)
        printf("FAILED: %s\n", wrong);
    return !*wrong;
}

static bool play_row(const struct row *row)
{
    struct job j;
    struct totals known, t;
    clock_t begin = clock();
    uint64_t first_ns, again_ns;
    double silent, connected;
    size_t alone;
    bool ok;

    job_init(&j, row);
    alone = add_up(&j).memory;
    for (unsigned i = 0; i < row->endpoints; i++)
        for (unsigned k = 0; k < row->endpoints; k++)
            if (k != i)
                fabric_peer(&j.fabric, i, k);
    known = add_up(&j);
    silent = (double)(known.memory - alone) / row->endpoints / (row->endpoints - 1);
    first_ns = play(&j);
    fabric_rest(&j.fabric, REST_NS);
    again_ns = play(&j);
    t = add_up(&j);
    connected = t.connected ? (double)(t.memory - known.memory) / (double)t.connected : 0;
    printf("| %s | %u | %u | %zu | %u | %zu KiB | %.3f | %.3f | %.3f | %" PRIu64 " | %" PRIu64 " | %" PRIu64
           " | %" PRIu64 " | %.0f | %.0f | %.0f | %.0f | %.0f |\n",
           pattern_name[row->pattern], row->endpoints, row->per_node, j.len_bytes,
           row->pattern == INCAST ? row->partners : j.steps, row->port_bytes >> 10, (double)ideal_ns(&j) / 1e6,
           (double)first_ns / 1e6, (double)again_ns / 1e6, t.sent, fabric_lost(&j.fabric), t.resent, t.in_vain,
           (double)t.memory / row->endpoints / 1024, (double)t.most_memory / 1024, silent, connected,
           (double)(clock() - begin) / CLOCKS_PER_SEC);
    fflush(stdout);
    ok = bars_hold(&j, first_ns, again_ns, &t, silent, connected);
    job_fini(&j);
    malloc_trim(0);
    return ok;
}

int main(int argc, char **argv)
{
    bool is_long = argc > 1 && !strcmp(argv[1], "--long");
    const struct row *row = is_long ? long_rows : short_rows;
    unsigned rows = is_long ? sizeof(long_rows) / sizeof(*row) : sizeof(short_rows) / sizeof(*row), passed = 0;
    unsigned one = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;

    if ((argc > 1 && !is_long) || argc > 3 || one > rows || (argc > 2 && !one)) {
        fprintf(stderr, "usage: scale [--long [ROW]]; ROW: 1 to %zu\n", sizeof(long_rows) / sizeof(*row));
        return 2;
    }
    if (one) {
        row += one - 1;
        rows = 1;
    }
    head();
    for (unsigned i = 0; i < rows; i++)
        passed += play_row(&row[i]);
    printf("\n%u passed, %u failed\n", passed, rows - passed);
    return passed < rows;
}
