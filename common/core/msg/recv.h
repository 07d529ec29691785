/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receives. engine.h has the functions for programs.
 */
#ifndef EMX_CORE_RECV_H
#define EMX_CORE_RECV_H

#include "core/engine.h"

/* Gives a message back unread. ETHMX_ERR_NO_MEMORY: its sender could not be notified, and the message stays. */
int emx_recv_release(struct emx_engine *e, struct emx_unexpected *a);

#endif
