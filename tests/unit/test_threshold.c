/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The registration threshold: found where the costs cross, kept in a file, valid only on the machine that measured it.
 *
 * What is measured takes virtual time: a clock for each thread, which only registering and copying move, by as much as
 * the test says. So the result is the same however slow or busy the machine is.
 */
#define _GNU_SOURCE
#include "unit.h"

#include <fcntl.h>
#include <glob.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mem/threshold.h"
#include "mem/measure.h"
#include "mem/fake_registrar.h"

#define COPY_BYTES_PER_NS 8

static uint64_t fixed_ns; /* of registering, whatever the size */
static _Atomic unsigned calls;
static _Thread_local uint64_t virtual_ns;

static uint64_t virtual_now(void *arg)
{
    (void)arg;
    return virtual_ns;
}

static void slow_copy(void *arg, void *to, const void *from, size_t len_bytes)
{
    (void)arg;
    memcpy(to, from, len_bytes);
    virtual_ns += len_bytes / COPY_BYTES_PER_NS;
}

static int slow_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    (void)arg, (void)base, (void)len_bytes, (void)access;
    virtual_ns += fixed_ns;
    calls++;
    *mr_p = NULL;
    return ETHMX_OK;
}

static int no_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    (void)arg, (void)base, (void)len_bytes, (void)access, (void)mr_p;
    return ETHMX_ERR_NO_MEMORY;
}

static void dereg(void *arg, void *mr)
{
    (void)arg, (void)mr;
}

static const struct emx_registrar slow = {
    .name = "slow", .reg = slow_reg, .dereg = dereg, .now_ns = virtual_now, .copy = slow_copy};
static struct emx_config cfg;
static struct emx_reg_threshold c;
static char how[600], folder[] = "/tmp/ethmx-threshold-XXXXXX", path[128];

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int teardown(void **state)
{
    (void)state;
    return rmdir(folder);
}

static void one_wrong_size_does_not_decide(void **state)
{
    static const uint64_t copy[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    static const struct {
        uint64_t reg[9], from;
    } row[] = {
        {{20, 20, 20, 20, 20, 20, 20, 20, 20}, 131072},
        {{20, 20, 20, 20, 20, 20, 20, 20, 300}, 131072}, /* the largest measured wrong */
        {{20, 20, 20, 20, 20, 20, 90, 20, 20}, 131072},
        {{20, 20, 20, 20, 20, 90, 20, 20, 20}, 262144}, /* beside the threshold: one size late */
        {{20, 1, 20, 20, 20, 20, 20, 20, 20}, 131072},  /* a copy that took too long */
        {{400, 400, 400, 400, 400, 400, 400, 400, 400}, EMX_REG_THRESHOLD_NEVER},
        {{0, 0, 0, 0, 0, 0, 0, 0, 0}, 4096},
        {{1, 2, 4, 8, 16, 32, 64, 128, 256}, EMX_REG_THRESHOLD_NEVER}, /* for nothing nothing is registered */
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++)
        assert_int_equal(emx_threshold(row[i].reg, copy, 9), row[i].from);
}

/* The longer the round trip, the longer the messages that are worth one; more so where memory must be registered. */
static void round_trips_count(void **state)
{
    static const struct emx_costs costs = {
        .count = 9, .reg_ns = {20, 20, 20, 20, 20, 20, 20, 20, 20}, .copy_ns = {1, 2, 4, 8, 16, 32, 64, 128, 256}};
    static const struct {
        uint64_t round_trip_ns, kept, new;
    } row[] = {
        {0, 4096, 131072},
        {3, 16384, 131072}, /* 20 + 9 beside 32 */
        {10, 65536, 262144},
        {75, 524288, 1048576},              /* 245 beside 256 */
        {100, 524288, EMX_THRESHOLD_NEVER}, /* 320 beside 256 */
        {200, 1048576, EMX_THRESHOLD_NEVER},
        {1000, EMX_THRESHOLD_NEVER, EMX_THRESHOLD_NEVER},
    };

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(row); i++) {
        assert_int_equal(emx_threshold_eager(&costs, row[i].round_trip_ns, true), row[i].kept);
        assert_int_equal(emx_threshold_eager(&costs, row[i].round_trip_ns, false), row[i].new);
    }
}

static void get(const char *device)
{
    calls = 0;
    c = (struct emx_reg_threshold){0};
    emx_reg_threshold_get(&slow, device, &cfg, &c, how, sizeof(how));
}

