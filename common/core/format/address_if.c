/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An encoded interface: form (6 bits), whether mac and frame_bytes follow (1 bit each); ip, mac (6), frame_bytes (2).
 *
 *     form 0 to 32: ip is IPv4 (4, network order), and the form is prefix_bits
 *     form 33, 34, 35: ip is IPv6 (16); prefix_bits is not told, is 64, is in a byte before ip
 *     form 36, 37, 38: the same, but only 8 bytes of ip follow, and mac makes the others (modified EUI-64)
 *     form 63, once: all that is left is IPv4, and only the ip of each follows
 *
 * There is one encoding of each interface, the shortest; others are refused.
 */
#include "core/format/address_if.h"

#include <stddef.h>
#include <string.h>

#include "base/ip.h"

#define IF_BARE      63 /* as form: only the ips of the rest follow */
#define IF_V6        33 /* form of the first with IPv6, and what is added to it */
#define IF_V6_64     1
#define IF_V6_PREFIX 2
#define IF_V6_EUI64  3
#define IF_V6_END    (IF_V6 + IF_V6_EUI64 + IF_V6_PREFIX + 1)
#define IF_FORM      63 /* of the first byte of an interface */
#define IF_MAC       64
#define IF_FRAME     128
#define MAC_BYTES    6
#define FRAME_BYTES  2

/* Only its IP is encoded. */
static bool address_if_is_bare(const struct emx_wire_if *i)
{
    return !emx_ip_is_v6(&i->ip) && !i->prefix_bits && !i->frame_bytes && !emx_wire_if_has_mac(i);
}

/* Index from which interfaces are encoded as their IP alone: the last ones, if they are two or more. */
static unsigned address_if_bare_from(const struct emx_address *a)
{
    unsigned from = a->if_count;

    while (from && address_if_is_bare(&a->ifs[from - 1]))
        from--;
    return a->if_count - from < 2 ? a->if_count : from;
}

bool emx_address_if_is_eui64(const struct emx_wire_if *i)
{
    return emx_ip_is_v6(&i->ip) && emx_wire_if_has_mac(i) && emx_ip_is_eui64(&i->ip, i->mac);
}

static unsigned address_if_form(const struct emx_wire_if *i)
{
    if (!emx_ip_is_v6(&i->ip))
        return i->prefix_bits;
    return IF_V6 + (emx_address_if_is_eui64(i) ? IF_V6_EUI64 : 0) +
           (i->prefix_bits == 64 ? IF_V6_64
            : i->prefix_bits     ? IF_V6_PREFIX
                                 : 0);
}

static uint8_t *address_if_put_v4(uint8_t *p, const struct emx_ip *ip)
{
    memcpy(p, &ip->b[EMX_IP_V4_AT], EMX_IP_V4_BYTES);
    return p + EMX_IP_V4_BYTES;
}

static uint8_t *address_if_put_v6(uint8_t *p, const struct emx_wire_if *i)
{
    unsigned bytes = emx_address_if_is_eui64(i) ? EMX_IP_BYTES / 2 : EMX_IP_BYTES;

    if (i->prefix_bits && i->prefix_bits != 64)
        p = emx_address_put(p, i->prefix_bits, 1);
    memcpy(p, i->ip.b, bytes);
    return p + bytes;
}

static uint8_t *address_if_put(uint8_t *p, const struct emx_wire_if *i)
{
    p = emx_address_put(
        p, address_if_form(i) | (emx_wire_if_has_mac(i) ? IF_MAC : 0u) | (i->frame_bytes ? IF_FRAME : 0u), 1);
    p = emx_ip_is_v6(&i->ip) ? address_if_put_v6(p, i) : address_if_put_v4(p, &i->ip);
    if (emx_wire_if_has_mac(i)) {
        memcpy(p, i->mac, MAC_BYTES);
        p += MAC_BYTES;
    }
    return i->frame_bytes ? emx_address_put(p, i->frame_bytes, FRAME_BYTES) : p;
}

uint8_t *emx_address_if_put_all(uint8_t *p, const struct emx_address *a)
{
    unsigned bare = address_if_bare_from(a);

    for (unsigned i = 0; i < bare; i++)
        p = address_if_put(p, &a->ifs[i]);
    if (bare < a->if_count)
        p = emx_address_put(p, IF_BARE, 1);
    for (unsigned i = bare; i < a->if_count; i++)
        p = address_if_put_v4(p, &a->ifs[i].ip);
    return p;
}

bool emx_address_add_if(struct emx_address *a, const struct emx_wire_if *i)
{
    uint8_t buf[ETHMX_ADDRESS_MAX];

    if (a->if_count == EMX_WIRE_IFS)
        return false;
    a->ifs[a->if_count++] = *i;
    if (emx_address_if_put_all(buf, a) - buf <= EMX_ADDRESS_IFS_BYTES)
        return true;
    memset(&a->ifs[--a->if_count], 0, sizeof(a->ifs[0]));
    return false;
}

static struct emx_ip address_if_get_v4(const uint8_t **p)
{
    uint32_t v4;

