/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Records are C structs: both ends are little-endian (ethmx itself demands it) and of one version, which the hello
 * proves. Every field that came over the network is checked here.
 */
#include "perf_control.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_TIMEOUT_S 10
#define CONNECT_TRIES     50
#define CONNECT_PAUSE_NS  100000000

struct hello {
    char magic[16]; /* "ethmx_perf 1" */
    char version[16];
    struct perf_plan plan;
};

static const char magic[16] = "ethmx_perf 1";

static int control_send_all(int fd, const void *buf, size_t len_bytes)
{
    const char *at = buf;

    while (len_bytes) {
        ssize_t n = send(fd, at, len_bytes, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fprintf(stderr, "ethmx_perf: the other end has gone (%s)\n", strerror(errno));
            return -1;
        }
        at += n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

static int control_recv_all(int fd, void *buf, size_t len_bytes)
{
    char *at = buf;

    while (len_bytes) {
        ssize_t n = recv(fd, at, len_bytes, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            fprintf(stderr, "ethmx_perf: the other end %s\n", n ? "does not answer" : "has closed the connection");
            return -1;
        }
        at += n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

static void control_set_options(int fd)
{
    struct timeval limit = {.tv_sec = CONTROL_TIMEOUT_S};
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static struct addrinfo *control_resolve(const char *host, const char *port, int family)
{
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
    struct addrinfo *list;
    int err = getaddrinfo(host, port, &hints, &list);

    if (err) {
        fprintf(stderr, "ethmx_perf: %s: %s\n", host ? host : port, gai_strerror(err));
        return NULL;
    }
    return list;
}

/* One try at each address. */
static int control_connect_once(const struct addrinfo *list)
{
    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);

        if (fd < 0)
            continue;
        control_set_options(fd);
        if (!connect(fd, a->ai_addr, a->ai_addrlen))
            return fd;
        close(fd);
    }
    return -1;
}

int perf_control_connect(const char *host, const char *port)
{
    const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_NS};
    struct addrinfo *list = control_resolve(host, port, AF_UNSPEC);
    int fd = -1;

    if (!list)
        return -1;
    for (unsigned i = 0; i < CONNECT_TRIES; i++) {
        fd = control_connect_once(list);
        if (fd >= 0 || errno != ECONNREFUSED)
            break;
        nanosleep(&pause, NULL);
    }
    if (fd < 0)
        fprintf(stderr,
                "ethmx_perf: cannot reach the server at %s, TCP port %s: %s. Is ethmx_perf running there, and does a "
                "firewall let the port through?\n",
                host, port, strerror(errno));
    freeaddrinfo(list);
    return fd;
}

/* How a socket of IPv6 shows an address of IPv4. */
#define MAPPED "::ffff:"

/* Whether this host has IPv6. A socket of it takes IPv4, too. */
static bool control_has_v6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return false;
    close(fd);
    return true;
}

int perf_control_listen(const char *port)
{
    struct addrinfo *list = control_resolve(NULL, port, control_has_v6() ? AF_INET6 : AF_INET);
    int fd, on = 1, off = 0;

    if (!list)
        return -1;
    fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, list->ai_protocol);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd >= 0 && list->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) || listen(fd, 8)) {
        fprintf(stderr, "ethmx_perf: cannot listen on TCP port %s: %s. Another one may run: use --port\n", port,
                strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    return fd;
}

int perf_control_accept(int listener, char *peer, size_t peer_len_bytes)
{
    struct sockaddr_storage from;
    socklen_t len = sizeof(from);
    int fd;

    do
        fd = accept(listener, (struct sockaddr *)&from, &len);
    while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
    if (fd < 0) {
        perror("ethmx_perf: accept");
        return -1;
    }
    control_set_options(fd);
    if (getnameinfo((struct sockaddr *)&from, len, peer, (socklen_t)peer_len_bytes, NULL, 0, NI_NUMERICHOST))
        snprintf(peer, peer_len_bytes, "?");
    if (!strncmp(peer, MAPPED, strlen(MAPPED)))
        memmove(peer, peer + strlen(MAPPED), strlen(peer + strlen(MAPPED)) + 1);
    return fd;
}

int perf_control_send_plan(int fd, const struct perf_plan *p)
{
    struct hello h = {.plan = *p};

    memcpy(h.magic, magic, sizeof(magic));
    snprintf(h.version, sizeof(h.version), "%s", ethmx_version());
    return control_send_all(fd, &h, sizeof(h));
}

int perf_control_recv_plan(int fd, struct perf_plan *p)
{
    struct hello h;

    if (control_recv_all(fd, &h, sizeof(h)))
        return -1;
    if (memcmp(h.magic, magic, sizeof(magic))) {
        fprintf(stderr, "ethmx_perf: a client that is not ethmx_perf was sent away\n");
        return -1;
    }
    h.version[sizeof(h.version) - 1] = 0;
    if (strcmp(h.version, ethmx_version())) {
        fprintf(stderr, "ethmx_perf: a client of version %s was sent away: this is %s\n", h.version, ethmx_version());
        return -1;
    }
    if (!perf_plan_valid(&h.plan)) {
        fprintf(stderr, "ethmx_perf: a client with an unusable plan was sent away\n");
        return -1;
    }
    *p = h.plan;
    return 0;
}

int perf_control_send_greeting(int fd, const struct perf_greeting *g)
{
    return control_send_all(fd, g, sizeof(*g));
}

int perf_control_recv_greeting(int fd, struct perf_greeting *g)
{
    if (control_recv_all(fd, g, sizeof(*g)))
        return -1;
    g->text[sizeof(g->text) - 1] = 0;
    if (g->addr_bytes > sizeof(g->addr)) {
        fprintf(stderr, "ethmx_perf: the other end sent an address that is too long\n");
        return -1;
    }
    return 0;
}

int perf_control_send_report(int fd, const struct perf_report *r)
{
    return control_send_all(fd, r, sizeof(*r));
}

enum perf_peek perf_control_peek(int fd, struct perf_report *r_p)
{
    struct perf_report r;
    ssize_t n = recv(fd, &r, sizeof(r), MSG_PEEK | MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        return PERF_PEEK_CLOSED;
    if (n < (ssize_t)sizeof(r))
        return PERF_PEEK_NOTHING;
    r.text[sizeof(r.text) - 1] = 0;
    if (r.counter_count > PERF_COUNTERS_MAX)
        r.counter_count = 0;
    *r_p = r;
    return PERF_PEEK_REPORT;
}

enum perf_peek perf_control_take(int fd, struct perf_report *r_p)
{
    enum perf_peek peek = perf_control_peek(fd, r_p);
    struct perf_report taken;

    if (peek == PERF_PEEK_REPORT && control_recv_all(fd, &taken, sizeof(taken)))
        return PERF_PEEK_CLOSED;
    return peek;
}
