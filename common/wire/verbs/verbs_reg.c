/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Registering memory with an RDMA device, and a registrar that only does that, for measurements.
 *
 * Order. A device may write into this memory in any order (PCIe relaxed ordering), if library, kernel and device
 * support it. Without it a fast card is much slower with some processors. This is safe, because no memory is polled for
 * arrivals. A frame is read after its completion, the data of a read after the completion of the read, and the data of
 * a peer's write after the completion of the frame that announces it. A completion makes everything before it visible
 * (ibv_reg_mr(3)).
 */
#include "wire/verbs/verbs_reg.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/verbs/verbs.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE) /* the most expensive */

static bool verbs_reg_is_want_of_memory(int err)
{
    return err == ENOMEM || err == EAGAIN || err == ENOSPC;
}

/* A kernel that does not know optional flags does not get them (ibv_reg_mr() removes them). A driver may refuse them.
 */
struct ibv_mr *emx_verbs_reg_mr(struct ibv_pd *pd, void *base, size_t len_bytes, int flags)
{
#ifdef IBV_ACCESS_OPTIONAL_RANGE
    struct ibv_mr *mr = ibv_reg_mr(pd, base, len_bytes, flags | IBV_ACCESS_RELAXED_ORDERING);

    if (mr || verbs_reg_is_want_of_memory(errno))
        return mr;
#endif
    return ibv_reg_mr(pd, base, len_bytes, flags);
}

int emx_verbs_reg(struct ibv_pd *pd, void *base, size_t len_bytes, int flags, void **mr_p)
{
    *mr_p = emx_verbs_reg_mr(pd, base, len_bytes, flags);
    if (*mr_p)
        return ETHMX_OK;
    return verbs_reg_is_want_of_memory(errno) ? ETHMX_ERR_NO_MEMORY : ETHMX_ERR_PARAM;
}

static int verbs_reg_full_access(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    (void)access;
    return emx_verbs_reg(arg, base, len_bytes, ACCESS, mr_p);
}

void emx_verbs_dereg(void *arg, void *mr)
{
    (void)arg;
    ibv_dereg_mr(mr);
}

/* The device with this name; NULL: the first. */
static struct ibv_context *verbs_reg_open_device(struct ibv_device **list, const char *name)
{
    for (unsigned i = 0; list && list[i]; i++) {
        struct ibv_context *context =
            !name || !strcmp(name, ibv_get_device_name(list[i])) ? ibv_open_device(list[i]) : NULL;

        if (context)
            return context;
    }
    return NULL;
}

int emx_verbs_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = verbs_reg_open_device(list, name);
    struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

    if (list)
        ibv_free_device_list(list);
    if (pd) {
        *r_p =
            (struct emx_registrar){.name = "verbs", .reg = verbs_reg_full_access, .dereg = emx_verbs_dereg, .arg = pd};
        return ETHMX_OK;
    }
    snprintf(why, why_len_bytes, "there is no RDMA device%s%s that can be opened (`rdma link` lists them)",
             name ? " " : "", name ? name : "");
    if (context)
        ibv_close_device(context);
    return ETHMX_ERR_PARAM;
}

void emx_verbs_registrar_close(struct emx_registrar *r)
{
    struct ibv_pd *pd = r->arg;
    struct ibv_context *context = pd->context;

    ibv_dealloc_pd(pd);
    ibv_close_device(context);
}
