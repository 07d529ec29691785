/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table is hashed by the endpoint's id. Each socket of the wire is a *port*, which the epoll set returns.
 */
#include "wire/shm/shm_peer.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "wire/shm/shm_in.h"
#include "wire/shm/shm_out.h"

#define EVENTS 16 /* taken from the kernel at once */

/* The peer's slot, or the free slot where it would be. Ids are random, so they need no hash function. */
static struct emx_shm_peer *shm_peer_slot(struct emx_shm_peer *table, unsigned room, uint32_t id)
{
    unsigned i = id & (room - 1);

    while (table[i].id && table[i].id != id)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static bool shm_peer_grow_table(struct emx_shm_wire *w)
{
    unsigned room = w->peer_capacity ? 2 * w->peer_capacity : 32;
    struct emx_shm_peer *table = calloc(room, sizeof(*table));

    if (!table)
        return false;
    for (unsigned i = 0; i < w->peer_capacity; i++) {
        if (w->peer[i].id)
            *shm_peer_slot(table, room, w->peer[i].id) = w->peer[i];
    }
    free(w->peer);
    w->peer = table;
    w->peer_capacity = room;
    w->last = NULL;
    return true;
}

struct emx_shm_peer *emx_shm_peer_find(const struct emx_shm_wire *w, uint32_t id)
{
    struct emx_shm_peer *p = w->peer_capacity ? shm_peer_slot(w->peer, w->peer_capacity, id) : NULL;

    return p && p->id ? p : NULL;
}

struct emx_shm_peer *emx_shm_peer_get(struct emx_shm_wire *w, uint32_t id)
{
    struct emx_shm_peer *p;

    if (2 * w->peer_count >= w->peer_capacity && !shm_peer_grow_table(w))
        return NULL;
    p = shm_peer_slot(w->peer, w->peer_capacity, id);
    if (!p->id) {
        p->id = id;
        w->peer_count++;
    }
    return p;
}

bool emx_shm_port_watch(struct emx_shm_wire *w, struct emx_shm_port *p)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

    return !epoll_ctl(w->epoll, EPOLL_CTL_ADD, p->fd, &ev);
}

/* A socket that a forked child has a copy of must be removed from the epoll set explicitly. */
void emx_shm_port_close(struct emx_shm_wire *w, struct emx_shm_port *p)
{
    if (p->fd < 0)
        return;
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, p->fd, NULL);
    close(p->fd);
    p->fd = -1;
}

static void shm_port_handle(struct emx_shm_wire *w, struct emx_shm_port *p)
{
    switch (p->kind) {
    case EMX_SHM_PORT_LISTENER:
        emx_shm_in_accept_all(w);
        break;
    case EMX_SHM_PORT_IN:
        emx_shm_in_drain_socket(w, (struct emx_shm_in *)(void *)p);
        break;
    case EMX_SHM_PORT_OUT:
        emx_shm_out_drain_socket(w, (struct emx_shm_out *)(void *)p);
        break;
    }
}

void emx_shm_ports_poll(struct emx_shm_wire *w)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(w->epoll, ev, EVENTS, 0);

    for (int i = 0; i < n; i++)
        shm_port_handle(w, ev[i].data.ptr);
}
