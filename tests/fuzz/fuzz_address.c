/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Addresses from the network: what is accepted is sane, encodes to the same bytes but for those without meaning, and
 * comes back from a peer's packed form.
 */
#include "base/config.h"
#include "fuzz.h"
#include "core/engine.h"

static struct emx_config cfg;
static struct emx_stats stats;

static void remember(const struct emx_address *a, const uint8_t *buf, size_t len_bytes)
{
    struct emx_address self = {.id = 77,
                               .cookie = 5,
                               .host_id = 3,
                               .if_count = 1,
                               .host = "node",
                               .auth = a->auth, /* who has it not is refused */
                               .has_secret = a->auth};
    struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &emx_alloc_libc, .self = &self};
    struct emx_engine *e;
    struct emx_peer *peer, *other;
    char err[256];

    FUZZ_CHECK(emx_engine_create(&p, &e) == ETHMX_OK, "no engine");
    FUZZ_CHECK(emx_engine_peer(e, buf, len_bytes, &peer, err, sizeof(err)) == ETHMX_OK, "%s", err);
    FUZZ_CHECK(!memcmp(emx_peer_address(e, peer), a, sizeof(*a)), "another address comes back");
    self = *a;
    self.id ^= 0x55;
    self.cookie ^= 0x34;
    if (self.id) {
        uint8_t more[ETHMX_ADDRESS_MAX];

        FUZZ_CHECK(!emx_engine_peer(e, more, emx_address_encode(&self, more), &other, err, sizeof(err)), "%s", err);
        FUZZ_CHECK(!memcmp(emx_peer_address(e, other), &self, sizeof(self)), "another address comes back");
    }
    emx_engine_destroy(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    uint8_t *copy = fuzz_copy(data, len_bytes), again[ETHMX_ADDRESS_MAX];
    struct emx_address a, b;
    char err[256] = "";

    if (!cfg.p_window)
        emx_config_defaults(&cfg);
    memset(&a, 0, sizeof(a));
    if (!emx_address_decode(&a, copy, len_bytes, err, sizeof(err))) {
        FUZZ_CHECK(err[0], "refused without a word");
        free(copy);
        return 0;
    }
    FUZZ_CHECK(a.id && a.if_count <= EMX_WIRE_IFS && memchr(a.host, 0, sizeof(a.host)), "not sane");
    memset(&b, 0, sizeof(b));
    FUZZ_CHECK(emx_address_encode(&a, again) == len_bytes, "another length");
    FUZZ_CHECK(emx_address_decode(&b, again, len_bytes, err, sizeof(err)), "refused when encoded again: %s", err);
    FUZZ_CHECK(!memcmp(&a, &b, sizeof(a)), "another address");
    remember(&a, copy, len_bytes);
    free(copy);
    return 0;
}
