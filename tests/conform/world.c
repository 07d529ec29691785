/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "../unit/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "world.h"

#include "wire/ethernet.h"

/* The choice is made already; the xdp wire takes what is named, all of it. */
#define INTERFACES "eth0,eth1"

#define WORK_MS 10 /* between two rounds of ends that wait for each other */

struct host world_a = {.ip = "10.88.0.1", .ip6 = "fd88::1", .link6 = "fe80::88:1", .interfaces = INTERFACES};
struct host world_b = {.ip = "10.88.0.2", .ip6 = "fd88::2", .link6 = "fe80::88:2", .interfaces = INTERFACES};
struct host world_c = {.interfaces = INTERFACES};

static void host_part_families(struct host *h)
{
    h->netifs6 = h->netifs;
    for (unsigned i = 0; i < h->netifs.count; i++) {
        h->netifs.nif[i].ip6 = (struct emx_ip){{0}};
        h->netifs6.nif[i].ip.s_addr = 0;
    }
}

void world_init(char *const paths[3])
{
    struct host *hosts[] = {&world_a, &world_b, &world_c};

    for (unsigned i = 0; i < ARRAY_LEN(hosts); i++) {
        struct host *h = hosts[i];
        char err[1024];

        h->ns_fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        assert_true(h->ns_fd >= 0);
        assert_int_equal(host_read_netifs(h, &h->netifs, "", NULL, err, sizeof(err)), ETHMX_OK);
        host_part_families(h);
        if (h == &world_c)
            continue;
        h->eth0_index = netifs_find(&h->netifs, "eth0")->index;
        memcpy(h->mac, netifs_find(&h->netifs, "eth0")->mac, sizeof(h->mac));
    }
}

void world_init_interfaces(char *const names[2])
{
    static char ip[2][INET_ADDRSTRLEN];
    struct host *hosts[] = {&world_a, &world_b};

    for (unsigned i = 0; i < ARRAY_LEN(hosts); i++) {
        struct host *h = hosts[i];
        char err[1024];

        h->ns_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        assert_true(h->ns_fd >= 0);
        h->interfaces = names[i];
        if (host_read_netifs(h, &h->netifs, names[i], NULL, err, sizeof(err)))
            fail_msg("%s", err);
        h->ip = inet_ntop(AF_INET, &netifs_find(&h->netifs, names[i])->ip, ip[i], sizeof(ip[i]));
    }
}

void host_enter(const struct host *h)
{
    assert_int_equal(setns(h->ns_fd, CLONE_NEWNET), 0);
}

static void eth0_ioctl(const struct host *h, unsigned long request, struct ifreq *ifr)
{
    int fd;

    host_enter(h);
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    snprintf(ifr->ifr_name, sizeof(ifr->ifr_name), "eth0");
    assert_int_equal(ioctl(fd, request, ifr), 0);
    close(fd);
}

void host_set_up(const struct host *h, bool up)
{
    struct ifreq ifr = {0};

    eth0_ioctl(h, SIOCGIFFLAGS, &ifr);
    ifr.ifr_flags = (short)(up ? ifr.ifr_flags | IFF_UP : ifr.ifr_flags & ~IFF_UP);
    eth0_ioctl(h, SIOCSIFFLAGS, &ifr);
}

void host_set_ip(const struct host *h, const char *ip)
{
    struct sockaddr_in sin = {.sin_family = AF_INET};
    struct ifreq ifr = {0};

    assert_int_equal(inet_pton(AF_INET, ip, &sin.sin_addr), 1);
    memcpy(&ifr.ifr_addr, &sin, sizeof(sin));
    eth0_ioctl(h, SIOCSIFADDR, &ifr);
    sin.sin_addr.s_addr = htonl(0xffffff00);
    memcpy(&ifr.ifr_netmask, &sin, sizeof(sin));
    eth0_ioctl(h, SIOCSIFNETMASK, &ifr);
}

void host_set_mtu(const struct host *h, unsigned mtu_bytes)
{
    struct ifreq ifr = {.ifr_mtu = (int)mtu_bytes};

    eth0_ioctl(h, SIOCSIFMTU, &ifr);
}

unsigned host_mtu(const struct host *h)
{
    return emx_netif_by_index(&h->netifs, h->eth0_index)->mtu_bytes;
}

const struct emx_netif *netifs_find(const struct emx_netifs *n, const char *name)
{
    for (unsigned i = 0; i < n->count; i++)
        if (!strcmp(n->nif[i].name, name))
            return &n->nif[i];
    fail_msg("no interface %s", name);
    return NULL;
}

