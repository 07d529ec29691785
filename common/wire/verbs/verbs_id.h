/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Options of rdma_cm's identifiers.
 */
#ifndef EMX_WIRE_VERBS_ID_H
#define EMX_WIRE_VERBS_ID_H

#include <rdma/rdma_cma.h>

#include "base/config.h"
#include "base/log.h"

/* Sets how long the device waits for acknowledgements (ETHMX_VERBS_ACK_TIMEOUT), before the connection is made. */
void emx_verbs_id_set_ack_timeout(struct rdma_cm_id *id, const struct emx_config *cfg);

/* Sets the type of service of the connection's packets (ETHMX_TOS); 0: leaves the device's. Called before the
 * destination is resolved, or before a listener listens. With RoCE the accepting side takes the other's type of
 * service, with iWARP its listener's. refused: log level of a failure. */
void emx_verbs_id_set_tos(struct rdma_cm_id *id, const struct emx_config *cfg, enum emx_log_level refused);

#endif
