/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that runs out: the n-th allocation of a node's engine fails, alone or with those after it. Calls may be
 * refused and operations may end with ETHMX_ERR_NO_MEMORY; nothing is lost in silence, nothing hangs, nothing leaks.
 */
#include "base/keyed_hash.h"
#include "scenario.h"

#define FAIL_MAX 200 /* more allocations than a history makes */

static void memfail(struct sim_case *c)
{
    static const unsigned in_a_row[] = {1, 3, 20};
    struct emx_rng rng = {.state = emx_mix64(c->seed / 6 / FAIL_MAX)};
    struct sim_world *w = &c->world;
    struct sim_traffic *t;
    struct sim_mix mix;
    struct sim_node *n;
    const char *why;

    sim_case_begin(c, 2, 1);
    n = &w->nodes[c->seed % 2];
    n->fail_first = 1 + c->seed / 6 % FAIL_MAX;
    n->fail_end = n->fail_first + in_a_row[c->seed / 2 % 3];
    w->reads = c->seed / 6 / FAIL_MAX == 2;
    w->cfg.p_read_min = 1000;
    w->reliable = c->seed / 6 / FAIL_MAX == 3;
    w->brief = c->seed / 6 % 2;
    w->auth = c->seed / 6 / FAIL_MAX == 4 && emx_keyed_hash_usable(&why);
    sim_world_start(w);
    if (!n->engine) { /* it said so, and left nothing behind */
        sim_case_end(c);
        return;
    }
    c->program.no_memory = true;
    c->program.untagged = c->seed / 6 / FAIL_MAX == 1;
    sim_mix_draw(&mix, &rng);
    t = sim_traffic_start(&c->program, &mix, c->seed / 6 / FAIL_MAX);
    sim_traffic_run(t, w->now_ns + 20 * SIM_S);
    sim_traffic_free(t);
    sim_case_end(c);
}

const struct sim_scenario sim_memfail[] = {
    {"memfail", "the n-th allocation fails, for each n, at each of two nodes", memfail, 6 * FAIL_MAX * 5, 0},
    {0},
};
