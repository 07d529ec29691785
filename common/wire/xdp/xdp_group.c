/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sharing an interface. The kernel lets one pool of packet memory (UMEM) serve a receive queue, so all endpoints of the
 * host on that interface must share it. The first of them creates everything and listens on a unix socket. Later ones
 * get copies of all descriptors from any member:
 *
 *     memory    shared state, then the UMEM: [chunks for receiving, a part for each slot][for sending, likewise]
 *     roots     for each receive queue a socket that only holds the pool, its fill and completion rings
 *     program   attachment and maps, see xdp_prog.c
 *     listener  the unix socket on which others connect; the first member that polls it replies
 *     store     a unix socket pair whose queue holds the sockets of all members, see below
 *
 * All members are equal: each holds all of this, so it remains if any of them is killed. When the last one has ended,
 * the kernel frees program, memory and names. Nothing is pinned or has a name in a file system.
 *
 * Each member has a slot: its own sockets (bound with XDP_SHARED_UMEM), its part of the chunks for sending, and a byte
 * of the memory file that it keeps locked. By this lock the kernel tells the others whether the member is alive.
 *
 * Ownership of chunks. A chunk for receiving belongs to the fill ring, then to the kernel, then to the receiving
 * socket, from the RX ring's consumer to its producer. A member advances its consumer only after it has put the chunks
 * into the fill ring again. So the ring shows, to others too, which chunks the member has. If a member is killed, the
 * copies of its sockets in the store keep them open. The next member that joins, or finds the fill ring low, takes
 * these sockets out of the store, puts the chunks of their rings into the fill ring and closes them. A chunk for
 * sending belongs to its slot, and is flagged busy while the kernel has it.
 *
 * There is one robust lock, because the kernel expects one producer or consumer for each fill and completion ring. A
 * member that is killed while it holds the lock leaves a journal of its current operation.
 */
#define _GNU_SOURCE
#include "wire/xdp/xdp_group.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "wire/busy_poll.h"
#include "wire/netif.h"
#include "wire/fds.h"
#include "wire/xdp/xdp_shared.h"

/* Protects the groups of this process, because an endpoint cannot wait for a reply of its own process. */
static pthread_mutex_t own_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emx_xdp_group *own_groups;

unsigned emx_xdp_group_frame_bytes(const struct emx_xdp_group *g)
{
    return g->several_buffers ? FRAME_LIMIT : g->chunk_bytes - KERNEL_ROOM - HEADROOM - ETH_HLEN;
}

/* ---- Under the lock ---- */

static void xdp_group_put_chunk(struct xsk_ring_prod *fill, uint32_t at, uint64_t chunk)
{
    *xsk_ring_prod__fill_addr(fill, at) = chunk;
}

/* Puts the chunks of n received descriptors, which begin at `at` in the ring, into the fill ring. */
static void xdp_group_give_back(struct emx_xdp_group *g, struct xsk_ring_prod *fill, const struct xsk_ring_cons *rx,
                                uint32_t at, uint32_t n)
{
    uint64_t chunk_mask = ~(uint64_t)(g->chunk_bytes - 1);
    uint32_t to = *fill->producer;

    for (uint32_t i = 0; i < n; i++)
        xdp_group_put_chunk(fill, to + i, xsk_ring_cons__rx_desc(rx, at + i)->addr & chunk_mask);
    __atomic_store_n(fill->producer, to + n, __ATOMIC_RELEASE);
}

/* Clears the flags of the completed chunks that the journal names. */
static void xdp_group_clear_busy(struct emx_xdp_group *g)
{
    const struct xsk_ring_cons *c = &g->queue[0].completed;
    struct journal *j = &g->shared->journal;

    for (; j->reap_next != j->reap_end; __atomic_store_n(&j->reap_next, j->reap_next + 1, __ATOMIC_RELEASE)) {
        uint64_t chunk = *xsk_ring_cons__comp_addr(c, j->reap_next) / g->chunk_bytes - emx_xdp_rx_chunks(g->shared);

        if (chunk < g->shared->slots * EMX_XDP_TX)
            __atomic_store_n(&g->shared->tx_busy[chunk], EMX_XDP_FREE, __ATOMIC_RELEASE);
    }
}

/* The last holder of the lock was killed. Chunks that it refilled are found by the journal when its slot is taken back.
 * The flag at reap_next may have been cleared and its chunk used again, so it is not touched. */
