/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Segment: memory of a region that other processes of the host can map, by a descriptor that they are passed. The
 * memory has no name, and ends with the last process that has mapped it.
 */
#ifndef EMX_MEM_SEGMENT_H
#define EMX_MEM_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/view.h"

/* In front of the memory, on a page of its own. */
struct emx_segment_head {
    uint64_t key;
    _Atomic uint32_t withdrawn; /* the region has ended: nobody reads what is written to the memory */
    _Atomic uint32_t words;     /* emx_view.words */
    struct emx_gate gate;
};

struct emx_segment {
    struct emx_list link; /* in a list of its owner */
    uint64_t key;         /* 0: nobody may map it */
    struct emx_segment_head *head;
    uint8_t *memory;
    size_t len_bytes;
    int fd; /* -1: others cannot map it */
    struct emx_sharing sharing;
    void *region; /* the owner's */
};

/* Zeroed memory. shared: others shall be able to map it; if the system does not provide that, it is memory all the
 * same. NULL: there is none. */
struct emx_segment *emx_segment_new(size_t len_bytes, bool shared);
/* Before others are passed the descriptor. */
void emx_segment_name(struct emx_segment *g, uint64_t key);
/* Others may change words of it; in the thread of the owner's engine. */
void emx_segment_grant(struct emx_segment *g);
/* Processes that have mapped it learn that it has ended. Their later writes are seen by nobody. */
void emx_segment_free(struct emx_segment *g);

/* A segment of another process. */
struct emx_segment_map {
    struct emx_segment_head *head; /* NULL: not mapped */
    struct emx_view view;
};

/* Maps what fd leads to, if it is the segment with this key and cannot shrink. The caller keeps fd. 0, or an errno. */
int emx_segment_map(struct emx_segment_map *m, int fd, uint64_t key, uint64_t len_bytes);
void emx_segment_unmap(struct emx_segment_map *m);
bool emx_segment_ended(const struct emx_segment_map *m);

#endif
