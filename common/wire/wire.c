/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The list of wires.
 */
#include <string.h>

#include "wire/packet/packet.h"
#include "wire/shm/shm.h"
#include "wire/udp/udp.h"
#include "wire/verbs/verbs.h"
#include "wire/xdp/xdp.h"
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
