/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout groups of the packet wire: the program finds each rank; frames and GSO packets reach the right one of several
 * processes, and go on to do so when any of them ends or is killed, in any order; nothing is left behind.
 *
 * The processes are in a network namespace of their own and reach each other over its loopback. Needs root, or a kernel
 * that lets users make user namespaces; without, the tests of processes are skipped.
 */
#define _GNU_SOURCE
#include "network.h"
#include "unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "core/format/frame.h"
#include "wire/ethernet.h"
#include "wire/offload.h"
#include "wire/fanout.h"
#include "wire/fds.h"
#include "wire/netif.h"
#include "wire/packet/packet.h"

/* ---- The program ---- */

/* What the kernel would do with it: the little of classic BPF that it uses. */
static uint32_t run_program(const struct sock_filter *code, unsigned len, const uint8_t *data, unsigned data_bytes)
{
    uint32_t a = 0;

    for (unsigned at = 0; at < len; at++) {
        const struct sock_filter *f = &code[at];
        unsigned width = BPF_SIZE(f->code) == BPF_W ? 4 : 2;

        switch (BPF_CLASS(f->code)) {
        case BPF_LD:
            if (f->k + width > data_bytes)
                return 0;
            a = 0;
            for (unsigned i = 0; i < width; i++)
                a = a << 8 | data[f->k + i];
            break;
        case BPF_RET:
            return f->k;
        default:
            if (BPF_OP(f->code) == BPF_JA)
                at += f->k;
            else if (BPF_OP(f->code) == BPF_JEQ)
                at += a == f->k ? f->jt : f->jf;
            else
                at += a >= f->k ? f->jt : f->jf;
        }
    }
    fail_msg("the program has no end");
    return 0;
}

static int by_key(const void *a, const void *b)
{
    const struct emx_fanout_place *x = a, *y = b;

    return (x->key > y->key) - (x->key < y->key);
}

static bool finds(const struct sock_filter *code, unsigned len, enum emx_fanout_kind kind, bool v6, uint32_t key,
                  uint32_t expected)
{
    uint8_t data[44] = {0};
    const unsigned key_at = kind == EMX_FANOUT_FRAMES ? 4 : v6 ? 42 : 22;
    const unsigned key_bytes = kind == EMX_FANOUT_FRAMES ? 4 : 2;

    for (unsigned i = 0; i < key_bytes; i++)
        data[key_at + i] = (uint8_t)(key >> (8 * (key_bytes - 1 - i)));
    CHECK(run_program(code, len, data, sizeof(data)) == expected);
    CHECK(run_program(code, len, data, key_at + key_bytes - 1) == 0);
    return true;
}

static bool program_of_seed(uint64_t seed)
{
    struct emx_rng r = {.state = seed};
    enum emx_fanout_kind kind = (enum emx_fanout_kind)(seed % EMX_FANOUT_KINDS);
    unsigned n = 1 + (unsigned)emx_rng_below(&r, EMX_FANOUT_MEMBERS), len;
    uint32_t limit = kind == EMX_FANOUT_FRAMES ? UINT32_MAX : UINT16_MAX;
    struct emx_fanout_place place[EMX_FANOUT_MEMBERS];
    struct sock_filter code[EMX_FANOUT_CODE];
    bool v6 = seed / EMX_FANOUT_KINDS % 2;

    if (seed < 2 * EMX_FANOUT_KINDS)
        n = seed < EMX_FANOUT_KINDS ? 1 : EMX_FANOUT_MEMBERS;
    for (unsigned i = 0; i < n; i++) /* no two alike; the least and the most among them */
        place[i] = (struct emx_fanout_place){.key = limit / n * i + (i == n - 1 && n > 1 ? limit % n + limit / n : 0),
                                             .index = (i * 7 + 3) % EMX_FANOUT_MEMBERS};
    qsort(place, n, sizeof(place[0]), by_key);
    len = emx_fanout_program(code, kind, v6, place, n);
    CHECK(len <= EMX_FANOUT_CODE && len <= BPF_MAXINSNS);
    for (unsigned i = 0; i < n; i++) {
        CHECK(finds(code, len, kind, v6, place[i].key, place[i].index));
        if (place[i].key < limit && (i == n - 1 || place[i + 1].key != place[i].key + 1))
            CHECK(finds(code, len, kind, v6, place[i].key + 1, 0));
    }
    return true;
}

