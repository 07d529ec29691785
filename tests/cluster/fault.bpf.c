/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bad wire: drops, corrupts, duplicates and holds back frames by chance.
 *
 * It sits on the switch's end of a node's link, where each frame passes however it was sent or will be received: at
 * ingress are the frames that the node sends, at egress those that it shall receive. Rules and counters are kept for
 * each port and direction apart (slot).
 *
 *            ethmx-nI                                   ethmx-held  ~~~~~~~  ethmx-holder
 *   node --- fault_out ---> bridge                           ^                  |
 *                |                                           |             `holder` waits
 *                +--- by chance: mark = slot, redirect ------+                  |
 *                                                            |                  |
 *   node ---> (as new) <--------- release <------------------+------------------+
 *
 * With a rate, frames that the node shall receive are also marked (CE of RFC 3168) while the queue behind, a token
 * bucket (tbf), is long; kernels need not have a queueing discipline that does that. How long it is follows from what
 * went into it, since the bucket, the rate and what finds no room are known: here is the same bucket, as the time at
 * which it would be full again.
 *
 * A frame that waits in a port of the switch belongs to the socket that sent it all that time, since all this is one
 * kernel. What a NIC has sent does not. TCP keeps only about a millisecond's worth of frames below itself (TSQ), and
 * would let the switch's queue to the others. So frames can be disowned: a clone has no socket.
 *
 * A frame must pass once only: a clone and a frame that comes back carry MARK_PASS. A mark cannot come from a node,
 * since the kernel clears it where a frame crosses from one network namespace into another.
 */
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define N_SLOTS          1024
#define LEN_ETH_HEAD     14
#define ETHERTYPE_IPV4   0x0800
#define ETHERTYPE_IPV6   0x86dd
#define AT_IPV4_PROTOCOL (LEN_ETH_HEAD + 9)
#define AT_IPV4_TO       (LEN_ETH_HEAD + 16)
#define AT_IPV6_PROTOCOL (LEN_ETH_HEAD + 6)

#define MARK_PASS 0x45580000u
#define MARK_HELD 0x45590000u
#define MARK_KIND 0xffff0000u
#define MARK_SLOT 0x0000ffffu

enum direction {
    DIR_OUT, /* the node sends */
    DIR_IN,  /* the node receives */
};

/* Chances are in millionths. */
struct rule {
    __u32 ethertype; /* these frames only; 0: all */
    __u32 protocol;  /* these IP packets only; 0: all */
    __u32 drop;
    __u32 dup;
    __u32 reorder;
    __u32 corrupt;
    __u32 rate_bytes; /* in a second, of the queue behind; 0: nothing is marked */
    __u32 mark_us;    /* the time that the bucket lacks when the queue is so long that frames are marked, */
    __u32 most_us;    /* and when the queue is full */
    __u32 disown;     /* frames are the sender's no longer */
    __u32 nowhere;    /* IPv4 packets to 0.0.0.0 only */
};

struct count {
    __u64 seen; /* frames that a rule was for */
    __u64 dropped;
    __u64 duplicated;
    __u64 held;
    __u64 released;
    __u64 corrupted;
    __u64 marked;
};

struct bucket {
    struct bpf_spin_lock lock;
    __u64 full_ns; /* when it is full again */
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, N_SLOTS);
    __type(key, __u32);
    __type(value, struct rule);
} rules SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, N_SLOTS);
    __type(key, __u32);
    __type(value, struct count);
} counts SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, N_SLOTS);
    __type(key, __u32);
    __type(value, struct bucket);
} buckets SEC(".maps");

static __always_inline int by_chance(__u32 millionths)
{
    return millionths && bpf_get_prandom_u32() % 1000000 < millionths;
}

static __always_inline void add_one(__u64 *counter)
{
    __sync_fetch_and_add(counter, 1);
}

/* One bit anywhere behind the Ethernet header, so that the frame still gets where it is going. */
static __always_inline int corrupt(struct __sk_buff *skb)
{
    __u32 at;
    __u8 byte;

    if (skb->len <= LEN_ETH_HEAD)
        return 0;
    at = LEN_ETH_HEAD + bpf_get_prandom_u32() % (skb->len - LEN_ETH_HEAD);
    if (bpf_skb_load_bytes(skb, at, &byte, 1))
        return 0;
    byte ^= 1u << (bpf_get_prandom_u32() & 7);
    return bpf_skb_store_bytes(skb, at, &byte, 1, 0) == 0;
}

