/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The first use of a region asks its owner for the segment, by a note over the socket of the ring that leads there; the
 * answer has the descriptor. Until it is here, and if none comes, operations go by frames. Both ends of the socket
 * belong to one user (shm_join.c), and the key must be right.
 *
 * A segment that has ended is given up when it is used next, or by a sweep: each looks at one view. So a program that
 * makes and frees regions does not keep the memory of those that were freed.
 */
#include "wire/shm/shm_view.h"

#include <stdlib.h>

#include "mem/segment.h"
#include "wire/shm/shm_peer.h"

#define WISHES      16     /* a region that is used so often is asked for words */
#define IDLE_SWEEPS 100000 /* then no answer is expected any more */

struct emx_shm_view {
    struct emx_list link;    /* emx_shm_wire.views */
    struct emx_list of_peer; /* emx_shm_out.view[] */
    uint64_t key;
    uint32_t uses, idle; /* without a map: how often it was looked for, and sweeps since then */
    uint64_t next_wish;  /* at so many wishes the owner is asked */
    struct emx_segment_map map;
};

void emx_shm_view_init(struct emx_shm_out *o)
{
    for (unsigned i = 0; i < EMX_SHM_VIEWS; i++)
        emx_list_init(&o->view[i]);
}

static void shm_view_drop(struct emx_shm_view *v)
{
    emx_segment_unmap(&v->map);
    emx_list_del(&v->link);
    emx_list_del(&v->of_peer);
    free(v);
}

void emx_shm_view_drop_all(struct emx_shm_out *o)
{
    struct emx_list *l;

    for (unsigned i = 0; i < EMX_SHM_VIEWS; i++)
        while ((l = emx_list_first(&o->view[i])))
            shm_view_drop(emx_list_entry(l, struct emx_shm_view, of_peer));
}

/* ---- The process that uses the memory ---- */

static struct emx_shm_view *shm_view_of(struct emx_shm_out *o, uint64_t key)
{
    emx_list_each(l, &o->view[key % EMX_SHM_VIEWS])
    {
        struct emx_shm_view *v = emx_list_entry(l, struct emx_shm_view, of_peer);

        if (v->key == key)
            return v;
    }
    return NULL;
}

/* NULL: out of memory. */
static struct emx_shm_view *shm_view_new(struct emx_shm_wire *w, struct emx_shm_out *o, uint64_t key)
{
    struct emx_shm_view *v = calloc(1, sizeof(*v));

    if (!v)
        return NULL;
    v->key = key;
    v->next_wish = WISHES;
    emx_list_init(&v->link);
    emx_list_init(&v->of_peer);
    emx_list_append(&w->views, &v->link);
    emx_list_append(&o->view[key % EMX_SHM_VIEWS], &v->of_peer);
    return v;
}

/* A question or an answer may be lost, if a socket is full: it is asked again, ever more rarely. */
static void shm_view_ask(const struct emx_shm_out *o, struct emx_shm_view *v)
{
    const struct emx_shm_note note = {.kind = EMX_SHM_WANTED, .key = v->key};

    if (!o->joined)
        return;
    v->uses++;
    v->idle = 0;
    if (!(v->uses & (v->uses - 1)))
        emx_shm_send_note(o->port.fd, &note, -1);
}

/* Operations that travel as frames would be faster without: asked again, ever more rarely. */
static void shm_view_wish(const struct emx_shm_out *o, struct emx_shm_view *v)
{
    const struct emx_shm_note note = {.kind = EMX_SHM_WORDS, .key = v->key};

    if (v->map.view.wishes < v->next_wish)
        return;
    v->next_wish *= 2;
    emx_shm_send_note(o->port.fd, &note, -1);
}

struct emx_view *emx_shm_view_find(struct emx_wire *base, const struct emx_wire_addr *to, uint64_t key)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_shm_peer *p = emx_shm_peer_find(w, emx_shm_id_of(to));
    struct emx_shm_view *v;

    if (!p || !p->out || p->out->gone)
        return NULL;
    v = shm_view_of(p->out, key);
    if (v && v->map.head) {
        if (!emx_segment_ended(&v->map)) {
            shm_view_wish(p->out, v);
            return &v->map.view;
        }
        shm_view_drop(v);
        return NULL;
    }
    if (v || (v = shm_view_new(w, p->out, key)))
        shm_view_ask(p->out, v);
    return NULL;
}

void emx_shm_view_answered(void *arg, void *port, const struct emx_shm_note *note, int segment_fd)
{
    struct emx_shm_view *v = shm_view_of(port, note->key);

    (void)arg;
    if (note->kind == EMX_SHM_ANSWERED && segment_fd >= 0 && v && !v->map.head)
        (void)emx_segment_map(&v->map, segment_fd, note->key, note->len_bytes);
}

void emx_shm_view_sweep(struct emx_shm_wire *w)
{
    struct emx_list *l = emx_list_first(&w->views);
    struct emx_shm_view *v;

    if (!l)
        return;
    v = emx_list_entry(l, struct emx_shm_view, link);
    if (v->map.head ? emx_segment_ended(&v->map) : ++v->idle > IDLE_SWEEPS) {
        shm_view_drop(v);
        return;
    }
    emx_list_del(l);
    emx_list_append(&w->views, l);
}

/* ---- The process that the memory is of ---- */

static struct emx_segment *shm_view_segment(const struct emx_shm_wire *w, uint64_t key)
{
    if (!key || !w->segments)
        return NULL;
    emx_list_each(l, w->segments)
    {
        struct emx_segment *g = emx_list_entry(l, struct emx_segment, link);

        if (g->key == key && g->fd >= 0)
            return g;
    }
    return NULL;
}

void emx_shm_view_wanted(void *arg, void *port, const struct emx_shm_note *note, int segment_fd)
{
    const struct emx_shm_in *in = port;
    struct emx_segment *g = shm_view_segment(arg, note->key);
    struct emx_shm_note answer = {.kind = EMX_SHM_ANSWERED, .key = note->key};

    (void)segment_fd;
    if (!g)
        return;
    if (note->kind == EMX_SHM_WORDS)
        emx_segment_grant(g);
    if (note->kind != EMX_SHM_WANTED)
        return;
    answer.len_bytes = g->len_bytes;
    emx_shm_send_note(in->port.fd, &answer, g->fd);
}