static void program_finds_each_place(void **state)
{
    (void)state;
    each_seed(200, program_of_seed);
}

/* ---- Processes ---- */

#define WAIT_MS     20000 /* longer than anything takes that works */
#define RANKS       12
#define PART_BYTES  400 /* frames in GSO packets */
#define CHUNK_BYTES 200 /* of data in TSO packets */
#define SECRET(job) ((job)*0x9e3779b97f4a7c15u)

/* What a rank is told and shows, in memory shared with the test. */
struct desk {
    volatile bool looks, leaves;   /* orders: to sweep; to close and end */
    volatile int open;             /* 1: yes, -1: declined */
    volatile int in_group;         /* the kernel's answer: the group, 0: none */
    volatile int filter;           /* the kernel's answer: instructions; 0: none is attached; -1: not asked yet */
    volatile int locked;           /* the kernel's answer: the filter, or that there is none, stays */
    volatile uint32_t last[3];     /* number of the latest frame: single, in a GSO packet, in a TSO packet */
    volatile unsigned strange;     /* frames for somebody else */
    volatile uint64_t group_ranks; /* counter fanout_ranks */
    volatile uint64_t not_mine;    /* counter drop_not_mine */
    uint32_t id;
    struct emx_wire_attr attr;
    uint16_t gso_port;
    bool tso;
    char why[512];
};

/* What an option of the tests is when it is not said. */
struct options {
    uint64_t job;
    bool off, blind; /* ETHMX_FANOUT=no; does not sweep until told */
};

static struct desk *desk;
static pid_t pids[RANKS];
static bool can_run;
static struct emx_netifs netifs;
static struct emx_config cfg;
static struct emx_wire *sender; /* in no group */
static struct emx_stats sender_stats;
static struct emx_wire_attr sender_attr;
static uint32_t number;     /* of the latest frame sent */
static int foreign_fd = -1; /* not for the ranks */

static uint64_t number_of_chunk(const uint8_t *data)
{
    struct emx_place_head h;

    memcpy(&h, data, sizeof(h));
    return h.chunk;
}

static void take_frames(struct emx_wire *w, struct desk *d)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned n = emx_wire_packet.rx(w, f, EMX_WIRE_BATCH);

    for (unsigned i = 0; i < n; i++) {
        struct emx_frame h;

        memcpy(&h, f[i].data, sizeof(h));
        if (h.dst_id != d->id)
            d->strange++;
        else if (f[i].len_bytes == sizeof(struct emx_place_head) + 2 * CHUNK_BYTES)
            d->last[2] = (uint32_t)number_of_chunk(f[i].data);
        else
            d->last[f[i].len_bytes == PART_BYTES] = h.seq;
    }
    emx_wire_packet.rx_return(w, f, n);
}

/* What peers are told. */
static struct emx_ethernet_part part_of(const struct emx_wire *w)
{
    const struct emx_way_site site = {.netifs = &netifs};
    uint8_t b[EMX_WIRE_VALUE_BYTES];
    unsigned least;
    const struct emx_wire_value value = {.b = b, .len_bytes = emx_wire_packet.describe(w, &site, b, &least)};
    struct emx_ethernet_part part = {0};

    assert_true(emx_ethernet_part_read(&value, &part));
    return part;
}

/* A rank's process. */
static void be_rank(struct desk *d, const struct options *o)
{
    struct emx_stats stats = {0};
    const struct emx_wire_params params = {.cfg = &cfg,
                                           .netifs = &netifs,
                                           .endpoint_id = d->id,
                                           .job_cookie = (uint32_t)o->job,
                                           .job_secret = SECRET(o->job),
                                           .local_ranks = RANKS,
                                           .stats = &stats};
    struct emx_wire *w;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(foreign_fd);
    cfg.p_fanout = !o->off;
    if (emx_wire_packet.open(&w, &params, d->why, sizeof(d->why))) {
        d->open = -1;
        _exit(1);
    }
    emx_wire_packet.query(w, &d->attr);
    d->gso_port = part_of(w).gso_port;
    d->tso = part_of(w).tso;
    d->open = 1;
    while (!d->leaves) {
        int group = 0;
        socklen_t len = sizeof(group);

        take_frames(w, d);
        if (d->looks)
            emx_wire_packet.sweep(w);
        getsockopt(emx_wire_packet.fd(w, 0), SOL_PACKET, PACKET_FANOUT, &group, &len);
        d->in_group = group;
        d->not_mine = stats.drop_not_mine; /* before the filter, which tests wait for */
        len = 0;
        if (!getsockopt(emx_wire_packet.fd(w, 0), SOL_SOCKET, SO_GET_FILTER, NULL, &len))
            d->filter = (int)len;
        d->group_ranks = stats.fanout_ranks;
        len = sizeof(group);
        if (!getsockopt(emx_wire_packet.fd(w, 0), SOL_SOCKET, SO_LOCK_FILTER, &group, &len))
            d->locked = group;
        usleep(50);
    }
    emx_wire_packet.close(w);
    _exit(0);
}

