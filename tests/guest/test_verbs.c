/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The verbs wire on real kernel RDMA devices, both ends in this process. Arguments: the names of two interfaces that
 * have devices and reach each other. Runs inside the guest; see README.md.
 */
#define _GNU_SOURCE
#include "../unit/unit.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/log.h"
#include "driver.h"
#include "wire/verbs/verbs_peer.h"
#include "wire/way.h"

#define ID_LOW   0x12345678u
#define ID_HIGH  0x9abcdef0u
#define ID_THIRD 0xabcdef01u
#define WAIT_S   60         /* longer than anything takes that works, emulated and on a busy machine */
#define LEAST    8          /* bytes of a frame */
#define PERHAPS  UINT32_MAX /* number of frames that may be lost */

struct end {
    const char *interface;
    struct ethmx_config cfg;
    struct emx_netifs netifs;
    struct emx_stats stats;
    struct emx_wire *w;
    struct emx_wire_attr attr;
    uint8_t told[EMX_WIRE_VALUE_BYTES]; /* its part of an address */
    uint32_t id;
    uint32_t next; /* frame that is to come */
};

struct pair {
    struct end a, b;
    bool shared; /* with a shared receive queue */
    bool writes; /* a's device writes, instead of b's reading */
    bool cleans; /* the devices are as those of mlx5, */
    bool tells;  /* also in what they tell */
};

static const char *interface_a, *interface_b;

/* ---- Ends ---- */

static const struct emx_netif *netif_of(const struct end *e)
{
    for (unsigned i = 0; i < e->netifs.count; i++) {
        if (!strcmp(e->netifs.nif[i].name, e->interface))
            return &e->netifs.nif[i];
    }
    fail_msg("no interface %s", e->interface);
    return NULL;
}

static struct emx_verbs_dev *device(const struct end *e)
{
    return ((struct emx_verbs_wire *)e->w)->dev[0];
}

/* The driver's own events are as the device's. */
static void watch_driver(const struct end *e)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = device(e)->context};

    assert_int_equal(epoll_ctl(((struct emx_verbs_wire *)e->w)->epoll, EPOLL_CTL_ADD, driver.event_fd, &ev), 0);
}

static void open_end(struct end *e)
{
    const struct emx_wire_params params = {
        .cfg = &e->cfg, .netifs = &e->netifs, .endpoint_id = e->id, .stats = &e->stats};
    struct emx_way_site site = {.netifs = &e->netifs, .told_count = 1};
    char why[512];
    unsigned least;

    if (emx_netifs_read(&e->netifs, &e->cfg, NULL, why, sizeof(why)))
        fail_msg("%s", why);
    if (emx_wire_verbs.open(&e->w, &params, why, sizeof(why)))
        fail_msg("%s", why);
    emx_wire_verbs.query(e->w, &e->attr);
    site.told[0] = netif_of(e);
    emx_wire_verbs.describe(e->w, &site, e->told, &least);
    watch_driver(e);
}

static void close_end(struct end *e)
{
    emx_wire_verbs.close(e->w);
    e->w = NULL;
}

static void init_end(struct end *e, const char *interface, uint32_t id, const struct pair *p)
{
    memset(e, 0, sizeof(*e));
    e->interface = interface;
    e->id = id;
    emx_config_defaults(&e->cfg);
    snprintf(e->cfg.p_if, sizeof(e->cfg.p_if), "%s", interface);
    e->cfg.p_verbs_srq = p->shared;
    e->cfg.p_verbs_move = p->writes ? EMX_MOVE_WRITE : EMX_MOVE_READ;
    e->cfg.p_reg_min = 1;
    e->cfg.p_connect_timeout = WAIT_S * 900000000ull;      /* on a slow machine a call may take its second try, */
    e->cfg.p_peer_timeout = 10 * e->cfg.p_connect_timeout; /* also to a peer that there was a connection with */
    e->cfg.p_verbs_ack_timeout = 500000000; /* and a device long for its answer; they do not lose anything */
    open_end(e);
}

static int setup(void **state)
{
    struct pair *p = *state;

    driver_reset();
    driver.cleans = p->cleans;
    driver.tells = p->tells;
    init_end(&p->a, interface_a, ID_LOW, p);
    init_end(&p->b, interface_b, ID_HIGH, p);
    return 0;
}

static int teardown(void **state)
{
    struct pair *p = *state;

    if (p->a.w)
        close_end(&p->a);
    if (p->b.w)
        close_end(&p->b);
    return driver.events == driver.acks ? 0 : -1;
}

/* ---- Frames: number and length, then bytes that follow from the number ---- */

static uint8_t byte_at(uint32_t number, unsigned i)
{
    return (uint8_t)(emx_mix64(((uint64_t)number << 16) + i / 8) >> 8 * (i % 8));
}

static struct emx_wire_addr address_of(const struct end *from, const struct end *to)
{
    const struct emx_verbs_way way = {
        .id = to->id, .from = netif_of(from)->ip, .to = netif_of(to)->ip, .port = emx_wire_value_u16(to->told)};
    struct emx_wire_addr addr;

    emx_verbs_addr(&addr, &way);
    return addr;
}

/* age_ns: since it was sent before; 0: it was not. */
static void send_aged(struct end *from, const struct end *to, uint32_t number, unsigned len_bytes, uint64_t age_ns)
{
    static uint8_t bytes[EMX_VERBS_FRAME_BYTES];
    const uint32_t fields[2] = {number, len_bytes};
    unsigned head_bytes = number % 2 ? LEAST : len_bytes < 60 ? len_bytes : 60;
    const struct emx_wire_addr addr = address_of(from, to);
    const struct emx_txframe f = {.to = &addr,
                                  .head = bytes,
                                  .head_bytes = (uint16_t)head_bytes,
                                  .body = len_bytes > head_bytes ? bytes + head_bytes : NULL,
                                  .body_bytes = (uint16_t)(len_bytes - head_bytes),
                                  .age_ns = age_ns};

    memcpy(bytes, fields, LEAST);
    for (unsigned i = LEAST; i < len_bytes; i++)
        bytes[i] = byte_at(number, i);
    assert_true(emx_wire_verbs.tx_room(from->w) > 0);
    emx_wire_verbs.tx(from->w, &f, 1);
    memset(bytes, 0xee, len_bytes); /* nothing is referenced after return */
}

static void send_frame(struct end *from, const struct end *to, uint32_t number, unsigned len_bytes)
{
    send_aged(from, to, number, len_bytes, 0);
}

