/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Queue: what is to happen, in order of (time, number). The number counts up, so that what was put in first happens
 * first and every run is the same.
 */
#ifndef SIM_QUEUE_H
#define SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void (*sim_event_fn)(void *arg, uint64_t value);

struct sim_event {
    uint64_t at_ns, number;
    sim_event_fn fn;
    void *arg;
    uint64_t value;
};

struct sim_queue {
    struct sim_event *heap;
    size_t count, room;
    uint64_t number;
};

void sim_queue_init(struct sim_queue *q);
void sim_queue_fini(struct sim_queue *q);
void sim_queue_put(struct sim_queue *q, uint64_t at_ns, sim_event_fn fn, void *arg, uint64_t value);

/* The next event, left in; NULL: there is none. */
const struct sim_event *sim_queue_first(const struct sim_queue *q);

/* Takes the next event out; false: there is none. */
bool sim_queue_take(struct sim_queue *q, struct sim_event *ev_p);

#endif
