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

struct host world_a = {.ip = "10.88.0.1"}, world_b = {.ip = "10.88.0.2"}, world_c;

void world_init(char *const paths[3])
{
    struct host *hosts[] = {&world_a, &world_b, &world_c};

    for (unsigned i = 0; i < ARRAY_LEN(hosts); i++) {
        struct host *h = hosts[i];
        char err[1024];

        h->ns_fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        assert_true(h->ns_fd >= 0);
        assert_int_equal(host_read_netifs(h, &h->netifs, "", NULL, err, sizeof(err)), ETHMX_OK);
        if (h == &world_c)
            continue;
        h->eth0_index = netifs_find(&h->netifs, "eth0")->index;
        memcpy(h->mac, netifs_find(&h->netifs, "eth0")->mac, sizeof(h->mac));
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

/* Who sent last; what a wire could not send yet goes when its end polls. */
static struct end *sender;

static void push_sender(void)
{
    if (sender && sender->ops->unsent)
        sender->ops->rx(sender->w, NULL, 0);
}

void end_init(struct end *e, const struct host *h, const struct emx_wire_ops *ops, uint32_t id)
{
    memset(e, 0, sizeof(*e));
    emx_config_defaults(&e->cfg);
    strcpy(e->cfg.p_if, "eth0,eth1"); /* the choice is made already; the xdp wire takes what is named, all of it */
    e->host = h;
    e->ops = ops;
    e->id = id;
}

/* What peers are told. */
static void describe(struct end *e)
{
    const struct emx_way_site site = {.netifs = &e->host->netifs};
    uint8_t b[EMX_WIRE_VALUE_BYTES];
    struct emx_wire_value value = {.b = b};
    unsigned least = 0;
    struct emx_ethernet_part part;

    value.len_bytes = e->ops->describe ? e->ops->describe(e->w, &site, b, &least) : 0;
    if (e->ops == &emx_wire_udp)
        e->udp_port = emx_wire_value_u16(b);
    if (e->ops == &emx_wire_xdp)
        value = (struct emx_wire_value){.b = b + EMX_XDP_PART_LEAST, .len_bytes = value.len_bytes - EMX_XDP_PART_LEAST};
    if (e->ops != &emx_wire_udp && emx_ethernet_part_read(&value, &part))
        e->gso_port = part.gso_port;
}

int end_try_open(struct end *e, char *why, size_t why_len_bytes)
{
    struct emx_wire_params params = {
        .cfg = &e->cfg, .netifs = &e->host->netifs, .endpoint_id = e->id, .stats = &e->stats};
    int ret;

    host_enter(e->host);
    ret = e->ops->open(&e->w, &params, why, why_len_bytes);
    if (!ret) {
        e->ops->query(e->w, &e->attr);
        describe(e);
    }
    if (!ret && e->bulk)
        e->attr.frame_bytes -= 28; /* IPv4 and UDP headers */
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

struct emx_wire_addr end_way(const struct end *from, const struct end *to)
{
    static const uint8_t no_mac[6];
    bool same = from->host == to->host;
    struct emx_offload_way bulk = {.port = to->gso_port, .frame_bytes = (uint16_t)from->attr.frame_bytes};
    struct emx_wire_addr a;
    struct in_addr ip;

    assert_int_equal(inet_pton(AF_INET, same ? "127.0.0.1" : to->host->ip, &ip), 1);
    assert_int_equal(inet_pton(AF_INET, same ? "127.0.0.1" : from->host->ip, &bulk.from), 1);
    bulk.to = ip;
    if (from->ops == &emx_wire_shm) {
        emx_shm_addr(&a, to->id);
    } else if (from->ops == &emx_wire_xdp) {
        emx_xdp_addr(&a, from->host->eth0_index, to->host->mac, from->bulk ? &bulk : NULL);
    } else if (from->ops == &emx_wire_udp) {
        emx_udp_addr(&a, ip, to->udp_port);
    } else {
        emx_packet_addr(&a, same ? from->host->netifs.loopback_index : from->host->eth0_index,
                        same ? no_mac : to->host->mac, from->bulk ? &bulk : NULL);
    }
    return a;
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

unsigned end_wait(struct end *e, struct emx_rxframe *f, unsigned max)
{
    struct pollfd p[EMX_WIRE_FDS];
    unsigned n;

    push_sender();
    n = e->ops->rx(e->w, f, max);
    for (unsigned i = 0; i < EMX_WIRE_FDS; i++)
        p[i] = (struct pollfd){.fd = e->ops->fd(e->w, i), .events = POLLIN};
    while (!n && (!end_arm(e) || poll(p, EMX_WIRE_FDS, WAIT_MS) > 0))
        n = e->ops->rx(e->w, f, max);
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
                                 .bulk = from->bulk};
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
    from->ops->tx(from->w, tx, n);
    sender = from;
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
