/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wire/udp/udp_conn.h"

#define PEERS 300

/* The wire's socket, a peer's, and the lines. */
struct world {
    struct emx_udp_conns lines;
    int wire_fd, peer_fd;
    struct sockaddr_in wire, peer;
};

static int open_udp(struct sockaddr_in *at)
{
    socklen_t len = sizeof(*at);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)at, sizeof(*at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &len), 0);
    return fd;
}

static int setup(void **state)
{
    static struct world w;

    w.wire_fd = open_udp(&w.wire);
    w.peer_fd = open_udp(&w.peer);
    emx_udp_conns_init(&w.lines, w.wire_fd, false, w.wire.sin_port);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    emx_udp_conns_fini(&w->lines);
    assert_int_equal(w->lines.count, 0);
    close(w->wire_fd);
    close(w->peer_fd);
    return 0;
}

/* Valid until the next call. */
static const struct emx_udp_addr *at(uint32_t ip, in_port_t port)
{
    static struct emx_udp_addr a;

    a = (struct emx_udp_addr){.ip = emx_ip_from_v4(ip), .port = port};
    return &a;
}

/* n datagrams are about to go to the peer. */
static int ask(struct world *w, unsigned n)
{
    return emx_udp_conn_for(&w->lines, at(w->peer.sin_addr.s_addr, w->peer.sin_port), n);
}

/* Peers that nothing is sent to in truth. */
static int ask_other(struct world *w, unsigned i, unsigned n)
{
    return emx_udp_conn_for(&w->lines, at(htonl(INADDR_LOOPBACK + 1 + i), htons(9)), n);
}

static int line(struct world *w)
{
    int fd = -1;

    for (unsigned i = 0; i < EMX_UDP_CONN_AFTER && fd < 0; i++)
        fd = ask(w, 1);
    assert_true(fd >= 0);
    return fd;
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static void comes_after_a_while(void **state)
{
    struct world *w = *state;
    int fd;

    for (unsigned i = 1; i < EMX_UDP_CONN_AFTER; i++)
        assert_int_equal(ask(w, 1), -1);
    fd = ask(w, 1);
    assert_true(fd >= 0);
    assert_int_equal(ask(w, 1), fd);
    assert_int_equal(w->lines.count, 1);
    assert_true(ask_other(w, 0, EMX_UDP_CONN_AFTER) >= 0); /* a batch */
    assert_int_equal(w->lines.count, 2);
}

/* What goes by a line comes from the wire's port, and what comes back comes to the wire's socket. */
static void sends_from_the_wires_port(void **state)
{
    struct world *w = *state;
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    int fd = line(w);
    char c;

    assert_int_equal(send(fd, "a", 1, 0), 1);
    assert_int_equal(recvfrom(w->peer_fd, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
    assert_int_equal(from.sin_addr.s_addr, w->wire.sin_addr.s_addr);
    assert_int_equal(from.sin_port, w->wire.sin_port);
    assert_int_equal(sendto(w->peer_fd, "b", 1, 0, (const struct sockaddr *)&from, sizeof(from)), 1);
    assert_int_equal(recv(fd, &c, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(recv(w->wire_fd, &c, 1, 0), 1);
    assert_int_equal(c, 'b');
}

/* A peer whose port is closed is no error, not even the second time. */
static void hears_no_icmp(void **state)
{
    struct world *w = *state;
    int fd = line(w);

    close(w->peer_fd);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(send(fd, "a", 1, 0), 1);
    w->peer_fd = open_udp(&w->peer);
}

static void has_the_wires_options(void **state)
{
    struct world *w = *state;
    int tos = 0x4a, priority = 5, df = IP_PMTUDISC_PROBE, bytes = 50000, got = 0, fd;
    socklen_t len = sizeof(got);

    assert_int_equal(setsockopt(w->wire_fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos)), 0);
    assert_int_equal(setsockopt(w->wire_fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)), 0);
    assert_int_equal(setsockopt(w->wire_fd, IPPROTO_IP, IP_MTU_DISCOVER, &df, sizeof(df)), 0);
    assert_int_equal(setsockopt(w->wire_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
    fd = line(w);
    assert_int_equal(getsockopt(fd, IPPROTO_IP, IP_TOS, &got, &len), 0);
    assert_int_equal(got, tos);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PRIORITY, &got, &len), 0);
    assert_int_equal(got, priority); /* not what the kernel derives from the type of service */
    assert_int_equal(getsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &got, &len), 0);
    assert_int_equal(got, df);
    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &got, &len), 0);
    assert_int_equal(got, 2 * bytes);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
}

