/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Layout. A ring has EMX_SHM_SLOTS slots. The first 4 bytes of a slot, its *word*, say that a frame is there, its
 * length and its place. A frame of up to EMX_SHM_INLINE_BYTES is in the slot itself. So the shortest frames move one
 * cache line between cores, the line that the reader polls; the following lines are prefetched together with it. Longer
 * frames are in the *area*, a ring of bytes. There they are contiguous, in units of a cache line, so that they can be
 * used in place. But the reader must read the word before it can fetch them, which costs a second transfer between
 * cores. So slots are long enough for most small messages.
 *
 * Prefetch. Lines that the reader had last must return to the writer before it can write them. So after each frame the
 * writer prefetches the lines of the next one, assumed to be as long. It does not prefetch the line of the next word,
 * which the reader polls.
 *
 *     word, bits 0-14: length; 0: no frame, look at the split; 15: lap; 16-31: place in the area / 64
 *
 * The lap bit alternates: set in the first lap, clear in the second. All slots are written in each lap, so the bit
 * alone tells a new frame from that of the lap before, and the reader need not clear anything. The reader reports its
 * progress in `taken`: after EMX_SHM_TELL_SLOTS frames or EMX_SHM_TELL_BYTES of the area, and when a frame of the area
 * was the last one. What it has not reported is always less than that. So a writer that waits for room gets some when
 * the reader has read everything.
 *
 * The area holds three messages of 128 KiB, because ranks that exchange such messages first send, then receive. While
 * the reader keeps up, the writer uses only the first EMX_SHM_DEDICATED_BYTES, so that the other pages are allocated
 * only where they are needed (shm_ring_use_dedicated()).
 *
 * Order. The writer stores the word last (release), the reader loads it first (acquire). The reader stores `taken` when
 * it has finished with the data (release), the writer loads it (acquire) before it writes there again.
 *
 * Wakeup. The writer must wake a reader that sleeps, must not pay for a reader that polls, and must not miss a reader
 * that is about to sleep. `reader` has the reader's state:
 *   DOZY    The writer stores the word W, then reads `reader` with an atomic read-modify-write (fetch_or 0). The
 *           reader sets ASLEEP with an exchange, then reads W. Both are read-modify-writes of one word, so they have an
 *           order. If the writer's is second, it sees ASLEEP and wakes. If the reader's is second, it acquires what the
 *           writer released, and sees W.
 *   AWAKE   The writer stores W and only loads `reader`. The processor may execute the load first. So a reader that was
 *           AWAKE sets ASLEEP, and then membarrier(2) executes a barrier on every processor that runs a thread of
 *           another registered process. If the writer's load is before that barrier, its store is too, and the reader,
 *           which checks afterwards, sees W. If the load is after it, it sees ASLEEP. (A writer that could not register
 *           is `careful`: it always does as for DOZY.)
 *   ASLEEP  The writer that changes ASLEEP to DOZY wakes the reader: once for each sleep.
 * A read-modify-write costs the writer more than a load. membarrier(2) costs the reader much more, but once for each
 * sleep only. So a reader becomes AWAKE when it has not slept for a while, and stays DOZY while it sleeps often
 * (shm_in.c).
 *
 * A writer that sleeps until there is room does the same in the other direction with `waits` and `taken`. It always
 * does as for DOZY, because `taken` is stored rarely.
 *
 * A writer that ends in the middle of a frame has not stored the word, so the reader does not see the frame.
 *
 * Why one ring for each pair. One queue for all senders, or one word with a bit for each ring, makes an idle poll
 * cheaper if there are many ranks. But it makes a stream of messages much slower, because the writers share a cache
 * line. Rings also have the shorter round trip if few of them are polled. So a poll checks the few rings that had
 * frames last, and some of the others in turn (shm_in.c). In a queue of many writers, one that is descheduled or killed
 * while it fills its slot stops all others; with rings it stops its pair only.
 */
#include "wire/shm/shm_ring.h"

#include <assert.h>
#include <string.h>

#define AREA_UNIT  64u
#define OWN_BYTES  2048u /* prefetched by the writer */
#define WORD_BYTES (EMX_SHM_SLOT_BYTES - EMX_SHM_INLINE_BYTES)
#define WORD_LAP   (1u << 15)

