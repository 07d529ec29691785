/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/event.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "endpoint/told.h"

/* A peer's failure that the program has not been told yet. */
struct failure {
    struct emx_list link;
    struct emx_event event;
};

static void event_answer_routes(struct ethmx_ep *ep, struct emx_peer *peer, emx_time now)
{
    struct emx_address a = *emx_peer_address(ep->progress.engine, peer);
    struct emx_route r[EMX_ROUTES_MAX];
    char why[512];
    unsigned n = emx_routes_find(&ep->view, &a, r, why, sizeof(why));

    if (n && why[0])
        emx_log(EMX_LOG_INFO, "to host %s: not by %s", emx_peer_host(ep->progress.engine, peer), why);
    emx_engine_routes(ep->progress.engine, peer, r, n, why, now);
}

static void event_log_connected(struct ethmx_ep *ep, const struct emx_event *ev)
{
    struct ethmx_peer_info info;

    if (emx_log_limit < EMX_LOG_INFO)
        return;
    emx_peer_query(ep->progress.engine, ev->peer, &info);
    emx_log(EMX_LOG_INFO, "connected to host %s by %s, frames of up to %u bytes", info.host, ev->text,
            info.frame_bytes);
}

static void event_keep_failure(struct ethmx_ep *ep, const struct emx_event *ev)
{
    struct failure *f = malloc(sizeof(*f));

    if (!f) {
        emx_log(EMX_LOG_ERROR, "%s", ev->text);
        return;
    }
    f->event = *ev;
    emx_list_append(&ep->failures, &f->link);
}

void emx_event_handle(void *arg, emx_time now)
{
    struct ethmx_ep *ep = arg;
    struct emx_event ev;

    while (emx_engine_event(ep->progress.engine, &ev)) {
        switch (ev.type) {
        case EMX_EVENT_ROUTES:
            event_answer_routes(ep, ev.peer, now);
            break;
        case EMX_EVENT_CONNECTED:
            event_log_connected(ep, &ev);
            break;
        case EMX_EVENT_ROUTE_LOST:
            emx_log(EMX_LOG_WARN, "host %s is not reached by %s", emx_peer_host(ep->progress.engine, ev.peer), ev.text);
            break;
        case EMX_EVENT_NARROWER:
            emx_log(EMX_LOG_WARN, "%s", ev.text);
            break;
        case EMX_EVENT_NOTE:
            emx_log(EMX_LOG_INFO, "%s", ev.text);
            break;
        case EMX_EVENT_FAILED:
            event_keep_failure(ep, &ev);
            break;
        case EMX_EVENT_CLOSED:
            emx_log(EMX_LOG_DEBUG, "the peer on host %s has closed", emx_peer_host(ep->progress.engine, ev.peer));
            break;
        }
    }
}

/* Its numbers among the interfaces that peers are told of. */
static unsigned event_told_numbers(const struct ethmx_ep *ep, const struct emx_netif *nif)
{
    unsigned numbers = 0;

    for (unsigned i = 0; i < ep->site.told_count; i++)
        numbers |= (unsigned)(ep->site.told[i] == nif) << i;
    return numbers;
}

/* The interface has another address: peers are told. One that was told to them by an address of both families is
 * there twice. */
static void event_interface_moved(struct ethmx_ep *ep, const struct emx_netif *nif)
{
    const struct emx_ip ip = emx_netif_ip(nif);
    char text[EMX_IP_TEXT];

    for (unsigned i = 0; i < ep->site.told_count; i++) {
        const struct emx_wire_if now = emx_told_ip(&ep->site, i);
        struct emx_wire_if *told = &ep->self.ifs[i];

        if (ep->site.told[i] != nif)
            continue;
        told->ip = now.ip;
        told->prefix_bits = now.prefix_bits;
        if (emx_wire_if_has_mac(told))
            memcpy(told->mac, nif->mac, sizeof(told->mac));
    }
    emx_log(EMX_LOG_WARN, "interface %s has another address, %s now: peers are told", nif->name,
            emx_ip_text(&ip, text));
    emx_engine_moved(ep->progress.engine, &ep->self, emx_clock_now(&ep->progress.clock));
}

static void event_interface_changed(void *arg, const struct emx_netif_news *news)
{
    struct ethmx_ep *ep = arg;
    const struct emx_links *l = &ep->progress.links;
    const struct emx_interface i = {.card = (uint8_t)(news->nif - ep->netifs.nif + 1),
                                    .numbers = event_told_numbers(ep, news->nif),
                                    .carries = news->carries,
                                    .has_ip = news->has_ip,
                                    .why = news->why[0] ? news->why : NULL};

    for (unsigned n = 0; n < l->count && (news->moved || news->nif->index != news->old_index); n++)
        if (l->link[n].ops->renumber)
            l->link[n].ops->renumber(l->link[n].wire, news->old_index, news->nif);
    ep->stats->interfaces_lost += i.why && !news->again;
    if (i.why && !news->again)
        emx_log(EMX_LOG_WARN, "interface %s: peers are reached by others, where there are any", i.why);
    else if (!i.why && news->again)
        emx_log(EMX_LOG_WARN, "interface %s is back", news->nif->name);
    emx_engine_interface(ep->progress.engine, &i, emx_clock_now(&ep->progress.clock));
    if (news->moved)
        event_interface_moved(ep, news->nif);
}

void emx_event_look(void *arg, emx_time now)
{
    struct ethmx_ep *ep = arg;

    (void)now;
    emx_netif_watch_read(&ep->watch, event_interface_changed, ep);
}

unsigned emx_event_deliver(struct ethmx_ep *ep)
{
    struct emx_list *link;
    unsigned n = 0;

    while ((link = emx_list_pop(&ep->failures))) {
        struct failure *f = emx_list_entry(link, struct failure, link);
        void (*fn)(void *, struct ethmx_peer *, int, const char *) = ep->on_error;
        void *arg = ep->on_error_arg;

        emx_ep_leave(ep);
        if (fn)
            fn(arg, emx_peer_out(f->event.peer), f->event.status, f->event.text);
        else
            emx_log(EMX_LOG_ERROR, "%s", f->event.text);
        free(f);
        emx_lock_take(&ep->lock);
        n++;
    }
    return n;
}

void emx_event_forget(struct ethmx_ep *ep, const struct emx_peer *peer)
{
    emx_list_each_safe(l, next, &ep->failures)
    {
        struct failure *f = emx_list_entry(l, struct failure, link);

        if (f->event.peer != peer)
            continue;
        emx_list_del(l);
        free(f);
    }
}

void emx_event_drop(struct ethmx_ep *ep)
{
    struct emx_list *link;

    while ((link = emx_list_pop(&ep->failures)))
        free(emx_list_entry(link, struct failure, link));
}
