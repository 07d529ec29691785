/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Split: one copy that two processes make together. The *owner* wants data from the memory of another process, the
 * *helper*. The owner reads from the beginning, the helper writes from the end, until they meet. One copy at a time for
 * each pair and direction. shm_split.c has the proofs.
 */
#ifndef EMX_WIRE_SHM_SPLIT_H
#define EMX_WIRE_SHM_SPLIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_SHM_UNIT_BYTES  4096u /* a part has several units; the last unit may be shorter */
#define EMX_SHM_SPLIT_BYTES ((size_t)UINT16_MAX * EMX_SHM_UNIT_BYTES) /* longest copy */

/* In shared memory; initially zero. */
struct emx_shm_split {
    _Alignas(128) _Atomic uint64_t claims;   /* by both: the units not taken, see shm_split.c */
    _Atomic uint64_t from, to, len_bytes;    /* by the owner: addresses in the helper's memory and in its own */
    _Alignas(128) _Atomic uint64_t finished; /* by the helper: the units it has written */
};

/* ---- The owner ---- */

struct emx_shm_owner {
    struct emx_shm_split *m;
    size_t len_bytes;
    uint32_t round;
    uint32_t units, taken; /* in total, and taken by the owner */
};

/* Part of a copy. */
struct emx_shm_part {
    size_t offset, len_bytes;
};

void emx_shm_owner_init(struct emx_shm_owner *o, struct emx_shm_split *m);

/* Starts a copy of 1 to EMX_SHM_SPLIT_BYTES and takes the first part of it: a half if a helper is expected (awaited),
 * else most of it. The previous copy has ended. */
void emx_shm_owner_open(struct emx_shm_owner *o, uint64_t from, uint64_t to, size_t len_bytes, bool awaited,
                        struct emx_shm_part *part_p);

/* Takes the next part for the owner; all that is left if the helper has not taken any. false: nothing is left, and the
 * helper takes no more. */
bool emx_shm_owner_take(struct emx_shm_owner *o, struct emx_shm_part *part_p);

/* Takes all that is left. */
void emx_shm_owner_close(struct emx_shm_owner *o);

enum emx_shm_help {
    EMX_SHM_HELP_UNDER_WAY, /* the helper may write */
    EMX_SHM_HELP_DONE,      /* it has written what it took, and writes no more */
    EMX_SHM_HELP_FAILED,    /* it writes no more, and its share is incomplete */
};

/* The state of the helper's share, when nothing is left to take. *part_p: the share, perhaps empty. */
enum emx_shm_help emx_shm_owner_look(const struct emx_shm_owner *o, struct emx_shm_part *part_p);

/* ---- The helper ---- */

/* A part that the helper has taken: what to write, and where. */
struct emx_shm_claim {
    uint64_t from, to, len_bytes;
    uint64_t finished; /* what emx_shm_helper_wrote() tells */
};

/* Takes a part of the started copy. false: there is none. The owner does not end the copy before
 * emx_shm_helper_wrote(). */
bool emx_shm_helper_claim(struct emx_shm_split *m, struct emx_shm_claim *p);

/* Reports that the part is written, or (ok false) cannot be. */
void emx_shm_helper_wrote(struct emx_shm_split *m, const struct emx_shm_claim *p, bool ok);

#endif
