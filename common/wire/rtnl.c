/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads the kernel's interfaces, addresses and routes by rtnetlink. Needs no privilege, /sys or /proc.
 */
#include <errno.h>
#include <libmnl/libmnl.h>
#include <net/if_arp.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/netif_sys.h"

#define REPLY_BYTES 32768 /* what the kernel fills at once; one link's attributes must fit */
#define DUMP_TRIES  10    /* a dump is repeated when interfaces changed meanwhile */

/* An address outside this host's networks (RFC 5737, RFC 3849). Its route is the default route. */
#define OUTSIDE  "203.0.113.1"
#define OUTSIDE6 "2001:db8:ffff:ffff::1"

/* All interfaces of the host. emx_netifs gets the most important ones. */
struct all {
    struct emx_netif *nif;
    unsigned count, room;
    const struct emx_config *cfg;
    bool no_memory;
};

/* Sends one request and calls fn for each message of the answer. 0, or -1 and errno. */
static int rtnl_ask(struct nlmsghdr *request, mnl_cb_t fn, void *arg)
{
    struct mnl_socket *s = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    char *reply = malloc(REPLY_BYTES);
    int ret = -1, err;

    if (!s || !reply || mnl_socket_bind(s, 0, MNL_SOCKET_AUTOPID) < 0 ||
        mnl_socket_sendto(s, request, request->nlmsg_len) < 0)
        goto out;
    do {
        ssize_t len = mnl_socket_recvfrom(s, reply, REPLY_BYTES);

        ret = len < 0 ? -1 : mnl_cb_run(reply, (size_t)len, request->nlmsg_seq, mnl_socket_get_portid(s), fn, arg);
    } while (ret > MNL_CB_STOP);
out:
    err = errno;
    free(reply);
    if (s)
        mnl_socket_close(s);
    errno = err;
    return ret < 0 ? -1 : 0;
}

/* The kind of a link, IFLA_INFO_KIND inside IFLA_LINKINFO. */
static void rtnl_read_kind(struct emx_netif *nif, const struct nlattr *linkinfo)
{
    const struct nlattr *a;

    mnl_attr_for_each_nested(a, linkinfo)
    {
        if (mnl_attr_get_type(a) == IFLA_INFO_KIND)
            snprintf(nif->kind, sizeof(nif->kind), "%s", mnl_attr_get_str(a));
    }
}

static void rtnl_read_link_attr(struct emx_netif *nif, const struct nlattr *a, bool ethernet)
{
    switch (mnl_attr_get_type(a)) {
    case IFLA_IFNAME:
        snprintf(nif->name, sizeof(nif->name), "%s", mnl_attr_get_str(a));
        break;
    case IFLA_MTU:
        nif->mtu_bytes = mnl_attr_get_u32(a);
        break;
    case IFLA_MASTER:
        nif->master_index = mnl_attr_get_u32(a);
        break;
    case IFLA_LINKINFO:
        rtnl_read_kind(nif, a);
        break;
    case IFLA_ADDRESS:
        if (ethernet && mnl_attr_get_payload_len(a) == sizeof(nif->mac)) {
            memcpy(nif->mac, mnl_attr_get_payload(a), sizeof(nif->mac));
            nif->has_mac = true;
        }
        break;
    default:
        break;
    }
}

static int rtnl_on_link(const struct nlmsghdr *nlh, void *arg)
{
    const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
    bool ethernet = ifi->ifi_type == ARPHRD_ETHER || ifi->ifi_type == ARPHRD_LOOPBACK;
    struct all *all = arg;
    struct emx_netif *nif;
    const struct nlattr *a;

    if (all->count == all->room) {
        unsigned room = all->room ? 2 * all->room : EMX_NETIF_MAX;

        nif = realloc(all->nif, room * sizeof(*nif));
        if (!nif) {
            all->no_memory = true;
            return MNL_CB_STOP;
        }
        all->nif = nif;
        all->room = room;
    }
    nif = &all->nif[all->count++];
    memset(nif, 0, sizeof(*nif));
    nif->index = (unsigned)ifi->ifi_index;
    nif->up = (ifi->ifi_flags & IFF_UP) && (ifi->ifi_flags & IFF_RUNNING);
    nif->loopback = ifi->ifi_flags & IFF_LOOPBACK;
    mnl_attr_for_each(a, nlh, sizeof(*ifi)) rtnl_read_link_attr(nif, a, ethernet);
    return MNL_CB_OK;
}

/* An address of an interface, as the kernel tells it. */
struct rtnl_address {
    struct emx_ip ip;
    unsigned prefix_bits;
    uint32_t flags; /* IFA_F_... */
};

