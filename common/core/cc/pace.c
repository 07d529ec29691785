/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pace: see pace.h.
 */
#include "core/cc/pace.h"

#define STEP_BYTES  2048 /* smallest step */
#define FIRST_PART  4    /* of the maximum */
#define FLOOR_BYTES 8192 /* minimum of the limit */
#define LONG_GROWTH 70   /* hundredths of a chunk per window, with a long queue */
#define CUT         3    /* tenths of the limit that a loss in a queue, or a mark, takes */

/* From one sender that is far away. */
#define FAR_WINDOWS 4 /* times the usual maximum */
#define FAR_GROWTH  4 /* part of the limit, for each window above the usual maximum */

/* The limit is requested in this many parts. */
#define PARTS       2
#define LONG_PARTS  8
#define SPARE_PARTS 4

#define SMOOTH      8 /* weight of a new value in a smoothed time is 1 / SMOOTH */
#define ANSWERS     8 /* responses that decide whether there is a queue */
#define WAYS_DIFFER 4 /* a sender's base time is at most this many times the smallest */

static uint64_t pace_smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t pace_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

void emx_pace_init(struct emx_pace *p, uint64_t most_bytes)
{
    uint64_t least_bytes = pace_smaller(most_bytes, EMX_PACE_LEAST);
    uint64_t first_bytes = most_bytes / FIRST_PART;

    *p = (struct emx_pace){.limit_bytes = first_bytes > least_bytes ? first_bytes : least_bytes,
                           .most_bytes = most_bytes,
                           .least_bytes = least_bytes,
                           .step_bytes = first_bytes};
}

/* Whether others may need their share of the link. */
static bool pace_is_shared(const struct emx_pace *p)
{
    return p->queue || p->shared_bytes;
}

/* Whether even responses that are not queued take long. */
static bool pace_is_long_path(const struct emx_pace *p)
{
    return p->judged && p->way_ns > EMX_PACE_WAY_NS;
}

/* The most that the limit may become. */
static uint64_t pace_most(const struct emx_pace *p)
{
    bool far = p->one_sender && pace_is_long_path(p) && !pace_is_shared(p);

    return far ? FAR_WINDOWS * p->most_bytes : p->most_bytes;
}

static void pace_rise(struct emx_pace *p, uint64_t bytes)
{
    uint64_t most_bytes = p->limit_bytes < p->most_bytes ? p->most_bytes : pace_most(p);

    if (p->limit_bytes < most_bytes)
        p->limit_bytes += pace_smaller(bytes, most_bytes - p->limit_bytes);
}

/* Whether the queue is so long that a TCP flow would be affected. */
static bool pace_queue_is_long(const struct emx_pace *p)
{
    return pace_is_shared(p) && p->rtt_ns > EMX_PACE_LONG_NS;
}

/* The least limit after a loss in a queue. */
static uint64_t pace_queue_least(const struct emx_pace *p)
{
    uint64_t way_bytes;

    if (!p->judged)
        return p->least_bytes;
    way_bytes = p->limit_bytes * EMX_PACE_WAY_NS / p->rtt_ns;
    return pace_smaller(p->least_bytes, pace_larger(way_bytes, FLOOR_BYTES));
}

static void pace_fall(struct emx_pace *p, uint64_t bytes, uint64_t least_bytes)
{
    if (p->limit_bytes > least_bytes)
        p->limit_bytes -= pace_smaller(bytes, p->limit_bytes - least_bytes);
}

void emx_pace_answered(struct emx_pace *p, uint64_t rtt_ns, uint64_t *way_ns)
{
    uint64_t believed_ns;

    rtt_ns = pace_larger(rtt_ns, 1);
    p->several = p->answers && (p->several || p->sender != way_ns);
    p->sender = way_ns;
    if (!*way_ns || rtt_ns < *way_ns)
        *way_ns = rtt_ns;
    if (!p->least_way_ns || rtt_ns < p->least_way_ns)
        p->least_way_ns = rtt_ns;
    believed_ns = pace_smaller(*way_ns, WAYS_DIFFER * p->least_way_ns);
    if (p->answers++ && rtt_ns - believed_ns >= p->wait_ns)
        return;
    p->wait_ns = rtt_ns - believed_ns;
    p->way_ns = believed_ns;
}

void emx_pace_usual(struct emx_pace *p, uint64_t ns)
{
    p->usual_ns = p->usual_ns ? p->usual_ns - p->usual_ns / SMOOTH + ns / SMOOTH : ns;
}