/* It is the next, or one that may be lost. */
static void check_frame(struct end *e, const struct emx_rxframe *f)
{
    uint32_t fields[2];

    assert_true(f->len_bytes >= LEAST);
    memcpy(fields, f->data, LEAST);
    if (fields[0] != PERHAPS)
        assert_int_equal(fields[0], e->next++);
    assert_int_equal(fields[1], f->len_bytes);
    for (unsigned i = LEAST; i < f->len_bytes; i++) {
        if (f->data[i] != byte_at(fields[0], i))
            fail_msg("frame %u of %u bytes differs at %u", fields[0], f->len_bytes, i);
    }
}

/* Takes the next frame from where it lies. */
static void take_one(struct end *e)
{
    struct emx_wire_peek p = emx_wire_verbs.peek(e->w);

    if (!p.data)
        return;
    assert_ptr_equal(emx_wire_verbs.peek(e->w).data, p.data);
    check_frame(e, &(struct emx_rxframe){.data = p.data, .len_bytes = p.len_bytes});
    emx_wire_verbs.consume(e->w);
}

/* A round of an end: takes what has come, in order, first one, then those that are lent. */
static void take(struct end *e)
{
    struct emx_rxframe f[7];
    unsigned n;

    emx_wire_verbs.sweep(e->w);
    take_one(e);
    n = emx_wire_verbs.rx(e->w, f, 7);
    for (unsigned i = 0; i < n; i++)
        check_frame(e, &f[i]);
    emx_wire_verbs.rx_return(e->w, f, n);
}

static struct emx_verbs_conn *connection(const struct end *e, const struct end *to)
{
    struct emx_verbs_peer *peer = emx_verbs_peer_get((struct emx_verbs_wire *)e->w, to->id);

    return peer->conn;
}

/* What an end has with another, for people. */
static void tell_state(const struct end *e, const struct end *to)
{
    const struct emx_verbs_conn *c = connection(e, to);
    unsigned free_bufs = 0;

    if (!c || !c->dev) {
        print_error("%s: no connection\n", e->interface);
        return;
    }
    for (const struct emx_verbs_buf *b = c->dev->free; b; b = b->next)
        free_bufs++;
    print_error("%s: state %u, %s, %u to send, waiting %u, credits %u, owed %u, lent %u, own %u, sent %u, reaped %u, "
                "unsignalled %u, may send %u, broken %d, inline %u, epoch %u, buffers %u, free %u, promised %u\n",
                e->interface, c->state, c->active ? "active" : "passive", c->peer->first != NULL, c->peer->kept,
                c->credits, c->owed, c->lent, c->own, c->sent, c->reaped, c->unsignalled, c->may_send, c->broken,
                c->inline_bytes, c->peer->epoch, c->dev->bufs, free_bufs, c->dev->promised);
}

static void await_frames(struct pair *p, uint32_t next_a, uint32_t next_b)
{
    time_t end = time(NULL) + WAIT_S;

    while (p->a.next != next_a || p->b.next != next_b) {
        take(&p->a);
        take(&p->b);
        if (time(NULL) <= end)
            continue;
        tell_state(&p->a, &p->b);
        tell_state(&p->b, &p->a);
        fail_msg("frames %u of %u and %u of %u came", p->a.next, next_a, p->b.next, next_b);
    }
}

/* ---- Tests ---- */

static unsigned waiting(const struct end *from, const struct end *to)
{
    return emx_verbs_peer_get((struct emx_verbs_wire *)from->w, to->id)->kept;
}

static void connect_ends(struct pair *p)
{
    send_frame(&p->a, &p->b, p->b.next, 100);
    await_frames(p, p->a.next, p->b.next + 1);
    send_frame(&p->b, &p->a, p->a.next, 100);
    await_frames(p, p->a.next + 1, p->b.next);
}

