/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/tso.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/ip.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/min.h"
#include "wire/ip_header.h"

#define ETH_BYTES    14
#define PROTO_TCP    6
#define TCP_LONGEST  0xf0 /* data offset of the longest header */
#define TCP_PSH_ACK  0x18
#define OPTION_EAGER 253 /* the other experimental one */
#define MOST_BYTES   65535
#define CHUNK_LEAST  8
#define MORE_BYTES   (sizeof(struct emx_place_head) - EMX_PLACE_FRAME_BYTES)

/* The options of TCP. */
struct __attribute__((packed, aligned(1))) tso_option {
    uint8_t kind, len_bytes, version;
    uint8_t total_high; /* 0 in data */
    uint8_t ids[12], news[8];
    union {
        uint8_t message[6];
        struct __attribute__((packed, aligned(1))) {
            uint32_t seq; /* of an eager message's first chunk */
            uint16_t total_low;
        };
    };
    uint16_t chunk_bytes;
    uint64_t chunk;
};
static_assert(sizeof(struct tso_option) == EMX_TSO_TCP_BYTES - 20, "options");

static_assert(EMX_TSO_IP_BYTES == EMX_GSO_IP_BYTES + sizeof(struct emx_place_head) + EMX_TSO_MORE_BYTES, "headers");

static void tso_put32(uint8_t *p, uint32_t v)
{
    emx_put_be16(p, v >> 16);
    emx_put_be16(p + 2, v & 0xffff);
}

static uint32_t tso_get32(const uint8_t *p)
{
    return (uint32_t)emx_get_be16(p) << 16 | emx_get_be16(p + 2);
}

/* ---- Sending ---- */

static bool tso_is_eager(const struct emx_place_head *h)
{
    return h->type == EMX_PLACE_EAGER;
}

static unsigned tso_total_bytes(const struct emx_place_head *h)
{
    return (unsigned)h->total_high << 16 | h->total_low;
}

/* Makes the head of chunk i alone, without a checksum; body_bytes of data begin with that chunk. */
static void tso_turn_to(struct emx_place_head *h, int i, unsigned body_bytes)
{
    if (tso_is_eager(h)) {
        h->seq += (uint32_t)i;
        h->index = (uint8_t)(h->index + i);
    } else {
        h->chunk += (uint64_t)(int64_t)i;
    }
    h->body_bytes = (uint16_t)(MORE_BYTES + emx_min_u(body_bytes, h->chunk_bytes));
    h->check = 0;
}

static void tso_seal(struct emx_place_head *h)
{
    if (h->version == EMX_PLACE_MARK_HEADER >> 8)
        h->check = emx_crc32c_but(h, MORE_BYTES);
}

/* Makes the head of the frame with chunk i alone. */
static struct emx_place_head tso_head_of(const struct emx_txframe *f, unsigned i)
{
    struct emx_place_head h;

    memcpy(&h, f->head, sizeof(h));
    tso_turn_to(&h, (int)i, f->body_bytes - i * f->chunk_bytes);
    tso_seal(&h);
    return h;
}

/* Makes the head that all pieces of the packet can make: that of the packet's first chunk, or of the eager message's.
 */
static struct emx_place_head tso_common_head(const struct emx_txframe *f)
{
    struct emx_place_head h;

    memcpy(&h, f->head, sizeof(h));
    if (tso_is_eager(&h))
        tso_turn_to(&h, -h.index, tso_total_bytes(&h));
    else
        tso_turn_to(&h, 0, f->body_bytes);
    tso_seal(&h);
    return h;
}

/* What the TCP sequence number is in the beginning. */
static uint32_t tso_offset(const struct emx_place_head *h)
{
    return tso_is_eager(h) ? (uint32_t)h->index * h->chunk_bytes : 0;
}

unsigned emx_tso_split(struct emx_tso_split *s, const struct emx_txframe *f)
{
    const unsigned n = emx_txframe_chunks(f);

    for (unsigned i = 0; i < n; i++) {
        s->head[i] = tso_head_of(f, i);
        s->f[i] = *f;
        s->f[i].chunk_bytes = 0;
        s->f[i].head = &s->head[i];
        s->f[i].body = (const uint8_t *)f->body + i * f->chunk_bytes;
        s->f[i].body_bytes = (uint16_t)(s->head[i].body_bytes - MORE_BYTES);
        s->f[i].apart = f->apart && !i;
    }
    return n;
}