/* Waits until the condition holds. */
#define AWAIT(condition)                                                                                               \
    do {                                                                                                               \
        unsigned waited_ms = 0;                                                                                        \
        while (!(condition)) {                                                                                         \
            usleep(1000);                                                                                              \
            if (++waited_ms > WAIT_MS)                                                                                 \
                fail_msg("line %d: waited in vain for %s", __LINE__, #condition);                                      \
        }                                                                                                              \
    } while (0)

static void start(unsigned rank, const struct options *o)
{
    struct desk *d = &desk[rank];

    assert_int_equal(pids[rank], 0);
    memset(d, 0, sizeof(*d));
    d->id = 0x51000000u + rank * 0x01010101u + (uint32_t)(o->job & 0xff);
    d->looks = !o->blind;
    d->filter = -1;
    pids[rank] = fork();
    assert_true(pids[rank] >= 0);
    if (!pids[rank])
        be_rank(d, o);
    AWAIT(d->open);
    if (d->open < 0)
        fail_msg("rank %u: %s", rank, d->why);
}

static void start_some(unsigned first, unsigned n, const struct options *o)
{
    for (unsigned i = first; i < first + n; i++)
        start(i, o);
}

static void wait_for_end(unsigned rank)
{
    int status;

    assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
    pids[rank] = 0;
}

static void kill_rank(unsigned rank)
{
    kill(pids[rank], SIGKILL);
    wait_for_end(rank);
}

static void let_leave(unsigned rank)
{
    desk[rank].leaves = true;
    wait_for_end(rank);
}

static void send_frames(unsigned rank, bool joined)
{
    static const uint8_t no_mac[6];
    static uint8_t buf[PART_BYTES];
    struct emx_frame h = {.dst_id = desk[rank].id, .seq = number};
    struct emx_offload_way gso = {.from = emx_ip_from_v4(htonl(INADDR_LOOPBACK)),
                                  .to = emx_ip_from_v4(htonl(INADDR_LOOPBACK)),
                                  .port = desk[rank].gso_port,
                                  .frame_bytes = PART_BYTES};
    struct emx_wire_addr to;
    struct emx_txframe f[2];

    emx_packet_addr(&to, netifs.loopback_index, no_mac, joined ? &gso : NULL);
    memcpy(buf, &h, sizeof(h));
    for (unsigned i = 0; i < 2; i++)
        f[i] =
            (struct emx_txframe){.to = &to, .head = buf, .head_bytes = joined ? PART_BYTES : sizeof(h), .gso = joined};
    assert_true(emx_wire_packet.tx_room(sender));
    emx_wire_packet.tx(sender, f, joined ? 2 : 1);
}

/* A TSO packet of two chunks. */
static void send_chunks(unsigned rank)
{
    static const uint8_t no_mac[6], body[2 * CHUNK_BYTES];
    const struct emx_offload_way way = {.from = emx_ip_from_v4(htonl(INADDR_LOOPBACK)),
                                        .to = emx_ip_from_v4(htonl(INADDR_LOOPBACK)),
                                        .port = desk[rank].gso_port,
                                        .tso = true,
                                        .frame_bytes = PART_BYTES};
    const struct emx_frame own = {.dst_id = desk[rank].id};
    const uint64_t sent = sender_stats.tso_packets_sent;
    struct emx_place_head head = {0};
    struct emx_wire_addr to;
    struct emx_txframe f = {.to = &to,
                            .head = &head,
                            .head_bytes = sizeof(head),
                            .body = body,
                            .body_bytes = sizeof(body),
                            .chunk_bytes = CHUNK_BYTES,
                            .gso = true};

    emx_packet_addr(&to, netifs.loopback_index, no_mac, &way);
    memcpy(&head, &own, sizeof(own));
    head.version = EMX_PLACE_MARK_OFF >> 8;
    head.type = EMX_PLACE_MARK_OFF & 0xff;
    head.body_bytes = sizeof(head) - EMX_PLACE_FRAME_BYTES + sizeof(body);
    head.chunk_bytes = CHUNK_BYTES;
    head.chunk = number;
    assert_true(emx_wire_packet.tx_room(sender));
    emx_wire_packet.tx(sender, &f, 1);
    assert_int_equal(sender_stats.tso_packets_sent, sent + 1);
}

/* Frames, GSO packets and TSO packets come to each rank that lives, at the first try, and to no other. */
static void check_all(void)
{
    for (unsigned i = 0; i < RANKS; i++) {
        if (!pids[i])
            continue;
        number++;
        send_frames(i, false);
        AWAIT(desk[i].last[0] == number);
        if (!desk[i].gso_port)
            continue;
        send_frames(i, true);
        AWAIT(desk[i].last[1] == number);
        assert_true(desk[i].tso);
        send_chunks(i);
        AWAIT(desk[i].last[2] == number);
    }
    for (unsigned i = 0; i < RANKS; i++)
        assert_int_equal(desk[i].strange, 0);
}

static bool all_in_group(unsigned first, unsigned n)
{
    for (unsigned i = first; i < first + n; i++)
        if (!desk[i].in_group || desk[i].in_group != desk[first].in_group)
            return false;
    return true;
}

/* All of the namespace: a line each after the heading. */
static unsigned packet_sockets(void)
{
    FILE *f = fopen("/proc/self/net/packet", "re");
    char line[256];
    unsigned lines = 0;

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        lines++;
    fclose(f);
    return lines - 1;
}

static bool name_taken(void)
{
    FILE *f = fopen("/proc/self/net/unix", "re");
    bool taken = false;
    char line[256];

    assert_non_null(f);
    while (fgets(line, sizeof(line), f))
        taken |= strstr(line, "ethmx-fanout") != NULL;
    fclose(f);
    return taken;
}

static int set_up(void **state)
{
    const struct emx_wire_params params = {
        .cfg = &cfg, .netifs = &netifs, .endpoint_id = 1, .local_ranks = RANKS, .stats = &sender_stats};
    char why[512];

    (void)state;
    if (!can_run)
        return 0;
    memset(desk, 0, RANKS * sizeof(*desk));
    emx_config_defaults(&cfg);
    strcpy(cfg.p_if, "lo");
    cfg.p_ring = cfg.p_gso_buffer = 1 << 20;
    assert_int_equal(emx_netifs_read(&netifs, &cfg, NULL, why, sizeof(why)), ETHMX_OK);
    if (emx_wire_packet.open(&sender, &params, why, sizeof(why)))
        fail_msg("%s", why);
    emx_wire_packet.query(sender, &sender_attr);
    return 0;
}

static void name_of_job(struct sockaddr_un *a, socklen_t *len_p, uint32_t job)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    *len_p = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1);
    *len_p += (socklen_t)snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "ethmx-fanout-%u-%08x-%04x",
                                  (unsigned)geteuid(), job, (unsigned)cfg.p_ethertype);
}

