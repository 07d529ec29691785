/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "nic.h"

#define NIC_FEATURES_MAX 1024 /* the kernel has fewer than 100 */

int emx_nic_ask_kernel(const char *ifname, void *command)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), err = 0;
    struct ifreq ifr = {.ifr_data = command};

    if (fd < 0)
        return errno;
    snprintf(ifr.ifr_name, sizeof(ifr.ifr_name), "%s", ifname);
    if (ioctl(fd, SIOCETHTOOL, &ifr))
        err = errno;
    close(fd);
    return err;
}

int emx_nic_moderation(emx_nic_ask *ask, const char *ifname, struct emx_nic_moderation *m_p)
{
    struct ethtool_coalesce c = {.cmd = ETHTOOL_GCOALESCE};
    int err = ask(ifname, &c);

    if (!err)
        *m_p = (struct emx_nic_moderation){
            .adaptive = c.use_adaptive_rx_coalesce,
            .usecs = c.rx_coalesce_usecs,
            .frames = c.rx_max_coalesced_frames,
        };
    return err;
}

int emx_nic_queues(emx_nic_ask *ask, const char *ifname, struct emx_nic_queues *q_p)
{
    struct ethtool_channels c = {.cmd = ETHTOOL_GCHANNELS};
    int err = ask(ifname, &c);

    if (err)
        return err;
    if (!(c.rx_count + c.combined_count))
        return EOPNOTSUPP;
    *q_p = (struct emx_nic_queues){
        .rx = c.rx_count + c.combined_count,
        .rx_max = c.max_combined ? c.max_combined : c.max_rx,
        .word = c.max_combined ? "combined" : "rx",
    };
    return 0;
}

int emx_nic_hashes_udp_ports(emx_nic_ask *ask, const char *ifname, bool *by_ports_p)
{
    struct ethtool_rxnfc c = {.cmd = ETHTOOL_GRXFH, .flow_type = UDP_V4_FLOW};
    int err = ask(ifname, &c);

    if (!err)
        *by_ports_p = (c.data & RXH_L4_B_0_1) && (c.data & RXH_L4_B_2_3);
    return err;
}

/* ---- Features --------------------------------------------------------------------------------------------- */

static int nic_feature_count(emx_nic_ask *ask, const char *ifname, unsigned *count_p)
{
    union {
        struct ethtool_sset_info info;
        uint8_t room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)]; /* for one count */
    } c = {.info = {.cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ull << ETH_SS_FEATURES}};
    int err = ask(ifname, &c);

    if (err)
        return err;
    *count_p = c.info.data[0];
    return c.info.sset_mask && *count_p && *count_p <= NIC_FEATURES_MAX ? 0 : EOPNOTSUPP;
}

/* Whether name is one of names, which have | between them. */
static bool nic_is_one_of(const char *name, const char *names)
{
    size_t len = strnlen(name, ETH_GSTRING_LEN);

    for (; *names; names += strcspn(names, "|"), names += *names == '|')
        if (strcspn(names, "|") == len && !memcmp(names, name, len))
            return true;
    return false;
}

static enum emx_nic_feature nic_feature_state(const struct ethtool_get_features_block *b, uint32_t bit)
{
    if (b->active & bit)
        return EMX_NIC_ON;
    if (!(b->available & bit) || b->never_changed & bit)
        return EMX_NIC_FIXED;
    return b->requested & bit ? EMX_NIC_BLOCKED : EMX_NIC_OFF;
}

/* Finds names among the count features that s lists. */
static int nic_feature_find(emx_nic_ask *ask, const char *ifname, const struct ethtool_gstrings *s, unsigned count,
                            const char *names, enum emx_nic_feature *state_p)
{
    union {
        struct ethtool_gfeatures head;
        uint8_t
            room[sizeof(struct ethtool_gfeatures) + NIC_FEATURES_MAX / 32 * sizeof(struct ethtool_get_features_block)];
    } f = {.head = {.cmd = ETHTOOL_GFEATURES, .size = (count + 31) / 32}};
    enum emx_nic_feature first = EMX_NIC_FIXED, state;
    bool found = false;
    int err = ask(ifname, &f);

    if (err)
        return err;
    for (unsigned i = 0; i < count; i++) {
        if (!nic_is_one_of((const char *)s->data + (size_t)i * ETH_GSTRING_LEN, names))
            continue;
        state = nic_feature_state(&f.head.features[i / 32], 1u << i % 32);
        first = state < first ? state : first;
        found = true;
    }
    *state_p = first;
    return found ? 0 : ENOENT;
}

int emx_nic_feature(emx_nic_ask *ask, const char *ifname, const char *names, enum emx_nic_feature *state_p)
{
    struct ethtool_gstrings *s;
    unsigned count;
    int err = nic_feature_count(ask, ifname, &count);

    if (err)
        return err;
    s = calloc(1, sizeof(*s) + (size_t)count * ETH_GSTRING_LEN);
    if (!s)
        return ENOMEM;
    s->cmd = ETHTOOL_GSTRINGS;
    s->string_set = ETH_SS_FEATURES;
    s->len = count;
    err = ask(ifname, s);
    if (!err)
        err = nic_feature_find(ask, ifname, s, count, names, state_p);
    free(s);
    return err;
}