static void tso_put_option(uint8_t *at, const struct emx_place_head *h)
{
    struct tso_option o = {.kind = tso_is_eager(h) ? OPTION_EAGER : EMX_TSO_DATA_OPTION,
                           .len_bytes = sizeof(o),
                           .version = h->version,
                           .chunk_bytes = h->chunk_bytes,
                           .chunk = h->chunk};

    memcpy(o.ids, h->ids, sizeof(o.ids));
    memcpy(o.news, h->news, sizeof(o.news));
    if (tso_is_eager(h)) {
        o.seq = h->seq;
        o.total_low = h->total_low;
        o.total_high = h->total_high;
    } else {
        memcpy(o.message, h->message, sizeof(o.message));
    }
    memcpy(at, &o, sizeof(o));
}

void emx_tso_head(uint8_t head[EMX_TSO_HEAD_BYTES], const struct emx_gso_way *way, const struct emx_txframe *f)
{
    const struct emx_place_head h = tso_common_head(f);
    const unsigned tcp_bytes = EMX_TSO_TCP_BYTES + (unsigned)f->body_bytes;
    static const struct emx_ip nowhere;
    uint8_t *ip = head + ETH_BYTES, *tcp = ip + EMX_IPV4_BYTES;
    unsigned sum;

    memset(head, 0, EMX_TSO_HEAD_BYTES);
    memcpy(head, way->to_mac, 6);
    memcpy(head + 6, way->from_mac, 6);
    emx_put_be16(head + 12, EMX_ETHTYPE_IPV4);
    sum = emx_ipv4_put(ip, PROTO_TCP, way->tos, &way->from_ip, &nowhere, tcp_bytes);
    emx_put_be16(tcp, way->from_port);
    emx_put_be16(tcp + 2, way->to_port);
    tso_put32(tcp + 4, tso_offset(f->head));
    tso_put32(tcp + 8, h.check);
    tcp[12] = TCP_LONGEST;
    tcp[13] = TCP_PSH_ACK;
    emx_put_be16(tcp + 14, tso_is_eager(&h) ? h.joined : UINT16_MAX); /* the window */
    emx_put_be16(tcp + 16, emx_ip_sum16(tcp, 0, sum + PROTO_TCP + tcp_bytes));
    emx_put_be16(tcp + 18, way->segments); /* the urgent pointer */
    tso_put_option(tcp + 20, &h);
}

/* ---- Receiving ---- */

/* The length of the data; 0: it is no such packet. */
static unsigned tso_data_bytes(const uint8_t *ip)
{
    static const uint8_t nowhere[EMX_IP_V4_BYTES];
    const uint8_t *tcp = ip + EMX_IPV4_BYTES, *option = tcp + 20;
    unsigned ip_bytes = emx_get_be16(ip + 2);

    if (!emx_ipv4_is_whole(ip, PROTO_TCP) || memcmp(ip + 16, nowhere, sizeof(nowhere)) != 0 || tcp[12] != TCP_LONGEST ||
        (option[0] != EMX_TSO_DATA_OPTION && option[0] != OPTION_EAGER) || option[1] != sizeof(struct tso_option))
        return 0;
    return ip_bytes > EMX_TSO_IP_BYTES ? ip_bytes - EMX_TSO_IP_BYTES : 0;
}

/* Makes the head that was common to all pieces; body_bytes: if it is of data, bytes from that chunk on. */
static void tso_make_common(struct emx_place_head *h, const uint8_t *tcp, const struct tso_option *o,
                            unsigned body_bytes)
{
    bool eager = o->kind == OPTION_EAGER;

    *h = (struct emx_place_head){.version = o->version,
                                 .type = eager ? EMX_PLACE_EAGER : EMX_PLACE_DATA,
                                 .chunk_bytes = o->chunk_bytes,
                                 .chunk = o->chunk};
    memcpy(h->ids, o->ids, sizeof(h->ids));
    memcpy(h->news, o->news, sizeof(h->news));
    if (eager) {
        h->seq = o->seq;
        h->total_low = o->total_low;
        h->total_high = o->total_high;
        h->joined = emx_get_be16(tcp + 14);
    } else {
        memcpy(h->message, o->message, sizeof(h->message));
    }
    tso_turn_to(h, 0, eager ? tso_total_bytes(h) : body_bytes);
    h->check = tso_get32(tcp + 8);
}

