/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The encoded address; numbers are little-endian unless said otherwise.
 *
 *      0        1        2        3
 *  0  | 'x'    | 'M'    | version| counts  |   counts: interfaces (3 bits), auth, secret, parts modulo 8 (3 bits)
 *  4  | id                                 |
 *  8  | cookie                             |
 * 12  | host_id, 6 bytes                   |
 * 18  | secret of 16 bytes, if any
 *     | interfaces (address_if.c)
 *     | parts, up to the end: type (5 bits), length (3 bits; 7: a byte with the length follows), value
 *
 * Part 0, the last, is the host name without a final 0; the others are those of wires. The first three bytes stay what
 * they are in every version, so that each version can name the other.
 */
#include "core/format/address.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/ip.h"
#include "base/min.h"
#include "core/format/address_if.h"

#define MAGIC_0      'x'
#define MAGIC_1      'M'
#define FIXED_BYTES  18
#define ID_AT        4
#define HOST_TYPE    0
#define LENGTH_BITS  3
#define LENGTH_LONG  7 /* or more: in a separate byte */
#define COUNT_IFS    7 /* of the byte of counts */
#define COUNT_AUTH   8
#define COUNT_SECRET 16
#define COUNT_PARTS  5 /* shift */
#define PARTS_MODULO 8

static_assert(EMX_WIRE_IFS <= COUNT_IFS, "count of interfaces");
static_assert(EMX_WIRE_PART_TYPES == (UINT8_MAX >> LENGTH_BITS), "types of parts");
static_assert(FIXED_BYTES + EMX_ADDRESS_SECRET + EMX_ADDRESS_IFS_BYTES + EMX_ADDRESS_PART_BYTES + 2 + EMX_ADDRESS_HOST -
                      1 <=
                  ETHMX_ADDRESS_MAX,
              "address fits");

/* ---- Parts ---- */

/* A part, in its place in the buffer. */
struct address_part {
    unsigned type, len_bytes;
    const uint8_t *value;
    size_t whole_bytes; /* header included */
};

static size_t address_part_head_bytes(unsigned len_bytes)
{
    return len_bytes < LENGTH_LONG ? 1 : 2;
}

static uint8_t *address_put_part(uint8_t *p, unsigned type, const void *value, unsigned len_bytes)
{
    bool is_long = len_bytes >= LENGTH_LONG;

    p = emx_address_put(p, type << LENGTH_BITS | (is_long ? LENGTH_LONG : len_bytes), 1);
    if (is_long)
        p = emx_address_put(p, len_bytes, 1);
    if (len_bytes)
        memcpy(p, value, len_bytes);
    return p + len_bytes;
}

/* Reads the part at p, with room_bytes readable. false: it is truncated, or its length is not in the shortest form. */
static bool address_part_at(const uint8_t *p, size_t room_bytes, struct address_part *part_p)
{
    struct address_part part;
    size_t head_bytes = 1;

    if (!room_bytes)
        return false;
    part.type = p[0] >> LENGTH_BITS;
    part.len_bytes = p[0] & LENGTH_LONG;
    if (part.len_bytes == LENGTH_LONG) {
        head_bytes = 2;
        if (room_bytes < head_bytes || p[1] < LENGTH_LONG)
            return false;
        part.len_bytes = p[1];
    }
    part.value = p + head_bytes;
    part.whole_bytes = head_bytes + part.len_bytes;
    if (part.whole_bytes > room_bytes)
        return false;
    *part_p = part;
    return true;
}

/* Iterates over the parts of a valid address; *at_p is 0 at first. */
static bool address_next_part(const struct emx_address *a, size_t *at_p, struct address_part *part_p)
{
    if (!address_part_at(a->part + *at_p, a->part_bytes - *at_p, part_p))
        return false;
    *at_p += part_p->whole_bytes;
    return true;
}

struct emx_wire_value emx_address_part(const struct emx_address *a, unsigned type)
{
    struct address_part part;
    size_t at = 0;

    while (address_next_part(a, &at, &part)) {
        if (part.type == type)
            return (struct emx_wire_value){.b = part.value, .len_bytes = part.len_bytes};
    }
    return (struct emx_wire_value){.b = NULL};
}

bool emx_address_add_part(struct emx_address *a, unsigned type, const void *value, unsigned len_bytes)
{
    if (len_bytes > UINT8_MAX || a->part_bytes + address_part_head_bytes(len_bytes) + len_bytes > sizeof(a->part))
        return false;
    a->part_bytes = (uint8_t)(address_put_part(a->part + a->part_bytes, type, value, len_bytes) - a->part);
    return true;
}

