/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs wire: RDMA devices (RoCE, iWARP, InfiniBand) by libibverbs and librdmacm. verbs.c describes the mechanism.
 * In a build without these libraries open() fails and says so.
 */
#ifndef EMX_WIRE_VERBS_H
#define EMX_WIRE_VERBS_H

#include <netinet/in.h>

#include "mem/regcache.h"
#include "wire/wire.h"

/* Longest frame, the same for all devices: 8 KiB of data and headers. */
#define EMX_VERBS_FRAME_BYTES 8256

/* Types of network. Both ends of a connection must use the same one. */
enum emx_verbs_fabric { EMX_VERBS_ROCE, EMX_VERBS_IWARP, EMX_VERBS_IB, EMX_VERBS_FABRICS };

extern const struct emx_wire_ops emx_wire_verbs;

/* This wire's part of an address: port (2 bytes, little-endian), then 4 bits for each interface of the address: the
 * network of its device. */
#define EMX_VERBS_ADDRESS_PART  5
#define EMX_VERBS_ADDRESS_MIN   3 /* for a first hello: two interfaces */
#define EMX_VERBS_ADDRESS_BYTES (2 + EMX_WIRE_IFS / 2)

struct emx_verbs_address {
    uint16_t port;                /* where it listens (rdma_cm) */
    uint8_t fabric[EMX_WIRE_IFS]; /* of each interface: enum emx_verbs_fabric + 1; 0: no device in use */
};

/* Returns EMX_VERBS_ADDRESS_BYTES. */
unsigned emx_verbs_address_write(const struct emx_verbs_address *told, uint8_t value[EMX_VERBS_ADDRESS_BYTES]);

/* The destination of connect requests: endpoint id and port, from the local address to the remote one. */
struct emx_verbs_way {
    uint32_t id;
    struct in_addr from, to;
    uint16_t port; /* host order */
};

/* Opens a registrar that only registers memory with a real device, for measurements. name: the device; NULL: the first.
 * ETHMX_ERR_PARAM: no such device can be opened; why has a sentence. */
int emx_verbs_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes);
void emx_verbs_registrar_close(struct emx_registrar *r);

/* Prepares a destination. */
void emx_verbs_addr(struct emx_wire_addr *a, const struct emx_verbs_way *way);

/* As in struct emx_wire_ops (verbs_way.c). */
void emx_verbs_ways(struct emx_wire *w, struct emx_way_search *s);

#endif
