/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies that two processes make together: every order of the steps of both sides, threads with real memory, a helper
 * that writes invalid data; and with processes: a helper that writes, one that is killed while it holds a part, one
 * that cannot write; and that nobody writes to a process that is not the one.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/config.h"
#include "wire/shm/shm.h"
#include "wire/shm/shm_join.h"

/* ---- The source itself, with a stop before each access to the words that both sides look at ---- */

static void stop_at(const void *word);

static uint64_t stepped_load(_Atomic uint64_t *p, memory_order order)
{
    stop_at(p);
    return atomic_load_explicit(p, order);
}

static void stepped_store(_Atomic uint64_t *p, uint64_t value, memory_order order)
{
    stop_at(p);
    atomic_store_explicit(p, value, order);
}

static bool stepped_exchange(_Atomic uint64_t *p, uint64_t *seen, uint64_t value, memory_order won, memory_order lost)
{
    stop_at(p);
    return atomic_compare_exchange_strong_explicit(p, seen, value, won, lost);
}

#undef atomic_load_explicit
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong_explicit
#define atomic_load_explicit                    stepped_load
#define atomic_store_explicit                   stepped_store
#define atomic_compare_exchange_strong_explicit stepped_exchange
#include "wire/shm/shm_split.c"

/* ---- Every order: two sides take turns, and all ways to do so are played ---- */

#define U           EMX_SHM_UNIT_BYTES
#define STACK_BYTES 65536
#define STEPS_MAX   64
#define ROUNDS_MAX  2
#define UNITS_MAX   16

struct play {
    size_t len_bytes[ROUNDS_MAX]; /* 0: no such round */
    unsigned tries;               /* of the helper to take a part */
    bool awaited;
};

enum { OWNER, HELPER, SIDES };

static const struct play *play;
static struct emx_shm_split split;
static ucontext_t scheduler, side[SIDES];
static char stack[SIDES][STACK_BYTES];
static int running = -1; /* the side that runs; -1: nothing is played */
static bool over[SIDES];
static bool waits;                              /* the owner, until the helper has finished a part */
static bool ended[ROUNDS_MAX];                  /* the memory is the program's again */
static unsigned written[ROUNDS_MAX][UNITS_MAX]; /* how many times */
static unsigned helped;
static const char *wrong;

static void stop(void)
{
    int self = running;

    swapcontext(&side[self], &scheduler);
    running = self;
}

static void stop_at(const void *word)
{
    if (running >= 0 && (word == &split.claims || word == &split.finished))
        stop();
}

/* Addresses tell the round. */
static uint64_t place_of(unsigned round, bool of_helper)
{
    return (round + 1) * UINT64_C(1000000) + (of_helper ? 500000 : 0);
}

static void write_bytes(unsigned round, uint64_t offset, uint64_t len_bytes)
{
    if (offset % U || offset + len_bytes > play->len_bytes[round])
        wrong = "a part that is none";
    if (ended[round])
        wrong = "written after the end";
    for (uint64_t at = offset; at < offset + len_bytes; at += U)
        written[round][at / U]++;
}

static void own(void)
{
    struct emx_shm_owner o;
    struct emx_shm_part part;

    emx_shm_owner_init(&o, &split);
    for (unsigned i = 0; i < ROUNDS_MAX && play->len_bytes[i]; i++) {
        emx_shm_owner_open(&o, place_of(i, true), place_of(i, false), play->len_bytes[i], play->awaited, &part);
        do
            write_bytes(i, part.offset, part.len_bytes);
        while (emx_shm_owner_take(&o, &part));
        for (unsigned seen = helped; emx_shm_owner_look(&o, &part) == EMX_SHM_HELP_UNDER_WAY; seen = helped) {
            waits = helped == seen;
            stop();
        }
        ended[i] = true;
        for (uint64_t at = 0; at < play->len_bytes[i]; at += U)
            if (written[i][at / U] != 1)
                wrong = "a unit that was not written once";
    }
    over[OWNER] = true;
    swapcontext(&side[OWNER], &scheduler);
}

