/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "ethmx.h"

#include "base/log.h"
#include "endpoint/sized.h"

int emx_sized_check(size_t struct_bytes, size_t least_bytes, const char *name)
{
    if (struct_bytes >= least_bytes)
        return ETHMX_OK;
    emx_error_set("struct_bytes of struct %s is %zu: the program must set it to sizeof(struct %s)", name, struct_bytes,
                  name);
    return ETHMX_ERR_PARAM;
}

static size_t sized_common(size_t a, size_t b)
{
    return a < b ? a : b;
}

int emx_sized_in(void *own, size_t own_bytes, size_t least_bytes, const void *theirs, size_t struct_bytes,
                 const char *name)
{
    const unsigned char *byte = theirs;
    int rc = emx_sized_check(struct_bytes, least_bytes, name);

    if (rc)
        return rc;
    for (size_t i = own_bytes; i < struct_bytes; i++) {
        if (byte[i]) {
            emx_error_set("the program sets a field of struct %s that this library (%s) does not have: a later version "
                          "of ethmx is needed",
                          name, ethmx_version());
            return ETHMX_ERR_VERSION;
        }
    }
    memset(own, 0, own_bytes);
    memcpy(own, theirs, sized_common(own_bytes, struct_bytes));
    return ETHMX_OK;
}

void emx_sized_out(void *theirs, size_t struct_bytes, const void *own, size_t own_bytes)
{
    memset(theirs, 0, struct_bytes);
    memcpy(theirs, own, sized_common(own_bytes, struct_bytes));
}
