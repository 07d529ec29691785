/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ring: frames from one endpoint to another through shared memory, with one writer and one reader. Neither trusts what
 * the other has written, except the content of frames. shm_ring.c has the layout and explains why it is correct.
 */
#ifndef EMX_WIRE_SHM_RING_H
#define EMX_WIRE_SHM_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/shm/shm_split.h"
#include "wire/wire.h"

#define EMX_SHM_LAYOUT 6 /* version; changes with the layout */

#define EMX_SHM_WORD_LEN        0x7fffu /* the length in a slot's word */
#define EMX_SHM_SLOTS           64      /* a power of 2 */
#define EMX_SHM_SLOT_BYTES      1152    /* a multiple of 128; no power of 2: slots would share cache sets */
#define EMX_SHM_INLINE_BYTES    (EMX_SHM_SLOT_BYTES - 4)
#define EMX_SHM_AREA_BYTES      524288 /* a power of 2 */
#define EMX_SHM_DEDICATED_BYTES 65536  /* the part used while the reader keeps up */
#define EMX_SHM_TELL_SLOTS      16     /* the reader reports after so many */
#define EMX_SHM_TELL_BYTES      16384
#define EMX_SHM_LINE            64   /* a cache line */
#define EMX_SHM_FETCH_BYTES     1024 /* prefetched by the reader */
#define EMX_SHM_FRAME_BYTES     8256 /* the longest frame, with 8 KiB of data */

/* A frame of up to EMX_SHM_INLINE_BYTES is in its slot. For a longer one, the slot has its place in the area. */
struct emx_shm_slot {
    _Alignas(128) _Atomic uint32_t word; /* length, lap, place: shm_ring.c */
    uint8_t data[EMX_SHM_INLINE_BYTES];
};

/* How the writer must notify the reader of a frame. */
enum emx_shm_reader {
    EMX_SHM_DOZY,   /* it may go to sleep at any moment: check twice */
    EMX_SHM_AWAKE,  /* it polls, and executes a barrier on all processors before it sleeps */
    EMX_SHM_ASLEEP, /* wake it */
};

/* The shared memory, initially zero. Each group of cache lines has one writer most of the time. */
struct emx_shm_memory {
    _Alignas(128) _Atomic uint32_t taken;  /* by the reader: frames consumed */
    _Alignas(128) _Atomic uint32_t reader; /* enum emx_shm_reader; a writer that wakes it turns ASLEEP to DOZY */
    _Alignas(128) _Atomic uint32_t waits;  /* by the writer: 1: it sleeps until there is room; the reader clears it */
    struct emx_shm_split split;            /* the writer owns the copy */
    struct emx_shm_slot slot[EMX_SHM_SLOTS];
    _Alignas(128) uint8_t area[EMX_SHM_AREA_BYTES];
};

/* ---- The writer ---- */

struct emx_shm_tx {
    struct emx_shm_memory *m;
    uint32_t next;                    /* frames written */
    uint32_t taken;                   /* as last seen */
    uint32_t area_next;               /* bytes of the area reserved, gaps at its end included */
    uint32_t area_taken;              /* bytes of it freed */
    uint32_t area_end[EMX_SHM_SLOTS]; /* area_next after each slot's frame */
    uint32_t word;                    /* of the reserved frame */
    bool careful;                     /* the reader's barrier does not reach this process: always check twice */
};

/* m is zeroed and shared, or will be. */
void emx_shm_tx_init(struct emx_shm_tx *t, struct emx_shm_memory *m, bool careful);

/* Reserves memory for a frame of 1 to EMX_SHM_FRAME_BYTES; NULL: no room. emx_shm_tx_commit() sends it, and must be the
 * next call. The reader polls this memory: write each byte once. */
void *emx_shm_tx_reserve(struct emx_shm_tx *t, uint32_t len_bytes);
void emx_shm_tx_commit(struct emx_shm_tx *t);

/* Writes a frame of 1 to EMX_SHM_FRAME_BYTES. false: no room. Nothing of f is referenced after return. */
bool emx_shm_tx_put(struct emx_shm_tx *t, const struct emx_txframe *f);

/* Notifies the reader of the split, if it polls. Wakes nobody. */
void emx_shm_tx_call(struct emx_shm_tx *t);

