/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The registration cache by itself: what it keeps, joins, gives up, and when. That pages go is told by the test, as a
 * host's hooks would; test_regcache_live lets the kernel tell, with threads.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mem/memwatch.h"
#include "regdevice.h"

#define PAGES 64
#define READ  EMX_MEM_READ
#define WRITE EMX_MEM_WRITE

static size_t page;
static char *memory; /* PAGES of them */
static _Atomic uint32_t generations[PAGES];

static struct emx_config cfg;
static struct emx_stats stats;
static struct regdevice device;
static struct emx_regcache *cache;

static _Atomic uint32_t *generation(uintptr_t at)
{
    return &generations[(at - (uintptr_t)memory) / page];
}

static bool host_tell(bool on)
{
    (void)on;
    return true;
}

static const struct ethmx_memory_host host = {.struct_bytes = sizeof(host), .name = "the test", .tell = host_tell};

static int open_cache(char *why, size_t why_len_bytes)
{
    const struct emx_regcache_params params = {.cfg = &cfg, .registrar = regdevice_registrar(&device), .stats = &stats};

    return emx_regcache_open(&cache, &params, why, why_len_bytes);
}

static int setup(void **state)
{
    (void)state;
    page = (size_t)sysconf(_SC_PAGESIZE);
    memory = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    emx_memwatch_host(&host);
    return memory == MAP_FAILED;
}

/* An empty cache of so many pages and entries. */
static void begin(unsigned pages, unsigned entries)
{
    char why[256];

    emx_config_defaults(&cfg);
    cfg.p_reg_cache = EMX_WATCH_HOST;
    cfg.p_reg_max = pages * page;
    cfg.p_reg_entries = entries;
    memset(&stats, 0, sizeof(stats));
    device = (struct regdevice){.page_bytes = page, .generation = generation};
    if (open_cache(why, sizeof(why)))
        fail_msg("%s", why);
}

static void end(void)
{
    emx_regcache_close(cache);
    assert_int_equal(device.live, 0);
    assert_int_equal(device.bytes, 0);
    assert_int_equal(device.faults, 0);
}

static struct emx_region *get(size_t from_page, size_t pages, unsigned access)
{
    const char *buf = memory + from_page * page + 1;
    struct emx_region *r;

    assert_int_equal(emx_regcache_get(cache, buf, pages * page - 2, access, &r), ETHMX_OK);
    assert_true(regdevice_covers(r, buf, pages * page - 2, access));
    return r;
}

static void use(size_t from_page, size_t pages, unsigned access)
{
    emx_regcache_put(cache, get(from_page, pages, access));
}

static bool has(size_t from_page, size_t pages, unsigned access)
{
    return emx_regcache_has(cache, memory + from_page * page, pages * page, access);
}

static void gone(size_t from_page, size_t pages)
{
    emx_memwatch_gone((uintptr_t)memory + from_page * page, (uintptr_t)memory + (from_page + pages) * page);
}

/* ---- What is kept ---- */

static void test_reuse(void **state)
{
    (void)state;
    begin(PAGES, 16);
    for (unsigned i = 0; i < 1000; i++)
        use(3, 5, READ);
    assert_int_equal(device.made, 1);
    assert_int_equal(stats.reg_made, 1);
    assert_int_equal(stats.reg_hits, 999);
    use(4, 2, READ); /* a part of it */
    assert_int_equal(device.made, 1);
    assert_int_equal(stats.reg_bytes, 5 * page);
    end();
}

static void test_off(void **state)
{
    struct emx_regcache_info info;
    char why[256];

    (void)state;
    emx_config_defaults(&cfg);
    cfg.p_reg_cache = EMX_WATCH_OFF;
    device = (struct regdevice){.page_bytes = page};
    assert_int_equal(open_cache(why, sizeof(why)), ETHMX_OK);
    use(0, 2, READ);
    assert_int_equal(device.live, 0); /* nobody would tell: not a moment longer than needed */
    use(0, 2, READ);
    assert_int_equal(device.made, 2);
    emx_regcache_query(cache, &info);
    assert_false(info.keeps);
    assert_string_equal(info.watch, "off");
    assert_non_null(strstr(info.reason, "ETHMX_REG_CACHE"));
    end();
}