static int tear_down(void **state)
{
    (void)state;
    for (unsigned i = 0; i < RANKS; i++)
        if (pids[i])
            kill_rank(i);
    if (sender)
        emx_wire_packet.close(sender);
    sender = NULL;
    return 0;
}

/* After the last rank nothing is left. */
static void check_nothing_left(void)
{
    emx_wire_packet.close(sender);
    sender = NULL;
    AWAIT(!packet_sockets());
    assert_false(name_taken());
}

static void need_processes(void)
{
    if (!can_run)
        skip();
}

static void frames_find_their_rank(void **state)
{
    const struct options o = {.job = 7};

    (void)state;
    need_processes();
    start(0, &o);
    assert_non_null(strstr(desk[0].why, "fanout"));
    check_all();
    assert_int_equal(desk[0].in_group, 0); /* alone, it costs nothing to do without */
    start_some(1, 7, &o);
    AWAIT(all_in_group(0, 8));
    AWAIT(desk[0].group_ranks == 8);
    check_all();
    start_some(8, 2, &o); /* late ones */
    AWAIT(all_in_group(0, 10));
    check_all();
    let_leave(3);
    let_leave(0);
    check_all();
    for (unsigned i = 0; i < RANKS; i++)
        if (pids[i])
            let_leave(i);
    check_nothing_left();
}

