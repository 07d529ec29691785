/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel notes at a socket from which queue of a card (NAPI) a frame came. A UDP socket that is not connected, and
 * an AF_XDP socket, keep the queue of their first frame. A read that finds nothing then runs the receive function of
 * the driver for that queue, once if the read does not block. Interfaces without such a function, as loopback, are not
 * affected.
 *
 * Preferred busy polling (Linux 5.11) keeps the interrupt of the queue off between two reads, if the interface defers
 * interrupts: napi_defer_hard_irqs and gro_flush_timeout, which root sets. Without that, interrupts and reads compete
 * for the queue. At a socket of AF_XDP the kernel then wakes no driver either, but relies on the poll: a driver with
 * zero copy whose receive function does not send, as that of virtio-net, would never send.
 */
#include "wire/busy_poll.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif
#ifndef SO_BUSY_POLL_BUDGET
#define SO_BUSY_POLL_BUDGET 70
#endif

#define BUSY_POLL_US 20 /* of a read that blocks; ethmx has none, and any value but 0 switches busy polling on */

/* The kernel refused SO_BUSY_POLL with errno err. */
static const char *busy_poll_refused(int fd, int err)
{
    int us = 0;
    socklen_t len = sizeof(us);

    if (err != EPERM)
        return ", no busy polling (not supported by the kernel)";
    if (!getsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, &len) && us)
        return ", busy polling beside interrupts (by net.core.busy_read; CAP_NET_ADMIN could prefer it)";
    return ", no busy polling (this kernel wants CAP_NET_ADMIN for it, or net.core.busy_read above 0)";
}

bool emx_busy_poll_has_xdp(int fd)
{
    int preferred = 0;
    socklen_t len = sizeof(preferred);

    return !getsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &preferred, &len);
}

const char *emx_busy_poll_set(int fd, const struct emx_config *cfg, bool zero_copy)
{
    int packets = (int)cfg->p_busy_poll, us = BUSY_POLL_US, on = 1;

    if (!packets)
        return "";
    if (setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us)))
        return busy_poll_refused(fd, errno);
    (void)setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL_BUDGET, &packets, sizeof(packets)); /* otherwise it is the kernel's */
    if (zero_copy)
        return ", busy polling beside interrupts (with zero copy)";
    if (setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)))
        return ", busy polling beside interrupts (CAP_NET_ADMIN and Linux 5.11 could prefer it)";
    return ", busy polling";
}
