/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"
#include "ethmx.h"
#include "ethmx_config.h"

const char *ethmx_version(void)
{
    return ETHMX_VERSION;
}

const char *ethmx_error_text(void)
{
    return emx_error_get();
}

const char *ethmx_strerror(int status)
{
    static const char *const errors[] = {
        "success",
        "the message was longer than the receive buffer",
        "the receive was cancelled",
        "the peer is dead",
        "no wire reaches the peer",
        "no wire can be used on this host",
        "out of memory",
        "a parameter is wrong",
        "nothing matches",
        "built against another version of the ethmx interface",
        "the endpoint is closed, or the peer was removed",
        "operations with the peer are open",
        "that memory is not exposed",
    };

    if (status == ETHMX_INPROGRESS)
        return "in progress";
    if (status > 0 || status <= -(int)(sizeof(errors) / sizeof(errors[0])))
        return "unknown status";
    return errors[-status];
}
