/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Ranges are registered in write-protect mode and nothing is ever protected, so no thread takes a fault because of
 * this. Only the events are used: a thread that unmaps, moves or discards pages of a registered range waits in the
 * kernel until the event is read.
 *
 *     munmap, mmap over it, brk, mremap (the old place)    reported after it has happened
 *     madvise: DONTNEED, FREE, REMOVE                      reported before it happens
 *
 * Between a change and the reading of its event, another thread may already own new memory at the same address. The
 * kernel counts changes under way (mmap_changing), from before they are made until their events are read. Meanwhile it
 * refuses to fill pages: UFFDIO_ZEROPAGE returns EAGAIN, whatever its arguments. At other times invalid arguments
 * return EINVAL and do nothing. emx_uffd_quiet() uses that. The count exists since Linux 5.15; before, it was a flag
 * that the first of two changes cleared. So older kernels are refused. The test is for a feature of 5.19, because
 * distributions' kernels with older numbers have it, too.
 */
#define _GNU_SOURCE
#include "mem/uffd.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif

#define EVENTS (UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE)

/* Without privileges only with UFFD_USER_MODE_ONLY, which limits faults and not events. */
static int uffd_new_fd(char *why, size_t why_len_bytes)
{
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

    if (fd < 0)
        snprintf(why, why_len_bytes, "userfaultfd: %s%s", strerror(errno),
                 errno == EPERM    ? " (a container's seccomp filter forbids it)"
                 : errno == ENOSYS ? " (the kernel was built without it)"
                 : errno == EINVAL ? " (the kernel is older than 5.11)"
                                   : "");
    return fd;
}

int emx_uffd_open(char *why, size_t why_len_bytes)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = EVENTS | UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM};
    int fd = uffd_new_fd(why, why_len_bytes);

    if (fd < 0)
        return -1;
    if (ioctl(fd, UFFDIO_API, &api)) {
        snprintf(why, why_len_bytes,
                 "userfaultfd: the kernel cannot tell of unmapped memory as needed here (it should be Linux 5.19 or "
                 "newer, with write-protect faults for this processor)");
        close(fd);
        return -1;
    }
    return fd;
}

int emx_uffd_add(int fd, uintptr_t base, uintptr_t end)
{
    struct uffdio_register r = {.range = {.start = base, .len = end - base}, .mode = UFFDIO_REGISTER_MODE_WP};

    return ioctl(fd, UFFDIO_REGISTER, &r) ? errno : 0;
}

/* Fails where nothing is mapped any more, and then there is nothing to do. */
void emx_uffd_remove(int fd, uintptr_t base, uintptr_t end)
{
    struct uffdio_range r = {.start = base, .len = end - base};

    (void)ioctl(fd, UFFDIO_UNREGISTER, &r);
}

bool emx_uffd_quiet(int fd)
{
    struct uffdio_zeropage wrong = {.range = {.start = 1}, .mode = ~(uint64_t)0};

    return ioctl(fd, UFFDIO_ZEROPAGE, &wrong) && errno == EINVAL;
}

static bool uffd_translate(const struct uffd_msg *m, struct emx_uffd_event *e)
{
    switch (m->event) {
    case UFFD_EVENT_UNMAP:
    case UFFD_EVENT_REMOVE:
        *e = (struct emx_uffd_event){
            .base = m->arg.remove.start, .end = m->arg.remove.end, .mapped = m->event == UFFD_EVENT_REMOVE};
        return true;
    case UFFD_EVENT_REMAP:
        *e = (struct emx_uffd_event){
            .base = m->arg.remap.from, .end = m->arg.remap.from + m->arg.remap.len, .moved_to = m->arg.remap.to};
        return true;
    default:
        return false;
    }
}

unsigned emx_uffd_read(int fd, struct emx_uffd_event e[EMX_UFFD_BATCH])
{
    struct uffd_msg m[EMX_UFFD_BATCH];
    ssize_t bytes = read(fd, m, sizeof(m));
    unsigned n = 0;

    for (ssize_t i = 0; i < bytes / (ssize_t)sizeof(m[0]); i++)
        n += uffd_translate(&m[i], &e[n]);
    return n;
}
