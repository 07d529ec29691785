/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opening and closing an endpoint.
 *
 * After fork() the child has a copy of the endpoint, but its sockets and rings belong to the parent: one poll in the
 * child would take the parent's frames. So `alive` points to a page that the kernel clears in a child
 * (MADV_WIPEONFORK), and every call reads it first. In the child the calls do nothing.
 */
#define _GNU_SOURCE
#include "endpoint/ep.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/keyed_hash.h"
#include "base/log.h"
#include "base/min.h"
#include "endpoint/helper.h"
#include "endpoint/event.h"
#include "endpoint/job_key.h"
#include "endpoint/linger.h"
#include "endpoint/rma.h"
#include "endpoint/sized.h"
#include "endpoint/told.h"
#include "endpoint/wait.h"

#define GOODBYE_NS 10000000u /* how long closing waits for room on a wire */

/* ---- Identity ---- */

static uint64_t ep_random_bits(void)
{
    uint64_t r;

    while (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        ;
    return r;
}

static uint32_t ep_random_id(void)
{
    uint32_t id;

    do
        id = (uint32_t)ep_random_bits();
    while (!id);
    return id;
}

/* The endpoint's id in frames. If the launcher tells a process its rank, the id is a number of the job plus the rank:
 * unique within the job, for the n-th endpoints of all processes. Two jobs of n and m processes that meet have ids in
 * common with probability (n + m) / 2^32; then an address is refused (core/peer.c). Random ids of n processes would
 * collide with probability n^2 / 2^33: 40% at 65,536. */
static uint32_t ep_id(const struct ethmx_ep_options *opt)
{
    static atomic_uint opened;
    uint64_t half[2], group;
    uint32_t id;

    memcpy(half, opt->job_key, sizeof(half));
    if (!opt->process || (!half[0] && !half[1]))
        return ep_random_id();
    group = opt->process >> 32 | (uint64_t)atomic_fetch_add(&opened, 1) << 32;
    group = emx_mix64(emx_mix64(half[0] ^ emx_mix64(half[1])) ^ emx_mix64(group + 1));
    id = (uint32_t)(group + opt->process);
    return id ? id : (uint32_t)group; /* 0 is no valid id; group alone would be that of rank -1 */
}

/* Unlike the cookie, this is sent to nobody. */
static uint64_t ep_job_secret(const uint8_t key[16])
{
    uint64_t half[2];

    memcpy(half, key, sizeof(half));
    return half[0] || half[1] ? emx_mix64(emx_mix64(half[0] + 1) ^ half[1]) : ep_random_bits();
}

static uint32_t ep_job_cookie(const uint8_t key[16])
{
    uint64_t half[2];

    memcpy(half, key, sizeof(half));
    if (!half[0] && !half[1])
        return (uint32_t)ep_random_bits();
    return (uint32_t)emx_mix64(half[0] ^ emx_mix64(half[1]));
}

/* Those that find no room in the address are not told. */
static void ep_tell_interfaces(struct emx_way_site *site, struct emx_address *a)
{
    for (unsigned i = 0; i < site->told_count; i++) {
        const struct emx_netif *nif = site->told[i];
        struct emx_wire_if told = emx_told_ip(site, i);

        if (emx_way_told(site, nif) == i) {
            told.frame_bytes = (uint16_t)emx_way_mtu(site, nif);
            memcpy(told.mac, nif->mac, sizeof(told.mac));
        }
        if (!emx_address_add_if(a, &told))
            site->told_count = i;
    }
}

static unsigned ep_ask_kernel(void *arg, const struct emx_ip *ip, bool *on_link_p)
{
    (void)arg;
    return emx_netif_route(ip, on_link_p);
}

static void ep_make_site(struct ethmx_ep *ep)
{
    ep->site =
        (struct emx_way_site){.netifs = &ep->netifs, .mtu_bytes = (unsigned)ep->cfg.p_mtu, .lookup = ep_ask_kernel};
    emx_told_choose(&ep->netifs, &ep->site);
    ep->view = (struct emx_route_view){.site = &ep->site, .self = &ep->self, .links = &ep->progress.links};
}

/* After ep_make_site(). */
static int ep_make_address(struct ethmx_ep *ep, uint32_t id)
{
    struct emx_address *a = &ep->self;
    char text[512];
    int rc;

    a->id = id;
    a->host_id = emx_host_id();
    a->auth = a->has_secret = ep->cfg.p_auth;
    for (size_t i = 0; a->has_secret && i < sizeof(a->secret); i += sizeof(uint64_t))
        memcpy(a->secret + i, &(uint64_t){ep_random_bits()}, sizeof(uint64_t));
    ep_tell_interfaces(&ep->site, a);
    if (gethostname(a->host, sizeof(a->host) - 1))
        strcpy(a->host, "?");
    rc = emx_links_tell(&ep->progress.links, &ep->site, a);
    if (!rc && emx_told_incomplete(a, &ep->site, text, sizeof(text)))
        emx_log(EMX_LOG_WARN, "%s", text);
    return rc;
}

/* ---- Open ---- */

static volatile uint32_t *ep_alive_page(void)
{
    volatile uint32_t *page =
        mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return NULL;
    /* A kernel before 4.14 cannot; then only ethmx_ep_close() notices a child. */
    madvise((void *)page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK);
    *page = 1;
    return page;
}

static void ep_free_alive_page(const volatile uint32_t *page)
{
    munmap((void *)page, (size_t)sysconf(_SC_PAGESIZE));
}

static int ep_copy_config(struct ethmx_ep *ep, const struct ethmx_config *cfg)
{
    struct ethmx_config *own;
    int rc;

    if (cfg) {
        ep->cfg = *cfg;
        return ETHMX_OK;
    }
    rc = ethmx_config_create(&own);
    if (rc)
        return rc;
    ep->cfg = *own;
    ethmx_config_destroy(own);
    return ETHMX_OK;
}

static int ep_read_netifs(struct ethmx_ep *ep, const char *reach)
{
    char why[512];
    int rc;

    emx_netif_watch_open(&ep->watch);
    rc = emx_netifs_read(&ep->netifs, &ep->cfg, reach, why, sizeof(why));
    if (rc) {
        emx_error_set("%s", why);
        emx_netif_watch_close(&ep->watch);
        return rc;
    }
    emx_netif_watch_start(&ep->watch, &ep->netifs, &ep->cfg);
    return ETHMX_OK;
}

static int ep_open_links(struct ethmx_ep *ep, uint32_t id, const struct ethmx_ep_options *opt)
{
    const struct emx_wire_params params = {.cfg = &ep->cfg,
                                           .netifs = &ep->netifs,
                                           .endpoint_id = id,
                                           .job_cookie = ep->self.cookie,
                                           .job_secret = ep_job_secret(opt->job_key),
                                           .local_ranks = opt->local_ranks,
                                           .stats = ep->stats,
                                           .segments = &ep->segments,
                                           .placer = &ep->placer};

    int rc = emx_links_open(&ep->progress.links, &params);

    for (unsigned i = 0; !rc && i < ep->progress.links.count; i++)
        ep->shares |= ep->progress.links.link[i].ops->view && opt->local_ranks != 1;
    return rc;
}

static int ep_make_engine(struct ethmx_ep *ep, unsigned local_ranks)
{
    const struct emx_engine_params params = {.cfg = &ep->cfg,
                                             .stats = ep->stats,
                                             .alloc = &emx_alloc_libc,
                                             .self = &ep->self,
                                             .seed = ep_random_bits(),
                                             .guarded_links = ep->progress.links.guarded,
                                             .reliable_links = ep->progress.links.reliable,
                                             .local_ranks = local_ranks};
    int rc = emx_engine_create(&params, &ep->progress.engine);

    if (rc)
        emx_error_set("out of memory");
    else
        emx_engine_placer(ep->progress.engine, &ep->placer);
    return rc;
}

static int ep_check_auth(const struct emx_config *cfg)
{
    const char *why;

    if (!cfg->p_auth || emx_keyed_hash_usable(&why))
        return ETHMX_OK;
    emx_error_set("ETHMX_AUTH=on is not possible: %s", why);
    return ETHMX_ERR_PARAM;
}

static int ep_check_version(const struct ethmx_ep_options *opt)
{
    if (opt->api_version == ETHMX_API_VERSION)
        return ETHMX_OK;
    emx_error_set("the program was built for version %u of the ethmx interface, this library (%s) has version %u: "
                  "build them together",
                  opt->api_version, ethmx_version(), ETHMX_API_VERSION);
    return ETHMX_ERR_VERSION;
}

int ethmx_ep_open(const struct ethmx_config *cfg, const struct ethmx_ep_options *opt, struct ethmx_ep **ep_p)
{
    struct ethmx_ep_options run;
    struct ethmx_ep *ep;
    int rc = ep_check_version(opt);
    uint32_t id;

    if (rc)
        return rc;
    rc = emx_sized_in(&run, sizeof(run), emx_sized_end(struct ethmx_ep_options, reach), opt, opt->struct_bytes,
                      "ethmx_ep_options");
    if (rc)
        return rc;
    emx_job_key_of_run(run.job_key);
    opt = &run;
    id = ep_id(opt);
    ep = calloc(1, sizeof(*ep));
    if (!ep)
        goto err_memory;
    ep->alive = ep_alive_page();
    if (!ep->alive)
        goto err_memory;
    ep->pid = getpid();
    ep->wait_fd = ep->timer_fd = -1;
    ep->threads = opt->thread_multiple;
    emx_list_init(&ep->failures);
    emx_list_init(&ep->segments);
    emx_clock_init(&ep->progress.clock);
    ep->progress.on_event = emx_event_handle;
    ep->progress.on_event_arg = ep->progress.on_look_arg = ep;
    ep->progress.on_look = emx_event_look;
    rc = ep_copy_config(ep, cfg);
    if (!rc)
        rc = ep_check_auth(&ep->cfg);
    if (rc)
        goto err_free;
    emx_log_limit = (enum emx_log_level)ep->cfg.p_log;
    emx_wait_policy_init(&ep->wait_policy, (enum emx_wait_mode)ep->cfg.p_wait, opt->local_ranks, opt->polls_others);
    ep->progress.oversubscribed = ep->wait_policy.oversubscribed;
    /* membarrier(2) takes 10 us where another thread spins: nothing for a helper that comes often. */
    emx_lock_init(&ep->lock, ep->threads || ep->cfg.p_progress == EMX_PROGRESS_THREAD, emx_helper_wanted(&ep->cfg));
    rc = ep_read_netifs(ep, opt->reach);
    if (rc)
        goto err_free;
    ep->self.cookie = ep_job_cookie(opt->job_key);
    ep->stats = ep->progress.stats = emx_published_open(&ep->published, ep->cfg.p_stats);
    if (!ep->stats) {
        emx_error_set("out of memory");
        rc = ETHMX_ERR_NO_MEMORY;
        goto err_unwatch;
    }
    rc = ep_open_links(ep, id, opt);
    if (rc)
        goto err_unpublish;
    emx_netifs_spread(&ep->netifs, opt->local_rank); /* wires that open a few interfaces open the same in all ranks */
    ep_make_site(ep);
    rc = ep_make_address(ep, id);
    if (!rc)
        rc = ep_make_engine(ep, opt->local_ranks);
    if (rc)
        goto err_close_links;
    rc = emx_helper_start(ep);
    if (rc)
        goto err_destroy_engine;
    emx_published_name(&ep->published, id, ep->self.cookie, opt->process);
    *ep_p = ep;
    return ETHMX_OK;

err_destroy_engine:
    emx_engine_destroy(ep->progress.engine);
err_close_links:
    emx_links_close(&ep->progress.links);
err_unpublish:
    emx_published_close(&ep->published);
err_unwatch:
    emx_netif_watch_close(&ep->watch);
err_free:
    ep_free_alive_page(ep->alive);
    free(ep);
    return rc;
err_memory:
    free(ep);
    emx_error_set("out of memory");
    return ETHMX_ERR_NO_MEMORY;
}

int ethmx_ep_address(const struct ethmx_ep *ep, void *addr, size_t *len_bytes_p)
{
    uint8_t buf[ETHMX_ADDRESS_MAX];
    size_t n = emx_address_encode_within(&ep->self, emx_min(*len_bytes_p, ETHMX_ADDRESS_LAUNCHER), buf);

    if (n == 0) {
        emx_error_set("%zu bytes are too little for an address", *len_bytes_p);
        return ETHMX_ERR_PARAM;
    }
    memcpy(addr, buf, n);
    *len_bytes_p = n;
    return ETHMX_OK;
}

/* ---- Close ---- */

/* Drops the requests that complete now: their owner has closed the endpoint. */
static void ep_drop_completions(struct ethmx_ep *ep)
{
    struct emx_op *op;

    while ((op = emx_engine_completed(ep->progress.engine)))
        emx_engine_op_free(ep->progress.engine, op);
}

/* One round of closing. Sleeps if nothing moves, until end_ns at the latest. */
static void ep_close_round(struct ethmx_ep *ep, emx_time end_ns)
{
    emx_time now = emx_clock_now(&ep->progress.clock);
    struct emx_wait w;

    if (!emx_progress_round(&ep->progress, true, NULL) && end_ns > now) {
        emx_wait_prepare(ep, end_ns - now, &w);
        emx_wait_sleep(&w);
    }
    ep_drop_completions(ep);
}

static bool ep_is_delivered(const struct ethmx_ep *ep)
{
    return emx_engine_drained(ep->progress.engine) && !emx_links_unsent(&ep->progress.links);
}

static void ep_deliver_rest(struct ethmx_ep *ep)
{
    emx_time now = emx_clock_now(&ep->progress.clock), most_ns;
    struct emx_linger linger = emx_linger_start(ep->cfg.p_linger, now);

    emx_progress_flush(&ep->progress, now);
    while (!ep_is_delivered(ep) && (most_ns = emx_linger_round(&linger, now)) > 0) {
        ep_close_round(ep, now + most_ns);
        now = emx_clock_now(&ep->progress.clock);
    }
    if (!ep_is_delivered(ep))
        emx_log(EMX_LOG_WARN, "closing with data that peers have not acknowledged within ETHMX_LINGER");
}

static void ep_say_goodbye(struct ethmx_ep *ep)
{
    emx_time now = emx_clock_now(&ep->progress.clock);
    emx_time end_ns = now + GOODBYE_NS;

    emx_engine_close(ep->progress.engine, now);
    emx_progress_flush(&ep->progress, now);
    while ((ep->progress.full || emx_links_unsent(&ep->progress.links)) && emx_clock_now(&ep->progress.clock) < end_ns)
        ep_close_round(ep, end_ns);
}

void ethmx_ep_close(struct ethmx_ep *ep)
{
    if (!ep || !*ep->alive || ep->pid != getpid())
        return;
    emx_helper_stop(ep);
    emx_lock_take(&ep->lock);
    ep_deliver_rest(ep);
    ep_say_goodbye(ep);
    while (!emx_progress_end_reads(&ep->progress))
        sched_yield();
    emx_links_close(&ep->progress.links);
    emx_netif_watch_close(&ep->watch);
    emx_engine_destroy(ep->progress.engine);
    emx_rma_free_segments(ep);
    emx_event_drop(ep);
    emx_wait_close(ep);
    emx_published_close(&ep->published);
    ep_free_alive_page(ep->alive);
    free(ep);
}
