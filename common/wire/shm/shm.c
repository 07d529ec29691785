/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shm wire: processes of one user on one host, in one network namespace.
 *
 * Each pair of endpoints that talk has a ring for each way (shm_ring.c), made by its writer at the first frame and
 * handed over through a socket (shm_join.c). Frames are lent from the ring where they lie. Nothing is lost: when a ring
 * is full, further frames to that peer wait in its *backlog*, copied, and go as room comes; other peers are not held
 * up. How much may wait is bounded by the windows of the engine. Frames are lost only with the peer.
 *
 * Receiving. A poll must be cheap however many ranks the node has, so it looks at a few rings: those that had something
 * last (the *near* ones, the latest first), and two of the others in turn. With up to NEAR peers that is all of them.
 * A first word after silence is found within in_count / 2 polls; the ring is near then.
 *
 * What needs system calls waits for sweep(): callers, peers that have gone. One epoll descriptor holds the listening
 * socket and those of all rings; it is also what a sleeper sleeps on.
 *
 * Sleeping. arm() sets all readers' states to ASLEEP and looks once more (proof in shm_ring.c); the first poll after it
 * sets them back. They go back to DOZY, so that the next sleep needs no membarrier(2), and to AWAKE after
 * SWEEPS_AWAKE sweeps without a sleep.
 *
 * A forked child has copies of the sockets, so the death of its parent shows only when the child has ended too; the
 * engine's time-outs do not depend on it. The rings are not mapped in it.
 */
#define _GNU_SOURCE
#include "wire/shm/shm.h"

#include <assert.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/list.h"
#include "base/log.h"
#include "base/pause.h"
#include "wire/fds.h"
#include "wire/shm/shm_join.h"
#include "wire/shm/shm_mem.h"
#include "wire/shm/shm_ring.h"

#define NEAR         4  /* rings looked at in each poll */
#define FAR          2  /* of the others */
#define EVENTS       16 /* taken from the kernel at once */
#define SWEEPS_AWAKE 64 /* at 50 us */

#define SPLIT_MIN_BYTES 24576 /* shorter ones are not worth the exchange */
#define AWAIT_LOOKS     1000  /* 10 to 40 us */
#define ROOM_LOOKS      200   /* 2 to 8 us */
#define COMPLAIN_NS     1000000000u

#define FILES_PEER   2   /* descriptors for each peer: a socket for each way, */
#define FILES_MEMORY 128 /* for the memory of so many (struct shm_in), */
#define FILES_OTHERS 256 /* and for the program and all else */

struct shm_addr {
    uint32_t id;
};
static_assert(sizeof(struct shm_addr) <= EMX_WIRE_ADDR_BYTES, "shm address");

/* A socket in the epoll set; each object below that has one begins with it. */
enum port_kind { PORT_LISTENER, PORT_IN, PORT_OUT };
struct port {
    enum port_kind kind;
    int fd;
};

/* A ring that we read. */
struct shm_in {
    struct port port;
    struct emx_shm_rx rx; /* m NULL: who called has not sent his ring yet */
    uint32_t id;
    unsigned index; /* in shm_wire.in */
    bool gone;      /* the writer has ended, or cannot be trusted: freed when it is empty */
    bool lent;      /* frames of it are lent */
    pid_t pid;      /* 0: not visible in our PID namespace */
    bool readable;  /* its memory */
    uint64_t proof; /* coarse time when its token was last found there */
    struct emx_shm_token token;
    int memory_fd;        /* its memory, to see whether it lives; -1: not needed yet, or cannot be opened */
    bool no_help;         /* that cannot be opened, or it cannot write to us */
    struct emx_list link; /* shm_wire.callers */
};

/* A frame that waits. */
struct shm_kept {
    struct shm_kept *next;
    uint32_t len_bytes;
    uint8_t data[];
};

/* A ring that we write. */
struct shm_out {
    struct port port; /* fd -1: not connected yet */
    struct emx_shm_tx tx;
    uint32_t id;
    int memory_fd; /* until it is handed over */
    bool joined, gone;
    struct emx_shm_owner owner;       /* of what is read from the peer, */
    bool split;                       /* together with it now; */
    bool helped;                      /* it took part the last time */
    int err;                          /* our own part failed */
    uint64_t since_ns;                /* coarse time since when only the peer's share was missing, or 0 */
    bool told;                        /* that this takes long */
    struct shm_kept *first, **last_p; /* backlog */
    struct emx_list link;             /* shm_wire.busy: with a backlog, or not joined */
};

/* What we have with another endpoint. */
struct shm_peer {
    uint32_t id; /* 0: free */
    struct shm_in *in;
    struct shm_out *out;
};

struct shm_wire {
    struct emx_wire base;
    struct emx_stats *stats;
    struct port listener;
    int epoll;
    uint32_t id;
    bool reads;
    bool registered; /* for membarrier */
    uint64_t token;  /* random; the address of this very field is told with it */
    uint64_t guard;  /* for those who write to our memory; 0: nobody does */

    bool awake; /* the readers are AWAKE, not DOZY */
    bool armed;
    unsigned sweeps; /* since the last sleep */

