/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which interfaces the xdp wire takes, and in what modes.
 */
#include "unit.h"

#include "wire/xdp/xdp_choice.h"

static void one_interface_unless_named(void **state)
{
    const struct emx_netif first = {.chosen = true, .has_mac = true, .rank = 0};
    const struct emx_netif management = {.chosen = true, .has_mac = true, .rank = 1};
    const struct emx_netif other = {.has_mac = true};
    const struct emx_netif tunnel = {.chosen = true};
    const struct emx_netif lo = {.chosen = true, .has_mac = true, .loopback = true};

    (void)state;
    for (unsigned named = 0; named < 2; named++) {
        assert_true(emx_xdp_takes(&first, named));
        assert_int_equal(emx_xdp_takes(&management, named), named);
        assert_false(emx_xdp_takes(&other, named));
        assert_false(emx_xdp_takes(&tunnel, named));
        assert_false(emx_xdp_takes(&lo, named));
    }
}

static void modes_suit_the_kind(void **state)
{
    static const struct {
        const char *kind;
        unsigned wanted, count;
        enum emx_xdp_mode mode[EMX_XDP_MODES];
    } row[] = {
        {"", 0, 3, {EMX_XDP_NATIVE, EMX_XDP_COPY, EMX_XDP_GENERIC}},
        {"", EMX_XDP_COPY + 1, 1, {EMX_XDP_COPY}},
        {"veth", 0, 3, {EMX_XDP_GENERIC, EMX_XDP_NATIVE, EMX_XDP_COPY}},
        {"veth", EMX_XDP_NATIVE + 1, 1, {EMX_XDP_NATIVE}},
        {"bond", 0, 1, {EMX_XDP_GENERIC}},
        {"team", 0, 1, {EMX_XDP_GENERIC}},
        {"bond", EMX_XDP_GENERIC + 1, 1, {EMX_XDP_GENERIC}},
        {"bond", EMX_XDP_NATIVE + 1, 0, {0}},
        {"bond", EMX_XDP_COPY + 1, 0, {0}},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(row); i++) {
        enum emx_xdp_mode mode[EMX_XDP_MODES];

        assert_int_equal(emx_xdp_modes(row[i].kind, row[i].wanted, mode), row[i].count);
        assert_memory_equal(mode, row[i].mode, row[i].count * sizeof(mode[0]));
    }
}

static void chunks_hold_a_frame(void **state)
{
    static const struct {
        const char *driver;
        unsigned frame_bytes, chunk_bytes;
        bool several;
    } row[] = {
        {"virtio_net", 1518, 2048, false}, {"virtio_net", 1790, 2048, false}, {"virtio_net", 1791, 4096, false},
        {"virtio_net", 3838, 4096, false}, {"virtio_net", 3839, 4096, true},  {"", 9018, 4096, true},
        {"igb", 1024, 2048, false},        {"igb", 1025, 4096, false},        {"igc", 1518, 4096, false},
        {"ixgbe", 3072, 4096, false},      {"ixgbe", 3073, 4096, true},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(row); i++) {
        bool several;

        print_message("  %s %u\n", row[i].driver, row[i].frame_bytes);
        assert_int_equal(emx_xdp_chunk_bytes(row[i].driver, row[i].frame_bytes, 258, &several), row[i].chunk_bytes);
        assert_int_equal(several, row[i].several);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_interface_unless_named),
        cmocka_unit_test(modes_suit_the_kind),
        cmocka_unit_test(chunks_hold_a_frame),
    };

    return cmocka_run_group_tests_name("xdp_choice", tests, NULL, NULL);
}
