/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Identifies the kernel and its network namespace: the kernel's random boot id and the namespace's cookie, which is not
 * used again while the kernel runs. An old kernel without cookies gives the namespace's inode number.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/hash.h"
#include "wire/netif.h"

#ifndef SO_NETNS_COOKIE
#define SO_NETNS_COOKIE 71
#endif

static uint64_t host_id_mix_bytes(uint64_t seed, const char *b, size_t len_bytes)
{
    for (size_t i = 0; i < len_bytes; i++)
        seed = emx_mix64(seed * 257 + (unsigned char)b[i] + 1);
    return seed;
}

/* The boot id; without /proc, the host name and kernel version. */
static uint64_t host_id_boot_number(void)
{
    char id[64];
    struct utsname u;
    ssize_t len = -1;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        len = read(fd, id, sizeof(id));
        close(fd);
    }
    if (len > 0)
        return host_id_mix_bytes(1, id, (size_t)len);
    memset(&u, 0, sizeof(u));
    uname(&u);
    return host_id_mix_bytes(host_id_mix_bytes(2, u.nodename, strlen(u.nodename)), u.version, strlen(u.version));
}

static uint64_t host_id_namespace_number(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    uint64_t cookie = 0;
    socklen_t len = sizeof(cookie);
    struct stat st;

    if (fd >= 0) {
        if (getsockopt(fd, SOL_SOCKET, SO_NETNS_COOKIE, &cookie, &len))
            cookie = 0;
        close(fd);
    }
    if (!cookie && !stat("/proc/self/ns/net", &st))
        cookie = emx_mix64(st.st_dev + 1) ^ st.st_ino;
    return cookie;
}

uint64_t emx_host_id(void)
{
    uint64_t id = emx_mix64(host_id_boot_number() ^ emx_mix64(host_id_namespace_number() + 1)) >> 16;

    return id ? id : 1;
}