static void begin(void)
{
    emx_config_defaults(&cfg);
    snprintf(path, sizeof(path), "%s/a/b", folder);
    snprintf(cfg.p_reg_file, sizeof(cfg.p_reg_file), "%s", path);
    fixed_ns = 0;
}

static void end(void)
{
    char command[160];

    snprintf(command, sizeof(command), "rm -rf %s/a", folder);
    assert_int_equal(system(command), 0);
}

/* What takes milliseconds is never cheaper than a copy, what takes nothing always is, and what takes as long as copying
 * 124 KiB is from 128 KiB on. */
static void test_measure(void **state)
{
    static const struct {
        uint64_t fixed_ns, from;
    } row[] = {
        {3000000, EMX_REG_THRESHOLD_NEVER}, {0, EMX_THRESHOLD_FIRST}, {124 * 1024 / COPY_BYTES_PER_NS, 128 * 1024}};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(row); i++) {
        fixed_ns = row[i].fixed_ns;
        assert_int_equal(emx_reg_threshold_measure(&slow, &c), ETHMX_OK);
        assert_int_equal(c.resident_bytes, row[i].from);
        assert_int_equal(c.fresh_bytes, row[i].from);
        assert_false(c.fault_in); /* takes no virtual time, so nothing is won by it */
    }
    assert_int_equal(
        emx_reg_threshold_measure(&(struct emx_registrar){.name = "no", .reg = no_reg, .dereg = dereg}, &c),
        ETHMX_ERR_NO_MEMORY);
}

/* Without a clock and a copy of the registrar's own: the machine's. Nothing is said about what they tell. */
static void measures_by_the_machines_clock(void **state)
{
    static const struct emx_registrar plain = {.name = "plain", .reg = slow_reg, .dereg = dereg};
    const struct emx_measure_case mc = {.len_bytes = 1 << 20, .threads = 1, .rounds = 3};
    struct emx_measure m;

    (void)state;
    assert_int_equal(emx_measure(&plain, &mc, &m), ETHMX_OK);
    assert_true(m.copy_ns > 0);
    assert_int_equal(emx_reg_threshold_measure(&plain, &c), ETHMX_OK);
    assert_int_equal(c.way.count, EMX_THRESHOLD_SIZES);
}

static void test_kept(void **state)
{
    struct emx_reg_threshold first;

    (void)state;
    begin();
    get("dev0");
    assert_true(calls > 0);
    assert_non_null(strstr(how, "kept in"));
    first = c;
    get("dev0");
    assert_int_equal(calls, 0);
    assert_non_null(strstr(how, "before"));
    assert_true(c.resident_bytes == first.resident_bytes && c.fresh_bytes == first.fresh_bytes &&
                c.fault_in == first.fault_in);
    assert_int_equal(c.way.count, EMX_THRESHOLD_SIZES);
    assert_memory_equal(&c.way, &first.way, sizeof(c.way));
    get("dev1"); /* another device: not believed */
    assert_true(calls > 0);
    end();
}

static off_t file_bytes(void)
{
    struct stat st;

    assert_int_equal(stat(path, &st), 0);
    return st.st_size;
}

/* Ranks with devices of their own share a file that the user names. Each finds its values again, and each line once;
 * the file does not grow for ever. */
static void each_device_has_its_line(void **state)
{
    struct emx_reg_threshold first;
    char device[16];
    off_t one, two;

    (void)state;
    begin();
    get("dev0");
    first = c;
    one = file_bytes();
    fixed_ns = 3000000;
    get("dev1");
    two = file_bytes();
    assert_true(calls > 0 && c.fresh_bytes == EMX_REG_THRESHOLD_NEVER);
    assert_true(two > one);
    get("dev0");
    assert_int_equal(calls, 0);
    assert_int_equal(c.fresh_bytes, first.fresh_bytes);
    get("dev1");
    assert_int_equal(calls, 0);
    assert_true(c.fresh_bytes == EMX_REG_THRESHOLD_NEVER);
    assert_int_equal(file_bytes(), two);
    fixed_ns = 0;
    for (unsigned i = 2; i < 50; i++) {
        snprintf(device, sizeof(device), "dev%u", i);
        get(device);
        assert_true(file_bytes() < 4096);
    }
    get("dev49");
    assert_int_equal(calls, 0);
    get("dev0"); /* the oldest has gone */
    assert_true(calls > 0);
    end();
}

