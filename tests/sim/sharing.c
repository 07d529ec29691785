/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sharing: streams that meet in one port of a switch, in virtual time. Prints what each gets of the link, and fails
 * where that is not its share. (tests/cluster/test-sharing does the same with real programs and a real TCP.)
 *
 * Streams of ethmx never end: so many messages are always under way. Those of large messages are paced by their
 * receivers (pace.h), those of small ones by their senders (cc.h). Each has a receiver of its own on the common node,
 * as of different jobs; an incast has one for all.
 *
 * The rival is a stream of TCP as most systems have it: CUBIC (RFC 9438), which knows of each loss a round trip later
 * and sends what was lost again. It never waits for its time-out. A mark (RFC 3168) it takes for a loss, as Linux'
 * does.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "fabric.h"

#define S_NS        1000000000ull
#define FRAME_BYTES 1500
#define CARD_BYTES  65536
#define STREAMS_MAX 8
#define PLAYS       3
#define UNDER_WAY   32 /* messages, at most */

enum kind { NONE, LARGE, SMALL, TCP };

static const char *const kind_name[] = {"", "large", "small", "tcp"};
static const size_t kind_bytes[] = {0, 256 << 10, 8192, 0};
static const unsigned kind_count[] = {0, 8, 32, 0};

struct row {
    enum kind kind[2]; /* the second NONE: so many of the first, to one receiver */
    unsigned streams;
    uint64_t rate_bps;
    uint64_t card_bps; /* of the hosts */
    size_t port_bytes;
    uint64_t delay_ns;
    unsigned lost_ppm;   /* by chance */
    double least_share;  /* of the other's, for each */
    double least_filled; /* part of the link that all fill together */
    size_t mark_bytes;   /* from this length on the port's queue marks frames: then none may be lost any more */
    uint64_t away_ns;    /* programs share processors: one that has been at work is away for up to so long */
};

#define M 1000000ull
#define K 1024

