/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Endpoints: wrong settings, addresses, peers that are not there or die, what the host has. Over udp on loopback unless
 * ETHMX_* variables say otherwise.
 */
#include "api/role.h"

#include "endpoint/ep.h"
#include "ethmx_wait.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ethmx_ep *open_expecting(const char *name, const char *value, int expect)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt)};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep = NULL;
    int rc;

    assert_int_equal(ethmx_config_create(&cfg), ETHMX_OK);
    if (name)
        assert_int_equal(ethmx_config_set(cfg, name, value, "test"), ETHMX_OK);
    rc = ethmx_ep_open(cfg, &opt, &ep);
    ethmx_config_destroy(cfg);
    if (rc != expect)
        fail_msg("%s=%s: %s: %s", name, value, ethmx_strerror(rc), ethmx_error_text());
    return ep;
}

/* Options of another version may be shorter than ours: only the version's place is known. It ends a page here, and what
 * follows cannot be read. */
static void other_versions_are_refused(void **state)
{
    static const unsigned versions[] = {0, ETHMX_API_VERSION - 1, ETHMX_API_VERSION + 1};
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *map = mmap(NULL, 2 * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *opt = map + page_bytes - 8; /* aligned as the struct */

    (void)state;
    assert_ptr_not_equal(map, MAP_FAILED);
    assert_int_equal(mprotect(map + page_bytes, page_bytes, PROT_NONE), 0);
    for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
        struct ethmx_ep *ep = NULL;
        char expected[32];

        memcpy(opt, &versions[i], sizeof(versions[i]));
        assert_int_equal(ethmx_ep_open(NULL, (const void *)opt, &ep), ETHMX_ERR_VERSION);
        assert_null(ep);
        snprintf(expected, sizeof(expected), "built for version %u ", versions[i]);
        assert_non_null(strstr(ethmx_error_text(), expected));
    }
    munmap(map, 2 * page_bytes);
}

static void wrong_settings_are_named(void **state)
{
    (void)state;
    assert_null(open_expecting("wires", "udp,carrier-pigeon", ETHMX_ERR_PARAM));
    assert_non_null(strstr(ethmx_error_text(), "carrier-pigeon"));
    assert_non_null(strstr(ethmx_error_text(), "packet, udp"));
    assert_null(open_expecting("wires", " ,", ETHMX_ERR_PARAM));
    assert_null(open_expecting("if", "nosuchif0", ETHMX_ERR_PARAM));
    assert_non_null(strstr(ethmx_error_text(), "nosuchif0"));
}

static void addresses_are_checked(void **state)
{
    struct ethmx_ep *ep = open_expecting(NULL, NULL, ETHMX_OK);
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(addr), small = 4;
    struct ethmx_peer *peer = NULL, *again = NULL;
    int user;

    (void)state;
    assert_int_equal(ethmx_ep_address(ep, addr, &small), ETHMX_ERR_PARAM);
    assert_int_equal(ethmx_ep_address(ep, addr, &len), ETHMX_OK);
    assert_int_equal(ethmx_peer_add(ep, "garbage", 7, NULL, &peer), ETHMX_ERR_PARAM);
    assert_true(strlen(ethmx_error_text()) > 10);
    assert_null(peer);
    assert_int_equal(ethmx_peer_add(ep, addr, len - 1, NULL, &peer), ETHMX_ERR_PARAM);
    assert_int_equal(ethmx_peer_add(ep, addr, len, NULL, &peer), ETHMX_OK);
    assert_null(ethmx_peer_user(peer));
    assert_int_equal(ethmx_peer_add(ep, addr, len, &user, &again), ETHMX_OK);
    assert_ptr_equal(peer, again);
    assert_ptr_equal(ethmx_peer_user(peer), &user);
    ethmx_ep_close(ep);
    ethmx_ep_close(NULL);
}

