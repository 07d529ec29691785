/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx_perf: latency, bandwidth and message rate between two processes over ethmx, without MPI. Tells what the
 * network and ethmx give before an MPI library adds its own part, and whether two hosts reach each other at all.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ethmx.h"
#include "perf_control.h"
#include "perf_plan.h"
#include "perf_reg.h"
#include "perf_report.h"
#include "perf_run.h"
#include "perf_usage.h"

struct options {
    const char *host; /* NULL: server */
    const char *port;
    bool pair, keep, json, counters;
    bool measuring; /* an option was given that is the client's to say */
    struct perf_plan plan;
};

static const char command[] = "ethmx_perf";

static const char usage_text[] =
    "Usage: ethmx_perf [--port PORT] [--keep]        the server, on one host\n"
    "       ethmx_perf [OPTION]... HOST              the client, on another; HOST is the server\n"
    "       ethmx_perf [OPTION]... --pair            both on this host\n"
    "       ethmx_perf reg [OPTION]...               registering memory with a device: reg --help\n"
    "Measures latency, bandwidth and message rate over ethmx, without MPI.\n"
    "\n"
    "  -t, --test LIST     pingpong (default), stream, rate, several with commas between, or all\n"
    "  -s, --sizes LIST    message sizes: 8, 1:4m (doubling), several with commas between\n"
    "  -n, --iters N       messages of each size; default: fewer for larger ones\n"
    "  -W, --window N      messages under way in stream and rate\n"
    "  -w, --wire LIST     wires to use at both ends, as ETHMX_WIRES\n"
    "  -C, --check         fill and check all data; times include this\n"
    "      --sleep         wait in the kernel, not by polling\n"
    "      --job N         runs with the same number are one job, as ranks of a host are; default: each its own\n"
    "  -c, --counters      print the counters of both ends that are not zero\n"
    "  -j, --json          print JSON\n"
    "  -p, --port PORT     TCP port by which the ends find each other (default " PERF_PORT ")\n"
    "      --pair          run both ends on this host\n"
    "      --keep          server: serve further clients; default: end after the first\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version\n"
    "\n"
    "pingpong gives half round trips; its MB/s is by the median. stream and rate go from client to server.\n"
    "cpu us: processor time of each end per message sent or received; all of the time where it polls (not --sleep).\n"
    "A MB is 1000000 bytes; the suffixes k, m, g of sizes are powers of 1024.\n"
    "Exit code: 0; 1 when a test failed or data was wrong; 2 for wrong usage.\n";

enum { OPT_SLEEP = 256, OPT_JOB, OPT_PAIR, OPT_KEEP };

static const struct option long_options[] = {
    {"test", required_argument, NULL, 't'},  {"sizes", required_argument, NULL, 's'},
    {"iters", required_argument, NULL, 'n'}, {"window", required_argument, NULL, 'W'},
    {"wire", required_argument, NULL, 'w'},  {"check", no_argument, NULL, 'C'},
    {"sleep", no_argument, NULL, OPT_SLEEP}, {"job", required_argument, NULL, OPT_JOB},
    {"counters", no_argument, NULL, 'c'},    {"json", no_argument, NULL, 'j'},
    {"port", required_argument, NULL, 'p'},  {"pair", no_argument, NULL, OPT_PAIR},
    {"keep", no_argument, NULL, OPT_KEEP},   {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},     {NULL, 0, NULL, 0},
};

/* ---- Options ---------------------------------------------------------------------------------------------- */

static void perf_set_wires(struct perf_plan *plan, const char *text)
{
    if (strlen(text) >= sizeof(plan->wires))
        perf_usage_error(command, "--wire: the list is too long");
    strcpy(plan->wires, text);
}

static void perf_set_job(struct perf_plan *plan, const char *text)
{
    uint64_t n = perf_usage_number(command, "--job", text, UINT32_MAX);

    memcpy(plan->job_key, &n, sizeof(n));
}