int host_read_netifs(const struct host *h, struct emx_netifs *n, const char *named, const char *reach, char *err,
                     size_t err_len_bytes)
{
    struct ethmx_config cfg;

    emx_config_defaults(&cfg);
    snprintf(cfg.p_if, sizeof(cfg.p_if), "%s", named);
    host_enter(h);
    return emx_netifs_read(n, &cfg, reach, err, err_len_bytes);
}

unsigned host_packet_sockets(const struct host *h)
{
    char line[256];
    unsigned lines = 0;
    FILE *f;

    host_enter(h);
    f = fopen("/proc/thread-self/net/packet", "re");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        lines++;
    fclose(f);
    return lines - 1;
}

void end_init(struct end *e, const struct host *h, const struct emx_wire_ops *ops, uint32_t id)
{
    memset(e, 0, sizeof(*e));
    emx_config_defaults(&e->cfg);
    snprintf(e->cfg.p_if, sizeof(e->cfg.p_if), "%s", h->interfaces);
    e->cfg.p_connect_timeout = WAIT_MS * 900000ull; /* no wire gives an end up because the machine is slow */
    e->cfg.p_peer_timeout = 10 * e->cfg.p_connect_timeout;
    e->cfg.p_verbs_ack_timeout = 500000000;
    e->cfg.p_reg_min = 1; /* measure no costs */
    e->host = h;
    e->ops = ops;
    e->id = id;
}

/* ---- How two ends of a wire meet ---- */

/* The IP address of an end, for the other; on one host loopback's. */
static struct emx_ip ip_between(const struct end *e, const struct end *other)
{
    bool same = e->host == other->host;
    struct emx_ip ip;

    assert_true(emx_ip_parse(&ip, e->scoped ? e->host->link6
                                  : e->v6   ? same ? "::1" : e->host->ip6
                                  : same    ? "127.0.0.1"
                                            : e->host->ip));
    return ip;
}

static void port_told(struct end *e, const struct emx_wire_value *value)
{
    e->port = emx_wire_value_u16(value->b);
}

static void ethernet_told(struct end *e, const struct emx_wire_value *value)
{
    struct emx_ethernet_part part;

    if (emx_ethernet_part_read(value, &part)) {
        e->gso_port = part.gso_port;
        e->udp_port = part.udp_port;
        e->tso = part.tso;
    }
}

static void xdp_told(struct end *e, const struct emx_wire_value *value)
{
    ethernet_told(e, &(struct emx_wire_value){.b = value->b + EMX_XDP_PART_MIN,
                                              .len_bytes = value->len_bytes - EMX_XDP_PART_MIN});
}

static void shm_way(struct emx_wire_addr *a, const struct end *from, const struct end *to)
{
    (void)from;
    emx_shm_addr(a, to->id);
}

static struct emx_offload_way gso_way(const struct end *from, const struct end *to)
{
    return (struct emx_offload_way){.from = ip_between(from, to),
                                    .to = ip_between(to, from),
                                    .port = to->gso_port,
                                    .tso = from->gso && from->tso && to->tso,
                                    .frame_bytes = (uint16_t)from->attr.frame_bytes};
}

static void packet_way(struct emx_wire_addr *a, const struct end *from, const struct end *to)
{
    static const uint8_t no_mac[6];
    const struct emx_offload_way gso = gso_way(from, to);
    bool same = from->host == to->host;

    emx_offload_addr(a, same ? from->host->netifs.loopback_index : from->host->eth0_index,
                     same ? no_mac : to->host->mac, from->gso || from->udp ? &gso : NULL, from->udp ? to->udp_port : 0);
}

static void xdp_way(struct emx_wire_addr *a, const struct end *from, const struct end *to)
{
    const struct emx_offload_way gso = gso_way(from, to);

    emx_xdp_addr(a, from->host->eth0_index, to->host->mac, from->gso ? &gso : NULL);
}

static void udp_way(struct emx_wire_addr *a, const struct end *from, const struct end *to)
{
    const struct emx_ip ip = ip_between(to, from);

    emx_udp_addr(a, &ip, to->scoped ? from->host->eth0_index : 0, to->port);
}

/* On one host, too, by the device. */
static void verbs_way(struct emx_wire_addr *a, const struct end *from, const struct end *to)
{
    struct emx_verbs_way way = {.id = to->id, .port = to->port};

    assert_int_equal(inet_pton(AF_INET, from->host->ip, &way.from), 1);
    assert_int_equal(inet_pton(AF_INET, to->host->ip, &way.to), 1);
    emx_verbs_addr(a, &way);
}