static void all_lengths_arrive(void **state)
{
    struct pair *p = *state;
    uint32_t n = 0;

    for (unsigned len = LEAST; len <= EMX_VERBS_FRAME_BYTES; len += len < 300 ? 1 : 331, n++) {
        send_frame(&p->a, &p->b, n, len);
        if (n % 50 == 0)
            await_frames(p, 0, n + 1);
    }
    send_frame(&p->a, &p->b, n++, EMX_VERBS_FRAME_BYTES);
    await_frames(p, 0, n);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* A message of 8 bytes is a frame of 48, before which 8 stand. siw takes 80 inline bytes, which it does not tell. */
static void short_frames_go_inline(void **state)
{
    struct pair *p = *state;

    connect_ends(p);
    assert_in_range(connection(&p->a, &p->b)->inline_bytes, 56, 1024);
    assert_in_range(connection(&p->b, &p->a)->inline_bytes, 56, 1024);
}

/* Many more than there are credits, while nobody receives; then both ways at once. */
static void floods_wait_for_credits(void **state)
{
    struct pair *p = *state;

    for (uint32_t i = 0; i < 400; i++)
        send_frame(&p->a, &p->b, i, 100 + i % 300);
    await_frames(p, 0, 400);
    for (uint32_t i = 0; i < 400; i++) {
        send_frame(&p->a, &p->b, 400 + i, 2000);
        send_frame(&p->b, &p->a, i, 30);
        if (i % 100 == 0)
            take(&p->b);
    }
    await_frames(p, 400, 800);
    assert_int_equal(p->a.stats.wire_tx_errors + p->b.stats.wire_tx_errors, 0);
}

/* A frame is not sent once more while the first one waits, or is with the device; it is when that one is gone. */
static void frames_are_not_doubled(void **state)
{
    struct pair *p = *state;
    time_t end = time(NULL) + WAIT_S;
    unsigned before;

    connect_ends(p);
    for (uint32_t i = 1; i <= 60; i++)
        send_frame(&p->a, &p->b, i, 100);
    before = waiting(&p->a, &p->b);
    assert_in_range(before, 1, 59);
    send_aged(&p->a, &p->b, 60, 100, 1);
    assert_int_equal(waiting(&p->a, &p->b), before);
    send_aged(&p->a, &p->b, 61, 100, 3600000000000);
    assert_int_equal(waiting(&p->a, &p->b), before + 1);
    await_frames(p, 1, 62);
    while (emx_wire_verbs.unsent(p->a.w)) {
        assert_true(time(NULL) <= end);
        take(&p->a);
    }
    send_aged(&p->a, &p->b, 62, 100, 1);
    await_frames(p, 1, 63);
}

/* Both speak first at once. */
static void crossing_calls_are_settled(void **state)
{
    struct pair *p = *state;

    for (unsigned round = 0; round < 10; round++) {
        send_frame(&p->a, &p->b, 0, 100);
        send_frame(&p->b, &p->a, 0, 100);
        await_frames(p, 1, 1);
        for (uint32_t i = 1; i < 30; i++) {
            send_frame(&p->a, &p->b, i, 500);
            send_frame(&p->b, &p->a, i, 500);
        }
        await_frames(p, 30, 30);
        assert_int_equal(p->a.stats.wire_tx_errors + p->b.stats.wire_tx_errors, 0);
        p->a.next = p->b.next = 0;
        close_end(&p->a);
        close_end(&p->b);
        open_end(&p->a);
        open_end(&p->b);
    }
}

static void break_connection(const struct end *e, const struct end *to)
{
    struct ibv_qp_attr error = {.qp_state = IBV_QPS_ERR};

    assert_int_equal(ibv_modify_qp(connection(e, to)->id->qp, &error, IBV_QP_STATE), 0);
}

static bool is_up(const struct end *e, const struct end *to)
{
    return connection(e, to) && connection(e, to)->state == EMX_VERBS_UP;
}

static bool is_another(const struct end *e, const struct end *to, uint32_t old)
{
    return is_up(e, to) && connection(e, to)->nonce != old;
}

/* A frame that brings a connection about, or shows that there is none; few of them, or others would find no room. */
static void try_out(struct end *from, const struct end *to)
{
    if (waiting(from, to) < 4)
        send_frame(from, to, PERHAPS, 100);
}

/* Until both ends have the same new connection, which frames have brought about that may be lost. */
static void await_another_connection(struct pair *p, uint32_t old)
{
    time_t end = time(NULL) + WAIT_S;

    while (!is_another(&p->a, &p->b, old) || !is_another(&p->b, &p->a, old) ||
           connection(&p->a, &p->b)->nonce != connection(&p->b, &p->a)->nonce) {
        assert_true(time(NULL) <= end);
        try_out(&p->b, &p->a);
        try_out(&p->a, &p->b);
        take(&p->a);
        take(&p->b);
    }
    while (waiting(&p->a, &p->b) || waiting(&p->b, &p->a)) {
        take(&p->a);
        take(&p->b);
    }
}

/* A queue pair in error, at either end, while frames go either way: what was under way is lost, perhaps; what is sent
 * afterwards comes, over a new connection. */
static void broken_connection_is_made_again(void **state)
{
    struct pair *p = *state;
    struct end *ends[2] = {&p->a, &p->b};

    send_frame(&p->a, &p->b, 0, 100);
    await_frames(p, 0, 1);
    for (unsigned round = 0; round < 4; round++) {
        struct end *from = ends[round % 2], *to = ends[1 - round % 2];
        uint32_t old = connection(from, to)->nonce;

        break_connection(ends[round / 2], ends[1 - round / 2]);
        await_another_connection(p, old);
        for (uint32_t i = 0; i < 40; i++)
            send_frame(from, to, to->next + i, 100);
        await_frames(p, p->a.next + (to == &p->a ? 40 : 0), p->b.next + (to == &p->b ? 40 : 0));
    }
}

/* An end that says nothing notices that its connection is gone: of either end the queue pair is in error. */
static void silent_end_notices(void **state)
{
    struct pair *p = *state;

    for (unsigned round = 0; round < 2; round++) {
        struct end *broken = round ? &p->b : &p->a, *other = round ? &p->a : &p->b;
        time_t end = time(NULL) + WAIT_S;

        connect_ends(p);
        break_connection(broken, other);
        while (connection(&p->a, &p->b) || connection(&p->b, &p->a)) {
            assert_true(time(NULL) <= end);
            take(&p->a);
            take(&p->b);
        }
    }
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* With room for one connection, two peers are talked to by turns, each when the other's connection has become idle. */
static void idle_connection_makes_room(void **state)
{
    const uint64_t idle_ns = 5000000; /* more than USED_NS of verbs_life.c */
    struct pair *p = *state;
    struct end third = {0};
    struct end *to[2] = {&p->b, &third};
    time_t end = time(NULL) + 2 * WAIT_S;

    close_end(&p->a);
    p->a.cfg.p_verbs_peers = 1;
    open_end(&p->a);
    init_end(&third, interface_b, ID_THIRD, p);
    for (unsigned i = 0; i < 6; i++) {
        for (unsigned j = 0; j < 3; j++)
            send_frame(&p->a, to[i % 2], i / 2 * 3 + j, 200);
        for (uint64_t idle_since_ns = 0; !idle_since_ns || now_ns() - idle_since_ns < idle_ns;) {
            assert_true(time(NULL) <= end);
            take(&p->a);
            take(&p->b);
            take(&third);
            if (to[i % 2]->next < i / 2 * 3 + 3 || !is_up(&p->a, to[i % 2]))
                idle_since_ns = 0;
            else if (!idle_since_ns)
                idle_since_ns = now_ns();
        }
    }
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
    assert_true(p->a.stats.verbs_idle_ended >= 5);
    close_end(&third);
}

/* The other end closes and comes back. */
static void peer_that_went_is_called_again(void **state)
{
    struct pair *p = *state;

    send_frame(&p->a, &p->b, 0, 100);
    await_frames(p, 0, 1);
    close_end(&p->b);
    while (connection(&p->a, &p->b))
        take(&p->a);
    open_end(&p->b);
    p->b.next = 0;
    for (uint32_t i = 0; i < 10; i++)
        send_frame(&p->a, &p->b, i, 100);
    await_frames(p, 0, 10);
}

/* Nobody listens at the port: the frames are lost and counted, and the end goes on. */
static void nobody_there_is_counted(void **state)
{
    struct pair *p = *state;
    time_t end = time(NULL) + WAIT_S;

    close_end(&p->b);
    send_frame(&p->a, &p->b, 0, 100);
    while (!p->a.stats.wire_tx_errors) {
        take(&p->a);
        assert_true(time(NULL) <= end);
    }
    assert_null(connection(&p->a, &p->b));
}

/* A sleeper is woken by each frame. */
static void descriptor_tells(void **state)
{
    struct pair *p = *state;

    for (uint32_t i = 0; i < 10; i++) {
        struct pollfd fd = {.fd = emx_wire_verbs.fd(p->b.w, 0), .events = POLLIN};
        time_t end = time(NULL) + WAIT_S;

        if (i)
            assert_true(emx_wire_verbs.arm(p->b.w));
        send_frame(&p->a, &p->b, i, 100);
        while (p->b.next == i) {
            assert_true(time(NULL) <= end);
            take(&p->a);
            if (poll(&fd, 1, 10) > 0) {
                take(&p->b);
                emx_wire_verbs.arm(p->b.w);
            }
        }
        while (!emx_wire_verbs.arm(p->b.w))
            take(&p->b);
        take(&p->b);
    }
}

/* unsent() comes to an end, and then all has arrived. */
static void unsent_ends(void **state)
{
    struct pair *p = *state;
    time_t end = time(NULL) + WAIT_S;

    for (uint32_t i = 0; i < 5; i++)
        send_frame(&p->a, &p->b, i, 100);
    assert_true(emx_wire_verbs.unsent(p->a.w));
    while (emx_wire_verbs.unsent(p->a.w)) {
        assert_true(time(NULL) <= end);
        take(&p->a);
        emx_wire_verbs.sweep(p->b.w);
        emx_wire_verbs.rx(p->b.w, NULL, 0);
    }
    close_end(&p->a);
    while (p->b.next < 5) {
        assert_true(time(NULL) <= end);
        take(&p->b);
    }
}

/* ---- Packets that get lost: with iWARP TCP sees to that, as long as any come through ---- */

#define ALL   ""
#define CALLS "@th,104,24 1" /* rdma_cm's messages: to queue pair 1 */

/* Which of RoCE's packets get lost from now on. */
static void lose_packets(const char *which)
{
    char command[300];

    snprintf(command, sizeof(command),
             "nft 'table inet verbs_test { chain in { type filter hook input priority 0; udp dport 4791 %s drop; }; }'",
             which);
    assert_int_equal(system(command), 0);
}

static bool is_roce(const struct end *e)
{
    return device(e)->fabric == EMX_VERBS_ROCE;
}

/* Nothing passes between the ends' devices from now on. iWARP's have TCP connections. */
static void cut_off(const struct end *e)
{
    char command[300];

    if (is_roce(e)) {
        lose_packets(ALL);
        return;
    }
    snprintf(command, sizeof(command),
             "nft 'table inet verbs_test { chain in { type filter hook input priority 0; "
             "iifname { %s, %s } meta l4proto tcp drop; }; }'",
             interface_a, interface_b);
    assert_int_equal(system(command), 0);
}

static void lose_no_more(void)
{
    assert_int_equal(system("nft delete table inet verbs_test"), 0);
}

static int teardown_losses(void **state)
{
    int rc = system("nft delete table inet verbs_test 2>/dev/null");

    (void)rc; /* most often it is gone */
    return teardown(state);
}

/* An interface that leads nowhere, with a device. It stays: librdmacm keeps the device open, for which its removal
 * would wait. */
static void make_device(const char *type, const char *ip)
{
    char command[500];

    snprintf(command, sizeof(command),
             "n=test-%s; ip link show $n >/dev/null 2>&1 || ip link add $n type dummy && ip link set $n up && "
             "ip addr replace %s/24 dev $n && "
             "{ rdma link show $n/1 >/dev/null 2>&1 || rdma link add $n type %s netdev $n; }",
             type, ip, type);
    assert_int_equal(system(command), 0);
}

static void for_roce(const struct end *e)
{
    if (!is_roce(e))
        skip();
}

static void check_patience(const struct end *e, const struct end *to)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    assert_int_equal(ibv_query_qp(connection(e, to)->id->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT, &init), 0);
    assert_in_range(4096ull << attr.timeout, e->cfg.p_verbs_ack_timeout, 2 * e->cfg.p_verbs_ack_timeout - 1);
    assert_in_range(attr.retry_cnt, 1, 6); /* 7 is for ever with rxe */
}

/* Both ends' devices send again as soon as they are told to, and not for ever. */
static void devices_send_again_in_time(void **state)
{
    struct pair *p = *state;

    for_roce(&p->a);
    p->b.cfg.p_verbs_ack_timeout = 3000000;
    connect_ends(p);
    check_patience(&p->a, &p->b);
    check_patience(&p->b, &p->a);
}

/* A call that is lost on the way is made again soon, and what waits for it comes. */
static void lost_call_is_repeated(void **state)
{
    struct pair *p = *state;
    time_t end = time(NULL) + WAIT_S;
    uint32_t first = 0;

    for_roce(&p->a);
    lose_packets(CALLS);
    send_frame(&p->a, &p->b, 0, 100);
    while (!connection(&p->a, &p->b) || !first || connection(&p->a, &p->b)->serial == first) {
        assert_true(time(NULL) <= end);
        if (!first && connection(&p->a, &p->b) && connection(&p->a, &p->b)->asked_ns)
            first = connection(&p->a, &p->b)->serial;
        take(&p->a);
        take(&p->b);
    }
    lose_no_more();
    await_frames(p, 0, 1);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
}

/* Nothing comes through any more: it is told soon enough for another wire. When all comes through again there is a
 * connection again. */
static void cut_off_peer_is_told(void **state)
{
    struct pair *p = *state;
    time_t end = time(NULL) + WAIT_S;
    struct emx_wire_addr lost, to_b = address_of(&p->a, &p->b);
    uint32_t old;

    connect_ends(p);
    old = connection(&p->a, &p->b)->nonce;
    p->a.cfg.p_peer_timeout = 10000000000;
    cut_off(&p->a);
    while (!emx_wire_verbs.unreachable(p->a.w, &lost)) {
        assert_true(time(NULL) <= end);
        try_out(&p->a, &p->b);
        take(&p->a);
        take(&p->b);
    }
    assert_memory_equal(&lost, &to_b, sizeof(lost));
    lose_no_more();
    await_another_connection(p, old);
}

/* Silence is no proof: as long as the other's device answers, nobody is lost, however often the connection is looked
 * after meanwhile and nobody says anything. */
static void silent_peer_is_not_lost(void **state)
{
    struct pair *p = *state;
    const struct emx_verbs_wire *w = (struct emx_verbs_wire *)p->a.w;
    struct emx_wire_addr lost;
    uint32_t old;

    connect_ends(p);
    old = connection(&p->a, &p->b)->nonce;
    p->a.cfg.p_peer_timeout = 1; /* as soon as ever */
    for (unsigned looks = 0; looks < 6;) {
        uint64_t looked_ns = w->looked_ns;

        take(&p->a);
        looks += w->looked_ns != looked_ns;
        assert_false(emx_wire_verbs.unreachable(p->a.w, &lost));
    }
    assert_non_null(connection(&p->a, &p->b));
    assert_int_equal(connection(&p->a, &p->b)->nonce, old);
}

/* ---- Reads, and writes: from a to b ---- */

#define LONG_BYTES (6u << 20) /* two pieces of registered memory, or three */

struct reading {
    void *held;
    struct emx_wire_export lend;
    struct emx_wire_read read;
    unsigned ended;
    int status;
    size_t most_bytes; /* 0: all */
};

static uint8_t *fresh_memory(size_t len_bytes, uint32_t number)
{
    uint8_t *m = mmap(NULL, len_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(m != MAP_FAILED);
    for (size_t i = 0; number && i + 8 <= len_bytes; i += 8)
        memcpy(m + i, &(uint64_t){emx_mix64(((uint64_t)number << 32) + i)}, 8);
    return m;
}

static bool spoil_key; /* of what is read or written: of no use, but over the right connection */

/* Whose memory is exposed, and whose device is at work. */
static struct end *lender(struct pair *p)
{
    return p->writes ? &p->b : &p->a;
}

static struct end *mover(struct pair *p)
{
    return p->writes ? &p->a : &p->b;
}

/* Exposes what lies at offset of src, at a, and starts to read it to b; or of dst, at b, to write it. */
static int start_reading(struct pair *p, struct reading *r, uint8_t *src, uint8_t *dst, size_t len_bytes, size_t offset)
{
    struct emx_wire_addr to_mover = address_of(lender(p), mover(p)), to_lender = address_of(mover(p), lender(p));
    uint8_t *local = p->writes ? src : dst, *remote = p->writes ? dst : src;
    int rc;

    r->lend = (struct emx_wire_export){
        .to = &to_mover, .base = remote, .len_bytes = len_bytes, .offset = offset, .write = p->writes};
    rc = emx_wire_verbs.export(lender(p)->w, &r->lend, &r->held);
    if (rc)
        return rc;
    assert_true(r->lend.end > offset && r->lend.end <= len_bytes);
    r->read = (struct emx_wire_read){.from = &to_lender,
                                     .remote = (uintptr_t)remote + offset,
                                     .key = spoil_key ? r->lend.key ^ 0xabcd00 : r->lend.key,
                                     .local = local + offset,
                                     .len_bytes = r->lend.end - offset,
                                     .message = local,
                                     .message_bytes = len_bytes,
                                     .cookie = r,
                                     .write = p->writes};
    if (r->most_bytes && r->most_bytes < r->read.len_bytes)
        r->read.len_bytes = r->most_bytes;
    return emx_wire_verbs.read_start(mover(p)->w, &r->read);
}

static bool take_end(struct pair *p)
{
    struct emx_wire_read_end end;
    struct reading *r;

    take(&p->a);
    take(&p->b);
    if (!emx_wire_verbs.read_end(mover(p)->w, &end))
        return false;
    r = end.cookie;
    assert_int_equal(end.remote, r->read.remote);
    assert_int_equal(end.len_bytes, r->read.len_bytes);
    r->status = end.status;
    r->ended++;
    return true;
}

static void await_end(struct pair *p)
{
    time_t end = time(NULL) + WAIT_S;

    while (!take_end(p))
        assert_true(time(NULL) <= end);
}

/* No more than most_bytes of each piece. */
static void read_some(struct pair *p, uint8_t *src, uint8_t *dst, size_t len_bytes, size_t most_bytes)
{
    struct reading r = {.most_bytes = most_bytes};

    for (size_t at = 0; at < len_bytes; at = r.lend.end) {
        assert_int_equal(start_reading(p, &r, src, dst, len_bytes, at), ETHMX_OK);
        await_end(p);
        assert_int_equal(r.status, ETHMX_OK);
    }
    emx_wire_verbs.unexport(lender(p)->w, &r.held, NULL);
    assert_null(r.held);
}

static void read_all(struct pair *p, uint8_t *src, uint8_t *dst, size_t len_bytes)
{
    read_some(p, src, dst, len_bytes, len_bytes);
}

/* Messages of several lengths and places, from ever-new memory and the same again. */
static void memory_is_read(void **state)
{
    static const size_t lengths[] = {1, 4096, 70000, LONG_BYTES - 5000};
    struct pair *p = *state;

    connect_ends(p);
    for (unsigned i = 0; i < 4; i++) {
        uint8_t *src = fresh_memory(LONG_BYTES, i + 1), *dst = fresh_memory(LONG_BYTES, 0);
        size_t shift = i * 1000;

        for (unsigned again = 0; again < 2; again++) {
            read_all(p, src + shift, dst + 3 * shift / 2, lengths[i]);
            assert_memory_equal(src + shift, dst + 3 * shift / 2, lengths[i]);
            assert_int_equal(dst[3 * shift / 2 + lengths[i]], 0);
            memset(src + shift, 0x11 + again, lengths[i]);
        }
        munmap(src, LONG_BYTES);
        munmap(dst, LONG_BYTES);
    }
}

/* Nobody is let write over a connection that could not be halted: one of RoCE with receives of its own. */
static void memory_to_write_needs_a_halt(void **state)
{
    struct pair *p = *state;
    struct emx_wire_addr to = address_of(lender(p), mover(p));
    uint8_t *m = fresh_memory(1u << 20, 1);
    struct emx_wire_export l = {.to = &to, .base = m, .len_bytes = 1u << 20, .write = true};
    bool halts = p->shared || lender(p)->told[2] == EMX_VERBS_IWARP + 1;
    void *held = NULL;

    connect_ends(p);
    assert_int_equal(emx_wire_verbs.export(lender(p)->w, &l, &held), halts ? ETHMX_OK : ETHMX_ERR_PARAM);
    assert_int_equal(held != NULL, halts);
    emx_wire_verbs.unexport(lender(p)->w, &held, NULL);
    munmap(m, 1u << 20);
}

/* The same buffer again and again is registered once at each side. Other memory at the same place is not mistaken for
 * it. */
static void registered_once(void **state)
{
    struct pair *p = *state;
    uint8_t *src = fresh_memory(1u << 20, 1), *dst = fresh_memory(1u << 20, 0);

    connect_ends(p);
    for (unsigned i = 0; i < 1000; i++) {
        src[i] = (uint8_t)i;
        read_some(p, src, dst, 1u << 20, i % 50 ? 8192 : 1u << 20); /* all takes long in the guest */
        assert_int_equal(dst[i], (uint8_t)i);
    }
    assert_int_equal(p->a.stats.reg_made, 1);
    assert_int_equal(p->b.stats.reg_made, 1);
    for (unsigned i = 0; i < 20; i++) {
        assert_true(mmap(src, 1u << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == src);
        memset(src, (int)i, 1u << 20);
        read_all(p, src, dst, 1u << 20);
        assert_memory_equal(src, dst, 1u << 20);
    }
    assert_int_equal(p->a.stats.reg_made, 21);
}

/* A connection that ends under reads: all end, in their order; what ended well is there. Its keys are of no use over
 * the next connection. Under writes: who has ended it gets nothing more. */
static void broken_connection_ends_reads(void **state)
{
    struct pair *p = *state;
    uint8_t *src = fresh_memory(4u << 20, 1), *dst = fresh_memory(4u << 20, 0), *then = fresh_memory(4u << 20, 0);
    struct emx_wire_addr to_b = address_of(&p->a, &p->b), to_a = address_of(&p->b, &p->a);
    struct reading r[4] = {{0}};
    uint32_t old;

    for (unsigned round = 0; round < 2; round++) {
        connect_ends(p);
        old = connection(&p->a, &p->b)->nonce;
        memset(dst, 0, 4u << 20);
        for (unsigned i = 0; i < 4; i++) {
            r[i].ended = 0;
            assert_int_equal(start_reading(p, &r[i], src + (i << 20), dst + (i << 20), 1u << 20, 0), ETHMX_OK);
        }
        if (round)
            await_end(p);
        emx_wire_verbs.disconnect(round ? p->a.w : p->b.w, round ? &to_b : &to_a, p->writes ? &r[0].read.key : NULL);
        memcpy(then, dst, 4u << 20);
        while (!r[3].ended)
            await_end(p);
        for (unsigned i = 0; i < 4; i++) {
            assert_int_equal(r[i].ended, 1);
            assert_false(i && !r[i].status && r[i - 1].status);
            if (!r[i].status)
                assert_memory_equal(src + (i << 20), dst + (i << 20), 1u << 20);
        }
        await_another_connection(p, old);
        if (p->writes && !round)
            assert_memory_equal(then, dst, 4u << 20);
        old = connection(&p->b, &p->a)->nonce;
        emx_wire_verbs.disconnect(p->b.w, &to_a, &r[0].read.key); /* that one is over already */
        assert_int_equal(connection(&p->b, &p->a)->nonce, old);
        r[0].read.from = p->writes ? &to_b : &to_a;
        assert_int_equal(emx_wire_verbs.read_start(mover(p)->w, &r[0].read), ETHMX_INPROGRESS);
        for (unsigned i = 0; i < 4; i++)
            emx_wire_verbs.unexport(lender(p)->w, &r[i].held, NULL);
        read_all(p, src, dst, 4u << 20);
        assert_memory_equal(src, dst, 4u << 20);
    }
}

static enum ibv_qp_state state_of(const struct emx_verbs_conn *c)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(c->id->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

/* One that has ended already is halted all the same when it is severed by its key, and no other. (siw needs no halt.)
 */
static void ended_connection_is_halted(void **state)
{
    struct pair *p = *state;
    struct emx_wire_addr to = address_of(&p->b, &p->a);
    const struct emx_verbs_conn *c;
    uint64_t key, other;

    for_roce(&p->b);
    connect_ends(p);
    c = connection(&p->b, &p->a);
    key = (uint64_t)c->nonce << 32;
    other = key ^ 1ull << 63;
    emx_wire_verbs.disconnect(p->b.w, &to, NULL);
    assert_null(connection(&p->b, &p->a));
    assert_int_equal(state_of(c), IBV_QPS_ERR);
    emx_wire_verbs.disconnect(p->b.w, &to, &other);
    assert_int_equal(state_of(c), IBV_QPS_ERR);
    emx_wire_verbs.disconnect(p->b.w, &to, &key);
    assert_int_equal(state_of(c), IBV_QPS_RESET);
    await_another_connection(p, (uint32_t)(key >> 32));
}

static void await_third(struct pair *p, struct end *third, uint32_t next)
{
    time_t end = time(NULL) + WAIT_S;

    while (third->next != next) {
        assert_true(time(NULL) <= end);
        try_out(&p->a, &p->b);
        take(&p->a);
        take(&p->b);
        take(third);
    }
}

/* With room for one connection, which is in use all the time: a second peer waits, and then has its turn. So it is
 * where memory is held out to the first over that connection. */
static void busy_connection_makes_room(void **state)
{
    struct pair *p = *state;
    struct end third = {0};
    struct emx_wire_addr to_b = address_of(&p->a, &p->b);
    uint8_t *src = fresh_memory(1u << 20, 1);
    void *held = NULL;

    close_end(&p->a);
    p->a.cfg.p_verbs_peers = 1;
    open_end(&p->a);
    init_end(&third, interface_b, ID_THIRD, p);
    for (uint32_t i = 0; i < 4; i++) {
        struct emx_wire_export lend = {.to = &to_b, .base = src, .len_bytes = 1u << 20};

        connect_ends(p);
        if (i % 2)
            assert_int_equal(emx_wire_verbs.export(p->a.w, &lend, &held), ETHMX_OK);
        send_frame(&p->a, &third, i, 300);
        await_third(p, &third, i + 1);
        emx_wire_verbs.unexport(p->a.w, &held, NULL);
    }
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
    close_end(&third);
    munmap(src, 1u << 20);
}

/* Where no more memory can be registered it is as where the queues are full. */
static void locked_memory_makes_room(void **state)
{
    struct pair *p = *state;
    struct end third = {0};
    time_t end = time(NULL) + WAIT_S;

    init_end(&third, interface_b, ID_THIRD, p);
    connect_ends(p);
    driver.full = device(&p->a)->pd;
    send_frame(&p->a, &third, 0, 300);
    while (!third.next) {
        assert_true(time(NULL) <= end);
        take(&p->a);
        take(&p->b);
        take(&third);
    }
    assert_int_equal(p->a.stats.verbs_idle_ended, 1);
    assert_int_equal(p->a.stats.wire_tx_errors, 0);
    close_end(&third);
}

/* ---- Receives of the shared queue, when connections end ---- */

#define ROUNDS 10 /* more receives than the queue has would be lost */
#define UNREAD 12 /* frames, fewer than there are credits */

/* Nothing is under way any more at either end, and nothing ends. */
static void await_quiet(struct pair *p)
{
    time_t end = time(NULL) + WAIT_S;

    while (emx_wire_verbs.unsent(p->a.w) || emx_wire_verbs.unsent(p->b.w) ||
           !emx_list_empty(&((struct emx_verbs_wire *)p->a.w)->ending) ||
           !emx_list_empty(&((struct emx_verbs_wire *)p->b.w)->ending)) {
        assert_true(time(NULL) <= end);
        take(&p->a);
        take(&p->b);
    }
    take(&p->b);
    take(&p->b);
}

/* Receives that the shared queue takes until it is full. It is of no use then. */
static unsigned room_of(const struct emx_verbs_dev *d)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)d->slabs->memory, .length = EMX_VERBS_BUF_BYTES, .lkey = d->slabs->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = (uintptr_t)d->slabs->memory, .sg_list = &sge, .num_sge = 1};
    unsigned n = 0;

    while (!ibv_post_srq_recv(d->srq, &wr, &bad))
        n++;
    return n;
}

/* Receives that are in the shared queue, so far as the wire knows. */
static unsigned known(const struct emx_verbs_dev *d)
{
    return d->posted - d->back_count;
}

/* How many the shared queue can have. */
static unsigned measure_queue(struct pair *p)
{
    unsigned n;

    connect_ends(p);
    await_quiet(p);
    n = room_of(device(&p->b)) + known(device(&p->b));
    close_end(&p->a);
    close_end(&p->b);
    open_end(&p->a);
    open_end(&p->b);
    return n;
}

/* b has got frames which it has not looked at. */
static void send_unread(struct pair *p)
{
    time_t end = time(NULL) + WAIT_S;

    for (unsigned i = 0; i < UNREAD; i++)
        send_frame(&p->a, &p->b, PERHAPS, 2000);
    assert_int_equal(waiting(&p->a, &p->b), 0);
    while (driver_fetch(device(&p->b)->cq) < UNREAD) {
        assert_true(time(NULL) <= end);
        emx_wire_verbs.sweep(p->a.w);
    }
}

/* The connection ends while completions of receives wait: of those none is lost, also where the library drops them when
 * the queue pair is destroyed or reset. With a key it is halted. */
static void shared_receives_come_back(void **state)
{
    struct pair *p = *state;
    struct emx_wire_addr to_a = address_of(&p->b, &p->a);
    unsigned capacity = measure_queue(p);

    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t key;
        uint32_t old;

        connect_ends(p);
        await_quiet(p);
        old = connection(&p->b, &p->a)->nonce;
        key = (uint64_t)old << 32;
        send_unread(p);
        emx_wire_verbs.disconnect(p->b.w, &to_a, p->writes ? &key : NULL);
        await_another_connection(p, old);
    }
    await_quiet(p);
    assert_int_equal(driver.dropped, 0);
    assert_int_equal(room_of(device(&p->b)) + known(device(&p->b)), capacity);
    assert_int_equal(p->b.stats.verbs_ends_unsure, 0);
    assert_int_equal(device(&p->b)->tells, p->tells ? EMX_VERBS_TELLS : EMX_VERBS_TELLS_NOT);
    assert_true(!p->tells || driver.events >= ROUNDS);
}