/* The wire's port does not stay one that others may share. */
static void port_is_not_shared(void **state)
{
    struct world *w = *state;
    int on = 0;
    socklen_t len = sizeof(on);

    line(w);
    assert_int_equal(getsockopt(w->wire_fd, SOL_SOCKET, SO_REUSEPORT, &on, &len), 0);
    assert_int_equal(on, 0);
}

/* However many peers there are, lines are few; who is sent to all the time keeps its own. */
static void least_recently_used_goes(void **state)
{
    struct world *w = *state;
    int fd = line(w);

    for (unsigned i = 0; i < PEERS; i++) {
        ask_other(w, i, EMX_UDP_CONN_AFTER);
        assert_int_equal(ask(w, 1), fd);
        assert_in_range(w->lines.count, 1, EMX_UDP_CONN_SETS * EMX_UDP_CONN_WAYS);
    }
    assert_in_range(w->lines.count, EMX_UDP_CONN_SETS, EMX_UDP_CONN_SETS * EMX_UDP_CONN_WAYS);
    for (unsigned i = 0; i < PEERS; i++)
        ask_other(w, i, 1);
    assert_false(is_open(fd));
    assert_int_equal(ask(w, 1), -1);
}

/* A line that failed takes longer to come again, and each time longer still. */
static void failure_is_put_off(void **state)
{
    struct world *w = *state;
    unsigned wanted = EMX_UDP_CONN_AFTER;
    int fd = line(w);

    for (unsigned i = 0; i < 40; i++) {
        unsigned before = wanted;

        emx_udp_conn_failed(&w->lines, at(w->peer.sin_addr.s_addr, w->peer.sin_port));
        assert_false(is_open(fd));
        wanted = w->lines.last->wanted;
        assert_true(wanted > before || wanted == before);
        assert_true(i || wanted == 2 * before);
        assert_int_equal(ask(w, wanted - 1), -1);
        fd = ask(w, 1);
        assert_true(fd >= 0);
    }
    emx_udp_conn_failed(&w->lines, at(htonl(INADDR_LOOPBACK + 9), 9)); /* it has none */
}

/* Where no descriptor is left, or the program may want it, there is no line. */
static void descriptors_are_left(void **state)
{
    struct world *w = *state;
    struct rlimit limit, few;
    int spare = dup(w->peer_fd);

    assert_true(spare >= 0);
    close(spare);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = (rlim_t)spare * 2;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    emx_udp_conns_init(&w->lines, w->wire_fd, false, w->wire.sin_port);
    assert_int_equal(ask(w, EMX_UDP_CONN_AFTER), -1);
    few.rlim_cur = (rlim_t)spare;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(ask(w, 2 * EMX_UDP_CONN_AFTER), -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    emx_udp_conns_init(&w->lines, w->wire_fd, false, w->wire.sin_port);
    assert_int_equal(ask(w, EMX_UDP_CONN_AFTER), spare);
}

/* No way there: the wire's own socket is to say so. */
static void unreachable_has_none(void **state)
{
    struct world *w = *state;
    struct in_addr everybody = {.s_addr = htonl(INADDR_BROADCAST)};

    assert_int_equal(emx_udp_conn_for(&w->lines, at(everybody.s_addr, htons(9)), EMX_UDP_CONN_AFTER), -1);
    assert_int_equal(w->lines.count, 0);
}

static void old_ones_end(void **state)
{
    struct world *w = *state;
    int fd;

    emx_udp_conns_sweep(&w->lines, 1000);
    fd = line(w);
    emx_udp_conns_sweep(&w->lines, 1001);
    assert_int_equal(ask(w, 1), fd);
    emx_udp_conns_sweep(&w->lines, 1100);
    assert_int_equal(w->lines.count, 0);
    assert_true(ask(w, 1) >= 0); /* at once */
}

/* ---- IPv6 ---- */

/* A socket of both families, as the wire's, or of IPv6 alone. */
static int open_udp6(bool dual, struct sockaddr_in6 *at6)
{
    socklen_t len = sizeof(*at6);
    int only = !dual, fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    *at6 = (struct sockaddr_in6){.sin6_family = AF_INET6};
    if (!dual)
        at6->sin6_addr = in6addr_loopback;
    if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only)) ||
        bind(fd, (const struct sockaddr *)at6, sizeof(*at6))) {
        print_message("no IPv6 here: %s\n", strerror(errno));
        skip();
    }
    assert_int_equal(getsockname(fd, (struct sockaddr *)at6, &len), 0);
    return fd;
}

static struct emx_udp_addr at6(const struct sockaddr_in6 *to)
{
    struct emx_udp_addr a = {.port = to->sin6_port, .v6 = 1};

    memcpy(&a.ip, &to->sin6_addr, sizeof(a.ip));
    return a;
}

