/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Creates a group: memory, the sockets that hold it, program. xdp_group.c explains their use.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/ethtool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/min.h"
#include "wire/netif_sys.h"
#include "wire/xdp/xdp_choice.h"
#include "wire/xdp/xdp_prog.h"
#include "wire/xdp/xdp_shared.h"

#ifndef XDP_USE_SG
#define XDP_USE_SG (1 << 4)
#endif

static void xdp_make_driver_of(const char *ifname, struct ethtool_drvinfo *info)
{
    *info = (struct ethtool_drvinfo){.cmd = ETHTOOL_GDRVINFO};
    if (!emx_netif_sys_ethtool(ifname, info))
        info->driver[0] = 0;
}

/* The receive queues of an interface that are in use; 0: its driver does not tell. */
static unsigned xdp_make_channels_of(const char *ifname)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};

    return emx_netif_sys_ethtool(ifname, &channels) ? channels.rx_count + channels.combined_count : 0;
}

/* A bond tells no channels, and its frames have the queue numbers of its ports: then all queues that the kernel has
 * made for it count. */
static unsigned xdp_make_queues_of(const struct emx_xdp_want *want)
{
    unsigned n = xdp_make_channels_of(want->ifname);

    if (!n && emx_netif_sys_shows(EMX_SYSFS_NET, want->ifname, want->ifindex))
        n = emx_netif_sys_rx_queues(EMX_SYSFS_NET, want->ifname);
    return n ? emx_min_u(n, EMX_XDP_QUEUES) : 1;
}

static size_t xdp_make_round_to_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (bytes + page - 1) / page * page;
}

static size_t xdp_make_umem_bytes_of(const struct emx_xdp_shared *s)
{
    return ((size_t)emx_xdp_rx_chunks(s) + s->slots * EMX_XDP_TX) * s->chunk_bytes;
}

/* Sets the layout and sizes in the shared state. */
static void xdp_make_plan(struct emx_xdp_shared *s, const struct emx_xdp_want *want, unsigned queues)
{
    struct ethtool_drvinfo driver;
    unsigned chunks;
    bool several;

    *s = (struct emx_xdp_shared){.magic = MAGIC, .bytes = sizeof(*s)};
    s->ethertype = (uint32_t)want->cfg->p_xdp_ethertype;
    xdp_make_driver_of(want->ifname, &driver);
    s->chunk_bytes =
        emx_xdp_chunk_bytes(driver.driver, want->mtu_bytes + ETH_HLEN + VLAN_BYTES, KERNEL_ROOM + HEADROOM, &several);
    s->several_buffers = several;
    s->slots = want->cfg->p_xdp_ranks;
    s->queues = queues;
    chunks = (unsigned)(want->cfg->p_ring / 2 / s->chunk_bytes);
    s->rx_chunks = emx_xdp_power_of_two(chunks < 256 ? 256 : chunks > 4096 ? 4096 : chunks);
    if (s->rx_chunks > 4096)
        s->rx_chunks = 4096;
}

static int xdp_make_init_lock(pthread_mutex_t *m)
{
    pthread_mutexattr_t a;
    int err;

    pthread_mutexattr_init(&a);
    pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
    err = pthread_mutex_init(m, &a);
    pthread_mutexattr_destroy(&a);
    return err;
}

static void *xdp_make_map_memory(int fd, size_t at, size_t bytes)
{
    void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)at);

    if (mem == MAP_FAILED)
        return NULL;
    madvise(mem, bytes, MADV_DONTFORK);
    return mem;
}

