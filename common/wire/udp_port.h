/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP port: a port that packet sockets receive from. A UDP socket holds it and drops what arrives, so that the kernel
 * gives the port to no other program and does not answer packets to it with ICMP port unreachable.
 */
#ifndef EMX_WIRE_UDP_PORT_H
#define EMX_WIRE_UDP_PORT_H

#include <stdint.h>

struct emx_udp_port {
    int fd;
    uint16_t port; /* host order */
};

/* Holds a free port, chosen by the kernel, on all IPv4 addresses. 0, or -1 and errno: nothing is open. */
int emx_udp_port_open(struct emx_udp_port *p);
void emx_udp_port_close(struct emx_udp_port *p);

#endif
