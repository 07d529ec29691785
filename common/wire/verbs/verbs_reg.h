/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registering memory with an RDMA device: for the verbs wire's own files.
 */
#ifndef EMX_WIRE_VERBS_REG_H
#define EMX_WIRE_VERBS_REG_H

#include <stddef.h>

struct ibv_mr;
struct ibv_pd;

/* As ibv_reg_mr(), and the device may write in any order. flags: IBV_ACCESS_*. NULL: errno. */
struct ibv_mr *emx_verbs_reg_mr(struct ibv_pd *pd, void *base, size_t len_bytes, int flags);
/* Results as of emx_registrar.reg. flags: IBV_ACCESS_*. */
int emx_verbs_reg(struct ibv_pd *pd, void *base, size_t len_bytes, int flags, void **mr_p);
void emx_verbs_dereg(void *arg, void *mr); /* arg: not used */

#endif
