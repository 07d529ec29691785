/* SPDX-License-Identifier: BSD-3-Clause
 *
 * When a ring is full, further frames to that peer are copied to its *backlog*, and sent when the reader has made
 * space. Other peers are not held up. The windows of the engine bound the backlog.
 */
#include "wire/shm/shm_out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/pause.h"
#include "wire/shm/shm_join.h"
#include "wire/shm/shm_peer.h"
#include "wire/shm/shm_view.h"

#define RESERVE_TRIES 200 /* before a frame is copied to the backlog: the reader may be reading */

struct emx_shm_queued {
    struct emx_shm_queued *next;
    uint32_t len_bytes;
    uint8_t data[];
};

static void shm_out_drop_backlog(struct emx_shm_wire *w, struct emx_shm_out *o)
{
    struct emx_shm_queued *k;

    while ((k = o->first)) {
        o->first = k->next;
        free(k);
        w->stats->wire_tx_errors++;
    }
    o->last_p = &o->first;
}

void emx_shm_out_abandon(struct emx_shm_wire *w, struct emx_shm_out *o)
{
    o->gone = true;
    emx_shm_view_drop_all(o);
    shm_out_drop_backlog(w, o);
    emx_list_del(&o->link);
    emx_shm_port_close(w, &o->port);
    if (o->memory_fd >= 0)
        close(o->memory_fd);
    o->memory_fd = -1;
    if (o->split)
        return; /* emx_shm_copy_read() still uses the memory, and frees it */
    emx_shm_memory_free(o->tx.m);
    o->tx.m = NULL;
}

static int shm_out_connect(struct emx_shm_wire *w, struct emx_shm_out *o)
{
    int fd = emx_shm_call(o->id);

    if (fd < 0)
        return -fd;
    o->port.fd = fd;
    if (emx_shm_port_watch(w, &o->port))
        return 0;
    fd = errno;
    close(o->port.fd);
    o->port.fd = -1;
    return fd;
}