static void help_out(void)
{
    struct emx_shm_claim p;

    for (unsigned i = 0; i < play->tries; i++) {
        unsigned round;

        if (!emx_shm_helper_claim(&split, &p))
            continue;
        stop();
        round = (unsigned)(p.to / 1000000) - 1;
        if (p.from - place_of(round, true) != p.to - place_of(round, false))
            wrong = "the addresses are of two copies";
        write_bytes(round, p.to - place_of(round, false), p.len_bytes);
        emx_shm_helper_wrote(&split, &p, true);
        waits = false;
        helped++;
    }
    over[HELPER] = true;
    swapcontext(&side[HELPER], &scheduler);
}

static void begin(int who, void (*fn)(void))
{
    over[who] = false;
    getcontext(&side[who]);
    side[who].uc_stack.ss_sp = stack[who];
    side[who].uc_stack.ss_size = sizeof(stack[who]);
    side[who].uc_link = &scheduler;
    makecontext(&side[who], fn, 0);
}

struct order {
    uint8_t choice[STEPS_MAX]; /* who goes on, where both can */
    unsigned count;
};

/* Plays one order: the choices there are, and OWNER where there are none yet. */
static void play_once(struct order *o)
{
    unsigned n = 0;

    memset(&split, 0, sizeof(split));
    memset(ended, 0, sizeof(ended));
    memset(written, 0, sizeof(written));
    waits = false;
    begin(OWNER, own);
    begin(HELPER, help_out);
    while (!wrong && !(over[OWNER] && over[HELPER])) {
        bool owner_can = !over[OWNER] && !waits, helper_can = !over[HELPER];

        if (!owner_can && !helper_can) {
            wrong = "the owner waits for nobody";
        } else if (owner_can && helper_can) {
            if (n == STEPS_MAX) {
                wrong = "too many steps";
                break;
            }
            if (n == o->count)
                o->choice[o->count++] = OWNER;
            running = o->choice[n++];
        } else {
            running = owner_can ? OWNER : HELPER;
        }
        if (!wrong)
            swapcontext(&scheduler, &side[running]);
    }
    running = -1;
}

/* The next order; false: all have been played. */
static bool next_order(struct order *o)
{
    while (o->count && o->choice[o->count - 1] == HELPER)
        o->count--;
    if (!o->count)
        return false;
    o->choice[o->count - 1] = HELPER;
    return true;
}

static void every_order(void **state)
{
    static const struct play plays[] = {
        {{4 * U + 100, 2 * U + 1}, 2, true},
        {{4 * U + 100, 2 * U + 1}, 2, false},
        {{12 * U}, 4, true},
        {{16 * U}, 3, false},
        {{1, U}, 3, true},
    };

    (void)state;
#if defined(__SANITIZE_THREAD__)
    skip(); /* it does not follow from one stack to another */
#endif
    for (unsigned i = 0; i < ARRAY_LEN(plays); i++) {
        struct order o = {.count = 0};
        unsigned long orders = 0;

        play = &plays[i];
        helped = 0;
        wrong = NULL;
        do {
            play_once(&o);
            orders++;
        } while (!wrong && next_order(&o));
        if (wrong)
            fail_msg("play %u, order %lu: %s", i, orders, wrong);
        print_message("play %u: %lu orders, %u parts written by the helper\n", i, orders, helped);
        assert_true(helped || plays[i].len_bytes[0] == 1);
    }
}

/* ---- Threads ---- */

#define THREADS_ROUNDS 3000
#define LONGEST        (300 * U)

static uint8_t source[LONGEST], target[LONGEST];
static _Atomic bool enough;

static void *helper_thread(void *arg)
{
    struct emx_shm_split *m = arg;
    struct emx_shm_claim p;

    while (!enough) {
        while (emx_shm_helper_claim(m, &p)) {
            memcpy((void *)(uintptr_t)p.to, (const void *)(uintptr_t)p.from, p.len_bytes);
            emx_shm_helper_wrote(m, &p, true);
        }
        sched_yield();
    }
    return NULL;
}

