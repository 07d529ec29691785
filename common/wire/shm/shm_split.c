/* SPDX-License-Identifier: BSD-3-Clause
 *
 *     claims    units that are not taken; bits 0-15: the first one, 16-31: the one after the last, 32-63: round
 *     finished  bits 0-15: the unit from which on the helper has written, 16: it failed, 32-63: round
 *
 * Taking. Units are taken by a compare-and-exchange of the one word `claims`. So no unit has two writers, and when none
 * is left, which the word alone shows, nothing can be taken any more. The owner takes from the beginning, the helper
 * from the end. The helper takes a part, writes it, stores `finished`, and only then takes the next.
 *
 * No late writer. The helper writes only what it has taken. The owner ends the copy, and returns the memory to the
 * program, only when nothing is left to take and `finished` has this round and all that the helper took; or when the
 * helper's process has ended. A helper that was stopped before the compare-and-exchange finds that it fails: the units
 * are taken, or the round is another one. A round number does not return in that time: the helper waits for the owner
 * in between, a round takes microseconds, and 2^32 rounds would have to pass during one look at the word. A helper that
 * was stopped after the exchange delays the copy.
 *
 * The description. The owner writes from, to and len_bytes before it stores `claims` of the new round (release). The
 * helper loads `claims` (acquire), reads the description, and takes a part by a compare-and-exchange with the loaded
 * value, in which units were left. If it succeeds, the description was of this round: the owner writes the next
 * description only after all units were taken, that is, after `claims` had another value.
 *
 * The data. The kernel has written the part when the helper's call returns. The helper stores `finished` after that
 * (release), and the owner loads it (acquire) before it ends the copy.
 *
 * How much. The owner takes the first half. If the helper has taken nothing when that is copied, the owner takes the
 * rest, up to ALONE_BYTES at a time, and has lost one system call. Otherwise both take parts of what is left, ever
 * smaller ones, so that neither waits long for the other.
 */
#include "wire/shm/shm_split.h"

#include <assert.h>

#include "base/min.h"

#define END_SHIFT   16
#define FAILED      (1u << 16)
#define LEAST_UNITS 2u                           /* per system call */
#define MOST_UNITS  (65536 / EMX_SHM_UNIT_BYTES) /* in a helper's part: the owner may have to wait for it */
#define ALONE_BYTES 262144u                      /* then the owner checks whether the helper has started */
#define ALONE_UNITS (ALONE_BYTES / EMX_SHM_UNIT_BYTES)

static_assert(sizeof(struct emx_shm_split) == 256, "two pairs of lines");

/* The units that are not taken. */
struct left {
    uint32_t first, end;
};

static struct left shm_split_left_in(uint64_t claims)
{
    return (struct left){.first = claims & UINT16_MAX, .end = claims >> END_SHIFT & UINT16_MAX};
}

static uint64_t shm_split_claims_of(uint64_t round, uint32_t first, uint32_t end)
{
    return round << 32 | end << END_SHIFT | first;
}

static uint32_t shm_split_units_of(uint64_t len_bytes)
{
    return (uint32_t)((len_bytes + EMX_SHM_UNIT_BYTES - 1) / EMX_SHM_UNIT_BYTES);
}

/* Units from first on; what the last one lacks is left out. */
static struct emx_shm_part shm_split_part_of(uint32_t first, uint32_t units, uint64_t len_bytes)
{
    uint64_t begin = (uint64_t)first * EMX_SHM_UNIT_BYTES, end = begin + (uint64_t)units * EMX_SHM_UNIT_BYTES;

    begin = emx_min(begin, len_bytes);
    return (struct emx_shm_part){.offset = begin, .len_bytes = emx_min(end, len_bytes) - begin};
}

/* ---- The owner ---- */

void emx_shm_owner_init(struct emx_shm_owner *o, struct emx_shm_split *m)
{
    *o = (struct emx_shm_owner){.m = m};
}

void emx_shm_owner_open(struct emx_shm_owner *o, uint64_t from, uint64_t to, size_t len_bytes, bool awaited,
                        struct emx_shm_part *part_p)
{
    uint32_t first;

    o->len_bytes = len_bytes;
    o->units = shm_split_units_of(len_bytes);
    o->round++;
    first = awaited ? (o->units + 1) / 2 : o->units - o->units / 4;
    atomic_store_explicit(&o->m->from, from, memory_order_relaxed);
    atomic_store_explicit(&o->m->to, to, memory_order_relaxed);
    atomic_store_explicit(&o->m->len_bytes, len_bytes, memory_order_relaxed);
    atomic_store_explicit(&o->m->claims, shm_split_claims_of(o->round, first, o->units), memory_order_release);
    o->taken = first;
    *part_p = shm_split_part_of(0, first, len_bytes);
}