/* The frame once more, from here on. */
static __always_inline int duplicate(struct __sk_buff *skb, enum direction dir)
{
    int err;

    skb->mark = MARK_PASS;
    err = bpf_clone_redirect(skb, skb->ifindex, dir == DIR_OUT ? BPF_F_INGRESS : 0);
    skb->mark = 0;
    return err == 0;
}

/* Puts the frame into the queue behind; whether that is long then. */
static __always_inline int queue_is_long(struct __sk_buff *skb, __u32 slot, const struct rule *rule)
{
    struct bucket *b = bpf_map_lookup_elem(&buckets, &slot);
    __u64 now_ns = bpf_ktime_get_ns(), lacks_ns, takes_ns = skb->wire_len * 1000000000ull / rule->rate_bytes;

    if (!b)
        return 0;
    bpf_spin_lock(&b->lock);
    if (b->full_ns < now_ns)
        b->full_ns = now_ns;
    if (b->full_ns + takes_ns <= now_ns + rule->most_us * 1000ull)
        b->full_ns += takes_ns;
    lacks_ns = b->full_ns - now_ns;
    bpf_spin_unlock(&b->lock);
    return lacks_ns > rule->mark_us * 1000ull;
}

static __always_inline int is_to_nowhere(struct __sk_buff *skb)
{
    __u32 to;

    return skb->protocol == bpf_htons(ETHERTYPE_IPV4) && !bpf_skb_load_bytes(skb, AT_IPV4_TO, &to, sizeof(to)) && !to;
}

static __always_inline int is_meant(struct __sk_buff *skb, const struct rule *rule)
{
    __u8 protocol;

    if (rule->nowhere && !is_to_nowhere(skb))
        return 0;
    if (rule->ethertype && skb->protocol != bpf_htons(rule->ethertype))
        return 0;
    if (!rule->protocol)
        return 1;
    if (skb->protocol == bpf_htons(ETHERTYPE_IPV4))
        return !bpf_skb_load_bytes(skb, AT_IPV4_PROTOCOL, &protocol, 1) && protocol == rule->protocol;
    return skb->protocol == bpf_htons(ETHERTYPE_IPV6) && !bpf_skb_load_bytes(skb, AT_IPV6_PROTOCOL, &protocol, 1) &&
           protocol == rule->protocol;
}

static __always_inline int fault(struct __sk_buff *skb, enum direction dir)
{
    __u32 slot = skb->ifindex * 2 + dir;
    struct rule *rule = bpf_map_lookup_elem(&rules, &slot);
    struct count *count = bpf_map_lookup_elem(&counts, &slot);

    if (skb->mark == MARK_PASS) {
        skb->mark = 0;
        return TC_ACT_OK;
    }
    if (!rule || !count)
        return TC_ACT_OK;
    if (dir == DIR_IN && rule->rate_bytes && queue_is_long(skb, slot, rule) && bpf_skb_ecn_set_ce(skb) == 1)
        add_one(&count->marked);
    if (!(rule->drop | rule->dup | rule->reorder | rule->corrupt | rule->disown))
        return TC_ACT_OK;
    if (!is_meant(skb, rule))
        return TC_ACT_OK;
    add_one(&count->seen);
    if (by_chance(rule->drop)) {
        add_one(&count->dropped);
        return TC_ACT_SHOT;
    }
    if (by_chance(rule->corrupt) && corrupt(skb))
        add_one(&count->corrupted);
    if (by_chance(rule->dup) && duplicate(skb, dir))
        add_one(&count->duplicated);
    if (by_chance(rule->reorder)) {
        add_one(&count->held);
        skb->mark = MARK_HELD | slot;
        return bpf_redirect(HELD_IFINDEX, 0);
    }
    return rule->disown && duplicate(skb, dir) ? TC_ACT_SHOT : TC_ACT_OK;
}

SEC("tc")
int fault_out(struct __sk_buff *skb)
{
    return fault(skb, DIR_OUT);
}

SEC("tc")
int fault_in(struct __sk_buff *skb)
{
    return fault(skb, DIR_IN);
}

/* At ingress of ethmx-held: a frame comes back from the holder and goes on where it was taken. */
SEC("tc")
int fault_release(struct __sk_buff *skb)
{
    __u32 slot = skb->mark & MARK_SLOT;
    struct count *count = bpf_map_lookup_elem(&counts, &slot);

    if ((skb->mark & MARK_KIND) != MARK_HELD || !count)
        return TC_ACT_SHOT;
    add_one(&count->released);
    skb->mark = MARK_PASS;
    return bpf_redirect(slot / 2, slot % 2 == DIR_OUT ? BPF_F_INGRESS : 0);
}

char license_text[] SEC("license") = "Dual BSD/GPL";