static void threads_copy(void **state)
{
    static struct emx_shm_split m;
    struct emx_rng rng = {.state = 1};
    struct emx_shm_owner o;
    size_t by_helper = 0;
    pthread_t thread;

    (void)state;
    emx_shm_owner_init(&o, &m);
    assert_int_equal(pthread_create(&thread, NULL, helper_thread, &m), 0);
    for (unsigned i = 0; i < THREADS_ROUNDS || !by_helper; i++) {
        size_t len_bytes = 1 + emx_rng_below(&rng, LONGEST);
        struct emx_shm_part part;

        memset(source, (int)i, len_bytes);
        emx_shm_owner_open(&o, (uintptr_t)source, (uintptr_t)target, len_bytes, i & 1, &part);
        do
            memcpy(target + part.offset, source + part.offset, part.len_bytes);
        while (emx_shm_owner_take(&o, &part));
        while (emx_shm_owner_look(&o, &part) == EMX_SHM_HELP_UNDER_WAY)
            sched_yield();
        by_helper += part.len_bytes;
        assert_memory_equal(target, source, len_bytes);
    }
    enough = true;
    pthread_join(thread, NULL);
}

/* ---- A helper without sense ---- */

static bool owner_keeps_its_senses(uint64_t seed)
{
    struct emx_rng rng = {.state = seed};
    size_t len_bytes = 1 + emx_rng_below(&rng, LONGEST);
    struct emx_shm_split m = {.claims = 0};
    struct emx_shm_part part, share;
    struct emx_shm_owner o;
    size_t at = 0;

    emx_shm_owner_init(&o, &m);
    emx_shm_owner_open(&o, 1, 2, len_bytes, seed & 1, &part);
    do {
        CHECK(part.offset == at && part.len_bytes && part.len_bytes <= len_bytes - at);
        at += part.len_bytes;
        if (!emx_rng_below(&rng, 2))
            m.claims ^= emx_rng_next(&rng) & emx_rng_next(&rng);
        m.finished = emx_rng_next(&rng);
    } while (emx_shm_owner_take(&o, &part));
    emx_shm_owner_look(&o, &share);
    CHECK(share.offset == at && share.len_bytes == len_bytes - at);
    return true;
}

static void helper_without_sense_is_not_believed(void **state)
{
    (void)state;
    each_seed(20000, owner_keeps_its_senses);
}

/* ---- Processes ---- */

#define BIG_BYTES  (1u << 20)
#define BIG_ROUNDS 100000 /* of reads, until the helper comes in time: it always does where it gets a core at all */

static const struct emx_wire_ops *const ops = &emx_wire_shm;
static uint8_t big[BIG_BYTES], copy[BIG_BYTES];
static unsigned opened; /* a child of an earlier helper may still have its sockets */

struct end {
    uint32_t id;
    struct emx_wire *w;
    struct emx_stats stats;
    struct emx_wire_attr attr;
};

/* Other numbers than those of tests that run beside this one. */
static uint32_t id_of(unsigned n)
{
    return (uint32_t)getpid() * 64 + n + 1;
}

static void open_end(struct end *e, uint32_t id)
{
    static struct emx_config cfg;
    const struct emx_wire_params params = {.cfg = &cfg, .endpoint_id = id, .stats = &e->stats};
    char why[256];

    memset(e, 0, sizeof(*e));
    emx_config_defaults(&cfg);
    e->id = id;
    if (ops->open(&e->w, &params, why, sizeof(why)))
        fail_msg("%s", why);
    ops->query(e->w, &e->attr);
}

static int read_big(struct end *e, uint32_t from_id)
{
    struct emx_wire_addr from;
    const struct emx_wire_read r = {
        .from = &from, .remote = (uintptr_t)big, .local = copy, .len_bytes = sizeof(copy), .lasting = true};

    emx_shm_addr(&from, from_id);
    return ops->read(e->w, &r);
}

static void poll_end(struct end *e)
{
    struct emx_rxframe f[8];
    unsigned n = ops->rx(e->w, f, ARRAY_LEN(f));

    if (n)
        ops->rx_return(e->w, f, n);
    ops->sweep(e->w);
}

static void send_one(struct end *e, uint32_t to_id)
{
    static const uint8_t frame[64];
    struct emx_wire_addr to;
    const struct emx_txframe f = {.to = &to, .head = frame, .head_bytes = sizeof(frame)};

    emx_shm_addr(&to, to_id);
    ops->tx(e->w, &f, 1);
}

static void fill_big(unsigned seed)
{
    for (size_t i = 0; i < sizeof(big); i++)
        big[i] = (uint8_t)emx_mix64(i + seed);
}

/* A helper of the wire itself: it polls until it is killed. */
static void be_helper(uint32_t id, uint32_t owner)
{
    struct end e;

    open_end(&e, id);
    for (send_one(&e, owner);; sched_yield())
        poll_end(&e);
}

