/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"

static void *alloc_libc_get(void *arg, size_t len_bytes)
{
    (void)arg;
    return malloc(len_bytes);
}

static void alloc_libc_put(void *arg, void *ptr)
{
    (void)arg;
    free(ptr);
}

const struct emx_alloc emx_alloc_libc = {alloc_libc_get, alloc_libc_put, NULL};
