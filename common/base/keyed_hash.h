/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Keyed hashes, for authentication: only the owner of the key can compute them. Uses libsodium; in a build without it
 * only emx_keyed_hash_usable() may be called.
 */
#ifndef EMX_BASE_KEYED_HASH_H
#define EMX_BASE_KEYED_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_KEYED_HASH_BYTES 16 /* of a key, and of a secret that keys come from */

/* Initializes the functions below. false: *why_p is a sentence with the reason. Thread-safe. */
bool emx_keyed_hash_usable(const char **why_p);

/* SipHash-2-4 of len_bytes at data. */
uint64_t emx_keyed_hash(const uint8_t key[EMX_KEYED_HASH_BYTES], const void *data, size_t len_bytes);

/* Derives out_bytes (16 to 64) of key from a secret for the purpose what, by BLAKE2b. Keys of different purposes are
 * independent. */
void emx_keyed_hash_derive(const uint8_t secret[EMX_KEYED_HASH_BYTES], const void *what, size_t what_bytes, void *out,
                           size_t out_bytes);

#endif