    struct shm_in *near[NEAR];
    unsigned near_count;
    unsigned first;  /* of the near ones, to be peeked at, */
    unsigned peeked; /* and the one that had something: */
    uint32_t peeked_bytes;
    struct shm_in **in; /* all that have a ring */
    unsigned in_count, in_room;
    unsigned turn;                     /* which of them is looked at next */
    unsigned lent;                     /* frames */
    struct shm_in *lender[NEAR + FAR]; /* whose they are */
    unsigned lenders;
    unsigned memories; /* that are open (shm_in.memory_fd) */

    struct emx_list callers; /* shm_in without ring */
    struct emx_list busy;    /* shm_out */

    struct shm_peer *peer; /* hashed by id */
    unsigned peer_count, peer_room;
    struct shm_out *placing; /* between reserve() and commit() */
    struct shm_peer *last;   /* the one that was sent to last; NULL when the table has moved */
};

void emx_shm_addr(struct emx_wire_addr *a, uint32_t endpoint_id)
{
    struct shm_addr s = {.id = endpoint_id};

    memset(a, 0, sizeof(*a));
    memcpy(a, &s, sizeof(s));
}

static uint32_t id_of(const struct emx_wire_addr *a)
{
    struct shm_addr s;

    memcpy(&s, a, sizeof(s));
    return s.id;
}

/* ---- Peers ---- */

/* The peer's place in the table, or the free one where it would be. Ids are random: they need no hash. */
static struct shm_peer *find_place(struct shm_peer *table, unsigned room, uint32_t id)
{
    unsigned i = id & (room - 1);

    while (table[i].id && table[i].id != id)
        i = (i + 1) & (room - 1);
    return &table[i];
}

static bool grow_peers(struct shm_wire *w)
{
    unsigned room = w->peer_room ? 2 * w->peer_room : 32;
    struct shm_peer *table = calloc(room, sizeof(*table));

    if (!table)
        return false;
    for (unsigned i = 0; i < w->peer_room; i++) {
        if (w->peer[i].id)
            *find_place(table, room, w->peer[i].id) = w->peer[i];
    }
    free(w->peer);
    w->peer = table;
    w->peer_room = room;
    w->last = NULL;
    return true;
}

/* NULL: unknown. */
static struct shm_peer *find_peer(const struct shm_wire *w, uint32_t id)
{
    struct shm_peer *p = w->peer_room ? find_place(w->peer, w->peer_room, id) : NULL;

    return p && p->id ? p : NULL;
}

/* Finds or makes it. NULL: out of memory. */
static struct shm_peer *get_peer(struct shm_wire *w, uint32_t id)
{
    struct shm_peer *p;

    if (2 * w->peer_count >= w->peer_room && !grow_peers(w))
        return NULL;
    p = find_place(w->peer, w->peer_room, id);
    if (!p->id) {
        p->id = id;
        w->peer_count++;
    }
    return p;
}

/* ---- Sockets ---- */

static bool watch(struct shm_wire *w, struct port *p)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = p};

    return !epoll_ctl(w->epoll, EPOLL_CTL_ADD, p->fd, &ev);
}

/* Also takes it out of the epoll set. The explicit removal matters when a forked child has a copy. */
static void close_port(struct shm_wire *w, struct port *p)
{
    if (p->fd < 0)
        return;
    epoll_ctl(w->epoll, EPOLL_CTL_DEL, p->fd, NULL);
    close(p->fd);
    p->fd = -1;
}

/* ---- Rings that we write ---- */

static void lose_backlog(struct shm_wire *w, struct shm_out *o)
{
    struct shm_kept *k;

    while ((k = o->first)) {
        o->first = k->next;
        free(k);
        w->stats->wire_tx_errors++;
    }
    o->last_p = &o->first;
}

/* The peer has gone: what goes to it from now on is lost. */
static void abandon_out(struct shm_wire *w, struct shm_out *o)
{
    o->gone = true;
    lose_backlog(w, o);
    emx_list_del(&o->link);
    close_port(w, &o->port);
    if (o->memory_fd >= 0)
        close(o->memory_fd);
    o->memory_fd = -1;
    if (o->split)
        return; /* shm_read() looks at it once more */
    emx_shm_memory_free(o->tx.m);
    o->tx.m = NULL;
}

static int call(struct shm_wire *w, struct shm_out *o)
{
    int fd = emx_shm_call(o->id);

    if (fd < 0)
        return -fd;
    o->port.fd = fd;
    if (watch(w, &o->port))
        return 0;
    fd = errno;
    close(o->port.fd);
    o->port.fd = -1;
    return fd;
}

/* Errors that pass: the peer's queue is full, or we are short of something. */
static bool passes(int err)
{
    return err == EAGAIN || err == EINTR || err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM;
}

/* Tries to hand the ring over. 0, or an errno: if it does not pass, the ring is abandoned. */
static int join(struct shm_wire *w, struct shm_out *o)
{
    const struct emx_shm_token token = {.value = w->token, .address = (uintptr_t)&w->token, .guard = w->guard};
    int err = o->port.fd < 0 ? call(w, o) : 0;

    if (!err)
        err = emx_shm_send(o->port.fd, w->id, &token, o->memory_fd);
    if (!err) {
        o->joined = true;
        close(o->memory_fd);
        o->memory_fd = -1;
    } else if (!passes(err)) {
        abandon_out(w, o);
    }
    return err;
}

