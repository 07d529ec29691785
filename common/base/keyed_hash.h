/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Keyed: hashes that only who has the key can make, for authentication. libsodium makes them; in a build without it
 * nothing below may be called but emx_keyed_hash_usable().
 */
#ifndef EMX_BASE_KEYED_HASH_H
#define EMX_BASE_KEYED_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_KEYED_HASH_BYTES 16 /* of a key, and of a secret that keys come from */

/* Makes the functions below ready. false: why is a sentence. Thread-safe. */
bool emx_keyed_hash_usable(const char **why_p);

/* SipHash-2-4 of len_bytes at data. */
uint64_t emx_keyed_hash(const uint8_t key[EMX_KEYED_HASH_BYTES], const void *data, size_t len_bytes);

/* Makes out_bytes (16 to 64) of key from a secret, for the purpose that what says: BLAKE2b. Other purposes give keys
 * that have nothing to do with each other. */
void emx_keyed_hash_derive(const uint8_t secret[EMX_KEYED_HASH_BYTES], const void *what, size_t what_bytes, void *out,
                           size_t out_bytes);

#endif