static_assert(EMX_SHM_FRAME_BYTES <= EMX_SHM_WORD_LEN, "the word tells each length");
static_assert(2 * EMX_SHM_FRAME_BYTES + EMX_SHM_TELL_BYTES <= EMX_SHM_AREA_BYTES,
              "there is room when all that is told is taken, also before a gap");
static_assert(EMX_SHM_AREA_BYTES / AREA_UNIT <= UINT16_MAX + 1u, "the word tells each place");
static_assert(sizeof(struct emx_shm_slot) == EMX_SHM_SLOT_BYTES, "slot");

/* ---- The writer ---- */

void emx_shm_tx_init(struct emx_shm_tx *t, struct emx_shm_memory *m, bool careful)
{
    *t = (struct emx_shm_tx){.m = m, .careful = careful};
}

/* Reads the reader's progress. The reader is not trusted: only valid numbers are used. */
static void shm_ring_refresh(struct emx_shm_tx *t)
{
    uint32_t taken = atomic_load_explicit(&t->m->taken, memory_order_acquire);
    uint32_t end;

    if (taken == t->taken || taken - t->taken > t->next - t->taken)
        return;
    t->taken = taken;
    end = t->area_end[(taken - 1) % EMX_SHM_SLOTS];
    if ((int32_t)(end - t->area_taken) > 0)
        t->area_taken = end;
}

/* Continues at the beginning of the area if the reader has taken everything in it. So a ring whose reader keeps up uses
 * few pages, which stay in caches. */
static void shm_ring_use_dedicated(struct emx_shm_tx *t)
{
    if (t->area_next % EMX_SHM_AREA_BYTES < EMX_SHM_DEDICATED_BYTES)
        return;
    if (t->area_taken != t->area_next)
        shm_ring_refresh(t);
    if (t->area_taken == t->area_next)
        t->area_taken = t->area_next += EMX_SHM_AREA_BYTES - t->area_next % EMX_SHM_AREA_BYTES;
}

/* Whether that many more bytes can be allocated. */
static bool shm_ring_has_space(const struct emx_shm_tx *t, uint32_t bytes)
{
    return t->area_next + bytes - t->area_taken <= EMX_SHM_AREA_BYTES;
}

/* A place in the area, or -1. */
static int64_t shm_ring_allocate(struct emx_shm_tx *t, uint32_t len_bytes)
{
    uint32_t need = (len_bytes + AREA_UNIT - 1) / AREA_UNIT * AREA_UNIT;
    uint32_t at, gap;

    shm_ring_use_dedicated(t);
    at = t->area_next % EMX_SHM_AREA_BYTES;
    gap = at + need > EMX_SHM_AREA_BYTES ? EMX_SHM_AREA_BYTES - at : 0;
    if (!shm_ring_has_space(t, gap + need)) {
        shm_ring_refresh(t);
        if (!shm_ring_has_space(t, gap + need))
            return -1;
    }
    t->area_next += gap + need;
    return gap ? 0 : at;
}

static void shm_ring_copy_frame(uint8_t *to, const struct emx_txframe *f)
{
    memcpy(to, f->head, f->head_bytes);
    if (f->body_bytes)
        memcpy(to + f->head_bytes, f->body, f->body_bytes);
}

/* Prefetches the lines of the next frame, while nothing waits for it. Excludes the line of the next word, which the
 * reader polls. */
static void shm_ring_own_next(const struct emx_shm_tx *t, uint32_t len_bytes)
{
    const uint8_t *at = t->m->area + t->area_next % EMX_SHM_AREA_BYTES;
    uint32_t from = 0;

    if (len_bytes <= EMX_SHM_INLINE_BYTES) {
        at = (const uint8_t *)&t->m->slot[t->next % EMX_SHM_SLOTS];
        from = EMX_SHM_LINE;
        len_bytes += WORD_BYTES;
    }
    for (uint32_t i = from; i < len_bytes && i < OWN_BYTES; i += EMX_SHM_LINE)
        __builtin_prefetch(at + i, 1);
}

void *emx_shm_tx_reserve(struct emx_shm_tx *t, uint32_t len_bytes)
{
    int64_t place;

    if (t->next - t->taken == EMX_SHM_SLOTS) {
        shm_ring_refresh(t);
        if (t->next - t->taken == EMX_SHM_SLOTS)
            return NULL;
    }
    t->word = len_bytes | emx_shm_lap(t->next);
    if (len_bytes <= EMX_SHM_INLINE_BYTES)
        return t->m->slot[t->next % EMX_SHM_SLOTS].data;
    place = shm_ring_allocate(t, len_bytes);
    if (place < 0)
        return NULL;
    t->word |= (uint32_t)place / AREA_UNIT << 16;
    return t->m->area + place;
}

