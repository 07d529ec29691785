/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the shm wire must do beyond tests/conform: sleep and be woken in either role, outlive processes that are killed
 * or have gone, refuse other users, read memory where that is allowed, and leave nothing behind.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/config.h"
#include "wire/fds.h"
#include "wire/shm/shm.h"
#include "wire/shm/shm_join.h"
#include "wire/shm/shm_mem.h"
#include "wire/way.h"

#define WAIT_MS 20000 /* longer than anything takes that works */

static const struct emx_wire_ops *const ops = &emx_wire_shm;

struct end {
    uint32_t id;
    struct emx_wire *w;
    struct emx_stats stats;
    struct emx_wire_attr attr;
    char why[256];
};

/* Other numbers than those of tests that run beside this one. */
static uint32_t id_of(unsigned n)
{
    return (uint32_t)getpid() * 64 + n + 1;
}

/* Whether the wire offers a way to this process of the host, and how it looks. */
static bool reaches(struct emx_wire *w, uint32_t id, char *why, size_t why_len_bytes)
{
    struct emx_way_search s = {
        .frame_bytes = 8192, .theirs = {.b = (const uint8_t *)""}, .peer_id = id, .same_host = true};
    struct emx_wire_addr to;

    emx_shm_addr(&to, id);
    ops->ways(w, &s);
    if (s.count != 1) {
        snprintf(why, why_len_bytes, "%s", s.obstacle);
        return false;
    }
    assert_memory_equal(&s.way[0].to, &to, sizeof(to));
    return true;
}

static int open_end_among(struct end *e, uint32_t id, unsigned local_ranks)
{
    static struct emx_config cfg;
    const struct emx_wire_params params = {
        .cfg = &cfg, .endpoint_id = id, .local_ranks = local_ranks, .stats = &e->stats};
    int ret;

    memset(e, 0, sizeof(*e));
    emx_config_defaults(&cfg);
    e->id = id;
    ret = ops->open(&e->w, &params, e->why, sizeof(e->why));
    if (!ret)
        ops->query(e->w, &e->attr);
    return ret;
}

static int open_end(struct end *e, uint32_t id)
{
    return open_end_among(e, id, 0);
}

static void make_end(struct end *e, uint32_t id)
{
    if (open_end(e, id))
        fail_msg("%s", e->why);
}

/* Frame `number` for id, of len_bytes. */
static void send_frame(struct end *from, uint32_t id, uint32_t number, unsigned len_bytes)
{
    static uint8_t buf[EMX_SHM_FRAME_BYTES];
    struct emx_wire_addr to;
    struct emx_txframe f = {.to = &to, .head = buf, .head_bytes = (uint16_t)len_bytes};

    emx_shm_addr(&to, id);
    memcpy(buf, &number, sizeof(number));
    memset(buf + 4, (int)(number & 0xff), len_bytes - 4);
    ops->tx(from->w, &f, 1);
}

static bool is_readable(const struct end *e, int timeout_ms)
{
    struct pollfd fd = {.fd = ops->fd(e->w, 0), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) == 1;
}

/* The next frame's number; sleeps for it. Returns false if none comes. */
static bool next_number(struct end *e, uint32_t *number_p)
{
    struct emx_rxframe f;

    while (!ops->rx(e->w, &f, 1)) {
        if (ops->arm(e->w) && !is_readable(e, WAIT_MS))
            return false;
    }
    memcpy(number_p, f.data, sizeof(*number_p));
    for (unsigned i = 4; i < f.len_bytes; i++)
        CHECK(f.data[i] == (uint8_t)*number_p);
    ops->rx_return(e->w, &f, 1);
    return true;
}

static bool expect_numbers(struct end *e, uint32_t first, unsigned n)
{
    for (uint32_t i = first; i < first + n; i++) {
        uint32_t number;

        CHECK(next_number(e, &number));
        CHECK(number == i);
    }
    return true;
}

