/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Polling. A poll must be cheap however many ranks the node has. So it looks at a few rings only: those that had frames
 * last (the *near* ones, the latest first), and EMX_SHM_FAR of the others in turn. With up to EMX_SHM_NEAR peers these
 * are all. A first frame after a pause is found within in_count / EMX_SHM_FAR polls; the ring is near then.
 *
 * Sleeping. arm() sets the state of all readers to ASLEEP and looks once more (proof in shm_ring.c). The first poll
 * after it sets them to DOZY, so that the next sleep needs no membarrier(2), and SWEEPS_AWAKE sweeps without a sleep
 * set them to AWAKE.
 */
#define _GNU_SOURCE
#include "wire/shm/shm_in.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wire/shm/shm_copy.h"
#include "wire/shm/shm_join.h"
#include "wire/shm/shm_out.h"
#include "wire/shm/shm_peer.h"
#include "wire/shm/shm_view.h"

#define SWEEPS_AWAKE 64

static enum emx_shm_reader shm_in_reader_state(const struct emx_shm_wire *w)
{
    return w->awake ? EMX_SHM_AWAKE : EMX_SHM_DOZY;
}

static void shm_in_set_readers(struct emx_shm_wire *w, enum emx_shm_reader state)
{
    for (unsigned i = 0; i < w->in_count; i++)
        emx_shm_rx_state(&w->in[i]->rx, state);
}

/* Moves the ring to the front of the near ones, and the last of these to the far ones if there are too many. */
static void shm_in_bring_near(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    unsigned i = 0;

    while (i < w->near_count && w->near[i] != in)
        i++;
    if (i == w->near_count)
        i = w->near_count < EMX_SHM_NEAR ? w->near_count++ : EMX_SHM_NEAR - 1;
    memmove(&w->near[1], &w->near[0], i * sizeof(w->near[0]));
    w->near[0] = in;
}

static void shm_in_forget_near(struct emx_shm_wire *w, const struct emx_shm_in *in)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < w->near_count; i++) {
        if (w->near[i] != in)
            w->near[kept++] = w->near[i];
    }
    w->near_count = kept;
    w->first = 0;
}

static bool shm_in_add(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    if (w->in_count == w->in_capacity) {
        unsigned room = w->in_capacity ? 2 * w->in_capacity : 16;
        struct emx_shm_in **more = realloc(w->in, room * sizeof(*more));

        if (!more)
            return false;
        w->in = more;
        w->in_capacity = room;
    }
    in->index = w->in_count;
    w->in[w->in_count++] = in;
    shm_in_bring_near(w, in);
    emx_shm_rx_state(&in->rx, shm_in_reader_state(w));
    return true;
}

void emx_shm_in_free(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    struct emx_shm_peer *p = emx_shm_peer_find(w, in->id);

    if (in->rx.m) {
        w->in[in->index] = w->in[--w->in_count];
        w->in[in->index]->index = in->index;
        shm_in_forget_near(w, in);
        if (p && p->in == in)
            p->in = NULL;
    }
    emx_list_del(&in->link);
    emx_shm_port_close(w, &in->port);
    if (in->memory_fd >= 0) {
        close(in->memory_fd);
        w->memories--;
    }
    emx_shm_memory_free(in->rx.m);
    free(in);
}

/* Receives the ring of a new connection, if it has come. Frees the connection if something else came. */
static void shm_in_receive_ring(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    struct emx_shm_memory *m = NULL;
    struct emx_shm_hello hello;
    struct emx_shm_peer *p = NULL;
    int err = emx_shm_receive(in->port.fd, &hello, &m);

    if (err == EAGAIN)
        return;
    if (!err && hello.id)
        p = emx_shm_peer_get(w, hello.id);
    if (!p || p->in) {
        emx_shm_memory_free(m);
        emx_shm_in_free(w, in);
        return;
    }
    emx_shm_rx_init(&in->rx, m);
    if (!shm_in_add(w, in)) {
        emx_shm_memory_free(m);
        in->rx.m = NULL;
        emx_shm_in_free(w, in);
        return;
    }
    emx_list_del(&in->link);
    in->id = hello.id;
    in->token = hello.token;
    p->in = in;
    emx_shm_copy_probe(w, in);
}

