/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The receiver reads the sender's memory. Where both sides can reach each other's memory, and the message is long
 * enough, the sender helps: it writes a share to the receiver's memory (shm_split.c).
 */
#include "wire/shm/shm_copy.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/pause.h"
#include "wire/shm/shm_out.h"
#include "wire/shm/shm_peer.h"

#define SPLIT_MIN_BYTES 24576 /* for shorter ones the exchange costs more than it saves */
#define AWAIT_LOOKS     1000  /* polls of the helper's share before the caller gets ETHMX_INPROGRESS */
#define WARN_NS         1000000000u

void emx_shm_copy_probe(const struct emx_shm_wire *w, struct emx_shm_in *in)
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

void emx_shm_copy_help(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    struct emx_shm_split *m = &in->rx.m->split;
    struct emx_shm_claim p;
    bool ok = w->reads && in->pid;

    in->rx.called = false;
    while (ok && emx_shm_helper_claim(m, &p)) {
        ok = !emx_shm_mem_write(in->pid, in->token.guard, p.to, (const void *)(uintptr_t)p.from, p.len_bytes);
        emx_shm_helper_wrote(m, &p, ok);
        w->stats->bytes_helped += ok ? p.len_bytes : 0;
    }
}

/* Time of the kernel's last tick: cheaper to read than the exact time. */
static uint64_t shm_copy_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Copies one part. 0, or an errno. */
static int shm_copy_part(struct emx_shm_in *in, const struct emx_wire_read *r, struct emx_shm_part part)
{
    uint64_t tick = shm_copy_now_ns();
    int err = emx_shm_mem_read(in->pid, in->proof == tick ? NULL : &in->token, r->remote + part.offset,
                               (uint8_t *)r->local + part.offset, part.len_bytes);

    if (!err)
        in->proof = tick;
    return err;
}

/* Converts an errno to the result of read(). */
static int shm_copy_result(struct emx_shm_in *in, int err)
{
    if (!err)
        return ETHMX_OK;
    if (err == EFAULT)
        return ETHMX_ERR_PARAM; /* of this address; other messages may be readable */
    in->readable = false;
    emx_log(EMX_LOG_DEBUG, "shm: the memory of process %d cannot be read any more: %s", (int)in->pid, strerror(err));
    return ETHMX_ERR_UNREACHABLE;
}

/* Copies our parts until none is left. */
static void shm_copy_own_parts(struct emx_shm_out *o, struct emx_shm_in *in, const struct emx_wire_read *r,
                               struct emx_shm_part part)
{
    do
        o->err = shm_copy_part(in, r, part);
    while (!o->err && emx_shm_owner_take(&o->owner, &part));
    if (o->err)
        emx_shm_owner_close(&o->owner);
}

/* Polls for the end of the peer's share, for a short time, because the peer takes small parts only. */
static enum emx_shm_help shm_copy_await_helper(const struct emx_shm_out *o, struct emx_shm_part *part_p)
{
    for (unsigned i = 0; i < AWAIT_LOOKS; i++) {
        enum emx_shm_help help = emx_shm_owner_look(&o->owner, part_p);

        if (help != EMX_SHM_HELP_UNDER_WAY)
            return help;
        emx_pause();
    }
    return EMX_SHM_HELP_UNDER_WAY;
}

/* A process that was stopped while it writes a part may continue at any time, so the copy cannot be abandoned. */
static void shm_copy_warn_if_slow(struct emx_shm_out *o, const struct emx_shm_in *in)
{
    uint64_t now = shm_copy_now_ns();

    if (!o->since_ns)
        o->since_ns = now;
    if (o->warned || now - o->since_ns < WARN_NS)
        return;
    o->warned = true;
    emx_log(EMX_LOG_WARN,
            "process %d on this host delays a large message: it stopped while it wrote into our memory. The message "
            "completes when that process continues (kill -CONT %d) or ends",
            (int)in->pid, (int)in->pid);
}

/* Whether the peer certainly writes no more to our memory. Its sockets are closed after its last write. A child of it
 * may keep them open, so the state of its memory is looked at, too. */
static bool shm_copy_peer_stopped(const struct emx_shm_out *o, const struct emx_shm_in *in)
{
    return o->gone || in->gone || emx_shm_mem_gone(in->memory_fd, &in->token);
}

/* All parts are taken. Ends the copy when the peer has written its share, or certainly writes no more. */
static int shm_copy_end_split(struct emx_shm_wire *w, struct emx_shm_out *o, struct emx_shm_in *in,
                              const struct emx_wire_read *r)
{
    struct emx_shm_part part;
    enum emx_shm_help help = shm_copy_await_helper(o, &part);

    if (help == EMX_SHM_HELP_UNDER_WAY) {
        if (!shm_copy_peer_stopped(o, in)) {
            shm_copy_warn_if_slow(o, in);
            return ETHMX_INPROGRESS;
        }
        o->err = ESRCH;
    }
    o->split = false;
    o->helped = part.len_bytes > 0;
    if (o->gone)
        emx_shm_out_abandon(w, o);
    if (help == EMX_SHM_HELP_FAILED) {
        if (!o->err)
            o->err = shm_copy_part(in, r, part);
        in->no_help = o->err != EFAULT;
    } else if (!o->err) {
        w->stats->bytes_read_helped += part.len_bytes;
    }
    return shm_copy_result(in, o->err);
}

/* Opens the peer's memory, of the first EMX_SHM_FILES_MEMORY peers that send large messages. Others do not help. */
static bool shm_copy_open_memory(struct emx_shm_wire *w, struct emx_shm_in *in)
{
    if (in->memory_fd < 0 && !in->no_help) {
        in->memory_fd = w->memories < EMX_SHM_FILES_MEMORY ? emx_shm_mem_open(in->pid, &in->token) : -1;
        in->no_help = in->memory_fd < 0;
        w->memories += in->memory_fd >= 0;
    }
    return in->memory_fd >= 0;
}

static bool shm_copy_may_split(struct emx_shm_wire *w, const struct emx_shm_out *o, struct emx_shm_in *in,
                               const struct emx_wire_read *r)
{
    return r->lasting && w->guard && r->len_bytes >= SPLIT_MIN_BYTES && r->len_bytes <= EMX_SHM_SPLIT_BYTES && o &&
           !o->gone && o->joined && !o->first && !in->no_help && shm_copy_open_memory(w, in);
}

int emx_shm_copy_read(struct emx_wire *base, const struct emx_wire_read *r)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_shm_peer *p = emx_shm_peer_find(w, emx_shm_id_of(r->from));
    struct emx_shm_part part = {.len_bytes = r->len_bytes};

    if (p && p->out && p->out->split)
        return shm_copy_end_split(w, p->out, p->in, r);
    if (!p || !p->in || !p->in->readable)
        return ETHMX_ERR_UNREACHABLE;
    if (!shm_copy_may_split(w, p->out, p->in, r))
        return shm_copy_result(p->in, shm_copy_part(p->in, r, part));
    emx_shm_owner_open(&p->out->owner, r->remote, (uintptr_t)r->local, r->len_bytes, p->out->helped, &part);
    p->out->split = true;
    p->out->since_ns = 0;
    p->out->warned = false;
    emx_shm_tx_call(&p->out->tx);
    shm_copy_own_parts(p->out, p->in, r, part);
    return shm_copy_end_split(w, p->out, p->in, r);
}
