/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Match: posted receives and arrived messages, joined by MPI's rules. Pure: knows no frames, time or memory of
 * messages. Its elements are embedded in the caller's objects.
 *
 * Rules (MPI 4.0, section 3.5): an arriving message takes the earliest posted receive that fits; a receive takes the
 * earliest arrived message that fits. Fits: (bits ^ other bits) & mask == 0, and the peer is equal or the receive's
 * peer is NULL (any).
 *
 * Cost: receives with a full mask and all arrived messages are hashed by bits (tables double when they have as many
 * elements as buckets), receives with wildcards are in a list. An order number decides between the two. So the cost
 * does not depend on the number of elements, except for wildcards: the posted wildcards are searched one by one, and a
 * wildcard receive searches the arrived messages.
 */
#ifndef EMX_CORE_MATCH_H
#define EMX_CORE_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/list.h"

struct emx_peer;

/* Messages and receives of one space never meet those of the other: each has its own struct emx_match. */
enum emx_space { EMX_TAGGED, EMX_UNTAGGED, EMX_SPACES };

/* A receive waiting for a message. */
struct emx_posted {
    struct emx_list link; /* in a bucket, or in the wildcard list */
    uint64_t bits, mask;
    uint64_t order;
    struct emx_peer *peer; /* NULL: any */
};

/* A message waiting for a receive. */
struct emx_unexpected_match {
    struct emx_list link;  /* in a bucket */
    struct emx_list queue; /* all arrived messages, in order of arrival */
    uint64_t bits;
    struct emx_peer *peer;
};

struct emx_match_table {
    struct emx_list *bucket;
    unsigned mask; /* buckets - 1, a power of two - 1 */
    unsigned count;
    uint64_t ignore; /* bits that take no part in the hash */
};

struct emx_match {
    const struct emx_alloc *alloc;
    struct emx_match_table posted; /* receives with a full mask */
    struct emx_posted *alone;      /* the only one of them, if it was posted last */
    struct emx_list wild;          /* receives with wildcards */
    struct emx_list multi;         /* receives that take several messages */
    unsigned wild_count;           /* in these two lists */
    unsigned multi_count;          /* in the second */
    struct emx_match_table arrived;
    struct emx_list queue;
    uint64_t order;
    uint64_t ignore;
};

/* 0, or -1: out of memory. */
int emx_match_init(struct emx_match *m, const struct emx_alloc *alloc);
void emx_match_fini(struct emx_match *m);

/* These bits take no part in matching, as if each mask had zeros there. A receive whose mask has ones in all other bits
 * has no wildcards. Called only while there are no elements. */
void emx_match_ignore(struct emx_match *m, uint64_t bits);

/* Adds a receive (bits, mask, peer set by the caller). Never fails: a table that cannot grow becomes slower. */
void emx_match_post(struct emx_match *m, struct emx_posted *p);

/* Removes a posted receive (cancel). */
void emx_match_unpost(struct emx_match *m, struct emx_posted *p);

/* The same for a receive that takes several messages. */
void emx_match_post_multi(struct emx_match *m, struct emx_posted *p);
void emx_match_unpost_multi(struct emx_match *m, struct emx_posted *p);

/* A message has arrived: the receive it matches, if that takes several. It stays. */
struct emx_posted *emx_match_multi(const struct emx_match *m, uint64_t bits, const struct emx_peer *peer);

/* A message has arrived: removes and returns the receive it matches, or NULL: none, or one that takes several. */
struct emx_posted *emx_match_arrive(struct emx_match *m, uint64_t bits, struct emx_peer *peer);

/* What emx_match_arrive() would return, which stays posted. */
struct emx_posted *emx_match_peek(const struct emx_match *m, uint64_t bits, const struct emx_peer *peer);

/* Adds a message without a receive (bits, peer set by the caller). */
void emx_match_add(struct emx_match *m, struct emx_unexpected_match *a);

/* The earliest arrived message that fits, not removed; NULL: none. */
struct emx_unexpected_match *emx_match_find(const struct emx_match *m, uint64_t bits, uint64_t mask,
                                            const struct emx_peer *peer);

/* Removes an arrived message. */
void emx_match_take(struct emx_match *m, struct emx_unexpected_match *a);

#endif