/* A device that used to tell and does not any more is not waited for for ever, and that is counted. */
static void device_that_does_not_tell_is_left(void **state)
{
    struct pair *p = *state;
    struct emx_wire_addr to_a = address_of(&p->b, &p->a);
    uint32_t old;

    for (unsigned round = 0; round < 2; round++) {
        connect_ends(p);
        old = connection(&p->b, &p->a)->nonce;
        driver.tells = !round;
        emx_wire_verbs.disconnect(p->b.w, &to_a, NULL);
        await_another_connection(p, old);
        await_quiet(p);
        assert_int_equal(p->b.stats.verbs_ends_unsure, round);
    }
}

/* ---- What is asked of devices ---- */

/* Each process has another completion vector; if there is none of that number, the first. */
static void vector_is_of_the_process(void **state)
{
    struct pair *p = *state;
    int vector = getpid() % device(&p->a)->context->num_comp_vectors;

    assert_int_equal(driver.vector, vector);
    if (!vector)
        return;
    driver.refuses_vector = vector;
    close_end(&p->a);
    open_end(&p->a);
    assert_int_equal(driver.vector, 0);
}

/* Frames and reads are right with memory that devices may write in any order; and it is registered otherwise, if not
 * so.
 */
static void order_of_writes_is_free(void **state)
{
    struct pair *p = *state;
    uint8_t *src = fresh_memory(1u << 20, 1), *dst = fresh_memory(1u << 20, 0);

    for (unsigned refuses = 0; refuses < 2; refuses++) {
        driver.relaxed = 0;
        driver.refuses_relaxed = refuses;
        memset(dst, 0, 1u << 20);
        connect_ends(p);
        read_all(p, src, dst, 1u << 20);
        assert_memory_equal(src, dst, 1u << 20);
        assert_int_equal(driver.relaxed >= 4, !refuses); /* of each end: frames, and the message */
        close_end(&p->a);
        close_end(&p->b);
        open_end(&p->a);
        open_end(&p->b);
    }
    munmap(src, 1u << 20);
    munmap(dst, 1u << 20);
}

