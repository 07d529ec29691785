/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Gate: memory that several processes change by the processor's atomic instructions, and that its owner sometimes wants
 * to change by plain ones. It lies in memory that all of them have mapped.
 *
 * A visitor enters before each change and leaves after it. The owner closes the gate and looks whether anybody is
 * inside. Both write first and read then, in the one order of all such accesses: so the visitor sees that the gate is
 * closed, or the owner sees the visitor. Nobody waits: a visitor that finds the gate closed goes another way, and so
 * does an owner that finds somebody inside. A visitor that dies inside stays there, so the owner never closes again.
 */
#ifndef EMX_BASE_GATE_H
#define EMX_BASE_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define EMX_GATE_SLOTS 16 /* visitors are counted there, so that few share a line of the cache */
#define EMX_GATE_LOOKS 64 /* of an owner that finds somebody inside */

struct emx_gate {
    _Alignas(64) _Atomic uint32_t closed;
    struct {
        _Alignas(64) _Atomic uint32_t inside;
    } slot[EMX_GATE_SLOTS];
};

static inline void emx_gate_leave(struct emx_gate *g, unsigned slot)
{
    atomic_fetch_sub(&g->slot[slot % EMX_GATE_SLOTS].inside, 1);
}

/* false: it is closed. */
static inline bool emx_gate_enter(struct emx_gate *g, unsigned slot)
{
    atomic_fetch_add(&g->slot[slot % EMX_GATE_SLOTS].inside, 1);
    if (!atomic_load(&g->closed))
        return true;
    emx_gate_leave(g, slot);
    return false;
}

/* ---- The owner, in one thread at a time ---- */

static inline void emx_gate_open(struct emx_gate *g)
{
    if (atomic_load_explicit(&g->closed, memory_order_relaxed))
        atomic_store(&g->closed, 0);
}

/* false: somebody is inside, and it is open. */
static inline bool emx_gate_close(struct emx_gate *g)
{
    unsigned empty = 0;

    atomic_store(&g->closed, 1);
    for (unsigned looks = 0; looks < EMX_GATE_LOOKS && empty < EMX_GATE_SLOTS; looks++)
        while (empty < EMX_GATE_SLOTS && !atomic_load(&g->slot[empty].inside))
            empty++;
    if (empty == EMX_GATE_SLOTS)
        return true;
    emx_gate_open(g);
    return false;
}

#endif
