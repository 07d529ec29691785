/* SPDX-License-Identifier: BSD-3-Clause */
#include "mem/fork.h"

#include <stdio.h>

bool emx_fork_takes_pinned(const char *release)
{
    unsigned major, minor;

    return sscanf(release, "%u.%u", &major, &minor) != 2 || major < 5 || (major == 5 && minor < 12);
}
