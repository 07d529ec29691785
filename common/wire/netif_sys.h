/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What /sys tells of network interfaces: speed, NUMA node, the devices below. netif_sys.c has the rules. The root of
 * /sys is an argument, because tests have their own. Thread-safe; no privilege is needed.
 */
#ifndef EMX_WIRE_NETIF_SYS_H
#define EMX_WIRE_NETIF_SYS_H

#include <dirent.h>

#include "wire/netif.h"

#define EMX_SYSFS         "/sys"
#define EMX_SYSFS_NET     "/sys/class/net"
#define EMX_SYS_WORD_MAX  32
#define EMX_SYS_DEPTH_MAX 4 /* of virtual interfaces on top of each other */

/* Sets speed_mbit, segments, numa_node and far of the interfaces that are up. sysfs: EMX_SYSFS. Where it does not show
 * an interface, the speed comes from ethtool, as what it segments always does. */
void emx_netif_sys_read(struct emx_netifs *n, const char *sysfs);

/* Reads the first word of a file of an interface. "": there is no such file. net: EMX_SYSFS_NET. */
void emx_netif_sys_word(const char *net, const char *name, const char *file, char word[EMX_SYS_WORD_MAX]);

/* Opens a folder of an interface; "": its own. NULL: there is none. */
DIR *emx_netif_sys_open(const char *net, const char *name, const char *folder);

/* /sys may show the interfaces of another network namespace, which may have the same names. */
bool emx_netif_sys_shows(const char *net, const char *name, unsigned index);

/* The receive queues of an interface, in use or not; 0: unknown. */
unsigned emx_netif_sys_rx_queues(const char *net, const char *name);

/* Has the driver of an interface of this network namespace answer a command of ethtool, which is written to. false: it
 * does not know it. */
bool emx_netif_sys_ethtool(const char *name, void *command);

bool emx_netif_sys_is_hardware(const char *net, const char *name);

#endif