/* An option of the measurement. false: it is none. */
static bool perf_plan_option(struct perf_plan *plan, int c)
{
    switch (c) {
    case 't':
        if (!perf_plan_tests(plan, optarg))
            perf_usage_error(command, "--test takes pingpong, stream, rate, a comma list of them, or all");
        return true;
    case 's':
        perf_usage_sizes(command, plan, optarg);
        return true;
    case 'n':
        plan->iters = perf_usage_number(command, "--iters", optarg, PERF_ITERS_LIMIT);
        return true;
    case 'W':
        plan->window = (uint32_t)perf_usage_number(command, "--window", optarg, PERF_WINDOW_LIMIT);
        return true;
    case 'w':
        perf_set_wires(plan, optarg);
        return true;
    case 'C':
        plan->flags |= PERF_CHECK;
        return true;
    case OPT_SLEEP:
        plan->flags |= PERF_SLEEP;
        return true;
    case OPT_JOB:
        perf_set_job(plan, optarg);
        return true;
    default:
        return false;
    }
}

static void perf_option(struct options *o, int c)
{
    if (perf_plan_option(&o->plan, c)) {
        o->measuring = true;
        return;
    }
    switch (c) {
    case 'c':
        o->counters = true;
        break;
    case 'j':
        o->json = true;
        break;
    case 'p':
        perf_usage_number(command, "--port", optarg, 65535);
        o->port = optarg;
        break;
    case OPT_PAIR:
        o->pair = true;
        break;
    case OPT_KEEP:
        o->keep = true;
        break;
    case 'h':
        fputs(usage_text, stdout);
        exit(0);
    case 'V':
        printf("ethmx_perf %s\n", ethmx_version());
        exit(0);
    default:
        perf_usage_error(command, NULL);
    }
}

static void perf_parse(struct options *o, int argc, char **argv)
{
    int c;

    *o = (struct options){.port = PERF_PORT, .plan = {.tests = 1u << PERF_PINGPONG}};
    while ((c = getopt_long(argc, argv, "t:s:n:W:w:Ccjp:hV", long_options, NULL)) != -1)
        perf_option(o, c);
    if (optind < argc)
        o->host = argv[optind++];
    if (optind < argc)
        perf_usage_error(command, "one HOST only");
    if (o->host && o->pair)
        perf_usage_error(command, "--pair needs no HOST: both ends are here");
    if (o->keep && (o->host || o->pair))
        perf_usage_error(command, "--keep is for the server, which has no HOST");
    if (!o->host && !o->pair && (o->measuring || o->json || o->counters))
        perf_usage_error(command,
                         "the server takes --port and --keep only: the client says what to measure. HOST or --pair is "
                         "missing");
}

/* ---- The two ends ----------------------------------------------------------------------------------------- */

/* Every test at every size. print: the client's. Failures are in r. */
static void perf_run_tests(struct perf_run *r, struct perf_print *print)
{
    for (unsigned test = 0; test < PERF_TESTS; test++) {
        struct perf_plan plan = *r->plan;

        if (!(plan.tests & 1u << test))
            continue;
        perf_plan_complete(&plan, (enum perf_test)test);
        for (unsigned i = 0; i < plan.size_count; i++) {
            struct perf_line line;
            int ret;

            if (print)
                perf_print_progress(print, (enum perf_test)test, plan.size[i], i, plan.size_count);
            ret = perf_run_test(r, (enum perf_test)test, plan.size[i], &line);
            if (print)
                perf_print_calm(print);
            if (ret)
                return;
            if (print)
                perf_print_line(print, &line);
        }
    }
}

static int perf_serve(int fd, const struct perf_plan *plan, const char *reach)
{
    struct perf_report mine, other;
    struct perf_run run;
    int ret;

    ret = perf_run_open(&run, plan, fd, false, reach);
    if (!ret) {
        if (!run.status)
            perf_run_tests(&run, NULL);
        ret = perf_run_finish(&run, &mine, &other);
    }
    perf_run_close(&run);
    return ret;
}