static const struct meeting {
    const struct emx_wire_ops *ops;
    void (*told)(struct end *e, const struct emx_wire_value *value); /* NULL: peers are told nothing */
    void (*way)(struct emx_wire_addr *a, const struct end *from, const struct end *to);
} meetings[] = {
    {&emx_wire_shm, NULL, shm_way},      {&emx_wire_verbs, port_told, verbs_way},
    {&emx_wire_xdp, xdp_told, xdp_way},  {&emx_wire_packet, ethernet_told, packet_way},
    {&emx_wire_udp, port_told, udp_way},
};

static const struct meeting *meeting_of(const struct end *e)
{
    for (unsigned i = 0; i < ARRAY_LEN(meetings); i++)
        if (meetings[i].ops == e->ops)
            return &meetings[i];
    fail_msg("%s: no row says how its ends meet", e->ops->name);
    return NULL;
}

struct emx_wire_addr end_way(const struct end *from, const struct end *to)
{
    struct emx_wire_addr a;

    meeting_of(from)->way(&a, from, to);
    return a;
}

/* What peers are told. */
static void describe(struct end *e)
{
    const struct emx_way_site site = {.netifs = &e->host->netifs};
    uint8_t b[EMX_WIRE_VALUE_BYTES];
    struct emx_wire_value value = {.b = b};
    unsigned least = 0;

    if (!meeting_of(e)->told)
        return;
    value.len_bytes = e->ops->describe(e->w, &site, b, &least);
    meeting_of(e)->told(e, &value);
}

/* ---- Ends ---- */

/* Who sent last; what a wire could not send yet goes when its end polls. */
static struct end *sender;

/* Its wire may hold frames back. */
static bool sender_works_for(const struct end *e)
{
    return sender && sender != e && sender->ops->unsent;
}

int end_try_open(struct end *e, char *why, size_t why_len_bytes)
{
    struct emx_wire_params params = {.cfg = &e->cfg,
                                     .netifs = e->v6 ? &e->host->netifs6 : &e->host->netifs,
                                     .endpoint_id = e->id,
                                     .stats = &e->stats};
    int ret;

    host_enter(e->host);
    ret = e->ops->open(&e->w, &params, why, why_len_bytes);
    if (!ret) {
        e->ops->query(e->w, &e->attr);
        describe(e);
    }
    if (!ret && (e->gso || e->udp))
        e->attr.frame_bytes -= e->v6 ? EMX_IP6_UDP_BYTES : EMX_IP_UDP_BYTES;
    return ret;
}

void end_open(struct end *e)
{
    char why[512];

    if (end_try_open(e, why, sizeof(why)))
        fail_msg("%s: %s", e->ops->name, why);
}

void end_close(struct end *e)
{
    e->ops->close(e->w);
    e->w = NULL;
    if (sender == e)
        sender = NULL;
}

bool end_arm(struct end *e)
{
    return !e->ops->arm || e->ops->arm(e->w);
}

void end_sweep(struct end *e)
{
    for (unsigned i = 0; i < 100 && e->ops->sweep; i++)
        e->ops->sweep(e->w);
}

void end_tx(struct end *e, const struct emx_txframe *tx, unsigned n)
{
    e->ops->tx(e->w, tx, n);
    sender = e;
}

/* A round of both ends while nothing comes: connections are made, and room comes back. */
static void ends_work(struct end *e)
{
    if (!sender_works_for(e))
        return;
    sender->ops->rx(sender->w, NULL, 0);
    if (sender->ops->sweep)
        sender->ops->sweep(sender->w);
    if (e->ops->sweep)
        e->ops->sweep(e->w);
}

static void end_fds(struct end *e, struct pollfd p[EMX_WIRE_FDS])
{
    for (unsigned i = 0; i < EMX_WIRE_FDS; i++)
        p[i] = (struct pollfd){.fd = e->ops->fd(e->w, i), .events = POLLIN};
}

/* Sleeps until there may be something for the end, or for the sender if that works for it. Returns how long at most. */
static int end_sleep(struct end *e)
{
    struct pollfd p[2 * EMX_WIRE_FDS];
    bool both = sender_works_for(e);
    int wait_ms = both ? WORK_MS : WAIT_MS;

    if (!end_arm(e) || (both && !end_arm(sender)))
        return 0;
    end_fds(e, p);
    if (both)
        end_fds(sender, p + EMX_WIRE_FDS);
    return poll(p, both ? 2 * EMX_WIRE_FDS : EMX_WIRE_FDS, wait_ms) > 0 ? 0 : wait_ms;
}

unsigned end_wait(struct end *e, struct emx_rxframe *f, unsigned max)
{
    int slept_ms = 0;
    unsigned n;

    ends_work(e);
    while (!(n = e->ops->rx(e->w, f, max)) && slept_ms < WAIT_MS) {
        slept_ms += end_sleep(e);
        ends_work(e);
    }
    return n;
}

