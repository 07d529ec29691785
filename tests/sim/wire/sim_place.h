/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulated wire's address.
 */
#ifndef SIM_PLACE_H
#define SIM_PLACE_H

#include <stdint.h>

struct sim_place {
    uint32_t node;
    uint32_t wire;
    uint32_t party; /* the process: only itself can be read, not one that comes after it */
    uint32_t lost;  /* frames to it get lost, if not 0 */
    uint32_t home;  /* of wire 0: the interface's address as the peer has told it; frames to another get lost */
};

#endif
