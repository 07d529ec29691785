/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The encoded address; numbers are little-endian unless said otherwise.
 *
 *      0        1        2        3
 *  0  | 'x'    | 'M'    | version| if_count|
 *  4  | length of all   | wires            |
 *  8  | id                                 |
 * 12  | cookie                             |
 * 16  | host_id                            |
 * 20  |                                    |
 * 24  | ethertype       | udp_port         |
 * 28  | packet_bytes    | host_bytes| xdp_ifs |
 * 32  | packet_port     | xdp_bytes       |
 * 36  | xdp_ethertype   | auth   | secret_bytes |
 * 40  | if_count interfaces of 14 bytes: ip (4, network order), mac (6), frame_bytes (2), prefix_bits (1), verbs (1)
 *     | host name of host_bytes, no final 0
 *     | secret, if any
 *     | verbs_port (2), if the verbs wire is open
 *     | xdp_port (2), if the xdp wire is open
 *
 * The first four bytes stay what they are in every version, so that each version can name the other.
 */
#include "core/format/address.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define MAGIC_0     'x'
#define MAGIC_1     'M'
#define FIXED_BYTES 40
#define ID_AT       8
#define IF_BYTES    14
#define PORT_BYTES  2

static_assert(FIXED_BYTES + EMX_ADDRESS_IFS * IF_BYTES + EMX_ADDRESS_HOST - 1 + EMX_ADDRESS_SECRET + 2 * PORT_BYTES <=
                  ETHMX_ADDRESS_MAX,
              "address fits");

static uint8_t *put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (; bytes; bytes--, v >>= 8)
        *p++ = (uint8_t)v;
    return p;
}

static uint64_t get(const uint8_t **p, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)(*p)[i] << 8 * i;
    *p += bytes;
    return v;
}

static uint8_t *put_if(uint8_t *p, const struct emx_address_if *i)
{
    memcpy(p, &i->ip, 4);
    memcpy(p + 4, i->mac, 6);
    p = put(p + 10, i->frame_bytes, 2);
    p = put(p, i->prefix_bits, 1);
    return put(p, i->verbs, 1);
}

static void get_if(struct emx_address_if *i, const uint8_t **p)
{
    memcpy(&i->ip, *p, 4);
    memcpy(i->mac, *p + 4, 6);
    *p += 10;
    i->frame_bytes = (uint16_t)get(p, 2);
    i->prefix_bits = (uint8_t)get(p, 1);
    i->verbs = (uint8_t)get(p, 1);
}

static size_t secret_bytes(const struct emx_address *a)
{
    return a->has_secret ? sizeof(a->secret) : 0;
}

/* What follows the host's name. */
static size_t tail_bytes(const struct emx_address *a)
{
    return secret_bytes(a) + (a->wires & EMX_AW_VERBS ? PORT_BYTES : 0) + (a->wires & EMX_AW_XDP ? PORT_BYTES : 0);
}

size_t emx_address_encode(const struct emx_address *a, uint8_t *buf)
{
    size_t host_bytes = strnlen(a->host, sizeof(a->host) - 1);
    unsigned if_count = a->if_count < EMX_ADDRESS_IFS ? a->if_count : EMX_ADDRESS_IFS;
    size_t len_bytes = FIXED_BYTES + if_count * IF_BYTES + host_bytes + tail_bytes(a);
    uint8_t *p = buf;

    p = put(p, MAGIC_0, 1);
    p = put(p, MAGIC_1, 1);
    p = put(p, EMX_ADDRESS_VERSION, 1);
    p = put(p, if_count, 1);
    p = put(p, len_bytes, 2);
    p = put(p, a->wires, 2);
    p = put(p, a->id, 4);
    p = put(p, a->cookie, 4);
    p = put(p, a->host_id, 8);
    p = put(p, a->ethertype, 2);
    p = put(p, a->udp_port, 2);
    p = put(p, a->packet_bytes, 2);
    p = put(p, host_bytes, 1);
    p = put(p, a->xdp_ifs, 1);
    p = put(p, a->packet_port, 2);
    p = put(p, a->xdp_bytes, 2);
    p = put(p, a->xdp_ethertype, 2);
    p = put(p, a->auth, 1);
    p = put(p, secret_bytes(a), 1);
    for (unsigned i = 0; i < if_count; i++)
        p = put_if(p, &a->ifs[i]);
    memcpy(p, a->host, host_bytes);
    p += host_bytes;
    memcpy(p, a->secret, secret_bytes(a));
    p += secret_bytes(a);
    if (a->wires & EMX_AW_VERBS)
        p = put(p, a->verbs_port, PORT_BYTES);
    if (a->wires & EMX_AW_XDP)
        put(p, a->xdp_port, PORT_BYTES);
    return len_bytes;
}

