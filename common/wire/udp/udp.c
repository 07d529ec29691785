/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The udp wire: one UDP socket, no privileges, any network that routes IPv4 or IPv6. With IPv6 on a chosen
 * interface the socket is of IPv6, and sends and receives IPv4 as well; otherwise it is of IPv4. udp_tx.c sends,
 * udp_rx.c receives.
 *
 * Datagrams are never fragmented (IPv4: they carry DF). One that is too long for an interface is lost and counted, so
 * that the full-sized probe at connect shows what the path can carry.
 */
#define _GNU_SOURCE
#include "wire/udp/udp.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/busy_poll.h"
#include "wire/netif.h"
#include "wire/udp/udp_wire.h"
#include "wire/way.h"

static_assert(sizeof(struct emx_udp_addr) <= EMX_WIRE_ADDR_BYTES, "udp address");
static_assert(sizeof(struct emx_udp_addr) == sizeof(struct emx_ip) + 8, "no padding: destinations are compared");

void emx_udp_addr(struct emx_wire_addr *a, const struct emx_ip *ip, unsigned scope, uint16_t port)
{
    const struct emx_udp_addr u = {.ip = *ip, .scope = scope, .port = htons(port), .v6 = emx_ip_is_v6(ip)};

    memset(a, 0, sizeof(*a));
    memcpy(a, &u, sizeof(u));
}

/* Whether a chosen interface has IPv6, which peers may know, or the loopback interface has nothing else. */
static bool udp_wants_v6(const struct emx_wire_params *params)
{
    for (unsigned i = 0; i < params->netifs->count; i++) {
        const struct emx_netif *nif = &params->netifs->nif[i];

        if (!emx_ip_is_none(&nif->ip6) && (nif->loopback ? !nif->ip.s_addr : nif->chosen))
            return true;
    }
    return false;
}

/* The longest frame that the interface sends; 0: it has no address. */
static unsigned udp_nif_frame(const struct emx_netif *nif, const struct emx_config *cfg)
{
    const struct emx_ip ip = emx_netif_ip(nif);
    unsigned headers_bytes = emx_ip_is_v4(&ip) ? EMX_IP_UDP_BYTES : EMX_IP6_UDP_BYTES;
    unsigned mtu_bytes = emx_min_u(nif->mtu_bytes, UINT16_MAX);

    if (cfg->p_mtu)
        mtu_bytes = emx_min_u(mtu_bytes, (unsigned)cfg->p_mtu);
    return emx_ip_is_none(&ip) || mtu_bytes < headers_bytes ? 0 : mtu_bytes - headers_bytes;
}

static unsigned udp_longest_frame(const struct emx_wire_params *params)
{
    unsigned longest = 0;

    for (unsigned i = 0; i < params->netifs->count; i++) {
        const struct emx_netif *nif = &params->netifs->nif[i];

        if (nif->chosen)
            longest = (unsigned)emx_max(longest, udp_nif_frame(nif, params->cfg));
    }
    return longest;
}

/* Reads "0", "20000" or "20000-20999". */
static bool udp_parse_ports(const char *text, unsigned *first_p, unsigned *last_p)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10), last = first;

    if (end == text || text[0] == '-')
        return false;
    if (*end == '-' && end[1] >= '0' && end[1] <= '9')
        last = strtoul(end + 1, &end, 10);
    if (*end || last > UINT16_MAX || first > last || (!first && last))
        return false;
    *first_p = (unsigned)first;
    *last_p = (unsigned)last;
    return true;
}

