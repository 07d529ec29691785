/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Progress: when a round looks at the clock and at which wires. What it does with frames, reads and memory is the
 * simulator's to test (tests/sim).
 */
#include "unit.h"

#include <string.h>

#include "base/config.h"
#include "progress/progress.h"

#define FAR_NS   20000 /* between rounds of a program that does other things, too */
#define SWEEP_NS 50000

/* ---- Wires on which nothing ever comes ---- */

struct still_wire {
    struct emx_wire wire;
    struct emx_wire_attr attr;
    unsigned polls, sweeps, peeks;
};

static struct still_wire *still(const struct emx_wire *w)
{
    return (struct still_wire *)(uintptr_t)w;
}

static void still_query(const struct emx_wire *w, struct emx_wire_attr *attr_p)
{
    *attr_p = still(w)->attr;
}

static unsigned still_rx(struct emx_wire *w, struct emx_rxframe *f, unsigned max)
{
    (void)f, (void)max;
    still(w)->polls++;
    return 0;
}

static struct emx_wire_peek still_peek(struct emx_wire *w)
{
    still(w)->peeks++;
    return (struct emx_wire_peek){.data = NULL};
}

static void still_sweep(struct emx_wire *w)
{
    still(w)->sweeps++;
}

static const struct emx_wire_ops dear = {.name = "dear", .query = still_query, .rx = still_rx};
static const struct emx_wire_ops cheap = {.name = "cheap", .query = still_query, .rx = still_rx, .sweep = still_sweep};
static const struct emx_wire_ops shows = {.name = "shows", .query = still_query, .rx = still_rx, .peek = still_peek};

/* ---- An engine without peers over them ---- */

static struct node {
    struct emx_config cfg;
    struct emx_stats stats;
    struct emx_progress progress;
    struct still_wire wire[3];
    uint64_t now_ns;
    unsigned clock_reads;
} node;

static uint64_t read_clock(void *arg)
{
    struct node *n = arg;

    n->clock_reads++;
    return n->now_ns;
}

static void no_events(void *arg, emx_time now)
{
    (void)arg, (void)now;
    fail_msg("an engine without peers has events");
}

static void add(unsigned i, const struct emx_wire_ops *ops)
{
    node.wire[i] = (struct still_wire){.wire = {.ops = ops}, .attr = {.frame_bytes = 1500, .cheap_poll = ops != &dear}};
    emx_links_add(&node.progress.links, ops, &node.wire[i].wire);
}

static void begin(bool cheap_clock)
{
    const struct emx_address self = {.id = 1, .cookie = 2};
    const struct emx_engine_params params = {
        .cfg = &node.cfg, .stats = &node.stats, .alloc = &emx_alloc_libc, .self = &self};

    memset(&node, 0, sizeof(node));
    node.now_ns = 1000000000;
    emx_config_defaults(&node.cfg);
    node.progress.stats = &node.stats;
    node.progress.on_event = no_events;
    assert_int_equal(emx_engine_create(&params, &node.progress.engine), ETHMX_OK);
    emx_clock_drive(&node.progress.clock, read_clock, &node, cheap_clock);
    node.clock_reads = 0;
}

static void end(void)
{
    emx_engine_destroy(node.progress.engine);
}

/* So many rounds, each so long after the one before. */
static void rounds(unsigned n, uint64_t apart_ns)
{
    while (n--) {
        node.now_ns += apart_ns;
        assert_int_equal(emx_progress_round(&node.progress, false, NULL), 0);
    }
}

/* ---- Links ---- */

static void links_are_told_apart(void **state)
{
    const struct emx_links *l = &node.progress.links;

    (void)state;
    begin(true);
    add(0, &dear);
    add(1, &cheap);
    add(2, &shows);
    assert_int_equal(l->count, 3);
    assert_int_equal(l->syscall_poll, 1);
    assert_int_equal(l->cheap, 6);
    assert_int_equal(l->peekable, 4);
    assert_int_equal(l->reliable | l->guarded, 0);
    emx_links_sweep(l);
    assert_int_equal(node.wire[1].sweeps, 1);
    end();
}

/* ---- Rounds ---- */

static void close_rounds_read_every_eighth_time(void **state)
{
    (void)state;
    begin(true);
    add(0, &cheap);
    rounds(1, 0);
    node.clock_reads = 0;
    rounds(80, 100);
    assert_int_equal(node.clock_reads, 10);
    assert_int_equal(node.wire[0].polls, 81);
    end();
}

static void far_rounds_read_each_time_unless_that_is_dear(void **state)
{
    (void)state;
    for (unsigned is_cheap = 0; is_cheap < 2; is_cheap++) {
        begin(is_cheap);
        add(0, &cheap);
        rounds(8, FAR_NS);
        node.clock_reads = 0;
        rounds(80, FAR_NS);
        assert_int_equal(node.clock_reads, is_cheap ? 80 : 10);
        end();
    }
}

/* Without a peer there, a wire that needs a system call waits for the sweep; the only wire of all never does. */
static void dear_wires_wait_for_the_sweep(void **state)
{
    (void)state;
    begin(true);
    add(0, &cheap);
    add(1, &dear);
    rounds(1, SWEEP_NS);
    node.wire[0] = (struct still_wire){.wire = node.wire[0].wire};
    node.wire[1] = (struct still_wire){.wire = node.wire[1].wire};
    rounds(1000, 1000);
    assert_int_equal(node.wire[0].polls, 1000);
    assert_in_range(node.wire[1].polls, 15, 20); /* 1 ms; the clock is read every eighth time */
    assert_int_equal(node.wire[0].sweeps, node.wire[1].polls);
    end();

    begin(true);
    add(0, &dear);
    rounds(100, 100);
    assert_int_equal(node.wire[0].polls, 100);
    end();
}

static void all_wires_on_demand(void **state)
{
    (void)state;
    begin(true);
    add(0, &cheap);
    add(1, &dear);
    rounds(8, 100);
    node.wire[1].polls = node.clock_reads = 0;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(emx_progress_round(&node.progress, true, NULL), 0);
        assert_true(emx_progress_looked_around(&node.progress));
    }
    assert_int_equal(node.wire[1].polls, 10);
    assert_int_equal(node.clock_reads, 10);
    end();
}

/* A program that only waits looks several times where a look is one at memory, unless others want the core. */
static void waiters_look_longer(void **state)
{
    struct emx_op *quick = NULL;

    (void)state;
    begin(true);
    add(0, &shows);
    rounds(8, 100);
    for (unsigned i = 0; i < 4; i++) {
        node.progress.open_ops = i & 1;
        node.progress.oversubscribed = i & 2;
        node.wire[0].peeks = 0;
        emx_progress_round(&node.progress, false, &quick);
        assert_int_equal(node.wire[0].peeks, i == 1 ? 8 : 1);
    }
    assert_null(quick);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_are_told_apart),
        cmocka_unit_test(close_rounds_read_every_eighth_time),
        cmocka_unit_test(far_rounds_read_each_time_unless_that_is_dear),
        cmocka_unit_test(dear_wires_wait_for_the_sweep),
        cmocka_unit_test(all_wires_on_demand),
        cmocka_unit_test(waiters_look_longer),
    };

    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