    memcpy(&v4, *p, sizeof(v4));
    *p += sizeof(v4);
    return emx_ip_from_v4(v4);
}

/* Bytes of an interface behind the first, without mac and frame_bytes. */
static unsigned address_if_form_bytes(unsigned form)
{
    unsigned v6 = form - IF_V6;

    if (form < IF_V6)
        return EMX_IP_V4_BYTES;
    return v6 >= IF_V6_EUI64 ? EMX_IP_BYTES / 2 + (v6 - IF_V6_EUI64 == IF_V6_PREFIX)
                             : EMX_IP_BYTES + (v6 == IF_V6_PREFIX);
}

/* Reads prefix_bits and ip, of which mac may have to make half. */
static void address_if_get_v6(struct emx_wire_if *i, unsigned form, const uint8_t **p)
{
    unsigned v6 = form - IF_V6, prefix = v6 % IF_V6_EUI64, bytes = v6 < IF_V6_EUI64 ? EMX_IP_BYTES : EMX_IP_BYTES / 2;

    i->prefix_bits = prefix == IF_V6_64 ? 64 : prefix == IF_V6_PREFIX ? (uint8_t)emx_address_get(p, 1) : 0;
    memcpy(i->ip.b, *p, bytes);
    *p += bytes;
}

/* What is wrong with an interface that was read, with this first byte; NULL: nothing. */
static const char *address_if_fault(const struct emx_wire_if *i, unsigned first)
{
    unsigned form = first & IF_FORM;

    if ((first & IF_MAC && !emx_wire_if_has_mac(i)) || (first & IF_FRAME && !i->frame_bytes))
        return "an interface tells nothing where it should";
    if (form < IF_V6)
        return NULL;
    if (i->prefix_bits > 128)
        return "an interface has a prefix of more than 128 bits";
    if (!emx_ip_is_v6(&i->ip))
        return "an interface has no IPv6 address where it should";
    return address_if_form(i) == form ? NULL : "its interfaces are not in the shortest form";
}

/* Reads the interface at *p_p, which ends before end. NULL: *p_p points behind it. Otherwise the error. */
static const char *address_if_get(struct emx_wire_if *i, const uint8_t **p_p, const uint8_t *end)
{
    const uint8_t *p = *p_p;
    unsigned first, form;

    if (p == end)
        return "its length is wrong";
    first = (unsigned)emx_address_get(&p, 1);
    form = first & IF_FORM;
    if (form >= IF_V6_END)
        return "an interface has a form that does not exist";
    if (end - p < (ptrdiff_t)address_if_form_bytes(form))
        return "its length is wrong";
    if (form < IF_V6) {
        i->prefix_bits = (uint8_t)form;
        i->ip = address_if_get_v4(&p);
    } else {
        address_if_get_v6(i, form, &p);
    }
    if (end - p < (first & IF_MAC ? MAC_BYTES : 0) + (first & IF_FRAME ? FRAME_BYTES : 0))
        return "its length is wrong";
    if (first & IF_MAC) {
        memcpy(i->mac, p, MAC_BYTES);
        p += MAC_BYTES;
    }
    if (first & IF_FRAME)
        i->frame_bytes = (uint16_t)emx_address_get(&p, FRAME_BYTES);
    if (form >= IF_V6 + IF_V6_EUI64 && first & IF_MAC)
        emx_ip_put_eui64(&i->ip, i->mac);
    *p_p = p;
    return address_if_fault(i, first);
}

const char *emx_address_if_get_all(struct emx_address *a, const uint8_t **p_p, const uint8_t *end)
{
    const uint8_t *begin = *p_p;
    unsigned i = 0, bare;
    const char *bad = NULL;

    for (; !bad && i < a->if_count && !(*p_p < end && **p_p == IF_BARE); i++)
        bad = address_if_get(&a->ifs[i], p_p, end);
    if (bad)
        return bad;
    bare = i;
    if (bare < a->if_count) {
        ++*p_p;
        if (end - *p_p < (ptrdiff_t)(a->if_count - bare) * EMX_IP_V4_BYTES)
            return "its length is wrong";
    }
    for (; i < a->if_count; i++)
        a->ifs[i].ip = address_if_get_v4(p_p);
    if (*p_p - begin > EMX_ADDRESS_IFS_BYTES)
        return "its interfaces have too much to tell";
    return bare == address_if_bare_from(a) ? NULL : "its interfaces are not in the shortest form";
}

unsigned emx_address_networks(const struct emx_address *a)
{
    unsigned n = 0;

    for (; n < a->if_count && !emx_ip_is_none(&a->ifs[n].ip); n++) {
        if (n && emx_ip_is_v6(&a->ifs[n].ip) && emx_ip_is_v4(&a->ifs[0].ip))
            return n;
        for (unsigned i = 0; i < n; i++) {
            if (a->ifs[n].prefix_bits == a->ifs[i].prefix_bits &&
                emx_ip_same_network(&a->ifs[n].ip, &a->ifs[i].ip, a->ifs[n].prefix_bits))
                return n;
        }
    }
    return n;
}
