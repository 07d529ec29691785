/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Most MPI programs call from one thread at a time. A mutex would cost them two atomic instructions in each call, only
 * to exclude a helper thread that runs rarely. The *biased* lock moves the cost to the helper.
 *
 *     program                          helper
 *     busy = 1                         claim = 1
 *     (compiler barrier)               membarrier()
 *     claim set? wait                  busy set? claim = 0, give up
 *     ... inside ...                   ... inside ...
 *     busy = 0                         claim = 0
 *
 * This is Dekker's algorithm, which needs a full fence between each side's store and its load. membarrier(2) makes the
 * kernel execute one on every processor that runs a thread of this process. When it returns, there are two cases. If
 * the program's busy = 1 came before its fence, the helper sees it and gives up. If it comes after, the program's load
 * comes after too and sees the claim. So the program needs only a compiler barrier.
 *
 * A program that finds a claim resets busy and waits for the helper, which holds the lock for one round of progress. It
 * spins for a moment, then sleeps on claim as a futex. The helper never waits: while the program is inside, the program
 * makes progress itself.
 *
 * The mutex is the three-state futex mutex (free, taken, taken with sleepers), preceded by a short spin. It is also
 * used if membarrier is not available, and under the thread sanitizer, which does not know membarrier.
 */
#include "endpoint/lock.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/pause.h"

#define SPINS 100

enum { CLAIM_NONE, CLAIM_HELPER, CLAIM_AWAITED };
enum { MUTEX_FREE, MUTEX_TAKEN, MUTEX_AWAITED };

#if defined(__SANITIZE_THREAD__)
#define BIAS_ALLOWED 0
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BIAS_ALLOWED 0
#endif
#endif
#ifndef BIAS_ALLOWED
#define BIAS_ALLOWED 1
#endif

static void lock_futex_sleep(_Atomic uint32_t *word, uint32_t while_value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, while_value, NULL, NULL, 0);
}

static void lock_futex_wake_one(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static int lock_membarrier(int command)
{
    return (int)syscall(SYS_membarrier, command, 0, 0);
}

void emx_lock_init(struct emx_lock *l, bool threads, bool helper)
{
    l->biased = BIAS_ALLOWED && !threads && (!helper || !lock_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED));
    atomic_init(&l->busy, 0);
    atomic_init(&l->claim, CLAIM_NONE);
    atomic_init(&l->mutex, MUTEX_FREE);
}

bool emx_lock_admit_helper(struct emx_lock *l)
{
    return !l->biased || !lock_membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

/* ---- The mutex ---- */

static bool lock_mutex_try(struct emx_lock *l)
{
    uint32_t is_free = MUTEX_FREE;

    return atomic_compare_exchange_strong_explicit(&l->mutex, &is_free, MUTEX_TAKEN, memory_order_acquire,
                                                   memory_order_relaxed);
}

void emx_lock_contend(struct emx_lock *l)
{
    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&l->mutex, memory_order_relaxed) == MUTEX_FREE && lock_mutex_try(l))
            return;
        emx_pause();
    }
    while (atomic_exchange_explicit(&l->mutex, MUTEX_AWAITED, memory_order_acquire) != MUTEX_FREE)
        lock_futex_sleep(&l->mutex, MUTEX_AWAITED);
}

void emx_lock_wake(struct emx_lock *l)
{
    lock_futex_wake_one(&l->mutex);
}

/* ---- The biased lock ---- */

static void lock_sleep_on_claim(struct emx_lock *l)
{
    uint32_t seen = CLAIM_HELPER;

    for (int i = 0; i < SPINS; i++) {
        if (atomic_load_explicit(&l->claim, memory_order_relaxed) == CLAIM_NONE)
            return;
        emx_pause();
    }
    if (atomic_compare_exchange_strong(&l->claim, &seen, CLAIM_AWAITED) || seen == CLAIM_AWAITED)
        lock_futex_sleep(&l->claim, CLAIM_AWAITED);
}

void emx_lock_await_helper(struct emx_lock *l)
{
    do {
        atomic_store_explicit(&l->busy, 0, memory_order_release);
        while (atomic_load_explicit(&l->claim, memory_order_acquire) != CLAIM_NONE)
            lock_sleep_on_claim(l);
        atomic_store_explicit(&l->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } while (atomic_load_explicit(&l->claim, memory_order_acquire) != CLAIM_NONE);
}

static void lock_claim_end(struct emx_lock *l)
{
    if (atomic_exchange_explicit(&l->claim, CLAIM_NONE, memory_order_release) == CLAIM_AWAITED)
        lock_futex_wake_one(&l->claim);
}

static bool lock_claim_try(struct emx_lock *l)
{
    if (atomic_load_explicit(&l->busy, memory_order_relaxed))
        return false;
    atomic_store(&l->claim, CLAIM_HELPER);
    if (!lock_membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !atomic_load_explicit(&l->busy, memory_order_acquire))
        return true;
    lock_claim_end(l);
    return false;
}

/* ---- The helper's side of both ---- */

bool emx_lock_try(struct emx_lock *l)
{
    return l->biased ? lock_claim_try(l) : lock_mutex_try(l);
}

void emx_lock_return(struct emx_lock *l)
{
    if (l->biased)
        lock_claim_end(l);
    else
        emx_lock_give(l);
}

bool emx_lock_wanted(struct emx_lock *l)
{
    return l->biased ? atomic_load_explicit(&l->claim, memory_order_relaxed) == CLAIM_AWAITED
                     : atomic_load_explicit(&l->mutex, memory_order_relaxed) == MUTEX_AWAITED;
}
