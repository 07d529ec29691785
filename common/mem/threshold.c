/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The file has a line for each device: a word, the hash of what it was measured on (kernel, processor, device), the two
 * lengths, whether to fault in, and the costs of both ends at each length that was measured (registering/copying, ns).
 * A file that the user does not name has one line. Other text in the file is removed at the next write.
 *
 * Ranks that start together on a host must not measure together, or each measures the others. So one process measures
 * at a time, for any device. The others wait for it and read what it has written, if their device is the same. A
 * process that has waited too long guesses. Several hosts may share the folder (a home on NFS) and do not disturb each
 * other: each has a lock file of its own, named after the kernel's boot id, which is created when it measures.
 */
#define _GNU_SOURCE
#include "mem/threshold.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "ethmx.h"
#include "mem/measure.h"

#define WORD        "ethmx-reg-threshold-3"
#define SIZES       EMX_THRESHOLD_SIZES
#define ROUNDS      7
#define PATH_BYTES  512
#define LINE_BYTES  640
#define CPU_BYTES   256
#define FILE_BYTES  4096 /* more is not looked at, the oldest lines go first */
#define GUESS_BYTES 65536
#define WAIT_TIMES  500     /* for another process that measures, */
#define WAIT_NS     2000000 /* so long each */

/* ---- Measuring ---- */

/* Costs of all sizes; returns how many could be measured. */
static unsigned threshold_measure_sizes(const struct emx_registrar *r, bool resident, uint64_t *plain,
                                        uint64_t *faulted, uint64_t *copy)
{
    unsigned n = 0;

    for (; n < SIZES; n++) {
        const struct emx_measure_case c = {.len_bytes = (size_t)EMX_THRESHOLD_FIRST << n,
                                           .threads = 1,
                                           .rounds = ROUNDS,
                                           .minimum = true,
                                           .resident = resident};
        struct emx_measure m;

        if (emx_measure(r, &c, &m))
            break;
        plain[n] = m.reg_ns + m.dereg_ns;
        faulted[n] = m.fault_reg_ns + m.dereg_ns;
        copy[n] = m.copy_ns;
    }
    return n;
}

/* Adds the costs of one end. */
static void threshold_add_end(struct emx_costs *way, const uint64_t *reg_ns, const uint64_t *copy_ns, unsigned n)
{
    if (n < way->count)
        way->count = n;
    for (unsigned i = 0; i < way->count; i++) {
        way->reg_ns[i] += reg_ns[i];
        way->copy_ns[i] += copy_ns[i];
    }
}

int emx_reg_threshold_measure(const struct emx_registrar *r, struct emx_reg_threshold *c_p)
{
    uint64_t plain[SIZES], faulted[SIZES], copy[SIZES], *fresh;
    struct emx_reg_threshold c = {.way.count = SIZES};
    unsigned n = threshold_measure_sizes(r, true, plain, faulted, copy);

    if (!n)
        return ETHMX_ERR_NO_MEMORY;
    c.resident_bytes = emx_threshold(plain, copy, n);
    threshold_add_end(&c.way, plain, copy, n);
    n = threshold_measure_sizes(r, false, plain, faulted, copy);
    if (!n)
        return ETHMX_ERR_NO_MEMORY;
    c.fault_in = faulted[n - 1] < plain[n - 1];
    fresh = c.fault_in ? faulted : plain;
    c.fresh_bytes = emx_threshold(fresh, copy, n);
    threshold_add_end(&c.way, fresh, copy, n);
    *c_p = c;
    return ETHMX_OK;
}

/* ---- The file ---- */

static uint64_t threshold_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = emx_mix64(hash ^ (unsigned char)*text);
    return emx_mix64(hash);
}

static void threshold_processor(char *text, size_t len_bytes)
{
    FILE *f = fopen("/proc/cpuinfo", "re");

    text[0] = 0;
    if (!f)
        return;
    while (fgets(text, (int)len_bytes, f) && strncmp(text, "model name", strlen("model name")))
        text[0] = 0;
    fclose(f);
}

/* What the values were measured on. */
static uint64_t threshold_identity(const struct emx_registrar *r, const char *device)
{
    char cpu[CPU_BYTES];
    struct utsname u;
    uint64_t hash = threshold_hash_text(threshold_hash_text(0, r->name), device);

    threshold_processor(cpu, sizeof(cpu));
    hash = threshold_hash_text(hash, cpu);
    return uname(&u) ? hash : threshold_hash_text(threshold_hash_text(hash, u.release), u.nodename);
}

