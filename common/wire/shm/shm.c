/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shm wire: processes of one user on one host, in one network namespace.
 *
 * Each pair of endpoints that exchange frames has a ring for each direction (shm_ring.c). Its writer makes it at the
 * first frame and hands it over through a socket (shm_join.c). Received frames are used in the ring, without a copy.
 * No frame is lost while both processes live.
 *
 * What needs system calls is done in sweep(): new connections, and peers that have gone. One epoll descriptor holds the
 * listening socket and those of all rings; a caller that sleeps waits for it.
 *
 * A forked child has copies of the sockets, so the death of its parent is seen only when the child has ended too; the
 * engine's time-outs do not depend on it. The rings are not mapped in the child.
 */
#include "wire/shm/shm.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "wire/fds.h"
#include "wire/shm/shm_copy.h"
#include "wire/shm/shm_in.h"
#include "wire/shm/shm_join.h"
#include "wire/shm/shm_mem.h"
#include "wire/shm/shm_out.h"
#include "wire/shm/shm_peer.h"
#include "wire/shm/shm_view.h"
#include "wire/way.h"

#define FILES_PEER   2   /* descriptors for each peer: a socket for each direction */
#define FILES_OTHERS 256 /* for the program and all else */

static_assert(sizeof(struct emx_shm_addr) <= EMX_WIRE_ADDR_BYTES, "shm address");

void emx_shm_addr(struct emx_wire_addr *a, uint32_t endpoint_id)
{
    struct emx_shm_addr s = {.id = endpoint_id};

    memset(a, 0, sizeof(*a));
    memcpy(a, &s, sizeof(s));
}

static int shm_fd(struct emx_wire *base, unsigned i)
{
    return i ? -1 : ((struct emx_shm_wire *)base)->epoll;
}

static bool shm_reach(struct emx_wire *base, const struct emx_wire_addr *to, char *why, size_t why_len_bytes)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_shm_peer *p = emx_shm_peer_find(w, emx_shm_id_of(to));
    int err = 0;

    if (!p || !p->out)
        emx_shm_out_new(w, emx_shm_id_of(to), &err);
    else if (p->out->gone)
        err = ECONNREFUSED;
    if (!err || (emx_shm_out_may_retry(err) && err != EMFILE))
        return true;
    if (err == EMFILE) {
        emx_shm_out_remove(w, emx_shm_id_of(to));
        snprintf(why, why_len_bytes, "this process may have no more open files (ulimit -n)");
    } else if (err == ECONNREFUSED)
        snprintf(why, why_len_bytes, "its process has gone");
    else if (err == EPERM)
        snprintf(why, why_len_bytes, "its process belongs to another user");
    else
        snprintf(why, why_len_bytes, "no shared memory with it: %s", strerror(err));
    return false;
}

static void shm_ways(struct emx_wire *base, struct emx_way_search *s)
{
    struct emx_way w = emx_way_start(s, NULL, EMX_SHM_FRAME_BYTES, 0);

    s->obstacle = "another host";
    if (!s->same_host)
        return;
    emx_shm_addr(&w.to, s->peer_id);
    s->obstacle = s->told;
    if (shm_reach(base, &w.to, s->told, sizeof(s->told)))
        emx_way_add(s, &w);
}

static void shm_close(struct emx_wire *base)
{
    struct emx_shm_wire *w = (struct emx_shm_wire *)base;
    struct emx_list *caller;

    while (w->in_count)
        emx_shm_in_free(w, w->in[w->in_count - 1]);
    while ((caller = emx_list_first(&w->joining)))
        emx_shm_in_free(w, emx_list_entry(caller, struct emx_shm_in, link));
    for (unsigned i = 0; i < w->peer_capacity; i++) {
        if (w->peer[i].out)
            emx_shm_out_free(w, w->peer[i].out);
    }
    emx_shm_port_close(w, &w->listener);
    if (w->epoll >= 0)
        close(w->epoll);
    emx_shm_guard_free(w->guard);
    free(w->peer);
    free(w->in);
    free(w);
}

