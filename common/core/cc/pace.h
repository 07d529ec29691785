/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pace: how much an endpoint asks for at once, over all senders of large messages. Pure arithmetic, and a replaceable
 * part: pull.c tells what happens and reads limit_bytes, nothing else.
 *
 * What was asked for and has not arrived meets in one queue: that of the switch's port to us. If it is longer than the
 * queue, frames are lost, and neither the queue's length is known nor who else has frames in it. So the limit is found
 * out, and one question decides how: is there a queue?
 *
 *  - No queue: the link has room. The limit moves up by a step for each window's worth of data, and the step doubles
 *    while nothing is lost. What is lost was lost by chance and takes off no more than itself, as Veno tells loss by
 *    chance from congestion (Fu and Liew, IEEE JSAC 2003) and DCTCP decreases in proportion (SIGCOMM 2010).
 *  - A queue: others may want their part of the link. The limit moves up by one chunk for each window's worth, and a
 *    loss takes off three tenths, once for all that was asked for in that window: additive increase, multiplicative
 *    decrease as RFC 5681 and RFC 9438 (CUBIC) have it. It makes streams equal among themselves (Chiu and Jain,
 *    Computer Networks and ISDN Systems, 1989) and leaves TCP its part.
 *  - A long queue, behind which answers take longer than EMX_PACE_LONG_NS: there is a slow link, on which a TCP lives
 *    by its loss and nothing is lost by chance. The limit moves up by 0.7 chunks only: CUBIC's 0.53 frames, and a
 *    little more, for what is asked for in parts comes later; with it shares come out even. Eighths instead of halves
 *    of the limit are asked for at once: the answer to a long one is a burst that fills the queue, and takes the places
 *    of others who send one frame after the other.
 *
 * An answer comes after the time of the way alone (the shortest that was seen of this sender), or it has waited. One
 * answer says little: programs are busy, processors are shared. So the quickest of some decides; if even that waited,
 * the queue is there to stay (Nichols and Jacobson, "Controlling Queue Delay", ACM Queue 2012). It has waited if it
 * took twice the time of the way. But a way of more than EMX_PACE_WAY_NS is not believed, nor one of more than four
 * times that of the nearest peer, for no cluster is so wide: who comes late to a queue that others keep full has never
 * seen it empty.
 *
 * Without a queue the limit stays above EMX_PACE_LEAST, which a long way with loss by chance needs to be of any use and
 * switches keep easily. With one it stays above what arrives in EMX_PACE_WAY_NS, if that is less: a link's bandwidth
 * times the widest cluster's delay, as Westwood reduces to bandwidth times delay (Mascolo and others, MobiCom 2001).
 * For hosts that are slow look like a queue; but on a link of 100 Mbit/s the former would be half a switch's queue, for
 * each stream.
 *
 * A mark (ecn.c) says that a queue begins somewhere, sooner than the time of answers can. The limit falls by three
 * tenths, once for what was asked for in a window: it grows as fast as CUBIC does, and that takes as much off. (A
 * fifth left TCP 30 of 100 parts of a link.) Where marks come others may be at that queue, however short
 * it is kept. So until so much has arrived without one that the limit would have doubled, it moves as if there were a
 * queue.
 *
 * Silence is no loss: the sender may be busy. And what comes twice was not lost.
 *
 * tests/sim/sharing plays streams against each other and against TCP, tests/cluster/test-sharing does with real ones.
 */
#ifndef EMX_CORE_PACE_H
#define EMX_CORE_PACE_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_PACE_WAY_NS  200000
#define EMX_PACE_LONG_NS 500000
#define EMX_PACE_LEAST   65536

struct emx_pace {
    uint64_t limit_bytes; /* may be asked for at once */
    uint64_t most_bytes, least_bytes;
    uint64_t arrived_bytes; /* since this window began */
    uint64_t step_bytes;    /* the next, without a queue */
    uint64_t cut_bytes;     /* to arrive before another loss with a queue counts, or mark */
    uint64_t marked_bytes;  /* to arrive before marks are forgotten */
    unsigned answers;       /* since the last verdict, */
    uint64_t wait_ns;       /* how long the quickest of them has waited, */
    uint64_t way_ns;        /* and its way */
    uint64_t least_way_ns;  /* of all senders */
    uint64_t rtt_ns;        /* of the last verdict */
    uint64_t usual_ns;      /* smoothed: how long answers take, with the queues that they wait in */
    bool judged, queue;     /* there was a verdict; the last */
    bool lost;              /* something was, in this window */
};

void emx_pace_init(struct emx_pace *p, uint64_t most_bytes);

/* The first of what was asked for came after rtt_ns (> 0). *way_ns: the shortest such time of that sender; 0 at first.
 */
void emx_pace_answered(struct emx_pace *p, uint64_t rtt_ns, uint64_t *way_ns);

/* An answer took so long; smoothed as RFC 6298 does it. For telling queues from senders that do not answer. */
void emx_pace_usual(struct emx_pace *p, uint64_t ns);

/* Data has arrived, a chunk; limited: the limit keeps more from being asked for. */
void emx_pace_arrived(struct emx_pace *p, uint64_t bytes, bool limited);

/* The most to ask for at once. */
uint64_t emx_pace_part(const struct emx_pace *p);

/* Data did not arrive and is asked for again. */
void emx_pace_lost(struct emx_pace *p, uint64_t bytes);

/* Data has arrived with a mark, a chunk of so many bytes. true: the limit has fallen. */
bool emx_pace_marked(struct emx_pace *p, uint64_t bytes);

/* Data has arrived twice: it had been asked for again without need. */
void emx_pace_twice(struct emx_pace *p, uint64_t bytes);

#endif
