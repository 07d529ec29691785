/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Layout. A ring has slots of 18 cache lines. The first 4 bytes of a slot, its *word*, say that a frame is there, how
 * long it is and where: a frame of up to 1,148 bytes lies in the slot itself. So a frame of up to 60 bytes moves one
 * cache line from the writer's core to the reader's, which had been polling that very line, and those that follow it
 * can be fetched together with it. Longer frames lie in the *area*, a ring of bytes, contiguous in units of 64, so
 * that they can be used in place; but the reader learns their place from the word only, one journey between
 * cores later. So slots are long enough for most small messages.
 *
 * Fetching. Lines that the reader had last must come back to the writer before it can write them. It asks for those of
 * the next frame, supposed to be as long as this one, right after this one, while it has nothing to wait for; not for
 * the next word's, which the reader polls.
 *
 *     word, bits 0-14: length; 0: no frame, look at the split; 15: lap; 16-31: place in the area / 64
 *
 * The lap bit turns with each lap: set in the first, clear in the second. All slots are written in each lap, so the bit
 * alone tells a new frame from the one of the lap before, and the reader need not clear anything. The reader tells in
 * `taken` how far it has come: after a quarter of the slots or 16 KiB of the area, and when nothing is left after a
 * frame of the area. What it has not told yet is always less than that; so a writer waiting for room gets some when the
 * reader has read all there is.
 *
 * The area takes three messages of 128 KiB before anybody reads: ranks that exchange such first send, then receive. A
 * writer whose reader keeps up uses the first 64 KiB only, so pages for the rest are there only for those that need
 * them (shm_ring_use_dedicated()).
 *
 * Order. The writer stores the word last (release), the reader loads it first (acquire). The reader has done with the
 * data when it stores taken (release), the writer loads it (acquire) before it writes there again.
 *
 * Waking. A reader that sleeps must be woken, a reader that polls should not cost the writer anything, and no frame may
 * slip in between. The reader says in `reader` what it does, and has three ways to be:
 *   DOZY    The writer stores the word W, then looks at `reader` with an atomic read-modify-write (fetch_or 0). The
 *           reader sets ASLEEP with an exchange, then looks at W. Both are read-modify-writes of one word, so one comes
 *           first. The writer's second: it sees ASLEEP and wakes. The reader's second: it acquires what the writer
 *           released, and sees W.
 *   AWAKE   The writer stores W and only loads `reader`. The processor may do the load first; so a reader that was
 *           AWAKE sets ASLEEP and then has membarrier(2) run a barrier on every processor where a thread of another
 *           registered process runs. A writer's load that came before that barrier has its store before it too, and the
 *           reader, looking afterwards, sees W. A load after it sees ASLEEP. (A writer that could not register is
 *           `careful`: it goes the DOZY way always.)
 *   ASLEEP  The writer that turns ASLEEP to DOZY wakes the reader: once for each sleep.
 * A read-modify-write costs the writer several times as much as a load; membarrier(2) costs the reader far more, but
 * once for each sleep only. So a reader becomes AWAKE when it has not slept for a while, and stays DOZY while it sleeps
 * often (shm_in.c).
 *
 * A writer that waits for room and sleeps does the same the other way round with `waits` and `taken`, DOZY always:
 * taken is told seldom.
 *
 * A writer that ends in the middle of a frame has not stored its word: the frame is not there.
 *
 * Why one ring for each pair. One queue for all senders, or one word with a bit for each ring, makes an idle poll
 * cheaper where there are many ranks, but a stream of messages several times slower, because the writers share a cache
 * line. Rings also win the round trip if few of them are polled. So a poll looks at the few that had frames last, and
 * at some of the others in turn (shm_in.c). In a queue of many writers, one that is descheduled or killed between
 * taking its slot and filling it stops all others; a ring concerns its pair only.
 */
#include "wire/shm/shm_ring.h"

#include <assert.h>
#include <string.h>

#define AREA_UNIT  64u
#define OWN_BYTES  2048u /* fetched ahead by the writer */
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

/* Looks how far the reader is. It may say anything: only sensible numbers count. */
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

/* Begins again at the beginning of the area when the reader has taken all that lay in it. What it keeps up with so
 * takes few pages, and stays in caches. */
static void shm_ring_use_dedicated(struct emx_shm_tx *t)
{
    if (t->area_next % EMX_SHM_AREA_BYTES < EMX_SHM_DEDICATED_BYTES)
        return;
    if (t->area_taken != t->area_next)
        shm_ring_refresh(t);
    if (t->area_taken == t->area_next)
        t->area_taken = t->area_next += EMX_SHM_AREA_BYTES - t->area_next % EMX_SHM_AREA_BYTES;
}

/* Whether so many bytes more than now may be given out. */
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

/* Fetches what the next frame will probably be written to, while nobody waits for it. Not the line with the next word:
 * the reader polls that one. */
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
