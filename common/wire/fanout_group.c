/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A socket's index in its group is the order of joining. So the program can know an index before the socket is there:
 * until then its answer is wrong, but a socket outside the group is asked by its own filter, and finds its frame. Once
 * inside it needs no filter any more; without one, foreign frames that reach it are counted (drop_not_mine). Only the
 * member with index 0 keeps its filter, because it gets the frames that belong to no member; and so do all sockets
 * for GSO packets, which get foreign packets.
 *
 * Replacing a program takes long, because the kernel waits until no processor runs the old one. Attaching the first one
 * does not. So many sockets should be added at once.
 */
#define _GNU_SOURCE
#include "wire/fanout_group.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef PACKET_FANOUT_FLAG_UNIQUEID
#define PACKET_FANOUT_FLAG_UNIQUEID 0x2000
#endif
#ifndef PACKET_FANOUT_DATA
#define PACKET_FANOUT_DATA 22
#endif
#ifndef PACKET_FANOUT_CBPF
#define PACKET_FANOUT_CBPF 6
#endif

/* A kernel that knows such programs finds that the socket is in no group. */
bool emx_fanout_group_possible(int fd, char *why, size_t why_len_bytes)
{
    struct sock_filter zero = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog prog = {.len = 1, .filter = &zero};

    if (!setsockopt(fd, SOL_PACKET, PACKET_FANOUT_DATA, &prog, sizeof(prog)) || errno == EINVAL)
        return true;
    snprintf(why, why_len_bytes, "no fanout group: %s", strerror(errno));
    return false;
}

/* ---- The program ---- */

/* The part that finds a key among the n > 0 at place. Returns the end. */
static unsigned fanout_group_search(struct sock_filter *code, unsigned at, const struct emx_fanout_place *place,
                                    unsigned n)
{
    unsigned half = n / 2, end;

    if (n == 1) {
        code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, place->key, 0, 1);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, place->index);
        code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);
        return at;
    }
    /* A conditional jump reaches no further than 255 instructions. */
    end = fanout_group_search(code, at + 2, place, half);
    code[at] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, place[half].key, 0, 1);
    code[at + 1] = (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, end - (at + 2));
    return fanout_group_search(code, end, place + half, n - half);
}

/* The program sees packets from the network header on. A packet too short for the load gets 0. */
unsigned emx_fanout_program(struct sock_filter code[EMX_FANOUT_CODE], enum emx_fanout_kind kind, bool v6,
                            const struct emx_fanout_place *place, unsigned n)
{
    /* Of headers without options and extension headers; the socket's filter looks closer. */
    enum { ID_AT = 4, PORT_AT = 22, PORT6_AT = 42 };

    if (kind == EMX_FANOUT_FRAMES)
        code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ID_AT);
    else
        code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_H | BPF_ABS, v6 ? PORT6_AT : PORT_AT);
    return fanout_group_search(code, 1, place, n);
}

static int fanout_group_write_program(const struct emx_fanout_group *g, enum emx_fanout_kind kind)
{
    struct sock_filter code[EMX_FANOUT_CODE];
    struct sock_fprog prog = {.filter = code};

    prog.len = (unsigned short)emx_fanout_program(code, kind, g->v6, g->place, g->count);
    return setsockopt(g->fd, SOL_PACKET, PACKET_FANOUT_DATA, &prog, sizeof(prog));
}

/* ---- The group ---- */

void emx_fanout_group_init(struct emx_fanout_group *g)
{
    g->count = 0;
    g->fd = -1;
}

void emx_fanout_group_close(struct emx_fanout_group *g)
{
    if (g->fd >= 0)
        close(g->fd);
    emx_fanout_group_init(g);
}

/* The next index. Ids are little-endian in frames, and the program loads big-endian. */
static void fanout_group_add_place(struct emx_fanout_group *g, enum emx_fanout_kind kind, uint32_t key)
{
    struct emx_fanout_place p = {.key = kind == EMX_FANOUT_FRAMES ? __builtin_bswap32(key) : key, .index = g->count};
    unsigned i = g->count++;

    for (; i && g->place[i - 1].key > p.key; i--)
        g->place[i] = g->place[i - 1];
    g->place[i] = p;
}

static int fanout_group_begin(struct emx_fanout_group *g, int fd)
{
    int want = (PACKET_FANOUT_CBPF | PACKET_FANOUT_FLAG_UNIQUEID) << 16;
    socklen_t len = sizeof(g->id);

    g->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (g->fd < 0 || setsockopt(g->fd, SOL_PACKET, PACKET_FANOUT, &want, sizeof(want)))
        return -1;
    return getsockopt(g->fd, SOL_PACKET, PACKET_FANOUT, &g->id, &len);
}

/* The kernel never unlocks it. It then takes no other program from this socket either. */
static void fanout_group_lock_filter(int fd)
{
    int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
}

static int fanout_group_move_in(const struct emx_fanout_group *g, enum emx_fanout_kind kind, int fd)
{
    int none = 0;

    if (setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &g->id, sizeof(g->id)))
        return -1;
    if (kind == EMX_FANOUT_FRAMES)
        setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &none, sizeof(none));
    fanout_group_lock_filter(fd);
    return 0;
}

int emx_fanout_group_join(struct emx_fanout_group *g, enum emx_fanout_kind kind, const struct emx_fanout_socket *come,
                          unsigned n)
{
    unsigned first = g->fd < 0; /* of those that join what is there */

    if (n <= first)
        return 0;
    if (first && fanout_group_begin(g, come[0].fd))
        return -1;
    for (unsigned i = 0; i < n; i++)
        fanout_group_add_place(g, kind, come[i].key);
    if (fanout_group_write_program(g, kind))
        return -1;
    for (unsigned i = first; i < n; i++)
        if (fanout_group_move_in(g, kind, come[i].fd))
            return -1;
    return 0;
}