/* The second begins later. Of two streams each gets at least a third; two of ethmx alike differ less. */
static const struct row rows[] = {
    {{LARGE}, 1, 200 * M, 200 * M, 256 * K, 100000, 0, 0, 0.9, 0, 0},
    {{SMALL}, 1, 200 * M, 200 * M, 256 * K, 100000, 0, 0, 0.9, 0, 0},
    {{LARGE, LARGE}, 2, 200 * M, 200 * M, 128 * K, 100000, 0, 0.8, 0.9, 0, 0},
    {{SMALL, SMALL}, 2, 200 * M, 200 * M, 128 * K, 100000, 0, 0.8, 0.9, 0, 0},
    {{LARGE, SMALL}, 2, 200 * M, 200 * M, 128 * K, 100000, 0, 0.5, 0.9, 0, 0},
    {{LARGE, TCP}, 2, 200 * M, 200 * M, 128 * K, 100000, 0, 0.5, 0.9, 0, 0},
    {{SMALL, TCP}, 2, 200 * M, 200 * M, 128 * K, 100000, 0, 0.5, 0.9, 0, 0},
    {{LARGE}, 8, 200 * M, 200 * M, 128 * K, 100000, 0, 0.5, 0.9, 0, 0},
    {{SMALL}, 8, 200 * M, 200 * M, 128 * K, 100000, 0, 0.5, 0.9, 0, 0},
    {{LARGE, LARGE}, 2, 10000 * M, 10000 * M, 256 * K, 10000, 0, 0.8, 0.9, 0, 0},
    {{SMALL, SMALL}, 2, 10000 * M, 10000 * M, 256 * K, 10000, 0, 0.8, 0.9, 0, 0},
    {{LARGE, TCP}, 2, 10000 * M, 10000 * M, 256 * K, 10000, 0, 0.5, 0.9, 0, 0},
    {{SMALL, TCP}, 2, 10000 * M, 10000 * M, 256 * K, 10000, 0, 0.5, 0.9, 0, 0},
    {{SMALL, SMALL}, 2, 10000 * M, 10000 * M, 64 * K, 10000, 0, 0.8, 0.9, 0, 0},
    {{SMALL, TCP}, 2, 10000 * M, 10000 * M, 64 * K, 10000, 0, 0.5, 0.9, 0, 0},
    {{TCP, LARGE}, 2, 10000 * M, 10000 * M, 256 * K, 10000, 0, 0.5, 0.9, 0, 0},
    {{TCP, LARGE}, 2, 200 * M, 200 * M, 128 * K, 100000, 0, 0.5, 0.9, 0, 0},
    {{LARGE, LARGE}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.8, 0.9, 0, 0},
    {{SMALL, SMALL}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.8, 0.9, 0, 0},
    {{LARGE, SMALL}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{LARGE, TCP}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{SMALL, TCP}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{TCP, LARGE}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{TCP, SMALL}, 2, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{LARGE}, 8, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{SMALL}, 8, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.9, 0, 0},
    {{LARGE}, 8, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.85, 0, 5000000},
    {{SMALL}, 8, 100 * M, 10000 * M, 128 * K, 20000, 0, 0.5, 0.85, 0, 5000000},
    {{LARGE}, 1, 10000 * M, 10000 * M, 512 * K, 10000, 10000, 0, 0.6, 0, 0},
    {{LARGE}, 1, 10000 * M, 10000 * M, 512 * K, 50000, 10000, 0, 0.16, 0, 0},
    {{TCP}, 1, 10000 * M, 10000 * M, 512 * K, 50000, 10000, 0, 0.08, 0, 0}, /* for comparison */

    /* Far away. */
    {{LARGE}, 1, 10000 * M, 10000 * M, 4096 * K, 1000000, 0, 0, 0.1, 0, 0},
    {{LARGE, LARGE}, 2, 1000 * M, 10000 * M, 512 * K, 500000, 0, 0.8, 0.8, 0, 0},
    {{LARGE, TCP}, 2, 1000 * M, 10000 * M, 512 * K, 500000, 0, 0.4, 0.8, 0, 0},
    {{TCP, LARGE}, 2, 1000 * M, 10000 * M, 512 * K, 500000, 0, 0.4, 0.8, 0, 0},

    /* A switch that marks. */
    {{LARGE}, 1, 200 * M, 10000 * M, 256 * K, 100000, 0, 0, 0.9, 40 * K, 0},
    {{SMALL}, 1, 200 * M, 10000 * M, 256 * K, 100000, 0, 0, 0.9, 40 * K, 0},
    {{LARGE, LARGE}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.8, 0.9, 40 * K, 0},
    {{SMALL, SMALL}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.8, 0.9, 40 * K, 0},
    {{LARGE, SMALL}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.5, 0.9, 40 * K, 0},
    {{LARGE, TCP}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.5, 0.9, 40 * K, 0},
    {{SMALL, TCP}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.5, 0.9, 40 * K, 0},
    {{TCP, LARGE}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.5, 0.9, 40 * K, 0},
    {{TCP, SMALL}, 2, 200 * M, 10000 * M, 256 * K, 100000, 0, 0.5, 0.9, 40 * K, 0},
    {{LARGE}, 8, 200 * M, 10000 * M, 512 * K, 100000, 0, 0.5, 0.9, 100 * K, 0},
    {{SMALL}, 8, 200 * M, 10000 * M, 512 * K, 100000, 0, 0.5, 0.9, 100 * K, 0},
    {{LARGE}, 1, 10000 * M, 40000 * M, 512 * K, 10000, 0, 0, 0.9, 65 * K, 0},
    {{SMALL}, 1, 10000 * M, 40000 * M, 512 * K, 10000, 0, 0, 0.9, 65 * K, 0},
    {{LARGE, LARGE}, 2, 10000 * M, 40000 * M, 512 * K, 10000, 0, 0.8, 0.9, 65 * K, 0},
    {{SMALL, SMALL}, 2, 10000 * M, 40000 * M, 512 * K, 10000, 0, 0.8, 0.9, 65 * K, 0},
    {{LARGE, TCP}, 2, 10000 * M, 40000 * M, 512 * K, 10000, 0, 0.5, 0.9, 65 * K, 0},
    {{SMALL, TCP}, 2, 10000 * M, 40000 * M, 512 * K, 10000, 0, 0.5, 0.9, 65 * K, 0},
};

struct stream {
    struct scene *scene;
    enum kind kind;
    unsigned from, to; /* endpoints */
    uint64_t arrived_bytes;
    uint64_t before_bytes; /* when measuring began */
    uint8_t *in[UNDER_WAY];
    bool pumping;
    /* TCP */
    double cwnd, threshold, most, since_s;
    uint64_t sent, known; /* frames */
    uint64_t recover;     /* the first frame after those whose loss is one event */
    uint64_t slowed;      /* the same for marks */
    bool recovers;
    unsigned again;              /* frames to send again */
    unsigned holes, holes_later; /* lost and not yet there again: of before and after recover */
    unsigned silent;             /* arrived and not acknowledged */
    uint64_t flying;
};

