/* SPDX-License-Identifier: BSD-3-Clause
 *
 * process_vm_readv(2) copies from another process's memory if ptrace(2) would be allowed: the same user, not hidden by
 * a PID or user namespace, no seccomp filter against it (containers), not made undumpable. Where the Yama module is at
 * 1 (Ubuntu), a process may be read by its ancestors only, unless it says otherwise with PR_SET_PTRACER; we do, as
 * other MPI libraries do: it restores what holds on a system without Yama. At 2 and 3 Yama wants privileges.
 *
 * A process number may have been given to another process meanwhile. So each read also reads a token, a random number
 * at an address that its owner told when it joined: one call works on one address space, and if the token is right, so
 * is the rest. The token costs 0.3 to 0.5 us, a twentieth of 32 KiB, so within the same tick of the kernel's coarse
 * clock (4 ms or so) a process is read without it: numbers are given in turn, and all others come before this one does
 * again.
 */
#define _GNU_SOURCE
#include "wire/shm_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALL_BYTES (1u << 30) /* the kernel takes less than 2 GiB in one call */

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

/* 0: no Yama, or it does not mind. */
static int yama_scope(void)
{
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    char digit = '0';

    if (fd < 0)
        return 0;
    if (read(fd, &digit, 1) != 1)
        digit = '0';
    close(fd);
    return digit - '0';
}

bool emx_shm_mem_probe(char *why, size_t why_len_bytes)
{
    struct emx_shm_token own = {.value = 1};
    uint64_t from = 2, to = 0;
    int scope = yama_scope(), err;

    why[0] = 0;
    own.address = (uintptr_t)&own.value;
    err = emx_shm_mem_read(getpid(), &own, (uintptr_t)&from, &to, sizeof(to));
    if (err || to != from) {
        snprintf(why, why_len_bytes, "process_vm_readv is refused (%s), by a container's rules perhaps",
                 strerror(err ? err : EIO));
        return false;
    }
    if (scope >= 2 && geteuid()) {
        snprintf(why, why_len_bytes, "kernel.yama.ptrace_scope is %d (1 or 0 would do)", scope);
        return false;
    }
    if (scope == 1 && prctl(PR_SET_PTRACER, -1L, 0, 0, 0)) {
        snprintf(why, why_len_bytes, "kernel.yama.ptrace_scope is 1 and this process may not allow it (%s)",
                 strerror(errno));
        return false;
    }
    return true;
}

/* One call without the token. 0, or an errno. */
static int read_bare(pid_t pid, uint64_t remote, void *local, size_t len_bytes)
{
    struct iovec to = {.iov_base = local, .iov_len = len_bytes};
    struct iovec from = {.iov_base = (void *)(uintptr_t)remote, .iov_len = len_bytes};
    ssize_t n = process_vm_readv(pid, &to, 1, &from, 1, 0);

    if (n < 0)
        return errno;
    return (size_t)n == len_bytes ? 0 : EFAULT;
}

/* One call. 0, or an errno. */
static int read_some(pid_t pid, const struct emx_shm_token *token, uint64_t remote, void *local, size_t len_bytes)
{
    uint64_t value = ~token->value;
    struct iovec to[] = {{.iov_base = local, .iov_len = len_bytes}, {.iov_base = &value, .iov_len = sizeof(value)}};
    struct iovec from[] = {{.iov_base = (void *)(uintptr_t)remote, .iov_len = len_bytes},
                           {.iov_base = (void *)(uintptr_t)token->address, .iov_len = sizeof(value)}};
    ssize_t n = process_vm_readv(pid, to, 2, from, 2, 0);

    if (n < 0)
        return errno;
    if ((size_t)n != len_bytes + sizeof(value))
        return EFAULT;
    return value == token->value ? 0 : ESRCH;
}

int emx_shm_mem_read(pid_t pid, const struct emx_shm_token *token, uint64_t remote, void *local, size_t len_bytes)
{
    uint8_t *at = local;
    int err = 0;

    while (len_bytes && !err) {
        size_t some = len_bytes < CALL_BYTES ? len_bytes : CALL_BYTES;

        err = token ? read_some(pid, token, remote, at, some) : read_bare(pid, remote, at, some);
        remote += some;
        at += some;
        len_bytes -= some;
    }
    return err;
}