static void xdp_group_repair(struct emx_xdp_group *g)
{
    struct journal *j = &g->shared->journal;

    if (j->refilling && *g->queue[j->queue].fill.producer == j->fill_before)
        j->refilling = 0; /* the refill had not begun */
    if (j->reap_next != j->reap_end) {
        j->reap_next++;
        xdp_group_clear_busy(g);
    }
    pthread_mutex_consistent(&g->shared->lock);
}

static void xdp_group_lock(struct emx_xdp_group *g)
{
    if (pthread_mutex_lock(&g->shared->lock) == EOWNERDEAD)
        xdp_group_repair(g);
}

static void xdp_group_unlock(struct emx_xdp_group *g)
{
    pthread_mutex_unlock(&g->shared->lock);
}

static void xdp_group_reap_locked(struct emx_xdp_group *g)
{
    struct xsk_ring_cons *c = &g->queue[0].completed;
    struct journal *j = &g->shared->journal;
    uint32_t end = __atomic_load_n(c->producer, __ATOMIC_ACQUIRE);

    j->reap_next = *c->consumer;
    j->reap_end = end;
    __atomic_store_n(c->consumer, end, __ATOMIC_RELEASE);
    xdp_group_clear_busy(g);
}

void emx_xdp_group_reap(struct emx_xdp_group *g)
{
    xdp_group_lock(g);
    xdp_group_reap_locked(g);
    xdp_group_unlock(g);
}

static void xdp_group_wake_receiver(const struct emx_xdp_queue *queue)
{
    if (xsk_ring_prod__needs_wakeup(&queue->fill))
        recvfrom(queue->sock_fd, NULL, 0, MSG_DONTWAIT, NULL, NULL);
}

static void xdp_group_refill_locked(struct emx_xdp_group *g, unsigned q)
{
    struct emx_xdp_queue *queue = &g->queue[q];
    struct journal *j = &g->shared->journal;
    uint32_t from = *queue->rx.consumer, n = queue->rx.cached_cons - from;

    j->queue = q;
    j->fill_before = *queue->fill.producer;
    j->rx_after = from + n;
    __atomic_store_n(&j->refilling, 1 + g->slot, __ATOMIC_RELEASE);
    xdp_group_give_back(g, &queue->fill, &queue->rx, from, n);
    __atomic_store_n(queue->rx.consumer, from + n, __ATOMIC_RELEASE);
    __atomic_store_n(&j->refilling, 0, __ATOMIC_RELEASE);
}

static void xdp_group_take_back_dead(struct emx_xdp_group *g);

/* Whether the kernel has few chunks left for receiving. */
static bool xdp_group_is_low(const struct emx_xdp_group *g, unsigned q)
{
    const struct xsk_ring_prod *fill = &g->queue[q].fill;
    uint32_t left = *fill->producer - __atomic_load_n(fill->consumer, __ATOMIC_RELAXED);

    return left < emx_xdp_queue_chunks(g->shared, q) / 4;
}

void emx_xdp_group_refill(struct emx_xdp_group *g, unsigned q)
{
    xdp_group_lock(g);
    xdp_group_refill_locked(g, q);
    xdp_group_reap_locked(g);
    if (xdp_group_is_low(g, q))
        xdp_group_take_back_dead(g);
    xdp_group_unlock(g);
    xdp_group_wake_receiver(&g->queue[q]);
}

/* ---- Slots ---- */

/* The file lock that shows that the process of slot i is alive. */
static struct flock xdp_group_life(unsigned i)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
}

static bool xdp_group_is_alive(const struct emx_xdp_group *g, unsigned i)
{
    struct flock l = xdp_group_life(i);

    return i == g->slot || fcntl(g->fd[FD_LIFE], F_OFD_GETLK, &l) || l.l_type != F_UNLCK;
}

static uint32_t xdp_group_index_of(const struct emx_xdp_group *g, unsigned slot, unsigned q)
{
    return slot * g->queue_count + q;
}

/* Stops redirection to the slot. On return no frame is on its way to it. */
static void xdp_group_unhook(struct emx_xdp_group *g, unsigned i)
{
    bpf_map_delete_elem(g->fd[FD_IDS], &g->shared->slot[i].id);
    for (unsigned q = 0; q < g->queue_count; q++) {
        uint32_t index = xdp_group_index_of(g, i, q);

        bpf_map_delete_elem(g->fd[FD_SOCKS], &index);
    }
    syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0); /* waits for running instances of the program */
}

