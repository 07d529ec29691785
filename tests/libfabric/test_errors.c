/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What goes wrong around the libfabric provider: each is an error of the client's call or completion, with ethmx's
 * sentence in libfabric's log. Each case is a process of its own, this program with the case's name, because libfabric
 * reads its settings once.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"
#include "provider.h"

#include <rdma/providers/fi_prov.h>

#define LOG_BYTES 65536

static bool old_libfabric;

/* The provider asks for the version of the libfabric that loads it: that of this function, here. */
__attribute__((visibility("default"))) uint32_t fi_version(void)
{
    return old_libfabric ? FI_VERSION(1, 11) : FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION);
}

/* Whoever wants this many bytes gets none; 0: all do. */
static size_t refused_bytes;

void *__libc_malloc(size_t len_bytes);

__attribute__((visibility("default"))) void *malloc(size_t len_bytes)
{
    return refused_bytes && len_bytes == refused_bytes ? NULL : __libc_malloc(len_bytes);
}

/* ---- A process of its own ---- */

/* Runs the case with these settings (name, value, ..., NULL). Its log must contain what is wanted. */
static void run_apart(const char *name, const char *wanted, const char *const *settings)
{
    char log[LOG_BYTES] = "";
    FILE *file = tmpfile();
    pid_t child;
    int status;

    assert_non_null(file);
    child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(fileno(file), STDERR_FILENO);
        setenv("FI_LOG_LEVEL", "warn", 1);
        for (; *settings; settings += 2)
            setenv(settings[0], settings[1], 1);
        execl("/proc/self/exe", "test_errors", name, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    rewind(file);
    log[fread(log, 1, sizeof(log) - 1, file)] = 0;
    fclose(file);
    if (status || !strstr(log, wanted))
        fprintf(stderr, "status %#x; the log is to have \"%s\":\n%s\n", (unsigned)status, wanted, log);
    assert_int_equal(status, 0);
    assert_non_null(strstr(log, wanted));
}

/* In that process, where there is no cmocka test. */
#define MUST(what)                                                                                                     \
    do {                                                                                                               \
        if (!(what)) {                                                                                                 \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                                         \
            _exit(1);                                                                                                  \
        }                                                                                                              \
    } while (0)

/* ---- Settings ---- */

static struct fi_info *info_here(void)
{
    struct fi_info *info = NULL, *hints = fi_allocinfo();

    MUST(hints);
    hints->caps = CAPS;
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup("ethmx");
    MUST(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == 0);
    return info;
}

static void no_domain(void)
{
    struct fi_info *info = info_here();
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    MUST(fi_fabric(info->fabric_attr, &fabric, NULL) == 0);
    MUST(fi_domain(fabric, info, &domain, NULL) == -FI_EINVAL);
    MUST(fi_close(&fabric->fid) == 0);
}

static void no_endpoint(int want)
{
    end_open(&end[0], CAPS, 0, 0);
    MUST(fi_enable(end[0].ep) == want);
    end_close(&end[0]);
}

static void no_endpoint_by_setting(void)
{
    no_endpoint(-FI_EINVAL);
}

/* A network without interfaces, or no right to make one or to send frames. */
static void no_endpoint_by_network(void)
{
    (void)!unshare(CLONE_NEWNET);
    no_endpoint(-FI_ENODEV);
}

static void wrong_value(void **state)
{
    (void)state;
    run_apart("no_domain", "ETHMX_EAGER_MAX", (const char *const[]){"ETHMX_EAGER_MAX", "banana", NULL});
}

static void wrong_wire(void **state)
{
    (void)state;
    run_apart("no_endpoint_by_setting", "nosuchwire", (const char *const[]){"ETHMX_WIRES", "nosuchwire", NULL});
}

static void wrong_interface(void **state)
{
    (void)state;
    run_apart("no_endpoint_by_setting", "nosuch0",
              (const char *const[]){"ETHMX_WIRES", "udp", "ETHMX_IF", "nosuch0", NULL});
}

static void no_wire(void **state)
{
    (void)state;
    run_apart("no_endpoint_by_network", "packet", (const char *const[]){"ETHMX_WIRES", "packet", NULL});
}

static void no_provider(void)
{
    struct fi_info *info, *hints = fi_allocinfo();

    MUST(hints);
    hints->fabric_attr->prov_name = strdup("ethmx");
    MUST(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info) == -FI_ENODATA);
}

