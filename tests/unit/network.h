/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A network namespace for unit tests. The file that includes it defines _GNU_SOURCE.
 */
#ifndef EMX_TESTS_UNIT_NETWORK_H
#define EMX_TESTS_UNIT_NETWORK_H

#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static inline bool unit_lo_up(void)
{
    struct ifreq ifr = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret = ioctl(fd, SIOCSIFFLAGS, &ifr);

    close(fd);
    return !ret;
}

static inline bool unit_write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* Moves the process into a network namespace of its own, whose loopback is up. Users who are not root get a user
 * namespace of which they are. false: the system does not allow it. */
static inline bool unit_own_network(void)
{
    char map[64];

    if (!geteuid())
        return !unshare(CLONE_NEWNET) && unit_lo_up();
    snprintf(map, sizeof(map), "0 %u 1", (unsigned)geteuid());
    return !unshare(CLONE_NEWUSER | CLONE_NEWNET) && unit_write_file("/proc/self/uid_map", map) && unit_lo_up();
}

#endif