bool emx_address_parts_agree(const struct emx_address *a, const struct emx_address *b)
{
    struct address_part part;
    size_t at = 0;

    while (address_next_part(a, &at, &part)) {
        struct emx_wire_value other = emx_address_part(b, part.type);

        if (other.b && memcmp(other.b, part.value, emx_min_u(other.len_bytes, part.len_bytes)))
            return false;
    }
    return true;
}

static unsigned address_part_count(const struct emx_address *a)
{
    struct address_part part;
    unsigned n = 0;

    for (size_t at = 0; address_next_part(a, &at, &part);)
        n++;
    return n + (a->host[0] != 0);
}

const char *emx_address_host(const struct emx_address *a, char text[EMX_ADDRESS_HOST])
{
    if (a->host[0])
        return a->host;
    if (a->if_count && !emx_ip_is_none(&a->ifs[0].ip))
        emx_ip_text(&a->ifs[0].ip, text);
    else
        snprintf(text, EMX_ADDRESS_HOST, "%012llx", (unsigned long long)a->host_id);
    return text;
}

/* ---- Encoding ---- */

static size_t address_secret_bytes(const struct emx_address *a)
{
    return a->has_secret ? sizeof(a->secret) : 0;
}

size_t emx_address_encode(const struct emx_address *a, uint8_t *buf)
{
    size_t host_bytes = strnlen(a->host, sizeof(a->host) - 1);
    uint8_t *p = buf;

    p = emx_address_put(p, MAGIC_0, 1);
    p = emx_address_put(p, MAGIC_1, 1);
    p = emx_address_put(p, EMX_ADDRESS_VERSION, 1);
    p = emx_address_put(p,
                        a->if_count | (a->auth ? COUNT_AUTH : 0) | (a->has_secret ? COUNT_SECRET : 0) |
                            address_part_count(a) % PARTS_MODULO << COUNT_PARTS,
                        1);
    p = emx_address_put(p, a->id, 4);
    p = emx_address_put(p, a->cookie, 4);
    p = emx_address_put(p, a->host_id, 6);
    memcpy(p, a->secret, address_secret_bytes(a));
    p += address_secret_bytes(a);
    p = emx_address_if_put_all(p, a);
    memcpy(p, a->part, a->part_bytes);
    p += a->part_bytes;
    if (host_bytes)
        p = address_put_part(p, HOST_TYPE, a->host, (unsigned)host_bytes);
    return (size_t)(p - buf);
}

size_t emx_address_encode_public(const struct emx_address *a, uint8_t *buf)
{
    struct emx_address told = *a;

    told.has_secret = false;
    return emx_address_encode(&told, buf);
}

/* ---- Short addresses for launchers ---- */

/* Forms of a short address, best first. */
struct short_form {
    bool lean; /* without the parts of wires that hellos may carry as well, because another wire reaches the peer by IP
                */
    bool bare; /* only the IPs of interfaces, including the first */
};

static const struct short_form short_forms[] = {{false, false}, {true, false}, {false, true}, {true, true}};

#define SHORT_FORMS     (sizeof(short_forms) / sizeof(short_forms[0]))
#define SHORT_FORMS_MAC 2 /* the first: with the MAC of the first interface */

static bool address_short_fits(const struct emx_address *a, size_t room_bytes)
{
    uint8_t buf[ETHMX_ADDRESS_MAX];

    return emx_address_encode(a, buf) <= room_bytes;
}

/* Whether the wire of this part reaches an interface by its IP alone, and its minimum is the complete value. */
static bool address_short_is_by_ip(const struct emx_address *a, const struct address_part *part)
{
    return a->by_ip >> part->type & 1 && a->min_bytes[part->type] >= part->len_bytes;
}

static bool address_short_has_by_ip(const struct emx_address *a)
{
    struct address_part part;

    for (size_t at = 0; address_next_part(a, &at, &part);) {
        if (address_short_is_by_ip(a, &part))
            return true;
    }
    return false;
}

/* Copies the parts of from to `to`, each cut to what a first hello needs. */
static void address_short_parts(const struct emx_address *from, const struct short_form *form, struct emx_address *to)
{
    struct address_part part;

    to->part_bytes = 0;
    for (size_t at = 0; address_next_part(from, &at, &part);) {
        if (!form->lean || !from->min_bytes[part.type] || address_short_is_by_ip(from, &part))
            emx_address_add_part(to, part.type, part.value, emx_min_u(part.len_bytes, from->min_bytes[part.type]));
    }
}

/* Removes all but the IP, and what makes the encoded IP shorter. */
static void address_if_strip(struct emx_wire_if *i)
{
    if (!emx_ip_is_v6(&i->ip) || i->prefix_bits != 64)
        i->prefix_bits = 0;
    if (!emx_address_if_is_eui64(i))
        memset(i->mac, 0, sizeof(i->mac));
}