/* A new ring to id, joined if it can be done at once; *err_p: why not. NULL: out of memory. */
static struct shm_out *make_out(struct shm_wire *w, uint32_t id, int *err_p)
{
    struct shm_peer *p = get_peer(w, id);
    struct shm_out *o = p ? calloc(1, sizeof(*o)) : NULL;
    struct emx_shm_memory *m = o ? emx_shm_memory_new(&o->memory_fd) : NULL;

    if (!m) {
        *err_p = errno;
        free(o);
        return NULL;
    }
    o->port = (struct port){.kind = PORT_OUT, .fd = -1};
    o->id = id;
    o->last_p = &o->first;
    emx_list_init(&o->link);
    emx_shm_tx_init(&o->tx, m, !w->registered);
    emx_shm_owner_init(&o->owner, &m->split);
    p->out = o;
    *err_p = join(w, o);
    if (!o->joined && !o->gone)
        emx_list_append(&w->busy, &o->link);
    return o;
}

/* NULL: out of memory. */
static struct shm_out *out_to(struct shm_wire *w, uint32_t id)
{
    int err;

    if (!w->last || w->last->id != id)
        w->last = find_peer(w, id);
    if (w->last && w->last->out)
        return w->last->out;
    return make_out(w, id, &err);
}

static void free_out(struct shm_wire *w, struct shm_out *o)
{
    o->split = false;
    abandon_out(w, o);
    free(o);
}

/* ---- Sending ---- */

static void put_done(struct shm_out *o)
{
    if (emx_shm_tx_must_wake(&o->tx))
        emx_shm_poke(o->port.fd); /* one that is not connected yet wakes by the connection */
}

