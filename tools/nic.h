/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nic: what the driver of a network interface tells by ethtool. Every question is one that the kernel answers to all
 * users. Each function returns 0, or the errno with which the kernel refused: EOPNOTSUPP when the driver does not know.
 */
#ifndef EMX_TOOLS_NIC_H
#define EMX_TOOLS_NIC_H

#include <stdbool.h>
#include <stdint.h>

/* Passes an ethtool command (a struct of linux/ethtool.h) to the driver, which fills in the rest. */
typedef int emx_nic_ask(const char *ifname, void *command);

emx_nic_ask emx_nic_ask_kernel;

struct emx_nic_moderation {
    bool adaptive;   /* the driver chooses the time */
    unsigned usecs;  /* between a frame and its interrupt, at most */
    unsigned frames; /* after which it comes earlier */
};

struct emx_nic_queues {
    unsigned rx;      /* that receive */
    unsigned rx_max;  /* that could */
    const char *word; /* how "ethtool -L" calls them: "combined" or "rx" */
};

int emx_nic_moderation(emx_nic_ask *ask, const char *ifname, struct emx_nic_moderation *m_p);
int emx_nic_queues(emx_nic_ask *ask, const char *ifname, struct emx_nic_queues *q_p);

/* Whether the card selects the queue of a UDP/IPv4 frame by its ports too. */
int emx_nic_hashes_udp_ports(emx_nic_ask *ask, const char *ifname, bool *by_ports_p);

/* A feature of "ethtool -k". */
enum emx_nic_feature {
    EMX_NIC_ON,
    EMX_NIC_OFF,
    EMX_NIC_BLOCKED, /* off although it was requested: a feature that it needs is off */
    EMX_NIC_FIXED,   /* off, and the driver cannot switch it on */
};

/* names: the kernel's, with | between several, of which the first state in the order above counts. ENOENT: this kernel
 * has none of them. */
int emx_nic_feature(emx_nic_ask *ask, const char *ifname, const char *names, enum emx_nic_feature *state_p);

#endif