bool end_is_empty(struct end *e)
{
    struct emx_rxframe f;
    unsigned n = e->ops->rx(e->w, &f, 1);

    e->ops->rx_return(e->w, &f, n);
    return !n;
}

static uint8_t byte_at(uint32_t number, unsigned i)
{
    return (uint8_t)(emx_mix64(((uint64_t)number << 16) + i / 8) >> (8 * (i % 8)));
}

void frame_make(struct frame *f, const struct end *from, const struct end *to, uint32_t number, unsigned len_bytes)
{
    uint32_t fields[3] = {number, to->id, len_bytes};
    unsigned head_bytes = 12 + number % 64;

    f->to = end_way(from, to);
    memcpy(f->bytes, fields, sizeof(fields));
    for (unsigned i = FRAME_LEAST; i < len_bytes; i++)
        f->bytes[i] = byte_at(number, i);
    if (head_bytes > len_bytes)
        head_bytes = len_bytes;
    f->tx = (struct emx_txframe){.to = &f->to,
                                 .head = f->bytes,
                                 .head_bytes = (uint16_t)head_bytes,
                                 .body = len_bytes > head_bytes ? f->bytes + head_bytes : NULL,
                                 .body_bytes = (uint16_t)(len_bytes - head_bytes),
                                 .gso = from->gso};
}

void frames_send(struct end *from, const struct end *to, uint32_t first, unsigned n, const unsigned *len_bytes)
{
    static struct frame f[EMX_WIRE_BATCH];
    struct emx_txframe tx[EMX_WIRE_BATCH];
    unsigned room = from->ops->tx_room(from->w);

    assert_true(room <= EMX_WIRE_BATCH);
    assert_true(n <= room);
    for (unsigned i = 0; i < n; i++) {
        frame_make(&f[i], from, to, first + i, len_bytes[i]);
        tx[i] = f[i].tx;
    }
    end_tx(from, tx, n);
    for (unsigned i = 0; i < n; i++)
        memset(f[i].bytes, 0xEE, len_bytes[i]); /* nothing is referenced after return */
}

/* At which byte it is not as it was made; UINT_MAX: at none. */
static unsigned first_difference(const struct emx_rxframe *rx)
{
    uint32_t fields[3];

    if (rx->len_bytes < FRAME_LEAST)
        return rx->len_bytes;
    memcpy(fields, rx->data, sizeof(fields));
    if (rx->len_bytes < fields[2] || fields[2] < FRAME_LEAST)
        return rx->len_bytes;
    for (unsigned i = FRAME_LEAST; i < fields[2]; i++)
        if (rx->data[i] != byte_at(fields[0], i))
            return i;
    return UINT_MAX;
}

bool frame_is_whole(const struct emx_rxframe *rx)
{
    return first_difference(rx) == UINT_MAX;
}

uint32_t frame_check(const struct emx_rxframe *rx, unsigned *len_bytes_p)
{
    unsigned differs = first_difference(rx);
    uint32_t fields[3];

    assert_true((uintptr_t)rx->data % 4 == 0);
    assert_true(rx->len_bytes >= FRAME_LEAST);
    memcpy(fields, rx->data, sizeof(fields));
    if (differs != UINT_MAX)
        fail_msg("frame %u of %u bytes (%u came) differs at %u", fields[0], fields[2], rx->len_bytes, differs);
    *len_bytes_p = fields[2];
    return fields[0];
}

/* Wires that show where a frame lies: the next one is looked at, and every second time done with. false: it is still to
 * come, or left to rx(). */
static bool frame_passed(struct end *to, uint32_t number)
{
    struct emx_wire_peek p = to->ops->peek ? to->ops->peek(to->w) : (struct emx_wire_peek){0};
    unsigned len;

    if (!p.len_bytes)
        return false;
    assert_int_equal(frame_check(&(struct emx_rxframe){.data = p.data, .len_bytes = p.len_bytes}, &len), number);
    if (number % 2)
        to->ops->consume(to->w);
    return number % 2;
}

void frames_expect(struct end *to, uint32_t first, unsigned n)
{
    struct emx_rxframe rx[EMX_WIRE_BATCH];
    unsigned got, len;

    for (unsigned done = 0; done < n; done += got) {
        got = frame_passed(to, first + done);
        if (got)
            continue;
        got = end_wait(to, rx, n - done < EMX_WIRE_BATCH ? n - done : EMX_WIRE_BATCH);
        if (!got)
            fail_msg("%u of %u frames did not come", n - done, n);
        for (unsigned i = 0; i < got; i++)
            assert_int_equal(frame_check(&rx[i], &len), first + done + i);
        to->ops->rx_return(to->w, rx, got);
    }
}
