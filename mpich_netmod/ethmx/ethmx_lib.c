/* SPDX-License-Identifier: BSD-3-Clause */
#include "mpidimpl.h"

#include "ethmx_lib.h"

#include <dlfcn.h>

struct MPIDI_ETHMX_lib MPIDI_ETHMX_lib;

static const struct {
    const char *symbol;
    size_t offset; /* of its pointer */
} calls[] = {
#define CALL(name) {"ethmx_" #name, offsetof(struct MPIDI_ETHMX_lib, name)},
    MPIDI_ETHMX_CALLS(CALL)
#undef CALL
};

/* Found by LD_LIBRARY_PATH, or where it was when MPICH was built. */
const char *MPIDI_ETHMX_lib_load(void)
{
    static char why[512];
    void *all = dlopen(NULL, RTLD_NOW); /* what LD_PRELOAD puts before it counts */

    if (!all || !dlopen(MPIDI_ETHMX_LIBRARY, RTLD_NOW | RTLD_GLOBAL)) {
        snprintf(why, sizeof(why), "%s. Install ethmx there, or name its folder in LD_LIBRARY_PATH", dlerror());
        return why;
    }
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *call = dlsym(all, calls[i].symbol);

        if (!call) {
            snprintf(why, sizeof(why), "%s. It is too old for this MPICH", dlerror());
            return why;
        }
        memcpy((char *)&MPIDI_ETHMX_lib + calls[i].offset, &call, sizeof(call));
    }
    return NULL;
}
