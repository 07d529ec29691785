/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The file has a line for each device: a word, the hash of what it was measured on (kernel, processor, device), and the
 * three values. Unless it is named by the user it has one line. What is not such a line goes when one is written.
 * Ranks that start together on a host must not measure together, or each measures the others: the first locks the file;
 * the others, if nothing is in it yet, guess this time.
 */
#define _GNU_SOURCE
#include "mem/critical.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/hash.h"
#include "ethmx.h"
#include "mem/measure.h"

#define WORD        "ethmx-critical-size-2"
#define SMALLEST    4096
#define LARGEST     (1u << 20)
#define SIZES       9 /* doubling */
#define ROUNDS      7
#define PATH_BYTES  512
#define LINE_BYTES  256
#define FILE_BYTES  4096 /* more is not looked at, the oldest lines go first */
#define GUESS_BYTES 65536

/* ---- Measuring ---- */

/* By how many thousandths a is more than b; twice as much and more are alike. */
static uint64_t regret(uint64_t a, uint64_t b)
{
    if (a <= b)
        return 0;
    return a >= 2 * b ? 1000 : (a - b) * 1000 / b;
}

uint64_t emx_critical_crossing(const uint64_t *reg_ns, const uint64_t *copy_ns, unsigned n)
{
    uint64_t least = UINT64_MAX, from = EMX_CRITICAL_NEVER;

    for (unsigned k = n + 1; k--;) {
        uint64_t sum = 0;

        for (unsigned i = 0; i < n; i++)
            sum += i < k ? regret(copy_ns[i], reg_ns[i]) : regret(reg_ns[i], copy_ns[i]);
        if (sum >= least)
            continue;
        least = sum;
        from = k < n ? (uint64_t)SMALLEST << k : EMX_CRITICAL_NEVER;
    }
    return from;
}

/* Costs of all sizes; returns how many could be measured. */
static unsigned measure_sizes(const struct emx_registrar *r, bool resident, uint64_t *plain, uint64_t *faulted,
                              uint64_t *copy)
{
    unsigned n = 0;

    for (; n < SIZES; n++) {
        const struct emx_measure_case c = {
            .len_bytes = (size_t)SMALLEST << n, .threads = 1, .rounds = ROUNDS, .least = true, .resident = resident};
        struct emx_measure m;

        if (emx_measure(r, &c, &m))
            break;
        plain[n] = m.reg_ns + m.dereg_ns;
        faulted[n] = m.fault_reg_ns + m.dereg_ns;
        copy[n] = m.copy_ns;
    }
    return n;
}

int emx_critical_measure(const struct emx_registrar *r, struct emx_critical *c_p)
{
    uint64_t plain[SIZES], faulted[SIZES], copy[SIZES];
    unsigned n = measure_sizes(r, true, plain, faulted, copy);

    if (!n)
        return ETHMX_ERR_NO_MEMORY;
    c_p->resident_bytes = emx_critical_crossing(plain, copy, n);
    n = measure_sizes(r, false, plain, faulted, copy);
    if (!n)
        return ETHMX_ERR_NO_MEMORY;
    c_p->fault_in = faulted[n - 1] < plain[n - 1];
    c_p->fresh_bytes = emx_critical_crossing(c_p->fault_in ? faulted : plain, copy, n);
    return ETHMX_OK;
}

/* ---- The file ---- */

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = emx_mix64(hash ^ (unsigned char)*text);
    return emx_mix64(hash);
}

static void processor(char *text, size_t len_bytes)
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
static uint64_t identity(const struct emx_registrar *r, const char *device)
{
    char cpu[LINE_BYTES];
    struct utsname u;
    uint64_t hash = hash_text(hash_text(0, r->name), device);

    processor(cpu, sizeof(cpu));
    hash = hash_text(hash, cpu);
    return uname(&u) ? hash : hash_text(hash_text(hash, u.release), u.nodename);
}

/* Makes the folders above path. */
static void make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = 0;
        mkdir(path, 0700);
        *at = '/';
    }
}