static bool kill_in_any_order(uint64_t seed)
{
    const struct options o = {.job = 100 + seed}, later = {.job = 100 + seed};
    struct emx_rng r = {.state = seed};
    unsigned n = 8;

    set_up(NULL);
    start_some(0, n, &o);
    AWAIT(all_in_group(0, n));
    for (unsigned left = n, victim; left > 1; left--) {
        do
            victim = (unsigned)emx_rng_below(&r, n);
        while (!pids[victim]);
        kill_rank(victim);
        check_all();
    }
    start_some(n, 2, &later); /* with the last one they make a group, or widen its own */
    AWAIT(all_in_group(n, 2));
    check_all();
    for (unsigned i = 0; i < RANKS; i++)
        if (pids[i])
            kill_rank(i);
    check_nothing_left();
    return true;
}

static void killed_ranks_move_nobody(void **state)
{
    (void)state;
    need_processes();
    emx_wire_packet.close(sender);
    sender = NULL;
    each_seed(3, kill_in_any_order);
}

/* Nobody is in a group yet when the leader is killed; the others find each other again. */
static void keeper_killed_before_it_answers(void **state)
{
    const struct options o = {.job = 8}, blind = {.job = 8, .blind = true};

    (void)state;
    need_processes();
    start(0, &blind);
    start_some(1, 3, &o);
    kill_rank(0);
    check_all();
    AWAIT(all_in_group(1, 3));
    check_all();
}

/* Its sockets have gone with it, but for the copies that it gave away. */
static void caller_killed_before_it_is_heard(void **state)
{
    const struct options o = {.job = 9}, blind = {.job = 9, .blind = true};

    (void)state;
    need_processes();
    start(0, &blind);
    start_some(1, 3, &o);
    kill_rank(2);
    desk[0].looks = true;
    AWAIT(desk[0].group_ranks == 3);
    check_all();
    assert_int_equal(desk[1].in_group, desk[3].in_group);
}

static void jobs_keep_apart(void **state)
{
    const struct options one = {.job = 10}, other = {.job = 11}, off = {.job = 10, .off = true}, alone = {.job = 14};

    (void)state;
    need_processes();
    start_some(0, 3, &one);
    start_some(3, 3, &other);
    start(6, &off);
    start(7, &alone);
    assert_non_null(strstr(desk[6].why, "ETHMX_FANOUT"));
    AWAIT(all_in_group(0, 3));
    AWAIT(all_in_group(3, 3));
    assert_int_not_equal(desk[0].in_group, desk[3].in_group);
    check_all();
    assert_int_equal(desk[6].in_group, 0);
    assert_int_equal(desk[7].in_group, 0);
    for (unsigned i = 0; i < 3; i++)
        kill_rank(i);
    check_all();
}

/* Until somebody else is there: a process that calls, or one of which only the frames are noticed. */
static void alone_needs_no_filter(void **state)
{
    const struct options one = {.job = 15}, other = {.job = 16}, off = {.job = 17, .off = true};

    (void)state;
    need_processes();
    start(0, &one);
    AWAIT(desk[0].filter == 0);
    check_all();
    start(1, &one);
    AWAIT(desk[0].filter > 0);
    AWAIT(all_in_group(0, 2));
    check_all();
    kill_rank(0);
    kill_rank(1);

    start(2, &other);
    AWAIT(desk[2].filter == 0);
    start(3, &off);
    check_all();
    AWAIT(desk[2].filter > 0);
    assert_int_equal(desk[2].not_mine, 0);
    let_leave(3);
    check_all();
    assert_true(desk[2].filter > 0);
}

