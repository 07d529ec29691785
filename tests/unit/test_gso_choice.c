/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The choice between places and the ring, by the times that sending takes.
 */
#include "unit.h"

#include "wire/gso_choice.h"

#define LEN 60000

/* Sends n packets; returns how many of them went to the ring. Every fifth takes long, as on a shared processor. */
static unsigned send(struct emx_gso_choice *c, unsigned n, unsigned place_ns, unsigned ring_ns)
{
    unsigned ring = 0;

    for (unsigned i = 0; i < n; i++) {
        bool to_ring = emx_gso_choice_is_ring(c);

        ring += to_ring;
        emx_gso_choice_sent(c, i % 5 ? (to_ring ? ring_ns : place_ns) : 1000000, LEN);
    }
    return ring;
}

static void places_are_used_where_they_are_not_slower(void **state)
{
    struct emx_gso_choice c = {0};

    (void)state;
    assert_in_range(send(&c, 256, 6000, 7000), 0, 0);
    assert_in_range(send(&c, 10000, 6000, 7000), 1, 50);
    assert_in_range(send(&c, 10000, 6000, 5500), 0, 0); /* too little is gained */
    assert_in_range(send(&c, 10000, 8000, 5000), 0, 0); /* not much slower than when they were compared */
}

static void ring_is_used_where_places_are_slow(void **state)
{
    struct emx_gso_choice c = {0};

    (void)state;
    assert_in_range(send(&c, 10000, 16000, 8000), 9400, 9740);
}

static void changes_are_found(void **state)
{
    struct emx_gso_choice c = {0};

    (void)state;
    send(&c, 1000, 6000, 8000);
    assert_in_range(send(&c, 1000, 16000, 8000), 850, 990);
    assert_in_range(send(&c, 5000, 6000, 8000), 0, 2500);
    assert_in_range(send(&c, 5000, 6000, 8000), 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_used_where_they_are_not_slower),
        cmocka_unit_test(ring_is_used_where_places_are_slow),
        cmocka_unit_test(changes_are_found),
    };

    return cmocka_run_group_tests_name("GSO choice", tests, NULL, NULL);
}
