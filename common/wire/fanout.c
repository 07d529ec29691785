/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Purpose. Each rank has a packet socket with an exact filter, which is enough for correctness. But the kernel runs the
 * filter of every socket of the frame's EtherType, so the cost of a frame grows with the number of ranks on the node. A
 * fanout group has the same cost for any number of sockets: the kernel runs one program, which returns an index, and
 * delivers the frame to the member with this index.
 *
 * Indexes. When a member leaves, the kernel moves the last member to its index. So the end of one rank would move
 * another, whose frames would be lost until the program is changed. Therefore no member leaves. A socket is in the
 * group as long as any process has it open. A copy of each member's sockets is kept in the queue of a unix socket, the
 * *descriptor store*, and each rank has a copy of the store. So ranks may end or be killed in any order without a
 * change of indexes. When the last rank ends, the kernel frees everything. An ended rank leaves a socket that nobody
 * reads, and its ring. So a group belongs to one job, whose ranks end together. It accepts no more ranks when LEFT_MAX
 * have left, so that a job that starts and ends processes does not exhaust the memory.
 *
 * Joining. The first rank of the job that opens is the *leader*: it listens under the job's abstract name in this
 * network namespace. The others connect and send copies of their sockets, and do nothing else. The leader
 * (emx_fanout_sweep()) replies to each with a copy of the store. The copy may stay unread in the connection, which
 * keeps it open. When no rank has connected for a while, the leader adds those that have: it puts their sockets into
 * the store, writes the program, and moves the sockets into the group one by one. Until then, and if any of this fails,
 * the kernel runs the rank's own filter for each frame.
 *
 *     rank --- connect: its sockets ---> leader          store: [store itself][rank's sockets][rank's sockets]...
 *          <-- reply: the store --------                 group: index 0, 1, ... in the order of joining
 *
 * If the leader is killed, the group stays as it is, because the ranks hold the store. Later ranks find no leader under
 * the name and form a new group. After each system call every frame has a receiver: the store has a socket before the
 * group does. fanout_group.c has the rest.
 *
 * Authorization. The store has the sockets of all ranks, and a packet socket can send and capture any frame. The name
 * can be read in /proc, and a process of the same user may have fewer rights (the ranks may have theirs from their
 * file). So a rank that connects must prove its rights. It sends the job's secret and a packet socket of this network
 * namespace, which only a process with CAP_NET_RAW there can create. When a socket is in the group, its filter is
 * locked: in any process, it receives only what the program selects for it. (Except the socket of the first member,
 * through which the program is written.)
 *
 * End. The store is in its own queue, so only the kernel's garbage collector for unix sockets closes its content.
 * Otherwise the last rank would close it when it ends, and wait for each socket.
 */
#define _GNU_SOURCE
#include "wire/fanout.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/fanout_group.h"
#include "wire/fds.h"
#include "wire/shm/shm_join.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

#define HELLO       0x6d684672u /* changes with the layout of struct hello */
#define SWEEPS_LOOK 16          /* sweeps between two checks */
#define LOOKS_QUIET 4           /* checks without a new connection before ranks are added */
#define LOOKS_ALONE 16          /* checks without any connection: the rank is considered alone */
#define LOOKS_MAX   10000       /* for a process that has bound the name and does not listen yet */
#define HANGUPS_MAX 8
#define LEFT_MAX    8

/* What a rank sends when it connects, with its sockets as ancillary data, in the order of kinds. */
struct hello {
    uint32_t word, unused;
    uint64_t secret;
    uint32_t has[EMX_FANOUT_KINDS];
    uint32_t key[EMX_FANOUT_KINDS];
};

enum member_state { GONE, CALLING, TOLD, ADMITTED, IN };

/* A rank, as seen by the leader. */
struct member {
    enum member_state state;
    int conn; /* -1: the leader itself */
    struct emx_fanout_rank rank;
};

struct leader {
    struct member member[EMX_FANOUT_MEMBERS];
    unsigned count, quiet;
    bool pending; /* a member is TOLD */
    int store[2];
    struct emx_fanout_group group[EMX_FANOUT_KINDS];
};

