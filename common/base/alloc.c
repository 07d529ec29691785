/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"

static void *libc_get(void *arg, size_t len_bytes)
{
    (void)arg;
    return malloc(len_bytes);
}

static void libc_put(void *arg, void *ptr)
{
    (void)arg;
    free(ptr);
}

const struct emx_alloc emx_alloc_libc = {libc_get, libc_put, NULL};
