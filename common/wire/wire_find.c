/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "wire/wire.h"

const struct emx_wire_ops *emx_wire_find(const char *name)
{
    for (unsigned i = 0; emx_wires[i]; i++)
        if (!strcmp(emx_wires[i]->name, name))
            return emx_wires[i];
    return NULL;
}