/* Opens the memory file again, for a lock of this process, and maps it. */
int emx_xdp_map_memory(struct emx_xdp_group *g)
{
    uint64_t *passed;
    char path[64];

    g->shared_bytes = xdp_make_round_to_pages(sizeof(*g->shared));
    g->shared = xdp_make_map_memory(g->fd[FD_MEMORY], 0, g->shared_bytes);
    if (!g->shared)
        return -1;
    if (g->shared->magic != MAGIC || g->shared->bytes != sizeof(*g->shared)) {
        errno = EPROTO;
        return -1;
    }
    g->chunk_bytes = g->shared->chunk_bytes;
    g->queue_count = g->shared->queues;
    g->several_buffers = g->shared->several_buffers;
    g->umem_bytes = xdp_make_umem_bytes_of(g->shared);
    g->umem = xdp_make_map_memory(g->fd[FD_MEMORY], g->shared_bytes, g->umem_bytes);
    passed = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, g->fd[FD_PASSED], 0);
    g->passed = passed == MAP_FAILED ? NULL : passed;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", g->fd[FD_MEMORY]);
    g->fd[FD_LIFE] = open(path, O_RDWR | O_CLOEXEC);
    return g->umem && g->fd[FD_LIFE] >= 0 ? 0 : -1;
}

static int make_memory(struct emx_xdp_group *g, const struct emx_xdp_want *want, unsigned queues)
{
    size_t bytes = xdp_make_round_to_pages(sizeof(struct emx_xdp_shared));
    struct emx_xdp_shared *s;

    g->fd[FD_MEMORY] = memfd_create("ethmx-xdp", MFD_CLOEXEC);
    if (g->fd[FD_MEMORY] < 0 || ftruncate(g->fd[FD_MEMORY], (off_t)bytes))
        return -1;
    s = xdp_make_map_memory(g->fd[FD_MEMORY], 0, bytes);
    if (!s)
        return -1;
    xdp_make_plan(s, want, queues);
    errno = xdp_make_init_lock(&s->lock);
    bytes += xdp_make_umem_bytes_of(s);
    munmap(s, xdp_make_round_to_pages(sizeof(*s)));
    return errno || ftruncate(g->fd[FD_MEMORY], (off_t)bytes) ? -1 : 0;
}

/* Creates the socket that holds the pool of queue q; for queue 0 it also registers the memory. Before Linux 6.4 the
 * rings of a bound socket cannot be mapped. */
static int make_root(struct emx_xdp_group *g, unsigned q, unsigned flags)
{
    struct xdp_umem_reg memory = {
        .addr = (uintptr_t)g->umem, .len = g->umem_bytes, .chunk_size = g->chunk_bytes, .headroom = HEADROOM};
    struct sockaddr_xdp a = {.sxdp_family = AF_XDP, .sxdp_flags = (uint16_t)flags, .sxdp_ifindex = g->ifindex};
    int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

    g->fd[FD_ROOT + q] = fd;
    if (fd < 0)
        return -1;
    a.sxdp_queue_id = q;
    if (q) {
        a.sxdp_flags = XDP_SHARED_UMEM;
        a.sxdp_shared_umem_fd = (uint32_t)g->fd[FD_ROOT];
    } else if (setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof(memory))) {
        return -1;
    }
    return emx_xdp_set_ring(fd, XDP_UMEM_FILL_RING, emx_xdp_power_of_two(emx_xdp_rx_chunks(g->shared))) ||
                   emx_xdp_set_ring(fd, XDP_UMEM_COMPLETION_RING, emx_xdp_completed_entries(g->shared, q)) ||
                   emx_xdp_set_ring(fd, XDP_TX_RING, SMALL_RING) || emx_xdp_map_shared_rings(g, q) ||
                   bind(fd, (struct sockaddr *)&a, sizeof(a))
               ? -1
               : 0;
}

static void xdp_make_pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static void xdp_make_close_roots(struct emx_xdp_group *g)
{
    int err = errno;

    for (unsigned q = 0; q < EMX_XDP_QUEUES; q++) {
        emx_xdp_unmap(&g->queue[q].map[0]);
        emx_xdp_unmap(&g->queue[q].map[1]);
        if (g->fd[FD_ROOT + q] >= 0)
            close(g->fd[FD_ROOT + q]);
        g->fd[FD_ROOT + q] = -1;
    }
    errno = err;
}