void emx_shm_in_accept_all(struct emx_shm_wire *w)
{
    pid_t pid = 0;
    int fd;

    while ((fd = emx_shm_accept(w->listener.fd, &pid)) >= 0) {
        struct emx_shm_in *in = calloc(1, sizeof(*in));

        if (!in) {
            close(fd);
            return;
        }
        in->port = (struct emx_shm_port){.kind = EMX_SHM_PORT_IN, .fd = fd};
        in->pid = pid;
        in->memory_fd = -1;
        emx_list_init(&in->link);
        emx_list_append(&w->joining, &in->link);
        if (emx_shm_port_watch(w, &in->port))
            shm_in_receive_ring(w, in);
        else
            emx_shm_in_free(w, in);
    }
}

void emx_shm_in_drain_socket(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    if (!in->rx.m)
        shm_in_receive_ring(w, in);
    else if (!emx_shm_drain(in->port.fd, emx_shm_view_wanted, w, in)) {
        in->gone = true;
        emx_shm_port_close(w, &in->port);
    }
}

/* Whether the peer takes part in a copy that is under way. */
static bool shm_in_is_split(const struct emx_shm_wire *w, const struct emx_shm_in *in)
{
    const struct emx_shm_peer *p = emx_shm_peer_find(w, in->id);

    return p && p->out && p->out->split;
}

/* Frees the rings whose writers have gone, when they are empty. Frames stored before the socket closed are visible by
 * then. */
static void shm_in_reap(struct emx_shm_wire *w)
{
    for (unsigned i = w->in_count; i-- > 0;) {
        struct emx_shm_in *in = w->in[i];

        if (in->gone && !in->lent && !emx_shm_rx_ready(&in->rx) && !shm_in_is_split(w, in))
            emx_shm_in_free(w, in);
    }
}

static void shm_in_set_awake(struct emx_shm_wire *w)
{
    if (w->awake || !w->registered || ++w->sweeps < SWEEPS_AWAKE)
        return;
    w->awake = true;
    shm_in_set_readers(w, EMX_SHM_AWAKE);
}

void emx_shm_in_sweep(struct emx_wire *base)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;

    emx_shm_ports_poll(w);
    emx_shm_out_join_all(w);
    shm_in_reap(w);
    emx_shm_view_sweep(w);
    if (!w->armed)
        shm_in_set_awake(w);
}

/* Tells the writer which frames have been read. No frame of the ring may be in use. */
static void shm_in_settle(struct emx_shm_in *in)
{
    if (emx_shm_rx_settle(&in->rx))
        emx_shm_poke(in->port.fd);
}

/* Takes frames of one ring. Not inline, so that a poll that finds nothing saves and restores few registers. */
__attribute__((noinline)) static unsigned shm_in_take(struct emx_shm_wire *w, struct emx_shm_in *in,
                                                      struct emx_rxframe *f, unsigned max)
{
    int n = emx_shm_rx_take(&in->rx, f, max);

    if (n < 0) { /* the ring is corrupt */
        in->gone = true;
        emx_shm_port_close(w, &in->port);
        in->rx.next += EMX_SHM_SLOTS; /* emx_shm_rx_ready() is false from now on */
        w->stats->wire_lost++;
        return 0;
    }
    for (int i = 0; i < n; i++) {
        f[i].cookie = 0;
        f[i].parts = 0;
    }
    if (in->rx.called)
        emx_shm_copy_help(w, in);
    if (!n && !in->lent) {
        shm_in_settle(in);
        return 0;
    }
    in->lent = true;
    w->lender[w->lenders++] = in;
    w->lent += (unsigned)n;
    return (unsigned)n;
}

/* The ring has used up the budget of a poll: moves it behind the other near ones, which are read first next time. */
static void shm_in_put_last(struct emx_shm_wire *w, unsigned busiest)
{
    struct emx_shm_in *in = w->near[busiest];

    memmove(&w->near[busiest], &w->near[busiest + 1], (w->near_count - busiest - 1) * sizeof(w->near[0]));
    w->near[w->near_count - 1] = in;
}

static inline unsigned shm_in_rx_near(struct emx_shm_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    for (unsigned i = 0; i < w->near_count && n < max; i++) {
        if (!emx_shm_rx_ready(&w->near[i]->rx))
            continue;
        n += shm_in_take(w, w->near[i], f + n, max - n);
        if (n == max) {
            shm_in_put_last(w, i);
            break;
        }
    }
    return n;
}

static struct emx_shm_in *shm_in_next_far(struct emx_shm_wire *w)
{
    w->turn = w->turn + 1 < w->in_count ? w->turn + 1 : 0;
    return w->in[w->turn];
}