static int perf_measure(const struct options *o, int fd)
{
    struct perf_report mine = {.status = 0}, other = {.status = 0};
    struct perf_print print;
    struct perf_run run;
    int ret;

    if (perf_control_send_plan(fd, &o->plan))
        return -1;
    perf_print_init(&print, o->json, o->counters);
    ret = perf_run_open(&run, &o->plan, fd, true, o->host);
    if (!ret) {
        if (!run.status) {
            perf_print_head(&print, &run);
            perf_run_tests(&run, &print);
        }
        ret = perf_run_finish(&run, &mine, &other);
    }
    perf_print_end(&print, !ret, &mine, &other);
    perf_run_close(&run);
    return ret;
}

/* Waits for a client with a plan; others are sent away. Its descriptor, or -1. */
static int perf_next_client(int listener, struct perf_plan *plan, char *peer, size_t peer_len_bytes)
{
    int fd;

    while ((fd = perf_control_accept(listener, peer, peer_len_bytes)) >= 0) {
        if (!perf_control_recv_plan(fd, plan))
            return fd;
        close(fd);
    }
    return -1;
}

static int perf_server(const struct options *o)
{
    int listener = perf_control_listen(o->port), fd, ret;
    struct perf_plan plan;
    char peer[64];

    if (listener < 0)
        return -1;
    do {
        fprintf(stderr, "ethmx_perf: waiting for a client on TCP port %s\n", o->port);
        fd = perf_next_client(listener, &plan, peer, sizeof(peer));
        if (fd < 0)
            return -1;
        ret = perf_serve(fd, &plan, peer);
        fprintf(stderr, "ethmx_perf: client %s: %s\n", peer, ret ? "failed" : "done");
        close(fd);
    } while (o->keep);
    close(listener);
    return ret;
}

static int perf_client(const struct options *o)
{
    int fd = perf_control_connect(o->host, o->port), ret;

    if (fd < 0)
        return -1;
    ret = perf_measure(o, fd);
    close(fd);
    return ret;
}

/* The child is the server; each end closes the other's descriptor, so that it sees when the other has gone. */
static int perf_pair(const struct options *o)
{
    int fd[2], ret, child_status;
    pid_t child;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd)) {
        perror("ethmx_perf: socketpair");
        return -1;
    }
    child = fork();
    if (child < 0) {
        perror("ethmx_perf: fork");
        return -1;
    }
    if (!child) {
        struct perf_plan plan;

        close(fd[0]);
        exit(perf_control_recv_plan(fd[1], &plan) || perf_serve(fd[1], &plan, NULL) ? 1 : 0);
    }
    close(fd[1]);
    ret = perf_measure(o, fd[0]);
    close(fd[0]);
    if (waitpid(child, &child_status, 0) != child || !WIFEXITED(child_status) || WEXITSTATUS(child_status))
        ret = -1;
    return ret;
}

int main(int argc, char **argv)
{
    static const uint8_t no_key[16];
    struct options o;
    int ret;

    if (argc > 1 && !strcmp(argv[1], "reg"))
        return perf_reg_main(argc - 1, argv + 1);
    perf_parse(&o, argc, argv);
    signal(SIGPIPE, SIG_IGN);
    if (!memcmp(o.plan.job_key, no_key, sizeof(no_key)) &&
        getrandom(o.plan.job_key, sizeof(o.plan.job_key), 0) != sizeof(o.plan.job_key)) {
        perror("ethmx_perf: getrandom");
        return 1;
    }
    ret = o.pair ? perf_pair(&o) : o.host ? perf_client(&o) : perf_server(&o);
    if (fflush(stdout) || ferror(stdout)) {
        perror("ethmx_perf: standard output");
        return 1;
    }
    return ret ? 1 : 0;
}
