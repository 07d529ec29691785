/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Info check: what on this host costs ethmx latency or bandwidth, and the command that changes it. It only looks.
 * A table has the checks; each row has a function that looks at one thing.
 */
#ifndef EMX_TOOLS_INFO_CHECK_H
#define EMX_TOOLS_INFO_CHECK_H

#include <sched.h>
#include <stdbool.h>

#include "ethmx.h"
#include "nic.h"

enum emx_verdict { EMX_FINE, EMX_COSTS, EMX_NOT_SEEN };

struct emx_finding {
    const char *where; /* an interface, or "host" */
    const char *name;  /* of the check */
    enum emx_verdict verdict;
    const char *is;      /* what was found; why it was not seen */
    const char *cost;    /* "" unless the verdict is EMX_COSTS */
    const char *command; /* changes it; "" if no command does, or nothing is to be changed */
};

/* The host that is looked at. Tests make one of their own. */
struct emx_checked_host {
    const char *root; /* before /proc and /sys: "" */
    emx_nic_ask *ask;
    cpu_set_t cores; /* on which ranks may run */
    const struct ethmx_config *cfg;
};

/* An interface that ethmx would use. */
struct emx_checked_link {
    const char *name;
    const char *kind; /* the kernel's link kind, "" for hardware */
    const char *mac;
    unsigned mtu_bytes;
};

typedef void emx_check_fn(void *arg, const struct emx_finding *f);

/* This host, for the process's cores. */
void emx_checked_host_init(struct emx_checked_host *h, const struct ethmx_config *cfg);

/* Calls fn for each check of an interface, and of the cards below it (of a bond, VLAN or bridge). */
void emx_check_link(const struct emx_checked_host *h, const struct emx_checked_link *link, emx_check_fn *fn, void *arg);

/* Calls fn for each check of the host itself. */
void emx_check_host(const struct emx_checked_host *h, emx_check_fn *fn, void *arg);

/* Calls fn for each check of the interfaces that ethmx would use, whose number is *links_p, and of the host. Errors are
 * those of ethmx_each_interface(); the host is then checked all the same. */
int emx_check_all(const struct ethmx_config *cfg, emx_check_fn *fn, void *arg, unsigned *links_p);

#endif