/* Sends what waits and finds room. Returns how many frames. */
static unsigned flush_backlog(struct shm_out *o)
{
    struct shm_kept *k;
    unsigned n = 0;

    while ((k = o->first)) {
        const struct emx_txframe f = {.head = k->data, .head_bytes = (uint16_t)k->len_bytes};

        if (!emx_shm_tx_put(&o->tx, &f))
            break;
        put_done(o);
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

static unsigned flush_backlogs(struct shm_wire *w)
{
    unsigned n = 0;

    emx_list_each_safe(pos, tmp, &w->busy) n += flush_backlog(emx_list_entry(pos, struct shm_out, link));
    return n;
}

static bool keep(struct shm_wire *w, struct shm_out *o, const struct emx_txframe *f)
{
    struct shm_kept *k = malloc(sizeof(*k) + f->head_bytes + f->body_bytes);

    if (!k)
        return false;
    *k = (struct shm_kept){.len_bytes = (uint32_t)f->head_bytes + f->body_bytes};
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
static bool send_one(struct shm_wire *w, const struct emx_txframe *f)
{
    uint32_t len_bytes = (uint32_t)f->head_bytes + f->body_bytes;
    struct shm_out *o = out_to(w, id_of(f->to));

    if (!o || o->gone || !len_bytes || len_bytes > EMX_SHM_FRAME_BYTES)
        return false;
    if (o->first || !emx_shm_tx_put(&o->tx, f))
        return keep(w, o, f);
    put_done(o);
    return true;
}

static unsigned shm_tx_room(struct emx_wire *base)
{
    (void)base;
    return EMX_WIRE_BATCH;
}

static void shm_tx(struct emx_wire *base, const struct emx_txframe *f, unsigned n)
{
    struct shm_wire *w = (struct shm_wire *)base;

    for (unsigned i = 0; i < n; i++) {
        if (!send_one(w, &f[i]))
            w->stats->wire_tx_errors++;
    }
}

/* The ring is full, but its reader may be reading: that costs less time than copying what waits. */
static __attribute__((noinline)) void *place_soon(struct emx_shm_tx *t, uint32_t len_bytes)
{
    void *frame = NULL;

    for (unsigned i = 0; i < ROOM_LOOKS && !frame; i++) {
        emx_pause();
        frame = emx_shm_tx_reserve(t, len_bytes);
    }
    return frame;
}

static void *shm_reserve(struct emx_wire *base, const struct emx_wire_addr *to, uint32_t len_bytes)
{
    struct shm_wire *w = (struct shm_wire *)base;
    struct shm_out *o = out_to(w, id_of(to));
    void *frame;

    if (!o || o->gone || o->first)
        return NULL;
    w->placing = o;
    frame = emx_shm_tx_reserve(&o->tx, len_bytes);
    return frame ? frame : place_soon(&o->tx, len_bytes);
}

static void shm_commit(struct emx_wire *base)
{
    struct shm_out *o = ((struct shm_wire *)base)->placing;

    emx_shm_tx_commit(&o->tx);
    put_done(o);
}

/* ---- Rings that we read ---- */

static enum emx_shm_reader reader_state(const struct shm_wire *w)
{
    return w->awake ? EMX_SHM_AWAKE : EMX_SHM_DOZY;
}

static void set_readers(struct shm_wire *w, enum emx_shm_reader state)
{
    for (unsigned i = 0; i < w->in_count; i++)
        emx_shm_rx_state(&w->in[i]->rx, state);
}

/* To the front of the near ones; the last of them goes if there are enough. */
static void bring_near(struct shm_wire *w, struct shm_in *in)
{
    unsigned i = 0;

    while (i < w->near_count && w->near[i] != in)
        i++;
    if (i == w->near_count)
        i = w->near_count < NEAR ? w->near_count++ : NEAR - 1;
    memmove(&w->near[1], &w->near[0], i * sizeof(w->near[0]));
    w->near[0] = in;
}

static void forget_near(struct shm_wire *w, const struct shm_in *in)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < w->near_count; i++) {
        if (w->near[i] != in)
            w->near[kept++] = w->near[i];
    }
    w->near_count = kept;
    w->first = 0;
}

static bool add_in(struct shm_wire *w, struct shm_in *in)
{
    if (w->in_count == w->in_room) {
        unsigned room = w->in_room ? 2 * w->in_room : 16;
        struct shm_in **more = realloc(w->in, room * sizeof(*more));

        if (!more)
            return false;
        w->in = more;
        w->in_room = room;
    }
    in->index = w->in_count;
    w->in[w->in_count++] = in;
    bring_near(w, in);
    emx_shm_rx_state(&in->rx, reader_state(w));
    return true;
}

static void free_in(struct shm_wire *w, struct shm_in *in)
{
    struct shm_peer *p = find_peer(w, in->id);

    if (in->rx.m) {
        w->in[in->index] = w->in[--w->in_count];
        w->in[in->index]->index = in->index;
        forget_near(w, in);
        if (p && p->in == in)
            p->in = NULL;
    }
    emx_list_del(&in->link);
    close_port(w, &in->port);
    if (in->memory_fd >= 0) {
        close(in->memory_fd);
        w->memories--;
    }
    emx_shm_memory_free(in->rx.m);
    free(in);
}

static void probe_memory(const struct shm_wire *w, struct shm_in *in)
{
    uint64_t value;
    int err = !w->reads ? 0 : !in->pid ? ESRCH : 0;

    if (w->reads && !err)
        err = emx_shm_mem_read(in->pid, &in->token, in->token.address, &value, sizeof(value));
    in->readable = w->reads && !err;
    if (err)
        emx_log(EMX_LOG_DEBUG, "shm: the memory of process %d cannot be read: %s", (int)in->pid,
                in->pid ? strerror(err) : "it is in another PID namespace");
}

/* The caller has sent his ring, or not yet, or something else. */
static void greet(struct shm_wire *w, struct shm_in *in)
{
    struct emx_shm_memory *m = NULL;
    struct emx_shm_hello hello;
    struct shm_peer *p = NULL;
    int err = emx_shm_receive(in->port.fd, &hello, &m);

    if (err == EAGAIN)
        return;
    if (!err && hello.id)
        p = get_peer(w, hello.id);
    if (!p || p->in) {
        emx_shm_memory_free(m);
        free_in(w, in);
        return;
    }
    emx_shm_rx_init(&in->rx, m);
    if (!add_in(w, in)) {
        emx_shm_memory_free(m);
        in->rx.m = NULL;
        free_in(w, in);
        return;
    }
    emx_list_del(&in->link);
    in->id = hello.id;
    in->token = hello.token;
    p->in = in;
    probe_memory(w, in);
}

static void accept_all(struct shm_wire *w)
{
    pid_t pid = 0;
    int fd;

    while ((fd = emx_shm_accept(w->listener.fd, &pid)) >= 0) {
        struct shm_in *in = calloc(1, sizeof(*in));

        if (!in) {
            close(fd);
            return;
        }
        in->port = (struct port){.kind = PORT_IN, .fd = fd};
        in->pid = pid;
        in->memory_fd = -1;
        emx_list_init(&in->link);
        emx_list_append(&w->callers, &in->link);
        if (watch(w, &in->port))
            greet(w, in);
        else
            free_in(w, in);
    }
}

static void look_at_in(struct shm_wire *w, struct shm_in *in)
{
    if (!in->rx.m)
        greet(w, in);
    else if (!emx_shm_drain(in->port.fd)) {
        in->gone = true;
        close_port(w, &in->port);
    }
}

/* Whether a copy is under way that the peer takes part in. */
static bool is_split(const struct shm_wire *w, const struct shm_in *in)
{
    const struct shm_peer *p = find_peer(w, in->id);

    return p && p->out && p->out->split;
}

/* Frees those that have gone and left nothing to read. What the writer stored before its socket closed is seen. */
static void reap(struct shm_wire *w)
{
    for (unsigned i = w->in_count; i-- > 0;) {
        struct shm_in *in = w->in[i];

        if (in->gone && !in->lent && !emx_shm_rx_ready(&in->rx) && !is_split(w, in))
            free_in(w, in);
    }
}

/* ---- What the sockets tell ---- */

static void look_at_out(struct shm_wire *w, struct shm_out *o)
{
    if (!emx_shm_drain(o->port.fd))
        abandon_out(w, o);
}

static void look_at(struct shm_wire *w, struct port *p)
{
    switch (p->kind) {
    case PORT_LISTENER:
        accept_all(w);
        break;
    case PORT_IN:
        look_at_in(w, (struct shm_in *)(void *)p);
        break;
    case PORT_OUT:
        look_at_out(w, (struct shm_out *)(void *)p);
        break;
    }
}

static void look_at_sockets(struct shm_wire *w)
{
    struct epoll_event ev[EVENTS];
    int n = epoll_wait(w->epoll, ev, EVENTS, 0);

    for (int i = 0; i < n; i++)
        look_at(w, ev[i].data.ptr);
}

static void join_waiting(struct shm_wire *w)
{
    emx_list_each_safe(pos, tmp, &w->busy)
    {
        struct shm_out *o = emx_list_entry(pos, struct shm_out, link);

        if (!o->joined && !join(w, o) && !o->first)
            emx_list_del(&o->link);
    }
}

static void wake_up(struct shm_wire *w)
{
    if (w->awake || !w->registered || ++w->sweeps < SWEEPS_AWAKE)
        return;
    w->awake = true;
    set_readers(w, EMX_SHM_AWAKE);
}

static void shm_sweep(struct emx_wire *base)
{
    struct shm_wire *w = (struct shm_wire *)base;

    look_at_sockets(w);
    join_waiting(w);
    reap(w);
    if (!w->armed)
        wake_up(w);
}

/* ---- Helping others to read our memory ---- */

/* The peer reads a large message from us, and has called us to write a part of it. */
static void help(struct shm_wire *w, struct shm_in *in)
{
    struct emx_shm_split *m = &in->rx.m->split;
    struct emx_shm_piece p;
    bool ok = w->reads && in->pid;

    in->rx.called = false;
    while (ok && emx_shm_helper_claim(m, &p)) {
        ok = !emx_shm_mem_write(in->pid, in->token.guard, p.to, (const void *)(uintptr_t)p.from, p.len_bytes);
        emx_shm_helper_wrote(m, &p, ok);
        w->stats->bytes_helped += ok ? p.len_bytes : 0;
    }
}

/* ---- Receiving ---- */

/* None of its frames is lent. */
static void settle(struct shm_in *in)
{
    if (emx_shm_rx_settle(&in->rx))
        emx_shm_poke(in->port.fd);
}

/* Lends frames of one ring. Not inline: a poll that finds nothing should have little to save and restore. */
__attribute__((noinline)) static unsigned take(struct shm_wire *w, struct shm_in *in, struct emx_rxframe *f,
                                               unsigned max)
{
    int n = emx_shm_rx_take(&in->rx, f, max);

    if (n < 0) { /* its writer is not one of us */
        in->gone = true;
        close_port(w, &in->port);
        in->rx.next += EMX_SHM_SLOTS; /* not ready */
        w->stats->wire_lost++;
        return 0;
    }
    for (int i = 0; i < n; i++) {
        f[i].cookie = 0;
        f[i].parts = 0;
    }
    if (in->rx.called)
        help(w, in);
    if (!n && !in->lent) {
        settle(in);
        return 0;
    }
    in->lent = true;
    w->lender[w->lenders++] = in;
    w->lent += (unsigned)n;
    return (unsigned)n;
}

/* The busiest of the near ones has filled all room: the others come first next time. */
static void put_last(struct shm_wire *w, unsigned busiest)
{
    struct shm_in *in = w->near[busiest];

    memmove(&w->near[busiest], &w->near[busiest + 1], (w->near_count - busiest - 1) * sizeof(w->near[0]));
    w->near[w->near_count - 1] = in;
}

static inline unsigned rx_near(struct shm_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    for (unsigned i = 0; i < w->near_count && n < max; i++) {
        if (!emx_shm_rx_ready(&w->near[i]->rx))
            continue;
        n += take(w, w->near[i], f + n, max - n);
        if (n == max) {
            put_last(w, i);
            break;
        }
    }
    return n;
}

static struct shm_in *next_far(struct shm_wire *w)
{
    w->turn = w->turn + 1 < w->in_count ? w->turn + 1 : 0;
    return w->in[w->turn];
}

static unsigned rx_far(struct shm_wire *w, struct emx_rxframe *f, unsigned max)
{
    unsigned n = 0;

    for (unsigned i = 0; i < FAR && n < max; i++) {
        struct shm_in *in = next_far(w);

        if (!emx_shm_rx_ready(&in->rx))
            continue;
        n += take(w, in, f + n, max - n);
        bring_near(w, in);
    }
    return n;
}

/* The sleep is over. */
static void disarm(struct shm_wire *w)
{
    w->armed = false;
    set_readers(w, EMX_SHM_DOZY);
    look_at_sockets(w);
}

/* Apart, as it is seldom. */
static __attribute__((noinline)) void attend(struct shm_wire *w)
{
    if (w->armed)
        disarm(w);
    flush_backlogs(w);
}

/* What is to be done beside looking for frames. */
static inline void attend_if_due(struct shm_wire *w)
{
    if (__builtin_expect(w->armed || !emx_list_empty(&w->busy), 0))
        attend(w);
}

static unsigned shm_rx(struct emx_wire *base, struct emx_rxframe *f, unsigned max)
{
    struct shm_wire *w = (struct shm_wire *)base;
    unsigned n;

    attend_if_due(w);
    n = rx_near(w, f, max);
    if (w->in_count > w->near_count)
        n += rx_far(w, f + n, max - n);
    return n;
}

/* Frames may come back in any order, so the writers are told when all have. */
static void shm_rx_return(struct emx_wire *base, const struct emx_rxframe *f, unsigned n)
{
    struct shm_wire *w = (struct shm_wire *)base;

    (void)f;
    w->lent -= n;
    if (w->lent)
        return;
    while (w->lenders) {
        struct shm_in *in = w->lender[--w->lenders];

        in->lent = false;
        settle(in);
    }
}

static inline unsigned next_near(const struct shm_wire *w, unsigned i)
{
    return i + 1 < w->near_count ? i + 1 : 0;
}

/* One of those that are far has something: it is near now. */
static bool far_speaks(struct shm_wire *w)
{
    for (unsigned i = 0; i < FAR; i++) {
        struct shm_in *in = next_far(w);

        if (!emx_shm_rx_ready(&in->rx))
            continue;
        bring_near(w, in);
        return true;
    }
    return false;
}

/* With many peers the far ones must have their turn: what they have said is left to shm_rx(). */
static struct emx_wire_peek shm_peek(struct emx_wire *base)
{
    struct shm_wire *w = (struct shm_wire *)base;
    struct emx_wire_peek p = {.data = NULL};

    attend_if_due(w);
    if (w->in_count > w->near_count && far_speaks(w))
        return emx_wire_peek_rx();
    for (unsigned n = 0, i = w->first; n < w->near_count; n++, i = next_near(w, i)) {
        if (!emx_shm_rx_ready(&w->near[i]->rx))
            continue;
        w->peeked = i;
        p.data = emx_shm_rx_peek(&w->near[i]->rx, &p.len_bytes);
        w->peeked_bytes = p.len_bytes;
        return p;
    }
    return p;
}

/* The next look begins with another. */
static void shm_consume(struct emx_wire *base)
{
    struct shm_wire *w = (struct shm_wire *)base;
    struct shm_in *in = w->near[w->peeked];

    w->first = next_near(w, w->peeked);
    emx_shm_rx_pass(&in->rx, w->peeked_bytes);
    settle(in);
}

static bool anything_there(const struct shm_wire *w)
{
    for (unsigned i = 0; i < w->in_count; i++) {
        if (emx_shm_rx_ready(&w->in[i]->rx))
            return true;
    }
    return false;
}

/* A barrier on every processor where a process like ours runs. */
static void barrier_everywhere(void)
{
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

static bool register_for_barriers(void)
{
#if defined(__SANITIZE_THREAD__)
    return false; /* the sanitizer knows nothing of membarrier */
#else
    return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0);
#endif
}

static bool shm_arm(struct emx_wire *base)
{
    struct shm_wire *w = (struct shm_wire *)base;

    w->armed = true;
    w->sweeps = 0;
    set_readers(w, EMX_SHM_ASLEEP);
    if (w->awake)
        barrier_everywhere();
    w->awake = false;
    emx_list_each(pos, &w->busy) emx_shm_tx_wait(&emx_list_entry(pos, struct shm_out, link)->tx);
    if (!anything_there(w) && !flush_backlogs(w))
        return true;
    disarm(w);
    return false;
}

static int shm_fd(struct emx_wire *base, unsigned i)
{
    return i ? -1 : ((struct shm_wire *)base)->epoll;
}

/* ---- Reaching and reading others ---- */

/* A ring for which there was no descriptor: another wire carries the frames. */
static void unmake_out(struct shm_wire *w, uint32_t id)
{
    struct shm_peer *p = find_peer(w, id);

    if (p && p->out)
        free_out(w, p->out);
    if (p)
        p->out = NULL;
}

static bool shm_reach(struct emx_wire *base, const struct emx_wire_addr *to, char *why, size_t why_len_bytes)
{
    struct shm_wire *w = (struct shm_wire *)base;
    struct shm_peer *p = find_peer(w, id_of(to));
    int err = 0;

    if (!p || !p->out)
        make_out(w, id_of(to), &err);
    else if (p->out->gone)
        err = ECONNREFUSED;
    if (!err || (passes(err) && err != EMFILE))
        return true;
    if (err == EMFILE) {
        unmake_out(w, id_of(to));
        snprintf(why, why_len_bytes, "this process may have no more open files (ulimit -n)");
    } else if (err == ECONNREFUSED)
        snprintf(why, why_len_bytes, "its process has gone");
    else if (err == EPERM)
        snprintf(why, why_len_bytes, "its process belongs to another user");
    else
        snprintf(why, why_len_bytes, "no shared memory with it: %s", strerror(err));
    return false;
}

/* Of the kernel's tick; a few nanoseconds to read. */
static uint64_t coarse_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* 0, or an errno. */
static int read_part(struct shm_in *in, const struct emx_wire_read *r, struct emx_shm_part part)
{
    uint64_t tick = coarse_ns();
    int err = emx_shm_mem_read(in->pid, in->proof == tick ? NULL : &in->token, r->remote + part.offset,
                               (uint8_t *)r->local + part.offset, part.len_bytes);

    if (!err)
        in->proof = tick;
    return err;
}

/* The result for the caller. */
static int told(struct shm_in *in, int err)
{
    if (!err)
        return ETHMX_OK;
    if (err == EFAULT)
        return ETHMX_ERR_PARAM; /* this place: another message lies elsewhere */
    in->readable = false;
    emx_log(EMX_LOG_DEBUG, "shm: the memory of process %d cannot be read any more: %s", (int)in->pid, strerror(err));
    return ETHMX_ERR_UNREACHABLE;
}

/* Copies parts until none is left. */
static void copy_parts(struct shm_out *o, struct shm_in *in, const struct emx_wire_read *r, struct emx_shm_part part)
{
    do
        o->err = read_part(in, r, part);
    while (!o->err && emx_shm_owner_take(&o->owner, &part));
    if (o->err)
        emx_shm_owner_close(&o->owner);
}

/* What the peer took is looked at for a short time: it takes small pieces only. */
static enum emx_shm_help await(const struct shm_out *o, struct emx_shm_part *part_p)
{
    for (unsigned i = 0; i < AWAIT_LOOKS; i++) {
        enum emx_shm_help help = emx_shm_owner_look(&o->owner, part_p);

        if (help != EMX_SHM_HELP_UNDER_WAY)
            return help;
        emx_pause();
    }
    return EMX_SHM_HELP_UNDER_WAY;
}

/* A process that was stopped in the middle of a piece may go on any time. */
static void complain(struct shm_out *o, const struct shm_in *in)
{
    uint64_t now = coarse_ns();

    if (!o->since_ns)
        o->since_ns = now;
    if (o->told || now - o->since_ns < COMPLAIN_NS)
        return;
    o->told = true;
    emx_log(EMX_LOG_WARN,
            "process %d on this host holds up a large message: it stopped while it wrote into our memory. The message "
            "ends when that process goes on (kill -CONT %d) or ends",
            (int)in->pid, (int)in->pid);
}

/* Whether the peer is known not to write to us any more. It closes its sockets, or the kernel does, after the last
 * write; a child of it may keep them open. */
static bool writes_no_more(const struct shm_out *o, const struct shm_in *in)
{
    return o->gone || in->gone || emx_shm_mem_gone(in->memory_fd, &in->token);
}

/* All is taken; ends when the peer has written its share, or writes no more. */
static int end_split(struct shm_wire *w, struct shm_out *o, struct shm_in *in, const struct emx_wire_read *r)
{
    struct emx_shm_part part;
    enum emx_shm_help help = await(o, &part);

    if (help == EMX_SHM_HELP_UNDER_WAY) {
        if (!writes_no_more(o, in)) {
            complain(o, in);
            return ETHMX_INPROGRESS;
        }
        o->err = ESRCH;
    }
    o->split = false;
    o->helped = part.len_bytes > 0;
    if (o->gone)
        abandon_out(w, o);
    if (help == EMX_SHM_HELP_FAILED) {
        if (!o->err)
            o->err = read_part(in, r, part);
        in->no_help = o->err != EFAULT;
    } else if (!o->err) {
        w->stats->bytes_read_helped += part.len_bytes;
    }
    return told(in, o->err);
}

/* Of the first peers that send large messages; from more of them than that no help is asked. */
static bool open_memory(struct shm_wire *w, struct shm_in *in)
{
    if (in->memory_fd < 0 && !in->no_help) {
        in->memory_fd = w->memories < FILES_MEMORY ? emx_shm_mem_open(in->pid, &in->token) : -1;
        in->no_help = in->memory_fd < 0;
        w->memories += in->memory_fd >= 0;
    }
    return in->memory_fd >= 0;
}

static bool may_split(struct shm_wire *w, const struct shm_out *o, struct shm_in *in, const struct emx_wire_read *r)
{
    return r->lasting && w->guard && r->len_bytes >= SPLIT_MIN_BYTES && r->len_bytes <= EMX_SHM_SPLIT_BYTES && o &&
           !o->gone && o->joined && !o->first && !in->no_help && open_memory(w, in);
}

static int shm_read(struct emx_wire *base, const struct emx_wire_read *r)
{
    struct shm_wire *w = (struct shm_wire *)base;
    struct shm_peer *p = find_peer(w, id_of(r->from));
    struct emx_shm_part part = {.len_bytes = r->len_bytes};

    if (p && p->out && p->out->split)
        return end_split(w, p->out, p->in, r);
    if (!p || !p->in || !p->in->readable)
        return ETHMX_ERR_UNREACHABLE;
    if (!may_split(w, p->out, p->in, r))
        return told(p->in, read_part(p->in, r, part));
    emx_shm_owner_open(&p->out->owner, r->remote, (uintptr_t)r->local, r->len_bytes, p->out->helped, &part);
    p->out->split = true;
    p->out->since_ns = 0;
    p->out->told = false;
    emx_shm_tx_call(&p->out->tx);
    copy_parts(p->out, p->in, r, part);
    return end_split(w, p->out, p->in, r);
}

/* ---- Opening and closing ---- */

static void shm_close(struct emx_wire *base)
{
    struct shm_wire *w = (struct shm_wire *)base;
    struct emx_list *caller;

    while (w->in_count)
        free_in(w, w->in[w->in_count - 1]);
    while ((caller = emx_list_first(&w->callers)))
        free_in(w, emx_list_entry(caller, struct shm_in, link));
    for (unsigned i = 0; i < w->peer_room; i++) {
        if (w->peer[i].out)
            free_out(w, w->peer[i].out);
    }
    close_port(w, &w->listener);
    if (w->epoll >= 0)
        close(w->epoll);
    emx_shm_guard_free(w->guard);
    free(w->peer);
    free(w->in);
    free(w);
}

static int open_sockets(struct shm_wire *w, char *why, size_t why_len_bytes)
{
    int fd = emx_shm_listen(w->id);

    if (fd < 0) {
        snprintf(why, why_len_bytes, "no socket can be made to be called by other processes: %s", strerror(-fd));
        return ETHMX_ERR_NO_WIRE;
    }
    w->listener = (struct port){.kind = PORT_LISTENER, .fd = fd};
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll >= 0 && watch(w, &w->listener))
        return ETHMX_OK;
    snprintf(why, why_len_bytes, "epoll: %s", strerror(errno));
    return ETHMX_ERR_NO_WIRE;
}