/* Returns the chunks that the rings of a socket of slot i still hold. */
static void xdp_group_empty_rings(struct emx_xdp_group *g, unsigned i, unsigned q, int fd)
{
    struct journal *j = &g->shared->journal;
    struct emx_xdp_map map[2] = {{0}};
    struct xsk_ring_cons rx;
    struct xsk_ring_prod tx;

    if (!emx_xdp_map_own_rings(g->shared, fd, q, &rx, &tx, map)) {
        uint32_t from = *rx.consumer;

        if (j->refilling == 1 + i && j->queue == q) {
            from = j->rx_after;
            j->refilling = 0;
        }
        xdp_group_give_back(g, &g->queue[q].fill, &rx, from, *rx.producer - from);
        *rx.consumer = *rx.producer;
        for (uint32_t at = q ? 0 : *tx.consumer; !q && at != *tx.producer; at++)
            g->shared->tx_busy[xsk_ring_prod__tx_desc(&tx, at)->addr / g->chunk_bytes - emx_xdp_rx_chunks(g->shared)] =
                0;
    }
    emx_xdp_unmap(&map[0]);
    emx_xdp_unmap(&map[1]);
}

/* -1 and errno. */
static int xdp_group_store_fds(struct emx_xdp_group *g, uint32_t slot, const int *fd)
{
    return emx_fds_send(g->fd[FD_STORE_IN], &slot, sizeof(slot), fd, g->queue_count);
}

static void xdp_group_close_all(const int *fd, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        close(fd[i]);
}

/* Takes the sockets of ended slots out of the store, empties their rings and closes them. The others are put back, for
 * which there should be room. If there is none, their process continues, but if it is killed the chunks in its rings
 * are lost to the group. */
static void xdp_group_clear_fds(struct emx_xdp_group *g, uint64_t gone)
{
    int kept_fd[SLOTS_MAX][EMX_XDP_QUEUES], fd[EMX_XDP_QUEUES], n = (int)g->queue_count;
    uint32_t kept[SLOTS_MAX], slot;
    unsigned kept_count = 0;

    while (kept_count < SLOTS_MAX &&
           emx_fds_recv(g->fd[FD_STORE_OUT], &slot, sizeof(slot), fd, EMX_XDP_QUEUES, MSG_DONTWAIT) == n) {
        if (!(gone & UINT64_C(1) << slot)) {
            memcpy(kept_fd[kept_count], fd, sizeof(fd));
            kept[kept_count++] = slot;
            continue;
        }
        for (unsigned q = 0; q < g->queue_count; q++)
            xdp_group_empty_rings(g, slot, q, fd[q]);
        xdp_group_close_all(fd, g->queue_count);
    }
    for (unsigned i = 0; i < kept_count; i++) {
        xdp_group_store_fds(g, kept[i], kept_fd[i]);
        xdp_group_close_all(kept_fd[i], g->queue_count);
    }
}

/* Takes back the chunks of the slots, and the slots. */
static void xdp_group_take_back(struct emx_xdp_group *g, uint64_t gone)
{
    for (unsigned i = 0; i < g->shared->slots; i++)
        if (gone & UINT64_C(1) << i)
            xdp_group_unhook(g, i);
    xdp_group_clear_fds(g, gone);
    for (unsigned i = 0; i < g->shared->slots; i++)
        if (gone & UINT64_C(1) << i)
            g->shared->slot[i].used = 0;
}

static void xdp_group_take_back_dead(struct emx_xdp_group *g)
{
    uint64_t dead = 0;

    for (unsigned i = 0; i < g->shared->slots; i++)
        if (g->shared->slot[i].used && !xdp_group_is_alive(g, i))
            dead |= UINT64_C(1) << i;
    if (dead)
        xdp_group_take_back(g, dead);
}

/* Gives the slot's part of the chunks to the kernel, when the slot is used for the first time. */
static void xdp_group_fill_part(struct emx_xdp_group *g, unsigned i)
{
    struct emx_xdp_shared *s = g->shared;
    uint64_t chunk = (uint64_t)i * emx_xdp_slot_chunks(s);

    for (unsigned q = 0; q < g->queue_count && !s->slot[i].filled; q++) {
        struct xsk_ring_prod *fill = &g->queue[q].fill;
        uint32_t at = *fill->producer, n = emx_xdp_queue_chunks(s, q);

        for (uint32_t c = 0; c < n; c++)
            xdp_group_put_chunk(fill, at + c, chunk++ * g->chunk_bytes);
        __atomic_store_n(fill->producer, at + n, __ATOMIC_RELEASE);
    }
    s->slot[i].filled = 1;
}

