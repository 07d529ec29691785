/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of wires.
 */
#include <string.h>

#include "wire/packet.h"
#include "wire/shm.h"
#include "wire/udp.h"
#include "wire/verbs.h"
#include "wire/xdp.h"
#include "wire/wire.h"

const struct emx_wire_ops *const emx_wires[] = {&emx_wire_shm,    &emx_wire_verbs, &emx_wire_xdp,
                                                &emx_wire_packet, &emx_wire_udp,   NULL};

const struct emx_wire_ops *emx_wire_find(const char *name)
{
    for (unsigned i = 0; emx_wires[i]; i++)
        if (!strcmp(emx_wires[i]->name, name))
            return emx_wires[i];
    return NULL;
}
