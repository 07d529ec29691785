/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the MPI test programs share; see mpitest.h.
 */
#include "mpitest.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD_BYTES 64
#define GUARD       0xc3
#define UNTOUCHED   0xa5

static const char *program_name = "?";
static const char *scenario_name = "";
static int world_rank;
static int world_size;

/* ---- Failing ----------------------------------------------------------------------------------------------- */

static void fail_with(const char *file, int line, const char *format, va_list args) __attribute__((noreturn));
static void fail_with(const char *file, int line, const char *format, va_list args)
{
    char sentence[1024];

    vsnprintf(sentence, sizeof(sentence), format, args);
    fprintf(stderr, "FAIL %s, %s, rank %d of %d: %s (%s:%d)\n", program_name, scenario_name, world_rank, world_size,
            sentence, file, line);
    fflush(NULL);
    MPI_Abort(MPI_COMM_WORLD, 1);
    exit(1);
}

void mt_fail_at(const char *file, int line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail_with(file, line, format, args);
}

void mt_ok_at(const char *file, int line, const char *call, int error)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;

    if (error == MPI_SUCCESS)
        return;
    MPI_Error_string(error, text, &len);
    mt_fail_at(file, line, "%s returned %s", call, text);
}

void mt_error_at(const char *file, int line, const char *call, int class, int error)
{
    char expected[MPI_MAX_ERROR_STRING] = "";
    char text[MPI_MAX_ERROR_STRING] = "";
    int len, got;

    MPI_Error_class(error, &got);
    if (got == class)
        return;
    MPI_Error_string(class, expected, &len);
    MPI_Error_string(error, text, &len);
    mt_fail_at(file, line, "%s returned %s, not %s", call, text, expected);
}

void mt_skip(MPI_Comm comm, const char *format, ...)
{
    va_list args;

    if (mt_rank(comm) != 0)
        return;
    va_start(args, format);
    printf("SKIP %s, %s: ", program_name, scenario_name);
    vprintf(format, args);
    printf("\n");
    va_end(args);
}

bool mt_transport_is(const char *name)
{
    const char *transport = getenv("MT_TRANSPORT");

    return transport && !strcmp(transport, name);
}

void mt_status_at(const char *file, int line, const MPI_Status *status, int source, int tag, size_t len_bytes)
{
    MPI_Count bytes = -1;

    if (status->MPI_SOURCE != source)
        mt_fail_at(file, line, "status says source %d, not %d", status->MPI_SOURCE, source);
    if (status->MPI_TAG != tag)
        mt_fail_at(file, line, "status says tag %d, not %d", status->MPI_TAG, tag);
    mt_ok_at(file, line, "MPI_Get_elements_x", MPI_Get_elements_x(status, MPI_BYTE, &bytes));
    if (bytes != (MPI_Count)len_bytes)
        mt_fail_at(file, line, "status says %lld bytes, not %zu", (long long)bytes, len_bytes);
}

/* ---- Scenarios --------------------------------------------------------------------------------------------- */

static bool chosen(int argc, char **argv, const char *name)
{
    if (argc < 2)
        return true;
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], name))
            return true;
    return false;
}

static void run_scenario(const struct mt_scenario *s)
{
    MPI_Comm comm;
    double start;

    scenario_name = s->name;
    if (world_size < s->min_ranks) {
        mt_skip(MPI_COMM_WORLD, "needs %d ranks, has %d", s->min_ranks, world_size);
        return;
    }
    mt_ok(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
    mt_ok(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN));
    mt_ok(MPI_Barrier(comm));
    start = MPI_Wtime();
    s->run(comm);
    mt_ok(MPI_Barrier(comm));
    mt_ok(MPI_Comm_free(&comm));
    if (world_rank == 0) {
        printf("  %s: ok, %.2f s\n", s->name, MPI_Wtime() - start);
        fflush(stdout);
    }
}

