/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/keyed_hash.h"

#include "ethmx_config.h"

#ifdef ETHMX_HAVE_SODIUM

#include <assert.h>
#include <sodium.h>
#include <string.h>

static_assert(crypto_shorthash_KEYBYTES == EMX_KEYED_HASH_BYTES, "key of SipHash");
static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "SipHash");
static_assert(crypto_generichash_KEYBYTES_MIN <= EMX_KEYED_HASH_BYTES, "key of BLAKE2b");

bool emx_keyed_hash_usable(const char **why_p)
{
    *why_p = "libsodium could not be initialized";
    return sodium_init() >= 0;
}

uint64_t emx_keyed_hash(const uint8_t key[EMX_KEYED_HASH_BYTES], const void *data, size_t len_bytes)
{
    uint8_t out[crypto_shorthash_BYTES];
    uint64_t hash;

    crypto_shorthash(out, data, len_bytes, key);
    memcpy(&hash, out, sizeof(hash));
    return hash;
}

void emx_keyed_hash_derive(const uint8_t secret[EMX_KEYED_HASH_BYTES], const void *what, size_t what_bytes, void *out,
                           size_t out_bytes)
{
    crypto_generichash(out, out_bytes, what, what_bytes, secret, EMX_KEYED_HASH_BYTES);
}

#else

#include <stdlib.h>

bool emx_keyed_hash_usable(const char **why_p)
{
    *why_p = "this ethmx was built without libsodium (on Debian: apt-get install libsodium-dev, then build again)";
    return false;
}

uint64_t emx_keyed_hash(const uint8_t key[EMX_KEYED_HASH_BYTES], const void *data, size_t len_bytes)
{
    (void)key, (void)data, (void)len_bytes;
    abort();
}

void emx_keyed_hash_derive(const uint8_t secret[EMX_KEYED_HASH_BYTES], const void *what, size_t what_bytes, void *out,
                           size_t out_bytes)
{
    (void)secret, (void)what, (void)what_bytes, (void)out, (void)out_bytes;
    abort();
}

#endif
