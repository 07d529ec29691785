/* SPDX-License-Identifier: BSD-3-Clause
 *
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4). Uses vectors or the CRC instruction if the processor has them, otherwise
 * tables. Thread-safe.
 */
#ifndef EMX_BASE_CRC32C_H
#define EMX_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues crc (start with 0) over len_bytes at buf. */
uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes);

/* CRC of 32 bytes at buf, of which the last 4 count as 0, and of the rest_bytes after them. For a frame whose own
 * checksum is in these 4 bytes. */
uint32_t emx_crc32c_but(const void *buf, size_t rest_bytes);

/* The variants for processors without vectors, and without the CRC instruction. For tests. */
uint32_t emx_crc32c_instruction(uint32_t crc, const void *buf, size_t len_bytes);
uint32_t emx_crc32c_table(uint32_t crc, const void *buf, size_t len_bytes);

#endif