static void count_completed(void *arg, const struct ethmx_result *result)
{
    assert_int_equal(result->status, ETHMX_ERR_CLOSED);
    assert_null(result->peer);
    ++*(unsigned *)arg;
}

/* Nobody moves messages at the other endpoint. A closed one would be found dead at once over some wires, and with it
 * nothing is open. */
static void peers_can_be_removed(void **state)
{
    struct ethmx_ep *ep = open_expecting(NULL, NULL, ETHMX_OK), *other = open_expecting(NULL, NULL, ETHMX_OK);
    const struct ethmx_data none = {0};
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(addr);
    struct ethmx_peer *peer;
    struct ethmx_result result;
    unsigned completed = 0;

    (void)state;
    assert_int_equal(ethmx_ep_address(ep, addr, &len), ETHMX_OK);
    assert_int_equal(ethmx_peer_add(ep, addr, len, NULL, &peer), ETHMX_OK);
    assert_int_equal(ethmx_peer_remove(ep, peer, true), ETHMX_ERR_PARAM);
    len = sizeof(addr);
    assert_int_equal(ethmx_ep_address(other, addr, &len), ETHMX_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ethmx_peer_add(ep, addr, len, &completed, &peer), ETHMX_OK);
        assert_int_equal(counter(ep, "peers_known"), 2);
        assert_int_equal(ethmx_irecv(ep, peer, 1, UINT64_MAX, &none, count_completed, &completed, NULL, &result),
                         ETHMX_INPROGRESS);
        assert_int_equal(ethmx_isend(ep, peer, 1, &none, ETHMX_SEND_SYNC, count_completed, &completed),
                         ETHMX_INPROGRESS);
        assert_int_equal(ethmx_peer_remove(ep, peer, false), ETHMX_ERR_BUSY);
        assert_int_equal(ethmx_peer_remove(ep, peer, true), ETHMX_OK);
        assert_int_equal(counter(ep, "peers_known"), 1);
        ethmx_progress(ep);
        assert_int_equal(completed, 2 * (i + 1));
    }
    ethmx_ep_close(ep);
    ethmx_ep_close(other);
}

/* What ethmx_ep_on_error() told. */
struct told {
    _Atomic bool any;
    struct ethmx_peer *peer;
    int status;
    char text[256];
};

static void on_error(void *arg, struct ethmx_peer *peer, int status, const char *text)
{
    struct told *t = arg;

    t->peer = peer;
    t->status = status;
    snprintf(t->text, sizeof(t->text), "%s", text);
    atomic_store(&t->any, true);
}

static struct ethmx_ep *open_telling(struct told *told, const char *const *settings)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt)};
    struct ethmx_ep *ep = open_with(&opt, settings);

    ethmx_ep_on_error(ep, on_error, told);
    return ep;
}

/* The address of an endpoint that has gone. */
static void unreachable_peer_fails(void **state)
{
    static const char *const impatient[] = {"connect_timeout", "100ms", "peer_timeout", "300ms", "linger", "0", NULL};
    struct told told = {.any = false};
    struct ethmx_ep *gone = open_expecting(NULL, NULL, ETHMX_OK);
    struct side s = {.ep = open_telling(&told, impatient), .scenario = 1};
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(addr);
    struct ethmx_data none = flat(NULL, 0);
    struct pending p;

    (void)state;
    assert_int_equal(ethmx_ep_address(gone, addr, &len), ETHMX_OK);
    ethmx_ep_close(gone);
    assert_int_equal(ethmx_peer_add(s.ep, addr, len, NULL, &s.peer), ETHMX_OK);
    assert_true(start_send(&s, 1, none, ETHMX_SEND_SYNC, &p));
    assert_true(await(&s, &p.done));
    assert_int_equal(p.result.status, ETHMX_ERR_UNREACHABLE);
    assert_true(await(&s, &told.any));
    assert_ptr_equal(told.peer, s.peer);
    assert_int_equal(told.status, ETHMX_ERR_UNREACHABLE);
    assert_true(strlen(told.text) > 20);
    assert_int_equal(ethmx_isend(s.ep, s.peer, 1, &none, ETHMX_SEND_STANDARD, NULL, NULL), ETHMX_ERR_UNREACHABLE);
    ethmx_ep_close(s.ep);
}