/* ---- What devices tell by themselves ---- */

static void await_no_connection(struct pair *p)
{
    time_t end = time(NULL) + WAIT_S;

    while (connection(&p->b, &p->a)) {
        assert_true(time(NULL) <= end);
        take(&p->a);
        take(&p->b);
    }
}

/* A queue pair has failed, or the port is down: the connection ends, and another one is made. All is acknowledged. */
static void failures_that_are_told_end_connections(void **state)
{
    static const enum ibv_event_type of_qp[] = {IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR};
    struct pair *p = *state;
    uint32_t old;

    for (unsigned i = 0; i < 4; i++) {
        connect_ends(p);
        old = connection(&p->b, &p->a)->nonce;
        if (i < 3)
            driver_qp_event(of_qp[i], connection(&p->b, &p->a)->id->qp);
        else
            driver_event(IBV_EVENT_PORT_ERR, device(&p->b)->context, 1);
        await_no_connection(p);
        await_another_connection(p, old);
    }
    assert_true(driver.acks >= 4);
}

/* What says nothing of a connection ends none: another port, another queue pair, other news. */
static void other_events_end_nothing(void **state)
{
    struct pair *p = *state;
    struct ibv_context *context;
    uint32_t old;

    connect_ends(p);
    context = device(&p->b)->context;
    old = connection(&p->b, &p->a)->nonce;
    driver_event(IBV_EVENT_PORT_ERR, context, 2);
    driver_event(IBV_EVENT_PORT_ACTIVE, context, 1);
    driver_event(IBV_EVENT_GID_CHANGE, context, 1);
    driver_qp_event(IBV_EVENT_COMM_EST, connection(&p->b, &p->a)->id->qp);
    while (driver.acks < 4) {
        take(&p->a);
        take(&p->b);
    }
    connect_ends(p);
    assert_int_equal(connection(&p->b, &p->a)->nonce, old);
}

