/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Every subset of the first 12 frames of an exchange is lost, in one direction or the other; from the first hello on
 * (cold) or from the first message on (warm). The frames that repair a loss are lost in their turn.
 */
#include "scenario.h"

#define MASK_BITS 12
#define CASES     (4u << MASK_BITS) /* masks, two directions, cold and warm */

static void begin_mask(struct sim_case *c)
{
    struct sim_link *l = sim_world_link(&c->world, c->seed >> MASK_BITS & 1, !(c->seed >> MASK_BITS & 1), 0);

    l->faults.drop_mask = c->seed & ((1u << MASK_BITS) - 1);
    l->faults.mask_first = l->number;
}

static void play(struct sim_case *c, size_t len_bytes, enum ethmx_send_mode mode, bool late)
{
    struct sim_program *p = &c->program;
    struct sim_node *a, *b;

    sim_case_begin(c, 2, 1);
    sim_world_start(&c->world);
    a = &c->world.nodes[0];
    b = &c->world.nodes[1];
    if (c->seed >> (MASK_BITS + 1) && !sim_connect(c, a, b)) {
        sim_case_end(c);
        return;
    }
    begin_mask(c);
    sim_send(p, a, b->party, 1, len_bytes, mode, SIM_CONTIGUOUS);
    if (!late)
        sim_recv(p, b, a->party, 1, SIM_FULL_MASK, len_bytes, SIM_CONTIGUOUS);
    sim_node_pump(a);
    if (late) {
        sim_world_run_until(&c->world, c->world.now_ns + 3 * SIM_MS);
        sim_recv(p, b, SIM_ANY, 1, 0xff, len_bytes, SIM_CONTIGUOUS);
    }
    sim_node_pump(b);
    if (sim_program_run(p, c->world.now_ns + 10 * SIM_S))
        sim_model_check(p);
    sim_case_end(c);
}

static void small(struct sim_case *c)
{
    play(c, 100, ETHMX_SEND_STANDARD, false);
}

static void medium(struct sim_case *c)
{
    play(c, 8000, ETHMX_SEND_STANDARD, false);
}

static void large(struct sim_case *c)
{
    play(c, 60000, ETHMX_SEND_STANDARD, false);
}

static void synchronous(struct sim_case *c)
{
    play(c, 100, ETHMX_SEND_SYNC, true);
}

const struct sim_scenario sim_masks[] = {
    {"mask-small", "every subset of the first 12 frames lost: a small message", small, CASES, 0},
    {"mask-medium", "the same, a medium message", medium, CASES, 0},
    {"mask-large", "the same, a large message", large, CASES, 0},
    {"mask-sync", "the same, a synchronous message that is received later", synchronous, CASES, 0},
    {0},
};