struct scene {
    struct fabric fabric;
    const struct row *row;
    struct stream stream[STREAMS_MAX];
    uint8_t *content;
};

struct slot {
    struct stream *stream;
    unsigned i;
};

static struct slot slots[STREAMS_MAX][UNDER_WAY];

/* ---- Streams of ethmx ---- */

static void sent(void *arg, const struct ethmx_result *result);

static void fail(struct scene *s, const char *what)
{
    if (!s->fabric.failure[0])
        snprintf(s->fabric.failure, sizeof(s->fabric.failure), "%s", what);
}

static void send_one(struct stream *st)
{
    struct scene *s = st->scene;
    struct emx_op_args a = {.bits = st->from,
                            .data = {.len_bytes = kind_bytes[st->kind], .base = s->content},
                            .mode = ETHMX_SEND_SYNC,
                            .done = sent,
                            .arg = st};

    if (emx_progress_send(&s->fabric.endpoint[st->from].progress, fabric_peer(&s->fabric, st->from, st->to), &a) !=
        ETHMX_INPROGRESS)
        fail(s, "a send was refused, or ended at once");
}

static void sent(void *arg, const struct ethmx_result *result)
{
    struct stream *st = arg;

    if (result->status != ETHMX_OK)
        fail(st->scene, "a send failed");
    send_one(st);
}

static void receive_one(struct slot *slot);

static void received(void *arg, const struct ethmx_result *result)
{
    struct slot *slot = arg;

    if (result->status != ETHMX_OK || result->len_bytes != kind_bytes[slot->stream->kind])
        fail(slot->stream->scene, "a receive failed");
    slot->stream->arrived_bytes += result->len_bytes;
    receive_one(slot);
}

static void receive_one(struct slot *slot)
{
    struct stream *st = slot->stream;
    struct fabric *f = &st->scene->fabric;
    struct emx_op_args a = {.bits = st->from,
                            .mask = UINT64_MAX,
                            .data = {.len_bytes = kind_bytes[st->kind], .base = st->in[slot->i]},
                            .done = received,
                            .arg = slot};
    struct ethmx_result result;
    struct emx_op *op;
    int rc = emx_progress_recv(&f->endpoint[st->to].progress, fabric_peer(f, st->to, st->from), &a, &op, &result);

    if (rc == ETHMX_OK)
        received(slot, &result);
    else if (rc != ETHMX_INPROGRESS)
        fail(st->scene, "a receive was refused");
}

static void begin(struct stream *st, unsigned index)
{
    struct fabric *f = &st->scene->fabric;

    for (unsigned i = 0; i < kind_count[st->kind]; i++) {
        st->in[i] = malloc(kind_bytes[st->kind]);
        if (!st->in[i])
            abort();
        slots[index][i] = (struct slot){st, i};
        receive_one(&slots[index][i]);
        send_one(st);
    }
    fabric_pump(&f->endpoint[st->to]);
    fabric_pump(&f->endpoint[st->from]);
}

/* ---- The rival ---- */

static void tcp_send(struct stream *st);

static double now_s(const struct stream *st)
{
    return (double)st->scene->fabric.now_ns * 1e-9;
}

#define CUBIC_C    0.4
#define CUBIC_BETA 0.7

static void tcp_acked(struct stream *st)
{
    double k, target, rtt;

    if (st->recovers)
        return;
    if (st->cwnd < st->threshold) {
        st->cwnd += 1;
        return;
    }
    k = cbrt(st->most * (1 - CUBIC_BETA) / CUBIC_C);
    rtt = st->cwnd * (FRAME_BYTES + 38) * 8 / (double)st->scene->row->rate_bps;
    target = st->most + CUBIC_C * pow(now_s(st) - st->since_s + rtt - k, 3);
    if (target > st->cwnd * 1.5)
        target = st->cwnd * 1.5;
    /* As Reno would, where that is more. */
    st->cwnd += target > st->cwnd && (target - st->cwnd) > 0.53 ? (target - st->cwnd) / st->cwnd : 0.53 / st->cwnd;
}

/* For a loss or a mark. */
static void tcp_fall(struct stream *st)
{
    st->most = st->cwnd < st->most ? st->cwnd * (1 + CUBIC_BETA) / 2 : st->cwnd;
    st->cwnd = st->cwnd * CUBIC_BETA > 2 ? st->cwnd * CUBIC_BETA : 2;
    st->threshold = st->cwnd;
    st->since_s = now_s(st);
    st->slowed = st->sent;
}