/* One way to attach to the interface. */
struct mode {
    bool native;
    unsigned bind_flags; /* neither XDP_COPY nor XDP_ZEROCOPY: the kernel chooses the better one */
};

static int xdp_make_try_mode(struct emx_xdp_group *g, struct emx_xdp_prog *p, struct emx_xdp_attach *a,
                             const struct mode *m)
{
    unsigned flags = m->bind_flags | XDP_USE_NEED_WAKEUP | (g->several_buffers ? XDP_USE_SG : 0);

    for (unsigned q = 0; q < g->queue_count; q++)
        if (make_root(g, q, flags)) {
            xdp_make_close_roots(g);
            return -1;
        }
    a->native = m->native;
    a->frags = true;
    if (!emx_xdp_prog_attach(p, a))
        return 0;
    a->frags = false; /* before Linux 5.18, or not supported by the driver */
    if (!g->several_buffers && errno != EBUSY && errno != EEXIST && errno != EPERM && !emx_xdp_prog_attach(p, a))
        return 0;
    xdp_make_close_roots(g);
    return -1;
}

static bool xdp_make_is_hopeless(int err)
{
    return err == EPERM || err == EACCES || err == ENOBUFS || err == ENOMEM || err == EAFNOSUPPORT;
}

/* Tries the best mode first. Resources of a group that has just ended become free after a moment. */
static int xdp_make_try_modes(struct emx_xdp_group *g, struct emx_xdp_prog *p, struct emx_xdp_attach *a,
                              const struct emx_xdp_want *want)
{
    static const struct mode modes[EMX_XDP_MODES] = {{true, 0}, {true, XDP_COPY}, {false, XDP_COPY}};
    enum emx_xdp_mode mode[EMX_XDP_MODES];
    unsigned count = emx_xdp_modes(want->kind, (unsigned)want->cfg->p_xdp_mode, mode), err = EXDEV;

    for (unsigned waited = 0; waited < SETTLE_MS; waited += 10) {
        for (unsigned i = 0; i < count; i++) {
            if (!xdp_make_try_mode(g, p, a, &modes[mode[i]]))
                return 0;
            err = (unsigned)errno;
            if (xdp_make_is_hopeless(errno) || errno == EBUSY)
                break;
        }
        if (err != EBUSY && err != EEXIST)
            break;
        xdp_make_pause_ms(10);
    }
    errno = (int)err;
    return -1;
}

static void xdp_make_note_mode(struct emx_xdp_group *g, const struct emx_xdp_attach *a)
{
    struct xdp_options o = {0};
    socklen_t len = sizeof(o);

    g->shared->native = a->native;
    g->shared->zero_copy =
        !getsockopt(g->fd[FD_ROOT], SOL_XDP, XDP_OPTIONS, &o, &len) && o.flags & XDP_OPTIONS_ZEROCOPY;
}

static int xdp_make_make_fd_store(struct emx_xdp_group *g)
{
    return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, &g->fd[FD_STORE_IN]);
}

/* The listener already exists. */
int emx_xdp_make(struct emx_xdp_group *g, const struct emx_xdp_want *want)
{
    struct emx_xdp_attach a = {.ifindex = g->ifindex, .ethertype = (uint16_t)want->cfg->p_xdp_ethertype};
    struct emx_xdp_prog p;
    int status;

    a.endpoints = (unsigned)want->cfg->p_xdp_ranks;
    a.queues = xdp_make_queues_of(want);
    if (xdp_make_make_fd_store(g) || make_memory(g, want, a.queues) || emx_xdp_prog_make(&p, &a))
        return -1;
    g->fd[FD_IDS] = p.ids_fd;
    g->fd[FD_SOCKS] = p.socks_fd;
    g->fd[FD_PASSED] = p.passed_fd;
    if (emx_xdp_map_memory(g))
        return -1;
    status = xdp_make_try_modes(g, &p, &a, want);
    g->fd[FD_LINK] = p.link_fd;
    if (!status)
        xdp_make_note_mode(g, &a);
    return status;
}