/* Two endpoints of a process share a device's events: each gets its own. */
static void events_find_their_endpoint(void **state)
{
    struct pair *p = *state;
    struct end third = {0};
    time_t end = time(NULL) + WAIT_S;
    uint32_t old;

    init_end(&third, interface_b, ID_THIRD, p);
    assert_ptr_equal(device(&third)->context, device(&p->b)->context);
    connect_ends(p);
    old = connection(&p->b, &p->a)->nonce;
    driver_qp_event(IBV_EVENT_QP_FATAL, connection(&p->b, &p->a)->id->qp);
    while (!driver.acks) {
        assert_true(time(NULL) <= end);
        take(&third);
    }
    await_no_connection(p);
    await_another_connection(p, old);
    close_end(&third);
}

/* A device that has failed is let go of, and its peers are lost. */
static void failed_device_is_left(void **state)
{
    struct pair *p = *state;
    const struct emx_verbs_wire *w = (struct emx_verbs_wire *)p->b.w;
    struct emx_wire_addr lost, to_a = address_of(&p->b, &p->a);
    time_t end = time(NULL) + WAIT_S;

    connect_ends(p);
    driver_event(IBV_EVENT_DEVICE_FATAL, device(&p->b)->context, 0);
    while (w->dev_count) {
        assert_true(time(NULL) <= end);
        take(&p->b);
    }
    assert_true(emx_wire_verbs.unreachable(p->b.w, &lost));
    assert_memory_equal(&lost, &to_a, sizeof(lost));
}

