/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulator's table of wires. It takes the place of the library's (common/wire/wire.c).
 */
#include <stddef.h>

#include "wire/sim_wire.h"

const struct emx_wire_ops *const emx_wires[] = {&emx_wire_sim, NULL};
