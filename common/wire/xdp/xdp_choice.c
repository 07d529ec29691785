/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/xdp/xdp_choice.h"

#include <string.h>

/* A program "in the driver" makes most drivers set up their queues anew, so that the link is down for a moment, and
 * each interface takes memory for all ranks. So without ETHMX_IF it is the preferred one only, and not also the one by
 * which the host is managed. */
bool emx_xdp_takes(const struct emx_netif *nif, bool named)
{
    return nif->chosen && nif->has_mac && !nif->loopback && (named || nif->rank == 0);
}

/* Interfaces on top of others. Their programs "in the driver" run in the ports, and a frame there has the port's name
 * and queue: the kernel drops it before a socket of the upper one. The generic hook comes after the frame has gone up.
 */
static bool xdp_choice_has_ports(const char *kind)
{
    return !strcmp(kind, "bond") || !strcmp(kind, "team");
}

/* Veth pairs have no card that could give frames to a program before the kernel has made packets of them: for a program
 * "in the driver" it copies each packet anew, and it gives up segmentation offload towards its other end, for TCP too.
 * The generic hook costs less. */
unsigned emx_xdp_modes(const char *kind, unsigned wanted, enum emx_xdp_mode mode[EMX_XDP_MODES])
{
    unsigned first = !strcmp(kind, "veth") ? EMX_XDP_GENERIC : EMX_XDP_NATIVE;

    if (xdp_choice_has_ports(kind)) {
        mode[0] = EMX_XDP_GENERIC;
        return !wanted || wanted - 1 == EMX_XDP_GENERIC;
    }
    if (wanted) {
        mode[0] = (enum emx_xdp_mode)(wanted - 1);
        return 1;
    }
    for (unsigned i = 0; i < EMX_XDP_MODES; i++)
        mode[i] = (enum emx_xdp_mode)((first + i) % EMX_XDP_MODES);
    return EMX_XDP_MODES;
}