/* Whether the head is as it was sent. */
static bool tso_is_unhurt(const struct emx_place_head *h)
{
    if (h->version == EMX_PLACE_MARK_OFF >> 8)
        return !h->check;
    return h->version == EMX_PLACE_MARK_HEADER >> 8 && emx_crc32c_but(h, MORE_BYTES) == h->check;
}

/* Whether the data can be a piece of what was sent. */
static bool tso_is_piece(const struct tso_option *o, uint32_t offset, unsigned data_bytes)
{
    uint32_t end = o->kind == OPTION_EAGER ? (uint32_t)o->total_high << 16 | o->total_low : MOST_BYTES + data_bytes;

    return data_bytes && data_bytes <= MOST_BYTES - MORE_BYTES && o->chunk_bytes >= CHUNK_LEAST && offset < end &&
           data_bytes <= end - offset && offset % o->chunk_bytes == 0 &&
           offset / o->chunk_bytes <= (o->kind == OPTION_EAGER ? UINT8_MAX : INT16_MAX) &&
           (o->kind == OPTION_EAGER || !o->total_high);
}

bool emx_tso_open(struct emx_tso *t, const uint8_t *ip)
{
    const uint8_t *tcp = ip + EMX_IPV4_BYTES;
    const unsigned data_bytes = tso_data_bytes(ip);
    uint32_t offset = tso_get32(tcp + 4);
    struct tso_option o;

    memcpy(&o, tcp + 20, sizeof(o));
    if (!tso_is_piece(&o, offset, data_bytes))
        return false;
    tso_make_common(&t->head, tcp, &o, offset ? o.chunk_bytes : data_bytes);
    if (!tso_is_unhurt(&t->head))
        return false;
    t->checked = t->head.version != EMX_PLACE_MARK_OFF >> 8;
    t->head.version = EMX_PLACE_MARK_OFF >> 8;
    tso_turn_to(&t->head, (int)(offset / o.chunk_bytes), data_bytes);
    t->head.body_bytes = (uint16_t)(MORE_BYTES + data_bytes);
    t->data_bytes = data_bytes;
    t->chunks = (data_bytes + o.chunk_bytes - 1) / o.chunk_bytes;
    t->counts = !offset && emx_get_be16(tcp + 18);
    t->marked = IPTOS_ECN(ip[1]) == IPTOS_ECN_CE;
    return true;
}

/* The sum of the Internet checksum in the host's byte order (RFC 1071) over what was added so far. */
struct tso_sum {
    uint64_t sum;
    size_t len_bytes;
};

static void tso_sum_bytes(struct tso_sum *s, const uint8_t *p, size_t len_bytes)
{
    for (; len_bytes; len_bytes--, p++)
        s->sum += (uint64_t)*p << (s->len_bytes++ % 2 * 8);
}

/* Adds 8 bytes at a time: where the card checks nothing, this is done for each piece. */
static void tso_sum_add(struct tso_sum *s, const uint8_t *p, size_t len_bytes)
{
    const size_t odd_bytes = emx_min(s->len_bytes % 2, len_bytes), words = (len_bytes - odd_bytes) / sizeof(uint64_t);
    const uint8_t *end = p + len_bytes, *tail = p + odd_bytes + words * sizeof(uint64_t);

    tso_sum_bytes(s, p, odd_bytes);
    for (p += odd_bytes; p < tail; p += sizeof(uint64_t)) {
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        s->sum += (word & UINT32_MAX) + (word >> 32);
    }
    s->len_bytes += words * sizeof(uint64_t);
    tso_sum_bytes(s, tail, (size_t)(end - tail));
}

bool emx_tso_sum_fits(const uint8_t *ip, const struct iovec *data, unsigned n, size_t data_bytes)
{
    struct tso_sum s = {.sum = htons(PROTO_TCP) + (uint64_t)htons((uint16_t)(EMX_TSO_TCP_BYTES + data_bytes))};

    tso_sum_add(&s, ip + 12, 2 * EMX_IP_V4_BYTES);
    tso_sum_add(&s, ip + EMX_IPV4_BYTES, EMX_TSO_TCP_BYTES);
    for (unsigned i = 0; i < n && data_bytes; i++) {
        size_t len_bytes = emx_min(data[i].iov_len, data_bytes);

        tso_sum_add(&s, data[i].iov_base, len_bytes);
        data_bytes -= len_bytes;
    }
    while (s.sum >> 16)
        s.sum = (s.sum & UINT16_MAX) + (s.sum >> 16);
    return s.sum == UINT16_MAX;
}