/* Makes the folders above path. */
static void threshold_make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
}

/* false: there is no home to keep it in. */
static bool threshold_file_name(const struct emx_config *cfg, uint64_t id, char path[PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;

    if (!strcmp(cfg->p_reg_file, "none"))
        return false;
    if (cfg->p_reg_file[0])
        n = snprintf(path, PATH_BYTES, "%s", cfg->p_reg_file);
    else if (cache && cache[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/ethmx/reg-threshold-%016" PRIx64, cache, id);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/.cache/ethmx/reg-threshold-%016" PRIx64, home, id);
    else
        return false;
    return n < PATH_BYTES;
}

/* The file's text, with a zero behind. */
static void threshold_load(int fd, char text[FILE_BYTES])
{
    ssize_t bytes = pread(fd, text, FILE_BYTES - 1, 0);

    text[bytes > 0 ? bytes : 0] = 0;
}

/* A line of the file, and what it was measured on. false: it is none. */
static bool threshold_parse_line(const char *line, uint64_t *id_p, struct emx_reg_threshold *c_p)
{
    unsigned fault_in, count;
    char word[32];
    int at, n;

    memset(c_p, 0, sizeof(*c_p));
    if (sscanf(line, "%31s %" SCNx64 " %" SCNu64 " %" SCNu64 " %u %u%n", word, id_p, &c_p->resident_bytes,
               &c_p->fresh_bytes, &fault_in, &count, &at) != 6 ||
        strcmp(word, WORD) || !c_p->resident_bytes || !c_p->fresh_bytes || fault_in > 1 || count > SIZES)
        return false;
    for (unsigned i = 0; i < count; i++, at += n) {
        if (sscanf(line + at, " %" SCNu64 "/%" SCNu64 "%n", &c_p->way.reg_ns[i], &c_p->way.copy_ns[i], &n) != 2)
            return false;
    }
    c_p->fault_in = fault_in;
    c_p->way.count = count;
    return true;
}

static size_t threshold_print_line(char *line, size_t len_bytes, uint64_t id, const struct emx_reg_threshold *c)
{
    size_t n = (size_t)snprintf(line, len_bytes, "%s %016" PRIx64 " %" PRIu64 " %" PRIu64 " %u %u", WORD, id,
                                c->resident_bytes, c->fresh_bytes, c->fault_in, c->way.count);

    for (unsigned i = 0; i < c->way.count; i++)
        n += (size_t)snprintf(line + n, len_bytes - n, " %" PRIu64 "/%" PRIu64, c->way.reg_ns[i], c->way.copy_ns[i]);
    return n + (size_t)snprintf(line + n, len_bytes - n, "\n");
}

static bool threshold_read_file(int fd, uint64_t id, struct emx_reg_threshold *c_p)
{
    char text[FILE_BYTES], *rest = text, *line;
    struct emx_reg_threshold c;
    uint64_t of;

    threshold_load(fd, text);
    while ((line = strsep(&rest, "\n"))) {
        if (!threshold_parse_line(line, &of, &c) || of != id)
            continue;
        *c_p = c;
        return true;
    }
    return false;
}

/* The newest line stands first. Somebody may read the file at any time: it is written at once, and then cut. */
static bool threshold_write_file(int fd, uint64_t id, const struct emx_reg_threshold *c)
{
    char old[FILE_BYTES], text[FILE_BYTES], *rest = old, *line;
    struct emx_reg_threshold other;
    uint64_t of;
    size_t n = threshold_print_line(text, LINE_BYTES, id, c);

    threshold_load(fd, old);
    while ((line = strsep(&rest, "\n"))) {
        if (!threshold_parse_line(line, &of, &other) || of == id || n + strlen(line) + 1 >= sizeof(text))
            continue;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", line);
    }
    return pwrite(fd, text, n, 0) == (ssize_t)n && !ftruncate(fd, (off_t)n);
}

/* ---- All of it ---- */

static void threshold_guess(struct emx_reg_threshold *c_p, const char *why, char *how, size_t how_len_bytes)
{
    *c_p = (struct emx_reg_threshold){.resident_bytes = GUESS_BYTES, .fresh_bytes = GUESS_BYTES};
    snprintf(how, how_len_bytes, "a guess: %s", why);
}

static void threshold_measure_now(const struct emx_registrar *r, struct emx_reg_threshold *c_p, char *how,
                                  size_t how_len_bytes)
{
    if (emx_reg_threshold_measure(r, c_p))
        threshold_guess(c_p, "nothing can be registered (RLIMIT_MEMLOCK)", how, how_len_bytes);
    else
        snprintf(how, how_len_bytes, "measured now");
}

/* The same in all containers of a host, and in no other host; without /proc the host's name must do. */
static uint64_t threshold_host_number(void)
{
    char text[64] = "";
    struct utsname u;
    FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool known = f && fgets(text, sizeof(text), f);

    if (f)
        fclose(f);
    if (known)
        return threshold_hash_text(1, text);
    return uname(&u) ? 0 : threshold_hash_text(2, u.nodename);
}

/* The file that one process of this host at a time locks to measure; where none can be made, the costs' own. */
static int threshold_open_lock(const char *path)
{
    const char *name = strrchr(path, '/');
    char beside[PATH_BYTES];
    int n = snprintf(beside, sizeof(beside), "%.*smeasuring-%016" PRIx64, name ? (int)(name + 1 - path) : 0, path,
                     threshold_host_number());
    int fd = n < PATH_BYTES ? open(beside, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;

    return fd >= 0 ? fd : open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
}

/* Waits for the process that measures; limited, because it may have been stopped. */
static bool threshold_take_lock(int fd)
{
    const struct timespec pause = {.tv_nsec = WAIT_NS};

    for (unsigned i = 0; i < WAIT_TIMES; i++) {
        if (!flock(fd, LOCK_EX | LOCK_NB))
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

/* Another host may write its line, too. */
static bool threshold_keep(int fd, uint64_t id, const struct emx_reg_threshold *c)
{
    bool kept = threshold_take_lock(fd) && threshold_write_file(fd, id, c);

    flock(fd, LOCK_UN);
    return kept;
}

/* The values are not in the file: waits for the process that writes them, or measures and writes them. */
static void threshold_find(int fd, int lock, const char *path, uint64_t id, const struct emx_registrar *r,
                           struct emx_reg_threshold *c_p, char *how, size_t how_len_bytes)
{
    if (!threshold_take_lock(lock)) {
        threshold_guess(c_p, "another process is measuring it", how, how_len_bytes);
        return;
    }
    if (threshold_read_file(fd, id, c_p)) {
        snprintf(how, how_len_bytes, "measured before (%s)", path);
        return;
    }
    threshold_measure_now(r, c_p, how, how_len_bytes);
    if (!strncmp(how, "measured", strlen("measured")) && threshold_keep(fd, id, c_p))
        snprintf(how, how_len_bytes, "measured now, and kept in %s", path);
}

/* With the file open: reads it, or measures and writes it. */
static void threshold_from_file(int fd, const char *path, uint64_t id, const struct emx_registrar *r,
                                struct emx_reg_threshold *c_p, char *how, size_t how_len_bytes)
{
    int lock;

    if (threshold_read_file(fd, id, c_p)) {
        snprintf(how, how_len_bytes, "measured before (%s)", path);
        return;
    }
    lock = threshold_open_lock(path);
    threshold_find(fd, lock, path, id, r, c_p, how, how_len_bytes);
    if (lock >= 0)
        close(lock);
}

void emx_reg_threshold_get(const struct emx_registrar *r, const char *device, const struct emx_config *cfg,
                           struct emx_reg_threshold *c_p, char *how, size_t how_len_bytes)
{
    uint64_t id = threshold_identity(r, device);
    char path[PATH_BYTES];
    int fd = -1;

    if (cfg->p_reg_min) {
        *c_p = (struct emx_reg_threshold){.resident_bytes = cfg->p_reg_min, .fresh_bytes = cfg->p_reg_min};
        snprintf(how, how_len_bytes, "ETHMX_REG_MIN");
        return;
    }
    if (threshold_file_name(cfg, id, path)) {
        threshold_make_folders(path);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd < 0) {
        threshold_measure_now(r, c_p, how, how_len_bytes);
        return;
    }
    threshold_from_file(fd, path, id, r, c_p, how, how_len_bytes);
    close(fd);
}