static void test_told(void **state)
{
    (void)state;
    begin();
    cfg.p_reg_min = 12345;
    get("dev0");
    assert_int_equal(calls, 0);
    assert_int_equal(c.resident_bytes, 12345);
    assert_int_equal(c.way.count, 0);
    assert_string_equal(how, "ETHMX_REG_MIN");
    assert_int_equal(access(path, F_OK), -1);
    end();
}

/* Rubbish in the file, a file that cannot be, none wanted: measured. */
static void test_bad_file(void **state)
{
    static const char *const texts[] = {"",
                                        "ethmx",
                                        "ethmx-reg-threshold-1 0 0 0 0\n",
                                        "ethmx-reg-threshold-2 1 4096 4096 0\n",
                                        "ethmx-reg-threshold-3 zz 1 2 3\n",
                                        "ethmx-reg-threshold-3 1 0 2 0 0\n",
                                        "ethmx-reg-threshold-3 1 1 2 0 10\n",
                                        "ethmx-reg-threshold-3 1 1 2 0 2 5/6\n"};
    int fd;

    (void)state;
    begin();
    get("dev0");
    for (unsigned i = 0; i < ARRAY_LEN(texts); i++) {
        fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        assert_int_equal(write(fd, texts[i], strlen(texts[i])), strlen(texts[i]));
        close(fd);
        get("dev0");
        assert_true(calls > 0);
        get("dev0");
        assert_int_equal(calls, 0);
    }
    end();
    strcpy(cfg.p_reg_file, "/proc/nosuch/file");
    get("dev0");
    assert_true(calls > 0);
    assert_string_equal(how, "measured now");
    strcpy(cfg.p_reg_file, "none");
    get("dev0");
    assert_true(calls > 0);
}