static void tcp_recover(struct stream *st)
{
    st->recovers = true;
    st->recover = st->sent;
    st->holes += st->holes_later;
    st->holes_later = 0;
    tcp_fall(st);
}

struct tcp_frame {
    struct stream *stream;
    uint64_t number;
    bool lost, marked, again;
};

/* What was sent before the recovery began and got lost is a hole; it ends when all are filled. What was lost of the
 * rest begins the next. */
static void tcp_lost(struct stream *st, const struct tcp_frame *frame)
{
    st->again++;
    if (frame->again)
        return;
    if (st->recovers && frame->number < st->recover)
        st->holes++;
    else
        st->holes_later++;
    if (!st->recovers)
        tcp_recover(st);
}

static void tcp_there(struct stream *st, const struct tcp_frame *frame)
{
    if (frame->again && st->holes)
        st->holes--;
    else if (frame->again)
        st->holes_later--;
    else
        st->known = frame->number;
    if (st->recovers && !st->holes && st->known >= st->recover) {
        st->recovers = false;
        if (st->holes_later)
            tcp_recover(st);
    }
    if (frame->marked && !frame->again && !st->recovers && frame->number >= st->slowed)
        tcp_fall(st);
    tcp_acked(st);
}

/* A frame has arrived, or the one after a lost one. Every second is acknowledged, and all while some are missing. */
static void tcp_answered(void *arg, uint64_t unused)
{
    struct tcp_frame *frame = arg;
    struct stream *st = frame->stream;

    (void)unused;
    if (frame->lost)
        tcp_lost(st, frame);
    else
        tcp_there(st, frame);
    free(frame);
    st->silent++;
    if (st->silent < 2 && !st->recovers)
        return;
    st->flying -= st->silent;
    st->silent = 0;
    tcp_send(st);
}

static void tcp_passed(void *arg, enum fabric_fate fate, uint64_t arrives_ns)
{
    struct tcp_frame *frame = arg;
    struct stream *st = frame->stream;
    struct fabric *f = &st->scene->fabric;

    frame->lost = fate == FABRIC_LOST;
    frame->marked = fate == FABRIC_MARKED;
    if (!frame->lost)
        st->arrived_bytes += FRAME_BYTES - 52;
    sim_queue_put(&f->queue, arrives_ns + f->delay_ns, tcp_answered, frame, 0);
}

static void tcp_send(struct stream *st)
{
    struct fabric *f = &st->scene->fabric;

    while (st->flying < (uint64_t)st->cwnd) {
        struct tcp_frame *frame = malloc(sizeof(*frame));

        if (!frame)
            abort();
        *frame = (struct tcp_frame){.stream = st, .again = st->again > 0};
        if (frame->again)
            st->again--;
        else
            frame->number = st->sent++;
        st->flying++;
        fabric_foreign(f, st->from, st->to, FRAME_BYTES, tcp_passed, frame);
    }
}

static void tcp_begin(struct stream *st)
{
    st->cwnd = 10;
    st->threshold = 1e9;
    tcp_send(st);
}

/* ---- A scene ---- */

static void scene_init(struct scene *s, const struct row *row, uint64_t seed)
{
    struct fabric_shape shape = {.endpoints = 2 * (STREAMS_MAX + 1),
                                 .per_node = 2,
                                 .rate_bps = row->rate_bps,
                                 .card_bps = row->card_bps,
                                 .delay_ns = row->delay_ns,
                                 .card_bytes = CARD_BYTES,
                                 .port_bytes = row->port_bytes,
                                 .mark_bytes = row->mark_bytes,
                                 .frame_bytes = FRAME_BYTES};
    uint64_t frame_ns = FRAME_BYTES * 8 * S_NS / row->rate_bps;

    memset(s, 0, sizeof(*s));
    s->row = row;
    fabric_init(&s->fabric, &shape, seed);
    s->fabric.lost_ppm = row->lost_ppm;
    s->fabric.away_ns = row->away_ns;
    /* Hosts are not as regular as to hit a full queue always, or never, in the moment after a frame has left it (Floyd
     * and Jacobson, "Traffic phase effects in packet-switched gateways", 1992). */
    s->fabric.jitter_ns = row->delay_ns > frame_ns ? row->delay_ns : frame_ns;
    s->content = calloc(1, kind_bytes[LARGE]);
    if (!s->content)
        abort();
    for (unsigned i = 0; i < row->streams; i++)
        s->stream[i] = (struct stream){.scene = s,
                                       .kind = row->kind[1] ? row->kind[i] : row->kind[0],
                                       .from = 2 * (i + 1),
                                       .to = row->kind[1] ? i : 0};
}