/* The wire's socket takes both families. A line has the family of the peer. */
struct world6 {
    struct emx_udp_conns lines;
    int wire_fd, peer_fd;
    struct sockaddr_in6 wire, peer;
};

static void begin6(struct world6 *w)
{
    w->peer_fd = open_udp6(false, &w->peer);
    w->wire_fd = open_udp6(true, &w->wire);
    emx_udp_conns_init(&w->lines, w->wire_fd, true, w->wire.sin6_port);
}

static void end6(struct world6 *w)
{
    emx_udp_conns_fini(&w->lines);
    close(w->wire_fd);
    close(w->peer_fd);
}

static void ipv6_goes_from_the_wires_port(void **state)
{
    static struct world6 w;
    struct sockaddr_in6 from;
    socklen_t len = sizeof(from);
    struct emx_udp_addr to;
    char c;
    int fd;

    (void)state;
    begin6(&w);
    to = at6(&w.peer);
    assert_int_equal(emx_udp_conn_for(&w.lines, &to, EMX_UDP_CONN_AFTER - 1), -1);
    fd = emx_udp_conn_for(&w.lines, &to, 1);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, "a", 1, 0), 1);
    assert_int_equal(recvfrom(w.peer_fd, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
    assert_int_equal(from.sin6_port, w.wire.sin6_port);
    assert_int_equal(sendto(w.peer_fd, "b", 1, 0, (const struct sockaddr *)&from, sizeof(from)), 1);
    assert_int_equal(recv(fd, &c, 1, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(recv(w.wire_fd, &c, 1, 0), 1);
    end6(&w);
}

static void ipv6_has_the_wires_options(void **state)
{
    static const struct {
        int name, value;
    } option[] = {{IPV6_TCLASS, 0x4a}, {IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE}, {IPV6_DONTFRAG, 1}};
    static struct world6 w;
    struct emx_udp_addr to;
    int got, fd;
    socklen_t len = sizeof(got);

    (void)state;
    begin6(&w);
    for (unsigned i = 0; i < ARRAY_LEN(option); i++)
        assert_int_equal(setsockopt(w.wire_fd, IPPROTO_IPV6, option[i].name, &option[i].value, sizeof(option[i].value)),
                         0);
    to = at6(&w.peer);
    fd = emx_udp_conn_for(&w.lines, &to, EMX_UDP_CONN_AFTER);
    assert_true(fd >= 0);
    for (unsigned i = 0; i < ARRAY_LEN(option); i++) {
        assert_int_equal(getsockopt(fd, IPPROTO_IPV6, option[i].name, &got, &len), 0);
        assert_int_equal(got, option[i].value);
    }
    end6(&w);
}

static void ipv4_goes_from_the_same_port(void **state)
{
    static struct world6 w;
    struct world *v4 = *state;
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    char c;
    int fd;

    begin6(&w);
    fd = emx_udp_conn_for(&w.lines, at(v4->peer.sin_addr.s_addr, v4->peer.sin_port), EMX_UDP_CONN_AFTER);
    assert_true(fd >= 0);
    assert_int_equal(send(fd, "a", 1, 0), 1);
    assert_int_equal(recvfrom(v4->peer_fd, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
    assert_int_equal(from.sin_family, AF_INET);
    assert_int_equal(from.sin_port, w.wire.sin6_port);
    end6(&w);
}

/* Peers that differ in one byte of what makes a destination. */
static void destinations_are_told_apart(void **state)
{
    static struct world6 w;
    struct emx_udp_addr to;

    (void)state;
    begin6(&w);
    to = at6(&w.peer);
    emx_udp_conn_for(&w.lines, &to, 1);
    for (unsigned i = 0; i < sizeof(to); i++) {
        struct emx_udp_addr other = to;

        ((uint8_t *)&other)[i] ^= 1;
        assert_int_equal(emx_udp_conn_for(&w.lines, &other, 1), -1);
        assert_memory_equal(&w.lines.last->peer, &other, sizeof(other));
        assert_int_equal(w.lines.last->frames, 1);
    }
    end6(&w);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(comes_after_a_while),
        TEST(sends_from_the_wires_port),
        TEST(hears_no_icmp),
        TEST(has_the_wires_options),
        TEST(port_is_not_shared),
        TEST(least_recently_used_goes),
        TEST(failure_is_put_off),
        TEST(descriptors_are_left),
        TEST(unreachable_has_none),
        TEST(old_ones_end),
        TEST(ipv6_goes_from_the_wires_port),
        TEST(ipv6_has_the_wires_options),
        TEST(ipv4_goes_from_the_same_port),
        TEST(destinations_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
