/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Split: a copy that two processes make together. Its *owner* wants data that lie in the memory of another process, the
 * *helper*: the owner reads from the beginning on, the helper writes from the end on, until they meet. See shm_split.c
 * for the proofs. One copy at a time for each pair and direction.
 */
#ifndef EMX_WIRE_SHM_SPLIT_H
#define EMX_WIRE_SHM_SPLIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_SHM_UNIT_BYTES  4096u                                     /* parts are so many units, the last shorter */
#define EMX_SHM_SPLIT_BYTES ((size_t)UINT16_MAX * EMX_SHM_UNIT_BYTES) /* longest copy */

/* In shared memory: all zero to begin with. */
struct emx_shm_split {
    _Alignas(128) _Atomic uint64_t claims;   /* by both: what nobody has taken: shm_split.c */
    _Atomic uint64_t from, to, len_bytes;    /* by the owner: addresses in the helper's memory and in its own */
    _Alignas(128) _Atomic uint64_t finished; /* by the helper: what it is done with */
};

/* ---- The owner ---- */

struct emx_shm_owner {
    struct emx_shm_split *m;
    size_t len_bytes;
    uint32_t round;
    uint32_t units, taken; /* in all, and by the owner */
};

/* Part of a copy. */
struct emx_shm_part {
    size_t offset, len_bytes;
};

void emx_shm_owner_init(struct emx_shm_owner *o, struct emx_shm_split *m);

/* Opens a copy of 1 to EMX_SHM_SPLIT_BYTES to the helper, if the one before has ended, and takes the first part of it:
 * a half if the helper is awaited, else most of it. */
void emx_shm_owner_open(struct emx_shm_owner *o, uint64_t from, uint64_t to, size_t len_bytes, bool awaited,
                        struct emx_shm_part *part_p);

/* The next part for the owner to copy; all that is left if the helper has not come. false: none is left, and the helper
 * takes none any more. */
bool emx_shm_owner_take(struct emx_shm_owner *o, struct emx_shm_part *part_p);

/* Takes all that is left. */
void emx_shm_owner_close(struct emx_shm_owner *o);

enum emx_shm_help {
    EMX_SHM_HELP_UNDER_WAY, /* the helper may write */
    EMX_SHM_HELP_DONE,      /* it has written what it took, and writes no more */
    EMX_SHM_HELP_FAILED,    /* it writes no more, but what it took is not there */
};

/* What has become of the helper's share, when nothing is left to take. *part_p: the share, perhaps empty. */
enum emx_shm_help emx_shm_owner_look(const struct emx_shm_owner *o, struct emx_shm_part *part_p);

/* ---- The helper ---- */

/* Bytes to write, and where. */
struct emx_shm_piece {
    uint64_t from, to, len_bytes;
    uint64_t finished; /* what emx_shm_helper_wrote() tells */
};

/* Takes a piece of the copy that is open, if one is. The owner does not end it before emx_shm_helper_wrote(). */
bool emx_shm_helper_claim(struct emx_shm_split *m, struct emx_shm_piece *p);

/* The piece is written, or cannot be. */
void emx_shm_helper_wrote(struct emx_shm_split *m, const struct emx_shm_piece *p, bool ok);

#endif