/* Sets the options of a socket. To those of the kernel's generic hook it tells no queue that could be polled. */
static void xdp_group_tune_socket(struct emx_xdp_group *g, int fd, const struct emx_config *cfg)
{
    int room = 8 << 20;

    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room)))
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    g->busy_polls = cfg->p_busy_poll && g->shared->native && emx_busy_poll_has_xdp(fd);
    if (g->busy_polls)
        g->busy_poll_text = emx_busy_poll_set(fd, cfg, g->shared->zero_copy);
    else if (cfg->p_busy_poll)
        g->busy_poll_text = g->shared->native ? ", no busy polling (AF_XDP sockets have it from Linux 5.11)"
                                              : ", no busy polling (the generic hook has none)";
}

/* Opens this member's socket for queue q. */
static int xdp_group_open_queue(struct emx_xdp_group *g, unsigned q, const struct emx_config *cfg)
{
    struct sockaddr_xdp a = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_SHARED_UMEM, .sxdp_ifindex = g->ifindex};
    struct emx_xdp_queue *queue = &g->queue[q];
    uint32_t index = xdp_group_index_of(g, g->slot, q);

    a.sxdp_queue_id = q;
    a.sxdp_shared_umem_fd = (uint32_t)g->fd[FD_ROOT + q];
    queue->sock_fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (queue->sock_fd < 0)
        return -1;
    xdp_group_tune_socket(g, queue->sock_fd, cfg);
    if (emx_xdp_set_ring(queue->sock_fd, XDP_RX_RING, g->shared->rx_chunks) ||
        (!q && emx_xdp_set_ring(queue->sock_fd, XDP_TX_RING, EMX_XDP_TX)) ||
        emx_xdp_map_own_rings(g->shared, queue->sock_fd, q, &queue->rx, &queue->tx, &queue->map[2]) ||
        bind(queue->sock_fd, (struct sockaddr *)&a, sizeof(a)))
        return -1;
    return bpf_map_update_elem(g->fd[FD_SOCKS], &index, &queue->sock_fd, BPF_ANY);
}

static bool xdp_group_take_free_slot(struct emx_xdp_group *g, uint32_t id)
{
    for (unsigned i = 0; i < g->shared->slots; i++) {
        struct flock l = xdp_group_life(i);

        if (g->shared->slot[i].used || fcntl(g->fd[FD_LIFE], F_OFD_SETLK, &l))
            continue;
        g->slot = i;
        g->shared->slot[i].id = id;
        g->shared->slot[i].used = 1;
        return true;
    }
    return false;
}

/* Lists the slot's chunks for sending, because the list of the last owner is gone. */
static void xdp_group_take_tx_chunks(struct emx_xdp_group *g)
{
    g->tx_busy = &g->shared->tx_busy[g->slot * EMX_XDP_TX];
    g->tx_base = (emx_xdp_rx_chunks(g->shared) + (uint64_t)g->slot * EMX_XDP_TX) * g->chunk_bytes;
    for (unsigned i = 0; i < EMX_XDP_TX; i++)
        if (g->tx_busy[i] == EMX_XDP_LISTED)
            g->tx_busy[i] = EMX_XDP_FREE;
}

/* Called under the lock. -1 and errno. */
static int xdp_group_enter_slot(struct emx_xdp_group *g, const struct emx_xdp_want *want)
{
    int fd[EMX_XDP_QUEUES];
    uint32_t index;

    xdp_group_take_back_dead(g);
    if (!xdp_group_take_free_slot(g, want->id)) {
        errno = EUSERS;
        return -1;
    }
    xdp_group_fill_part(g, g->slot);
    xdp_group_take_tx_chunks(g);
    for (unsigned q = 0; q < g->queue_count; q++) {
        if (xdp_group_open_queue(g, q, want->cfg))
            return -1;
        fd[q] = g->queue[q].sock_fd;
    }
    if (xdp_group_store_fds(g, g->slot, fd)) {
        errno = errno == EAGAIN ? ETOOMANYREFS : errno;
        return -1;
    }
    index = xdp_group_index_of(g, g->slot, 0);
    return bpf_map_update_elem(g->fd[FD_IDS], &want->id, &index, BPF_ANY);
}

/* ---- Joining ---- */

