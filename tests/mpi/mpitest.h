/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the MPI test programs share: a table of scenarios, failing with a sentence, byte patterns and guarded buffers.
 *
 * A program is a table of scenarios and calls mt_main(). Each scenario runs on a fresh duplicate of MPI_COMM_WORLD
 * with MPI_ERRORS_RETURN, between barriers. A check that does not hold prints one sentence (program, scenario, rank,
 * what was expected, what came) and ends the job with exit code 1. A scenario that this job cannot run (too few
 * ranks, say) prints "SKIP" and why; the driver shows such lines.
 *
 * Patterns: byte i of the message with seed s is mt_byte(s, i), so that any misplaced, repeated or foreign byte shows.
 */
#ifndef MPITEST_H
#define MPITEST_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_scenario {
    const char *name;
    int min_ranks;
    void (*run)(MPI_Comm comm);
};

/* Runs the scenarios of the table, which ends with a NULL name. thread_level: what MPI_Init_thread() must provide.
 * Arguments that are names of scenarios choose these. Returns the exit code. */
int mt_main(int argc, char **argv, int thread_level, const struct mt_scenario *table);

/* Prints "program, scenario, rank r of n: sentence (file:line)" and aborts the job. */
void mt_fail_at(const char *file, int line, const char *format, ...) __attribute__((noreturn, format(printf, 3, 4)));
#define mt_fail(...) mt_fail_at(__FILE__, __LINE__, __VA_ARGS__)

#define mt_check(condition, ...)                                                                                       \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            mt_fail(__VA_ARGS__);                                                                                      \
    } while (0)

/* The call must return MPI_SUCCESS. */
#define mt_ok(call) mt_ok_at(__FILE__, __LINE__, #call, (call))
void mt_ok_at(const char *file, int line, const char *call, int error);

/* The call must return this error class. */
#define mt_error(class, call) mt_error_at(__FILE__, __LINE__, #call, (class), (call))
void mt_error_at(const char *file, int line, const char *call, int class, int error);

/* Rank 0 prints that something is not run and why. */
void mt_skip(MPI_Comm comm, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The driver says which transport is under test (MT_TRANSPORT): some have known faults of their own. */
bool mt_transport_is(const char *name);

/* The status must have this source, tag, and len_bytes bytes of MPI_BYTE. Its error field is only set by calls that
 * complete several requests, and is not looked at. */
#define mt_status(status, source, tag, len_bytes)                                                                      \
    mt_status_at(__FILE__, __LINE__, (status), (source), (tag), (len_bytes))
void mt_status_at(const char *file, int line, const MPI_Status *status, int source, int tag, size_t len_bytes);

int mt_rank(MPI_Comm comm);
int mt_size(MPI_Comm comm);

/* A partner to exchange with: the world is cut in two halves (of different nodes when ranks are placed by node).
 * -1: none, the number of ranks is odd and this is the last. */
int mt_partner(MPI_Comm comm);

/* ---- Patterns --------------------------------------------------------------------------------------------- */

void mt_fill(void *buf, size_t len_bytes, uint64_t seed);

/* buf must hold the pattern. what: names the message. */
#define mt_check_fill(buf, len_bytes, seed, what)                                                                      \
    mt_check_fill_at(__FILE__, __LINE__, (buf), (len_bytes), (seed), (what))
void mt_check_fill_at(const char *file, int line, const void *buf, size_t len_bytes, uint64_t seed, const char *what);

/* A seed made of what identifies a message. */
uint64_t mt_seed(uint64_t a, uint64_t b, uint64_t c);

/* ---- Random numbers, equal everywhere --------------------------------------------------------------------- */

struct mt_random {
    uint64_t state;
};
size_t mt_random_below(struct mt_random *r, size_t limit);
void mt_random_shuffle(struct mt_random *r, int *array, int count);

/* ---- Memory ------------------------------------------------------------------------------------------------ */

/* A buffer of len_bytes between guards, filled with 0xa5. mt_free() fails when a guard was written to. */
#define mt_alloc(len_bytes) mt_alloc_at(__FILE__, __LINE__, (len_bytes))
void *mt_alloc_at(const char *file, int line, size_t len_bytes);
#define mt_free(buf) mt_free_at(__FILE__, __LINE__, (buf))
void mt_free_at(const char *file, int line, void *buf);

/* All len_bytes must still be 0xa5. */
#define mt_check_untouched(buf, len_bytes, what) mt_check_untouched_at(__FILE__, __LINE__, (buf), (len_bytes), (what))
void mt_check_untouched_at(const char *file, int line, const void *buf, size_t len_bytes, const char *what);

/* Resident memory of this process in bytes. */
size_t mt_resident_bytes(void);

#define MT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