struct emx_fanout {
    enum { SEEKING, CALLED, LEADING, DONE } state;
    int sock; /* CALLED, DONE: the connection, which holds the store. LEADING: the listening socket */
    unsigned sweeps, looks, looks_alone, hangups;
    struct emx_fanout_rank self;
    uint64_t secret, netns; /* of the job; namespace of the sockets, 0: unknown */
    struct emx_stats *stats;
    struct leader *leader; /* allocated when the first rank connects */
    char name[64];
};

static void fanout_close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- The leader: the groups ---- */

/* Adds the sockets of this kind of the admitted members to the group. */
static int fanout_widen(struct leader *k, enum emx_fanout_kind kind, bool v6)
{
    struct emx_fanout_socket come[EMX_FANOUT_MEMBERS];
    unsigned n = 0;

    for (unsigned i = 0; i < k->count; i++) {
        const struct member *m = &k->member[i];

        if (m->state == ADMITTED && m->rank.fd[kind] >= 0)
            come[n++] = (struct emx_fanout_socket){.fd = m->rank.fd[kind], .key = m->rank.key[kind]};
    }
    k->group[kind].v6 = v6;
    return emx_fanout_group_join(&k->group[kind], kind, come, n);
}

/* ---- The leader: ranks that connect ---- */

static void fanout_dismiss(struct member *m)
{
    fanout_close_fd(&m->conn);
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        fanout_close_fd(&m->rank.fd[i]);
    m->state = GONE;
}

static unsigned fanout_list_fds(const struct emx_fanout_rank *r, int fd[EMX_FANOUT_KINDS])
{
    unsigned n = 0;

    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        if (r->fd[i] >= 0)
            fd[n++] = r->fd[i];
    return n;
}

/* Puts the member's sockets into the store: after this, the end of a rank changes no index. */
static void fanout_admit(struct leader *k, struct member *m)
{
    int fd[EMX_FANOUT_KINDS];
    unsigned n = fanout_list_fds(&m->rank, fd);

    if ((m->conn >= 0 && emx_fds_send(m->conn, "", 1, &k->store[1], 1)) || emx_fds_send(k->store[0], "", 1, fd, n))
        fanout_dismiss(m);
    else
        m->state = ADMITTED;
}

/* Whether the rank has ended. */
static bool fanout_has_gone(const struct member *m)
{
    struct pollfd p = {.fd = m->conn, .events = POLLRDHUP};

    return m->conn >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Stops accepting. Ranks that still wait are disconnected. They look for a leader again and form another group. */
static void fanout_stop(struct emx_fanout *f)
{
    struct leader *k = f->leader;

    fanout_close_fd(&f->sock);
    f->state = DONE;
    for (unsigned i = 0; k && i < k->count; i++)
        if (k->member[i].state == CALLING || k->member[i].state == TOLD)
            fanout_dismiss(&k->member[i]);
}

static void fanout_decline(struct emx_fanout *f, const char *what)
{
    emx_log(EMX_LOG_INFO, "packet wire: the kernel runs each rank's filter for each frame: %s: %s", what,
            strerror(errno));
    fanout_stop(f);
}

static unsigned fanout_count_left(const struct leader *k)
{
    unsigned left = 0;

    for (unsigned i = 0; i < k->count; i++)
        left += k->member[i].state == IN && fanout_has_gone(&k->member[i]);
    return left;
}

/* Adds all members whose sockets have arrived. */
static void fanout_let_in(struct emx_fanout *f)
{
    struct leader *k = f->leader;
    int ret = 0;

    for (unsigned i = 0; i < k->count; i++) {
        struct member *m = &k->member[i];

        if (m->state == TOLD && fanout_has_gone(m))
            fanout_dismiss(m);
        else if (m->state == TOLD)
            fanout_admit(k, m);
    }
    for (unsigned kind = 0; kind < EMX_FANOUT_KINDS && !ret; kind++)
        ret = fanout_widen(k, kind, f->self.v6);
    if (ret)
        fanout_decline(f, "cannot form a fanout group");
    else
        f->stats->fanout_ranks = k->group[EMX_FANOUT_FRAMES].count;
    for (unsigned i = 0; i < k->count; i++) {
        struct member *m = &k->member[i];

        for (unsigned kind = 0; m->state == ADMITTED && kind < EMX_FANOUT_KINDS; kind++)
            fanout_close_fd(&m->rank.fd[kind]);
        if (m->state == ADMITTED)
            m->state = IN;
    }
    k->pending = false;
    emx_log(EMX_LOG_DEBUG, "packet wire: %u ranks of this host receive by a fanout program",
            k->group[EMX_FANOUT_FRAMES].count);
}

/* The network namespace of a socket; 0: the kernel does not report it (before Linux 5.14). */
static uint64_t fanout_netns_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);

    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

