/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Peers that are known and silent, as in a large job: what they cost, and that their addresses come back.
 *
 *     test_peer            the tests
 *     test_peer add COUNT  only adds so many peers: to count instructions (valgrind --tool=callgrind)
 */
#include "unit.h"

#include <string.h>

#include "base/config.h"
#include "core/engine.h"

#define BAR_BYTES 128

struct job {
    unsigned peers, per_host, interfaces;
    bool scattered; /* neighbours in rank are on different hosts */
};

/* Parts as of wires: of two ports, and without a value. */
static void add_ports(struct emx_address *a, uint16_t port, uint16_t other_port)
{
    uint8_t value[] = {0x28, 0x23, 0xb5, 0x88, (uint8_t)other_port, (uint8_t)(other_port >> 8)};

    a->part_bytes = 0;
    assert_true(emx_address_add_part(a, 3, NULL, 0));
    assert_true(emx_address_add_part(a, 1, value, sizeof(value)));
    assert_true(emx_address_add_part(a, 2, &port, sizeof(port)));
}

/* Endpoint number of a job, as Linux hosts would have it: random MACs, host names with a number. */
static struct emx_address endpoint(const struct job *job, unsigned number)
{
    unsigned hosts = (job->peers + job->per_host) / job->per_host;
    unsigned host = job->scattered ? number % hosts : number / job->per_host;
    struct emx_address a = {.id = (uint32_t)emx_mix64(number + 1) | 1,
                            .cookie = 0x12345678,
                            .host_id = emx_mix64(host + 1000) & EMX_ADDRESS_HOST_ID_MAX,
                            .if_count = (uint8_t)job->interfaces};

    for (unsigned i = 0; i < job->interfaces; i++) {
        uint64_t mac =
            emx_mix64(host * 16 + i + 1) & ~3u; /* as of virtual interfaces; real ones share their first half */

        a.ifs[i].ip = emx_ip_from_v4(10 + (i << 8) + ((host >> 8 & 255) << 16) + ((host & 255) << 24));
        a.ifs[i].prefix_bits = 16;
        a.ifs[i].frame_bytes = 9000;
        memcpy(a.ifs[i].mac, &mac, 6);
    }
    add_ports(&a, (uint16_t)(32768 + emx_mix64(number) % 28000), (uint16_t)(32768 + emx_mix64(number + 7) % 28000));
    snprintf(a.host, sizeof(a.host), "node%04u.cluster.example.org", host);
    return a;
}

struct fixture {
    struct emx_config cfg;
    struct emx_stats stats;
    struct unit_alloc memory;
    struct emx_engine *engine;
};

static void begin(struct fixture *f, const struct job *job)
{
    struct emx_address self = endpoint(job, 0);
    struct emx_engine_params p = {
        .cfg = &f->cfg, .stats = &f->stats, .alloc = &f->memory.alloc, .self = &self, .seed = 1};

    memset(f, 0, sizeof(*f));
    unit_alloc_init(&f->memory);
    emx_config_defaults(&f->cfg);
    assert_int_equal(emx_engine_create(&p, &f->engine), ETHMX_OK);
}

static void end(struct fixture *f)
{
    emx_engine_destroy(f->engine);
    assert_int_equal(f->memory.live, 0);
}

static struct emx_peer *add(struct fixture *f, const struct job *job, unsigned number)
{
    struct emx_address a = endpoint(job, number);
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_peer *peer = NULL;
    char err[256] = "";

    assert_int_equal(emx_engine_peer(f->engine, buf, emx_address_encode(&a, buf), &peer, err, sizeof(err)), ETHMX_OK);
    return peer;
}

static void expect_address(struct fixture *f, const struct emx_peer *peer, const struct job *job, unsigned number)
{
    struct emx_address a = endpoint(job, number);
    uint8_t want[ETHMX_ADDRESS_MAX], got[ETHMX_ADDRESS_MAX];
    size_t want_bytes = emx_address_encode(&a, want);

    assert_int_equal(emx_address_encode(emx_peer_address(f->engine, peer), got), want_bytes);
    assert_memory_equal(got, want, want_bytes);
}

static const struct job jobs[] = {
    {.peers = 1024, .per_host = 1, .interfaces = 2},
    {.peers = 4096, .per_host = 1, .interfaces = 2},
    {.peers = 4097, .per_host = 1, .interfaces = 2}, /* where the hash has just grown */
    {.peers = 16385, .per_host = 1, .interfaces = 2},
    {.peers = 4096, .per_host = 64, .interfaces = 6},
    {.peers = 4096, .per_host = 16, .interfaces = 2, .scattered = true},
};

static void a_silent_peer_is_small(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(jobs); i++) {
        const struct job *job = &jobs[i];
        struct emx_peer **peer = calloc(job->peers + 1, sizeof(*peer));
        struct fixture f;
        size_t before, bytes;

        assert_non_null(peer);
        begin(&f, job);
        before = emx_engine_memory(f.engine);
        for (unsigned n = 1; n <= job->peers; n++)
            peer[n] = add(&f, job, n);
        bytes = emx_engine_memory(f.engine) - before;
        print_message("%u peers, %u a host%s, %u interfaces: %.1f bytes each\n", job->peers, job->per_host,
                      job->scattered ? " (scattered)" : "", job->interfaces, (double)bytes / job->peers);
        assert_true(bytes < (size_t)job->peers * BAR_BYTES);
        for (unsigned n = 1; n <= job->peers; n++) {
            expect_address(&f, peer[n], job, n);
            assert_ptr_equal(add(&f, job, n), peer[n]);
        }
        end(&f);
        free(peer);
    }
}