void emx_shm_tx_commit(struct emx_shm_tx *t)
{
    uint32_t i = t->next % EMX_SHM_SLOTS;

    t->area_end[i] = t->area_next;
    t->next++;
    atomic_store_explicit(&t->m->slot[i].word, t->word, memory_order_release);
    shm_ring_own_next(t, t->word & EMX_SHM_WORD_LEN);
}

bool emx_shm_tx_put(struct emx_shm_tx *t, const struct emx_txframe *f)
{
    uint8_t *to = emx_shm_tx_reserve(t, (uint32_t)f->head_bytes + f->body_bytes);

    if (!to)
        return false;
    shm_ring_copy_frame(to, f);
    emx_shm_tx_commit(t);
    return true;
}

void emx_shm_tx_call(struct emx_shm_tx *t)
{
    if (emx_shm_tx_reserve(t, 0))
        emx_shm_tx_commit(t);
}

bool emx_shm_tx_must_wake_slow(struct emx_shm_tx *t)
{
    uint32_t asleep = EMX_SHM_ASLEEP;

    if (atomic_fetch_or_explicit(&t->m->reader, 0, memory_order_acq_rel) != EMX_SHM_ASLEEP)
        return false;
    return atomic_compare_exchange_strong_explicit(&t->m->reader, &asleep, EMX_SHM_DOZY, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

void emx_shm_tx_wait(struct emx_shm_tx *t)
{
    atomic_exchange_explicit(&t->m->waits, 1, memory_order_acq_rel);
}

/* ---- The reader ---- */

void emx_shm_rx_init(struct emx_shm_rx *r, struct emx_shm_memory *m)
{
    *r = (struct emx_shm_rx){.m = m};
}

const uint8_t *emx_shm_rx_in_area(const struct emx_shm_rx *r, uint32_t word)
{
    uint32_t len_bytes = word & EMX_SHM_WORD_LEN, place = (word >> 16) * AREA_UNIT;

    if (len_bytes > EMX_SHM_FRAME_BYTES || place + len_bytes > EMX_SHM_AREA_BYTES)
        return NULL;
    emx_shm_fetch(r->m->area + place, 0, len_bytes);
    return r->m->area + place;
}

/* Frame of the slot at i with this word, or false: the word is invalid. */
static bool shm_ring_frame_at(struct emx_shm_rx *r, uint32_t i, uint32_t word, struct emx_rxframe *f)
{
    uint32_t len_bytes = word & EMX_SHM_WORD_LEN;

    f->len_bytes = len_bytes;
    if (len_bytes <= EMX_SHM_INLINE_BYTES) {
        f->data = r->m->slot[i].data;
        emx_shm_fetch(f->data, EMX_SHM_LINE - WORD_BYTES, len_bytes);
        return len_bytes > 0;
    }
    f->data = emx_shm_rx_in_area(r, word);
    if (!f->data)
        return false;
    r->untold_bytes += len_bytes;
    return true;
}

int emx_shm_rx_take(struct emx_shm_rx *r, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    while (n < max) {
        uint32_t i = r->next % EMX_SHM_SLOTS;
        uint32_t word = atomic_load_explicit(&r->m->slot[i].word, memory_order_acquire);

        if ((word & WORD_LAP) != emx_shm_lap(r->next))
            break;
        if (shm_ring_frame_at(r, i, word, &f[n]))
            n++;
        else if (word & EMX_SHM_WORD_LEN)
            return -1;
        else
            r->called = true;
        r->next++;
    }
    return (int)n;
}

bool emx_shm_rx_settle_now(struct emx_shm_rx *r)
{
    r->told = r->next;
    r->untold_bytes = 0;
    atomic_store_explicit(&r->m->taken, r->next, memory_order_release);
    if (!atomic_fetch_or_explicit(&r->m->waits, 0, memory_order_acq_rel))
        return false;
    return atomic_exchange_explicit(&r->m->waits, 0, memory_order_acq_rel) == 1;
}

void emx_shm_rx_state(struct emx_shm_rx *r, enum emx_shm_reader state)
{
    atomic_exchange_explicit(&r->m->reader, state, memory_order_acq_rel);
}
