/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One frame is looked at by one rank. Each rank has a packet socket with an exact filter, and that is enough to be
 * right. But the kernel asks every socket of the frame's EtherType, at some 80 ns each, whatever its filter: with 64
 * ranks on a node a frame would cost 5 us. A fanout group costs the same for any number of sockets: the kernel runs one
 * program, which returns a number, and the frame goes to the member with this index.
 *
 * An index is nothing to rely on: when a member leaves, the kernel puts the last one into its place. A rank that is
 * killed would so move another, whose frames go astray until somebody has noticed and changed the program. Therefore
 * nobody leaves. A socket is in the group as long as anybody has it open; so a copy of each member's socket lies in the
 * queue of a unix socket, the *safe*, and of the safe each rank has a copy. Ranks may end or be killed in any order, at
 * any moment: no index ever changes. With the last rank all of it vanishes. What an ended rank leaves behind is a
 * socket that nobody reads, and its ring. So the group is the job's, not the user's: its ranks end together. And it
 * takes no more ranks when LEFT_MAX have left, so that a job that starts and ends processes does not fill the memory.
 *
 * How a rank gets in. The first rank of the job that opens is the *keeper*: it has the job's abstract name in this
 * network namespace. The others call it and hand over copies of their sockets; with that their part is done. The
 * keeper, when it looks (emx_fanout_sweep()), answers each with a copy of the safe, which may lie unread in the
 * caller's connection: there it is held, too. When no more callers have come for a while, the keeper does for all what
 * is to be done: it puts the sockets into the safe, writes the program, and moves the sockets into the group one after
 * the other. Until then, and whenever any of this fails, a rank's socket is asked for each frame as if there were no
 * groups.
 *
 *     rank --- call: its sockets ---> keeper             safe: [safe itself][rank's sockets][rank's sockets]...
 *          <-- answer: the safe -----                    group: index 0, 1, ... in the order of joining
 *
 * If the keeper is killed: what is in the group stays so, for the ranks hold the safe; ranks that come later find
 * nobody under the name and begin a group of their own. At each step between two system calls a frame finds its way:
 * the safe has a socket before it is in the group; fanout_group.c tells the rest.
 *
 * Who calls must show that it may have what it asks for, for the safe has everybody's sockets, and a packet socket
 * sends and captures what its owner likes. The name can be read in /proc, and a process of the same user may have fewer
 * rights (the ranks' own may come from their file). So a caller tells the job's secret, and hands over a packet socket
 * of this network namespace, which only who has CAP_NET_RAW in it can have made. And once a socket is in the group its
 * filter, or that it has none, is locked: it gets what the program gives it, and nothing else, whoever has it. (But for
 * the first one's, through which the program is written.)
 *
 * The safe lies in its own queue. So nothing but the kernel's collector of such loops closes what is in it. Otherwise
 * the last rank would, at its end, and wait 15 to 50 ms for each socket.
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

#define HELLO       0x6d684670u /* changes with what is told */
#define SWEEPS_LOOK 16          /* sweeps between two looks: about a millisecond of a rank that polls */
#define LOOKS_QUIET 4           /* looks without new callers, then those that came are let in */
#define LOOKS_ALONE 16          /* without any caller: the rank is taken to be alone */
#define LOOKS_MAX   10000       /* for somebody who has taken the name and does not listen yet */
#define HANGUPS_MAX 8
#define LEFT_MAX    8

/* What a caller tells. Its sockets come along, in the order of kinds. */
struct hello {
    uint32_t word, unused;
    uint64_t secret;
    uint32_t has[EMX_FANOUT_KINDS];
    uint32_t key[EMX_FANOUT_KINDS];
};

enum member_state { GONE, CALLING, TOLD, ADMITTED, IN };

/* A rank, as the keeper knows it. */
struct member {
    enum member_state state;
    int conn; /* -1: the keeper itself */
    struct emx_fanout_rank rank;
};

struct keeper {
    struct member member[EMX_FANOUT_MEMBERS];
    unsigned count, quiet;
    bool news; /* somebody is TOLD */
    int safe[2];
    struct emx_fanout_group group[EMX_FANOUT_KINDS];
};

struct emx_fanout {
    enum { SEEKING, CALLED, KEEPING, DONE } state;
    int sock; /* CALLED, and DONE after it: the call, which holds the safe. KEEPING: where callers come in */
    unsigned sweeps, looks, looks_alone, hangups;
    struct emx_fanout_rank self;
    uint64_t secret, netns; /* the job's; where our sockets are, 0: the kernel does not tell */
    struct emx_stats *stats;
    struct keeper *keeper; /* once there was a caller, until the end */
    char name[64];
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- The keeper: the groups ---- */

/* Lets the admitted ones' sockets of this kind into the group. */
static int fanout_widen(struct keeper *k, enum emx_fanout_kind kind)
{
    struct emx_fanout_socket come[EMX_FANOUT_MEMBERS];
    unsigned n = 0;

    for (unsigned i = 0; i < k->count; i++) {
        const struct member *m = &k->member[i];

        if (m->state == ADMITTED && m->rank.fd[kind] >= 0)
            come[n++] = (struct emx_fanout_socket){.fd = m->rank.fd[kind], .key = m->rank.key[kind]};
    }
    return emx_fanout_group_join(&k->group[kind], kind, come, n);
}

/* ---- The keeper: its callers ---- */

static void fanout_dismiss(struct member *m)
{
    close_fd(&m->conn);
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        close_fd(&m->rank.fd[i]);
    m->state = GONE;
}

static unsigned list_fds(const struct emx_fanout_rank *r, int fd[EMX_FANOUT_KINDS])
{
    unsigned n = 0;

    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        if (r->fd[i] >= 0)
            fd[n++] = r->fd[i];
    return n;
}

/* From here on nothing that happens to the rank or to us changes an index. */
static void fanout_admit(struct keeper *k, struct member *m)
{
    int fd[EMX_FANOUT_KINDS];
    unsigned n = list_fds(&m->rank, fd);

    if ((m->conn >= 0 && emx_fds_send(m->conn, "", 1, &k->safe[1], 1)) || emx_fds_send(k->safe[0], "", 1, fd, n))
        fanout_dismiss(m);
    else
        m->state = ADMITTED;
}

/* Whether the other end has gone. */
static bool fanout_has_gone(const struct member *m)
{
    struct pollfd p = {.fd = m->conn, .events = POLLRDHUP};

    return m->conn >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Lets nobody in any more. Who is still waiting is hung up on, looks again, and begins a group with the others. */
static void fanout_stop(struct emx_fanout *f)
{
    struct keeper *k = f->keeper;

    close_fd(&f->sock);
    f->state = DONE;
    for (unsigned i = 0; k && i < k->count; i++)
        if (k->member[i].state == CALLING || k->member[i].state == TOLD)
            fanout_dismiss(&k->member[i]);
}

static void fanout_decline(struct emx_fanout *f, const char *what)
{
    emx_log(EMX_LOG_INFO, "packet wire: each rank's socket is asked for each frame, for %s: %s", what, strerror(errno));
    fanout_stop(f);
}

static unsigned count_left(const struct keeper *k)
{
    unsigned left = 0;

    for (unsigned i = 0; i < k->count; i++)
        left += k->member[i].state == IN && fanout_has_gone(&k->member[i]);
    return left;
}

/* All who have told what they have get in. */
static void fanout_let_in(struct emx_fanout *f)
{
    struct keeper *k = f->keeper;
    int ret = 0;

    for (unsigned i = 0; i < k->count; i++) {
        struct member *m = &k->member[i];

        if (m->state == TOLD && fanout_has_gone(m))
            fanout_dismiss(m);
        else if (m->state == TOLD)
            fanout_admit(k, m);
    }
    for (unsigned kind = 0; kind < EMX_FANOUT_KINDS && !ret; kind++)
        ret = fanout_widen(k, kind);
    if (ret)
        fanout_decline(f, "a fanout group cannot be had");
    else
        f->stats->fanout_ranks = k->group[EMX_FANOUT_FRAMES].count;
    for (unsigned i = 0; i < k->count; i++) {
        struct member *m = &k->member[i];

        for (unsigned kind = 0; m->state == ADMITTED && kind < EMX_FANOUT_KINDS; kind++)
            close_fd(&m->rank.fd[kind]);
        if (m->state == ADMITTED)
            m->state = IN;
    }
    k->news = false;
    emx_log(EMX_LOG_DEBUG, "packet wire: %u ranks of this host have their frames found by a program",
            k->group[EMX_FANOUT_FRAMES].count);
}

/* Of a socket's network namespace; 0 before Linux 5.14. */
static uint64_t netns_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);

    return getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len) ? 0 : cookie;
}

static bool is_packet_socket(const struct emx_fanout *f, int fd)
{
    int domain = 0;
    socklen_t len = sizeof(domain);

    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_PACKET && netns_of(fd) == f->netns;
}

/* Whether the caller may have what the job's ranks have. */
static bool is_one_of_us(const struct emx_fanout *f, const struct hello *h, const struct emx_fanout_rank *r)
{
    bool ok = h->word == HELLO && h->secret == f->secret && r->fd[EMX_FANOUT_FRAMES] >= 0;

    for (unsigned i = 0; ok && i < EMX_FANOUT_KINDS; i++)
        ok = r->fd[i] < 0 || is_packet_socket(f, r->fd[i]);
    return ok;
}

/* Looks whether a caller has told what it has; it may be between its two system calls. */
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
    if (n <= 0 || !is_one_of_us(f, &h, &m->rank)) {
        fanout_dismiss(m);
        return;
    }
    m->state = TOLD;
    f->keeper->news = true;
    f->keeper->quiet = 0;
}

