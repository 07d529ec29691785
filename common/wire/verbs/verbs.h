/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs wire: RDMA devices (RoCE, iWARP, InfiniBand) by libibverbs and librdmacm. See verbs.c for the mechanism. In
 * a build without them it declines, and says so.
 */
#ifndef EMX_WIRE_VERBS_H
#define EMX_WIRE_VERBS_H

#include <netinet/in.h>

#include "mem/regcache.h"
#include "wire/wire.h"

/* Longest frame, the same for all: who calls need not ask. Eight kilobytes of data and the headers before them. */
#define EMX_VERBS_FRAME_BYTES 8256

extern const struct emx_wire_ops emx_wire_verbs;

/* Where an endpoint is called: its number and port, from our address to its. */
struct emx_verbs_way {
    uint32_t id;
    struct in_addr from, to;
    uint16_t port; /* host order */
};

/* A registrar that registers memory with a real device and does nothing else, for measuring. name: the device's; NULL:
 * the first. ETHMX_ERR_PARAM: there is none that can be opened; why has a sentence. */
int emx_verbs_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes);
void emx_verbs_registrar_close(struct emx_registrar *r);

/* Prepares a destination. */
void emx_verbs_addr(struct emx_wire_addr *a, const struct emx_verbs_way *way);

#endif