/* What was asked for and does not work is an error with a reason. */
static void test_asked_in_vain(void **state)
{
    char why[256] = "";

    (void)state;
    emx_config_defaults(&cfg);
    cfg.p_reg_cache = EMX_WATCH_HOST;
    emx_memwatch_host(NULL);
    assert_int_equal(open_cache(why, sizeof(why)), ETHMX_ERR_PARAM);
    assert_non_null(strstr(why, "ETHMX_REG_CACHE"));
    emx_memwatch_host(&host);
}

static void test_wrong_arguments(void **state)
{
    struct emx_region *r;

    (void)state;
    begin(PAGES, 16);
    assert_int_equal(emx_regcache_get(cache, memory, 0, READ, &r), ETHMX_ERR_PARAM);
    assert_int_equal(emx_regcache_get(cache, memory, SIZE_MAX, READ, &r), ETHMX_ERR_PARAM);
    assert_int_equal(emx_regcache_get(cache, memory, SIZE_MAX - (uintptr_t)memory - 1, READ, &r), ETHMX_ERR_PARAM);
    end();
}

/* ---- Overlap ---- */

static void test_joined(void **state)
{
    (void)state;
    begin(PAGES, 16);
    use(0, 8, READ);
    use(2, 8, WRITE);                 /* most of it is there already */
    assert_int_equal(device.live, 2); /* the first one is to be deregistered */
    emx_regcache_sweep(cache);
    assert_int_equal(device.live, 1);
    assert_true(has(0, 10, READ | WRITE));
    use(9, 8, READ); /* one page in common */
    emx_regcache_sweep(cache);
    assert_int_equal(device.live, 2);
    assert_true(has(0, 10, READ) && has(9, 8, READ));
    assert_false(has(0, 17, READ));
    use(0, 17, READ); /* takes the place of both, and may what the first could */
    emx_regcache_sweep(cache);
    assert_int_equal(device.live, 1);
    assert_true(has(0, 17, READ | WRITE));
    end();
}

/* Rows that share pages: one registration each, whatever their order, and none twice. */
static void test_rows(void **state)
{
    struct emx_regcache_info info;

    (void)state;
    begin(3 * PAGES, 64);
    for (unsigned round = 0; round < 3; round++)
        for (unsigned row = 0; row < 12; row++)
            use(row * 5, 6, WRITE);
    assert_int_equal(device.made, 12);
    emx_regcache_query(cache, &info);
    assert_int_equal(info.entries, 12);
    end();
}

/* A part of something large, with more access than it has: once registered anew, then there. */
static void test_more_access(void **state)
{
    (void)state;
    begin(PAGES, 16);
    use(0, 20, READ);
    use(5, 1, WRITE);
    assert_int_equal(device.made, 2);
    use(6, 3, WRITE);
    use(0, 20, READ);
    assert_int_equal(device.made, 2);
    end();
}

/* Memory that may not be written, beside memory that was: what was joined fails, what was asked for does not. */
static void test_joined_in_vain(void **state)
{
    (void)state;
    begin(PAGES, 16);
    use(0, 8, READ);
    device.allowed_to_len = 8 * page;
    use(2, 8, READ);
    assert_int_equal(device.made, 2);
    assert_true(has(0, 8, READ) && has(2, 8, READ));
    device.allowed_access = READ;
    assert_int_equal(emx_regcache_get(cache, memory, page, WRITE, &(struct emx_region *){NULL}), ETHMX_ERR_PARAM);
    assert_int_equal(stats.reg_refused, 3);
    end();
}

/* ---- Bounds ---- */

static void test_oldest_out_first(void **state)
{
    (void)state;
    begin(16, 16); /* the least that ETHMX_REG_MAX allows */
    use(0, 4, READ);
    use(10, 4, READ);
    use(20, 4, READ);
    use(30, 4, READ);
    use(0, 4, READ); /* now younger than the second */
    use(40, 6, READ);
    assert_true(has(0, 4, READ));
    assert_false(has(10, 4, READ) || has(20, 4, READ));
    assert_true(has(30, 4, READ) && has(40, 6, READ));
    assert_int_equal(stats.reg_evicted, 2);
    assert_int_equal(device.most_bytes, 16 * page);
    assert_int_equal(stats.reg_bytes_peak, 16 * page);
    end();
}