bool emx_shm_out_may_retry(int err)
{
    return err == EAGAIN || err == EINTR || err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* Tries to hand over the ring. 0, or an errno; the ring is abandoned if no later attempt can succeed. */
static int shm_out_join(struct emx_shm_wire *w, struct emx_shm_out *o)
{
    const struct emx_shm_token token = {.value = w->token, .address = (uintptr_t)&w->token, .guard = w->guard};
    int err = o->port.fd < 0 ? shm_out_connect(w, o) : 0;

    if (!err)
        err = emx_shm_send(o->port.fd, w->id, &token, o->memory_fd);
    if (!err) {
        o->joined = true;
        close(o->memory_fd);
        o->memory_fd = -1;
    } else if (!emx_shm_out_may_retry(err)) {
        emx_shm_out_abandon(w, o);
    }
    return err;
}

struct emx_shm_out *emx_shm_out_new(struct emx_shm_wire *w, uint32_t id, int *err_p)
{
    struct emx_shm_peer *p = emx_shm_peer_get(w, id);
    struct emx_shm_out *o = p ? calloc(1, sizeof(*o)) : NULL;
    struct emx_shm_memory *m = o ? emx_shm_memory_new(&o->memory_fd) : NULL;

    if (!m) {
        *err_p = errno;
        free(o);
        return NULL;
    }
    o->port = (struct emx_shm_port){.kind = EMX_SHM_PORT_OUT, .fd = -1};
    o->id = id;
    o->last_p = &o->first;
    emx_list_init(&o->link);
    emx_shm_view_init(o);
    emx_shm_tx_init(&o->tx, m, !w->registered);
    emx_shm_owner_init(&o->owner, &m->split);
    p->out = o;
    *err_p = shm_out_join(w, o);
    if (!o->joined && !o->gone)
        emx_list_append(&w->busy, &o->link);
    return o;
}

/* NULL: out of memory. */
static struct emx_shm_out *shm_out_to(struct emx_shm_wire *w, uint32_t id)
{
    int err;

    if (!w->last || w->last->id != id)
        w->last = emx_shm_peer_find(w, id);
    if (w->last && w->last->out)
        return w->last->out;
    return emx_shm_out_new(w, id, &err);
}

void emx_shm_out_free(struct emx_shm_wire *w, struct emx_shm_out *o)
{
    o->split = false;
    emx_shm_out_abandon(w, o);
    free(o);
}

void emx_shm_out_join_all(struct emx_shm_wire *w)
{
    emx_list_each_safe(pos, tmp, &w->busy)
    {
        struct emx_shm_out *o = emx_list_entry(pos, struct emx_shm_out, link);

        if (!o->joined && !shm_out_join(w, o) && !o->first)
            emx_list_del(&o->link);
    }
}

void emx_shm_out_remove(struct emx_shm_wire *w, uint32_t id)
{
    struct emx_shm_peer *p = emx_shm_peer_find(w, id);

    if (p && p->out)
        emx_shm_out_free(w, p->out);
    if (p)
        p->out = NULL;
}

static void shm_out_wake_reader(struct emx_shm_out *o)
{
    if (emx_shm_tx_must_wake(&o->tx))
        emx_shm_poke(o->port.fd); /* before the socket is connected, the connection wakes the reader */
}

/* Sends frames of the backlog while the ring has space. Returns how many. */
static unsigned shm_out_flush(struct emx_shm_out *o)
{
    struct emx_shm_queued *k;
    unsigned n = 0;

    while ((k = o->first)) {
        const struct emx_txframe f = {.head = k->data, .head_bytes = (uint16_t)k->len_bytes};

        if (!emx_shm_tx_put(&o->tx, &f))
            break;
        shm_out_wake_reader(o);
        o->first = k->next;
        free(k);
        n++;
    }
    if (!o->first) {
        o->last_p = &o->first;
        if (o->joined)
            emx_list_del(&o->link);
    }
    return n;
}

unsigned emx_shm_out_flush_all(struct emx_shm_wire *w)
{
    unsigned n = 0;

    emx_list_each_safe(pos, tmp, &w->busy) n += shm_out_flush(emx_list_entry(pos, struct emx_shm_out, link));
    return n;
}

static bool shm_out_queue(struct emx_shm_wire *w, struct emx_shm_out *o, const struct emx_txframe *f)
{
    struct emx_shm_queued *k = malloc(sizeof(*k) + f->head_bytes + f->body_bytes);

    if (!k)
        return false;
    *k = (struct emx_shm_queued){.len_bytes = (uint32_t)f->head_bytes + f->body_bytes};
    memcpy(k->data, f->head, f->head_bytes);
    if (f->body_bytes)
        memcpy(k->data + f->head_bytes, f->body, f->body_bytes);
    *o->last_p = k;
    o->last_p = &k->next;
    if (!emx_list_linked(&o->link))
        emx_list_append(&w->busy, &o->link);
    return true;
}

/* false: the frame is lost. */
static bool shm_out_send(struct emx_shm_wire *w, const struct emx_txframe *f)
{
    uint32_t len_bytes = (uint32_t)f->head_bytes + f->body_bytes;
    struct emx_shm_out *o = shm_out_to(w, emx_shm_id_of(f->to));

    if (!o || o->gone || !len_bytes || len_bytes > EMX_SHM_FRAME_BYTES)
        return false;
    if (o->first || !emx_shm_tx_put(&o->tx, f))
        return shm_out_queue(w, o, f);
    shm_out_wake_reader(o);
    return true;
}

unsigned emx_shm_out_budget(struct emx_wire *base)
{
    (void)base;
    return EMX_WIRE_BATCH;
}

void emx_shm_out_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;

    for (unsigned i = 0; i < n; i++) {
        if (!shm_out_send(w, &f[i]))
            w->stats->wire_tx_errors++;
    }
}

/* The ring is full. Waiting a little for the reader costs less time than copying the frame to the backlog. */
static __attribute__((noinline)) void *shm_out_reserve_soon(struct emx_shm_tx *t, uint32_t len_bytes)
{
    void *frame = NULL;

    for (unsigned i = 0; i < RESERVE_TRIES && !frame; i++) {
        emx_pause();
        frame = emx_shm_tx_reserve(t, len_bytes);
    }
    return frame;
}

void *emx_shm_out_reserve(struct emx_wire *base, const struct emx_wire_addr *to, uint32_t len_bytes)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_shm_out *o = shm_out_to(w, emx_shm_id_of(to));
    void *frame;

    if (!o || o->gone || o->first)
        return NULL;
    w->reserved = o;
    frame = emx_shm_tx_reserve(&o->tx, len_bytes);
    return frame ? frame : shm_out_reserve_soon(&o->tx, len_bytes);
}

void emx_shm_out_commit(struct emx_wire *base)
{
    struct emx_shm_out *o = ((struct emx_shm_wire *)base)->reserved;

    emx_shm_tx_commit(&o->tx);
    shm_out_wake_reader(o);
}

void emx_shm_out_drain_socket(struct emx_shm_wire *w, struct emx_shm_out *o)
{
    if (!emx_shm_drain(o->port.fd, emx_shm_view_answered, w, o))
        emx_shm_out_abandon(w, o);
}

bool emx_shm_out_unsent(const struct emx_wire *base)
{
    return !emx_list_empty(&((const struct emx_shm_wire *)base)->busy);
}
