/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Passes Open MPI's memory hooks to ethmx: they report memory that leaves the process. ethmx asks for them only where
 * it keeps memory registered with a device and the kernel does not report that.
 */
#include "mtl_ethmx.h"

#include "opal/mca/memory/base/base.h"
#include "opal/memoryhooks/memory.h"

static void memory_released(void *base, size_t len_bytes, void *arg, bool from_alloc)
{
    (void)arg, (void)from_alloc;
    ethmx_memory_gone(base, len_bytes);
}

/* Open MPI patches libc only when somebody opens the framework that does so, and only then knows whether it works. */
static bool memory_tell(bool on)
{
    if (!on) {
        (void)opal_mem_hooks_unregister_release(memory_released);
        (void)mca_base_framework_close(&opal_memory_base_framework);
        return false;
    }
    if (OPAL_SUCCESS != mca_base_framework_open(&opal_memory_base_framework, 0)) {
        return false;
    }
    if (0 != (opal_mem_hooks_support_level() & OPAL_MEMORY_MUNMAP_SUPPORT) &&
        OPAL_SUCCESS == opal_mem_hooks_register_release(memory_released, NULL)) {
        return true;
    }
    (void)mca_base_framework_close(&opal_memory_base_framework);
    return false;
}

static const struct ethmx_memory_host host = {.struct_bytes = sizeof(host), .name = "Open MPI", .tell = memory_tell};

void mtl_ethmx_memory_offer(bool on)
{
    ethmx_memory_host(on ? &host : NULL);
}