/* From now on. A peer that lives may be silent for longer, when it waits for a core. */
static void lose_patience(struct ethmx_ep *ep)
{
    emx_lock_take(&ep->lock);
    ep->cfg.p_peer_timeout = 300000000;
    emx_lock_give(&ep->lock);
}

/* The other process is killed, and then we wait for it. */
static void killed_peer_is_noticed(void **state)
{
    static const char *const patient[] = {"linger", "0", NULL};
    const struct pair_options plain = {.heartbeat = "20ms"};
    struct told told = {.any = false};
    struct side s = {.scenario = 1};
    int fd[2], status;
    uint8_t buf[8];
    struct pending p[2];
    pid_t pid;

    (void)state;
    pid = fork_other(fd);
    if (!pid) {
        s.role = 1;
        s.fd = fd[1];
        s.ep = open_endpoint(&plain);
        if (s.ep && exchange(&s) && await_signal(&s, 1) && signal_other(&s, 2))
            kill(getpid(), SIGKILL);
        _exit(1);
    }
    s.fd = fd[0];
    s.ep = open_telling(&told, patient);
    assert_true(exchange(&s));
    assert_true(signal_other(&s, 1));
    assert_true(await_signal(&s, 2));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    lose_patience(s.ep);
    assert_true(start_recv(&s, 3, flat(buf, sizeof(buf)), &p[0]));
    assert_true(start_send(&s, 4, flat(buf, sizeof(buf)), ETHMX_SEND_SYNC, &p[1]));
    assert_true(await(&s, &p[0].done) && await(&s, &p[1].done));
    assert_int_equal(p[0].result.status, ETHMX_ERR_PEER_DEAD);
    assert_int_equal(p[1].result.status, ETHMX_ERR_PEER_DEAD);
    assert_true(await(&s, &told.any));
    assert_int_equal(told.status, ETHMX_ERR_PEER_DEAD);
    ethmx_ep_close(s.ep);
    close(fd[0]);
    close(fd[1]);
}

/* ---- Small messages of a program that computes ---- */

enum { COUNT = 60 }; /* fewer than may fly at first */

static struct ethmx_ep *open_alone(void)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt)};
    const char *const settings[] = {"heartbeat", "0", "wires", "udp", NULL};

    return open_with(&opt, settings);
}

static bool receive_some(struct side *s)
{
    struct ethmx_result r;
    uint64_t value;

    s->role = 1;
    s->ep = open_alone();
    CHECK(exchange(s));
    for (unsigned i = 0; i <= COUNT; i++) {
        CHECK(recv_data(s, i, flat(&value, sizeof(value)), &r));
        CHECK(r.status == ETHMX_OK && value == i);
        CHECK(i || signal_other(s, 1));
    }
    CHECK(tell(s));
    ethmx_ep_close(s->ep);
    return true;
}

/* Sends the first message, which connects, then many, and waits beside the wire until all have come: neither the
 * library is called meanwhile, nor has it a helper. */
