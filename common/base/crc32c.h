/* SPDX-License-Identifier: BSD-3-Clause
 *
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4), by the processor's vectors or its instruction where there are such.
 */
#ifndef EMX_BASE_CRC32C_H
#define EMX_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues crc (start with 0) over len_bytes at buf. */
uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes);

/* The same of 32 bytes whose last four count as 0, and then of rest_bytes behind them: of a frame that holds its own
 * checksum there. */
uint32_t emx_crc32c_but(const void *buf, size_t rest_bytes);

/* What is done without vectors, and what without the instruction either: for tests, which know no other machine. */
uint32_t emx_crc32c_instruction(uint32_t crc, const void *buf, size_t len_bytes);
uint32_t emx_crc32c_table(uint32_t crc, const void *buf, size_t len_bytes);

#endif