/* A job's ranks on this host may all be peers. Said now: later it would be a message that does not go. */
static void allow_files(unsigned local_ranks, char *why, size_t why_len_bytes)
{
    unsigned need = FILES_OTHERS, have;

    if (local_ranks <= 1)
        return;
    need += FILES_PEER * (local_ranks - 1);
    need += local_ranks - 1 < FILES_MEMORY ? local_ranks - 1 : FILES_MEMORY;
    have = emx_fds_allow(need);
    if (have >= need)
        return;
    snprintf(why, why_len_bytes, "; may run out of open files: %u ranks on this host may need %u, and %u are allowed",
             local_ranks, need, have);
    emx_log(EMX_LOG_WARN,
            "%u ranks on this host may need %u open files in each process, and this one may have %u: raise the limit "
            "(ulimit -n), or leave shm out of ETHMX_WIRES",
            local_ranks, need, have);
}

/* Kernels before 3.17, and filters, have no memfd. */
static int try_memory(char *why, size_t why_len_bytes)
{
    int fd;
    struct emx_shm_memory *m = emx_shm_memory_new(&fd);

    if (!m) {
        snprintf(why, why_len_bytes, "no memory to share (memfd_create): %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    emx_shm_memory_free(m);
    close(fd);
    return ETHMX_OK;
}

static int shm_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct shm_wire *w = calloc(1, sizeof(*w));
    char no_reads[160];
    size_t said;
    int ret;

    if (!w) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    w->base.ops = &emx_wire_shm;
    w->stats = params->stats;
    w->id = params->endpoint_id;
    w->listener.fd = w->epoll = -1;
    emx_list_init(&w->callers);
    emx_list_init(&w->busy);
    if (getrandom(&w->token, sizeof(w->token), 0) < 0)
        w->token = (uintptr_t)w;
    w->guard = emx_shm_guard_new();
    ret = emx_shm_knows_users(why, why_len_bytes) ? try_memory(why, why_len_bytes) : ETHMX_ERR_NO_WIRE;
    if (!ret)
        ret = open_sockets(w, why, why_len_bytes);
    if (ret) {
        shm_close(&w->base);
        return ret;
    }
    w->registered = register_for_barriers();
    w->reads = emx_shm_mem_probe(no_reads, sizeof(no_reads));
    snprintf(why, why_len_bytes, "up to %zu KiB for each peer and direction, large messages in %s%s",
             sizeof(struct emx_shm_memory) / 1024, w->reads ? "one copy" : "two copies: ", no_reads);
    said = strlen(why);
    allow_files(params->local_ranks, why + said, why_len_bytes - said);
    *w_p = &w->base;
    return ETHMX_OK;
}

static void shm_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct shm_wire *w = (const struct shm_wire *)base;

    *attr_p = (struct emx_wire_attr){
        .frame_bytes = EMX_SHM_FRAME_BYTES, .cheap_poll = true, .reliable = true, .reads = w->reads, .guarded = true};
}

static bool shm_unsent(const struct emx_wire *base)
{
    return !emx_list_empty(&((const struct shm_wire *)base)->busy);
}

const struct emx_wire_ops emx_wire_shm = {
    .name = "shm",
    .help = "shared memory between processes of one user on one host",
    .open = shm_open,
    .close = shm_close,
    .query = shm_query,
    .reach = shm_reach,
    .tx_room = shm_tx_room,
    .tx = shm_tx,
    .reserve = shm_reserve,
    .commit = shm_commit,
    .unsent = shm_unsent,
    .rx = shm_rx,
    .rx_return = shm_rx_return,
    .peek = shm_peek,
    .consume = shm_consume,
    .read = shm_read,
    .fd = shm_fd,
    .arm = shm_arm,
    .sweep = shm_sweep,
};
