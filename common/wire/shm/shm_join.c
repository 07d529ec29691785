/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An endpoint listens on a socket whose name contains its id, in the abstract name space: the name belongs to the
 * network namespace, is no file, and disappears with the process. A sender
 *
 *     creates the memory of a ring (a memfd, no file either), sealed against shrinking,
 *     connects, and checks who listens (SO_PEERCRED): another user's process is declined,
 *     sends one message with its id and the memory's descriptor (SCM_RIGHTS).
 *
 * It does not wait for a reply: frames may be in the ring before the other end has seen it. The socket stays open. A
 * message over it wakes the other end, and its end shows that the other process has ended. So nothing is left when both
 * processes have ended, killed or not, and a ring remains after its writer for as long as it has frames to read.
 *
 * A user without a uid in this user namespace appears as the *overflow user*. If this process has the uid of the
 * overflow user, and there may be users without a uid, then other users look like its own, and the wire does not open.
 *
 * A ring has one direction; the other endpoint connects for the other direction. So nothing must be resolved when both
 * connect at once.
 */
#define _GNU_SOURCE
#include "wire/shm/shm_join.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC        0x6d68734du
#define NOTE_MAGIC   0x6e68734du
#define QUEUE        4096 /* connections not yet accepted; the system may allow fewer */
#define SEALS_NEEDED (F_SEAL_SHRINK | F_SEAL_GROW)

union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
};

static socklen_t shm_join_name_of(uint32_t id, struct sockaddr_un *a)
{
    int len;

    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    len = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "ethmx-shm-%08x", id);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int shm_join_make_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

/* Closes fd and returns -err. */
static int shm_join_fail(int fd, int err)
{
    close(fd);
    return -err;
}

int emx_shm_listen(uint32_t id)
{
    struct sockaddr_un a;
    socklen_t len = shm_join_name_of(id, &a);
    int fd = shm_join_make_socket();

    if (fd < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&a, len) || listen(fd, QUEUE))
        return shm_join_fail(fd, errno);
    return fd;
}

/* The uid that stands for users without one. */
static unsigned shm_join_overflow_uid(void)
{
    FILE *f = fopen("/proc/sys/kernel/overflowuid", "re");
    unsigned uid = 65534;

    if (f && fscanf(f, "%u", &uid) != 1)
        uid = 65534;
    if (f)
        fclose(f);
    return uid;
}

/* Whether every user of the machine has a uid in this user namespace. */
static bool shm_join_all_have_numbers(void)
{
    FILE *f = fopen("/proc/self/uid_map", "re");
    unsigned inside, outside, count;
    uint64_t sum = 0;

    if (!f)
        return access("/proc/self/ns/user", F_OK) && errno == ENOENT; /* a kernel without user namespaces */
    while (fscanf(f, "%u %u %u", &inside, &outside, &count) == 3)
        sum += count;
    fclose(f);
    return sum >= UINT32_MAX;
}

bool emx_shm_knows_users(char *why, size_t why_len_bytes)
{
    if (geteuid() != shm_join_overflow_uid() || shm_join_all_have_numbers())
        return true;
    snprintf(why, why_len_bytes,
             "this process runs as user %u, as whom its user namespace shows all users that it does not know: others "
             "could not be told from it (run it as a user that is in /proc/self/uid_map)",
             (unsigned)geteuid());
    return false;
}

/* Whether the other end belongs to this process's user. */
static bool shm_join_is_ours(int fd, pid_t *pid_p)
{
    struct ucred c;
    socklen_t len = sizeof(c);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len) || c.uid != geteuid())
        return false;
    *pid_p = c.pid;
    return true;
}

int emx_shm_accept(int listener, pid_t *pid_p)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    while (fd >= 0 && !shm_join_is_ours(fd, pid_p)) {
        close(fd);
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    }
    return fd;
}

int emx_shm_call(uint32_t id)
{
    struct sockaddr_un a;
    socklen_t len = shm_join_name_of(id, &a);
    int fd = shm_join_make_socket();
    pid_t pid;

    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&a, len))
        return shm_join_fail(fd, errno);
    if (!shm_join_is_ours(fd, &pid))
        return shm_join_fail(fd, EPERM);
    return fd;
}

