/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Received maps: which parts of a message had arrived before its chunks became shorter (pull.c).
 */
#ifndef EMX_CORE_RECEIVED_MAP_H
#define EMX_CORE_RECEIVED_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emx_engine;
struct emx_received_map;
struct emx_rndv;
struct ethmx_data;

/* Records what has arrived. false: no memory. */
bool emx_received_map_add(struct emx_engine *e, struct emx_rndv *r);

/* Writes n bytes at offset of the message. Skips what arrived before in longer chunks, because programs get each byte
 * once. had: may be NULL. */
void emx_received_map_write(const struct ethmx_data *to, const struct emx_received_map *had, uint64_t offset,
                            const uint8_t *data, size_t n);

#endif
