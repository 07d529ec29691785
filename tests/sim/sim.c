/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sim: plays every scenario, those with seeds as often as EMX_SEEDS says, and ends with "N passed, N failed".
 *
 *     sim [--list] [NAME...]
 *     EMX_SEEDS=N  seeds in all (default 4000)
 *     EMX_FIRST=N  without those that EMX_SEEDS=N would play: for runs in parts (run-seeds)
 *     EMX_SEED=N   only this seed
 *     EMX_TRACE=1  print what happens: frames and their fate, calls, completions
 *     EMX_PCAP=FILE  write the frames to this file, for Wireshark
 *     EMX_EVERY=N  only every N-th seed of scenarios that have so many and no more (default 1)
 *     EMX_KEEP=N   go on until N seeds of a scenario have failed (default 1)
 *     EMX_JOBS=N   N processes, each of which takes the next scenario (default 1)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenario.h"

#define SEEDS 4000

static const struct sim_scenario *const tables[] = {
    sim_basics, sim_masks,   sim_chaos,    sim_limits,     sim_deaths,    sim_routes,  sim_hostile, sim_memfail,
    sim_gso,    sim_reads,   sim_reliable, sim_coalescing, sim_repeat,    sim_attacks, sim_exports, sim_marks,
    sim_away,   sim_recalls, sim_removals, sim_rma,        sim_failovers, sim_rails,   sim_multis};

static struct sim_case current;
static const char *program_name, *current_name = "";
static uint64_t current_seed;

static uint64_t env_number(const char *name, uint64_t deflt)
{
    const char *text = getenv(name);

    return text && *text ? strtoull(text, NULL, 0) : deflt;
}

/* A crash says which seed it was, too. Only calls that a signal handler may make, and snprintf with numbers. */
static void tell_crash(void)
{
    char line[256];
    int n =
        snprintf(line, sizeof(line), "\nCRASHED: %s, seed %" PRIu64 "; again: EMX_SEED=%" PRIu64 " EMX_TRACE=1 %s %s\n",
                 current_name, current_seed, current_seed, program_name, current_name);

    if (n > 0 && write(STDOUT_FILENO, line, n) < 0)
        _exit(3);
}

static void crashed(int sig)
{
    tell_crash();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* There when built with sanitizers. */
void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

static void watch_for_crashes(void)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};

    if (__sanitizer_set_death_callback) {
        __sanitizer_set_death_callback(tell_crash);
        return;
    }
    for (unsigned i = 0; i < sizeof(signals) / sizeof(*signals); i++)
        signal(signals[i], crashed);
}