/* A helper by hand: when it has taken a part it says so, and waits for a word what to do with it. */
static void be_slow_helper(uint32_t id, uint32_t owner, int says, int hears)
{
    uint64_t value = id;
    const struct emx_shm_token token = {.value = value, .address = (uintptr_t)&value};
    int listener = emx_shm_listen(id), fd = emx_shm_call(owner), memory_fd;
    struct emx_shm_memory *mine = emx_shm_memory_new(&memory_fd), *theirs = NULL;
    struct emx_shm_hello hello;
    struct emx_shm_claim p;
    char what;
    pid_t pid;

    if (listener < 0 || fd < 0 || !mine || emx_shm_send(fd, id, &token, memory_fd))
        _exit(1);
    while ((fd = emx_shm_accept(listener, &pid)) < 0)
        sched_yield();
    while (emx_shm_receive(fd, &hello, &theirs))
        sched_yield();
    if (!fork()) { /* has all sockets too, until the test closes the pipe */
        struct pollfd fd_of_test = {.fd = hears};

        poll(&fd_of_test, 1, -1);
        _exit(0);
    }
    for (;;) {
        while (!emx_shm_helper_claim(&theirs->split, &p))
            sched_yield();
        if (write(says, "c", 1) != 1 || read(hears, &what, 1) != 1)
            _exit(2);
        if (what == 'w' && emx_shm_mem_write(pid, hello.token.guard, p.to, (void *)(uintptr_t)p.from, p.len_bytes))
            _exit(3);
        emx_shm_helper_wrote(&theirs->split, &p, what == 'w');
    }
}

struct helper {
    uint32_t id;
    pid_t pid;
    int says, tell;
};

/* slow: by hand. */
static void start_helper(struct helper *h, struct end *owner, bool slow)
{
    int up[2], down[2];

    h->id = owner->id + 1;
    assert_int_equal(pipe(up) | pipe(down), 0);
    fflush(NULL);
    h->pid = fork();
    assert_true(h->pid >= 0);
    if (!h->pid) {
        close(up[0]);
        close(down[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!slow)
            be_helper(h->id, owner->id);
        be_slow_helper(h->id, owner->id, up[1], down[0]);
        _exit(0);
    }
    h->says = up[0];
    h->tell = down[1];
    close(up[1]);
    close(down[0]);
    while (read_big(owner, h->id) != ETHMX_OK) /* until it has called */
        poll_end(owner);
    send_one(owner, h->id); /* and is called */
}

static void end_helper(struct helper *h, struct end *owner)
{
    kill(h->pid, SIGKILL);
    waitpid(h->pid, NULL, 0);
    close(h->says);
    close(h->tell);
    ops->close(owner->w);
}

static bool begin_copies(struct end *owner)
{
    open_end(owner, id_of(4 * ++opened));
    if (owner->attr.reads)
        return true;
    ops->close(owner->w);
    return false;
}

static void helper_helps(void **state)
{
    struct helper h;
    struct end owner;

    (void)state;
    fill_big(0);
    if (!begin_copies(&owner))
        skip();
    start_helper(&h, &owner, false);
    for (unsigned i = 0; i < BIG_ROUNDS && !owner.stats.bytes_read_helped; i++) {
        int status;

        memset(copy, 0, sizeof(copy));
        while ((status = read_big(&owner, h.id)) == ETHMX_INPROGRESS)
            poll_end(&owner);
        assert_int_equal(status, ETHMX_OK);
        assert_memory_equal(copy, big, sizeof(copy));
        poll_end(&owner);
    }
    assert_true(owner.stats.bytes_read_helped > 0);
    end_helper(&h, &owner);
}

/* Until the helper holds a part and the owner waits for it. */
static void wait_for_claim(struct helper *h, struct end *owner)
{
    char what;
    int status = ETHMX_OK;

    for (unsigned i = 0; i < BIG_ROUNDS && status == ETHMX_OK; i++) {
        memset(copy, 0, sizeof(copy));
        status = read_big(owner, h->id);
        poll_end(owner);
    }
    assert_int_equal(status, ETHMX_INPROGRESS);
    assert_int_equal(read(h->says, &what, 1), 1);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(read_big(owner, h->id), ETHMX_INPROGRESS);
        poll_end(owner);
    }
}