static unsigned shm_in_rx_far(struct emx_shm_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    for (unsigned i = 0; i < EMX_SHM_FAR && n < max; i++) {
        struct emx_shm_in *in = shm_in_next_far(w);

        if (!emx_shm_rx_ready(&in->rx))
            continue;
        n += shm_in_take(w, in, f + n, max - n);
        shm_in_bring_near(w, in);
    }
    return n;
}

/* Ends the readiness to be woken. */
static void shm_in_disarm(struct emx_shm_wire *w)
{
    w->armed = false;
    shm_in_set_readers(w, EMX_SHM_DOZY);
    emx_shm_ports_poll(w);
}

/* Not inline: rarely needed. */
static __attribute__((noinline)) void shm_in_do_pending(struct emx_shm_wire *w)
{
    if (w->armed)
        shm_in_disarm(w);
    emx_shm_out_flush_all(w);
}

static inline void shm_in_do_pending_if_any(struct emx_shm_wire *w)
{
    if (__builtin_expect(w->armed || !emx_list_empty(&w->busy), 0))
        shm_in_do_pending(w);
}

unsigned emx_shm_in_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    unsigned n;

    shm_in_do_pending_if_any(w);
    n = shm_in_rx_near(w, f, max);
    if (w->in_count > w->near_count)
        n += shm_in_rx_far(w, f + n, max - n);
    return n;
}

/* Frames are returned in any order, so the writers are told only when all are back. */
void emx_shm_in_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;

    (void)f;
    w->lent -= n;
    if (w->lent)
        return;
    while (w->lenders) {
        struct emx_shm_in *in = w->lender[--w->lenders];

        in->lent = false;
        shm_in_settle(in);
    }
}

static inline unsigned shm_in_next_near(const struct emx_shm_wire *w, unsigned i)
{
    return i + 1 < w->near_count ? i + 1 : 0;
}

/* Looks at some far rings. true: one has a frame, and is near now. */
static bool shm_in_find_far(struct emx_shm_wire *w)
{
    for (unsigned i = 0; i < EMX_SHM_FAR; i++) {
        struct emx_shm_in *in = shm_in_next_far(w);

        if (!emx_shm_rx_ready(&in->rx))
            continue;
        shm_in_bring_near(w, in);
        return true;
    }
    return false;
}

/* With many peers the far rings need their turn; their frames are left to emx_shm_in_rx(). */
struct emx_wire_peek emx_shm_in_peek(struct emx_wire *base)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_wire_peek p = {.data = NULL};

    shm_in_do_pending_if_any(w);
    if (w->in_count > w->near_count && shm_in_find_far(w))
        return emx_wire_peek_rx();
    for (unsigned n = 0, i = w->first; n < w->near_count; n++, i = shm_in_next_near(w, i)) {
        if (!emx_shm_rx_ready(&w->near[i]->rx))
            continue;
        w->peeked = i;
        p.data = emx_shm_rx_peek(&w->near[i]->rx, &p.len_bytes);
        w->peeked_bytes = p.len_bytes;
        return p;
    }
    return p;
}

/* The next peek begins with another ring, so that no peer starves. */
void emx_shm_in_consume(struct emx_wire *base)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_shm_in *in = w->near[w->peeked];

    w->first = shm_in_next_near(w, w->peeked);
    emx_shm_rx_pass(&in->rx, w->peeked_bytes);
    shm_in_settle(in);
}

static bool shm_in_any_ready(const struct emx_shm_wire *w)
{
    for (unsigned i = 0; i < w->in_count; i++) {
        if (emx_shm_rx_ready(&w->in[i]->rx))
            return true;
    }
    return false;
}

/* A memory barrier on every processor that runs a registered process. */
static void shm_in_barrier_all(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

bool emx_shm_in_register_barriers(void)
{
#if defined(__SANITIZE_THREAD__)
    return false; /* the sanitizer does not model membarrier(2) */
#else
    return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
#endif
}

bool emx_shm_in_arm(struct emx_wire *base)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;

    w->armed = true;
    w->sweeps = 0;
    shm_in_set_readers(w, EMX_SHM_ASLEEP);
    if (w->awake)
        shm_in_barrier_all();
    w->awake = false;
    emx_list_each(pos, &w->busy) emx_shm_tx_wait(&emx_list_entry(pos, struct emx_shm_out, link)->tx);
    if (!shm_in_any_ready(w) && !emx_shm_out_flush_all(w))
        return true;
    shm_in_disarm(w);
    return false;
}