/* Called after put(). true: the reader sleeps, and the caller must wake it. */
bool emx_shm_tx_must_wake_slow(struct emx_shm_tx *t);
static inline bool emx_shm_tx_must_wake(struct emx_shm_tx *t)
{
    if (!t->careful && atomic_load_explicit(&t->m->reader, memory_order_relaxed) == EMX_SHM_AWAKE)
        return false;
    return emx_shm_tx_must_wake_slow(t);
}

/* The writer is about to sleep until there is room. put() must be tried once more after this. */
void emx_shm_tx_wait(struct emx_shm_tx *t);

/* ---- The reader ---- */

struct emx_shm_rx {
    struct emx_shm_memory *m;
    uint32_t next;         /* frames read */
    uint32_t told;         /* value last stored in `taken` */
    uint32_t untold_bytes; /* of the area, since then */
    bool called;           /* the writer requests help with the split; the caller of take() clears it */
};

void emx_shm_rx_init(struct emx_shm_rx *r, struct emx_shm_memory *m);

/* The lap bit in the word of frame number i once the frame is there. */
static inline uint32_t emx_shm_lap(uint32_t i)
{
    return (~(i / EMX_SHM_SLOTS) & 1) << 15;
}

/* Whether a frame is there: one load. */
static inline bool emx_shm_rx_ready(const struct emx_shm_rx *r)
{
    uint32_t word = atomic_load_explicit(&r->m->slot[r->next % EMX_SHM_SLOTS].word, memory_order_acquire);

    return (word & 1u << 15) == emx_shm_lap(r->next);
}

/* Takes up to max frames, in place; returns how many (data and len_bytes are set). -1: the content is invalid, and the
 * ring must not be used any more. */
int emx_shm_rx_take(struct emx_shm_rx *r, struct emx_rxframe *f, unsigned max);

/* Prefetches the cache lines of a frame; the processor's prefetcher continues. */
static inline void emx_shm_fetch(const uint8_t *data, uint32_t from, uint32_t len_bytes)
{
    for (uint32_t i = from; i < len_bytes && i < EMX_SHM_FETCH_BYTES; i += EMX_SHM_LINE)
        __builtin_prefetch(data + i);
}

/* A frame in the area, by the word of its slot. NULL: the word is invalid. */
const uint8_t *emx_shm_rx_in_area(const struct emx_shm_rx *r, uint32_t word);

/* The next frame. Called after emx_shm_rx_ready() while no frame is in use. *len_bytes_p 0: it is no frame, or invalid,
 * and take() must handle it. emx_shm_rx_pass() consumes it. */
static inline const uint8_t *emx_shm_rx_peek(const struct emx_shm_rx *r, uint32_t *len_bytes_p)
{
    const struct emx_shm_slot *slot = &r->m->slot[r->next % EMX_SHM_SLOTS];
    uint32_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    const uint8_t *data;

    *len_bytes_p = word & EMX_SHM_WORD_LEN;
    if (*len_bytes_p <= EMX_SHM_INLINE_BYTES) {
        emx_shm_fetch(slot->data, EMX_SHM_LINE - sizeof(slot->word), *len_bytes_p);
        return slot->data;
    }
    data = emx_shm_rx_in_area(r, word);
    if (data)
        return data;
    *len_bytes_p = 0;
    return slot->data;
}
static inline void emx_shm_rx_pass(struct emx_shm_rx *r, uint32_t len_bytes)
{
    r->next++;
    if (len_bytes > EMX_SHM_INLINE_BYTES)
        r->untold_bytes += len_bytes;
}

/* Called when no frame is in use. true: the writer sleeps until there is room, there is room now, and the caller must
 * wake it. */
bool emx_shm_rx_settle_now(struct emx_shm_rx *r);
static inline bool emx_shm_rx_settle(struct emx_shm_rx *r)
{
    if (r->next - r->told < EMX_SHM_TELL_SLOTS && r->untold_bytes < EMX_SHM_TELL_BYTES &&
        (!r->untold_bytes || emx_shm_rx_ready(r)))
        return false;
    return emx_shm_rx_settle_now(r);
}

/* Sets the reader's state. After ASLEEP the reader must check once more for a frame; if the state was AWAKE, after a
 * barrier on all processors. */
void emx_shm_rx_state(struct emx_shm_rx *r, enum emx_shm_reader state);

#endif