/* Reads an address of either family into ip. */
static void rtnl_read_ip(const struct nlattr *a, unsigned char family, struct emx_ip *ip)
{
    uint32_t v4;

    if (family == AF_INET && mnl_attr_get_payload_len(a) >= sizeof(v4)) {
        memcpy(&v4, mnl_attr_get_payload(a), sizeof(v4));
        *ip = emx_ip_from_v4(v4);
    } else if (family == AF_INET6 && mnl_attr_get_payload_len(a) >= sizeof(*ip)) {
        memcpy(ip, mnl_attr_get_payload(a), sizeof(*ip));
    }
}

static struct rtnl_address rtnl_read_address(const struct nlmsghdr *nlh)
{
    const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
    struct rtnl_address found = {.prefix_bits = ifa->ifa_prefixlen, .flags = ifa->ifa_flags};
    struct emx_ip local = {{0}}, address = {{0}};
    const struct nlattr *a;

    mnl_attr_for_each(a, nlh, sizeof(*ifa))
    {
        if (mnl_attr_get_type(a) == IFA_LOCAL)
            rtnl_read_ip(a, ifa->ifa_family, &local);
        else if (mnl_attr_get_type(a) == IFA_ADDRESS)
            rtnl_read_ip(a, ifa->ifa_family, &address);
        else if (mnl_attr_get_type(a) == IFA_FLAGS && mnl_attr_get_payload_len(a) >= sizeof(found.flags))
            found.flags = mnl_attr_get_u32(a); /* more bits than ifa_flags has */
    }
    found.ip = emx_ip_is_none(&local) ? address : local;
    return found;
}

/* How good an address of IPv6 is: best is one that ETHMX_IF asks for, worst one that others cannot reach without a
 * scope. */
static unsigned rtnl_worth_v6(const struct emx_config *cfg, const struct emx_netif *nif, const struct emx_ip *ip)
{
    if (emx_ip_is_none(ip))
        return 0;
    if (emx_netif_is_asked(cfg, nif, ip))
        return 3;
    return emx_ip_is_link_local6(ip) ? 1 : 2;
}

/* An address of IPv6 that is not for good, or not this host's alone, is not chosen. */
static void rtnl_take_v6(const struct emx_config *cfg, struct emx_netif *nif, const struct rtnl_address *a)
{
    if (a->flags & IFA_F_DADFAILED)
        nif->duplicate6 = true;
    if (a->flags & (IFA_F_TEMPORARY | IFA_F_DEPRECATED | IFA_F_TENTATIVE | IFA_F_DADFAILED))
        return;
    if (rtnl_worth_v6(cfg, nif, &a->ip) <= rtnl_worth_v6(cfg, nif, &nif->ip6))
        return;
    nif->ip6 = a->ip;
    nif->prefix6_bits = a->prefix_bits;
}

static void rtnl_take_address(const struct emx_config *cfg, struct emx_netif *nif, const struct rtnl_address *a)
{
    if (emx_ip_is_v6(&a->ip)) {
        rtnl_take_v6(cfg, nif, a);
    } else if (!nif->ip.s_addr) {
        nif->ip.s_addr = emx_ip_v4(&a->ip);
        nif->prefix_bits = a->prefix_bits;
    }
}

/* Beside IPv4, a link-local address of IPv6 reaches nothing more, unless ETHMX_IF asks for it. */
static void rtnl_drop_spare(struct all *all)
{
    for (unsigned i = 0; i < all->count; i++) {
        struct emx_netif *nif = &all->nif[i];

        if (nif->ip.s_addr && emx_ip_is_link_local6(&nif->ip6) && !emx_netif_is_asked(all->cfg, nif, &nif->ip6))
            nif->ip6 = (struct emx_ip){{0}};
    }
}

static int rtnl_on_address(const struct nlmsghdr *nlh, void *arg)
{
    const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
    const struct rtnl_address a = rtnl_read_address(nlh);
    struct all *all = arg;

    for (unsigned i = 0; i < all->count; i++)
        if (all->nif[i].index == ifa->ifa_index)
            rtnl_take_address(all->cfg, &all->nif[i], &a);
    return MNL_CB_OK;
}

static int rtnl_dump_links(mnl_cb_t fn, void *arg)
{
    char buf[256];
    struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
    struct ifinfomsg *ifi;

    nlh->nlmsg_type = RTM_GETLINK;
    nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    nlh->nlmsg_seq = 1;
    ifi = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifi));
    ifi->ifi_family = AF_UNSPEC;
    mnl_attr_put_u32(nlh, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    return rtnl_ask(nlh, fn, arg);
}

static int rtnl_dump_addresses(mnl_cb_t fn, void *arg)
{
    char buf[256];
    struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
    struct ifaddrmsg *ifa;

    nlh->nlmsg_type = RTM_GETADDR;
    nlh->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    nlh->nlmsg_seq = 1;
    ifa = mnl_nlmsg_put_extra_header(nlh, sizeof(*ifa));
    ifa->ifa_family = AF_UNSPEC;
    return rtnl_ask(nlh, fn, arg);
}

