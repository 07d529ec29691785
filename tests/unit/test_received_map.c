/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "core/engine_impl.h"
#include "core/msg/received_map.h"
#include "core/msg/rndv.h"

#define CHUNK   64u
#define CHUNKS  20u
#define MESSAGE (CHUNK * CHUNKS)

static struct emx_engine e;
static struct emx_rndv r;
static uint8_t message[MESSAGE], fresh[MESSAGE];

static void *no_memory(void *arg, size_t bytes)
{
    (void)arg;
    (void)bytes;
    return NULL;
}

/* Chunks 0 to 11 were requested; of the block from 8 on, 9 and 11 are missing. */
static int prepare(void **state)
{
    (void)state;
    memset(&e, 0, sizeof(e));
    memset(&r, 0, sizeof(r));
    e.alloc = emx_alloc_libc;
    r.chunk_bytes = CHUNK;
    r.got_chunks = 10;
    r.next_chunk = 12;
    r.active = 1;
    r.block = r.own_block;
    r.block[0] = (struct emx_block){.first = 8, .missing = 0xa};
    memset(message, 0, sizeof(message));
    memset(fresh, 1, sizeof(fresh));
    return 0;
}

static int clean(void **state)
{
    struct emx_received_map *had;

    (void)state;
    while ((had = r.had)) {
        r.had = had->next;
        emx_alloc_put(&e.alloc, had);
    }
    return 0;
}

static void write_fresh(uint64_t offset, size_t n)
{
    const struct ethmx_data to = {.base = message, .len_bytes = MESSAGE};

    emx_received_map_write(&to, r.had, offset, fresh + offset, n);
}

static bool written(unsigned from, unsigned until)
{
    for (unsigned i = from; i < until; i++)
        if (!message[i])
            return false;
    return true;
}

static bool untouched(unsigned from, unsigned until)
{
    for (unsigned i = from; i < until; i++)
        if (message[i])
            return false;
    return true;
}

static void writes_all_without_a_map(void **state)
{
    (void)state;
    r.got_chunks = 0;
    assert_true(emx_received_map_add(&e, &r));
    assert_null(r.had);
    write_fresh(10, 100);
    assert_true(untouched(0, 10) && written(10, 110) && untouched(110, MESSAGE));
}

static void writes_what_was_missing(void **state)
{
    (void)state;
    assert_true(emx_received_map_add(&e, &r));
    for (unsigned at = 0; at < MESSAGE; at += 40)
        write_fresh(at, 40);
    assert_true(untouched(0, 9 * CHUNK) && written(9 * CHUNK, 10 * CHUNK));
    assert_true(untouched(10 * CHUNK, 11 * CHUNK) && written(11 * CHUNK, MESSAGE));
}

/* The chunks become shorter twice: what arrived before either time is skipped. */
static void maps_add_up(void **state)
{
    (void)state;
    assert_true(emx_received_map_add(&e, &r));
    r.chunk_bytes = CHUNK / 2;
    r.got_chunks = r.next_chunk = 19; /* the first half of the old chunk 9, too */
    r.active = 0;
    assert_true(emx_received_map_add(&e, &r));
    write_fresh(0, MESSAGE);
    assert_true(untouched(0, 9 * CHUNK + CHUNK / 2) && written(9 * CHUNK + CHUNK / 2, 10 * CHUNK));
    assert_true(untouched(10 * CHUNK, 11 * CHUNK) && written(11 * CHUNK, MESSAGE));
}

static void needs_memory(void **state)
{
    (void)state;
    e.alloc.get = no_memory;
    assert_false(emx_received_map_add(&e, &r));
    assert_null(r.had);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_all_without_a_map, prepare, clean),
        cmocka_unit_test_setup_teardown(writes_what_was_missing, prepare, clean),
        cmocka_unit_test_setup_teardown(maps_add_up, prepare, clean),
        cmocka_unit_test_setup_teardown(needs_memory, prepare, clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