/* A forked child does not get the mapping: it would keep the memory and has no use for it. */
static struct emx_shm_memory *shm_join_map(int fd)
{
    void *m = mmap(NULL, sizeof(struct emx_shm_memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (m == MAP_FAILED)
        return NULL;
    madvise(m, sizeof(struct emx_shm_memory), MADV_DONTFORK);
    return m;
}

struct emx_shm_memory *emx_shm_memory_new(int *fd_p)
{
    int fd = memfd_create("ethmx-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct emx_shm_memory *m = NULL;

    if (fd < 0)
        return NULL;
    if (!ftruncate(fd, sizeof(*m)) && !fcntl(fd, F_ADD_SEALS, SEALS_NEEDED | F_SEAL_SEAL))
        m = shm_join_map(fd);
    if (!m) {
        errno = -shm_join_fail(fd, errno);
        return NULL;
    }
    *fd_p = fd;
    return m;
}

void emx_shm_memory_free(struct emx_shm_memory *m)
{
    if (m)
        munmap(m, sizeof(*m));
}

/* Puts fd into the control data of a message. */
static void shm_join_pass_fd(struct msghdr *msg, int fd)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fd));
    memcpy(CMSG_DATA(c), &fd, sizeof(fd));
}

int emx_shm_send(int fd, uint32_t id, const struct emx_shm_token *token, int memory_fd)
{
    struct emx_shm_hello hello = {.magic = MAGIC,
                                  .layout = EMX_SHM_LAYOUT,
                                  .memory_bytes = sizeof(struct emx_shm_memory),
                                  .id = id,
                                  .token = *token};
    struct iovec iov = {.iov_base = &hello, .iov_len = sizeof(hello)};
    union control control = {.space = {0}};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)};

    shm_join_pass_fd(&msg, memory_fd);
    return sendmsg(fd, &msg, MSG_NOSIGNAL) == (ssize_t)sizeof(hello) ? 0 : errno;
}

/* The descriptor that came with a message, or -1. There is room for one. */
static int shm_join_passed_fd(struct msghdr *msg)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    int fd = -1;

    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(fd)))
        memcpy(&fd, CMSG_DATA(c), sizeof(fd));
    return fd;
}

/* Whether the memory has the right size and cannot shrink. */
static bool shm_join_is_valid(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & SEALS_NEEDED) == SEALS_NEEDED && !fstat(fd, &st) &&
           st.st_size == (off_t)sizeof(struct emx_shm_memory);
}

int emx_shm_receive(int fd, struct emx_shm_hello *hello_p, struct emx_shm_memory **m_p)
{
    struct iovec iov = {.iov_base = hello_p, .iov_len = sizeof(*hello_p)};
    union control control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)};
    ssize_t n = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
    int memory_fd, err = EPROTO;

    if (n < 0)
        return errno;
    memory_fd = shm_join_passed_fd(&msg);
    if (n == (ssize_t)sizeof(*hello_p) && hello_p->magic == MAGIC && hello_p->layout == EMX_SHM_LAYOUT &&
        hello_p->memory_bytes == sizeof(struct emx_shm_memory) && memory_fd >= 0 && shm_join_is_valid(memory_fd)) {
        *m_p = shm_join_map(memory_fd);
        err = *m_p ? 0 : errno;
    }
    if (memory_fd >= 0)
        close(memory_fd);
    return err;
}

void emx_shm_poke(int fd)
{
    /* A full queue has the same effect: the other end finds earlier messages. */
    (void)!send(fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void emx_shm_send_note(int fd, const struct emx_shm_note *note, int segment_fd)
{
    struct emx_shm_note stamped = *note;
    struct iovec iov = {.iov_base = &stamped, .iov_len = sizeof(stamped)};
    union control control = {.space = {0}};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    stamped.magic = NOTE_MAGIC;
    if (segment_fd >= 0) {
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control.space);
        shm_join_pass_fd(&msg, segment_fd);
    }
    (void)!sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* One message. Its length, 0: the end, or -1 and errno. *passed_p: a descriptor, or -1. */
static ssize_t shm_join_next(int fd, struct emx_shm_note *note_p, int *passed_p)
{
    struct iovec iov = {.iov_base = note_p, .iov_len = sizeof(*note_p)};
    union control control;
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.space)};
    ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *passed_p = n > 0 ? shm_join_passed_fd(&msg) : -1;
    return n;
}

bool emx_shm_drain(int fd, emx_shm_note_fn fn, void *arg, void *port)
{
    struct emx_shm_note note;
    int passed;
    ssize_t n;

    while ((n = shm_join_next(fd, &note, &passed)) > 0) {
        if (n == (ssize_t)sizeof(note) && note.magic == NOTE_MAGIC)
            fn(arg, port, &note, passed);
        if (passed >= 0)
            close(passed);
    }
    return n < 0 && errno == EAGAIN;
}