/* Reads links and addresses, again if they changed meanwhile. begin: forgets what was read. */
static int rtnl_dump(void (*begin)(void *arg), mnl_cb_t on_link, mnl_cb_t on_address, void *arg)
{
    int ret = -1;

    for (unsigned i = 0; i < DUMP_TRIES && ret; i++) {
        begin(arg);
        ret = rtnl_dump_links(on_link, arg);
        if (!ret)
            ret = rtnl_dump_addresses(on_address, arg);
        if (ret && errno != EINTR)
            break;
    }
    return ret;
}

static void rtnl_begin_all(void *arg)
{
    ((struct all *)arg)->count = 0;
}

/* The order in which interfaces are kept if there are more than the table holds: lower first. */
static unsigned rtnl_rank(const struct emx_netif *nif, const char *named)
{
    if (nif->loopback || strstr(named, nif->name))
        return 0;
    if ((nif->ip.s_addr || !emx_ip_is_none(&nif->ip6)) && nif->up)
        return 1;
    return nif->kind[0] ? 3 : 2;
}

static int rtnl_by_index(const void *a, const void *b)
{
    unsigned i = ((const struct emx_netif *)a)->index, j = ((const struct emx_netif *)b)->index;

    return (i > j) - (i < j);
}

static void rtnl_keep_important(struct emx_netifs *n, const struct all *all, const char *named)
{
    n->count = 0;
    n->loopback_index = 0;
    for (unsigned level = 0; level < 4; level++)
        for (unsigned i = 0; i < all->count && n->count < EMX_NETIF_MAX; i++)
            if (rtnl_rank(&all->nif[i], named) == level)
                n->nif[n->count++] = all->nif[i];
    qsort(n->nif, n->count, sizeof(n->nif[0]), rtnl_by_index);
    for (unsigned i = 0; i < n->count; i++)
        if (n->nif[i].loopback && n->nif[i].up && !n->loopback_index)
            n->loopback_index = n->nif[i].index;
}

/* ---- States of known interfaces ---- */

struct states {
    const struct emx_netifs *n;
    const struct emx_config *cfg;
    struct emx_netif_state *state;
};

static void rtnl_begin_states(void *arg)
{
    const struct states *s = arg;

    memset(s->state, 0, s->n->count * sizeof(*s->state));
}

static int rtnl_on_state_link(const struct nlmsghdr *nlh, void *arg)
{
    const struct ifinfomsg *ifi = mnl_nlmsg_get_payload(nlh);
    bool ethernet = ifi->ifi_type == ARPHRD_ETHER;
    const struct states *s = arg;
    struct emx_netif nif = {.index = (unsigned)ifi->ifi_index};
    const struct nlattr *a;

    mnl_attr_for_each(a, nlh, sizeof(*ifi)) rtnl_read_link_attr(&nif, a, ethernet);
    for (unsigned i = 0; i < s->n->count; i++)
        if (!strcmp(s->n->nif[i].name, nif.name))
            s->state[i] = (struct emx_netif_state){
                .nif = nif, .up = ifi->ifi_flags & IFF_UP, .running = ifi->ifi_flags & IFF_RUNNING};
    return MNL_CB_OK;
}

static int rtnl_on_state_address(const struct nlmsghdr *nlh, void *arg)
{
    const struct ifaddrmsg *ifa = mnl_nlmsg_get_payload(nlh);
    const struct rtnl_address a = rtnl_read_address(nlh);
    const bool usable = !(a.flags & (IFA_F_TENTATIVE | IFA_F_DADFAILED));
    const struct states *s = arg;

    for (unsigned i = 0; i < s->n->count; i++) {
        const struct emx_ip ip = emx_ip_from_v4(s->n->nif[i].ip.s_addr);

        if (s->state[i].nif.index != ifa->ifa_index)
            continue;
        s->state[i].has4 |= usable && emx_ip_equal(&ip, &a.ip);
        s->state[i].has6 |= usable && emx_ip_equal(&s->n->nif[i].ip6, &a.ip);
        rtnl_take_address(s->cfg, &s->state[i].nif, &a);
    }
    return MNL_CB_OK;
}

bool emx_netifs_look(const struct emx_netifs *n, const struct emx_config *cfg,
                     struct emx_netif_state state[EMX_NETIF_MAX])
{
    struct states s = {.n = n, .cfg = cfg, .state = state};

    return !rtnl_dump(rtnl_begin_states, rtnl_on_state_link, rtnl_on_state_address, &s);
}

/* ---- Routes ---- */

struct route {
    unsigned index;
    bool gateway;
    bool usable;
};

