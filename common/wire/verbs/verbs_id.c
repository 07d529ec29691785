/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/verbs/verbs_id.h"

#include <errno.h>
#include <string.h>

#define ACK_UNIT_NS      4096ull
#define ACK_EXPONENT_MAX 31

/* With rdma_cm's default a RoCE connection stalls for seconds after a loss that the other side does not report. The
 * value is an exponent, of which 0 means for ever. Before Linux 5.2 the default cannot be changed. */
void emx_verbs_id_set_ack_timeout(struct rdma_cm_id *id, const struct emx_config *cfg)
{
    uint8_t exponent = 1;

    while (exponent < ACK_EXPONENT_MAX && ACK_UNIT_NS << exponent < cfg->p_verbs_ack_timeout)
        exponent++;
    if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent, sizeof(exponent)))
        emx_log(EMX_LOG_DEBUG, "verbs: the time until devices send again cannot be set: %s", strerror(errno));
}

/* The device sets the ECN bits itself, for its own congestion control. */
void emx_verbs_id_set_tos(struct rdma_cm_id *id, const struct emx_config *cfg, enum emx_log_level refused)
{
    uint8_t tos = (uint8_t)cfg->p_tos;

    if (tos && rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
        emx_log(refused, "verbs: ETHMX_TOS has no effect: rdma_cm refuses the type of service (%s)", strerror(errno));
}
