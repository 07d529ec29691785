/* SPDX-License-Identifier: BSD-3-Clause
 *
 * process_vm_readv(2) copies from another process's memory if ptrace(2) would be allowed: the same user, not hidden by
 * a PID or user namespace, no seccomp filter against it (containers), not made undumpable. Where the Yama module is at
 * 1 (Ubuntu), a process may be read by its ancestors only, unless it says otherwise with PR_SET_PTRACER; we do, as
 * other MPI libraries do: it restores what holds on a system without Yama. At 2 and 3 Yama wants privileges.
 *
 * A program whose file has a capability (setcap) is started undumpable: its user's other processes may not look into
 * it, not even those that run the same program, and it is not ours to lift that. A process may always look into itself,
 * so the trial at the start does not show it; the state does. (A capability that a process hands on to the programs it
 * starts, an *ambient* one, has no such effect.)
 *
 * A process number may have been given to another process meanwhile. So each read also reads a token, a random number
 * at an address that its owner told when it joined: one call works on one address space, and if the token is right, so
 * is the rest. Reading the token takes a noticeable part of a short read. So it is left out within the same tick of the
 * kernel's coarse clock: the kernel gives numbers in turn, and cannot come back to this one so soon.
 *
 * A write must reach the right process or none, and a check before it does not help: the process may end between check
 * and call. So each write begins with eight bytes for the *guard*, a page at a random place that its owner has mapped
 * for this only, far from where programs have anything. One call works on one address space, and on the parts in their
 * order: where there is no guard nothing is written. Children do not inherit it. (/proc/PID/mem, once opened, stays
 * with its address space, and would need no guard; but writes through it are slower.)
 *
 * An address space is freed when the last of its threads has left it, and a thread in a system call has not. So
 * /proc/PID/mem, once opened, shows that a process writes no more, even if its children live.
 */
#define _GNU_SOURCE
#include "wire/shm/shm_mem.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CALL_BYTES (1u << 30) /* the kernel takes less than 2 GiB in one call */

/* Where guards lie. What programs map lies below or above; a random page of this is nobody else's. */
#define GUARD_LOWEST  (UINT64_C(1) << 40)
#define GUARD_HIGHEST (UINT64_C(5) << 44)
#define GUARD_BYTES   65536u /* a page, or several */
#define GUARD_TRIES   8

/* The thread sanitizer has all these places for itself: there any place will do. */
#if defined(__SANITIZE_THREAD__)
#define ANYWHERE 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define ANYWHERE 1
#endif
#endif
#ifndef ANYWHERE
#define ANYWHERE 0
#endif

#ifndef PR_SET_PTRACER
#define PR_SET_PTRACER 0x59616d61
#endif

/* 0: no Yama, or it does not mind. */
static int shm_mem_yama_scope(void)
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

/* Whether ptrace(2) is allowed to this process whatever the other one is. */
static bool shm_mem_may_trace_all(void)
{
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[_LINUX_CAPABILITY_U32S_3] = {{0}};

    return !syscall(SYS_capget, &h, d) && d[CAP_TO_INDEX(CAP_SYS_PTRACE)].effective & CAP_TO_MASK(CAP_SYS_PTRACE);
}

bool emx_shm_mem_probe(char *why, size_t why_len_bytes)
{
    struct emx_shm_token own = {.value = 1};
    uint64_t from = 2, to = 0;
    int scope = shm_mem_yama_scope(), err;

    why[0] = 0;
    own.address = (uintptr_t)&own.value;
    err = emx_shm_mem_read(getpid(), &own, (uintptr_t)&from, &to, sizeof(to));
    if (err || to != from) {
        snprintf(why, why_len_bytes, "process_vm_readv is refused (%s), by a container's rules perhaps",
                 strerror(err ? err : EIO));
        return false;
    }
    if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1 && !shm_mem_may_trace_all()) {
        snprintf(why, why_len_bytes,
                 "this process is undumpable, as setcap makes a program: no other may read it (ambient capabilities, "
                 "see setpriv(1), would do)");
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
static int shm_mem_read_bare(pid_t pid, uint64_t remote, void *local, size_t len_bytes)
{
    struct iovec to = {.iov_base = local, .iov_len = len_bytes};
    struct iovec from = {.iov_base = (void *)(uintptr_t)remote, .iov_len = len_bytes};
    ssize_t n = process_vm_readv(pid, &to, 1, &from, 1, 0);

    if (n < 0)
        return errno;
    return (size_t)n == len_bytes ? 0 : EFAULT;
}

/* One call. 0, or an errno. */
static int shm_mem_read_some(pid_t pid, const struct emx_shm_token *token, uint64_t remote, void *local,
                             size_t len_bytes)
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

        err = token ? shm_mem_read_some(pid, token, remote, at, some) : shm_mem_read_bare(pid, remote, at, some);
        remote += some;
        at += some;
        len_bytes -= some;
    }
    return err;
}

/* ---- Whether it lives ---- */

/* Reads the token of the process that fd belongs to. false: it has gone. */
static bool shm_mem_has_token(int fd, const struct emx_shm_token *token)
{
    uint64_t value;

    return pread(fd, &value, sizeof(value), (off_t)token->address) == (ssize_t)sizeof(value) && value == token->value;
}

int emx_shm_mem_open(pid_t pid, const struct emx_shm_token *token)
{
    char path[32];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || shm_mem_has_token(fd, token))
        return fd;
    close(fd);
    errno = ESRCH;
    return -1;
}

bool emx_shm_mem_gone(int fd, const struct emx_shm_token *token)
{
    return !shm_mem_has_token(fd, token);
}

/* ---- Writing ---- */

/* At a random place; 0: it is taken, or there is no such place in this kernel's address spaces. */
static uint64_t shm_mem_try_guard(void)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | (ANYWHERE ? 0 : MAP_FIXED_NOREPLACE);
    uint64_t place;
    void *at;

    if (getrandom(&place, sizeof(place), 0) != (ssize_t)sizeof(place))
        return 0;
    place = GUARD_LOWEST + (place % (GUARD_HIGHEST - GUARD_LOWEST)) / GUARD_BYTES * GUARD_BYTES;
    at = mmap(ANYWHERE ? NULL : (void *)(uintptr_t)place, GUARD_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (at == MAP_FAILED)
        return 0;
    if (((uintptr_t)at == place || ANYWHERE) && !madvise(at, GUARD_BYTES, MADV_DONTFORK))
        return (uintptr_t)at;
    munmap(at, GUARD_BYTES);
    return 0;
}

uint64_t emx_shm_guard_new(void)
{
    uint64_t guard = 0;

    for (unsigned i = 0; i < GUARD_TRIES && !guard; i++)
        guard = shm_mem_try_guard();
    return guard;
}

void emx_shm_guard_free(uint64_t guard)
{
    if (guard)
        munmap((void *)(uintptr_t)guard, GUARD_BYTES);
}

int emx_shm_mem_write(pid_t pid, uint64_t guard, uint64_t remote, const void *local, size_t len_bytes)
{
    struct iovec from[] = {{.iov_base = &guard, .iov_len = sizeof(guard)},
                           {.iov_base = (void *)(uintptr_t)local, .iov_len = len_bytes}};
    struct iovec to[] = {{.iov_base = (void *)(uintptr_t)guard, .iov_len = sizeof(guard)},
                         {.iov_base = (void *)(uintptr_t)remote, .iov_len = len_bytes}};
    ssize_t n = guard ? process_vm_writev(pid, from, 2, to, 2, 0) : 0;

    if (n < 0)
        return errno;
    return (size_t)n == len_bytes + sizeof(guard) ? 0 : EFAULT;
}
