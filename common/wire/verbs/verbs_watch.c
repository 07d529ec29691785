/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Failures of devices and peers: those that devices tell of, and those that nobody tells of.
 *
 * Looking after. Once a second each connection over which nothing came is tried by a write of nothing: a side that only
 * receives would not notice that the other's queue pair is gone. And each device's file is looked for: when a device is
 * removed it goes first, and the removal then waits until we have let go of all. (rdma_cm tells of it, too, but only if
 * its turn comes before that of the kernel's part that waits.)
 *
 * Devices also tell by themselves (verbs_event.c): that a queue pair has failed, which ends its connection; that a port
 * is down, which ends those over it; that the device has failed, which is as if it were removed.
 *
 * With iWARP the end of a write says nothing: TCP has taken it. There a read of nothing is the trial, which the other
 * device must answer. If it does not, for a quarter of ETHMX_PEER_TIMEOUT, the peer is lost (verbs_cm.c).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/verbs/verbs_cm.h"

#define LOOK_NS      1000000000ull /* between two looks after connections and devices */
#define SILENT_LEAST 2             /* looks */

/* ---- A device is removed, or tells that something has failed ---- */

void emx_verbs_device_lost(struct emx_verbs_wire *w, const struct ibv_context *context, const char *why)
{
    struct emx_verbs_dev *d = emx_verbs_dev_find(w, context);

    if (!d || d->gone)
        return;
    d->gone = true;
    emx_log(EMX_LOG_WARN, "verbs: the device %s %s", ibv_get_device_name(d->context->device), why);
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (!c->id || c->id->verbs != context)
            continue;
        emx_verbs_broke(w, c, "its device is of no use any more");
        emx_verbs_peer_unreachable(w, c->peer);
    }
}

/* Its connections would break by themselves, but later: TCP has much patience. Peers that cannot be called again
 * meanwhile are lost by the usual count of calls. */
static void watch_ports_down(struct emx_verbs_wire *w, const struct emx_verbs_dev *d, uint64_t ports)
{
    unsigned ended = 0;

    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->dev != d || !(ports & emx_verbs_port_bit(c->id->port_num)))
            continue;
        emx_verbs_broke(w, c, "the device's port is down");
        ended++;
    }
    for (unsigned i = 0; i < w->port_count; i++) {
        const struct emx_verbs_port *p = &w->port[i];

        if (p->dev == d && ports & emx_verbs_port_bit(p->listener->port_num))
            emx_log(EMX_LOG_WARN, "verbs: port %u of the device %s is down (connections that have ended: %u)",
                    p->listener->port_num, ibv_get_device_name(d->context->device), ended);
    }
}

static void watch_conn_failed(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    int fatal = atomic_load(&c->events.fatal);
    char why[100];

    if (fatal == EMX_VERBS_NO_EVENT)
        return;
    snprintf(why, sizeof(why), "its device tells: %s", ibv_event_type_str((enum ibv_event_type)fatal));
    emx_verbs_broke(w, c, why);
}

/* What was noted of a device and its connections (verbs_event.c). */
static void watch_heed_events(struct emx_verbs_wire *w, struct emx_verbs_dev *d)
{
    uint64_t ports;
    int fatal;
    char why[100];

    if (!atomic_exchange(&d->events.any, false))
        return;
    fatal = atomic_exchange(&d->events.fatal, EMX_VERBS_NO_EVENT);
    ports = atomic_exchange(&d->events.ports_bad, 0);
    if (fatal != EMX_VERBS_NO_EVENT) {
        snprintf(why, sizeof(why), "has failed: %s", ibv_event_type_str((enum ibv_event_type)fatal));
        emx_verbs_device_lost(w, d->context, why);
    }
    if (ports)
        watch_ports_down(w, d, ports);
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (c->dev == d)
            watch_conn_failed(w, c);
    }
}

/* ---- Looking after ---- */

/* Looks, not time: this process may have been stopped, and not the other's device. */
static uint64_t watch_silence_limit(const struct emx_verbs_wire *w)
{
    uint64_t looks = w->cfg->p_peer_timeout / (4 * LOOK_NS);

    return looks < SILENT_LEAST ? SILENT_LEAST : looks;
}

/* It is not called again first: siw lets who calls wait until TCP has given up, for two minutes. */
static void watch_fell_silent(struct emx_verbs_wire *w, struct emx_verbs_conn *c)
{
    struct emx_verbs_peer *p = c->peer;

    emx_verbs_broke(w, c, "its device does not answer any more");
    emx_verbs_peer_lose(w, p);
    emx_verbs_peer_unreachable(w, p);
}

static void watch_look_after(struct emx_verbs_wire *w)
{
    emx_list_each_safe(l, next, &w->conns)
    {
        struct emx_verbs_conn *c = emx_list_entry(l, struct emx_verbs_conn, link);

        if (emx_verbs_conn_probe(c) > watch_silence_limit(w))
            watch_fell_silent(w, c);
    }
    for (unsigned i = 0; i < w->dev_count; i++) {
        const char *path = w->dev[i]->context->device->dev_path;

        if (path[0] && access(path, F_OK) && errno == ENOENT)
            emx_verbs_device_lost(w, w->dev[i]->context, "is being removed");
    }
}

void emx_verbs_watch(struct emx_verbs_wire *w, uint64_t now)
{
    if (now - w->looked_ns >= LOOK_NS) {
        w->looked_ns = now;
        watch_look_after(w);
    }
    for (unsigned i = 0; i < w->dev_count; i++)
        watch_heed_events(w, w->dev[i]);
}