/* The file that processes of this host lock to measure, below the test's folder; it was made by the first that did. */
static int open_lock(const char *below)
{
    char pattern[128];
    glob_t found;
    int fd;

    snprintf(pattern, sizeof(pattern), "%s%s/measuring-*", folder, below);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    assert_int_equal(found.gl_pathc, 1);
    fd = open(found.gl_pathv[0], O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    globfree(&found);
    return fd;
}

/* Another process measures, and does not end: a guess, in the end. */
static void test_busy(void **state)
{
    int fd;

    (void)state;
    begin();
    get("dev0");
    assert_int_equal(truncate(path, 0), 0);
    fd = open_lock("/a");
    assert_int_equal(flock(fd, LOCK_EX), 0);
    get("dev0");
    assert_int_equal(calls, 0);
    assert_non_null(strstr(how, "guess"));
    assert_true(c.resident_bytes > 0 && !c.way.count);
    close(fd);
    get("dev0");
    assert_true(calls > 0);
    end();
}

static int other_file, other_lock;
static char other_text[4096];
static ssize_t other_bytes;

/* Writes when the one that waits has found nothing in the file, which it looks at before it waits. */
static void *ends_measuring(void *arg)
{
    assert_int_equal(pwrite(other_file, other_text, (size_t)other_bytes, 0), other_bytes);
    close(other_file);
    close(other_lock);
    return arg;
}

/* Another process measures the same device: its values are waited for. */
static void waits_for_who_measures(void **state)
{
    struct emx_reg_threshold first;
    pthread_t thread;

    (void)state;
    begin();
    get("dev0");
    first = c;
    other_file = open(path, O_RDWR | O_CLOEXEC);
    other_bytes = pread(other_file, other_text, sizeof(other_text), 0);
    assert_int_equal(ftruncate(other_file, 0), 0);
    other_lock = open_lock("/a");
    assert_int_equal(flock(other_lock, LOCK_EX), 0);
    assert_int_equal(pthread_create(&thread, NULL, ends_measuring, NULL), 0);
    get("dev0");
    pthread_join(thread, NULL);
    assert_int_equal(calls, 0);
    assert_non_null(strstr(how, "before"));
    assert_memory_equal(&c.way, &first.way, sizeof(c.way));
    end();
}

/* Devices with files of their own have a lock in common. */
static void devices_are_measured_one_by_one(void **state)
{
    char command[160];
    int fd;

    (void)state;
    begin();
    cfg.p_reg_file[0] = 0;
    assert_int_equal(setenv("XDG_CACHE_HOME", folder, 1), 0);
    get("dev0");
    assert_true(calls > 0);
    fd = open_lock("/ethmx");
    assert_int_equal(flock(fd, LOCK_EX), 0);
    get("dev1");
    assert_int_equal(calls, 0);
    assert_non_null(strstr(how, "guess"));
    get("dev0"); /* nobody waits for what there is */
    assert_non_null(strstr(how, "before"));
    close(fd);
    get("dev1");
    assert_true(calls > 0);
    snprintf(command, sizeof(command), "rm -r %s/ethmx", folder);
    assert_int_equal(system(command), 0);
    end();
}

/* Another host measures, with the same home. */
static void hosts_do_not_wait_for_each_other(void **state)
{
    char other[128];
    int fd;

    (void)state;
    begin();
    get("dev1"); /* makes the folder */
    snprintf(other, sizeof(other), "%s/a/measuring-%016x", folder, 1);
    fd = open(other, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    get("dev0");
    assert_true(calls > 0);
    assert_non_null(strstr(how, "kept"));
    close(fd);
    assert_int_equal(unlink(other), 0);
    end();
}

/* ---- The measuring itself, and the registrars that stand in for devices ---- */

static void test_bounds(void **state)
{
    struct emx_measure_case mc = {.len_bytes = 8192, .threads = 3, .rounds = 4};
    struct emx_measure m;

    (void)state;
    fixed_ns = 200000;
    assert_int_equal(emx_measure(&slow, &mc, &m), ETHMX_OK);
    assert_int_equal(m.reg_ns, fixed_ns);
    assert_int_equal(m.fault_reg_ns, fixed_ns);
    assert_int_equal(m.dereg_ns, 0);
    assert_int_equal(m.copy_ns, mc.len_bytes / COPY_BYTES_PER_NS);
    mc.threads = EMX_MEASURE_THREADS + 1;
    assert_int_equal(emx_measure(&slow, &mc, &m), ETHMX_ERR_PARAM);
    mc.threads = 1;
    mc.rounds = 0;
    assert_int_equal(emx_measure(&slow, &mc, &m), ETHMX_ERR_PARAM);
    mc.rounds = 1;
    assert_int_equal(emx_measure(&(struct emx_registrar){.name = "no", .reg = no_reg, .dereg = dereg}, &mc, &m),
                     ETHMX_ERR_NO_MEMORY);
}

static void test_standins(void **state)
{
    static const char *const names[] = {"pin", "mlock", NULL};
    struct emx_registrar r;
    char why[256], *mem = aligned_alloc(4096, 65536);
    void *a, *b;

    (void)state;
    assert_non_null(mem);
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        if (emx_fake_registrar_open(names[i], &r, why, sizeof(why))) {
            print_message("left out: %s: %s\n", names[i], why);
            assert_string_equal(names[i], "pin");
            continue;
        }
        assert_true(!names[i] || !strcmp(r.name, names[i]));
        assert_true(strlen(emx_fake_registrar_text(&r)) > 20);
        for (unsigned round = 0; round < 3; round++) {
            assert_int_equal(r.reg(r.arg, mem, 32768, EMX_MEM_READ, &a), ETHMX_OK);
            assert_int_equal(r.reg(r.arg, mem + 32768, 4096, EMX_MEM_WRITE, &b), ETHMX_OK);
            r.dereg(r.arg, a);
            r.dereg(r.arg, b);
        }
        emx_fake_registrar_close(&r);
    }
    assert_int_equal(emx_fake_registrar_open("nosuch", &r, why, sizeof(why)), ETHMX_ERR_PARAM);
    assert_non_null(strstr(why, "nosuch"));
    free(mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_wrong_size_does_not_decide),
                                       cmocka_unit_test(round_trips_count),
                                       cmocka_unit_test(test_measure),
                                       cmocka_unit_test(measures_by_the_machines_clock),
                                       cmocka_unit_test(test_kept),
                                       cmocka_unit_test(each_device_has_its_line),
                                       cmocka_unit_test(test_told),
                                       cmocka_unit_test(test_bad_file),
                                       cmocka_unit_test(test_busy),
                                       cmocka_unit_test(waits_for_who_measures),
                                       cmocka_unit_test(devices_are_measured_one_by_one),
                                       cmocka_unit_test(hosts_do_not_wait_for_each_other),
                                       cmocka_unit_test(test_bounds),
                                       cmocka_unit_test(test_standins)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
