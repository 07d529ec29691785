/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that the endpoint has allocated for regions.
 */
#ifndef EMX_ENDPOINT_RMA_H
#define EMX_ENDPOINT_RMA_H

struct ethmx_ep;

/* The endpoint is being closed: its engine and wires are gone. */
void emx_rma_free_segments(struct ethmx_ep *ep);

#endif