/* Adds as many interfaces as fit. If no wire reaches them by IP, each with its MAC. */
static bool address_short_ifs(const struct emx_address *from, const struct short_form *form, size_t room_bytes,
                              struct emx_address *to)
{
    for (unsigned i = 0; i < from->if_count; i++) {
        to->ifs[i].frame_bytes = 0;
        if (!from->by_ip || (!i && !form->bare))
            continue;
        address_if_strip(&to->ifs[i]);
    }
    to->if_count = from->if_count != 0;
    if (!address_short_fits(to, room_bytes))
        return false;
    while (to->if_count < from->if_count) {
        to->if_count++;
        if (!address_short_fits(to, room_bytes)) {
            to->if_count--;
            break;
        }
    }
    return true;
}

/* Adds MACs, with their prefixes, while there is room. */
static void address_short_macs(const struct emx_address *from, size_t room_bytes, struct emx_address *to)
{
    for (unsigned i = 0; i < to->if_count; i++) {
        const struct emx_wire_if before = to->ifs[i];

        to->ifs[i].prefix_bits = from->ifs[i].prefix_bits;
        memcpy(to->ifs[i].mac, from->ifs[i].mac, sizeof(to->ifs[i].mac));
        if (!address_short_fits(to, room_bytes)) {
            to->ifs[i] = before;
            return;
        }
    }
}

/* Adds omitted parts and completes the others, in turn, while there is room. */
static void address_complete_parts(const struct emx_address *from, size_t room_bytes, struct emx_address *to)
{
    const struct emx_address begun = *to;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    size_t left_bytes = room_bytes - emx_address_encode(to, buf);
    struct address_part part;

    to->part_bytes = 0;
    for (size_t at = 0; address_next_part(from, &at, &part);) {
        struct emx_wire_value has = emx_address_part(&begun, part.type);
        unsigned least = has.b ? has.len_bytes : emx_min_u(part.len_bytes, from->min_bytes[part.type]);
        size_t has_bytes = has.b ? address_part_head_bytes(least) + least : 0;
        size_t least_bytes = address_part_head_bytes(least) + least;

        if (part.whole_bytes - has_bytes <= left_bytes) {
            emx_address_add_part(to, part.type, part.value, part.len_bytes);
            left_bytes -= part.whole_bytes - has_bytes;
        } else if (least_bytes - has_bytes <= left_bytes) {
            emx_address_add_part(to, part.type, part.value, least);
            left_bytes -= least_bytes - has_bytes;
        }
    }
}

/* Adds the frame lengths of the first interfaces, while there is room. */
static void address_short_frames(const struct emx_address *from, size_t room_bytes, struct emx_address *to)
{
    for (unsigned i = 0; i < to->if_count; i++) {
        to->ifs[i].frame_bytes = from->ifs[i].frame_bytes;
        if (!address_short_fits(to, room_bytes)) {
            to->ifs[i].frame_bytes = 0;
            return;
        }
    }
}

/* Chooses the first of so many forms with the most networks. false: none fits. */
static bool address_short_search(const struct emx_address *a, unsigned forms, size_t room_bytes,
                                 struct emx_address *told_p)
{
    unsigned networks = emx_address_networks(a), best = 0;
    bool found = false;

    for (unsigned i = 0; i < forms && !(found && best == networks); i++) {
        struct emx_address told = *a;

        told.host[0] = 0;
        address_short_parts(a, &short_forms[i], &told);
        if (!address_short_ifs(a, &short_forms[i], room_bytes, &told) ||
            (found && emx_min_u(told.if_count, networks) <= best))
            continue;
        best = emx_min_u(told.if_count, networks);
        *told_p = told;
        found = true;
    }
    return found;
}

/* Wires that reach an interface by its MAC need its IP only to know the link. So half of an IPv6 address may be made
 * from the MAC, which is shorter. If its prefix takes more than the other half, a link-local address replaces it. */
static void address_short_make_ip(struct emx_wire_if *i)
{
    static const struct emx_ip link_local = {{0xfe, 0x80}};

    if (!emx_ip_is_v6(&i->ip) || !emx_wire_if_has_mac(i))
        return;
    if (i->prefix_bits > 64)
        i->ip = link_local;
    if (i->prefix_bits != 64)
        i->prefix_bits = 0;
    emx_ip_put_eui64(&i->ip, i->mac);
}

/* If nothing fits, an IPv6 address is the reason, and no wire needs it. Then parts may be omitted, too, that hellos
 * carry. */
static bool address_short_choose(const struct emx_address *a, size_t room_bytes, struct emx_address *told_p)
{
    bool by_ip = address_short_has_by_ip(a);
    struct emx_address made = *a;

    if (address_short_search(a, by_ip ? SHORT_FORMS : 1, room_bytes, told_p))
        return true;
    if (by_ip || !a->if_count || !emx_ip_is_v6(&a->ifs[0].ip))
        return false;
    for (unsigned i = 0; i < made.if_count; i++)
        address_short_make_ip(&made.ifs[i]);
    return address_short_search(&made, SHORT_FORMS_MAC, room_bytes, told_p);
}

