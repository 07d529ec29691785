/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Counts the frames of ethmx that pass an interface, by EtherType, type of service (of IPv6: traffic class) and
 * priority. For test-qos.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERTYPE_IPV4  0x0800
#define ETHERTYPE_IPV6  0x86dd
#define ETHERTYPE_ETHMX 0x88b5
#define AT_IP           14 /* behind the Ethernet header */
#define AT_TOS          15
#define AT_PROTOCOL     23
#define AT_PROTOCOL6    20
#define PROTOCOL_UDP    17

/* Type of service and protocol of an IP packet. 0: they could not be read. */
static __always_inline int qos_read(struct __sk_buff *skb, __u32 ethertype, __u8 *tos, __u8 *protocol)
{
    __u8 begin[2];

    if (ethertype == ETHERTYPE_IPV4)
        return !bpf_skb_load_bytes(skb, AT_PROTOCOL, protocol, 1) && !bpf_skb_load_bytes(skb, AT_TOS, tos, 1);
    if (bpf_skb_load_bytes(skb, AT_PROTOCOL6, protocol, 1) || bpf_skb_load_bytes(skb, AT_IP, begin, 2))
        return 0;
    *tos = begin[0] << 4 | begin[1] >> 4;
    return 1;
}

/* Key: EtherType, type of service, priority, in 16, 8 and 8 bits. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __type(key, __u32);
    __type(value, __u64);
} frames SEC(".maps");

SEC("tc")
int qos_count(struct __sk_buff *skb)
{
    __u32 ethertype = bpf_ntohs(skb->protocol), key;
    __u64 one = 1, *count;
    __u8 tos = 0, protocol;

    if (ethertype == ETHERTYPE_IPV4 || ethertype == ETHERTYPE_IPV6) {
        if (!qos_read(skb, ethertype, &tos, &protocol) || protocol != PROTOCOL_UDP)
            return TC_ACT_OK;
    } else if (ethertype != ETHERTYPE_ETHMX) {
        return TC_ACT_OK;
    }
    key = ethertype << 16 | tos << 8 | (skb->priority & 0xff);
    count = bpf_map_lookup_elem(&frames, &key);
    if (count)
        __sync_fetch_and_add(count, 1);
    else
        bpf_map_update_elem(&frames, &key, &one, BPF_ANY);
    return TC_ACT_OK;
}

char license_text[] SEC("license") = "Dual BSD/GPL";