static int rtnl_on_route(const struct nlmsghdr *nlh, void *arg)
{
    const struct rtmsg *rtm = mnl_nlmsg_get_payload(nlh);
    struct route *r = arg;
    const struct nlattr *a;

    r->usable = rtm->rtm_type == RTN_UNICAST || rtm->rtm_type == RTN_LOCAL;
    mnl_attr_for_each(a, nlh, sizeof(*rtm))
    {
        if (mnl_attr_get_type(a) == RTA_OIF)
            r->index = mnl_attr_get_u32(a);
        else if (mnl_attr_get_type(a) == RTA_GATEWAY || mnl_attr_get_type(a) == RTA_VIA)
            r->gateway = true;
    }
    return MNL_CB_STOP;
}

unsigned emx_netif_route(const struct emx_ip *ip, bool *on_link_p)
{
    char buf[256];
    struct nlmsghdr *nlh = mnl_nlmsg_put_header(buf);
    struct rtmsg *rtm;
    struct route r = {0};

    nlh->nlmsg_type = RTM_GETROUTE;
    nlh->nlmsg_flags = NLM_F_REQUEST;
    nlh->nlmsg_seq = 1;
    rtm = mnl_nlmsg_put_extra_header(nlh, sizeof(*rtm));
    rtm->rtm_family = emx_ip_is_v6(ip) ? AF_INET6 : AF_INET;
    rtm->rtm_dst_len = (unsigned char)emx_ip_prefix_max(ip);
    if (emx_ip_is_v6(ip))
        mnl_attr_put(nlh, RTA_DST, sizeof(*ip), ip);
    else
        mnl_attr_put_u32(nlh, RTA_DST, emx_ip_v4(ip));
    if (rtnl_ask(nlh, rtnl_on_route, &r) || !r.usable)
        return 0;
    *on_link_p = !r.gateway;
    return r.index;
}

/* The interface of the route to ip; for an address of this host, the interface that has it. 0: none. */
static unsigned rtnl_route_interface(const struct emx_netifs *n, const struct emx_ip *ip)
{
    bool on_link;
    unsigned index;

    for (unsigned i = 0; i < n->count; i++) {
        const struct emx_netif *nif = &n->nif[i];
        const struct emx_ip v4 = emx_ip_from_v4(nif->ip.s_addr);

        if (!nif->loopback && (emx_ip_equal(&v4, ip) || emx_ip_equal(&nif->ip6, ip)))
            return nif->index;
    }
    index = emx_netif_route(ip, &on_link);
    return index == n->loopback_index ? 0 : index;
}

/* reach: an address or a host name. false: cannot be resolved. */
static bool rtnl_resolve(const char *reach, struct emx_ip *ip_p)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *found;
    const struct sockaddr_in6 *in6;
    const struct sockaddr_in *in;

    if (!reach || !reach[0])
        return false;
    if (emx_ip_parse(ip_p, reach))
        return true;
    if (getaddrinfo(reach, NULL, &hints, &found))
        return false;
    in = (const void *)found->ai_addr;
    in6 = (const void *)found->ai_addr;
    if (found->ai_family == AF_INET)
        *ip_p = emx_ip_from_v4(in->sin_addr.s_addr);
    else
        memcpy(ip_p, &in6->sin6_addr, sizeof(*ip_p));
    freeaddrinfo(found);
    return true;
}

int emx_netifs_read(struct emx_netifs *n, const struct emx_config *cfg, const char *reach, char *err,
                    size_t err_len_bytes)
{
    struct all all = {.cfg = cfg};
    struct emx_ip ip;
    unsigned route_index = 0;

    memset(n, 0, sizeof(*n));
    if (rtnl_dump(rtnl_begin_all, rtnl_on_link, rtnl_on_address, &all) || all.no_memory) {
        snprintf(err, err_len_bytes, "the kernel does not tell its network interfaces (rtnetlink): %s",
                 all.no_memory ? "out of memory" : strerror(errno));
        free(all.nif);
        return all.no_memory ? ETHMX_ERR_NO_MEMORY : ETHMX_ERR_NO_WIRE;
    }
    rtnl_drop_spare(&all);
    rtnl_keep_important(n, &all, cfg->p_if);
    free(all.nif);
    emx_netif_sys_read(n, EMX_SYSFS);
    if (rtnl_resolve(reach, &ip))
        route_index = rtnl_route_interface(n, &ip);
    if (!route_index && emx_ip_parse(&ip, OUTSIDE))
        route_index = rtnl_route_interface(n, &ip);
    if (!route_index && emx_ip_parse(&ip, OUTSIDE6))
        route_index = rtnl_route_interface(n, &ip);
    return emx_netifs_choose(n, cfg, route_index, err, err_len_bytes);
}