size_t emx_address_encode_within(const struct emx_address *a, size_t room_bytes, uint8_t *buf)
{
    struct emx_address told;

    if (!address_short_choose(a, room_bytes, &told))
        return 0;
    address_short_macs(a, room_bytes, &told);
    address_complete_parts(a, room_bytes, &told);
    address_short_frames(a, room_bytes, &told);
    return emx_address_encode(&told, buf);
}

void emx_address_put_id(uint8_t *buf, uint32_t id)
{
    emx_address_put(buf + ID_AT, id, 4);
}

/* ---- Decoding ---- */

/* The host name is printed on terminals: only visible characters are accepted. */
static void address_get_host(char *host, const uint8_t *p, size_t host_bytes)
{
    for (size_t i = 0; i < host_bytes; i++)
        host[i] = p[i] > ' ' && p[i] < 0x7f ? (char)p[i] : '?';
    host[host_bytes] = 0;
}

/* Reads the part into a. NULL, or the error. */
static const char *address_take_part(struct emx_address *a, const struct address_part *part)
{
    if (part->type == HOST_TYPE) {
        if (a->host[0] || !part->len_bytes || part->len_bytes >= sizeof(a->host))
            return "its host name is not one of 1 to 47 bytes";
        address_get_host(a->host, part->value, part->len_bytes);
        return NULL;
    }
    if (emx_address_part(a, part->type).b)
        return "a wire has two parts in it";
    if (!emx_address_add_part(a, part->type, part->value, part->len_bytes))
        return "its wires have too much to tell";
    return NULL;
}

/* Reads the parts in room_bytes at p. NULL, or the error. */
static const char *address_take_parts(struct emx_address *a, const uint8_t *p, size_t room_bytes, unsigned count_modulo)
{
    struct address_part part;
    const char *bad = NULL;

    for (; room_bytes && !bad; room_bytes -= part.whole_bytes, p += part.whole_bytes) {
        if (!address_part_at(p, room_bytes, &part))
            return "its length is wrong";
        bad = address_take_part(a, &part);
    }
    if (!bad && address_part_count(a) % PARTS_MODULO != count_modulo)
        bad = "its length is wrong";
    return bad;
}

bool emx_address_decode(struct emx_address *a, const void *buf, size_t len_bytes, char *err, size_t err_len_bytes)
{
    struct emx_address in = {0};
    const uint8_t *p = buf, *end = p + len_bytes;
    const char *bad;
    unsigned version, counts;

    bad = "it is no ethmx address";
    if (len_bytes < 4 || emx_address_get(&p, 1) != MAGIC_0 || emx_address_get(&p, 1) != MAGIC_1)
        goto err_say;
    version = (unsigned)emx_address_get(&p, 1);
    if (version != EMX_ADDRESS_VERSION) {
        snprintf(err, err_len_bytes,
                 "the peer's address is of version %u, this ethmx speaks version %d: use the same ethmx on all hosts",
                 version, EMX_ADDRESS_VERSION);
        return false;
    }
    bad = "it is cut short";
    if (len_bytes < FIXED_BYTES)
        goto err_say;
    counts = (unsigned)emx_address_get(&p, 1);
    in.if_count = counts & COUNT_IFS;
    in.auth = counts & COUNT_AUTH;
    in.has_secret = counts & COUNT_SECRET;
    in.id = (uint32_t)emx_address_get(&p, 4);
    in.cookie = (uint32_t)emx_address_get(&p, 4);
    in.host_id = emx_address_get(&p, 6);
    bad = "it has a secret, but no authentication";
    if (in.has_secret && !in.auth)
        goto err_say;
    bad = "its length is wrong";
    if (in.if_count > EMX_WIRE_IFS || len_bytes > ETHMX_ADDRESS_MAX ||
        len_bytes < FIXED_BYTES + address_secret_bytes(&in))
        goto err_say;
    bad = "its endpoint number is 0";
    if (!in.id)
        goto err_say;
    memcpy(in.secret, p, address_secret_bytes(&in));
    p += address_secret_bytes(&in);
    bad = emx_address_if_get_all(&in, &p, end);
    if (!bad)
        bad = address_take_parts(&in, p, (size_t)(end - p), counts >> COUNT_PARTS);
    if (bad)
        goto err_say;
    *a = in;
    return true;

err_say:
    snprintf(err, err_len_bytes, "not a usable peer address (%zu bytes): %s", len_bytes, bad);
    return false;
}