static bool fanout_is_packet_socket(const struct emx_fanout *f, int fd)
{
    int domain = 0;
    socklen_t len = sizeof(domain);

    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_PACKET &&
           fanout_netns_of(fd) == f->netns;
}

/* Whether the connected process is a rank of the job and has the rights it needs. */
static bool fanout_is_one_of_us(const struct emx_fanout *f, const struct hello *h, const struct emx_fanout_rank *r)
{
    bool ok = h->word == HELLO && h->secret == f->secret && r->fd[EMX_FANOUT_FRAMES] >= 0;

    for (unsigned i = 0; ok && i < EMX_FANOUT_KINDS; i++)
        ok = r->fd[i] < 0 || fanout_is_packet_socket(f, r->fd[i]);
    return ok;
}

/* Receives the sockets of a connected rank, if they have arrived. */
static void fanout_accept_member(struct emx_fanout *f, struct member *m)
{
    int fd[EMX_FANOUT_KINDS], n, next = 0;
    struct hello h;

    n = emx_fds_recv(m->conn, &h, sizeof(h), fd, EMX_FANOUT_KINDS, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    for (unsigned i = 0; n > 0 && i < EMX_FANOUT_KINDS; i++) {
        m->rank.key[i] = h.key[i];
        if (h.has[i] && next < n)
            m->rank.fd[i] = fd[next++];
    }
    while (n > next)
        close(fd[next++]);
    if (n <= 0 || !fanout_is_one_of_us(f, &h, &m->rank)) {
        fanout_dismiss(m);
        return;
    }
    m->state = TOLD;
    f->leader->pending = true;
    f->leader->quiet = 0;
}

static struct member *fanout_new_member(struct leader *k, int conn)
{
    struct member *m = &k->member[k->count++];

    *m = (struct member){.state = CALLING, .conn = conn, .rank = {.fd = {-1, -1, -1, -1}}};
    return m;
}

/* The first rank has connected. */
static int fanout_start_leading(struct emx_fanout *f)
{
    struct leader *k = calloc(1, sizeof(*k));
    struct member *own;

    if (!k)
        return -1;
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        emx_fanout_group_init(&k->group[i]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, k->store)) {
        free(k);
        return -1;
    }
    f->leader = k;
    if (emx_fds_send(k->store[0], "", 1, k->store, 2))
        return -1;
    own = fanout_new_member(k, -1);
    own->rank = f->self;
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        if (f->self.fd[i] >= 0 && (own->rank.fd[i] = fcntl(f->self.fd[i], F_DUPFD_CLOEXEC, 0)) < 0)
            return -1;
    own->state = TOLD;
    return 0;
}

/* The kernel looks for unreachable loops of sockets when a unix socket is closed: close one after the store. */
static void fanout_free_leader(struct leader *k)
{
    if (!k)
        return;
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        emx_fanout_group_close(&k->group[i]);
    fanout_close_fd(&k->store[0]);
    fanout_close_fd(&k->store[1]);
    for (unsigned i = 0; i < k->count; i++)
        fanout_dismiss(&k->member[i]);
    free(k);
}

static void fanout_accept_callers(struct emx_fanout *f)
{
    int conn = -1;

    while ((!f->leader || f->leader->count < EMX_FANOUT_MEMBERS) && (conn = emx_fds_accept(f->sock)) >= 0) {
        if (!f->leader && fanout_start_leading(f)) {
            close(conn);
            fanout_decline(f, "cannot share descriptors with the ranks of this host");
            return;
        }
        fanout_new_member(f->leader, conn);
    }
    if (!f->leader) {
        f->looks_alone += f->looks_alone < LOOKS_ALONE;
        return;
    }
    for (unsigned i = 0; i < f->leader->count; i++)
        if (f->leader->member[i].state == CALLING)
            fanout_accept_member(f, &f->leader->member[i]);
    if (!f->leader->pending || ++f->leader->quiet <= LOOKS_QUIET)
        return;
    if (fanout_count_left(f->leader) <= LEFT_MAX)
        fanout_let_in(f);
    else
        fanout_stop(f);
    if (f->state == LEADING && f->leader->count == EMX_FANOUT_MEMBERS)
        fanout_stop(f);
}

