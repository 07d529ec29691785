/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The kernel counts pages pinned for devices (VmPin) against RLIMIT_MEMLOCK, apart from pages locked by mlock()
 * (VmLck), and limits nobody who has CAP_IPC_LOCK. Where the fake registrar is mlock(), VmLck counts; so both
 * are taken.
 */
#define _GNU_SOURCE
#include "mem/memlock.h"

#include <linux/capability.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool memlock_may_pin_all(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};

    if (syscall(SYS_capget, &head, data))
        return false;
    return data[CAP_TO_INDEX(CAP_IPC_LOCK)].effective & CAP_TO_MASK(CAP_IPC_LOCK);
}

static uint64_t memlock_pinned_now(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    unsigned long long kib, sum = 0;
    char line[128];

    if (!f)
        return 0;
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "VmPin: %llu", &kib) == 1 || sscanf(line, "VmLck: %llu", &kib) == 1)
            sum += kib;
    }
    fclose(f);
    return sum * 1024;
}

uint64_t emx_memlock_left(void)
{
    uint64_t pinned;
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || memlock_may_pin_all())
        return UINT64_MAX;
    pinned = memlock_pinned_now();
    return limit.rlim_cur > pinned ? limit.rlim_cur - pinned : 0;
}