/* false: there is no home to keep it in. */
static bool file_name(const struct emx_config *cfg, uint64_t id, char path[PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int n;

    if (!strcmp(cfg->p_reg_file, "none"))
        return false;
    if (cfg->p_reg_file[0])
        n = snprintf(path, PATH_BYTES, "%s", cfg->p_reg_file);
    else if (cache && cache[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/ethmx/critical-size-%016" PRIx64, cache, id);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_BYTES, "%s/.cache/ethmx/critical-size-%016" PRIx64, home, id);
    else
        return false;
    return n < PATH_BYTES;
}

/* The file's text, with a zero behind. */
static void load(int fd, char text[FILE_BYTES])
{
    ssize_t bytes = pread(fd, text, FILE_BYTES - 1, 0);

    text[bytes > 0 ? bytes : 0] = 0;
}

/* A line of the file, and what it was measured on. false: it is none. */
static bool parse_line(const char *line, uint64_t *id_p, struct emx_critical *c_p)
{
    unsigned fault_in;
    char word[32];

    if (sscanf(line, "%31s %" SCNx64 " %" SCNu64 " %" SCNu64 " %u", word, id_p, &c_p->resident_bytes, &c_p->fresh_bytes,
               &fault_in) != 5 ||
        strcmp(word, WORD) || !c_p->resident_bytes || !c_p->fresh_bytes || fault_in > 1)
        return false;
    c_p->fault_in = fault_in;
    return true;
}

static bool read_file(int fd, uint64_t id, struct emx_critical *c_p)
{
    char text[FILE_BYTES], *rest = text, *line;
    struct emx_critical c;
    uint64_t of;

    load(fd, text);
    while ((line = strsep(&rest, "\n"))) {
        if (!parse_line(line, &of, &c) || of != id)
            continue;
        *c_p = c;
        return true;
    }
    return false;
}

/* The newest line stands first. Somebody may read the file at any time: it is written at once, and then cut. */
static bool write_file(int fd, uint64_t id, const struct emx_critical *c)
{
    char old[FILE_BYTES], text[FILE_BYTES], *rest = old, *line;
    struct emx_critical other;
    uint64_t of;
    size_t n = (size_t)snprintf(text, sizeof(text), "%s %016" PRIx64 " %" PRIu64 " %" PRIu64 " %u\n", WORD, id,
                                c->resident_bytes, c->fresh_bytes, c->fault_in);

    load(fd, old);
    while ((line = strsep(&rest, "\n"))) {
        if (!parse_line(line, &of, &other) || of == id || n + strlen(line) + 1 >= sizeof(text))
            continue;
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s\n", line);
    }
    return pwrite(fd, text, n, 0) == (ssize_t)n && !ftruncate(fd, (off_t)n);
}

/* ---- All of it ---- */

static void guess(struct emx_critical *c_p, const char *why, char *how, size_t how_len_bytes)
{
    *c_p = (struct emx_critical){.resident_bytes = GUESS_BYTES, .fresh_bytes = GUESS_BYTES};
    snprintf(how, how_len_bytes, "a guess: %s", why);
}

static void measure_now(const struct emx_registrar *r, struct emx_critical *c_p, char *how, size_t how_len_bytes)
{
    if (emx_critical_measure(r, c_p))
        guess(c_p, "nothing can be registered (RLIMIT_MEMLOCK)", how, how_len_bytes);
    else
        snprintf(how, how_len_bytes, "measured now");
}

/* With the file open: reads it, or measures and writes it. */
static void from_file(int fd, const char *path, uint64_t id, const struct emx_registrar *r, struct emx_critical *c_p,
                      char *how, size_t how_len_bytes)
{
    if (read_file(fd, id, c_p)) {
        snprintf(how, how_len_bytes, "measured before (%s)", path);
        return;
    }
    if (flock(fd, LOCK_EX | LOCK_NB)) {
        guess(c_p, "another process is measuring it", how, how_len_bytes);
        return;
    }
    if (read_file(fd, id, c_p)) {
        snprintf(how, how_len_bytes, "measured before (%s)", path);
        return;
    }
    measure_now(r, c_p, how, how_len_bytes);
    if (!strncmp(how, "measured", strlen("measured")) && write_file(fd, id, c_p))
        snprintf(how, how_len_bytes, "measured now, and kept in %s", path);
}

void emx_critical_get(const struct emx_registrar *r, const char *device, const struct emx_config *cfg,
                      struct emx_critical *c_p, char *how, size_t how_len_bytes)
{
    uint64_t id = identity(r, device);
    char path[PATH_BYTES];
    int fd = -1;

    if (cfg->p_reg_min) {
        *c_p = (struct emx_critical){.resident_bytes = cfg->p_reg_min, .fresh_bytes = cfg->p_reg_min};
        snprintf(how, how_len_bytes, "ETHMX_REG_MIN");
        return;
    }
    if (file_name(cfg, id, path)) {
        make_folders(path);
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd < 0) {
        measure_now(r, c_p, how, how_len_bytes);
        return;
    }
    from_file(fd, path, id, r, c_p, how, how_len_bytes);
    close(fd);
}