static unsigned entries(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;

    if (!d)
        return 0;
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

/* Whether somebody listens for this endpoint: the kernel's own list. */
static bool name_exists(uint32_t id)
{
    char line[512], name[64];
    bool found = false;
    FILE *f = fopen("/proc/net/unix", "re");

    assert_non_null(f);
    snprintf(name, sizeof(name), "@ethmx-shm-%08x", id);
    while (fgets(line, sizeof(line), f))
        found |= strstr(line, name) != NULL;
    fclose(f);
    return found;
}

/* Sweeps until the end holds no more descriptors than it should. */
static bool settles_at(struct end *e, unsigned fds)
{
    for (int i = 0; i < WAIT_MS && entries("/proc/self/fd") != fds; i++) {
        ops->sweep(e->w);
        usleep(1000);
    }
    return entries("/proc/self/fd") == fds;
}

/* ---- Sleeping ---- */

static void reader_sleeps_and_is_woken(void **state)
{
    struct end a, b;
    uint32_t number;

    (void)state;
    make_end(&a, id_of(0));
    make_end(&b, id_of(1));
    for (uint32_t i = 0; i < 300; i++) {
        for (unsigned sweeps = 0; i % 3 == 0 && sweeps < 100; sweeps++)
            ops->sweep(b.w); /* long awake: the other way to fall asleep */
        assert_true(ops->arm(b.w));
        assert_false(is_readable(&b, 0));
        send_frame(&a, b.id, i, 64);
        assert_true(is_readable(&b, WAIT_MS));
        assert_true(next_number(&b, &number) && number == i);
    }
    send_frame(&a, b.id, 7, 64);
    assert_false(ops->arm(b.w)); /* something is there */
    assert_true(next_number(&b, &number) && number == 7);
    ops->close(a.w);
    ops->close(b.w);
}

static void writer_sleeps_until_there_is_room(void **state)
{
    struct end a, b;
    uint32_t n = 0;

    (void)state;
    make_end(&a, id_of(0));
    make_end(&b, id_of(1));
    while (!ops->unsent(a.w))
        send_frame(&a, b.id, n++, 5000);
    for (unsigned i = 0; i < 50; i++)
        send_frame(&a, b.id, n++, 5000);
    for (uint32_t done = 0; ops->unsent(a.w);) {
        assert_true(ops->arm(a.w));
        assert_false(is_readable(&a, 0));
        for (unsigned i = 0; i < 8; i++)
            assert_true(expect_numbers(&b, done++, 1));
        assert_true(is_readable(&a, WAIT_MS));
        assert_int_equal(ops->rx(a.w, NULL, 0), 0);
        if (!ops->unsent(a.w))
            assert_true(expect_numbers(&b, done, n - done));
    }
    assert_int_equal(a.stats.wire_tx_errors, 0);
    ops->close(a.w);
    ops->close(b.w);
}

/* ---- Coming and going ---- */

static void last_words_are_heard(void **state)
{
    unsigned fds = entries("/proc/self/fd");
    struct end a, b;

    (void)state;
    make_end(&b, id_of(1));
    for (uint32_t round = 0; round < 40; round++) {
        make_end(&a, id_of(2 + round % 2));
        for (uint32_t i = 0; i < 10; i++)
            send_frame(&a, b.id, i, 700);
        assert_false(ops->unsent(a.w));
        if (round % 2) /* before b has noticed it */
            assert_true(expect_numbers(&b, 0, 4));
        ops->close(a.w);
        assert_true(expect_numbers(&b, round % 2 ? 4 : 0, round % 2 ? 6 : 10));
        assert_true(settles_at(&b, fds + 2));
    }
    ops->close(b.w);
    assert_int_equal(entries("/proc/self/fd"), fds);
}

static void frames_to_the_gone_are_lost_and_counted(void **state)
{
    struct end a, b, c;
    char why[128] = "";

    (void)state;
    make_end(&a, id_of(0));
    make_end(&b, id_of(1));
    make_end(&c, id_of(2));
    send_frame(&a, b.id, 0, 64);
    assert_true(expect_numbers(&b, 0, 1));
    for (unsigned i = 0; i < 200; i++)
        send_frame(&a, b.id, 1 + i, 64);
    assert_true(ops->unsent(a.w));
    ops->close(b.w);
    ops->sweep(a.w);
    assert_false(ops->unsent(a.w));
    assert_true(a.stats.wire_tx_errors > 0);
    assert_false(reaches(a.w, b.id, why, sizeof(why)));
    assert_true(strlen(why) > 10);
    assert_false(reaches(a.w, id_of(60), why, sizeof(why))); /* never was */
    send_frame(&a, id_of(61), 0, 64);
    assert_true(reaches(a.w, c.id, why, sizeof(why)));
    send_frame(&a, c.id, 9, 64);
    assert_true(expect_numbers(&c, 9, 1));
    ops->close(a.w);
    ops->close(c.w);
}

/* More ends than are near, all talking. */
static void many_ends(void **state)
{
    static struct end e[40];
    unsigned fds = entries("/proc/self/fd");
    uint32_t got[ARRAY_LEN(e)] = {0}, number;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(e); i++)
        make_end(&e[i], id_of(i));
    for (uint32_t round = 0; round < 50; round++) {
        for (unsigned i = 1; i < ARRAY_LEN(e); i++)
            send_frame(&e[i], e[0].id, i << 16 | round, 20 + 3 * i);
        for (unsigned i = 1; i < ARRAY_LEN(e); i++) {
            assert_true(next_number(&e[0], &number));
            assert_int_equal(number & 0xffff, got[number >> 16]++);
        }
    }
    for (unsigned i = 1; i < ARRAY_LEN(e); i++) {
        assert_int_equal(got[i], 50);
        send_frame(&e[0], e[i].id, i, 64);
        assert_true(expect_numbers(&e[i], i, 1));
        ops->close(e[i].w);
    }
    assert_true(settles_at(&e[0], fds + 2));
    ops->close(e[0].w);
    assert_int_equal(entries("/proc/self/fd"), fds);
}

