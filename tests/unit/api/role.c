/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/role.h"

#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#define HANG_S     120 /* whatever waits longer will wait for ever */
#define IDLE_POLLS 100 /* then the processor goes to the other role */

struct ethmx_ep *open_with(const struct ethmx_ep_options *opt, const char *const *settings)
{
    struct ethmx_config *cfg;
    struct ethmx_ep *ep;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    for (; *settings; settings += 2)
        assert_int_equal(ethmx_config_set(cfg, settings[0], settings[1], "test"), ETHMX_OK);
    assert_int_equal(ethmx_ep_open(cfg, opt, &ep), ETHMX_OK);
    ethmx_config_destroy(cfg);
    return ep;
}

bool late(const struct timespec *since)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - since->tv_sec > HANG_S;
}

void done(void *arg, const struct ethmx_result *result)
{
    struct pending *p = arg;

    p->result = *result;
    atomic_store(&p->done, true);
}

bool await(const struct side *s, const _Atomic bool *flag)
{
    struct timespec since;
    unsigned idle = 0;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while (!atomic_load(flag)) {
        if (ethmx_progress(s->ep)) {
            idle = 0;
        } else if (++idle >= IDLE_POLLS) {
            ethmx_wait(s->ep, 1000000);
            CHECK(!late(&since));
        }
    }
    return true;
}

void poll_some(const struct side *s, unsigned n)
{
    while (n--) {
        if (!ethmx_progress(s->ep))
            sched_yield();
    }
}

uint64_t bits_of(const struct side *s, unsigned tag)
{
    return (uint64_t)s->scenario << 32 | tag;
}

struct ethmx_data flat(void *base, size_t len_bytes)
{
    return (struct ethmx_data){.base = base, .len_bytes = len_bytes};
}

uint8_t pattern(unsigned seed, size_t i)
{
    return (uint8_t)(seed * 37 + i * 7 + (i >> 8) * 3);
}

void fill(uint8_t *buf, size_t len_bytes, unsigned seed)
{
    for (size_t i = 0; i < len_bytes; i++)
        buf[i] = pattern(seed, i);
}

bool is_filled(const uint8_t *buf, size_t len_bytes, unsigned seed)
{
    for (size_t i = 0; i < len_bytes; i++)
        CHECK(buf[i] == pattern(seed, i));
    return true;
}

/* ---- Operations to their end ---- */

bool start_send(const struct side *s, unsigned tag, struct ethmx_data data, enum ethmx_send_mode mode,
                struct pending *p)
{
    int rc;

    *p = (struct pending){.done = false};
    rc = ethmx_isend(s->ep, s->peer, bits_of(s, tag), &data, mode, done, p);
    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&p->done, true);
    return true;
}

bool start_recv_from(const struct side *s, struct ethmx_peer *peer, uint64_t bits, uint64_t mask,
                     struct ethmx_data data, struct pending *p, struct ethmx_req **req_p)
{
    int rc;

    *p = (struct pending){.done = false};
    rc = ethmx_irecv(s->ep, peer, bits, mask, &data, done, p, req_p, &p->result);
    CHECK(rc == ETHMX_OK || rc == ETHMX_INPROGRESS);
    if (rc == ETHMX_OK)
        atomic_store(&p->done, true);
    return true;
}

bool start_recv(const struct side *s, unsigned tag, struct ethmx_data data, struct pending *p)
{
    return start_recv_from(s, s->peer, bits_of(s, tag), FULL_MASK, data, p, NULL);
}

bool send_data(const struct side *s, unsigned tag, struct ethmx_data data)
{
    struct pending p;

    CHECK(start_send(s, tag, data, ETHMX_SEND_STANDARD, &p));
    CHECK(await(s, &p.done));
    CHECK(p.result.status == ETHMX_OK);
    return true;
}

bool recv_data(const struct side *s, unsigned tag, struct ethmx_data data, struct ethmx_result *result_p)
{
    struct pending p;

    CHECK(start_recv(s, tag, data, &p));
    CHECK(await(s, &p.done));
    *result_p = p.result;
    return true;
}