/* The kernel's own: the port of a device that is made for this goes down. */
static void port_that_is_down_is_noticed(void **state)
{
    struct pair *p = *state;
    bool roce = is_roce(&p->a);
    struct end third = {0};
    time_t end = time(NULL) + WAIT_S;

    make_device(roce ? "rxe" : "siw", roce ? "10.9.7.1" : "10.9.8.1");
    init_end(&third, roce ? "test-rxe" : "test-siw", ID_THIRD, p);
    assert_int_equal(system(roce ? "ip link set test-rxe down" : "ip link set test-siw down"), 0);
    while (!(driver.types & 1u << IBV_EVENT_PORT_ERR)) {
        assert_true(time(NULL) <= end);
        take(&third);
    }
    close_end(&third);
}

/* siw tells whom it is for that a read had a wrong key. */
static void wrong_key_is_told(void **state)
{
    struct pair *p = *state;
    uint8_t *src = fresh_memory(1u << 20, 1), *dst = fresh_memory(1u << 20, 0);
    struct reading r = {0};
    uint32_t old;

    if (is_roce(&p->a))
        skip();
    connect_ends(p);
    old = connection(&p->a, &p->b)->nonce;
    spoil_key = true;
    assert_int_equal(start_reading(p, &r, src, dst, 1u << 20, 0), ETHMX_OK);
    spoil_key = false;
    await_end(p);
    assert_int_not_equal(r.status, ETHMX_OK);
    await_another_connection(p, old);
    assert_true(driver.types & 1u << IBV_EVENT_QP_REQ_ERR);
    emx_wire_verbs.unexport(lender(p)->w, &r.held, NULL);
    munmap(src, 1u << 20);
    munmap(dst, 1u << 20);
}

