/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/log.h"
#include "endpoint/ep.h"
#include "endpoint/event.h"
#include "endpoint/sized.h"

int ethmx_peer_add(struct ethmx_ep *ep, const void *addr, size_t len_bytes, void *user, struct ethmx_peer **peer_p)
{
    struct emx_peer *peer;
    char why[256] = "out of memory";
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    rc = emx_engine_peer(ep->progress.engine, addr, len_bytes, &peer, why, sizeof(why));
    if (!rc && user)
        emx_peer_set_user(peer, user);
    emx_ep_leave(ep);
    if (rc)
        emx_error_set("%s", why);
    else
        *peer_p = emx_peer_out(peer);
    return rc;
}

int ethmx_peer_remove(struct ethmx_ep *ep, struct ethmx_peer *peer, bool force)
{
    emx_time now;
    int rc;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    now = emx_clock_now(&ep->progress.clock);
    rc = emx_engine_remove(ep->progress.engine, emx_peer_in(peer), force, now);
    if (!rc)
        emx_event_forget(ep, emx_peer_in(peer));
    emx_progress_flush(&ep->progress, now);
    emx_ep_leave(ep);
    if (rc == ETHMX_ERR_PARAM)
        emx_error_set("an endpoint cannot remove itself from its peers");
    return rc;
}

int ethmx_peer_address(struct ethmx_ep *ep, const struct ethmx_peer *peer, void *addr, size_t *len_bytes_p)
{
    uint8_t text[ETHMX_ADDRESS_MAX];
    size_t len_bytes;

    if (!emx_ep_enter(ep))
        return ETHMX_ERR_CLOSED;
    len_bytes = emx_address_encode(emx_peer_given_address(ep->progress.engine, emx_peer_in(peer)), text);
    emx_ep_leave(ep);
    if (len_bytes > *len_bytes_p) {
        emx_error_set("the peer's address has %zu bytes; there is room for %zu", len_bytes, *len_bytes_p);
        return ETHMX_ERR_PARAM;
    }
    memcpy(addr, text, len_bytes);
    *len_bytes_p = len_bytes;
    return ETHMX_OK;
}

void *ethmx_peer_user(const struct ethmx_peer *peer)
{
    return emx_peer_user(emx_peer_in(peer));
}

int ethmx_peer_query(struct ethmx_ep *ep, const struct ethmx_peer *peer, struct ethmx_peer_info *info_p)
{
    const unsigned struct_bytes = info_p->struct_bytes;
    struct ethmx_peer_info info = {.state = "closed"};
    int rc = emx_sized_check(struct_bytes, emx_sized_end(struct ethmx_peer_info, memory_bytes), "ethmx_peer_info");

    if (rc)
        return rc;
    if (emx_ep_enter(ep)) {
        emx_peer_query(ep->progress.engine, emx_peer_in(peer), &info);
        emx_ep_leave(ep);
    }
    info.struct_bytes = struct_bytes;
    emx_sized_out(info_p, struct_bytes, &info, sizeof(info));
    return ETHMX_OK;
}
