/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens the devices of the interfaces, and listens on them.
 *
 * Finding devices. An address of each chosen interface is bound. rdma_cm then knows the device and the GID of the
 * address: with RoCE that of version 2, unless the administrator has configured otherwise
 * (/sys/kernel/config/rdma_cm/DEVICE/ports/1/default_roce_mode). All interfaces listen at one port, which is part of
 * the endpoint's address.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "wire/verbs/verbs_cm.h"
#include "wire/verbs/verbs_id.h"
#include "wire/verbs/verbs_read.h"

#define LISTEN_TRIES   16
#define LISTEN_BACKLOG 1024

/* ---- Devices ---- */

struct emx_verbs_dev *emx_verbs_dev_find(const struct emx_verbs_wire *w, const struct ibv_context *context)
{
    for (unsigned i = 0; i < w->dev_count; i++) {
        if (w->dev[i]->context == context)
            return w->dev[i];
    }
    return NULL;
}

/* The device of an interface, opened if no other interface uses it. NULL: why has a sentence. */
static struct emx_verbs_dev *listen_open_dev(struct emx_verbs_wire *w, const struct rdma_cm_id *id, char *why,
                                             size_t why_len_bytes)
{
    struct emx_verbs_dev *d = emx_verbs_dev_find(w, id->verbs);

    if (d || emx_verbs_dev_open(&d, id->verbs, id->port_num, w->cfg, w->stats, why, why_len_bytes))
        return d;
    w->dev[w->dev_count++] = d;
    return d;
}

static void listen_forget_device(struct emx_verbs_wire *w, unsigned i)
{
    struct emx_verbs_dev *d = w->dev[i];

    w->dev[i] = w->dev[--w->dev_count];
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, d->context->async_fd, NULL); /* another endpoint may keep it open */
    emx_verbs_exported_forget(w, d);
    emx_verbs_dev_close(d);
    for (unsigned j = 0; j < w->port_count; j++) {
        if (w->port[j].dev != d)
            continue;
        w->port[j].dev = NULL;
        rdma_destroy_id(w->port[j].listener);
        w->port[j].listener = NULL;
    }
}

void emx_verbs_devs_forget(struct emx_verbs_wire *w)
{
    for (unsigned i = w->dev_count; i-- > 0;) {
        if (w->dev[i]->gone && !w->dev[i]->conn_count)
            listen_forget_device(w, i);
    }
}

/* ---- Listening ---- */

/* Listens at one interface. false: why has a sentence; *again_p: the port is taken, another may be free. */
static bool listen_at(struct emx_verbs_wire *w, const struct emx_netif *nif, unsigned i, bool *again_p, char *why,
                      size_t why_len_bytes)
{
    struct emx_verbs_port *p = &w->port[w->port_count];
    struct sockaddr_in a = emx_verbs_sockaddr(nif->ip, w->listen_port);

    *p = (struct emx_verbs_port){.nif = i};
    if (rdma_create_id(w->channel, &p->listener, NULL, RDMA_PS_TCP)) {
        snprintf(why, why_len_bytes, "%s", strerror(errno));
        return false;
    }
    emx_verbs_id_set_tos(p->listener, w->cfg, EMX_LOG_WARN);
    if (rdma_bind_addr(p->listener, (struct sockaddr *)&a)) {
        *again_p = errno == EADDRINUSE;
        snprintf(why, why_len_bytes, "%s", errno == ENODEV ? "no RDMA device" : strerror(errno));
        goto err_destroy;
    }
    if (!p->listener->verbs) {
        snprintf(why, why_len_bytes, "no RDMA device");
        goto err_destroy;
    }
    p->dev = listen_open_dev(w, p->listener, why, why_len_bytes);
    if (!p->dev)
        goto err_destroy;
    if (rdma_listen(p->listener, LISTEN_BACKLOG)) {
        *again_p = errno == EADDRINUSE;
        snprintf(why, why_len_bytes, "%s", strerror(errno));
        goto err_destroy;
    }
    w->listen_port = ntohs(rdma_get_src_port(p->listener));
    w->port_count++;
    return true;

err_destroy:
    rdma_destroy_id(p->listener);
    return false;
}

static void listen_stop(struct emx_verbs_wire *w)
{
    while (w->port_count) {
        struct emx_verbs_port *p = &w->port[--w->port_count];

        if (p->listener)
            rdma_destroy_id(p->listener);
    }
    w->listen_port = 0;
}

static void listen_add_text(char *why, size_t why_len_bytes, const char *nif, const char *text)
{
    size_t n = strlen(why);

    snprintf(why + n, why_len_bytes - n, "%s%s: %s", n ? "; " : "", nif, text);
}

static void listen_describe(const struct emx_verbs_dev *d, char *text, size_t text_len_bytes)
{
    static const char *const fabric[] = {"RoCE", "iWARP", "InfiniBand"};

    int n = snprintf(text, text_len_bytes, "%s (%s), up to %u peers, %u frames on the way from each, %s",
                     ibv_get_device_name(d->context->device), fabric[d->fabric], d->conn_limit, d->credits,
                     d->srq ? "one receive queue for all" : "a receive queue for each");

    if (d->cache)
        snprintf(text + n, text_len_bytes - (size_t)n, ", reads messages from %llu bytes on (%s)%s, %u at a time",
                 (unsigned long long)(d->threshold.resident_bytes < d->threshold.fresh_bytes
                                          ? d->threshold.resident_bytes
                                          : d->threshold.fresh_bytes),
                 d->threshold_text,
                 d->threshold.way.count ? ", and up to ETHMX_EAGER_MAX only if that is worth the round trip" : "",
                 d->reads_max);
}

/* One attempt at all interfaces, with one port. false: the port was free at some and taken at others. */
static bool listen_once(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why, size_t why_len_bytes)
{
    bool again = false;
    char text[400];

    why[0] = 0;
    for (unsigned i = 0; i < netifs->count && w->port_count < EMX_VERBS_PORTS; i++) {
        const struct emx_netif *nif = &netifs->nif[i];

        if (!nif->chosen || nif->loopback)
            continue;
        if (!nif->ip.s_addr)
            snprintf(text, sizeof(text), "no IP address, by which RDMA devices are found");
        else if (listen_at(w, nif, i, &again, text, sizeof(text)))
            listen_describe(w->port[w->port_count - 1].dev, text, sizeof(text));
        else if (again && w->port_count)
            return false;
        listen_add_text(why, why_len_bytes, nif->name, text);
    }
    return true;
}

int emx_verbs_listen(struct emx_verbs_wire *w, const struct emx_netifs *netifs, char *why, size_t why_len_bytes)
{
    for (unsigned i = 0; i < LISTEN_TRIES && !listen_once(w, netifs, why, why_len_bytes); i++)
        listen_stop(w);
    if (w->port_count)
        return ETHMX_OK;
    if (!why[0])
        snprintf(why, why_len_bytes, "no interface is chosen that could have an RDMA device (ETHMX_IF)");
    return ETHMX_ERR_NO_WIRE;
}

void emx_verbs_disconnect(struct emx_verbs_wire *w)
{
    emx_verbs_life_end_all(w);
    emx_verbs_reads_drop(w);
    while (w->dev_count)
        listen_forget_device(w, w->dev_count - 1);
    listen_stop(w);
}
