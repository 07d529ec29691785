/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/gso.h"

#include <arpa/inet.h>
#include <netinet/ip.h>
#include <string.h>

#include "wire/ip_header.h"

#define ETH_BYTES    14
#define UDP_BYTES    8
#define IPV6_VERSION 6
#define PROTO_UDP    17
#define ETHTYPE_IPV6 0x86dd

unsigned emx_gso_iov(struct iovec *iov, const struct emx_txframe *f, unsigned n)
{
    unsigned count = 0;

    for (unsigned i = 0; i < n; i++) {
        iov[count++] = (struct iovec){.iov_base = (void *)f[i].head, .iov_len = f[i].head_bytes};
        if (f[i].body_bytes)
            iov[count++] = (struct iovec){.iov_base = (void *)f[i].body, .iov_len = f[i].body_bytes};
    }
    return count;
}

unsigned emx_gso_fit(const struct emx_txframe *f, unsigned n, unsigned most_bytes, bool gso_only)
{
    unsigned len = emx_gso_frame_bytes(f), total = len, count = 1;

    if (len % 4)
        return 1;
    while (count < n && count < EMX_GSO_PARTS) {
        unsigned more = emx_gso_frame_bytes(&f[count]);

        if ((gso_only && !f[count].gso) || f[count].apart || f[count].chunk_bytes || more > len ||
            total + more > most_bytes || (f[count].to != f->to && memcmp(f[count].to, f->to, sizeof(*f->to))))
            break;
        total += more;
        count++;
        if (more < len)
            break;
    }
    return count;
}

/* Writes the IPv6 header before udp_bytes. Returns the sum over its addresses. */
static unsigned gso_put_ipv6(uint8_t *ip, const struct emx_gso_way *way, unsigned udp_bytes)
{
    ip[0] = (uint8_t)(IPV6_VERSION << 4 | way->tos >> 4);
    ip[1] = (uint8_t)(way->tos << 4);
    emx_put_be16(ip + 4, udp_bytes);
    ip[6] = PROTO_UDP;
    ip[7] = EMX_IP_HOPS;
    memcpy(ip + 8, &way->from_ip, EMX_IP_BYTES);
    memcpy(ip + 24, &way->to_ip, EMX_IP_BYTES);
    return emx_ip_sum16(ip + 8, 2 * EMX_IP_BYTES, 0);
}

unsigned emx_gso_head(uint8_t *head, const struct emx_gso_way *way, size_t len_bytes)
{
    const bool v6 = emx_ip_is_v6(&way->to_ip);
    const unsigned head_bytes = emx_gso_head_bytes(v6), udp_bytes = (unsigned)len_bytes + UDP_BYTES;
    uint8_t *ip = head + ETH_BYTES, *udp = head + head_bytes - UDP_BYTES;
    unsigned sum;

    memset(head, 0, head_bytes);
    memcpy(head, way->to_mac, 6);
    memcpy(head + 6, way->from_mac, 6);
    emx_put_be16(head + 12, v6 ? ETHTYPE_IPV6 : EMX_ETHTYPE_IPV4);
    sum = v6 ? gso_put_ipv6(ip, way, udp_bytes)
             : emx_ipv4_put(ip, PROTO_UDP, way->tos, &way->from_ip, &way->to_ip, udp_bytes);
    emx_put_be16(udp, way->from_port);
    emx_put_be16(udp + 2, way->to_port);
    emx_put_be16(udp + 4, udp_bytes);
    emx_put_be16(udp + 6, emx_ip_sum16(udp + 4, 2, sum + PROTO_UDP));
    return head_bytes;
}

/* What the IP header of a packet says. */
struct gso_ip {
    unsigned head_bytes; /* with the UDP header */
    unsigned room_bytes; /* for the UDP header and what follows */
    unsigned tos;
};

static bool gso_read_ipv4(const uint8_t *ip, size_t len_bytes, struct gso_ip *h_p)
{
    if (len_bytes < EMX_GSO_IP_BYTES)
        return false;
    if (!emx_ipv4_is_whole(ip, PROTO_UDP) || emx_get_be16(ip + 2) < EMX_IPV4_BYTES)
        return false;
    *h_p = (struct gso_ip){
        .head_bytes = EMX_GSO_IP_BYTES, .room_bytes = emx_get_be16(ip + 2) - EMX_IPV4_BYTES, .tos = ip[1]};
    return true;
}

/* A fragment has an extension header. */
static bool gso_read_ipv6(const uint8_t *ip, size_t len_bytes, struct gso_ip *h_p)
{
    if (len_bytes < EMX_GSO_IP6_BYTES || ip[0] >> 4 != IPV6_VERSION || ip[6] != PROTO_UDP)
        return false;
    *h_p = (struct gso_ip){
        .head_bytes = EMX_GSO_IP6_BYTES, .room_bytes = emx_get_be16(ip + 4), .tos = (emx_get_be16(ip) >> 4) & 0xff};
    return true;
}

bool emx_gso_open(struct emx_gso *s, const uint8_t *ip, size_t len_bytes, size_t part_bytes)
{
    size_t udp_bytes, payload_bytes, parts;
    struct gso_ip h;

    if (!gso_read_ipv4(ip, len_bytes, &h) && !gso_read_ipv6(ip, len_bytes, &h))
        return false;
    udp_bytes = emx_get_be16(ip + h.head_bytes - UDP_BYTES + 4);
    if (udp_bytes <= UDP_BYTES || udp_bytes > h.room_bytes)
        return false;
    payload_bytes = udp_bytes - UDP_BYTES;
    if (!part_bytes || part_bytes > payload_bytes)
        part_bytes = payload_bytes;
    parts = (payload_bytes + part_bytes - 1) / part_bytes;
    s->marked = IPTOS_ECN(h.tos) == IPTOS_ECN_CE;
    s->at = ip + h.head_bytes;
    s->part_bytes = (uint32_t)part_bytes;
    if (len_bytes - h.head_bytes >= payload_bytes) { /* what follows is padding */
        s->left_bytes = (uint32_t)payload_bytes;
        s->parts = (uint32_t)parts;
    } else {
        s->parts = (uint32_t)((len_bytes - h.head_bytes) / part_bytes);
        s->left_bytes = s->parts * s->part_bytes;
    }
    s->lost = (uint32_t)parts - s->parts;
    return true;
}

void emx_gso_open_frames(struct emx_gso *s, const uint8_t *frames, size_t len_bytes, size_t part_bytes)
{
    if (!part_bytes || part_bytes > len_bytes)
        part_bytes = len_bytes;
    *s = (struct emx_gso){.at = frames, .left_bytes = (uint32_t)len_bytes, .part_bytes = (uint32_t)part_bytes};
    if (len_bytes)
        s->parts = (uint32_t)((len_bytes + part_bytes - 1) / part_bytes);
}

const uint8_t *emx_gso_next(struct emx_gso *s, uint32_t *len_bytes_p)
{
    const uint8_t *frame = s->at;
    uint32_t len_bytes = s->left_bytes < s->part_bytes ? s->left_bytes : s->part_bytes;

    if (!len_bytes)
        return NULL;
    s->at += len_bytes;
    s->left_bytes -= len_bytes;
    *len_bytes_p = len_bytes;
    return frame;
}
