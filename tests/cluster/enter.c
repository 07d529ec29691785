/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * enter [--user USER] NODE COMMAND...   run a command on a node, as if it were a child of the caller
 * enter --halt NODE                     end a node
 * enter --ping NODE                     does it answer?
 * ethmx-rsh [-l USER] [-n] NODE COMMAND...   what rsh and ssh do: the shell of a fresh login runs the words
 *
 * It works from the host and from any node: the sockets of the nodes are in the folder of this program (see node.h).
 */
#define _GNU_SOURCE
#include "node.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_LOST 255 /* as of ssh: no answer, or the node went away */

struct call {
    enum node_verb verb;
    bool only_ping;
    const char *user;
    const char *node;
    char **args;
};

static _Noreturn void die(const char *node, const char *what)
{
    fprintf(stderr, "ethmx-cluster: node %s: %s\n", node, what);
    exit(EXIT_LOST);
}

/* ---- The command line ---- */

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: enter [--user USER] NODE COMMAND... | enter --halt|--ping NODE\n"
                    "       ethmx-rsh [-l USER] [-n] NODE COMMAND...\n");
    exit(2);
}

static void parse_enter(struct call *call, char **argv)
{
    for (argv++; *argv && !strncmp(*argv, "--", 2); argv++) {
        if (!strcmp(*argv, "--halt"))
            call->verb = NODE_HALT;
        else if (!strcmp(*argv, "--ping"))
            call->only_ping = true;
        else if (!strcmp(*argv, "--user") && argv[1])
            call->user = *++argv;
        else
            usage();
    }
    if (!*argv)
        usage();
    call->node = *argv++;
    call->args = argv;
    if (call->verb == NODE_RUN && !call->only_ping && !*argv)
        usage();
}

/* rsh joins the words by blanks, and the far shell parts them again. */
static char **shell_words(char **words)
{
    static char *args[] = {"/bin/sh", "-c", NULL, NULL};
    size_t len = 1;

    for (char **w = words; *w; w++)
        len += strlen(*w) + 1;
    args[2] = calloc(1, len);
    if (!args[2])
        die("?", strerror(errno));
    for (char **w = words; *w; w++) {
        strcat(args[2], *w);
        if (w[1])
            strcat(args[2], " ");
    }
    return args;
}

static void parse_rsh(struct call *call, char **argv)
{
    call->verb = NODE_LOGIN;
    for (argv++; *argv && **argv == '-'; argv++) {
        if (!strcmp(*argv, "-l") && argv[1])
            call->user = *++argv;
        else if (!strcmp(*argv, "-n"))
            dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
        else if (strcmp(*argv, "-x"))
            usage();
    }
    if (!argv[0] || !argv[1])
        usage();
    call->node = *argv++;
    call->args = shell_words(argv);
}

/* ---- The call ---- */

static int connect_to(const char *node)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char self[PATH_MAX] = "";
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        die(node, strerror(errno));
    if (strchr(node, '/') || (size_t)snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/%s.sock", dirname(self),
                                              node) >= sizeof(addr.sun_path))
        die(node, "not a name of a node");
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        die(node, errno == ENOENT ? "there is no such node" : "it is down");
    return fd;
}

static void put_string(FILE *out, const char *s)
{
    fwrite(s, 1, strlen(s) + 1, out);
}

static uint32_t put_strings(FILE *out, char **list)
{
    uint32_t n = 0;

    for (; list[n]; n++)
        put_string(out, list[n]);
    return n;
}

static bool send_head(int fd, const struct node_request *req)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(NODE_STDIO * sizeof(int))];
    } control = {.align = {CMSG_LEN(NODE_STDIO * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec iov = {(void *)req, sizeof(*req)};
    struct msghdr msg = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control),
    };

    memcpy(CMSG_DATA(&control.align), (const int[]){STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO},
           NODE_STDIO * sizeof(int));
    return sendmsg(fd, &msg, MSG_NOSIGNAL) == sizeof(*req);
}

static bool send_all(int fd, const char *p, size_t len_bytes)
{
    while (len_bytes > 0) {
        ssize_t n = send(fd, p, len_bytes, MSG_NOSIGNAL);

        if (n < 0)
            return false;
        p += n;
        len_bytes -= n;
    }
    return true;
}

static void send_request(int fd, const struct call *call)
{
    struct node_request req = {.magic = NODE_MAGIC, .verb = call->verb};
    char folder[PATH_MAX] = "/";
    char *strings = NULL;
    size_t len_bytes = 0;
    FILE *out = open_memstream(&strings, &len_bytes);

    if (!out)
        die(call->node, strerror(errno));
    if (call->verb != NODE_HALT) {
        if (!getcwd(folder, sizeof(folder)))
            die(call->node, "the present folder is gone");
        put_string(out, folder);
        req.n_args = put_strings(out, call->args);
        req.n_env = call->verb == NODE_RUN ? put_strings(out, environ) : 0;
    }
    fclose(out);
    req.len_bytes = len_bytes;
    if (len_bytes > NODE_STRINGS_MAX)
        die(call->node, "the arguments are too long");
    if (call->user && (size_t)snprintf(req.user, sizeof(req.user), "%s", call->user) >= sizeof(req.user))
        die(call->node, "the name of the user is too long");
    if (!send_head(fd, &req) || !send_all(fd, strings, len_bytes))
        die(call->node, "it went away");
    free(strings);
}

/* Signals for us are meant for the command. One that we were started to ignore stays ignored. */
static int open_signals(void)
{
    static const int forward[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(forward) / sizeof(*forward); i++)
        sigaddset(&set, forward[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC);
}

static void forward_signal(int fd, int signals)
{
    struct signalfd_siginfo info;

    if (read(signals, &info, sizeof(info)) == sizeof(info))
        send_all(fd, (const char *)&info.ssi_signo, sizeof(info.ssi_signo));
}

static int await_status(int fd, int signals, const char *node)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
    int32_t status = 0;

    while (!fds[0].revents) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            die(node, strerror(errno));
        if (fds[1].revents)
            forward_signal(fd, signals);
    }
    if (recv(fd, &status, sizeof(status), MSG_WAITALL) != sizeof(status))
        die(node, "it went away");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* The connection closes when the node has ended; an answer is a refusal. */
static int await_end(int fd, const char *node)
{
    char c;

    if (recv(fd, &c, 1, 0) > 0)
        die(node, "only root may halt it");
    return 0;
}

int main(int argc, char **argv)
{
    struct call call = {.verb = NODE_RUN};
    int fd, signals;

    if (argc < 2)
        usage();
    if (!strcmp(basename(argv[0]), "ethmx-rsh"))
        parse_rsh(&call, argv);
    else
        parse_enter(&call, argv);
    fd = connect_to(call.node);
    if (call.only_ping)
        return 0;
    signals = open_signals();
    send_request(fd, &call);
    return call.verb == NODE_HALT ? await_end(fd, call.node) : await_status(fd, signals, call.node);
}
