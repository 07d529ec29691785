/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node SOCKET: the first process of a node. It serves the requests of `enter` (see node.h), and the node lives as long
 * as it does: when the first process of a PID namespace ends, the kernel kills all others in it.
 *
 * Each request has a process of its own, the session, between the node and the command. The session alone knows the
 * command and its caller; the node only accepts. Orphans need no care: the kernel reaps them, as SIGCHLD is ignored.
 */
#define _GNU_SOURCE
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

struct session {
    int conn;
    struct ucred peer;
    struct node_request req;
    int stdio[NODE_STDIO];
    char *folder;
    char **args;
    char **env;
};

static void complain(const char *what)
{
    dprintf(STDERR_FILENO, "ethmx-cluster: %s: %s\n", what, strerror(errno));
}

static void halt(int sig)
{
    (void)sig;
    _exit(0);
}

/* ---- The request ---- */

static bool read_all(int fd, void *buf, size_t len_bytes)
{
    for (char *p = buf; len_bytes > 0;) {
        ssize_t n = read(fd, p, len_bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        p += n;
        len_bytes -= n;
    }
    return true;
}

static bool receive_head(struct session *s)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(s->stdio))];
    } control;
    struct iovec iov = {&s->req, sizeof(s->req)};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control),
    };
    ssize_t n = recvmsg(s->conn, &msg, MSG_WAITALL | MSG_CMSG_CLOEXEC);
    struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

    if (n != sizeof(s->req) || s->req.magic != NODE_MAGIC || s->req.len_bytes > NODE_STRINGS_MAX)
        return false;
    s->req.user[sizeof(s->req.user) - 1] = 0;
    if (s->req.verb == NODE_HALT)
        return true;
    if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(sizeof(s->stdio)))
        return false;
    memcpy(s->stdio, CMSG_DATA(c), sizeof(s->stdio));
    return s->req.n_args > 0;
}

static char *take_string(char **next_p, char *end)
{
    char *s = *next_p;

    if (s >= end)
        return NULL;
    *next_p = s + strlen(s) + 1;
    return s;
}

static char **take_strings(uint32_t n, char **next_p, char *end)
{
    char **list = n < NODE_STRINGS_MAX ? calloc(n + 1, sizeof(*list)) : NULL;

    for (uint32_t i = 0; list && i < n; i++) {
        list[i] = take_string(next_p, end);
        if (!list[i])
            return NULL;
    }
    return list;
}

static bool receive_strings(struct session *s)
{
    char *next = calloc(1, s->req.len_bytes + 1);
    char *end = next + s->req.len_bytes;

    if (!next || !read_all(s->conn, next, s->req.len_bytes))
        return false;
    s->folder = take_string(&next, end);
    s->args = take_strings(s->req.n_args, &next, end);
    s->env = take_strings(s->req.n_env, &next, end);
    return s->folder && s->args && s->env;
}

/* ---- The command ---- */

/* The user to run as: the caller, or whom root has named. */
static const struct passwd *session_user(const struct session *s)
{
    const struct passwd *user;

    errno = 0;
    user = s->req.user[0] ? getpwnam(s->req.user) : getpwuid(s->peer.uid);
    if (!user) {
        errno = errno ? errno : ESRCH;
        return NULL;
    }
    if (s->peer.uid != 0 && user->pw_uid != s->peer.uid) {
        errno = EPERM;
        return NULL;
    }
    return user;
}

/* Leaving uid 0 also clears all capabilities. */
static bool become(const struct passwd *user)
{
    if (user->pw_uid == 0)
        return true;
    return initgroups(user->pw_name, user->pw_gid) == 0 && setresgid(user->pw_gid, user->pw_gid, user->pw_gid) == 0 &&
           setresuid(user->pw_uid, user->pw_uid, user->pw_uid) == 0;
}

static void set_environment(const struct session *s, const struct passwd *user)
{
    bool login = s->req.verb == NODE_LOGIN;

    if (!login)
        environ = s->env;
    if (login || user->pw_uid != s->peer.uid) {
        setenv("HOME", user->pw_dir, 1);
        setenv("USER", user->pw_name, 1);
        setenv("LOGNAME", user->pw_name, 1);
        setenv("SHELL", "/bin/sh", 1);
    }
}

