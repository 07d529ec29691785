/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Counters of ethmx, by the names of its table, as MPI_T tells them: for programs that print their sums over all ranks,
 * "counter NAME VALUE". A library that has no such counter counts nothing: 0.
 */
#ifndef MPITEST_COUNTERS_H
#define MPITEST_COUNTERS_H

#include "mpitest.h"

#include <stdio.h>
#include <string.h>

enum { COUNTERS_MAX = 16 };

static MPI_T_pvar_session counters;
static MPI_T_pvar_handle counter[COUNTERS_MAX]; /* MPI_T_PVAR_HANDLE_NULL: there is none, it counts as 0 */

/* Index of ethmx's performance variable of that name, or -1. */
static int counter_find(const char *wanted)
{
    int count;

    mt_ok(MPI_T_pvar_get_num(&count));
    for (int i = 0; i < count; i++) {
        char name[256], text[1024];
        int name_len = sizeof(name), text_len = sizeof(text), verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum kind;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &kind, text, &text_len, &bind, &readonly,
                                &continuous, &atomic) == MPI_SUCCESS &&
            !strncmp(name, "mtl_ethmx_", 10) && !strcmp(name + 10, wanted))
            return i;
    }
    return -1;
}

/* After MPI_Init. Open MPI counts from here. */
static void counters_open(int count, char **names)
{
    int provided, elements;

    mt_check(count <= COUNTERS_MAX, "at most %d counters", COUNTERS_MAX);
    mt_ok(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    mt_ok(MPI_T_pvar_session_create(&counters));
    for (int i = 0; i < count; i++) {
        int index = counter_find(names[i]);

        counter[i] = MPI_T_PVAR_HANDLE_NULL;
        if (index >= 0)
            mt_ok(MPI_T_pvar_handle_alloc(counters, index, NULL, &counter[i], &elements));
    }
}

/* Before MPI_Finalize. */
static void counters_print(int count, char **names, int rank)
{
    for (int i = 0; i < count; i++) {
        unsigned long long mine = 0, sum = 0;

        if (counter[i] != MPI_T_PVAR_HANDLE_NULL)
            mt_ok(MPI_T_pvar_read(counters, counter[i], &mine));
        mt_ok(MPI_Reduce(&mine, &sum, 1, MPI_UNSIGNED_LONG_LONG, MPI_SUM, 0, MPI_COMM_WORLD));
        if (rank == 0)
            printf("counter %s %llu\n", names[i], sum);
    }
    mt_ok(MPI_T_pvar_session_free(&counters));
    mt_ok(MPI_T_finalize());
}

#endif