/* ---- Any rank ---- */

static int fanout_tell(const struct emx_fanout *f, int conn)
{
    struct hello h = {.word = HELLO, .secret = f->secret};
    int fd[EMX_FANOUT_KINDS];

    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++) {
        h.has[i] = f->self.fd[i] >= 0;
        h.key[i] = f->self.key[i];
    }
    return emx_fds_send(conn, &h, sizeof(h), fd, fanout_list_fds(&f->self, fd));
}

/* The reply stays in the connection. If the leader ends without a reply, the rank looks for another. */
static void fanout_check_answer(struct emx_fanout *f)
{
    char c;
    ssize_t n = recv(f->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n == 1) {
        f->state = DONE;
    } else if (n == 0 || errno != EAGAIN) {
        fanout_close_fd(&f->sock);
        f->state = ++f->hangups > HANGUPS_MAX ? DONE : SEEKING;
    }
}

/* Connects to the leader, or becomes the leader. */
static void fanout_find_leader(struct emx_fanout *f)
{
    int conn = emx_fds_connect(f->name, 0);

    if (conn >= 0 && !fanout_tell(f, conn)) {
        f->sock = conn;
        f->state = CALLED;
        return;
    }
    if (conn >= 0) {
        fanout_close_fd(&conn);
        fanout_decline(f, "cannot hand over the socket");
        return;
    }
    if (errno == ECONNREFUSED && (f->sock = emx_fds_listen(f->name)) >= 0)
        f->state = LEADING;
    else if ((errno != EADDRINUSE && errno != EAGAIN) || ++f->looks > LOOKS_MAX)
        fanout_decline(f, "cannot reach the job's first rank on this host");
}

void emx_fanout_sweep(struct emx_fanout *f)
{
    if (f->state == DONE || ++f->sweeps % SWEEPS_LOOK)
        return;
    if (f->state == SEEKING)
        fanout_find_leader(f);
    else if (f->state == CALLED)
        fanout_check_answer(f);
    else
        fanout_accept_callers(f);
}

bool emx_fanout_is_alone(const struct emx_fanout *f)
{
    return f->state == LEADING && !f->leader && f->looks_alone == LOOKS_ALONE;
}

struct emx_fanout *emx_fanout_open(const struct emx_wire_params *params, uint16_t ethertype,
                                   const struct emx_fanout_rank *self, char *why, size_t why_len_bytes)
{
    struct emx_fanout *f;

    if (!emx_shm_knows_users(why, why_len_bytes) ||
        !emx_fanout_group_possible(self->fd[EMX_FANOUT_FRAMES], why, why_len_bytes))
        return NULL;
    f = calloc(1, sizeof(*f));
    if (!f) {
        snprintf(why, why_len_bytes, "out of memory");
        return NULL;
    }
    f->sock = -1;
    f->self = *self;
    f->secret = params->job_secret;
    f->netns = fanout_netns_of(self->fd[EMX_FANOUT_FRAMES]);
    f->stats = params->stats;
    snprintf(f->name, sizeof(f->name), "ethmx-fanout-%u-%08x-%04x%s", (unsigned)geteuid(), params->job_cookie,
             ethertype, self->v6 ? "-6" : "");
    fanout_find_leader(f);
    return f;
}

/* The store may keep the sockets open, so they must receive no more frames. Those with a locked filter receive until
 * their ring is full. */
static void fanout_stop_receiving(const struct emx_fanout_rank *r)
{
    struct sock_filter drop_all = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog prog = {.len = 1, .filter = &drop_all};

    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        if (r->fd[i] >= 0)
            setsockopt(r->fd[i], SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

void emx_fanout_close(struct emx_fanout *f)
{
    if (!f)
        return;
    fanout_stop_receiving(&f->self);
    fanout_free_leader(f->leader);
    fanout_close_fd(&f->sock);
    free(f);
}