/* A job that starts and ends processes again and again: what they leave behind does not grow without end. */
static void who_comes_and_goes_fills_nothing(void **state)
{
    const struct options o = {.job = 12};
    unsigned most = 0;

    (void)state;
    need_processes();
    AWAIT(packet_sockets() == 5); /* the sender's */
    start_some(0, 2, &o);
    AWAIT(all_in_group(0, 2));
    for (unsigned i = 0; i < 40; i++) {
        start(2, &o);
        check_all();
        if (i <= 8) /* the leader counts who has left before it accepts another */
            AWAIT(desk[2].in_group);
        let_leave(2);
        if (packet_sockets() > most)
            most = packet_sockets();
    }
    assert_true(most <= 3 * 5 + 9 * 3 + 5); /* sender, two ranks; what 9 have left; one that comes or goes */
    start_some(3, 2, &o);
    AWAIT(all_in_group(3, 2));
    assert_int_not_equal(desk[3].in_group, desk[0].in_group);
    check_all();
}

/* Somebody else has the name: no group, and a frame finds its way. */
static void name_taken_by_a_foreign_process(void **state)
{
    const struct options o = {.job = 13};
    struct sockaddr_un a;
    socklen_t len;

    (void)state;
    need_processes();
    foreign_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    name_of_job(&a, &len, 13);
    assert_int_equal(bind(foreign_fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(foreign_fd, 1), 0);
    start_some(0, 4, &o); /* more than it has room for */
    check_all();
    close(foreign_fd);
    foreign_fd = -1;
    AWAIT(all_in_group(0, 4));
    check_all();
}

/* What a caller tells, as in fanout.c. */
struct call {
    uint32_t word, unused;
    uint64_t secret;
    uint32_t has[EMX_FANOUT_KINDS], key[EMX_FANOUT_KINDS];
};

/* Connects to the leader of a job as a process of the same user may. Whether it answers with the descriptor store. */
static bool gets_the_safe(uint64_t job, uint64_t secret, int fd)
{
    const struct call call = {.word = 0x6d684672u, .secret = secret, .has = {1}, .key = {4711}};
    struct timeval limit = {.tv_sec = WAIT_MS / 1000};
    struct sockaddr_un a;
    socklen_t len;
    int conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), safe, n;
    char c;

    name_of_job(&a, &len, (uint32_t)job);
    assert_int_equal(connect(conn, (struct sockaddr *)&a, len), 0);
    assert_int_equal(setsockopt(conn, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    assert_int_equal(emx_fds_send(conn, &call, sizeof(call), &fd, 1), 0);
    n = emx_fds_recv(conn, &c, 1, &safe, 1, 0);
    assert_true(n == 1 || errno == ECONNRESET);
    if (n == 1)
        close(safe);
    close(conn);
    return n == 1;
}

static int packet_socket(void)
{
    return socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
}

/* As any user can make one where there are user namespaces: in a network of its own. */
static int packet_socket_elsewhere(void)
{
    int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), fd;

    assert_int_equal(unshare(CLONE_NEWNET), 0);
    fd = packet_socket();
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    close(here);
    return fd;
}

/* Sockets that send and capture are for those who may have their own; and who gets one sees no more by it. */
static void keeper_trusts_no_name(void **state)
{
    const struct options o = {.job = 18};
    int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), own, other;

    (void)state;
    need_processes();
    own = packet_socket();
    other = packet_socket_elsewhere();
    start_some(0, 3, &o);
    AWAIT(all_in_group(0, 3));
    assert_false(gets_the_safe(18, SECRET(19), own));
    assert_false(gets_the_safe(18, SECRET(18), udp));
    assert_false(gets_the_safe(18, SECRET(18), other));
    check_all();
    AWAIT(desk[1].locked && desk[2].locked);
    assert_true(gets_the_safe(18, SECRET(18), own));
    check_all();
    close(udp);
    close(own);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(program_finds_each_place),
        cmocka_unit_test_setup_teardown(frames_find_their_rank, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_ranks_move_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeper_killed_before_it_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(caller_killed_before_it_is_heard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(jobs_keep_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(alone_needs_no_filter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_comes_and_goes_fills_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(name_taken_by_a_foreign_process, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keeper_trusts_no_name, set_up, tear_down),
    };

    can_run = unit_own_network();
    desk = mmap(NULL, RANKS * sizeof(*desk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (desk == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
