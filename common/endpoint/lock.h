/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lock: the one lock of an endpoint. The form is chosen when it is initialized: a mutex for programs that call from
 * several threads at once, or a biased lock for the others, which costs the program two plain stores and a load. lock.c
 * has the algorithm and its proof.
 */
#ifndef EMX_ENDPOINT_LOCK_H
#define EMX_ENDPOINT_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct emx_lock {
    bool biased;
    _Atomic uint32_t busy;  /* biased: the program holds the lock; written by the program only */
    _Atomic uint32_t claim; /* biased: CLAIM_*; the helper holds the lock or wants it */
    _Atomic uint32_t mutex; /* MUTEX_* */
};

/* threads: the program calls from several threads at once. helper: a helper thread will use emx_lock_try(). */
void emx_lock_init(struct emx_lock *l, bool threads, bool helper);

/* A helper thread will use emx_lock_try() from now on. false: the kernel does not support it with this lock. */
bool emx_lock_admit_helper(struct emx_lock *l);

/* Slow paths of the functions below. */
void emx_lock_contend(struct emx_lock *l);
void emx_lock_await_helper(struct emx_lock *l);
void emx_lock_wake(struct emx_lock *l);

/* Taking and releasing by the program. */
static inline void emx_lock_take(struct emx_lock *l)
{
    uint32_t is_free = 0;

    if (l->biased) {
        atomic_store_explicit(&l->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        if (__builtin_expect(atomic_load_explicit(&l->claim, memory_order_acquire) != 0, 0))
            emx_lock_await_helper(l);
        return;
    }
    if (!atomic_compare_exchange_strong_explicit(&l->mutex, &is_free, 1, memory_order_acquire, memory_order_relaxed))
        emx_lock_contend(l);
}

static inline void emx_lock_give(struct emx_lock *l)
{
    if (l->biased)
        atomic_store_explicit(&l->busy, 0, memory_order_release);
    else if (atomic_exchange_explicit(&l->mutex, 0, memory_order_release) != 1)
        emx_lock_wake(l);
}

/* Taking and releasing by the helper thread. try: false: the program holds the lock. */
bool emx_lock_try(struct emx_lock *l);
void emx_lock_return(struct emx_lock *l);

/* The helper has the lock and the program waits for it. */
bool emx_lock_wanted(struct emx_lock *l);

#endif