static void xdp_group_name_of(const struct emx_xdp_want *want, char *name, size_t name_len_bytes)
{
    snprintf(name, name_len_bytes, "ethmx-xdp-%u-%u-%04x", (unsigned)geteuid(), want->ifindex,
             (unsigned)want->cfg->p_xdp_ethertype);
}

void emx_xdp_group_serve(struct emx_xdp_group *g)
{
    uint32_t magic = MAGIC;
    int fd;

    while ((fd = emx_fds_accept(g->fd[FD_LISTEN])) >= 0) {
        emx_fds_send(fd, &magic, sizeof(magic), g->fd, FD_ROOT + g->queue_count);
        close(fd);
    }
}

int emx_xdp_group_serve_fd(const struct emx_xdp_group *g)
{
    return g->fd[FD_LISTEN];
}

static void xdp_group_pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

/* Requests copies of the descriptors from another member. 0; -1 and errno: ECONNREFUSED, ECONNRESET: the member has
 * ended. */
static int xdp_group_ask_member(struct emx_xdp_group *g, const char *name)
{
    int sock = emx_fds_connect(name, ANSWER_MS), n, err;
    uint32_t magic = 0;

    if (sock < 0)
        return -1;
    n = emx_fds_recv(sock, &magic, sizeof(magic), g->fd, FD_COUNT, 0);
    err = errno;
    close(sock);
    errno = err;
    if (n >= 0 && (magic != MAGIC || n <= FD_ROOT)) {
        errno = EPROTO;
        return -1;
    }
    return n < 0 ? -1 : 0;
}

/* Copies the descriptors of a member in this process. */
static bool xdp_group_ask_ourselves(struct emx_xdp_group *g, const struct emx_xdp_want *want)
{
    struct emx_xdp_group *o;

    pthread_mutex_lock(&own_lock);
    for (o = own_groups; o; o = o->next)
        if (o->pid == g->pid && o->ifindex == want->ifindex && o->host_id == g->host_id &&
            o->shared->ethertype == want->cfg->p_xdp_ethertype)
            break;
    for (unsigned i = 0; o && i < FD_COUNT; i++)
        g->fd[i] = o->fd[i] < 0 ? -1 : fcntl(o->fd[i], F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&own_lock);
    return o != NULL;
}

/* Creates the group, or gets its descriptors. Other members may join and leave between the attempts. */
static int xdp_group_make_or_ask(struct emx_xdp_group *g, const struct emx_xdp_want *want)
{
    char name[64];

    xdp_group_name_of(want, name, sizeof(name));
    for (unsigned tries = 0; tries < ANSWER_MS / 5; tries++) {
        g->fd[FD_LISTEN] = emx_fds_listen(name);
        if (g->fd[FD_LISTEN] >= 0)
            return emx_xdp_make(g, want);
        if (errno != EADDRINUSE)
            return -1;
        if (!xdp_group_ask_member(g, name))
            return emx_xdp_map_memory(g);
        if (errno != ECONNREFUSED && errno != ECONNRESET && errno != EPIPE)
            return -1;
        xdp_group_pause_ms(5);
    }
    errno = ETIMEDOUT;
    return -1;
}

static void xdp_group_describe(const struct emx_xdp_group *g, const struct emx_xdp_want *want, char *why,
                               size_t why_len_bytes)
{
    const struct emx_xdp_shared *s = g->shared;

    snprintf(why, why_len_bytes, "%s: %s%s, %u queue%s, %u chunks of %u bytes of %zu MiB for %u ranks%s", want->ifname,
             s->native ? "native" : "generic (the kernel's hook; slow where there is a card)",
             s->zero_copy ? ", zero copy" : "", g->queue_count, g->queue_count == 1 ? "" : "s", s->rx_chunks,
             g->chunk_bytes, g->umem_bytes >> 20, s->slots, g->busy_poll_text);
}