static void test_entries(void **state)
{
    struct emx_regcache_info info;
    struct emx_region *a, *b, *c;

    (void)state;
    begin(PAGES, 2);
    use(0, 1, READ);
    use(2, 1, READ);
    use(4, 1, READ);
    emx_regcache_query(cache, &info);
    assert_int_equal(info.entries, 2);
    assert_false(has(0, 1, READ));
    a = get(2, 1, READ);
    b = get(4, 1, READ);
    c = get(6, 1, READ); /* not cached: only for this get() */
    assert_false(has(6, 1, READ));
    emx_regcache_put(cache, a);
    emx_regcache_put(cache, b);
    emx_regcache_put(cache, c);
    end();
}

/* What is out is never taken away; what does not fit is refused and changes nothing. */
static void test_full(void **state)
{
    struct emx_region *a, *b, *c;

    (void)state;
    begin(16, 16);
    a = get(0, 10, READ);
    use(20, 4, READ);
    assert_int_equal(emx_regcache_get(cache, memory + 30 * page, 7 * page, READ, &b), ETHMX_ERR_NO_MEMORY);
    assert_true(has(20, 4, READ));
    assert_int_equal(stats.reg_refused, 1);
    b = get(30, 6, READ);
    assert_int_equal(emx_regcache_get(cache, memory + 40 * page, 1, READ, &c), ETHMX_ERR_NO_MEMORY);
    emx_regcache_put(cache, a);
    c = get(40, 1, READ);
    emx_regcache_put(cache, b);
    emx_regcache_put(cache, c);
    assert_int_equal(emx_regcache_get(cache, memory, 17 * page, READ, &c), ETHMX_ERR_NO_MEMORY);
    end();
}

/* The registrar has less than we think: what is idle is given back, and it is asked again. */
static void test_registrar_full(void **state)
{
    struct emx_region *r;

    (void)state;
    begin(PAGES, 16);
    device.limit_bytes = 10 * page;
    use(0, 4, READ);
    use(10, 4, READ);
    use(20, 4, READ);
    assert_false(has(0, 4, READ));
    assert_true(has(20, 4, READ));
    assert_int_equal(emx_regcache_get(cache, memory, 11 * page, READ, &r), ETHMX_ERR_NO_MEMORY);
    use(0, 4, READ);
    end();
}

static void test_piece(void **state)
{
    size_t first, bytes;

    (void)state;
    begin(64, 16);
    bytes = emx_regcache_piece(cache, (void *)0, SIZE_MAX);
    assert_int_equal(bytes, 16 * page); /* a quarter of all */
    first = emx_regcache_piece(cache, (void *)(bytes + 100), SIZE_MAX / 2);
    assert_int_equal(first, bytes - 100);
    assert_int_equal(emx_regcache_piece(cache, (void *)(bytes + 100), 10), 10);
    end();
}

/* RLIMIT_MEMLOCK is noticed before it is reached, and named. In a child: the limit cannot be raised again. */
static void check_memlock(void)
{
    const struct rlimit limit = {65536, 65536};
    struct emx_regcache_info info;
    bool ok;

    if (setrlimit(RLIMIT_MEMLOCK, &limit) || (!geteuid() && setuid(65534)))
        _exit(2);
    emx_memwatch_host(&host);
    begin(1024, 16);
    emx_regcache_query(cache, &info);
    ok = info.limit_bytes == 65536 && strstr(info.reason, "RLIMIT_MEMLOCK") && strstr(info.reason, "64 KiB");
    use(0, 8, READ);
    use(10, 8, READ);
    use(20, 8, READ);
    ok = ok && device.most_bytes <= 65536;
    end();
    _exit(!ok);
}

