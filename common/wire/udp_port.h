/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP port: a port that packet sockets receive from. A UDP socket holds it and drops what arrives, so that the kernel
 * gives the port to no other program and does not answer packets to it with ICMP port unreachable.
 */
#ifndef EMX_WIRE_UDP_PORT_H
#define EMX_WIRE_UDP_PORT_H

#include <stdbool.h>
#include <stdint.h>

struct emx_udp_port {
    int fd;
    uint16_t port; /* host order */
};

/* Holds a free port, chosen by the kernel, on all IPv4 addresses; if v6, on those of IPv6, too. 0, or -1 and errno:
 * nothing is open. */
int emx_udp_port_open(struct emx_udp_port *p, bool v6);
void emx_udp_port_close(struct emx_udp_port *p);

/* Binds the UDP socket fd, of IPv6 if v6, to a free port of all addresses. -1 and errno. */
int emx_udp_port_bind(int fd, bool v6, uint16_t *port_p);

#endif