/* What the owner takes of so many units that are left. */
static uint32_t shm_split_owners_share(uint32_t left, bool helped)
{
    uint32_t half = (left + 1) / 2;

    if (!helped)
        return emx_min_u(left, ALONE_UNITS);
    return emx_min_u(left, half > LEAST_UNITS ? half : LEAST_UNITS);
}

/* A helper that has lost its mind may write anything to the word: only what can be counts. */
static bool shm_split_is_valid(const struct emx_shm_owner *o, uint64_t claims)
{
    struct left left = shm_split_left_in(claims);

    return claims >> 32 == o->round && left.first == o->taken && left.end >= o->taken && left.end <= o->units;
}

bool emx_shm_owner_take(struct emx_shm_owner *o, struct emx_shm_part *part_p)
{
    uint64_t claims = atomic_load_explicit(&o->m->claims, memory_order_relaxed);

    while (shm_split_is_valid(o, claims)) {
        struct left left = shm_split_left_in(claims);
        uint32_t take = shm_split_owners_share(left.end - left.first, left.end < o->units);

        if (!take)
            return false;
        if (atomic_compare_exchange_strong_explicit(&o->m->claims, &claims,
                                                    shm_split_claims_of(o->round, left.first + take, left.end),
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            *part_p = shm_split_part_of(o->taken, take, o->len_bytes);
            o->taken += take;
            return true;
        }
    }
    return false;
}

void emx_shm_owner_close(struct emx_shm_owner *o)
{
    struct emx_shm_part part;

    while (emx_shm_owner_take(o, &part))
        ;
}

enum emx_shm_help emx_shm_owner_look(const struct emx_shm_owner *o, struct emx_shm_part *part_p)
{
    uint32_t taken = o->units - o->taken; /* what the owner has not taken is the helper's */
    uint64_t finished = atomic_load_explicit(&o->m->finished, memory_order_acquire);

    *part_p = shm_split_part_of(o->taken, taken, o->len_bytes);
    if (!taken)
        return EMX_SHM_HELP_DONE;
    if (!shm_split_is_valid(o, atomic_load_explicit(&o->m->claims, memory_order_relaxed)))
        return EMX_SHM_HELP_FAILED;
    if ((finished & ~(uint64_t)FAILED) != shm_split_claims_of(o->round, o->taken, 0))
        return EMX_SHM_HELP_UNDER_WAY;
    return finished & FAILED ? EMX_SHM_HELP_FAILED : EMX_SHM_HELP_DONE;
}

/* ---- The helper ---- */

static uint32_t shm_split_helpers_share(uint32_t left)
{
    uint32_t quarter = left / 4;

    return emx_min_u(left, emx_min_u(quarter > LEAST_UNITS ? quarter : LEAST_UNITS, MOST_UNITS));
}

bool emx_shm_helper_claim(struct emx_shm_split *m, struct emx_shm_claim *p)
{
    uint64_t claims = atomic_load_explicit(&m->claims, memory_order_acquire);

    for (;;) {
        uint64_t from = atomic_load_explicit(&m->from, memory_order_relaxed);
        uint64_t to = atomic_load_explicit(&m->to, memory_order_relaxed);
        uint64_t len_bytes = atomic_load_explicit(&m->len_bytes, memory_order_relaxed);
        struct left left = shm_split_left_in(claims);
        uint32_t take = left.first < left.end ? shm_split_helpers_share(left.end - left.first) : 0;

        if (!take)
            return false;
        left.end -= take;
        if (atomic_compare_exchange_strong_explicit(&m->claims, &claims,
                                                    shm_split_claims_of(claims >> 32, left.first, left.end),
                                                    memory_order_acq_rel, memory_order_acquire)) {
            struct emx_shm_part part = shm_split_part_of(left.end, take, len_bytes);

            *p = (struct emx_shm_claim){.from = from + part.offset,
                                        .to = to + part.offset,
                                        .len_bytes = part.len_bytes,
                                        .finished = shm_split_claims_of(claims >> 32, left.end, 0)};
            return true;
        }
    }
}

void emx_shm_helper_wrote(struct emx_shm_split *m, const struct emx_shm_claim *p, bool ok)
{
    atomic_store_explicit(&m->finished, p->finished | (ok ? 0 : FAILED), memory_order_release);
}