static void scene_fini(struct scene *s)
{
    fabric_fini(&s->fabric);
    for (unsigned i = 0; i < s->row->streams; i++)
        for (unsigned k = 0; k < UNDER_WAY; k++)
            free(s->stream[i].in[k]);
    free(s->content);
}

static double mbit(const struct stream *st, double seconds)
{
    return (double)(st->arrived_bytes - st->before_bytes) * 8e-6 / seconds;
}

/* What one play comes to, or several together. */
struct outcome {
    double mbit[STREAMS_MAX]; /* sums over the plays */
    uint64_t frames, lost, lost_at_last, marked;
    char failure[sizeof(((struct fabric *)NULL)->failure)];
};

/* Some hundred times what the queue takes to fill, or a tenth of a second. */
static double seconds_of(const struct row *row)
{
    double seconds = 2e9 / (double)row->rate_bps;

    return seconds < 1 ? 1 : seconds;
}

static void play_once(const struct row *row, uint64_t seed, struct outcome *o)
{
    double seconds = seconds_of(row);
    uint64_t lost_before;
    struct scene s;

    scene_init(&s, row, seed);
    for (unsigned i = 0; i < row->streams; i++) {
        if (s.stream[i].kind == TCP)
            tcp_begin(&s.stream[i]);
        else
            begin(&s.stream[i], i);
        fabric_rest(&s.fabric, (uint64_t)(seconds * 1e8)); /* they do not begin together */
    }
    fabric_rest(&s.fabric, (uint64_t)(seconds * 3e8));
    for (unsigned i = 0; i < row->streams; i++)
        s.stream[i].before_bytes = s.stream[i].arrived_bytes;
    lost_before = fabric_lost(&s.fabric);
    fabric_rest(&s.fabric, (uint64_t)(seconds * 1e9));
    for (unsigned i = 0; i < row->streams; i++)
        o->mbit[i] += mbit(&s.stream[i], seconds);
    o->frames += s.fabric.frames;
    o->lost += fabric_lost(&s.fabric);
    o->lost_at_last += fabric_lost(&s.fabric) - lost_before;
    o->marked += fabric_marked(&s.fabric);
    if (!o->failure[0])
        memcpy(o->failure, s.fabric.failure, sizeof(o->failure));
    scene_fini(&s);
}

/* Which of two streams that are alike gets more in one play is chance: they are alike in the mean of several. */
static unsigned plays_of(const struct row *row)
{
    return row->streams == 2 && row->kind[0] == row->kind[1] ? PLAYS : 1;
}

static void tell(const struct row *row, const struct outcome *o, unsigned plays, const char *wrong)
{
    printf("%6.0f Mbit/s, %4zu KiB, %4.0f us, %.1f%%:", (double)row->rate_bps * 1e-6, row->port_bytes / K,
           (double)row->delay_ns * 1e-3, row->lost_ppm * 1e-4);
    for (unsigned i = 0; i < row->streams; i++)
        printf(" %s %.0f", kind_name[row->kind[1] ? row->kind[i] : row->kind[0]], o->mbit[i] / plays);
    printf("; lost %.2f%%", 100.0 * (double)o->lost / (double)o->frames);
    if (row->away_ns)
        printf("  (away for up to %.0f ms)", (double)row->away_ns * 1e-6);
    if (row->mark_bytes)
        printf(", marked %.2f%%", 100.0 * (double)o->marked / (double)o->frames);
    printf(" %s\n", wrong);
}

static bool play(const struct row *row)
{
    double least = 1e12, most = 0, sum = 0;
    unsigned plays = plays_of(row);
    struct outcome o = {0};
    const char *wrong;

    for (unsigned seed = 1; seed <= plays; seed++)
        play_once(row, seed, &o);
    for (unsigned i = 0; i < row->streams; i++) {
        least = o.mbit[i] < least ? o.mbit[i] : least;
        most = o.mbit[i] > most ? o.mbit[i] : most;
        sum += o.mbit[i] / plays;
    }
    wrong = o.failure[0]                                             ? o.failure
            : least < row->least_share * most                        ? "  UNFAIR"
            : sum < row->least_filled * 1e-6 * (double)row->rate_bps ? "  NOT FULL"
            : row->mark_bytes && o.lost_at_last                      ? "  LOST"
                                                                     : "";
    tell(row, &o, plays, wrong);
    return !*wrong;
}

int main(void)
{
    bool ok = true;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ok &= play(&rows[i]);
    return !ok;
}
