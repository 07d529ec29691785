/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/gso_filter.h"

#include <netinet/udp.h>
#include <string.h>

#include "base/placement.h"
#include "wire/gso.h"

void emx_gso_filter(struct sock_filter code[EMX_GSO_FILTER_CODES], uint32_t udp_at, unsigned loopback_index,
                    uint32_t placed_bytes, uint32_t other_bytes)
{
    const uint32_t frame_at = udp_at + (uint32_t)sizeof(struct udphdr);
    const struct sock_filter filter[EMX_GSO_FILTER_CODES] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_IFINDEX)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, loopback_index, 6, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, udp_at),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, EMX_GSO_RING_PORT, 4, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, frame_at),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EMX_PLACE_MARK_OFF, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, EMX_PLACE_MARK_HEADER, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, placed_bytes),
        BPF_STMT(BPF_RET | BPF_K, other_bytes),
    };

    memcpy(code, filter, sizeof(filter));
}
