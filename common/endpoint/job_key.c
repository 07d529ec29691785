/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Slurm gives a step no key, only a name: the numbers of job and step. MPI libraries make their key from it. A job that
 * is requeued keeps its number, and each cluster counts its jobs from 1. So two runs would have the same key, and the
 * ids of their endpoints, which are to be new for each process, would be the same: frames of processes that outlived
 * the first run, on a node that was out of reach, would be taken by the second.
 *
 * All processes of a step see the same values of these variables. Those that mpirun starts through other means may see
 * none: their ids are those of another group then, and only the ranks of one host share a name, as they need.
 *
 * Nothing of this is secret: such a key separates jobs and authenticates nothing.
 */
#include "endpoint/job_key.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

static const char *const job_key_variables[] = {"SLURM_CLUSTER_NAME", "SLURM_RESTART_COUNT"};

/* Where each variable begins is part of the hash. */
static uint64_t job_key_mix_text(uint64_t hash, const char *text)
{
    for (; *text; text++)
        hash = emx_mix64(hash * 257 + (unsigned char)*text + 1);
    return emx_mix64(hash + 1);
}

void emx_job_key_of_run(uint8_t key[16])
{
    uint64_t half[2], run = 0;

    for (unsigned i = 0; i < sizeof(job_key_variables) / sizeof(job_key_variables[0]); i++) {
        const char *value = getenv(job_key_variables[i]);

        if (value)
            run = job_key_mix_text(run + i, value);
    }
    memcpy(half, key, sizeof(half));
    if (!run || (!half[0] && !half[1]))
        return;
    half[0] ^= run;
    half[1] ^= emx_mix64(run + 1);
    if (!half[0] && !half[1])
        half[0] = 1;
    memcpy(key, half, sizeof(half));
}