/* A writer that does nothing else does not keep others from being heard. */
static void loud_does_not_drown_quiet(void **state)
{
    static struct end loud[5], b, quiet;
    uint32_t next[ARRAY_LEN(loud)] = {0};
    unsigned polls = 0;
    bool heard = false;

    (void)state;
    make_end(&b, id_of(0));
    make_end(&quiet, id_of(1));
    for (unsigned i = 0; i < ARRAY_LEN(loud); i++)
        make_end(&loud[i], id_of(2 + i));
    for (unsigned i = 0; i < ARRAY_LEN(loud); i++) {
        send_frame(&loud[i], b.id, i << 16, 64);
        assert_true(expect_numbers(&b, i << 16, 1));
    }
    send_frame(&quiet, b.id, 99 << 16, 64);
    while (!heard && polls++ < 100) {
        struct emx_rxframe f[8];
        unsigned n;

        for (unsigned i = 0; i < ARRAY_LEN(loud); i++) {
            for (unsigned j = 0; j < 8 && next[i] < 20000; j++)
                send_frame(&loud[i], b.id, i << 16 | ++next[i], 64);
        }
        ops->sweep(b.w);
        n = ops->rx(b.w, f, ARRAY_LEN(f));
        for (unsigned i = 0; i < n; i++)
            heard |= f[i].data[2] == 99;
        ops->rx_return(b.w, f, n);
    }
    assert_true(heard);
    for (unsigned i = 0; i < ARRAY_LEN(loud); i++)
        ops->close(loud[i].w);
    ops->close(quiet.w);
    ops->close(b.w);
}

static void one_number_one_end(void **state)
{
    struct end a, again;

    (void)state;
    make_end(&a, id_of(0));
    assert_int_equal(open_end(&again, a.id), ETHMX_ERR_NO_WIRE);
    assert_null(again.w);
    assert_true(strlen(again.why) > 20);
    ops->close(a.w);
    make_end(&a, id_of(0));
    ops->close(a.w);
}

/* ---- Other processes ---- */