static void messages_leave_at_once(void **state)
{
    struct side s = {.scenario = 1};
    struct pending p[COUNT + 1];
    uint64_t value[COUNT + 1];
    int fd[2], status;
    pid_t pid;

    (void)state;
    pid = fork_other(fd);
    if (!pid) {
        struct side other = {.scenario = 1, .fd = fd[1]};

        close(fd[0]);
        _exit(!receive_some(&other));
    }
    close(fd[1]);
    s.fd = fd[0];
    s.ep = open_alone();
    assert_true(exchange(&s));
    for (unsigned i = 0; i <= COUNT; i++) {
        value[i] = i;
        assert_true(start_send(&s, i, flat(&value[i], sizeof(*value)), ETHMX_SEND_STANDARD, &p[i]));
        assert_true(i || (await(&s, &p[0].done) && await_signal(&s, 1)));
    }
    assert_true(hear(&s));
    assert_int_equal(counter(s.ep, "sent_coalesced"), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    ethmx_ep_close(s.ep);
    close(fd[0]);
}

/* ---- Numbers ---- */

static uint32_t number_of(const uint8_t key, uint64_t process)
{
    struct ethmx_ep_options opt = {
        .api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt), .job_key = {key}, .process = process};
    const char *const settings[] = {"wires", "udp", NULL};
    struct ethmx_ep *ep = open_with(&opt, settings);
    uint8_t buf[ETHMX_ADDRESS_MAX];
    size_t len_bytes = sizeof(buf);
    struct emx_address a;
    char err[256];

    assert_non_null(ep);
    assert_int_equal(ethmx_ep_address(ep, buf, &len_bytes), ETHMX_OK);
    assert_true(emx_address_decode(&a, buf, len_bytes, err, sizeof(err)));
    ethmx_ep_close(ep);
    return a.id;
}

/* In a process of its own, as those of a job are. */
static uint32_t first_number_of(uint8_t key, uint64_t process)
{
    uint32_t number = 0;
    int fd[2], status;
    pid_t pid;

    assert_int_equal(pipe(fd), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        number = number_of(key, process);
        _exit(write(fd[1], &number, sizeof(number)) != sizeof(number));
    }
    assert_int_equal(read(fd[0], &number, sizeof(number)), sizeof(number));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fd[0]);
    close(fd[1]);
    return number;
}

/* Ranks of a job have numbers in a row; other jobs, jobs that it spawns, and endpoints that are opened later have
 * others. */
static void numbers_are_unique_by_construction(void **state)
{
    const uint64_t job = UINT64_C(77) << 32;
    uint32_t first = first_number_of(1, job + 1);

    (void)state;
    assert_int_equal(first_number_of(1, job + 1), first);
    assert_int_equal(first_number_of(1, job + 4000), first + 3999);
    assert_int_not_equal(first_number_of(2, job + 1), first);
    assert_int_not_equal(first_number_of(1, job + 1 + (UINT64_C(1) << 32)), first);
    assert_int_not_equal(first_number_of(1, 0), first_number_of(1, 0)); /* by chance */
    assert_int_not_equal(number_of(1, job + 1), number_of(1, job + 1));
}

/* ---- Waiting by a descriptor ---- */

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

static void waits_are_armed(void **state)
{
    struct ethmx_ep *ep = open_expecting(NULL, NULL, ETHMX_OK);
    const struct ethmx_data none = {0};
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len = sizeof(addr);
    struct ethmx_result result;
    struct ethmx_peer *self;
    struct pending p = {.done = false};
    int fd = -1;

    (void)state;
    assert_int_equal(ethmx_wait_arm(ep), ETHMX_ERR_PARAM);
    assert_int_equal(ethmx_wait_fd(ep, &fd), ETHMX_OK);
    while (ethmx_progress(ep))
        ;
    assert_int_equal(ethmx_wait_arm(ep), ETHMX_OK);
    assert_true(emx_ep_waits(ep));
    assert_false(readable(fd, 0));
    ethmx_progress(ep);
    assert_false(emx_ep_waits(ep));
    assert_int_equal(ethmx_ep_address(ep, addr, &len), ETHMX_OK);
    assert_int_equal(ethmx_peer_add(ep, addr, len, NULL, &self), ETHMX_OK);
    assert_int_equal(ethmx_irecv(ep, self, 1, UINT64_MAX, &none, done, &p, NULL, &result), ETHMX_INPROGRESS);
    assert_int_equal(ethmx_isend(ep, self, 1, &none, ETHMX_SEND_STANDARD, NULL, NULL), ETHMX_OK);
    assert_int_equal(ethmx_wait_arm(ep), ETHMX_ERR_BUSY);
    assert_false(emx_ep_waits(ep));
    while (!atomic_load(&p.done))
        ethmx_progress(ep);
    ethmx_ep_close(ep);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
}

