/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pack: stores bytes as their difference from similar bytes. Addresses of one job differ in few places, and those of
 * one host in very few. Pure.
 */
#ifndef EMX_CORE_PACK_H
#define EMX_CORE_PACK_H

#include <stddef.h>
#include <stdint.h>

#define EMX_PACK_MAX(len_bytes) (2 + (len_bytes) + (len_bytes) / 15) /* longest packed form */

/* Writes the packed form of data (1 to 256 bytes) to out. Returns its length. */
size_t emx_pack(const uint8_t *base, size_t base_bytes, const uint8_t *data, size_t len_bytes, uint8_t *out);

/* Unpacks with the same base; data has 256 bytes. Returns the length. packed must come from emx_pack(). */
size_t emx_unpack(const uint8_t *base, size_t base_bytes, const uint8_t *packed, size_t packed_bytes, uint8_t *data);

#endif
