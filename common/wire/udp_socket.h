/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP socket: how wires open one, and what goes with a packet that it sends or receives. Used under the endpoint's
 * lock.
 */
#ifndef EMX_WIRE_UDP_SOCKET_H
#define EMX_WIRE_UDP_SOCKET_H

#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wire/wire.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

struct emx_udp_socket {
    int fd;                /* -1: it could not be opened */
    bool gso, gro;         /* the kernel sends GSO packets, and joins received datagrams */
    unsigned rcvbuf_bytes; /* as the system allows */
};

/* Opens an IPv4 socket that does not block, with the parameters' type of service and priority, for datagrams that are
 * never fragmented. rcvbuf_bytes: the receive buffer that is wanted; a smaller one loses datagrams, which the engine
 * adapts to. The caller binds the socket, and closes it, also after an error. -1 and errno. */
int emx_udp_socket_open(struct emx_udp_socket *s, const struct emx_wire_params *params, uint64_t rcvbuf_bytes);

/* The same with an IPv6 socket, which sends and receives IPv4, too. */
int emx_udp_socket_open_dual(struct emx_udp_socket *s, const struct emx_wire_params *params, uint64_t rcvbuf_bytes);

/* Sets a buffer of any socket (SO_RCVBUF, SO_SNDBUF), beyond the system's limit if privileged. Returns its size. */
unsigned emx_socket_size_buffer(int fd, int which, uint64_t wanted_bytes);

/* Ancillary data of a received packet. */
union emx_udp_control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(uint32_t)) + CMSG_SPACE(sizeof(int))];
};

/* Reads it. Returns the length of the datagrams that were joined, 0: there is one; whether they are marked (CE); and
 * counts those that the kernel has dropped since *drops, its count at the last call. */
unsigned emx_udp_socket_read_control(struct msghdr *msg, struct emx_stats *stats, uint32_t *drops, bool *marked_p);

/* Writes ancillary data to c: the packet is to be cut into datagrams of part_bytes. */
void emx_udp_socket_put_segment(struct cmsghdr *c, unsigned part_bytes);

#endif