/* libfabric's own settings: it finds no provider of this name, and says so by the call's result alone. */
static void wrong_settings_of_libfabric(void **state)
{
    (void)state;
    run_apart("no_provider", "", (const char *const[]){"FI_PROVIDER", "nosuch", NULL});
    run_apart("no_provider", "", (const char *const[]){"FI_PROVIDER_PATH", "/nonexistent", NULL});
}

static void load_by_old(void)
{
    struct fi_provider *(*ini)(void);
    char path[4096];
    void *library;

    fi_freeinfo(info_here()); /* starts the log */
    snprintf(path, sizeof(path), "%s/libethmx-fi.so", getenv("FI_PROVIDER_PATH"));
    MUST(library = dlopen(path, RTLD_NOW));
    *(void **)&ini = dlsym(library, "fi_prov_ini");
    MUST(ini && ini());
    old_libfabric = true;
    MUST(!ini());
}

static void older_libfabric(void **state)
{
    (void)state;
    run_apart("load_by_old", "libfabric 1.11", (const char *const[]){NULL});
}

/* ---- A peer that is gone ---- */

static fi_addr_t meet(int in, int out)
{
    uint8_t name[NAME_BYTES];
    size_t len = sizeof(name);
    fi_addr_t peer;

    end_open(&end[0], CAPS, 0, 0);
    MUST(fi_enable(end[0].ep) == 0 && fi_getname(&end[0].ep->fid, name, &len) == 0);
    MUST(write(out, name, sizeof(name)) == sizeof(name) && read(in, name, sizeof(name)) == sizeof(name));
    MUST(fi_av_insert(end[0].av, name, 1, &peer, 0, NULL) == 1);
    return peer;
}

/* Says something, and then nothing any more. */
static void be_client(int in, int out)
{
    struct fi_cq_tagged_entry c;
    fi_addr_t peer = meet(in, out);

    MUST(fi_tsend(end[0].ep, "hello", 5, NULL, peer, 1, NULL) == 0);
    for (;;)
        fi_cq_read(end[0].tx, &c, 1);
}

static ssize_t await(struct fid_cq *cq, struct fi_cq_tagged_entry *c)
{
    ssize_t n;

    while ((n = fi_cq_read(cq, c, 1)) == -FI_EAGAIN)
        fi_cq_read(end[0].tx, NULL, 0);
    return n;
}

/* The receive that waits for the client fails, and so does what is sent to it afterwards. */
static void lose_client(int signal)
{
    struct fi_cq_err_entry err = {0};
    struct fi_cq_tagged_entry c;
    int in[2], out[2];
    fi_addr_t peer;
    pid_t client;

    MUST(!pipe(in) && !pipe(out));
    client = fork();
    MUST(client >= 0);
    if (!client)
        be_client(out[0], in[1]);
    peer = meet(in[0], out[1]);
    MUST(fi_trecv(end[0].ep, end[0].buf, 100, NULL, peer, 1, 0, &in) == 0);
    MUST(await(end[0].rx, &c) == 1 && c.len == 5);
    MUST(fi_trecv(end[0].ep, end[0].buf, 100, NULL, peer, 2, 0, &out) == 0);
    kill(client, signal);
    MUST(await(end[0].rx, &c) == -FI_EAVAIL);
    MUST(fi_cq_readerr(end[0].rx, &err, 0) == 1 && err.err == FI_ECONNRESET && err.op_context == &out);
    MUST(fi_tsend(end[0].ep, "gone", 4, NULL, peer, 3, NULL) == -FI_ECONNRESET);
    kill(client, SIGKILL);
    MUST(waitpid(client, NULL, 0) == client);
    end_close(&end[0]);
}