/* The end of a read that is under way. */
static int result_of(struct helper *h, struct end *owner)
{
    int status;

    while ((status = read_big(owner, h->id)) == ETHMX_INPROGRESS) {
        poll_end(owner);
        sched_yield();
    }
    return status;
}

/* What the helper took is awaited; what it cannot write is read, and it is not asked again. */
static void helper_takes_its_time(void **state)
{
    struct helper h;
    struct end owner;
    uint64_t helped;

    (void)state;
    fill_big(1);
    if (!begin_copies(&owner))
        skip();
    start_helper(&h, &owner, true);
    wait_for_claim(&h, &owner);
    assert_int_equal(write(h.tell, "w", 1), 1);
    assert_int_equal(result_of(&h, &owner), ETHMX_OK);
    assert_memory_equal(copy, big, sizeof(copy));
    helped = owner.stats.bytes_read_helped;
    assert_true(helped > 0);
    wait_for_claim(&h, &owner);
    assert_int_equal(write(h.tell, "f", 1), 1);
    assert_int_equal(result_of(&h, &owner), ETHMX_OK);
    assert_memory_equal(copy, big, sizeof(copy));
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(read_big(&owner, h.id), ETHMX_OK);
    assert_int_equal(owner.stats.bytes_read_helped, helped);
    end_helper(&h, &owner);
}

/* Killed while it holds a part. The read ends when the process has ended, not before, whoever has its sockets. */
static void helper_is_killed(void **state)
{
    struct helper h;
    struct end owner;
    siginfo_t info;

    (void)state;
    fill_big(2);
    if (!begin_copies(&owner))
        skip();
    start_helper(&h, &owner, true);
    wait_for_claim(&h, &owner);
    assert_int_equal(kill(h.pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)h.pid, &info, WEXITED | WNOWAIT), 0);
    assert_int_not_equal(result_of(&h, &owner), ETHMX_OK);
    assert_int_not_equal(read_big(&owner, h.id), ETHMX_OK);
    end_helper(&h, &owner);
}

/* Closing the wire forgets a copy that is under way; ctx waits for it before. */
static void closed_while_it_waits(void **state)
{
    struct helper h;
    struct end owner;

    (void)state;
    if (!begin_copies(&owner))
        skip();
    start_helper(&h, &owner, true);
    wait_for_claim(&h, &owner);
    end_helper(&h, &owner);
}

/* A process with the same memory at the same places, but not the one. */
static void others_are_not_written_to(void **state)
{
    static uint8_t target_here[5000];
    uint64_t guard = emx_shm_guard_new();
    char why[160], what = 0;
    int up[2], status;
    pid_t pid;

    (void)state;
    if (!emx_shm_mem_probe(why, sizeof(why)) || !guard)
        skip();
    memset(big, 7, sizeof(target_here));
    assert_int_equal(emx_shm_mem_write(getpid(), guard, (uintptr_t)target_here, big, sizeof(target_here)), 0);
    assert_memory_equal(target_here, big, sizeof(target_here));
    memset(target_here, 1, sizeof(target_here));
    assert_int_equal(pipe(up), 0);
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (!pid) {
        char told;

        if (read(up[0], &told, 1) != 1)
            _exit(1);
        for (unsigned i = 0; i < sizeof(target_here); i++)
            if (target_here[i] != 1)
                _exit(2);
        _exit(0);
    }
    assert_int_not_equal(emx_shm_mem_write(pid, guard, (uintptr_t)target_here, big, sizeof(target_here)), 0);
    assert_int_equal(write(up[1], &what, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_not_equal(emx_shm_mem_write(getpid(), 0, (uintptr_t)target_here, big, 10), 0);
    emx_shm_guard_free(guard);
    assert_int_not_equal(emx_shm_mem_write(getpid(), guard, (uintptr_t)target_here, big, 10), 0);
    close(up[0]);
    close(up[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_order),
        cmocka_unit_test(threads_copy),
        cmocka_unit_test(helper_without_sense_is_not_believed),
        cmocka_unit_test(helper_helps),
        cmocka_unit_test(helper_takes_its_time),
        cmocka_unit_test(helper_is_killed),
        cmocka_unit_test(closed_while_it_waits),
        cmocka_unit_test(others_are_not_written_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
