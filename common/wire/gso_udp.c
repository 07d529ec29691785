/* SPDX-License-Identifier: BSD-3-Clause
 *
 * UDP sockets send GSO packets since Linux 4.18 (UDP_SEGMENT) and receive them since 5.0 (UDP_GRO), which is long
 * before packet sockets do. Their way through the kernel is longer: routing, UDP's own checks, and the packet filter.
 *
 * The source address and the interface are those that were chosen for the way (IP_PKTINFO), so that routes of the
 * system do not send the packets elsewhere.
 */
#define _GNU_SOURCE
#include "wire/gso_udp.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/gso_filter.h"
#include "wire/netif.h"
#include "wire/udp_port.h"
#include "wire/udp_socket.h"

/* Ancillary data of a packet that is sent. */
union gso_udp_tx_control {
    char space[CMSG_SPACE(sizeof(struct in6_pktinfo)) + CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr align;
};

/* Passes only packets whose data may have a place; none: passes nothing. IPv6 accepts packets over loopback that a
 * packet socket has sent, IPv4 does not. */
static int gso_udp_filter(int fd, unsigned loopback_index, bool none)
{
    struct sock_filter code[EMX_GSO_FILTER_CODES];
    struct sock_fprog prog = {.len = EMX_GSO_FILTER_CODES, .filter = code};

    emx_gso_filter(code, 0, loopback_index, none ? 0 : UINT32_MAX, 0);
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
}

/* The kernel counts what the filter drops as if the buffer had been full, so its count is not asked for. */
static int gso_udp_restrict(int fd, unsigned loopback_index)
{
    int off = 0;

    return setsockopt(fd, SOL_SOCKET, SO_RXQ_OVFL, &off, sizeof(off)) || gso_udp_filter(fd, loopback_index, false) ? -1
                                                                                                                   : 0;
}

/* Opens the socket and binds it to some port. */
static int gso_udp_bind(struct emx_gso_udp *u, const struct emx_wire_params *params, bool v6, bool all,
                        uint64_t buffer_bytes)
{
    struct emx_udp_socket s;
    int ret = v6 ? emx_udp_socket_open_dual(&s, params, buffer_bytes) : emx_udp_socket_open(&s, params, buffer_bytes);

    *u = (struct emx_gso_udp){.fd = s.fd, .buffer_bytes = s.rcvbuf_bytes};
    if (!ret && !(s.gro && (s.gso || !all))) {
        errno = EOPNOTSUPP;
        ret = -1;
    }
    if (ret || (!all && gso_udp_restrict(u->fd, params->netifs->loopback_index)))
        return -1;
    return emx_udp_port_bind(u->fd, v6, &u->port);
}

/* Its port must not have EMX_GSO_RING_PORT. Those that do stay bound meanwhile, or the kernel might choose them again.
 */
int emx_gso_udp_open(struct emx_gso_udp *u, const struct emx_wire_params *params, bool v6, bool all,
                     uint64_t buffer_bytes)
{
    struct emx_gso_udp other;
    int ret = gso_udp_bind(u, params, v6, all, buffer_bytes);

    if (ret || !(u->port & EMX_GSO_RING_PORT))
        return ret;
    other = *u;
    ret = emx_gso_udp_open(u, params, v6, all, buffer_bytes);
    emx_gso_udp_close(&other);
    return ret;
}

int emx_gso_udp_only_hold(struct emx_gso_udp *u)
{
    return gso_udp_filter(u->fd, 0, true);
}

void emx_gso_udp_close(struct emx_gso_udp *u)
{
    if (u->fd >= 0)
        close(u->fd);
    *u = (struct emx_gso_udp){.fd = -1};
}

/* ---- Sending ---- */

/* Writes the way that the kernel is told, and returns its length. */
static size_t gso_udp_put_way(struct cmsghdr *c, unsigned ifindex, const struct emx_ip *from)
{
    struct in6_pktinfo info6 = {.ipi6_ifindex = ifindex};
    struct in_pktinfo info = {.ipi_ifindex = (int)ifindex, .ipi_spec_dst.s_addr = emx_ip_v4(from)};
    const bool v6 = emx_ip_is_v6(from);
    const size_t len_bytes = v6 ? sizeof(info6) : sizeof(info);

    memcpy(&info6.ipi6_addr, from, sizeof(*from));
    c->cmsg_level = v6 ? IPPROTO_IPV6 : IPPROTO_IP;
    c->cmsg_type = v6 ? IPV6_PKTINFO : IP_PKTINFO;
    c->cmsg_len = CMSG_LEN(len_bytes);
    memcpy(CMSG_DATA(c), v6 ? (const void *)&info6 : &info, len_bytes);
    return len_bytes;
}

/* Tells the kernel the way, and, for several frames, their length. */
static void gso_udp_put_control(struct msghdr *msg, union gso_udp_tx_control *control, unsigned ifindex,
                                const struct emx_ip *from, unsigned part_bytes)
{
    struct cmsghdr *c;
    size_t len_bytes;

    memset(control, 0, sizeof(*control));
    msg->msg_control = control->space;
    msg->msg_controllen = sizeof(control->space);
    c = CMSG_FIRSTHDR(msg);
    len_bytes = gso_udp_put_way(c, ifindex, from);
    msg->msg_controllen = CMSG_SPACE(len_bytes);
    if (!part_bytes)
        return;
    msg->msg_controllen += CMSG_SPACE(sizeof(uint16_t));
    emx_udp_socket_put_segment(CMSG_NXTHDR(msg, c), part_bytes);
}

/* A link-local address of IPv6 needs the interface. */
static socklen_t gso_udp_sockaddr_of(const struct emx_gso_way *way, unsigned ifindex, struct sockaddr_storage *to_p)
{
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(way->to_port)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_addr.s_addr = emx_ip_v4(&way->to_ip), .sin_port = htons(way->to_port)};

