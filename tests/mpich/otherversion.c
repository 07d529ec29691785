/* SPDX-License-Identifier: BSD-3-Clause
 *
 * To be put before libethmx by LD_PRELOAD: lets it look like another version of itself.
 *   OTHER=interface  the program asks for another version of the interface than the library's
 *   OTHER=address    the addresses that this process tells are of another version
 *   OTHER=handler    before each active message goes one for a handler that no MPICH has
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <ethmx.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int other_is(const char *what)
{
    const char *other = getenv("OTHER");

    return other && strcmp(other, what) == 0;
}

int ethmx_ep_open(const struct ethmx_config *cfg, const struct ethmx_ep_options *opt, struct ethmx_ep **ep_p)
{
    int (*next)(const struct ethmx_config *, const struct ethmx_ep_options *, struct ethmx_ep **) =
        dlsym(RTLD_NEXT, "ethmx_ep_open");
    struct ethmx_ep_options changed = *opt;

    changed.api_version += other_is("interface") ? 1 : 0;
    return next(cfg, &changed, ep_p);
}

/* Byte 2 of an address is its version, in every version. */
int ethmx_ep_address(const struct ethmx_ep *ep, void *addr, size_t *len_bytes_p)
{
    int (*next)(const struct ethmx_ep *, void *, size_t *) = dlsym(RTLD_NEXT, "ethmx_ep_address");
    int status = next(ep, addr, len_bytes_p);

    if (status == ETHMX_OK && other_is("address"))
        ((uint8_t *)addr)[2]++;
    return status;
}

/* An MPICH's header begins with the number of its handler, in two bytes. */
int ethmx_am_send(struct ethmx_ep *ep, struct ethmx_peer *peer, unsigned id, const void *header, size_t header_bytes,
                  const struct ethmx_data *data, ethmx_done_fn done, void *arg)
{
    int (*next)(struct ethmx_ep *, struct ethmx_peer *, unsigned, const void *, size_t, const struct ethmx_data *,
                ethmx_done_fn, void *) = dlsym(RTLD_NEXT, "ethmx_am_send");
    static const struct ethmx_data none;
    uint8_t wild[ETHMX_AM_HEADER_MAX];

    if (other_is("handler")) {
        memcpy(wild, header, header_bytes);
        wild[0] = wild[1] = 0xff;
        next(ep, peer, id, wild, header_bytes, &none, NULL, NULL);
    }
    return next(ep, peer, id, header, header_bytes, data, done, arg);
}