/* A hint for the user. */
static const char *xdp_group_remedy(int err)
{
    switch (err) {
    case EPERM:
    case EACCES:
        return "it needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF: run as root, or `setcap "
               "cap_net_raw,cap_net_admin,cap_bpf+ep PROGRAM`";
    case EBUSY:
    case EEXIST:
        return "another XDP program, or AF_XDP socket, has the interface (`ip link` and `bpftool net` show it), or "
               "another process of this host and the kernel is older than 6.4";
    case ENOBUFS:
        return "too little memory may be locked: raise it with `ulimit -l`, or lower ETHMX_XDP_RANKS or ETHMX_RING";
    case EXDEV:
        return "it is a bond, where frames come with its ports' queues: ETHMX_XDP_MODE=generic only";
    case EAFNOSUPPORT:
        return "this kernel has no AF_XDP sockets";
    case ERANGE:
    case ENOTSUP:
        return "its driver has no XDP, or not at this MTU (frames longer than 3.5 KB need a kernel of 6.6)";
    case EINVAL:
        return "kernel or driver are too old for it (5.10 is needed, for frames longer than 3.5 KB 6.6)";
    case EUSERS:
        return "as many ranks as ETHMX_XDP_RANKS says are on it already; all must be started with a larger one";
    case ETOOMANYREFS:
        return "the ranks of this user keep too many sockets: raise `ulimit -n`";
    case EAGAIN:
    case ETIMEDOUT:
        return "the processes of this host that have the interface do not answer";
    case EPROTO:
        return "another version of ethmx has the interface";
    default:
        return "use ETHMX_WIRES=packet";
    }
}

static void xdp_group_destroy(struct emx_xdp_group *g)
{
    for (unsigned q = 0; q < EMX_XDP_QUEUES; q++) {
        for (unsigned i = 0; i < 4; i++)
            emx_xdp_unmap(&g->queue[q].map[i]);
        if (g->queue[q].sock_fd >= 0)
            close(g->queue[q].sock_fd);
    }
    if (g->passed)
        munmap((void *)(uintptr_t)g->passed, (size_t)sysconf(_SC_PAGESIZE));
    if (g->umem)
        munmap(g->umem, g->umem_bytes);
    if (g->shared)
        munmap(g->shared, g->shared_bytes);
    for (unsigned i = FD_ALL; i-- > 0;) /* close the listener last: when the name is free, the rest is free */
        if (g->fd[i] >= 0)
            close(g->fd[i]);
    free(g);
}

static struct emx_xdp_group *xdp_group_create(const struct emx_xdp_want *want)
{
    struct emx_xdp_group *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    g->ifindex = want->ifindex;
    g->host_id = emx_host_id();
    g->pid = getpid();
    g->slot = UINT32_MAX;
    g->busy_poll_text = "";
    for (unsigned i = 0; i < FD_ALL; i++)
        g->fd[i] = -1;
    for (unsigned q = 0; q < EMX_XDP_QUEUES; q++)
        g->queue[q].sock_fd = -1;
    return g;
}

/* Takes a slot, after descriptors and memory are available. */
static int xdp_group_enter(struct emx_xdp_group *g, const struct emx_xdp_want *want)
{
    int status = 0, err;

    g->copies = !g->shared->zero_copy;
    for (unsigned q = 0; q < g->queue_count && !status; q++)
        if (!g->queue[q].map[0].mem)
            status = emx_xdp_map_shared_rings(g, q);
    if (status)
        return -1;
    xdp_group_lock(g);
    status = xdp_group_enter_slot(g, want);
    err = errno;
    if (status && g->slot != UINT32_MAX)
        xdp_group_take_back(g, UINT64_C(1) << g->slot);
    xdp_group_unlock(g);
    errno = err;
    return status;
}

int emx_xdp_group_join(struct emx_xdp_group **g_p, const struct emx_xdp_want *want, char *why, size_t why_len_bytes)
{
    struct emx_xdp_group *g = xdp_group_create(want);
    int status;

    if (!g) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    status = xdp_group_ask_ourselves(g, want) ? emx_xdp_map_memory(g) : xdp_group_make_or_ask(g, want);
    if (status || xdp_group_enter(g, want)) {
        snprintf(why, why_len_bytes, "%s: %s: %s", want->ifname, strerror(errno), xdp_group_remedy(errno));
        xdp_group_destroy(g);
        return ETHMX_ERR_NO_WIRE;
    }
    xdp_group_describe(g, want, why, why_len_bytes);
    pthread_mutex_lock(&own_lock);
    g->next = own_groups;
    own_groups = g;
    pthread_mutex_unlock(&own_lock);
    *g_p = g;
    return ETHMX_OK;
}

void emx_xdp_group_leave(struct emx_xdp_group *g)
{
    struct emx_xdp_group **at = &own_groups;

    pthread_mutex_lock(&own_lock);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    pthread_mutex_unlock(&own_lock);
    xdp_group_lock(g);
    xdp_group_take_back(g, UINT64_C(1) << g->slot);
    xdp_group_unlock(g);
    xdp_group_destroy(g);
}
