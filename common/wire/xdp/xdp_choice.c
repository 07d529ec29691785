/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/xdp/xdp_choice.h"

#include <string.h>

#define CHUNK_BYTES      2048
#define CHUNK_MOST_BYTES 4096 /* a page */

/* A program "in the driver" makes most drivers reconfigure their queues, so that the link is briefly down, and each
 * interface takes memory for all ranks. So without ETHMX_IF only the preferred interface is used, and not also the one
 * for managing the host. */
bool emx_xdp_takes(const struct emx_netif *nif, bool named)
{
    return nif->chosen && nif->has_mac && !nif->loopback && (named || nif->rank == 0);
}

/* Interfaces on top of others. A program "in the driver" of these runs in the lower ports. There a frame has the port's
 * name and queue, and the kernel drops it before it reaches a socket of the upper interface. The generic hook runs
 * after the frame has been passed up. */
static bool xdp_choice_has_ports(const char *kind)
{
    return !strcmp(kind, "bond") || !strcmp(kind, "team");
}

/* Veth pairs have no card, so programs see packets that the kernel has already made. For a program "in the driver" the
 * kernel copies each packet, and disables segmentation offload towards the other end, for TCP too. The generic hook
 * costs less. */
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

/* With zero copy these drivers tell the card the length of the buffer in a chunk as a number of whole KiB. Frames that
 * are longer come in pieces (igb, igc), or not at all (ixgbe, of its cards the 82599). */
static bool xdp_choice_counts_kib(const char *driver)
{
    return !strcmp(driver, "igb") || !strcmp(driver, "igc") || !strcmp(driver, "ixgbe");
}

static bool xdp_choice_fits(const char *driver, unsigned frame_bytes, unsigned buffer_bytes)
{
    return frame_bytes <= (xdp_choice_counts_kib(driver) ? buffer_bytes / 1024 * 1024 : buffer_bytes);
}

unsigned emx_xdp_chunk_bytes(const char *driver, unsigned frame_bytes, unsigned room_bytes, bool *several_p)
{
    *several_p = !xdp_choice_fits(driver, frame_bytes, CHUNK_MOST_BYTES - room_bytes);
    return xdp_choice_fits(driver, frame_bytes, CHUNK_BYTES - room_bytes) ? CHUNK_BYTES : CHUNK_MOST_BYTES;
}
