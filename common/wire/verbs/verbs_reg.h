/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registering memory with an RDMA device, for the files of the verbs wire. Thread-safe.
 */
#ifndef EMX_WIRE_VERBS_REG_H
#define EMX_WIRE_VERBS_REG_H

#include <stddef.h>

struct ibv_mr;
struct ibv_pd;

/* As ibv_reg_mr(), with relaxed ordering where supported. flags: IBV_ACCESS_*. NULL, and errno. */
struct ibv_mr *emx_verbs_reg_mr(struct ibv_pd *pd, void *base, size_t len_bytes, int flags);
/* As emx_registrar.reg and dereg. flags: IBV_ACCESS_*. */
int emx_verbs_reg(struct ibv_pd *pd, void *base, size_t len_bytes, int flags, void **mr_p);
void emx_verbs_dereg(void *arg, void *mr); /* arg: not used */

#endif