static bool play(const struct sim_scenario *s, uint64_t seed, bool trace)
{
    current_name = s->name;
    current_seed = seed;
    memset(&current, 0, sizeof(current));
    current.seed = seed;
    current.trace = trace;
    s->fn(&current);
    if (!current.failure[0])
        return true;
    printf("FAILED: %s, seed %" PRIu64 ", at %.6f ms: %s\n  again: EMX_SEED=%" PRIu64 " EMX_TRACE=1 %s %s\n", s->name,
           seed, (current.failed_at_ns - SIM_S) / 1e6, current.failure, seed, program_name, s->name);
    fflush(stdout);
    return false;
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

/* How many seeds of a scenario belong to so many in all. */
static uint64_t cases_of(const struct sim_scenario *s, uint64_t seeds)
{
    if (s->cases)
        return seeds ? s->cases : 0;
    return (seeds * s->percent + 99) / 100;
}

/* Seeds that have found a fault: played each time, so that it does not come back. (One more use of random numbers in a
 * scenario makes other histories of them; then they are seeds like others.) */
static const struct {
    const char *scenario;
    uint64_t seed;
} known[] = {
    /* a mark opened the window and nobody was told */
    {"chaos", 7111},
    {"chaos", 17530},
    {"corrupt-full", 6999},
    {"pauses", 3894},
    /* a read was refused while another was under way, and nobody pulled the rest */
    {"lends", 662},
    {"lends", 868},
    /* a read over a later connection ended before one over an earlier connection */
    {"writes", 90},
    /* chunks went in 25 pieces, of which one was lost each time */
    {"narrower", 3020},
    /* losses alone made a peer look dead, or unreachable */
    {"rma", 345727},
    {"rma", 526483},
    {"rma", 817819},
};

static uint64_t play_known(const struct sim_scenario *s, bool trace)
{
    uint64_t failed = 0;

    for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (!strcmp(known[i].scenario, s->name))
            failed += !play(s, known[i].seed, trace);
    return failed;
}

/* Returns whether all seeds passed. */
static bool play_all(const struct sim_scenario *s)
{
    uint64_t first = cases_of(s, env_number("EMX_FIRST", 0)), cases = cases_of(s, env_number("EMX_SEEDS", SEEDS));
    uint64_t step = s->cases ? env_number("EMX_EVERY", 1) : 1, keep = env_number("EMX_KEEP", 1);
    uint64_t failed = 0, played = 0, seed;
    bool trace = env_number("EMX_TRACE", 0);
    double start = seconds();

    if (getenv("EMX_SEED"))
        return play(s, env_number("EMX_SEED", 0), trace);
    for (seed = first; seed < cases && failed < keep; seed += step, played++)
        failed += !play(s, seed, trace);
    if (!first)
        failed += play_known(s, trace);
    printf("%s %-22s %7" PRIu64 " played, %" PRIu64 " failed, %.1f s\n", failed ? "not ok" : "ok    ", s->name, played,
           failed, seconds() - start);
    fflush(stdout);
    return !failed;
}

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return argc < 2;
}

static void list(void)
{
    for (unsigned t = 0; t < sizeof(tables) / sizeof(*tables); t++)
        for (const struct sim_scenario *s = tables[t]; s->name; s++)
            printf("%-22s %s\n", s->name, s->help);
}

/* Shared by the processes that play. */
struct progress {
    atomic_uint next; /* scenario, of those that were chosen */
    atomic_uint passed, failed;
};

static void play_chosen(struct progress *p, int argc, char **argv)
{
    unsigned n = 0, mine = atomic_fetch_add(&p->next, 1);

    for (unsigned t = 0; t < sizeof(tables) / sizeof(*tables); t++) {
        for (const struct sim_scenario *s = tables[t]; s->name; s++) {
            if (!chosen(s->name, argc, argv) || n++ != mine)
                continue;
            atomic_fetch_add(play_all(s) ? &p->passed : &p->failed, 1);
            mine = atomic_fetch_add(&p->next, 1);
        }
    }
}

/* A process that crashed counts as a failed scenario: it has said which. */
static void play_in_processes(struct progress *p, uint64_t jobs, int argc, char **argv)
{
    int status;

    for (uint64_t i = 0; i < jobs; i++) {
        pid_t pid = fork();

        if (pid < 0) {
            perror("sim: fork");
            exit(2);
        }
        if (!pid) {
            play_chosen(p, argc, argv);
            exit(0);
        }
    }
    while (wait(&status) > 0)
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            atomic_fetch_add(&p->failed, 1);
}

int main(int argc, char **argv)
{
    struct progress *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0); /* zeroed */
    uint64_t jobs = env_number("EMX_JOBS", 1);

    program_name = argv[0];
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        list();
        return 0;
    }
    if (p == MAP_FAILED) {
        perror("sim: mmap");
        return 2;
    }
    watch_for_crashes();
    if (jobs > 1)
        play_in_processes(p, jobs, argc, argv);
    else
        play_chosen(p, argc, argv);
    if (p->passed + p->failed == 0) {
        fprintf(stderr, "sim: no such scenario; sim --list names them\n");
        return 2;
    }
    printf("%u passed, %u failed\n", p->passed, p->failed);
    return p->failed ? 1 : 0;
}
