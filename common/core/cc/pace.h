/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pace: how much data an endpoint requests at once, over all senders of large messages. Pure arithmetic, and
 * replaceable: pull.c reports events and reads only limit_bytes.
 *
 * Requested data that has not arrived meets in one queue: that of the switch's port to this host. If it exceeds the
 * queue, frames are lost. Neither the queue's length nor its other users are known. So the limit adapts, and one
 * question decides how: is there a queue?
 *
 *  - No queue: the link has room. The limit grows by a step for each window of data, and the step doubles while nothing
 *    is lost. A loss is random and reduces the limit only by its own length, as Veno separates random loss from
 *    congestion (Fu and Liew, IEEE JSAC 2003) and DCTCP decreases in proportion (SIGCOMM 2010).
 *  - A queue: others may need their share of the link. The limit grows by one chunk for each window, and a loss reduces
 *    it by CUT tenths, once for all data requested in that window: additive increase, multiplicative decrease as in
 *    RFC 5681 and RFC 9438 (CUBIC). It makes streams equal among themselves (Chiu and Jain, Computer Networks and ISDN
 *    Systems, 1989) and leaves TCP its share.
 *  - A long queue, if responses take longer than EMX_PACE_LONG_NS: the link is slow, a TCP flow there is controlled by
 *    its losses, and no loss is random. The limit grows by less (LONG_GROWTH): as fast as CUBIC, and slightly faster to
 *    compensate that requests are made in parts, so that shares are equal. Smaller parts of the limit are requested at
 *    once, because the response to a large request is a burst that fills the queue and displaces streams that send
 *    frame by frame. But what arrives in EMX_PACE_LONG_NS is never too much: on a fast path short parts cost packets.
 *    A message that has requested something waits until a quarter of the limit is free (emx_pace_spare()), and then
 *    requests several parts in one frame: a frame for each part costs the hosts more than the burst costs the queue.
 *
 * A response takes the base time of its path (the shortest seen from this sender), or longer if it was queued. One
 * response proves little, because programs are busy and processors are shared. So the fastest of several decides: if
 * even that was queued, the queue persists (Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 2012). It was
 * queued if it took twice the base time. A base time above WAYS_DIFFER times that of the nearest peer is not accepted.
 *
 * A base time above EMX_PACE_WAY_NS has one of two reasons: the path is long (hosts that process frames slowly, virtual
 * machines), or others keep a queue full, and an endpoint that starts meanwhile never sees it empty. A queue that is
 * kept full loses frames, or marks them. So the path counts as long until the first loss, and slow responses are no
 * queue. From then on, until enough has arrived without a loss for the limit to double, others are assumed to use a
 * queue.
 *
 * A long path may have stalls in it: a host whose processors pause, or whose card's thread waits for one. All that was
 * requested arrives during a stall, and then nothing until the next request has been answered. So a single sender at
 * the end of a long path may be asked for FAR_WINDOWS times the usual maximum, until data is lost or marked, or another
 * sender responds. Several senders would all send at once after a pause. Above the usual maximum the limit does not
 * double: if a queue is there after all, its loss is small.
 *
 * Without a queue the limit stays above EMX_PACE_LEAST, which a long path with random loss needs, and which switches
 * can buffer. With a queue it stays above what arrives in EMX_PACE_WAY_NS, if that is less: the bandwidth of the link
 * times the delay of the widest cluster, as Westwood reduces to bandwidth times delay (Mascolo and others, MobiCom
 * 2001). On a slow link EMX_PACE_LEAST would be a large part of a switch's queue for each stream.
 *
 * A mark (ecn.c) shows that a queue begins, earlier than the time of responses can. The limit falls by CUT tenths, once
 * for all data requested in a window. It grows as fast as CUBIC, so it must decrease as much; with a smaller decrease
 * TCP gets less than its share. If there are marks, others may use that queue, however short it is kept. So until
 * enough has arrived without a mark for the limit to double, it behaves as with a queue.
 *
 * A time-out is no loss, because the sender may be busy. A chunk that arrives twice was not lost. A cut for data that
 * was only out of order is undone (RFC 4015), and so is what it made assume of others and took from the step.
 *
 * tests/sim/sharing runs streams against each other and against TCP, tests/cluster/test-sharing does with real ones.
 */
#ifndef EMX_CORE_PACE_H
#define EMX_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_PACE_WAY_NS  200000
#define EMX_PACE_LONG_NS 500000
#define EMX_PACE_LEAST   65536

struct emx_pace {
    uint64_t limit_bytes;             /* limit on data requested and not arrived */
    uint64_t most_bytes, least_bytes; /* the usual ones */
    uint64_t arrived_bytes;           /* since the window began */
    uint64_t step_bytes;              /* next growth without a queue */
    uint64_t cut_bytes;               /* data to arrive before another loss with a queue, or mark, counts */
    uint64_t before_bytes;            /* the limit before the last cut; 0: that was for a mark, or is undone */
    uint64_t before_shared_bytes;     /* shared_bytes then */
    uint64_t before_step_bytes;       /* step_bytes before the last loss; 0: that is undone */
    uint64_t shared_bytes;            /* data to arrive before others are no longer assumed to use a queue */
    unsigned answers;                 /* responses since the last verdict */
    uint64_t wait_ns;                 /* queueing time of the fastest of them */
    uint64_t way_ns;                  /* its base time */
    uint64_t least_way_ns;            /* smallest base time of all senders */
    uint64_t rtt_ns;                  /* round trip of the last verdict */
    uint64_t usual_ns;                /* smoothed: response time including queues */
    const uint64_t *sender;           /* way_ns of the last response */
    bool several;                     /* responses since the last verdict came from several senders */
    bool one_sender;                  /* those of the last verdict came from one */
    bool judged, queue;               /* there was a verdict; the last one */
    bool lost;                        /* a loss occurred in this window */
};

void emx_pace_init(struct emx_pace *p, uint64_t most_bytes);

/* The first requested data arrived after rtt_ns. *way_ns: the sender's base time; 0 at first. A time of 0 counts as 1:
 * request and response may fall into one reading of the clock. */
void emx_pace_answered(struct emx_pace *p, uint64_t rtt_ns, uint64_t *way_ns);

/* Records a response time, smoothed as in RFC 6298, to distinguish queues from senders that do not respond. */
void emx_pace_usual(struct emx_pace *p, uint64_t ns);

/* So much of the limit may stay unused until several parts are requested together. */
uint64_t emx_pace_spare(const struct emx_pace *p);

/* Data has arrived, in chunks of chunk_bytes. limited: the limit holds back requests. */
void emx_pace_arrived(struct emx_pace *p, uint64_t bytes, uint64_t chunk_bytes, bool limited);

/* The most to request at once. */
uint64_t emx_pace_part(const struct emx_pace *p);

/* Data did not arrive, and is requested again in chunks of chunk_bytes. */
void emx_pace_lost(struct emx_pace *p, uint64_t bytes, uint64_t chunk_bytes);

/* Data has arrived that was taken for lost. */
void emx_pace_not_lost(struct emx_pace *p);

/* A chunk has arrived with a mark. true: the limit has fallen. */
bool emx_pace_marked(struct emx_pace *p, uint64_t bytes);

/* Data has arrived twice: it was requested again without need. */
void emx_pace_twice(struct emx_pace *p, uint64_t bytes);

#endif
