/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/qos.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include "base/log.h"

static void qos_set(int fd, int level, int name, const char *option, const struct emx_config *cfg)
{
    int tos = emx_qos_tos(cfg);

    if (tos && setsockopt(fd, level, name, &tos, sizeof(tos)) && cfg->p_tos)
        emx_log(EMX_LOG_WARN, "ETHMX_TOS has no effect: the kernel refuses the type of service (%s: %s)", option,
                strerror(errno));
}

void emx_qos_set_tos(int fd, bool v6, const struct emx_config *cfg)
{
    qos_set(fd, IPPROTO_IP, IP_TOS, "IP_TOS", cfg);
    if (v6)
        qos_set(fd, IPPROTO_IPV6, IPV6_TCLASS, "IPV6_TCLASS", cfg);
}

void emx_qos_set_priority(int fd, const struct emx_config *cfg)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT; /* a process has several sockets; one sentence is enough */
    int priority = (int)cfg->p_so_priority;

    if (!priority || !setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)))
        return;
    if (!atomic_flag_test_and_set(&warned))
        emx_log(EMX_LOG_WARN, "ETHMX_SO_PRIORITY=%d has no effect: %s", priority,
                errno == EPERM ? "priorities above 6 need CAP_NET_ADMIN (newer kernels also take CAP_NET_RAW)"
                               : strerror(errno));
}