static int udp_bind_port(struct emx_udp_wire *w, const char *ports, char *why, size_t why_len_bytes)
{
    struct emx_udp_addr any = {.port = 0};
    union emx_udp_sockaddr at;
    socklen_t len = 0;
    unsigned first, last;
    int ret = -1;

    if (!udp_parse_ports(ports, &first, &last)) {
        snprintf(why, why_len_bytes, "ETHMX_UDP_PORTS is \"%s\": give 0, a port, or a range such as 20000-20999",
                 ports);
        return ETHMX_ERR_PARAM;
    }
    for (unsigned port = first; port <= last && ret; port++) {
        any.port = htons((uint16_t)port);
        len = emx_udp_sockaddr_of(&any, w->v6, &at);
        ret = bind(w->fd, &at.any, len);
        if (ret && errno != EADDRINUSE)
            break;
    }
    if (ret || getsockname(w->fd, &at.any, &len)) {
        snprintf(why, why_len_bytes, "no UDP port of ETHMX_UDP_PORTS=%s is available (%s): widen the range", ports,
                 strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    any.port = w->v6 ? at.in6.sin6_port : at.in.sin_port;
    w->port = ntohs(any.port);
    emx_udp_conns_init(&w->conns, w->fd, w->v6, any.port);
    return ETHMX_OK;
}

static int udp_open_socket(struct emx_udp_wire *w, const struct emx_wire_params *params, char *why,
                           size_t why_len_bytes)
{
    struct emx_udp_socket s;
    int ret;

    w->v6 = udp_wants_v6(params);
    ret = w->v6 ? emx_udp_socket_open_dual(&s, params, params->cfg->p_ring)
                : emx_udp_socket_open(&s, params, params->cfg->p_ring);
    w->fd = s.fd;
    if (ret) {
        snprintf(why, why_len_bytes, "cannot set up the UDP socket: %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    w->gso = s.gso;
    w->gro = s.gro;
    ret = udp_bind_port(w, params->cfg->p_udp_ports, why, why_len_bytes);
    if (ret)
        return ret;
    snprintf(why, why_len_bytes, "port %u, frames of up to %u bytes, GSO packets %s, receive buffer %u KiB%s%s",
             w->port, w->frame_bytes, w->gso ? w->gro ? "both ways" : "sent" : "not supported", s.rcvbuf_bytes / 1024,
             s.rcvbuf_bytes < params->cfg->p_ring ? " (net.core.rmem_max allows no more: raise it)" : "",
             emx_busy_poll_set(w->fd, params->cfg, false));
    return ETHMX_OK;
}

static bool udp_make_buffers(struct emx_udp_wire *w, const struct emx_placer *placer)
{
    w->tx = malloc(sizeof(*w->tx));
    if (!w->tx || !emx_backlog_init(&w->backlog, w->frame_bytes) || !emx_gso_rx_init(&w->place, placer, w->stats))
        return false;
    for (unsigned i = 0; i < EMX_UDP_BUFFERS; i++) {
        w->buffer[i].data = aligned_alloc(64, (EMX_UDP_BUFFER_BYTES + 63) / 64 * 64);
        if (!w->buffer[i].data)
            return false;
    }
    return true;
}

static void udp_close(struct emx_wire *base)
{
    struct emx_udp_wire *w = (struct emx_udp_wire *)base;

    emx_udp_conns_fini(&w->conns);
    if (w->fd >= 0)
        close(w->fd);
    for (unsigned i = 0; i < EMX_UDP_BUFFERS; i++)
        free(w->buffer[i].data);
    emx_gso_rx_fini(&w->place);
    emx_backlog_fini(&w->backlog);
    free(w->tx);
    free(w);
}

static int udp_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    unsigned frame_bytes = udp_longest_frame(params);
    struct emx_udp_wire *w;
    int ret = ETHMX_ERR_NO_MEMORY;

    if (!frame_bytes) {
        snprintf(why, why_len_bytes,
                 "no interface chosen that has an IP address: name one in ETHMX_IF (ethmx_info lists them; lo "
                 "reaches processes of this host)");
        return ETHMX_ERR_NO_WIRE;
    }
    snprintf(why, why_len_bytes, "out of memory");
    w = calloc(1, sizeof(*w));
    if (!w)
        return ret;
    w->base.ops = &emx_wire_udp;
    w->fd = -1;
    w->stats = params->stats;
    w->frame_bytes = frame_bytes;
    if (udp_make_buffers(w, params->placer))
        ret = udp_open_socket(w, params, why, why_len_bytes);
    if (ret) {
        udp_close(&w->base);
        return ret;
    }
    *w_p = &w->base;
    return ETHMX_OK;
}

static void udp_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct emx_udp_wire *w = (const struct emx_udp_wire *)base;

    *attr_p = (struct emx_wire_attr){.frame_bytes = w->frame_bytes};
}

static unsigned udp_describe(const struct emx_wire *base, const struct emx_way_site *site, uint8_t *value,
                             unsigned *min_p)
{
    (void)site;
    emx_wire_value_put_u16(value, ((const struct emx_udp_wire *)base)->port);
    *min_p = EMX_UDP_PART_BYTES;
    return EMX_UDP_PART_BYTES;
}

static void udp_sweep(struct emx_wire *base)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    emx_udp_conns_sweep(&((struct emx_udp_wire *)base)->conns, now.tv_sec);
}

static int udp_fd(struct emx_wire *base, unsigned i)
{
    return i ? -1 : ((struct emx_udp_wire *)base)->fd;
}

const struct emx_wire_ops emx_wire_udp = {
    .name = "udp",
    .part = EMX_UDP_PART,
    .by_ip = true,
    .help = "UDP over IPv4 or IPv6; needs no privileges and passes routers",
    .open = udp_open,
    .close = udp_close,
    .query = udp_query,
    .describe = udp_describe,
    .ways = emx_udp_ways,
    .tx_room = emx_udp_tx_budget,
    .tx = emx_udp_tx,
    .rx = emx_udp_rx,
    .rx_return = emx_udp_rx_return,
    .fd = udp_fd,
    .sweep = udp_sweep,
};
