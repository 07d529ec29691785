/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Address: what an endpoint tells others about itself; the opaque bytes of ethmx_ep_address(). Pure encoding.
 * docs/protocol.md describes each field.
 */
#ifndef EMX_CORE_ADDRESS_H
#define EMX_CORE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ethmx.h"

#define EMX_ADDRESS_VERSION 5
#define EMX_ADDRESS_IFS     6 /* interfaces told to peers */
#define EMX_ADDRESS_HOST    48
#define EMX_ADDRESS_SECRET  16

/* Bits of emx_address.wires; the order is no preference. */
enum emx_address_wire { EMX_AW_PACKET = 1, EMX_AW_UDP = 2, EMX_AW_SHM = 4, EMX_AW_XDP = 8, EMX_AW_VERBS = 16 };

struct emx_address_if {
    uint32_t ip; /* network order; 0: none */
    uint8_t prefix_bits;
    uint8_t mac[6];
    uint16_t frame_bytes; /* longest Ethernet payload */
    uint8_t verbs;        /* its RDMA device speaks this: enum emx_verbs_fabric + 1; 0: it has none in use */
};

struct emx_address {
    uint32_t id;     /* the endpoint's random incarnation number, never 0 */
    uint32_t cookie; /* frames to it must carry this */
    uint64_t host_id;
    uint16_t wires; /* EMX_AW_* that are open */
    uint16_t ethertype;
    uint16_t udp_port;
    uint16_t packet_bytes; /* longest frame its packet ring can hold */
    uint16_t packet_port;  /* UDP port of superframes to its packet wire; 0: it takes none */
    uint16_t xdp_ethertype;
    uint16_t xdp_bytes;  /* longest frame its xdp wire takes */
    uint16_t xdp_port;   /* UDP port of superframes to its xdp wire; 0: it takes none */
    uint8_t xdp_ifs;     /* bit i: the xdp wire listens on ifs[i] */
    uint16_t verbs_port; /* where its verbs wire is called */
    uint8_t if_count;
    struct emx_address_if ifs[EMX_ADDRESS_IFS];
    char host[EMX_ADDRESS_HOST]; /* host name, cut if need be, with a final 0 */
    bool auth;                   /* its frames carry tags (ETHMX_AUTH=on) */
    bool has_secret;             /* this address tells the secret: it comes from the launcher, not from the network */
    uint8_t secret[EMX_ADDRESS_SECRET];
};

/* Writes a to buf (ETHMX_ADDRESS_MAX bytes suffice always) and returns the length. */
size_t emx_address_encode(const struct emx_address *a, uint8_t *buf);

/* The same without the secret, as it may travel in frames. */
size_t emx_address_encode_public(const struct emx_address *a, uint8_t *buf);

/* The same in at most room_bytes: the host name is cut for that, then the last interfaces are left out. Returns 0 if
 * not even one interface fits (of an address that has any). */
size_t emx_address_encode_within(const struct emx_address *a, size_t room_bytes, uint8_t *buf);

/* Reads and checks: version, lengths, counts, id. false and a sentence in err: not a usable address. */
bool emx_address_decode(struct emx_address *a, const void *buf, size_t len_bytes, char *err, size_t err_len_bytes);

/* Writes the endpoint number to its place in an encoded address of ETHMX_ADDRESS_MAX bytes. */
void emx_address_put_id(uint8_t *buf, uint32_t id);

#endif