    if (!emx_ip_is_v6(&way->to_ip)) {
        memcpy(to_p, &to, sizeof(to));
        return sizeof(to);
    }
    if (emx_ip_is_link_local6(&way->to_ip))
        to6.sin6_scope_id = ifindex;
    memcpy(&to6.sin6_addr, &way->to_ip, sizeof(way->to_ip));
    memcpy(to_p, &to6, sizeof(to6));
    return sizeof(to6);
}

int emx_gso_udp_send(struct emx_gso_udp *u, unsigned ifindex, const struct emx_gso_way *way,
                     const struct emx_txframe *f, unsigned n)
{
    struct sockaddr_storage to;
    struct iovec iov[2 * EMX_GSO_PARTS];
    struct msghdr msg = {.msg_name = &to, .msg_iov = iov};
    union gso_udp_tx_control control;

    msg.msg_namelen = gso_udp_sockaddr_of(way, ifindex, &to);
    msg.msg_iovlen = emx_gso_iov(iov, f, n);
    gso_udp_put_control(&msg, &control, ifindex, &way->from_ip, n > 1 ? emx_gso_frame_bytes(f) : 0);
    return sendmsg(u->fd, &msg, MSG_DONTWAIT) < 0 ? errno : 0;
}

/* ---- Receiving ---- */

/* Prepares for the next packet, after a look at its first bytes if that pays. Returns the number of places for it; 0:
 * there is none. */
static unsigned gso_udp_look(int fd, struct emx_gso_rx *r)
{
    uint8_t head[EMX_PLACE_HEAD_BYTES];
    struct emx_gso_seen seen = {.frame = head};
    ssize_t got;

    if (!emx_gso_rx_places(r))
        return emx_gso_rx_prepare(r, NULL);
    got = recv(fd, head, sizeof(head), MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0)
        return 0;
    seen.len_bytes = (size_t)got;
    seen.head_bytes = emx_min(seen.len_bytes, sizeof(head));
    return emx_gso_rx_prepare(r, &seen);
}

bool emx_gso_udp_receive(int fd, struct emx_gso_rx *r, const struct emx_gso_seen *seen, uint32_t *drops)
{
    union emx_udp_control control;
    struct msghdr msg = {.msg_iov = r->iov + 1, .msg_control = control.space, .msg_controllen = sizeof(control.space)};
    unsigned part_bytes;
    ssize_t got;
    bool marked;

    msg.msg_iovlen = seen ? emx_gso_rx_prepare(r, seen) : gso_udp_look(fd, r);
    if (!msg.msg_iovlen)
        return false;
    got = recvmsg(fd, &msg, MSG_DONTWAIT);
    if (got < 0) {
        emx_gso_rx_failed(r, errno == EFAULT);
        return false;
    }
    part_bytes = emx_udp_socket_read_control(&msg, r->stats, drops, &marked);
    emx_gso_rx_done(r, (size_t)got, part_bytes, marked);
    return true;
}