static void lose_killed_client(void)
{
    lose_client(SIGKILL);
}

static void lose_silent_client(void)
{
    lose_client(SIGSTOP);
}

static void client_killed(void **state)
{
    (void)state;
    run_apart("lose_killed_client", "its process or host is gone",
              (const char *const[]){"ETHMX_WIRES", "shm", "ETHMX_PEER_TIMEOUT", "2s", NULL});
    run_apart("lose_killed_client", "its process or host is gone",
              (const char *const[]){"ETHMX_WIRES", "udp", "ETHMX_IF", "lo", "ETHMX_PEER_TIMEOUT", "2s", NULL});
}

static void peer_silent(void **state)
{
    (void)state;
    run_apart("lose_silent_client", "has not answered for 2000 ms",
              (const char *const[]){"ETHMX_WIRES", "udp", "ETHMX_IF", "lo", "ETHMX_PEER_TIMEOUT", "2s", NULL});
}

/* ---- A queue that nobody reads ---- */

/* A message to oneself. Only the completion of its sending is read. */
static void talk_to_self(void)
{
    static char out, in;
    struct fi_cq_tagged_entry c;
    ssize_t n;

    MUST(fi_trecv(end[0].ep, &in, 1, NULL, FI_ADDR_UNSPEC, 1, 0, NULL) == 0);
    MUST(fi_tsend(end[0].ep, &out, 1, NULL, end[0].self, 1, NULL) == 0);
    while ((n = fi_cq_read(end[0].tx, &c, 1)) == -FI_EAGAIN)
        ;
    MUST(n == 1);
}

enum { QUEUED = 256 }; /* completions that the queue can hold; a power of two */

static void overrun(void)
{
    struct fi_cq_tagged_entry c;
    unsigned taken = 0;
    ssize_t n;

    end_open(&end[0], CAPS, 0, 0);
    end_enable(&end[0]);
    end[0].self = end_insert(&end[0], &end[0]);
    refused_bytes = 2 * QUEUED * sizeof(struct prov_event);
    for (unsigned i = 0; i < QUEUED + 10; i++)
        talk_to_self();
    while ((n = fi_cq_read(end[0].rx, &c, 1)) == 1)
        taken++;
    MUST(n == -FI_EOVERRUN && taken == QUEUED);
    MUST(fi_cq_read(end[0].rx, &c, 1) == -FI_EOVERRUN);
}

static void queue_not_read(void **state)
{
    (void)state;
    run_apart("overrun", "a completion is lost", (const char *const[]){"ETHMX_WIRES", "udp", "ETHMX_IF", "lo", NULL});
}

static const struct {
    const char *name;
    void (*fn)(void);
} cases[] = {
    {"no_domain", no_domain},
    {"no_endpoint_by_setting", no_endpoint_by_setting},
    {"no_endpoint_by_network", no_endpoint_by_network},
    {"no_provider", no_provider},
    {"load_by_old", load_by_old},
    {"lose_killed_client", lose_killed_client},
    {"lose_silent_client", lose_silent_client},
    {"overrun", overrun},
};

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_value),
        cmocka_unit_test(wrong_wire),
        cmocka_unit_test(wrong_interface),
        cmocka_unit_test(no_wire),
        cmocka_unit_test(wrong_settings_of_libfabric),
        cmocka_unit_test(older_libfabric),
        cmocka_unit_test(client_killed),
        cmocka_unit_test(peer_silent),
        cmocka_unit_test(queue_not_read),
    };

    for (unsigned i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++)
        if (!strcmp(cases[i].name, argv[1])) {
            cases[i].fn();
            return 0;
        }
    return argc > 1 ? 2 : cmocka_run_group_tests(tests, NULL, NULL);
}
