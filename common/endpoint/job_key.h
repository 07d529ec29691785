/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The key of a job's run. The ids and the cookie of its endpoints, and the names under which its ranks find each other
 * on a host, are made from it.
 */
#ifndef EMX_ENDPOINT_JOB_KEY_H
#define EMX_ENDPOINT_JOB_KEY_H

#include <stdint.h>

/* key: from the launcher, the same in all processes of a job. Changes it so that it is another one in each run, where
 * the environment says that the launcher uses it again. A key of zeros, which stands for none, stays. */
void emx_job_key_of_run(uint8_t key[16]);

#endif
