/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of wires of the library, and nothing else: a test program that has a table of its own (tests/sim/wires.c)
 * is linked with that instead.
 */
#include "wire/packet/packet.h"
#include "wire/shm/shm.h"
#include "wire/udp/udp.h"
#include "wire/verbs/verbs.h"
#include "wire/xdp/xdp.h"
#include "wire/wire.h"

const struct emx_wire_ops *const emx_wires[] = {&emx_wire_shm,    &emx_wire_verbs, &emx_wire_xdp,
                                                &emx_wire_packet, &emx_wire_udp,   NULL};