/* A login without a home starts at the root; any other command must be where it expects to be. */
static bool go_to_folder(const struct session *s, const struct passwd *user)
{
    if (s->req.verb == NODE_LOGIN)
        return chdir(user->pw_dir) == 0 || chdir("/") == 0;
    if (chdir(s->folder) == 0)
        return true;
    complain(s->folder);
    dprintf(STDERR_FILENO, "ethmx-cluster: /tmp, /run and /dev/shm are each node's own (see --share)\n");
    return false;
}

static void reset_signals(void)
{
    sigset_t none;

    for (int sig = 1; sig < NSIG; sig++)
        signal(sig, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void run_command(const struct session *s)
{
    const struct passwd *user;

    setsid();
    for (int i = 0; i < NODE_STDIO; i++)
        dup2(s->stdio[i], i);
    reset_signals();
    user = session_user(s);
    if (!user || !become(user)) {
        complain(s->req.user[0] ? s->req.user : "the caller's user");
        _exit(126);
    }
    set_environment(s, user);
    if (!go_to_folder(s, user))
        _exit(126);
    execvp(s->args[0], s->args);
    int status = errno == ENOENT ? 127 : 126;

    complain(s->args[0]);
    _exit(status);
}

/* ---- The session ---- */

static void signal_command(pid_t command, int sig)
{
    /* Before its setsid() the command has no group yet. */
    if (kill(-command, sig) < 0)
        kill(command, sig);
}

/* Hand on the caller's signals until the command has ended. */
static int32_t attend(const struct session *s, pid_t command)
{
    struct pollfd fds[] = {{.fd = (int)syscall(SYS_pidfd_open, command, 0), .events = POLLIN},
                           {.fd = s->conn, .events = POLLIN}};
    int status = 0;

    while (!(fds[0].revents & POLLIN)) {
        uint32_t sig;

        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        if (!fds[1].revents)
            continue;
        if (read_all(s->conn, &sig, sizeof(sig))) {
            signal_command(command, (int)sig);
        } else {
            signal_command(command, SIGTERM);
            fds[1].fd = -1;
            fds[1].revents = 0;
        }
    }
    waitpid(command, &status, 0);
    return status;
}

/* The caller sees the connection close when the kernel kills this process with all others, or reads that it may not. */
static _Noreturn void halt_node(const struct session *s)
{
    if (s->peer.uid != 0 || kill(1, SIGTERM) < 0)
        _exit(send(s->conn, "no", 2, MSG_NOSIGNAL) != 2);
    for (;;)
        pause();
}

static _Noreturn void serve(int conn)
{
    struct session s = {.conn = conn};
    socklen_t len = sizeof(s.peer);
    int32_t status;
    pid_t command;

    signal(SIGCHLD, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGPIPE, SIG_IGN);
    if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &s.peer, &len) < 0 || !receive_head(&s))
        _exit(1);
    if (s.req.verb == NODE_HALT)
        halt_node(&s);
    if (!receive_strings(&s))
        _exit(1);
    command = fork();
    if (command == 0)
        run_command(&s);
    if (command < 0)
        _exit(1);
    for (int i = 0; i < NODE_STDIO; i++)
        close(s.stdio[i]);
    status = attend(&s, command);
    _exit(send(conn, &status, sizeof(status), MSG_NOSIGNAL) != sizeof(status));
}

/* ---- The node ---- */

static int listen_at(const char *path)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof(addr.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(addr.sun_path, path);
    unlink(path);
    if (fd < 0 || bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(path, 0666) < 0 || listen(fd, 128) < 0)
        return -1;
    return fd;
}

/* Whoever started the node reads "ready", and no caller of its own waits for these files to be closed. */
static void report_ready(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    dprintf(STDOUT_FILENO, "ready\n");
    for (int i = 0; i < NODE_STDIO; i++)
        dup2(null, i);
    close(null);
}

int main(int argc, char **argv)
{
    int listener;

    if (argc != 2 || getpid() != 1) {
        fprintf(stderr, "usage: node SOCKET, as the first process of a PID namespace\n");
        return 2;
    }
    syscall(SYS_close_range, NODE_STDIO, ~0u, 0);
    listener = listen_at(argv[1]);
    if (listener < 0) {
        complain(argv[1]);
        return 1;
    }
    signal(SIGCHLD, SIG_IGN);
    signal(SIGTERM, halt);
    report_ready();
    for (;;) {
        int conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        if (conn >= 0 && fork() == 0)
            serve(conn);
        if (conn >= 0)
            close(conn);
    }
}