static int shm_open_sockets(struct emx_shm_wire *w, char *why, size_t why_len_bytes)
{
    int fd = emx_shm_listen(w->id);

    if (fd < 0) {
        snprintf(why, why_len_bytes, "cannot create the socket that other processes connect to: %s", strerror(-fd));
        return ETHMX_ERR_NO_WIRE;
    }
    w->listener = (struct emx_shm_port){.kind = EMX_SHM_PORT_LISTENER, .fd = fd};
    w->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (w->epoll >= 0 && emx_shm_port_watch(w, &w->listener))
        return ETHMX_OK;
    snprintf(why, why_len_bytes, "epoll: %s", strerror(errno));
    return ETHMX_ERR_NO_WIRE;
}

/* All ranks of the job on this host may become peers. A warning now is better than a failed send later. */
static void shm_allow_files(unsigned local_ranks, char *why, size_t why_len_bytes)
{
    unsigned need = FILES_OTHERS, have;

    if (local_ranks <= 1)
        return;
    need += FILES_PEER * (local_ranks - 1);
    need += local_ranks - 1 < EMX_SHM_FILES_MEMORY ? local_ranks - 1 : EMX_SHM_FILES_MEMORY;
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

/* Kernels before 3.17 have no memfd_create(2), and seccomp filters may forbid it. */
static int shm_try_memory(char *why, size_t why_len_bytes)
{
    int fd;
    struct emx_shm_memory *m = emx_shm_memory_new(&fd);

    if (!m) {
        snprintf(why, why_len_bytes, "cannot create shared memory (memfd_create): %s", strerror(errno));
        return ETHMX_ERR_NO_WIRE;
    }
    emx_shm_memory_free(m);
    close(fd);
    return ETHMX_OK;
}

static int shm_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct emx_shm_wire *w = calloc(1, sizeof(*w));
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
    emx_list_init(&w->joining);
    emx_list_init(&w->busy);
    emx_list_init(&w->views);
    w->segments = params->segments;
    if (getrandom(&w->token, sizeof(w->token), 0) < 0)
        w->token = (uintptr_t)w;
    w->guard = emx_shm_guard_new();
    ret = emx_shm_knows_users(why, why_len_bytes) ? shm_try_memory(why, why_len_bytes) : ETHMX_ERR_NO_WIRE;
    if (!ret)
        ret = shm_open_sockets(w, why, why_len_bytes);
    if (ret) {
        shm_close(&w->base);
        return ret;
    }
    w->registered = emx_shm_in_register_barriers();
    w->reads = emx_shm_mem_probe(no_reads, sizeof(no_reads));
    snprintf(why, why_len_bytes, "up to %zu KiB for each peer and direction, large messages in %s%s",
             sizeof(struct emx_shm_memory) / 1024, w->reads ? "one copy" : "two copies: ", no_reads);
    said = strlen(why);
    shm_allow_files(params->local_ranks, why + said, why_len_bytes - said);
    *w_p = &w->base;
    return ETHMX_OK;
}

static void shm_query(const struct emx_wire *base, struct emx_wire_attr *attr_p)
{
    const struct emx_shm_wire *w = (const struct emx_shm_wire *)base;

    *attr_p = (struct emx_wire_attr){
        .frame_bytes = EMX_SHM_FRAME_BYTES, .cheap_poll = true, .reliable = true, .reads = w->reads, .guarded = true};
}

const struct emx_wire_ops emx_wire_shm = {
    .name = "shm",
    .part = EMX_SHM_PART,
    .help = "shared memory between processes of one user on one host",
    .open = shm_open,
    .close = shm_close,
    .query = shm_query,
    .ways = shm_ways,
    .tx_room = emx_shm_out_budget,
    .tx = emx_shm_out_tx,
    .reserve = emx_shm_out_reserve,
    .commit = emx_shm_out_commit,
    .unsent = emx_shm_out_unsent,
    .rx = emx_shm_in_rx,
    .rx_return = emx_shm_in_rx_return,
    .peek = emx_shm_in_peek,
    .consume = emx_shm_in_consume,
    .read = emx_shm_copy_read,
    .view = emx_shm_view_find,
    .fd = shm_fd,
    .arm = emx_shm_in_arm,
    .sweep = emx_shm_in_sweep,
};
