/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Capture: writes the frames of a simulation to a file in pcap's format, as an Ethernet of EtherType 0x88b5.
 */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include <stdint.h>

struct sim_frame;

/* Writes the frame if the environment names a file in EMX_PCAP. */
void sim_capture(const struct sim_frame *f, uint64_t at_ns);

#endif