#define TEST(f, p)           cmocka_unit_test_prestate_setup_teardown(f, setup, teardown, p)
#define TEST_OF_LOSSES(f, p) cmocka_unit_test_prestate_setup_teardown(f, setup, teardown_losses, p)

int main(int argc, char **argv)
{
    struct pair shared = {.shared = true}, own = {.shared = false}, writes = {.shared = true, .writes = true};
    struct pair own_writes = {.shared = false, .writes = true};
    struct pair cleans = {.shared = true, .cleans = true};
    struct pair tells = {.shared = true, .cleans = true, .tells = true};
    struct pair halts = {.shared = true, .cleans = true, .tells = true, .writes = true};
    const struct CMUnitTest with_srq[] = {
        TEST(all_lengths_arrive, &shared),
        TEST(short_frames_go_inline, &shared),
        TEST(floods_wait_for_credits, &shared),
        TEST(frames_are_not_doubled, &shared),
        TEST(crossing_calls_are_settled, &shared),
        TEST(broken_connection_is_made_again, &shared),
        TEST(silent_end_notices, &shared),
        TEST(idle_connection_makes_room, &shared),
        TEST(busy_connection_makes_room, &shared),
        TEST(locked_memory_makes_room, &shared),
        TEST(peer_that_went_is_called_again, &shared),
        TEST(nobody_there_is_counted, &shared),
        TEST(descriptor_tells, &shared),
        TEST(unsent_ends, &shared),
        TEST_OF_LOSSES(devices_send_again_in_time, &shared),
        TEST_OF_LOSSES(lost_call_is_repeated, &shared),
        TEST_OF_LOSSES(cut_off_peer_is_told, &shared),
        TEST(silent_peer_is_not_lost, &shared),
        TEST(memory_is_read, &shared),
        TEST(registered_once, &shared),
        TEST(broken_connection_ends_reads, &shared),
        TEST(vector_is_of_the_process, &shared),
        TEST(order_of_writes_is_free, &shared),
        TEST(failures_that_are_told_end_connections, &shared),
        TEST(other_events_end_nothing, &shared),
        TEST(events_find_their_endpoint, &shared),
        TEST(failed_device_is_left, &shared),
        TEST(wrong_key_is_told, &shared),
        TEST(port_that_is_down_is_noticed, &shared),
    };
    const struct CMUnitTest that_clean[] = {
        TEST(shared_receives_come_back, &cleans),      TEST(shared_receives_come_back, &tells),
        TEST(shared_receives_come_back, &halts),       TEST(device_that_does_not_tell_is_left, &tells),
        TEST(idle_connection_makes_room, &tells),      TEST(busy_connection_makes_room, &tells),
        TEST(broken_connection_is_made_again, &tells),
    };
    const struct CMUnitTest without_srq[] = {
        TEST(all_lengths_arrive, &own),
        TEST(floods_wait_for_credits, &own),
        TEST(broken_connection_is_made_again, &own),
        TEST(memory_is_read, &own),
        TEST(memory_to_write_needs_a_halt, &own_writes),
    };
    const struct CMUnitTest with_writes[] = {
        TEST(memory_is_read, &writes),
        TEST(memory_to_write_needs_a_halt, &writes),
        TEST(registered_once, &writes),
        TEST(broken_connection_ends_reads, &writes),
        TEST(ended_connection_is_halted, &writes),
    };
    int failed;

    if (argc < 3 || argc > 4) {
        fprintf(stderr, "usage: test_verbs INTERFACE INTERFACE [TEST|-TEST]: only that test, or all others\n");
        return 2;
    }
    if (argc > 3 && argv[3][0] == '-') {
        cmocka_set_skip_filter(argv[3] + 1);
    } else if (argc > 3) {
        cmocka_set_test_filter(argv[3]);
        emx_log_limit = EMX_LOG_DEBUG;
    }
    interface_a = argv[1];
    interface_b = argv[2];
    failed = cmocka_run_group_tests_name("shared receive queue", with_srq, NULL, NULL);
    failed |= cmocka_run_group_tests_name("devices that drop completions", that_clean, NULL, NULL);
    failed |= cmocka_run_group_tests_name("devices that write", with_writes, NULL, NULL);
    return cmocka_run_group_tests_name("receive queues of their own", without_srq, NULL, NULL) || failed;
}
