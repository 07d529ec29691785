/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout group: packet sockets of which the kernel asks one for each frame, the one that a program names by its index.
 * It is bare: who must not leave, and who brings the sockets together, is fanout.c's matter.
 */
#ifndef EMX_WIRE_FANOUT_GROUP_H
#define EMX_WIRE_FANOUT_GROUP_H

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EMX_FANOUT_MEMBERS 256 /* of a group; the kernel's limit */

/* Sockets of one kind make a group. */
enum emx_fanout_kind { EMX_FANOUT_FRAMES, EMX_FANOUT_BULK, EMX_FANOUT_KINDS };

/* A socket with a filter that passes only what carries its key: the endpoint's id; the UDP port, host order. */
struct emx_fanout_socket {
    int fd;
    uint32_t key;
};

/* A member's place. */
struct emx_fanout_place {
    uint32_t key; /* as the program loads it */
    uint32_t index;
};

struct emx_fanout_group {
    struct emx_fanout_place place[EMX_FANOUT_MEMBERS]; /* by key; known to the program, perhaps not yet there */
    unsigned count;
    int fd; /* of index 0, a descriptor of our own; -1: there is no group yet */
    int id; /* as PACKET_FANOUT takes it */
};

/* Whether the kernel has such groups. fd: any packet socket. If not, why says so. */
bool emx_fanout_group_possible(int fd, char *why, size_t why_len_bytes);

void emx_fanout_group_init(struct emx_fanout_group *g);

/* Brings sockets in; the first two begin the group, one alone is left as it is. At every moment each frame finds its
 * socket, if no member leaves. 0, or -1 and errno: it stays as far as it has come, and must not be widened again. No
 * more than EMX_FANOUT_MEMBERS altogether. */
int emx_fanout_group_join(struct emx_fanout_group *g, enum emx_fanout_kind kind, const struct emx_fanout_socket *come,
                          unsigned n);

/* Forgets the group. Its sockets stay in it. */
void emx_fanout_group_close(struct emx_fanout_group *g);

/* ---- For tests ---- */

#define EMX_FANOUT_CODE (1 + 5 * EMX_FANOUT_MEMBERS) /* longest program */

/* Writes the program that finds a frame's place among n > 0, which are sorted by key; for other keys it answers 0.
 * Returns its length. */
unsigned emx_fanout_program(struct sock_filter code[EMX_FANOUT_CODE], enum emx_fanout_kind kind,
                            const struct emx_fanout_place *place, unsigned n);

#endif
