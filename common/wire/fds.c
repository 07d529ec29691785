/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "wire/fds.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define CALLERS_MAX 4096 /* not yet accepted; the system may allow less */

/* An abstract name: it begins with 0 and lives with the socket. */
static socklen_t fds_set_name(struct sockaddr_un *a, const char *name)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(a->sun_path + 1));
}

static int fds_unix_socket(int flags)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);
}

/* close() that keeps errno; returns -1. */
static int fds_fail(int fd)
{
    int err = errno;

    close(fd);
    errno = err;
    return -1;
}

int emx_fds_listen(const char *name)
{
    struct sockaddr_un a;
    socklen_t len = fds_set_name(&a, name);
    int fd = fds_unix_socket(SOCK_NONBLOCK);

    if (fd < 0)
        return -1;
    if (bind(fd, (struct sockaddr *)&a, len) || listen(fd, CALLERS_MAX))
        return fds_fail(fd);
    return fd;
}

static int fds_of_same_user(int fd)
{
    struct ucred c;
    socklen_t len = sizeof(c);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len))
        return 0;
    errno = EPERM;
    return c.uid == geteuid();
}

int emx_fds_connect(const char *name, unsigned timeout_ms)
{
    struct timeval limit = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    struct sockaddr_un a;
    socklen_t len = fds_set_name(&a, name);
    int fd = fds_unix_socket(timeout_ms ? 0 : SOCK_NONBLOCK);

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) || connect(fd, (struct sockaddr *)&a, len) ||
        !fds_of_same_user(fd))
        return fds_fail(fd);
    return fd;
}

int emx_fds_accept(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0 && !fds_of_same_user(fd))
        return fds_fail(fd);
    return fd;
}

static unsigned fds_count_of(rlim_t n)
{
    return n > UINT_MAX ? UINT_MAX : (unsigned)n;
}

unsigned emx_fds_allow(unsigned need)
{
    struct rlimit r, more;

    if (getrlimit(RLIMIT_NOFILE, &r))
        return need;
    more = (struct rlimit){.rlim_cur = need < r.rlim_max ? need : r.rlim_max, .rlim_max = r.rlim_max};
    if (r.rlim_cur >= need || setrlimit(RLIMIT_NOFILE, &more))
        return fds_count_of(r.rlim_cur);
    return fds_count_of(more.rlim_cur);
}

union control {
    struct cmsghdr align;
    char room[CMSG_SPACE(EMX_FDS_MAX * sizeof(int))];
};

int emx_fds_send(int sock, const void *data, size_t len_bytes, const int *fd, unsigned n)
{
    struct iovec iov = {.iov_base = (void *)data, .iov_len = len_bytes};
    union control control = {{0}};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(c), fd, n * sizeof(int));
    return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len_bytes ? 0 : -1;
}

static unsigned take_fds(struct msghdr *m, int *fd, unsigned max)
{
    unsigned n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        unsigned count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (unsigned i = 0; i < count; i++) {
            int one;

            memcpy(&one, CMSG_DATA(c) + i * sizeof(int), sizeof(one));
            if (n < max)
                fd[n++] = one;
            else
                close(one);
        }
    }
    return n;
}

int emx_fds_recv(int sock, void *data, size_t len_bytes, int *fd, unsigned max, int flags)
{
    struct iovec iov = {.iov_base = data, .iov_len = len_bytes};
    union control control;
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room, .msg_controllen = sizeof(control.room)};
    ssize_t len = recvmsg(sock, &m, MSG_CMSG_CLOEXEC | flags);
    unsigned n;

    if (len < 0)
        return -1;
    n = take_fds(&m, fd, max);
    if (len == (ssize_t)len_bytes && !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
        return (int)n;
    while (n)
        close(fd[--n]);
    errno = len ? EPROTO : ECONNRESET;
    return -1;
}
