/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout group: packet sockets of which the kernel selects one for each frame, by an index that a BPF program returns.
 * This file only builds the group. fanout.c collects the sockets and keeps members from leaving.
 */
#ifndef EMX_WIRE_FANOUT_GROUP_H
#define EMX_WIRE_FANOUT_GROUP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_FANOUT_MEMBERS 256 /* of a group; the kernel's limit */

/* Sockets of one kind make a group. */
enum emx_fanout_kind { EMX_FANOUT_FRAMES, EMX_FANOUT_GSO, EMX_FANOUT_UDP, EMX_FANOUT_TSO, EMX_FANOUT_KINDS };

/* A socket with a filter that passes only what carries its key: the endpoint's id; the port, host order. */
struct emx_fanout_socket {
    int fd;
    uint32_t key;
};

/* A member. */
struct emx_fanout_place {
    uint32_t key; /* as the program loads it */
    uint32_t index;
};

struct emx_fanout_group {
    struct emx_fanout_place place[EMX_FANOUT_MEMBERS]; /* sorted by key; the program knows them before they join */
    unsigned count;
    bool v6; /* packets are of IPv6; set by the caller before the first join */
    int fd;  /* of index 0, a descriptor of our own; -1: there is no group yet */
    int id;  /* as PACKET_FANOUT takes it */
};

/* Whether the kernel supports such groups. fd: any packet socket. If not, why has the reason. */
bool emx_fanout_group_possible(int fd, char *why, size_t why_len_bytes);

void emx_fanout_group_init(struct emx_fanout_group *g);

/* Adds n sockets, at most EMX_FANOUT_MEMBERS in all. The first two create the group; one alone stays as it is. Each
 * frame finds its socket at any moment, as long as no member leaves. 0, or -1 and errno: the group stays as far as it
 * was built, and must not be extended again. */
int emx_fanout_group_join(struct emx_fanout_group *g, enum emx_fanout_kind kind, const struct emx_fanout_socket *come,
                          unsigned n);

/* Forgets the group. Its sockets stay in it. */
void emx_fanout_group_close(struct emx_fanout_group *g);

/* ---- For tests ---- */

#define EMX_FANOUT_CODE (1 + 5 * EMX_FANOUT_MEMBERS) /* longest program */

/* Writes the program that returns a frame's index among n > 0 places, which are sorted by key; 0 for other keys.
 * Returns its length. */
unsigned emx_fanout_program(struct sock_filter code[EMX_FANOUT_CODE], enum emx_fanout_kind kind, bool v6,
                            const struct emx_fanout_place *place, unsigned n);

#endif