static struct member *fanout_new_member(struct keeper *k, int conn)
{
    struct member *m = &k->member[k->count++];

    *m = (struct member){.state = CALLING, .conn = conn, .rank = {.fd = {-1, -1}}};
    return m;
}

/* The first caller is here. */
static int fanout_begin(struct emx_fanout *f)
{
    struct keeper *k = calloc(1, sizeof(*k));
    struct member *own;

    if (!k)
        return -1;
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        emx_fanout_group_init(&k->group[i]);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, k->safe)) {
        free(k);
        return -1;
    }
    f->keeper = k;
    if (emx_fds_send(k->safe[0], "", 1, k->safe, 2))
        return -1;
    own = fanout_new_member(k, -1);
    own->rank = f->self;
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        if (f->self.fd[i] >= 0 && (own->rank.fd[i] = fcntl(f->self.fd[i], F_DUPFD_CLOEXEC, 0)) < 0)
            return -1;
    own->state = TOLD;
    return 0;
}

/* The kernel looks for loops of unreachable sockets when a unix socket is closed: one must be, after the safe. */
static void fanout_end(struct keeper *k)
{
    if (!k)
        return;
    for (unsigned i = 0; i < EMX_FANOUT_KINDS; i++)
        emx_fanout_group_close(&k->group[i]);
    close_fd(&k->safe[0]);
    close_fd(&k->safe[1]);
    for (unsigned i = 0; i < k->count; i++)
        fanout_dismiss(&k->member[i]);
    free(k);
}

