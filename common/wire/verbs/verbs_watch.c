/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Detects failures of devices and peers, reported or not.
 *
 * Checks. Every LOOK_NS, each connection without arrivals is probed by an empty write, because a side that only
 * receives would not notice that the other's queue pair is gone. Each device's file is also checked: when a device is
 * removed its file goes first, and the removal then waits until this process has released everything. (rdma_cm reports
 * the removal, too, but only if the kernel calls it before the part that waits.)
 *
 * Devices also report events (verbs_event.c). If a queue pair has failed, its connection ends. If a port is down, the
 * connections over it end. If the device has failed, it is treated as removed.
 *
 * With iWARP the completion of a write shows nothing, because it only means that TCP has it. There the probe is an
 * empty read, to which the other device must reply. If it does not, for a quarter of ETHMX_PEER_TIMEOUT, the peer is
 * unreachable (verbs_cm.c).
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/verbs/verbs_cm.h"

#define LOOK_NS      1000000000ull /* between two checks of connections and devices */
#define SILENT_LEAST 2             /* checks */

/* ---- Removed and failed devices ---- */

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

/* The connections would break by themselves, but much later with TCP. Peers that cannot be reconnected meanwhile become
 * unreachable after the usual number of failed requests. */
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

/* Handles stored events of a device and its connections (verbs_event.c). */
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

/* ---- Checks ---- */

/* Counts checks, not time: this process may have been stopped while the other device worked. */
static uint64_t watch_silence_limit(const struct emx_verbs_wire *w)
{
    uint64_t looks = w->cfg->p_peer_timeout / (4 * LOOK_NS);

    return looks < SILENT_LEAST ? SILENT_LEAST : looks;
}

/* The peer is not connected again first: with siw a connect request waits until TCP has given up, for minutes. */
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
