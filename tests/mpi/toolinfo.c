/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What MPI_T shows: all variables can be listed and read. With MT_TOOL_PREFIX (such as mtl_ethmx_) there must be
 * control and performance variables of that prefix, and counters of messages that count.
 */
#include "mpitest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 256, TEXT = 1024 };

/* Must not match when there is no prefix to look for. */
static bool of_ours(const char *name)
{
    const char *prefix = getenv("MT_TOOL_PREFIX");

    return prefix && !strncmp(name, prefix, strlen(prefix));
}

static void run_control_variables(MPI_Comm comm)
{
    int provided, count, found = 0;

    (void)comm;
    mt_ok(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    mt_ok(MPI_T_cvar_get_num(&count));
    for (int i = 0; i < count; i++) {
        char name[NAME], text[TEXT];
        int name_len = NAME, text_len = TEXT, verbosity, bind, scope;
        MPI_Datatype type;
        MPI_T_enum kind;

        if (MPI_T_cvar_get_info(i, name, &name_len, &verbosity, &type, &kind, text, &text_len, &bind, &scope) !=
            MPI_SUCCESS)
            continue;
        if (!of_ours(name) || strstr(name, "_version")) /* Open MPI adds three of its own to each component */
            continue;
        found++;
        mt_check(text_len > 2, "control variable %s has no description", name);
    }
    mt_check(!getenv("MT_TOOL_PREFIX") || found > 0, "there are no control variables %s*", getenv("MT_TOOL_PREFIX"));
    mt_ok(MPI_T_finalize());
}

/* Index of our performance variable whose name ends so, or -1. found_p: how many variables are ours. */
static int pvar_find(const char *ending, int *found_p)
{
    int count, index = -1;

    *found_p = 0;
    mt_ok(MPI_T_pvar_get_num(&count));
    for (int i = 0; i < count; i++) {
        char name[NAME], text[TEXT];
        int name_len = NAME, text_len = TEXT, verbosity, class, bind, readonly, continuous, atomic;
        MPI_Datatype type;
        MPI_T_enum kind;

        if (MPI_T_pvar_get_info(i, name, &name_len, &verbosity, &class, &type, &kind, text, &text_len, &bind, &readonly,
                                &continuous, &atomic) != MPI_SUCCESS)
            continue;
        if (!of_ours(name))
            continue;
        ++*found_p;
        mt_check(text_len > 2, "performance variable %s has no description", name);
        if (strlen(name) >= strlen(ending) && !strcmp(name + strlen(name) - strlen(ending), ending)) {
            mt_check(type == MPI_UNSIGNED_LONG_LONG || type == MPI_UNSIGNED_LONG, "%s is no 64-bit number", name);
            index = i;
        }
    }
    return index;
}

static unsigned long long pvar_read(MPI_T_pvar_session session, MPI_T_pvar_handle handle)
{
    unsigned long long value = 0;

    mt_ok(MPI_T_pvar_read(session, handle, &value));
    return value;
}

/* Counts while 10 messages are sent. */
static void pvar_count(MPI_Comm comm, int index)
{
    int partner = mt_partner(comm), value = 1, count;
    unsigned long long before, after;
    MPI_T_pvar_session session;
    MPI_T_pvar_handle handle;

    mt_ok(MPI_T_pvar_session_create(&session));
    mt_ok(MPI_T_pvar_handle_alloc(session, index, NULL, &handle, &count));
    mt_check(count == 1, "the counter of messages has %d values", count);
    MPI_T_pvar_start(session, handle); /* an error for those that always count */
    before = pvar_read(session, handle);
    for (int i = 0; i < 10 && partner >= 0; i++)
        mt_ok(MPI_Sendrecv_replace(&value, 1, MPI_INT, partner, 1, partner, 1, comm, MPI_STATUS_IGNORE));
    after = pvar_read(session, handle);
    mt_check(partner < 0 || after >= before + 10, "after 10 messages the counter went from %llu to %llu", before,
             after);
    mt_ok(MPI_T_pvar_handle_free(session, &handle));
    mt_ok(MPI_T_pvar_session_free(&session));
}

static void run_performance_variables(MPI_Comm comm)
{
    int provided, found, index;

    mt_ok(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
    index = pvar_find("msgs_sent", &found);
    if (getenv("MT_TOOL_PREFIX")) {
        mt_check(found > 0, "there are no performance variables %s*", getenv("MT_TOOL_PREFIX"));
        mt_check(index >= 0, "there is no counter of messages sent");
        pvar_count(comm, index);
    }
    mt_ok(MPI_T_finalize());
}

static const struct mt_scenario scenarios[] = {
    {"control-variables", 1, run_control_variables},
    {"performance-variables", 2, run_performance_variables},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