static void fanout_accept_callers(struct emx_fanout *f)
{
    int conn = -1;

    while ((!f->keeper || f->keeper->count < EMX_FANOUT_MEMBERS) && (conn = emx_fds_accept(f->sock)) >= 0) {
        if (!f->keeper && fanout_begin(f)) {
            close(conn);
            fanout_decline(f, "the ranks of this host cannot be brought together");
            return;
        }
        fanout_new_member(f->keeper, conn);
    }
    if (!f->keeper) {
        f->looks_alone += f->looks_alone < LOOKS_ALONE;
        return;
    }
    for (unsigned i = 0; i < f->keeper->count; i++)
        if (f->keeper->member[i].state == CALLING)
            fanout_accept_member(f, &f->keeper->member[i]);
    if (!f->keeper->news || ++f->keeper->quiet <= LOOKS_QUIET)
        return;
    if (count_left(f->keeper) <= LEFT_MAX)
        fanout_let_in(f);
    else
        fanout_stop(f);
    if (f->state == KEEPING && f->keeper->count == EMX_FANOUT_MEMBERS)
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
    return emx_fds_send(conn, &h, sizeof(h), fd, list_fds(&f->self, fd));
}

/* The answer stays where it is. If the keeper ends without one, somebody else must be found. */
static void fanout_check_answer(struct emx_fanout *f)
{
    char c;
    ssize_t n = recv(f->sock, &c, 1, MSG_PEEK | MSG_DONTWAIT);

    if (n == 1) {
        f->state = DONE;
    } else if (n == 0 || errno != EAGAIN) {
        close_fd(&f->sock);
        f->state = ++f->hangups > HANGUPS_MAX ? DONE : SEEKING;
    }
}

/* Calls the keeper, or becomes the keeper. */
static void fanout_find_leader(struct emx_fanout *f)
{
    int conn = emx_fds_connect(f->name, 0);

    if (conn >= 0 && !fanout_tell(f, conn)) {
        f->sock = conn;
        f->state = CALLED;
        return;
    }
    if (conn >= 0) {
        close_fd(&conn);
        fanout_decline(f, "its socket cannot be handed over");
        return;
    }
    if (errno == ECONNREFUSED && (f->sock = emx_fds_listen(f->name)) >= 0)
        f->state = KEEPING;
    else if ((errno != EADDRINUSE && errno != EAGAIN) || ++f->looks > LOOKS_MAX)
        fanout_decline(f, "the job's first rank on this host cannot be reached");
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
    return f->state == KEEPING && !f->keeper && f->looks_alone == LOOKS_ALONE;
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
    f->netns = netns_of(self->fd[EMX_FANOUT_FRAMES]);
    f->stats = params->stats;
    snprintf(f->name, sizeof(f->name), "ethmx-fanout-%u-%08x-%04x", (unsigned)geteuid(), params->job_cookie, ethertype);
    fanout_find_leader(f);
    return f;
}

/* The safe may keep the sockets open: let nothing more into them. Those whose filter is locked fill, and then no more.
 */
static void fanout_close(const struct emx_fanout_rank *r)
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
    fanout_close(&f->self);
    fanout_end(f->keeper);
    close_fd(&f->sock);
    free(f);
}
