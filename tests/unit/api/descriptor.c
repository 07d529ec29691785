/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenario: both roles wait by their endpoint's descriptor only.
 */
#include "api/scenario.h"

#include <poll.h>

#include "ethmx_wait.h"

#define TURNS 400

/* A wait that nothing ends fails. */
static bool await_descriptor(const struct side *s, int fd, const _Atomic bool *flag)
{
    while (!atomic_load(flag)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int rc;

        if (ethmx_progress(s->ep))
            continue;
        rc = ethmx_wait_arm(s->ep);
        CHECK(rc == ETHMX_OK || rc == ETHMX_ERR_BUSY);
        if (rc == ETHMX_OK)
            CHECK(poll(&p, 1, 60000) == 1);
    }
    return true;
}

static bool await_turn(const struct side *s, int fd, unsigned i, uint8_t *buf)
{
    static const size_t len[] = {0, 8, 3000, 40000, LARGE_BYTES};
    size_t bytes = len[i % 16 < 4 ? i % 16 : i % 64 == 63 ? 4 : 1];
    struct pending p;

    if (s->role == (int)(i % 2)) {
        fill(buf, bytes, i);
        CHECK(start_send(s, i, flat(buf, bytes), ETHMX_SEND_STANDARD, &p));
        return await_descriptor(s, fd, &p.done);
    }
    CHECK(start_recv(s, i, flat(buf, bytes), &p));
    CHECK(await_descriptor(s, fd, &p.done));
    return p.result.status == ETHMX_OK && p.result.msg_bytes == bytes && is_filled(buf, bytes, i);
}

bool waits_by_descriptor(const struct side *s)
{
    uint8_t *buf = malloc(LARGE_BYTES);
    int fd = -1, again = -1;

    CHECK(ethmx_wait_fd(s->ep, &fd) == ETHMX_OK && fd >= 0);
    CHECK(ethmx_wait_fd(s->ep, &again) == ETHMX_OK && again == fd);
    for (unsigned i = 0; i < TURNS; i++)
        CHECK(await_turn(s, fd, i, buf));
    free(buf);
    return true;
}