int mt_main(int argc, char **argv, int thread_level, const struct mt_scenario *table)
{
    const char *slash = strrchr(argv[0], '/');
    int provided, ran = 0;

    program_name = slash ? slash + 1 : argv[0];
    MPI_Init_thread(&argc, &argv, thread_level, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    MPI_Comm_size(MPI_COMM_WORLD, &world_size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    mt_check(provided >= thread_level, "MPI_Init_thread provided thread level %d, %d was asked for", provided,
             thread_level);
    for (const struct mt_scenario *s = table; s->name; s++) {
        if (!chosen(argc, argv, s->name))
            continue;
        run_scenario(s);
        ran++;
    }
    scenario_name = "end";
    mt_check(ran > 0, "no scenario of this name");
    MPI_Finalize();
    return 0;
}

int mt_rank(MPI_Comm comm)
{
    int rank;

    mt_ok(MPI_Comm_rank(comm, &rank));
    return rank;
}

int mt_size(MPI_Comm comm)
{
    int size;

    mt_ok(MPI_Comm_size(comm, &size));
    return size;
}

int mt_partner(MPI_Comm comm)
{
    int half = mt_size(comm) / 2;
    int rank = mt_rank(comm);

    if (rank >= 2 * half)
        return -1;
    return rank < half ? rank + half : rank - half;
}

/* ---- Random numbers and patterns ---------------------------------------------------------------------------- */

/* The finishing steps of splitmix64: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x;
}

static uint64_t random_next(struct mt_random *r)
{
    r->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(r->state);
}

size_t mt_random_below(struct mt_random *r, size_t limit)
{
    return (size_t)(random_next(r) % limit);
}

void mt_random_shuffle(struct mt_random *r, int *array, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)mt_random_below(r, (size_t)i + 1);
        int kept = array[i];

        array[i] = array[j];
        array[j] = kept;
    }
}

uint64_t mt_seed(uint64_t a, uint64_t b, uint64_t c)
{
    return mix(a + UINT64_C(0x9e3779b97f4a7c15) * (mix(b + 1) + 31 * mix(c + 2)));
}

/* Eight bytes of the pattern at once. */
static uint64_t pattern_word(uint64_t seed, size_t index)
{
    return mix(seed + UINT64_C(0x9e3779b97f4a7c15) * index);
}

static uint8_t pattern_byte(uint64_t seed, size_t i)
{
    return (uint8_t)(pattern_word(seed, i / 8) >> (8 * (i % 8)));
}

void mt_fill(void *buf, size_t len_bytes, uint64_t seed)
{
    uint8_t *bytes = buf;
    size_t whole = len_bytes / 8;

    for (size_t i = 0; i < whole; i++) {
        uint64_t word = pattern_word(seed, i);

        memcpy(bytes + 8 * i, &word, 8);
    }
    for (size_t i = 8 * whole; i < len_bytes; i++)
        bytes[i] = pattern_byte(seed, i);
}

/* Index of the first byte that differs from the pattern, or len_bytes. */
static size_t pattern_differs(const void *buf, size_t len_bytes, uint64_t seed)
{
    const uint8_t *bytes = buf;
    size_t whole = len_bytes / 8;
    size_t i;

    for (i = 0; i < whole; i++) {
        uint64_t word;

        memcpy(&word, bytes + 8 * i, 8);
        if (word != pattern_word(seed, i))
            break;
    }
    for (i *= 8; i < len_bytes; i++)
        if (bytes[i] != pattern_byte(seed, i))
            break;
    return i;
}

void mt_check_fill_at(const char *file, int line, const void *buf, size_t len_bytes, uint64_t seed, const char *what)
{
    const uint8_t *bytes = buf;
    size_t i = pattern_differs(buf, len_bytes, seed);

    if (i < len_bytes)
        mt_fail_at(file, line, "%s: byte %zu of %zu is 0x%02x, not 0x%02x", what, i, len_bytes, bytes[i],
                   pattern_byte(seed, i));
}

/* ---- Memory ------------------------------------------------------------------------------------------------- */

/* Stands before a buffer, then GUARD_BYTES, the buffer, GUARD_BYTES. */
struct head {
    size_t len_bytes;
    uint8_t padding[GUARD_BYTES - sizeof(size_t)];
    uint8_t guard[GUARD_BYTES];
};

void *mt_alloc_at(const char *file, int line, size_t len_bytes)
{
    struct head *head = malloc(sizeof(*head) + len_bytes + GUARD_BYTES);
    uint8_t *buf;

    if (!head)
        mt_fail_at(file, line, "no memory for %zu bytes", len_bytes);
    buf = (uint8_t *)(head + 1);
    head->len_bytes = len_bytes;
    memset(head->guard, GUARD, GUARD_BYTES);
    memset(buf, UNTOUCHED, len_bytes);
    memset(buf + len_bytes, GUARD, GUARD_BYTES);
    return buf;
}

void mt_free_at(const char *file, int line, void *buf)
{
    struct head *head = (struct head *)buf - 1;
    const uint8_t *after = (const uint8_t *)buf + head->len_bytes;

    for (size_t i = 0; i < GUARD_BYTES; i++) {
        if (head->guard[i] != GUARD)
            mt_fail_at(file, line, "%zu bytes before a buffer were written to", GUARD_BYTES - i);
        if (after[i] != GUARD)
            mt_fail_at(file, line, "byte %zu after a buffer of %zu bytes was written to", i, head->len_bytes);
    }
    free(head);
}

void mt_check_untouched_at(const char *file, int line, const void *buf, size_t len_bytes, const char *what)
{
    const uint8_t *bytes = buf;

    for (size_t i = 0; i < len_bytes; i++)
        if (bytes[i] != UNTOUCHED)
            mt_fail_at(file, line, "%s: byte %zu, which nothing should write to, is 0x%02x", what, i, bytes[i]);
}

size_t mt_resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    size_t pages = 0;

    mt_check(f && fscanf(f, "%*s %zu", &pages) == 1, "cannot read /proc/self/statm");
    fclose(f);
    return pages * 4096;
}