/* The other endpoint has no helper and never answers, so only timers end the waits, until the peer is given up. */
static void timers_end_waits(void **state)
{
    struct ethmx_ep *ep = open_expecting("peer_timeout", "100ms", ETHMX_OK);
    struct ethmx_ep *other = open_expecting("heartbeat", "0", ETHMX_OK);
    uint8_t addr[ETHMX_ADDRESS_MAX], byte = 1;
    const struct ethmx_data data = {.base = &byte, .len_bytes = 1};
    size_t len = sizeof(addr);
    struct pending p = {.done = false};
    struct ethmx_peer *peer;
    unsigned waits = 0;
    int fd, rc;

    (void)state;
    assert_int_equal(ethmx_wait_fd(ep, &fd), ETHMX_OK);
    assert_int_equal(ethmx_ep_address(other, addr, &len), ETHMX_OK);
    assert_int_equal(ethmx_peer_add(ep, addr, len, NULL, &peer), ETHMX_OK);
    assert_int_equal(ethmx_isend(ep, peer, 1, &data, ETHMX_SEND_SYNC, done, &p), ETHMX_INPROGRESS);
    while (!atomic_load(&p.done)) {
        if (ethmx_progress(ep))
            continue;
        rc = ethmx_wait_arm(ep);
        assert_true(rc == ETHMX_OK || rc == ETHMX_ERR_BUSY);
        if (rc == ETHMX_OK) {
            assert_true(readable(fd, 60000));
            waits++;
        }
    }
    assert_int_not_equal(p.result.status, ETHMX_OK);
    assert_true(waits > 0);
    ethmx_ep_close(other);
    ethmx_ep_close(ep);
}

/* ---- What the host has ---- */

struct census {
    unsigned count, usable;
    bool bad;
};

static void count_interface(void *arg, const struct ethmx_interface_info *i)
{
    struct census *c = arg;

    c->count++;
    c->usable += i->chosen;
    c->bad |= !*i->name || !*i->reason || !i->kind || !i->ipv4 || !i->ipv6 || !i->mac;
    c->bad |= i->chosen && c->usable != c->count; /* the chosen come first */
}

static void count_wire(void *arg, const struct ethmx_wire_info *w)
{
    struct census *c = arg;

    c->count++;
    c->usable += w->usable;
    c->bad |= !*w->name || !*w->help || !*w->reason || (w->usable && w->frame_bytes < 256);
}

static void host_is_described(void **state)
{
    struct census interfaces = {0}, wires = {0};

    (void)state;
    assert_int_equal(ethmx_each_interface(NULL, count_interface, &interfaces), ETHMX_OK);
    assert_true(interfaces.count >= 1 && interfaces.usable >= 1 && !interfaces.bad);
    assert_int_equal(ethmx_each_wire(NULL, count_wire, &wires), ETHMX_OK);
    assert_true(wires.count >= 2 && wires.usable >= 1 && !wires.bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_versions_are_refused), cmocka_unit_test(wrong_settings_are_named),
        cmocka_unit_test(addresses_are_checked),      cmocka_unit_test(peers_can_be_removed),
        cmocka_unit_test(unreachable_peer_fails),     cmocka_unit_test(killed_peer_is_noticed),
        cmocka_unit_test(messages_leave_at_once),     cmocka_unit_test(numbers_are_unique_by_construction),
        cmocka_unit_test(host_is_described),          cmocka_unit_test(waits_are_armed),
        cmocka_unit_test(timers_end_waits),
    };

    setenv("ETHMX_WIRES", "udp", 0);
    setenv("ETHMX_IF", "lo", 0);
    return cmocka_run_group_tests_name("ep", tests, NULL, NULL);
}