/* Runs fn in a child and returns how it ended. */
static int in_child(int (*fn)(uint32_t id), uint32_t id)
{
    int status;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(fn(id));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static int talk_and_be_killed(uint32_t id)
{
    struct end e;

    if (open_end(&e, id_of(0)))
        return 1;
    for (uint32_t i = 0; i < 20; i++)
        send_frame(&e, id, i, 900);
    kill(getpid(), SIGKILL);
    return 2;
}

static void killed_process_leaves_nothing(void **state)
{
    unsigned files = entries("/dev/shm"), temporary = entries("/tmp"), fds;
    struct end b;
    pid_t pid;
    int status;

    (void)state;
    make_end(&b, id_of(1));
    fds = entries("/proc/self/fd");
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(talk_and_be_killed(b.id));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    assert_true(expect_numbers(&b, 0, 20)); /* what it said before is heard */
    assert_true(settles_at(&b, fds));
    assert_false(name_exists((uint32_t)pid * 64 + 1));
    assert_true(name_exists(b.id));
    assert_int_equal(entries("/dev/shm"), files);
    assert_true(entries("/tmp") <= temporary + 8); /* others may use it */
    ops->close(b.w);
    assert_false(name_exists(b.id));
}

/* A child that lives on with copies of all descriptors disturbs neither side. */
static void forked_child_does_not_disturb(void **state)
{
    int hold[2];
    struct end a, b;
    pid_t pid;
    char c;

    (void)state;
    make_end(&a, id_of(0));
    make_end(&b, id_of(1));
    send_frame(&a, b.id, 0, 64);
    assert_true(expect_numbers(&b, 0, 1));
    assert_int_equal(pipe(hold), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        close(hold[1]);
        _exit(read(hold[0], &c, 1) == 0 ? 0 : 1);
    }
    close(hold[0]);
    for (uint32_t i = 1; i < 200; i++) {
        assert_true(ops->arm(b.w));
        send_frame(&a, b.id, i, 64);
        assert_true(expect_numbers(&b, i, 1));
    }
    ops->close(a.w);
    ops->sweep(b.w);
    assert_true(ops->arm(b.w));
    close(hold[1]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    ops->sweep(b.w);
    ops->close(b.w);
}

/* ---- Many ranks on a host ---- */

enum { PARTNERS = 999 };

/* Light partners, all in one process: each is called, takes the ring, and has called with a ring of its own. */
struct partners {
    int listener[PARTNERS], call[PARTNERS], in[PARTNERS];
};

static uint32_t partner_id(unsigned i)
{
    return 0x70000000u + (uint32_t)getppid() * 1024 + i;
}

static bool partner_calls(struct partners *p, unsigned i, uint32_t id)
{
    static const struct emx_shm_token token;
    struct emx_shm_memory *m;
    int memory;

    p->listener[i] = emx_shm_listen(partner_id(i));
    p->call[i] = emx_shm_call(id);
    m = emx_shm_memory_new(&memory);
    if (p->listener[i] < 0 || p->call[i] < 0 || !m || emx_shm_send(p->call[i], partner_id(i), &token, memory))
        return false;
    emx_shm_memory_free(m);
    close(memory);
    return true;
}

/* The first frame of who has called partner i. */
static bool partner_hears(struct partners *p, unsigned i)
{
    struct pollfd wait = {.fd = p->listener[i], .events = POLLIN};
    struct emx_shm_memory *m = NULL;
    struct emx_shm_hello hello;
    struct emx_shm_rx rx;
    struct emx_rxframe f;
    bool heard;
    pid_t pid;

    if (poll(&wait, 1, WAIT_MS) != 1 || (p->in[i] = emx_shm_accept(p->listener[i], &pid)) < 0 ||
        emx_shm_receive(p->in[i], &hello, &m))
        return false;
    emx_shm_rx_init(&rx, m);
    heard = emx_shm_rx_ready(&rx) && emx_shm_rx_take(&rx, &f, 1) == 1 && f.data[0] == (uint8_t)i;
    emx_shm_memory_free(m);
    return heard;
}

/* Runs until the other end of the pipe is closed. */
static int be_partners(uint32_t id, int called, int go)
{
    static struct partners p;
    bool ok = emx_fds_allow(3 * PARTNERS + 64) >= 3 * PARTNERS + 64;
    char c;

    for (unsigned i = 0; ok && i < PARTNERS; i++)
        ok = partner_calls(&p, i, id);
    if (!ok || write(called, "", 1) != 1 || read(go, &c, 1) != 1)
        return 1;
    for (unsigned i = 0; i < PARTNERS; i++)
        if (!partner_hears(&p, i))
            return 2;
    return 0;
}

/* The limit that shells give is 1,024. */
static int one_among_many(uint32_t id)
{
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 4096};
    int called[2], go[2], status;
    struct end e;
    char c;
    pid_t pid;

    if (setrlimit(RLIMIT_NOFILE, &limit) || open_end_among(&e, id, PARTNERS + 1) || strstr(e.why, "run out") ||
        pipe(called) || pipe(go))
        return 1;
    fflush(NULL);
    pid = fork();
    if (!pid)
        _exit(be_partners(id, called[1], go[0]));
    close(called[1]);
    for (struct pollfd p = {.fd = called[0], .events = POLLIN}; !poll(&p, 1, 1);)
        ops->sweep(e.w); /* takes their calls */
    if (read(called[0], &c, 1) != 1)
        return 2;
    for (unsigned i = 0; i < PARTNERS; i++) {
        uint32_t to = 0x70000000u + (uint32_t)getpid() * 1024 + i;

        send_frame(&e, to, i, 64);
        ops->sweep(e.w);
    }
    while (ops->unsent(e.w))
        ops->sweep(e.w);
    if (write(go[1], "", 1) != 1 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        return 3;
    return e.stats.wire_tx_errors ? 4 : WEXITSTATUS(status) ? 10 + WEXITSTATUS(status) : 0;
}

static void one_process_has_many_partners(void **state)
{
    struct rlimit limit;
    int status;

    (void)state;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_max < 4096)
        skip();
    status = in_child(one_among_many, id_of(3));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Where it cannot have enough it says so at the start, and later that another wire must do. */
static int few_files(uint32_t id)
{
    struct rlimit limit = {.rlim_cur = 64, .rlim_max = 64};
    char why[160];
    struct end e;

    if (setrlimit(RLIMIT_NOFILE, &limit) || open_end_among(&e, id, 500) || !strstr(e.why, "run out of open files"))
        return 1;
    while (dup(0) >= 0)
        ;
    for (unsigned spare = 0; spare < 2; spare++) {
        if (reaches(e.w, id, why, sizeof(why)) || !strstr(why, "open files"))
            return 2;
        close(63 - (int)spare);
    }
    return reaches(e.w, id, why, sizeof(why)) ? 0 : 3; /* memory and a socket */
}

static void too_few_files_are_told(void **state)
{
    int status;

    (void)state;
    status = in_child(few_files, id_of(4));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- Other users ---- */

static int call_as(uint32_t id)
{
    return emx_shm_call(id);
}

static int other_user_is_refused(uint32_t id)
{
    if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        return 1;
    return call_as(id) == -EPERM ? 0 : 2;
}

/* One that listens under a number of ours, and one that calls. */
static void other_users_are_kept_out(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct pollfd p = {.events = POLLIN};
    unsigned fds;
    struct end b;
    char name[32];
    int pair[2], fd, status;
    pid_t pid;

    (void)state;
    if (geteuid())
        skip();
    make_end(&b, id_of(1));
    fds = entries("/proc/self/fd");
    status = in_child(other_user_is_refused, b.id);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    /* A caller that does not look who listens. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        if (setresuid(65534, 65534, 65534))
            _exit(1);
        snprintf(name, sizeof(name), "ethmx-shm-%08x", b.id);
        memcpy(a.sun_path + 1, name, strlen(name));
        fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (connect(fd, (struct sockaddr *)&a, (socklen_t)(sizeof(a.sun_family) + 1 + strlen(name))))
            _exit(2);
        if (write(pair[1], "x", 1) != 1)
            _exit(3);
        p.fd = fd;
        if (poll(&p, 1, WAIT_MS) != 1)
            _exit(4);
        _exit(recv(fd, name, 1, 0) == 0 ? 0 : 5); /* hung up on */
    }
    assert_int_equal(read(pair[0], name, 1), 1);
    ops->sweep(b.w);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(pair[0]);
    close(pair[1]);
    assert_true(settles_at(&b, fds));
    ops->close(b.w);
}

/* 77: there can be no user namespace here. */
static int user_without_number(uint32_t id)
{
    struct end e;

    if (unshare(CLONE_NEWUSER))
        return 77;
    if (!open_end(&e, id))
        return 1;
    return strstr(e.why, "user namespace") ? 0 : 2;
}

/* The same number, but all users have one: nobody is mistaken for us. */
static int user_nobody(uint32_t id)
{
    struct end e;

    if (setresuid(65534, 65534, 65534))
        return 77;
    return open_end(&e, id) ? 1 : 0;
}

static bool whole_map(void)
{
    FILE *f = fopen("/proc/self/uid_map", "re");
    unsigned count = 0;
    bool whole = f && fscanf(f, "%*u %*u %u", &count) == 1 && count == UINT32_MAX;

    if (f)
        fclose(f);
    return whole;
}

static void users_that_cannot_be_told_apart(void **state)
{
    int status;

    (void)state;
    status = in_child(user_without_number, id_of(1));
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
    if (geteuid() || !whole_map())
        return;
    status = in_child(user_nobody, id_of(2));
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Of our user, but not of our kind. */
static void nonsense_callers_are_hung_up_on(void **state)
{
    static const struct emx_shm_token token;
    static const char junk[4096];
    struct emx_shm_memory *m;
    struct end a, b;
    unsigned fds = entries("/proc/self/fd");
    int fd[6], memory;

    (void)state;
    make_end(&a, id_of(0));
    make_end(&b, id_of(1));
    for (unsigned i = 0; i < ARRAY_LEN(fd); i++) {
        fd[i] = emx_shm_call(b.id);
        assert_true(fd[i] >= 0);
    }
    m = emx_shm_memory_new(&memory);
    assert_non_null(m);
    assert_true(send(fd[0], junk, 10, 0) == 10);
    assert_true(send(fd[1], junk, sizeof(junk), 0) == sizeof(junk));
    assert_int_equal(emx_shm_send(fd[2], id_of(9), &token, fd[0]), 0); /* no memory */
    assert_int_equal(emx_shm_send(fd[3], 0, &token, memory), 0);       /* no number */
    close(fd[4]);                                                      /* nothing at all; and 5 stays silent */
    for (unsigned i = 0; i < 10; i++)
        ops->sweep(b.w);
    send_frame(&a, b.id, 0, 100);
    assert_true(expect_numbers(&b, 0, 1));
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(recv(fd[i], &(char){0}, 1, 0), 0);
        close(fd[i]);
    }
    close(fd[5]);
    /* A ring of ours with words that make no sense. */
    fd[0] = emx_shm_call(b.id);
    assert_int_equal(emx_shm_send(fd[0], id_of(9), &token, memory), 0);
    m->slot[0].word = 0xffffffff;
    ops->sweep(b.w);
    ops->rx(b.w, NULL, 0);
    send_frame(&a, b.id, 1, 100);
    assert_true(expect_numbers(&b, 1, 1));
    assert_int_equal(recv(fd[0], &(char){0}, 1, 0), 0);
    close(fd[0]);
    close(memory);
    emx_shm_memory_free(m);
    ops->close(a.w);
    assert_true(settles_at(&b, fds + 2));
    ops->close(b.w);
}

/* ---- Reading memory ---- */

static int read_from(struct end *e, const struct emx_wire_addr *from, uint64_t remote, void *local, size_t len_bytes)
{
    const struct emx_wire_read r = {.from = from, .remote = remote, .local = local, .len_bytes = len_bytes};

    return ops->read(e->w, &r);
}

static void memory_is_read(void **state)
{
    static uint8_t source[100000], copy[sizeof(source)];
    struct emx_wire_addr from;
    struct end a, b;

    (void)state;
    make_end(&a, id_of(0));
    make_end(&b, id_of(1));
    if (!b.attr.reads)
        skip();
    for (unsigned i = 0; i < sizeof(source); i++)
        source[i] = (uint8_t)emx_mix64(i);
    emx_shm_addr(&from, a.id);
    assert_int_not_equal(read_from(&b, &from, (uintptr_t)source, copy, 1), ETHMX_OK); /* it has not joined */
    send_frame(&a, b.id, 0, 64);
    assert_true(expect_numbers(&b, 0, 1));
    assert_int_equal(read_from(&b, &from, (uintptr_t)source, copy, sizeof(copy)), ETHMX_OK);
    assert_memory_equal(source, copy, sizeof(copy));
    /* What cannot be copied says nothing about the rest of that process. */
    assert_int_equal(read_from(&b, &from, 4096, copy, 100), ETHMX_ERR_PARAM);
    memset(copy, 0, sizeof(copy));
    assert_int_equal(read_from(&b, &from, (uintptr_t)source, copy, sizeof(copy)), ETHMX_OK);
    assert_memory_equal(source, copy, sizeof(copy));
    ops->close(a.w);
    ops->close(b.w);
}

/* Another process with the same number is found out. */
static void token_tells_processes_apart(void **state)
{
    uint64_t number = 4711, from = 1, to = 0;
    struct emx_shm_token token = {.value = 4711, .address = (uintptr_t)&number};
    char why[160];

    (void)state;
    if (!emx_shm_mem_probe(why, sizeof(why)))
        skip();
    assert_int_equal(emx_shm_mem_read(getpid(), &token, (uintptr_t)&from, &to, sizeof(to)), 0);
    assert_int_equal(to, 1);
    number = 4712;
    assert_int_equal(emx_shm_mem_read(getpid(), &token, (uintptr_t)&from, &to, sizeof(to)), ESRCH);
    token.address = 16;
    assert_int_not_equal(emx_shm_mem_read(getpid(), &token, (uintptr_t)&from, &to, sizeof(to)), 0);
}

/* 0, or the errno with which another process of this user may not read ours. */
static int read_by_child(void)
{
    uint64_t number = 4711, copy;
    const struct emx_shm_token token = {.value = 4711, .address = (uintptr_t)&number};
    int status;
    pid_t parent = getpid(), pid = fork();

    if (!pid)
        _exit(emx_shm_mem_read(parent, &token, (uintptr_t)&number, &copy, sizeof(copy)));
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* As a program is whose file has a capability: what the probe says is what another process finds. */
static int undumpable(uint32_t id)
{
    char why[160];

    (void)id;
    if (!geteuid() && setresuid(65534, 65534, 65534))
        return 1;
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) || emx_shm_mem_probe(why, sizeof(why)) || !strstr(why, "undumpable"))
        return 2;
    if (read_by_child() != EPERM)
        return 3;
    if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
        return 4;
    return emx_shm_mem_probe(why, sizeof(why)) == !read_by_child() ? 0 : 5;
}

static void probe_tells_of_the_undumpable(void **state)
{
    int status = in_child(undumpable, 0);

    (void)state;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* As in containers with a filter: EPERM. */
static bool forbid(long number)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog prog = {.len = ARRAY_LEN(code), .filter = code};

    return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) && !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

static int without_reads(uint32_t id)
{
    struct end e;

    if (!forbid(SYS_process_vm_readv) || open_end(&e, id))
        return 1;
    if (e.attr.reads || !strstr(e.why, "two copies"))
        return 2;
    send_frame(&e, e.id, 3, 64); /* to itself: frames go all the same */
    return expect_numbers(&e, 3, 1) ? 0 : 3;
}

static int without_memory(uint32_t id)
{
    struct end e;

    if (!forbid(SYS_memfd_create))
        return 1;
    return open_end(&e, id) == ETHMX_ERR_NO_WIRE && strstr(e.why, "memfd_create") ? 0 : 2;
}

/* Without membarrier a sleeper is woken all the same. */
static int without_barriers(uint32_t id)
{
    struct end a, b;

    if (!forbid(SYS_membarrier) || open_end(&a, id) || open_end(&b, id_of(5)))
        return 1;
    for (uint32_t i = 0; i < 200; i++) {
        for (unsigned sweeps = 0; i % 2 && sweeps < 100; sweeps++)
            ops->sweep(b.w);
        if (!ops->arm(b.w))
            return 2;
        send_frame(&a, b.id, i, 64);
        if (!is_readable(&b, WAIT_MS) || !expect_numbers(&b, i, 1))
            return 3;
    }
    return 0;
}

static void refusals_of_the_system(void **state)
{
    int (*const fn[])(uint32_t) = {without_reads, without_memory, without_barriers};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(fn); i++) {
        int status = in_child(fn[i], id_of(20 + i));

        if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("case %u: status %x", i, (unsigned)status);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reader_sleeps_and_is_woken),
        cmocka_unit_test(writer_sleeps_until_there_is_room),
        cmocka_unit_test(last_words_are_heard),
        cmocka_unit_test(frames_to_the_gone_are_lost_and_counted),
        cmocka_unit_test(many_ends),
        cmocka_unit_test(loud_does_not_drown_quiet),
        cmocka_unit_test(one_number_one_end),
        cmocka_unit_test(killed_process_leaves_nothing),
        cmocka_unit_test(forked_child_does_not_disturb),
        cmocka_unit_test(one_process_has_many_partners),
        cmocka_unit_test(too_few_files_are_told),
        cmocka_unit_test(other_users_are_kept_out),
        cmocka_unit_test(users_that_cannot_be_told_apart),
        cmocka_unit_test(nonsense_callers_are_hung_up_on),
        cmocka_unit_test(memory_is_read),
        cmocka_unit_test(token_tells_processes_apart),
        cmocka_unit_test(probe_tells_of_the_undumpable),
        cmocka_unit_test(refusals_of_the_system),
    };

    return cmocka_run_group_tests_name("shm", tests, NULL, NULL);
}