size_t emx_address_encode_public(const struct emx_address *a, uint8_t *buf)
{
    struct emx_address told = *a;

    told.has_secret = false;
    return emx_address_encode(&told, buf);
}

size_t emx_address_encode_within(const struct emx_address *a, size_t room_bytes, uint8_t *buf)
{
    struct emx_address cut = *a;
    size_t room_ifs, room_host;

    if (room_bytes < FIXED_BYTES + (a->if_count > 0) * IF_BYTES + tail_bytes(a))
        return 0;
    room_bytes -= tail_bytes(a);
    room_ifs = (room_bytes - FIXED_BYTES) / IF_BYTES;
    if (room_ifs < cut.if_count) {
        cut.if_count = (uint8_t)room_ifs;
        cut.xdp_ifs &= (uint8_t)((1u << room_ifs) - 1);
    }
    room_host = room_bytes - FIXED_BYTES - cut.if_count * IF_BYTES;
    if (room_host < sizeof(cut.host))
        cut.host[room_host] = 0;
    return emx_address_encode(&cut, buf);
}

void emx_address_put_id(uint8_t *buf, uint32_t id)
{
    put(buf + ID_AT, id, 4);
}

/* The host name goes to terminals: nothing but visible characters. */
static void get_host(char *host, const uint8_t *p, size_t host_bytes)
{
    for (size_t i = 0; i < host_bytes; i++)
        host[i] = p[i] > ' ' && p[i] < 0x7f ? (char)p[i] : '?';
    host[host_bytes] = 0;
}

bool emx_address_decode(struct emx_address *a, const void *buf, size_t len_bytes, char *err, size_t err_len_bytes)
{
    struct emx_address in = {0};
    const uint8_t *p = buf;
    const char *bad;
    size_t want_bytes, host_bytes, told_secret_bytes;
    unsigned version;

    bad = "it is no ethmx address";
    if (len_bytes < 4 || get(&p, 1) != MAGIC_0 || get(&p, 1) != MAGIC_1)
        goto err_say;
    version = (unsigned)get(&p, 1);
    if (version != EMX_ADDRESS_VERSION) {
        snprintf(err, err_len_bytes,
                 "the peer's address is of version %u, this ethmx speaks version %d: use the same ethmx on all hosts",
                 version, EMX_ADDRESS_VERSION);
        return false;
    }
    bad = "it is cut short";
    if (len_bytes < FIXED_BYTES)
        goto err_say;
    in.if_count = (uint8_t)get(&p, 1);
    want_bytes = get(&p, 2);
    in.wires = (uint16_t)get(&p, 2);
    in.id = (uint32_t)get(&p, 4);
    in.cookie = (uint32_t)get(&p, 4);
    in.host_id = get(&p, 8);
    in.ethertype = (uint16_t)get(&p, 2);
    in.udp_port = (uint16_t)get(&p, 2);
    in.packet_bytes = (uint16_t)get(&p, 2);
    host_bytes = get(&p, 1);
    in.xdp_ifs = (uint8_t)get(&p, 1);
    in.packet_port = (uint16_t)get(&p, 2);
    in.xdp_bytes = (uint16_t)get(&p, 2);
    in.xdp_ethertype = (uint16_t)get(&p, 2);
    in.auth = get(&p, 1) & 1;
    told_secret_bytes = get(&p, 1);
    in.has_secret = told_secret_bytes != 0;
    bad = "its secret is not of 16 bytes";
    if (in.has_secret && (told_secret_bytes != sizeof(in.secret) || !in.auth))
        goto err_say;
    bad = "its length is wrong";
    if (want_bytes != len_bytes || in.if_count > EMX_ADDRESS_IFS || host_bytes >= EMX_ADDRESS_HOST ||
        want_bytes != FIXED_BYTES + (size_t)in.if_count * IF_BYTES + host_bytes + tail_bytes(&in))
        goto err_say;
    bad = "its endpoint number is 0";
    if (!in.id)
        goto err_say;
    bad = "an interface has a prefix of more than 32 bits";
    for (unsigned i = 0; i < in.if_count; i++) {
        get_if(&in.ifs[i], &p);
        if (in.ifs[i].prefix_bits > 32)
            goto err_say;
    }
    get_host(in.host, p, host_bytes);
    p += host_bytes;
    memcpy(in.secret, p, secret_bytes(&in));
    p += secret_bytes(&in);
    if (in.wires & EMX_AW_VERBS)
        in.verbs_port = (uint16_t)get(&p, PORT_BYTES);
    if (in.wires & EMX_AW_XDP)
        in.xdp_port = (uint16_t)get(&p, PORT_BYTES);
    *a = in;
    return true;

err_say:
    snprintf(err, err_len_bytes, "not a usable peer address (%zu bytes): %s", len_bytes, bad);
    return false;
}