static void test_memlock(void **state)
{
    pid_t child;
    int status;

    (void)state;
    child = fork();
    assert_true(child >= 0);
    if (!child)
        check_memlock();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- Pages that go ---- */

static void test_gone(void **state)
{
    struct emx_region *r;

    (void)state;
    begin(PAGES, 16);
    use(0, 4, READ);
    use(10, 4, READ);
    gone(3, 1);
    assert_false(has(0, 1, READ)); /* one registration, so all of it */
    assert_true(has(10, 4, READ));
    assert_int_equal(stats.reg_invalidated, 1);
    r = get(20, 4, READ);
    gone(20, 4);
    assert_false(has(20, 4, READ));
    use(20, 4, READ);
    assert_int_equal(device.made, 4);
    emx_regcache_put(cache, r);
    gone(0, PAGES);
    emx_regcache_sweep(cache);
    assert_int_equal(device.live, 0);
    end();
}

/* Memory that is used once and goes is soon not kept any more; some is, ever more seldom, and as soon as that is used
 * again, all is. */
static void test_not_worth_keeping(void **state)
{
    unsigned kept = 0;

    (void)state;
    begin(PAGES, 16);
    for (unsigned i = 0; i < 2000; i++) {
        use(0, 4, READ);
        kept += has(0, 4, READ);
        gone(0, 4);
    }
    assert_in_range(kept, 12, 20); /* 8, then after 16, 32, 64, 128 and each 256 */
    assert_int_equal(stats.reg_made, 2000);
    assert_int_equal(stats.reg_once, 2000 - kept);
    for (unsigned i = 0; i < 300; i++)
        use(10, 4, READ);
    assert_in_range(stats.reg_made, 2001, 2256);
    use(20, 4, READ);
    assert_true(has(20, 4, READ));
    end();
}

/* Nor is it when whoever uses it looks for it twice. */
static void test_found_in_use(void **state)
{
    unsigned kept = 0;

    (void)state;
    begin(PAGES, 16);
    for (unsigned i = 0; i < 100; i++) {
        struct emx_region *r = get(0, 4, READ);

        use(0, 4, READ);
        kept += has(0, 4, READ);
        emx_regcache_put(cache, r);
        gone(0, 4);
    }
    assert_in_range(kept, 8, 30);
    end();
}

static struct regdevice *registering;

/* Pages go while they are being registered. */
static int reg_while_gone(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    int rc = regdevice_reg(registering, base, len_bytes, access, mr_p);

    (void)arg;
    gone(2, 1);
    return rc;
}

static void test_gone_while_registered(void **state)
{
    struct emx_regcache_params params = {.cfg = &cfg, .registrar = regdevice_registrar(&device), .stats = &stats};
    char why[256];

    (void)state;
    begin(PAGES, 16);
    end();
    registering = &device;
    params.registrar.reg = reg_while_gone;
    assert_int_equal(emx_regcache_open(&cache, &params, why, sizeof(why)), ETHMX_OK);
    use(0, 3, READ);
    assert_false(has(0, 1, READ));
    use(4, 3, READ);
    assert_true(has(4, 1, READ));
    end();
}

/* Pages that are not there are brought in, those that are are left alone, and so is what cannot be written. */
static void test_fault_in(void **state)
{
    struct emx_regcache_params params = {
        .cfg = &cfg, .registrar = regdevice_registrar(&device), .fault_in = true, .stats = &stats};
    unsigned char there;
    char why[256];

    (void)state;
    begin(PAGES, 16);
    end();
    assert_int_equal(madvise(memory, PAGES * page, MADV_DONTNEED), 0);
    assert_int_equal(emx_regcache_open(&cache, &params, why, sizeof(why)), ETHMX_OK);
    use(0, 4, WRITE);
    assert_int_equal(mincore(memory + page, page, &there), 0);
    assert_true(stats.reg_faulted == 1 ? there & 1 : !(there & 1)); /* Linux before 5.14 cannot */
    memset(memory + 10 * page, 1, 4 * page);
    use(10, 4, WRITE);
    assert_true(stats.reg_faulted <= 1);
    assert_int_equal(mprotect(memory + 20 * page, 4 * page, PROT_READ), 0);
    use(20, 4, READ);
    assert_true(stats.reg_faulted <= 1);
    assert_int_equal(mprotect(memory + 20 * page, 4 * page, PROT_READ | PROT_WRITE), 0);
    end();
}

/* ---- Random: seeds ---- */

#define OUT 6

static struct emx_region *out[OUT];

static bool out_is_right(void)
{
    struct emx_regcache_info info;

    emx_regcache_query(cache, &info);
    CHECK(info.bytes == device.bytes && info.bytes <= info.limit_bytes);
    CHECK(info.entries <= cfg.p_reg_entries && info.entries <= device.live);
    CHECK(stats.reg_bytes == device.bytes);
    return true;
}

static bool random_get(struct emx_rng *rng, struct emx_region **r_p)
{
    size_t from = emx_rng_below(rng, PAGES * page - 1);
    size_t len_bytes = 1 + emx_rng_below(rng, 12 * page);
    unsigned access = 1 + (unsigned)emx_rng_below(rng, 3);
    int rc;

    if (len_bytes > PAGES * page - from)
        len_bytes = PAGES * page - from;
    rc = emx_regcache_get(cache, memory + from, len_bytes, access, r_p);
    if (rc) {
        *r_p = NULL;
        CHECK(rc == ETHMX_ERR_NO_MEMORY || (device.allowed_to_len && rc == ETHMX_ERR_PARAM));
        return true;
    }
    CHECK(regdevice_covers(*r_p, memory + from, len_bytes, access));
    CHECK(regdevice_fresh(&device, *r_p, memory + from, len_bytes));
    return true;
}

/* Pages whose content is replaced belong to no buffer under way. */
static bool is_out(size_t at_page)
{
    for (unsigned i = 0; i < OUT; i++)
        if (out[i] && out[i]->base <= (uintptr_t)memory + at_page * page &&
            (uintptr_t)memory + at_page * page < out[i]->base + out[i]->len_bytes)
            return true;
    return false;
}

static void random_gone(struct emx_rng *rng)
{
    size_t from = emx_rng_below(rng, PAGES), pages = 1 + emx_rng_below(rng, 8), n = 0;

    while (n < pages && from + n < PAGES && !is_out(from + n))
        atomic_fetch_add(&generations[from + n++], 1);
    if (n)
        gone(from, n);
}

static bool random_step(struct emx_rng *rng)
{
    unsigned i = (unsigned)emx_rng_below(rng, OUT);

    switch (emx_rng_below(rng, 8)) {
    case 0:
        random_gone(rng);
        break;
    case 1:
        emx_regcache_sweep(cache);
        break;
    default:
        if (!out[i])
            return random_get(rng, &out[i]);
        emx_regcache_put(cache, out[i]);
        out[i] = NULL;
    }
    return true;
}

static bool one_seed(uint64_t seed)
{
    struct emx_rng rng = {seed};
    bool ok = true;

    begin(16 + (unsigned)emx_rng_below(&rng, 64), 1 + (unsigned)emx_rng_below(&rng, 12));
    if (emx_rng_below(&rng, 2))
        device.limit_bytes = (8 + emx_rng_below(&rng, 30)) * page;
    if (!emx_rng_below(&rng, 4))
        device.allowed_to_len = 10 * page;
    for (unsigned i = 0; i < 600 && ok; i++)
        ok = random_step(&rng) && out_is_right();
    for (unsigned i = 0; i < OUT; i++) {
        if (out[i])
            emx_regcache_put(cache, out[i]);
        out[i] = NULL;
    }
    end();
    return ok;
}

static void test_random(void **state)
{
    (void)state;
    each_seed(300, one_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reuse),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_asked_in_vain),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_more_access),
        cmocka_unit_test(test_joined_in_vain),
        cmocka_unit_test(test_oldest_out_first),
        cmocka_unit_test(test_entries),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_registrar_full),
        cmocka_unit_test(test_piece),
        cmocka_unit_test(test_memlock),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_not_worth_keeping),
        cmocka_unit_test(test_found_in_use),
        cmocka_unit_test(test_gone_while_registered),
        cmocka_unit_test(test_fault_in),
        cmocka_unit_test(test_random),
    };

    return cmocka_run_group_tests(tests, setup, NULL);
}