/* How much the limit grows at the end of a window. Without a new verdict only by the smallest step. */
static uint64_t pace_next_step(struct emx_pace *p, uint64_t chunk_bytes, bool verdict)
{
    uint64_t step_bytes = p->step_bytes;

    if (pace_is_shared(p) || p->lost)
        p->step_bytes = step_bytes = STEP_BYTES;
    p->lost = false;
    if (pace_is_shared(p))
        return p->cut_bytes ? 0 : pace_queue_is_long(p) ? chunk_bytes * LONG_GROWTH / 100 : chunk_bytes;
    if (!verdict)
        return p->judged ? STEP_BYTES : 0;
    if (p->limit_bytes >= p->most_bytes)
        return p->limit_bytes / FAR_GROWTH;
    if (p->step_bytes < p->most_bytes)
        p->step_bytes *= 2;
    return step_bytes;
}

/* A window of data has arrived. */
static void pace_next_window(struct emx_pace *p, uint64_t chunk_bytes, bool limited)
{
    bool verdict = p->answers >= ANSWERS;
    uint64_t step_bytes;

    p->arrived_bytes = 0;
    if (verdict) {
        p->rtt_ns = p->wait_ns + p->way_ns;
        p->judged = true;
        p->one_sender = !p->several;
        p->queue = p->wait_ns > p->way_ns && !pace_is_long_path(p);
        p->answers = 0;
        p->limit_bytes = pace_smaller(p->limit_bytes, pace_most(p));
    }
    step_bytes = pace_next_step(p, chunk_bytes, verdict);
    if (limited)
        pace_rise(p, step_bytes);
}

void emx_pace_arrived(struct emx_pace *p, uint64_t bytes, uint64_t chunk_bytes, bool limited)
{
    p->arrived_bytes += bytes;
    p->cut_bytes -= pace_smaller(bytes, p->cut_bytes);
    p->shared_bytes -= pace_smaller(bytes, p->shared_bytes);
    if (p->arrived_bytes >= p->limit_bytes)
        pace_next_window(p, chunk_bytes, limited);
}

uint64_t emx_pace_part(const struct emx_pace *p)
{
    uint64_t burst_bytes;

    if (!pace_queue_is_long(p))
        return p->limit_bytes / PARTS;
    burst_bytes = pace_smaller(p->limit_bytes * EMX_PACE_LONG_NS / p->rtt_ns, p->limit_bytes / PARTS);
    return pace_larger(p->limit_bytes / LONG_PARTS, burst_bytes);
}

uint64_t emx_pace_spare(const struct emx_pace *p)
{
    return p->limit_bytes / SPARE_PARTS;
}

/* Others need more of the link: the limit falls once for all requested data. false: it already fell. */
static bool pace_cut(struct emx_pace *p)
{
    if (p->cut_bytes)
        return false;
    p->before_bytes = p->limit_bytes;
    pace_fall(p, p->limit_bytes * CUT / 10, pace_queue_least(p));
    p->cut_bytes = p->limit_bytes;
    return true;
}

/* Others are assumed to use a queue, so the usual maximum applies. With a growth of one chunk per window, the limit
 * doubles in as many windows as it has chunks. */
static void pace_share(struct emx_pace *p, uint64_t chunk_bytes)
{
    p->limit_bytes = pace_smaller(p->limit_bytes, p->most_bytes);
    p->shared_bytes = p->limit_bytes * (p->limit_bytes / pace_larger(chunk_bytes, 1) + 1);
}

void emx_pace_lost(struct emx_pace *p, uint64_t bytes, uint64_t chunk_bytes)
{
    const uint64_t shared_bytes = p->shared_bytes;

    if (!p->lost)
        p->before_step_bytes = p->step_bytes;
    p->lost = true;
    if (pace_is_long_path(p))
        pace_share(p, chunk_bytes);
    if (!pace_is_shared(p))
        pace_fall(p, bytes, p->least_bytes);
    else if (pace_cut(p))
        p->before_shared_bytes = shared_bytes;
}

void emx_pace_not_lost(struct emx_pace *p)
{
    p->lost = false;
    p->step_bytes = pace_larger(p->step_bytes, p->before_step_bytes);
    p->before_step_bytes = 0;
    if (p->before_bytes <= p->limit_bytes)
        return;
    p->limit_bytes = p->before_bytes;
    p->shared_bytes = p->before_shared_bytes;
    p->before_bytes = p->cut_bytes = 0;
}

bool emx_pace_marked(struct emx_pace *p, uint64_t bytes)
{
    bool cut;

    pace_share(p, bytes);
    cut = pace_cut(p);
    p->before_bytes = 0;
    return cut;
}

void emx_pace_twice(struct emx_pace *p, uint64_t bytes)
{
    if (!pace_is_shared(p))
        pace_rise(p, bytes);
}