/* Addresses that have nothing in common, and the least and the most of everything. */
static bool unlike_each_other(uint64_t seed)
{
    struct emx_rng rng = {seed};
    struct job job = {.peers = 1, .per_host = 1, .interfaces = (unsigned)emx_rng_below(&rng, EMX_WIRE_IFS + 1)};
    struct emx_peer *peer[20];
    struct emx_address a[20];
    struct fixture f;

    begin(&f, &job);
    for (unsigned i = 0; i < ARRAY_LEN(a); i++) {
        uint8_t buf[ETHMX_ADDRESS_MAX];
        char err[256];

        memset(&a[i], 0, sizeof(a[i]));
        a[i].id = (uint32_t)emx_rng_next(&rng) | 1;
        a[i].cookie = (uint32_t)emx_rng_next(&rng);
        a[i].host_id = emx_rng_below(&rng, 3);
        a[i].if_count = (uint8_t)emx_rng_below(&rng, EMX_WIRE_IFS + 1);
        for (unsigned k = 0; k < a[i].if_count; k++)
            a[i].ifs[k].ip = emx_ip_from_v4((uint32_t)emx_rng_next(&rng));
        memset(a[i].host, 'a' + (int)i, (size_t)emx_rng_below(&rng, EMX_ADDRESS_HOST));
        CHECK(!emx_engine_peer(f.engine, buf, emx_address_encode(&a[i], buf), &peer[i], err, sizeof(err)));
    }
    for (unsigned i = 0; i < ARRAY_LEN(a); i++)
        CHECK(!memcmp(emx_peer_address(f.engine, peer[i]), &a[i], sizeof(a[i])));
    end(&f);
    return true;
}

static void any_addresses_come_back(void **state)
{
    (void)state;
    each_seed(1000, unlike_each_other);
}

static void without_memory_nothing_happens(void **state)
{
    static const struct job job = {.peers = 100, .per_host = 1, .interfaces = 2};
    struct emx_address a = endpoint(&job, 1);
    struct emx_peer *peer = NULL;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct fixture f;
    char err[256] = "";

    (void)state;
    begin(&f, &job);
    f.memory.fail_at = f.memory.calls + 1;
    assert_int_equal(emx_engine_peer(f.engine, buf, emx_address_encode(&a, buf), &peer, err, sizeof(err)),
                     ETHMX_ERR_NO_MEMORY);
    assert_true(err[0] && !peer && !f.stats.peers_known);
    f.memory.fail_at = 0;
    expect_address(&f, add(&f, &job, 1), &job, 1);
    end(&f);
}

static int only_add(unsigned count)
{
    struct job job = {.peers = count, .per_host = 1, .interfaces = 2};
    struct fixture f;

    begin(&f, &job);
    for (unsigned n = 1; n <= count; n++)
        add(&f, &job, n);
    end(&f);
    return 0;
}

/* Of two processes with one number the second is refused, with a sentence; the same one is found again. */
static void no_two_are_taken_for_one(void **state)
{
    static const struct job job = {.peers = 10, .per_host = 2, .interfaces = 1};
    struct emx_address a = endpoint(&job, 3), changed[4];
    uint8_t buf[ETHMX_ADDRESS_MAX];
    struct emx_peer *first, *peer;
    struct fixture f;
    char err[256];

    (void)state;
    begin(&f, &job);
    first = add(&f, &job, 3);
    for (unsigned i = 0; i < ARRAY_LEN(changed); i++)
        changed[i] = a;
    changed[0].host_id++;
    changed[1].cookie++;
    add_ports(&changed[2], 1, 2);
    add_ports(&changed[3], 2, 1);
    for (unsigned i = 0; i < ARRAY_LEN(changed); i++) {
        size_t len_bytes = emx_address_encode(&changed[i], buf);

        err[0] = 0;
        assert_int_equal(emx_engine_peer(f.engine, buf, len_bytes, &peer, err, sizeof(err)), ETHMX_ERR_PARAM);
        assert_non_null(strstr(err, "the same number"));
    }
    assert_ptr_equal(add(&f, &job, 3), first);
    assert_int_equal(emx_engine_peer(f.engine, buf, emx_address_encode_within(&a, 64, buf), &peer, err, sizeof(err)),
                     ETHMX_OK);
    assert_ptr_equal(peer, first);
    end(&f);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_peer_is_small),
        cmocka_unit_test(any_addresses_come_back),
        cmocka_unit_test(without_memory_nothing_happens),
        cmocka_unit_test(no_two_are_taken_for_one),
    };

    if (argc == 3 && !strcmp(argv[1], "add"))
        return only_add((unsigned)strtoul(argv[2], NULL, 0));
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
