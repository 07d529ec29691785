/* SPDX-License-Identifier: BSD-3-Clause
 *
 * CRC-32C (Castagnoli, RFC 3720 appendix B.4), by the processor's instruction where there is one.
 */
#ifndef EMX_BASE_CRC32C_H
#define EMX_BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Continues crc (start with 0) over len_bytes at buf. */
uint32_t emx_crc32c(uint32_t crc, const void *buf, size_t len_bytes);

/* The table version, for machines without the instruction and for tests. */
uint32_t emx_crc32c_table(uint32_t crc, const void *buf, size_t len_bytes);

#endif