bool signal_other(const struct side *s, unsigned tag)
{
    return send_data(s, tag, flat(NULL, 0));
}

bool await_signal(const struct side *s, unsigned tag)
{
    struct ethmx_result r;

    CHECK(recv_data(s, tag, flat(NULL, 0), &r));
    CHECK(r.status == ETHMX_OK && r.msg_bytes == 0);
    return true;
}

bool tell(const struct side *s)
{
    return write(s->fd, "x", 1) == 1;
}

bool hear(const struct side *s)
{
    struct pollfd fd = {.fd = s->fd, .events = POLLIN};
    char c;

    CHECK(poll(&fd, 1, HANG_S * 1000) == 1);
    return read(s->fd, &c, 1) == 1;
}

bool hear_progressing(const struct side *s)
{
    struct pollfd fd = {.fd = s->fd, .events = POLLIN};
    struct timespec since;

    clock_gettime(CLOCK_MONOTONIC, &since);
    while (!poll(&fd, 1, 0)) {
        poll_some(s, 10);
        CHECK(!late(&since));
    }
    return hear(s);
}

/* ---- Endpoints ---- */

static struct ethmx_config *make_config(const struct pair_options *o)
{
    struct ethmx_config *cfg = NULL;

    if (ethmx_config_create(&cfg) || ethmx_config_set(cfg, "heartbeat", o->heartbeat, "test") ||
        ethmx_config_set(cfg, "udp_ports", "0", "test") ||
        (o->wait && ethmx_config_set(cfg, "wait", o->wait, "test")) ||
        (o->progress && ethmx_config_set(cfg, "progress", o->progress, "test"))) {
        print_error("%s\n", ethmx_error_text());
        ethmx_config_destroy(cfg);
        return NULL;
    }
    return cfg;
}

struct ethmx_ep *open_endpoint(const struct pair_options *o)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION,
                                   .struct_bytes = sizeof(opt),
                                   .thread_multiple = o->threads,
                                   .job_key = "a test's job"};
    struct ethmx_config *cfg = make_config(o);
    struct ethmx_ep *ep = NULL;

    if (!cfg)
        return NULL;
    if (ethmx_ep_open(cfg, &opt, &ep))
        print_error("%s\n", ethmx_error_text());
    ethmx_config_destroy(cfg);
    return ep;
}

bool exchange(struct side *s)
{
    uint8_t mine[ETHMX_ADDRESS_MAX], theirs[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(mine);
    struct ethmx_peer *again;
    ssize_t got;

    CHECK(ethmx_ep_address(s->ep, mine, &len) == ETHMX_OK);
    CHECK(send(s->fd, mine, len, 0) == (ssize_t)len);
    got = recv(s->fd, theirs, sizeof(theirs), 0);
    CHECK(got > 0);
    CHECK(ethmx_peer_add(s->ep, mine, len, NULL, &s->self) == ETHMX_OK);
    CHECK(ethmx_peer_add(s->ep, theirs, (size_t)got, s, &s->peer) == ETHMX_OK);
    len = (size_t)got - 1;
    CHECK(ethmx_peer_address(s->ep, s->peer, mine, &len) == ETHMX_ERR_PARAM);
    len = sizeof(mine);
    CHECK(ethmx_peer_address(s->ep, s->peer, mine, &len) == ETHMX_OK);
    /* longer than theirs if a hello came first */
    CHECK(len >= (size_t)got && ethmx_peer_add(s->ep, mine, len, NULL, &again) == ETHMX_OK && again == s->peer);
    return true;
}

void make_sockets(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fd), 0);
}

pid_t fork_other(int fd[2])
{
    pid_t pid;

    make_sockets(fd);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    return pid;
}

uint64_t counter(const struct ethmx_ep *ep, const char *name)
{
    for (unsigned i = 0; ethmx_counter(i); i++) {
        if (!strcmp(ethmx_counter(i)->name, name))
            return ethmx_counter_read(ep, i);
    }
    return UINT64_MAX;
}
