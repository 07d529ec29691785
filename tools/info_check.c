/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The table of checks at the end says what costs what. The functions before it look, and say what they found.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "info_check.h"
#include "info_rails.h"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif

#define CHECK_DEPTH   4  /* a bridge over a VLAN over a bond over cards */
#define CHECK_WAKE_US 10 /* of an idle state that is deep; a core leaves halt itself in less */

enum check_scope {
    CHECK_LINK = 1, /* an interface that ethmx uses */
    CHECK_CARD = 2, /* that interface or, if it is virtual, each card below it */
};

struct check;

/* One check of one thing. */
struct check_look {
    const struct emx_checked_host *host;
    const struct check *check;
    const char *ifname;
    unsigned mtu_bytes;
    bool sysfs; /* /sys shows this interface */

    char is[256];
    uint64_t number;  /* for %n of the command */
    const char *word; /* for %w */
    bool fixed;       /* no command changes it */
};

struct check {
    const char *name;
    enum emx_verdict (*look)(struct check_look *l);
    const char *arg; /* of look */
    const char *cost;
    const char *command; /* %i: the interface; %n, %w: what look found */
    unsigned scopes;
};

__attribute__((format(printf, 3, 4))) static enum emx_verdict check_say(struct check_look *l, enum emx_verdict verdict,
                                                                        const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(l->is, sizeof(l->is), fmt, args);
    va_end(args);
    return verdict;
}

/* ---- Files of the kernel ---------------------------------------------------------------------------------- */

/* Reads the first line of a file below the host's root. */
static bool check_read(const struct emx_checked_host *h, const char *path, char *text, int text_len_bytes)
{
    char full[512];
    FILE *f;
    bool ok;

    snprintf(full, sizeof(full), "%s%s", h->root, path);
    f = fopen(full, "re");
    if (!f)
        return false;
    ok = fgets(text, text_len_bytes, f);
    fclose(f);
    if (ok)
        text[strcspn(text, "\n")] = 0;
    return ok;
}

static bool check_read_uint(const struct emx_checked_host *h, const char *path, uint64_t *value_p)
{
    char text[64], *end = text;
    bool ok = check_read(h, path, text, sizeof(text));

    if (ok)
        *value_p = strtoull(text, &end, 10);
    return ok && end != text;
}

/* The paths that match a pattern below the host's root, which they do not include. */
static void check_glob(const struct emx_checked_host *h, glob_t *g, const char *pattern)
{
    char full[512];

    snprintf(full, sizeof(full), "%s%s", h->root, pattern);
    if (glob(full, 0, NULL, g))
        g->gl_pathc = 0;
    for (size_t i = 0; i < g->gl_pathc; i++)
        memmove(g->gl_pathv[i], g->gl_pathv[i] + strlen(h->root), strlen(g->gl_pathv[i] + strlen(h->root)) + 1);
}

/* ---- Sets of cores, as the kernel writes them: 0-3,8 ------------------------------------------------------ */

static void check_cores_add(cpu_set_t *cores, const char *list)
{
    char *end;

    for (; *list; list = end + (*end == ',')) {
        unsigned long first = strtoul(list, &end, 10), last = first;

        if (end == list)
            return;
        if (*end == '-')
            last = strtoul(end + 1, &end, 10);
        for (; first <= last && first < CPU_SETSIZE; first++)
            CPU_SET(first, cores);
    }
}

static const char *check_cores_text(const cpu_set_t *cores, char *text, size_t text_len_bytes)
{
    size_t at = 0;

    text[0] = 0;
    for (int first = 0, last; first < CPU_SETSIZE && at < text_len_bytes; first = last + 1) {
        last = first;
        if (!CPU_ISSET(first, cores))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cores))
            last++;
        at += (size_t)snprintf(text + at, text_len_bytes - at, "%s%d", at ? "," : "", first);
        if (last > first && at < text_len_bytes)
            at += (size_t)snprintf(text + at, text_len_bytes - at, "-%d", last);
    }
    return text;
}

/* ---- Settings of ethmx ------------------------------------------------------------------------------------ */

static const char *check_setting(const struct check_look *l, const char *name, char *text, size_t text_len_bytes)
{
    const struct ethmx_param_info *p;
    const char *source;

    text[0] = 0;
    for (unsigned i = 0; (p = ethmx_param(i)); i++)
        if (!strcmp(p->name, name))
            ethmx_config_get(l->host->cfg, i, text, text_len_bytes, &source);
    return text;
}

static bool check_uses_wire(const struct check_look *l, const char *wire)
{
    char list[256], *save, *word;

    check_setting(l, "wires", list, sizeof(list));
    for (word = strtok_r(list, ", \t", &save); word; word = strtok_r(NULL, ", \t", &save))
        if (!strcmp(word, wire))
            return true;
    return false;
}

static uint64_t check_size_setting(const struct check_look *l, const char *name)
{
    char text[64], *end;
    uint64_t value = strtoull(check_setting(l, name, text, sizeof(text)), &end, 10);
    const char *units = "kmgt", *unit = *end ? strchr(units, *end) : NULL;

    return unit ? value << 10 * (unit - units + 1) : value;
}

/* ---- Looking at an interface ------------------------------------------------------------------------------ */

static enum emx_verdict check_refused(struct check_look *l, int err)
{
    if (err == EOPNOTSUPP || err == ENOENT)
        return check_say(l, EMX_NOT_SEEN, "driver or kernel does not tell");
    return check_say(l, EMX_NOT_SEEN, "%s", strerror(err));
}

static enum emx_verdict check_look_mtu(struct check_look *l)
{
    return check_say(l, l->mtu_bytes > 1500 ? EMX_FINE : EMX_COSTS, "%u", l->mtu_bytes);
}

static enum emx_verdict check_look_feature(struct check_look *l)
{
    static const char *const text[] = {
        [EMX_NIC_ON] = "on",
        [EMX_NIC_OFF] = "off",
        [EMX_NIC_BLOCKED] = "off although requested: it comes back with the function that it needs",
        [EMX_NIC_FIXED] = "off, and the driver has no such function",
    };
    enum emx_nic_feature state;
    int err = emx_nic_feature(l->host->ask, l->ifname, l->check->arg, &state);

    if (err)
        return check_refused(l, err);
    l->fixed = state != EMX_NIC_OFF;
    return check_say(l, state == EMX_NIC_ON ? EMX_FINE : EMX_COSTS, "%s", text[state]);
}

static enum emx_verdict check_look_moderation(struct check_look *l)
{
    struct emx_nic_moderation m;
    int err = emx_nic_moderation(l->host->ask, l->ifname, &m);

    if (err)
        return check_refused(l, err);
    /* Drivers refuse a command that names what they do not have, so it names what is set. */
    l->word = m.adaptive ? "adaptive-rx off rx-usecs 0" : m.usecs ? "rx-usecs 0" : "rx-frames 1";
    if (m.adaptive)
        return check_say(l, EMX_COSTS, "adaptive, now %u us", m.usecs);
    if (m.usecs)
        return check_say(l, EMX_COSTS, "%u us", m.usecs);
    return m.frames > 1 ? check_say(l, EMX_COSTS, "%u frames", m.frames) : check_say(l, EMX_FINE, "off");
}

/* Whether a wire polls drivers. */
static bool check_polls(const struct check_look *l)
{
    return check_size_setting(l, "busy_poll") && (check_uses_wire(l, "udp") || check_uses_wire(l, "xdp"));
}

static enum emx_verdict check_look_deferral(struct check_look *l)
{
    char path[128];
    uint64_t rounds, ns;

    snprintf(path, sizeof(path), "/sys/class/net/%s/napi_defer_hard_irqs", l->ifname);
    if (!l->sysfs || !check_read_uint(l->host, path, &rounds))
        return check_say(l, EMX_NOT_SEEN, "/sys does not show it");
    snprintf(path, sizeof(path), "/sys/class/net/%s/gro_flush_timeout", l->ifname);
    if (!rounds || !check_read_uint(l->host, path, &ns) || !ns)
        return check_say(l, EMX_FINE, "off");
    return check_say(l, check_polls(l) ? EMX_FINE : EMX_COSTS, "%" PRIu64 " times %" PRIu64 " ns", rounds, ns);
}

/* Whether busy polling has the queue to itself: without deferral an interrupt often comes first. */
static enum emx_verdict check_look_busy_poll(struct check_look *l)
{
    uint64_t rounds = 0, ns = 0;
    char path[128];

    if (!check_polls(l))
        return check_say(l, EMX_FINE, "not wanted (ETHMX_BUSY_POLL, for udp and xdp)");
    snprintf(path, sizeof(path), "/sys/class/net/%s/napi_defer_hard_irqs", l->ifname);
    if (!l->sysfs || !check_read_uint(l->host, path, &rounds))
        return check_say(l, EMX_NOT_SEEN, "/sys does not show it");
    snprintf(path, sizeof(path), "/sys/class/net/%s/gro_flush_timeout", l->ifname);
    check_read_uint(l->host, path, &ns);
    return rounds && ns ? check_say(l, EMX_FINE, "interrupts are deferred")
                        : check_say(l, EMX_COSTS, "interrupts are not deferred");
}

/* The queues that the driver tells; otherwise those that /sys shows, which no command changes. */
static int check_queues(const struct check_look *l, struct emx_nic_queues *q_p)
{
    int err = emx_nic_queues(l->host->ask, l->ifname, q_p);
    char path[128];
    glob_t g = {0};

    if (!err || !l->sysfs)
        return err;
    snprintf(path, sizeof(path), "/sys/class/net/%s/queues/rx-*", l->ifname);
    check_glob(l->host, &g, path);
    *q_p = (struct emx_nic_queues){.rx = (unsigned)g.gl_pathc, .rx_max = (unsigned)g.gl_pathc, .word = "rx"};
    globfree(&g);
    return q_p->rx ? 0 : err;
}

static enum emx_verdict check_look_queues(struct check_look *l)
{
    struct emx_nic_queues q;
    int err = check_queues(l, &q);
    unsigned cores = (unsigned)CPU_COUNT(&l->host->cores), useful;

    if (err)
        return check_refused(l, err);
    useful = q.rx_max < cores ? q.rx_max : cores;
    l->number = useful;
    l->word = q.word;
    return check_say(l, q.rx < useful ? EMX_COSTS : EMX_FINE, "%u of %u, for %u core%s", q.rx, q.rx_max, cores,
                     cores == 1 ? "" : "s");
}

static enum emx_verdict check_look_udp_hash(struct check_look *l)
{
    struct emx_nic_queues q;
    bool by_ports;
    int err = check_queues(l, &q);

    if (!err && q.rx == 1)
        return check_say(l, EMX_FINE, "one queue, so there is no choice");
    err = emx_nic_hashes_udp_ports(l->host->ask, l->ifname, &by_ports);
    if (err)
        return check_refused(l, err);
    return by_ports ? check_say(l, EMX_FINE, "addresses and ports") : check_say(l, EMX_COSTS, "addresses only");
}

/* The cores that the interrupts of the card go to. The number of interrupts; *first_p is one of them. */
static size_t check_irq_cores(const struct check_look *l, cpu_set_t *cores, uint64_t *first_p)
{
    /* Of a virtio device, which has none itself, the PCI device above it has them. */
    static const char *const places[] = {"msi_irqs/*", "../virtio*/../msi_irqs/*"};
    char path[256], list[256];
    glob_t g = {0};
    size_t count;

    CPU_ZERO(cores);
    for (unsigned i = 0; i < 2 && !g.gl_pathc; i++) {
        globfree(&g);
        snprintf(path, sizeof(path), "/sys/class/net/%s/device/%s", l->ifname, places[i]);
        check_glob(l->host, &g, path);
    }
    count = g.gl_pathc;
    for (size_t i = 0; i < g.gl_pathc; i++) {
        *first_p = strtoull(strrchr(g.gl_pathv[i], '/') + 1, NULL, 10);
        snprintf(path, sizeof(path), "/proc/irq/%" PRIu64 "/effective_affinity_list", *first_p);
        if (check_read(l->host, path, list, sizeof(list)))
            check_cores_add(cores, list);
    }
    globfree(&g);
    return count;
}

static enum emx_verdict check_look_irq_spread(struct check_look *l)
{
    struct emx_nic_queues q = {.rx = 1};
    cpu_set_t cores;
    char text[128];
    size_t irqs = l->sysfs ? check_irq_cores(l, &cores, &l->number) : 0;

    if (!irqs || !CPU_COUNT(&cores))
        return check_say(l, EMX_NOT_SEEN, "/sys and /proc do not show the interrupts of %s", l->ifname);
    check_cores_text(&cores, text, sizeof(text));
    check_queues(l, &q);
    if (q.rx > 1 && CPU_COUNT(&cores) == 1 && CPU_COUNT(&l->host->cores) > 1)
        return check_say(l, EMX_COSTS, "all %zu on core %s", irqs, text);
    return check_say(l, EMX_FINE, "on core%s %s", CPU_COUNT(&cores) > 1 ? "s" : "", text);
}

static enum emx_verdict check_look_irq_shared(struct check_look *l)
{
    cpu_set_t irq_cores, shared;
    char text[128];

    if (!l->sysfs || !check_irq_cores(l, &irq_cores, &l->number) || !CPU_COUNT(&irq_cores))
        return check_say(l, EMX_NOT_SEEN, "/sys and /proc do not show the interrupts of %s", l->ifname);
    CPU_AND(&shared, &irq_cores, &l->host->cores);
    if (!CPU_COUNT(&shared))
        return check_say(l, EMX_FINE, "none");
    check_cores_text(&shared, text, sizeof(text));
    if (CPU_EQUAL(&shared, &l->host->cores))
        return check_say(l, EMX_FINE, "%s: all that ranks may use, so that none is worse than others", text);
    return check_say(l, EMX_COSTS, "%s", text);
}

/* ---- Looking at the host ---------------------------------------------------------------------------------- */

static enum emx_verdict check_look_governor(struct check_look *l)
{
    char governor[64], slow[64] = "";
    unsigned count = 0, total = 0;
    glob_t g = {0};

    check_glob(l->host, &g, "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor");
    for (size_t i = 0; i < g.gl_pathc; i++) {
        if (!check_read(l->host, g.gl_pathv[i], governor, sizeof(governor)))
            continue;
        total++;
        if (!strcmp(governor, "performance"))
            continue;
        count++;
        snprintf(slow, sizeof(slow), "%s", governor);
    }
    globfree(&g);
    if (!total)
        return check_say(l, EMX_NOT_SEEN, "no frequency of cores to be set: firmware or hypervisor may do so");
    if (count)
        return check_say(l, EMX_COSTS, "%s on %u of %u cores", slow, count, total);
    return check_say(l, EMX_FINE, "performance");
}

/* The time to leave an idle state, from the path of its latency. false: it is disabled, or cannot be read. */
static bool check_idle_state(const struct emx_checked_host *h, const char *latency, uint64_t *us_p, char *name,
                             int name_len_bytes)
{
    int folder = (int)(strrchr(latency, '/') - latency);
    char path[256];
    uint64_t disabled = 0;

    snprintf(path, sizeof(path), "%.*s/disable", folder, latency);
    check_read_uint(h, path, &disabled);
    snprintf(path, sizeof(path), "%.*s/name", folder, latency);
    return !disabled && check_read_uint(h, latency, us_p) && check_read(h, path, name, name_len_bytes);
}

static enum emx_verdict check_look_idle(struct check_look *l)
{
    char name[32], deepest[32] = "none";
    uint64_t us, us_max = 0;
    glob_t g = {0};
    size_t states;

    check_glob(l->host, &g, "/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state[0-9]*/latency");
    states = g.gl_pathc;
    for (size_t i = 0; i < states; i++)
        if (check_idle_state(l->host, g.gl_pathv[i], &us, name, sizeof(name)) && us >= us_max) {
            us_max = us;
            snprintf(deepest, sizeof(deepest), "%s", name);
        }
    globfree(&g);
    l->number = CHECK_WAKE_US;
    if (!states)
        return check_say(l, EMX_NOT_SEEN, "the kernel shows no idle states: a hypervisor may decide");
    return check_say(l, us_max < CHECK_WAKE_US ? EMX_FINE : EMX_COSTS,
                     "the deepest is %s, left in %" PRIu64 " us by the kernel's table", deepest, us_max);
}

/* The kernel's limit of socket buffers, beside what the udp wire asks for. */
static enum emx_verdict check_look_buffer(struct check_look *l)
{
    char path[128];
    uint64_t bytes;

    snprintf(path, sizeof(path), "/proc/sys/net/core/%s", l->check->arg);
    if (!check_read_uint(l->host, path, &bytes))
        return check_say(l, EMX_NOT_SEEN, "%s cannot be read here", path);
    l->number = check_size_setting(l, "ring");
    if (!check_uses_wire(l, "udp"))
        return check_say(l, EMX_FINE, "%" PRIu64 "; ETHMX_WIRES has no udp", bytes);
    if (bytes >= l->number)
        return check_say(l, EMX_FINE, "%" PRIu64, bytes);
    return check_say(l, EMX_COSTS, "%" PRIu64 ", less than ETHMX_RING (%" PRIu64 ")", bytes, l->number);
}

static enum emx_verdict check_look_memlock(struct check_look *l)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit))
        return check_say(l, EMX_NOT_SEEN, "%s", strerror(errno));
    if (limit.rlim_cur == RLIM_INFINITY)
        return check_say(l, EMX_FINE, "unlimited");
    if (!check_uses_wire(l, "verbs") && !check_uses_wire(l, "xdp"))
        return check_say(l, EMX_FINE, "%llu KiB; only verbs and xdp lock more, and ETHMX_WIRES has neither",
                         (unsigned long long)limit.rlim_cur >> 10);
    return check_say(l, EMX_COSTS, "%llu KiB", (unsigned long long)limit.rlim_cur >> 10);
}

static enum emx_verdict check_look_raw(struct check_look *l)
{
    int fd;

    if (!check_uses_wire(l, "packet") && !check_uses_wire(l, "xdp"))
        return check_say(l, EMX_FINE, "not needed: ETHMX_WIRES has neither packet nor xdp");
    fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        close(fd);
        return check_say(l, EMX_FINE, "this process has it");
    }
    return errno == EPERM ? check_say(l, EMX_COSTS, "this process does not have it")
                          : check_say(l, EMX_NOT_SEEN, "no packet socket: %s", strerror(errno));
}

/* Whether the process may prefer busy polling to interrupts: asked at a socket that is closed at once. */
static enum emx_verdict check_look_prefer(struct check_look *l)
{
    int fd, on = 1, err;

    if (!check_polls(l))
        return check_say(l, EMX_FINE, "not wanted (ETHMX_BUSY_POLL, for udp and xdp)");
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    err = fd < 0 || setsockopt(fd, SOL_SOCKET, SO_PREFER_BUSY_POLL, &on, sizeof(on)) ? errno : 0;
    if (fd >= 0)
        close(fd);
    l->fixed = err == ENOPROTOOPT;
    if (!err)
        return check_say(l, EMX_FINE, "this process may prefer it to interrupts");
    if (l->fixed)
        return check_say(l, EMX_COSTS, "this kernel does not prefer it to interrupts (Linux 5.11 does)");
    return err == EPERM ? check_say(l, EMX_COSTS, "this process may not prefer it to interrupts")
                        : check_say(l, EMX_NOT_SEEN, "%s", strerror(err));
}

/* ---- The tables ------------------------------------------------------------------------------------------- */

/* What packet sockets send is segmented late whatever `gso` says. */
#define TCP_COST "only TCP: launchers and file systems take more of the cores"

/* In the order in which an administrator changes them: what comes later may need what is earlier. */
static const struct check link_checks[] = {
    {"mtu", check_look_mtu, NULL, "a large message takes more frames than with jumbo frames",
     "ip link set %i mtu 9000 (on all hosts, if all switches carry it)", CHECK_LINK},
    {"moderation", check_look_moderation, NULL, "the card delays the interrupt of a frame by up to that",
     "ethtool -C %i %w", CHECK_CARD},
    {"deferral", check_look_deferral, NULL,
     "the kernel delays interrupts by up to that, unless the wire polls the driver",
     "echo 0 >/sys/class/net/%i/napi_defer_hard_irqs", CHECK_CARD},
    {"busy polling", check_look_busy_poll, NULL, "interrupts compete with the wire that polls the driver",
     "echo 2 >/sys/class/net/%i/napi_defer_hard_irqs; echo 200000 >/sys/class/net/%i/gro_flush_timeout", CHECK_CARD},
    {"queues", check_look_queues, NULL, "fewer cores than there are share the work of receiving", "ethtool -L %i %w %n",
     CHECK_CARD},
    {"udp hash", check_look_udp_hash, NULL, "all UDP frames from one host arrive in one queue, on one core",
     "ethtool -N %i rx-flow-hash udp4 sdfn", CHECK_CARD},
    {"interrupts", check_look_irq_spread, NULL, "one core receives the frames of all queues",
     "echo CORES >/proc/irq/%n/smp_affinity_list (a core for each interrupt of the card)", CHECK_CARD},
    {"shared cores", check_look_irq_shared, NULL, "a rank on them stops while the kernel receives frames of all ranks",
     "echo CORES >/proc/irq/%n/smp_affinity_list (each interrupt of the card; cores that no rank uses)", CHECK_CARD},
    {"send checksum", check_look_feature, "tx-checksum-ip-generic|tx-checksum-ipv4",
     "the processor computes the checksums of IP packets, and the card may not segment", "ethtool -K %i tx on",
     CHECK_LINK | CHECK_CARD},
    {"receive checksum", check_look_feature, "rx-checksum", "the processor checks the checksums of UDP",
     "ethtool -K %i rx on", CHECK_CARD},
    {"gro", check_look_feature, "rx-gro", "each frame of a large message passes the kernel's receive path alone",
     "ethtool -K %i gro on", CHECK_CARD},
    {"udp segmentation", check_look_feature, "tx-udp-segmentation",
     "the processor, not the card, segments messages of several frames, but for large ones in TSO packets",
     "ethtool -K %i tx-udp-segmentation on", CHECK_LINK | CHECK_CARD},
    {"gso", check_look_feature, "tx-generic-segmentation", TCP_COST, "ethtool -K %i gso on", CHECK_LINK | CHECK_CARD},
    {"tso", check_look_feature, "tx-tcp-segmentation",
     "the processor, not the card, segments large messages (TSO packets) and TCP into frames", "ethtool -K %i tso on",
     CHECK_LINK | CHECK_CARD},
};

static const struct check host_checks[] = {
    {"cap_net_raw", check_look_raw, NULL, "packet and xdp are not used, and udp takes longer for each message",
     "setcap cap_net_raw+ep PROGRAM, or AmbientCapabilities=CAP_NET_RAW in the launcher's unit (docs/wires/packet.md)",
     0},
    {"busy polling", check_look_prefer, NULL, "most frames come by interrupts, on older kernels all",
     "setcap cap_net_raw,cap_net_admin+ep PROGRAM (docs/tuning.md)", 0},
    {"rmem_max", check_look_buffer, "rmem_max", "the udp wire loses frames that arrive faster than they are read",
     "sysctl -w net.core.rmem_max=%n", 0},
    {"wmem_max", check_look_buffer, "wmem_max", "the udp wire sends fewer frames at once",
     "sysctl -w net.core.wmem_max=%n", 0},
    {"locked memory", check_look_memlock, NULL, "verbs and xdp can use no more than that",
     "ulimit -l unlimited; for all: \"* - memlock unlimited\" in limits.conf, LimitMEMLOCK=infinity in the launcher's "
     "unit",
     0},
    {"governor", check_look_governor, NULL, "a core that gets work runs slower at first",
     "cpupower frequency-set -g performance", 0},
    {"idle states", check_look_idle, NULL,
     "a frame that arrives at an idle core, or for a rank that sleeps, waits as long", "cpupower idle-set -D %n", 0},
};

/* ---- Running the tables ----------------------------------------------------------------------------------- */

static const char *check_command(const struct check_look *l, char *text, size_t text_len_bytes)
{
    size_t at = 0;

    text[0] = 0;
    for (const char *c = l->check->command; *c && at < text_len_bytes; c++) {
        if (*c != '%')
            at += (size_t)snprintf(text + at, text_len_bytes - at, "%c", *c);
        else if (*++c == 'n')
            at += (size_t)snprintf(text + at, text_len_bytes - at, "%" PRIu64, l->number);
        else
            at += (size_t)snprintf(text + at, text_len_bytes - at, "%s", *c == 'w' ? l->word : l->ifname);
    }
    return text;
}

static void check_run(const struct check_look *on, const struct check *check, emx_check_fn *fn, void *arg)
{
    struct check_look l = *on;
    char command[256];
    struct emx_finding f = {.where = l.ifname ? l.ifname : "host", .name = check->name, .cost = "", .command = ""};

    l.check = check;
    f.verdict = check->look(&l);
    f.is = l.is;
    if (f.verdict == EMX_COSTS) {
        f.cost = check->cost;
        f.command = l.fixed ? "" : check_command(&l, command, sizeof(command));
    }
    fn(arg, &f);
}

static void check_run_link(const struct check_look *on, unsigned scopes, emx_check_fn *fn, void *arg)
{
    for (size_t i = 0; i < sizeof(link_checks) / sizeof(link_checks[0]); i++)
        if (link_checks[i].scopes & scopes)
            check_run(on, &link_checks[i], fn, arg);
}

/* Checks the cards below a virtual interface. Their number. */
static unsigned check_run_below(const struct check_look *on, unsigned depth, emx_check_fn *fn, void *arg)
{
    char path[256];
    glob_t lower = {0}, device = {0};
    unsigned count = 0;

    if (!depth || !on->sysfs)
        return 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/lower_*", on->ifname);
    check_glob(on->host, &lower, path);
    for (size_t i = 0; i < lower.gl_pathc; i++) {
        struct check_look l = *on;

        l.ifname = strstr(lower.gl_pathv[i], "/lower_") + strlen("/lower_");
        snprintf(path, sizeof(path), "/sys/class/net/%s/device", l.ifname);
        check_glob(on->host, &device, path);
        if (device.gl_pathc) {
            check_run_link(&l, CHECK_CARD, fn, arg);
            count++;
        } else {
            count += check_run_below(&l, depth - 1, fn, arg);
        }
        globfree(&device);
    }
    globfree(&lower);
    return count;
}

/* Whether /sys shows this interface, not one of the same name in another network namespace. */
static bool check_sysfs_shows(const struct emx_checked_host *h, const struct emx_checked_link *link)
{
    char path[128], mac[64];

    snprintf(path, sizeof(path), "/sys/class/net/%s/address", link->name);
    return check_read(h, path, mac, sizeof(mac)) && !strcasecmp(mac, link->mac);
}

void emx_check_link(const struct emx_checked_host *h, const struct emx_checked_link *link, emx_check_fn *fn, void *arg)
{
    struct check_look l = {
        .host = h, .ifname = link->name, .mtu_bytes = link->mtu_bytes, .sysfs = check_sysfs_shows(h, link)};
    char is[160];
    struct emx_finding none = {link->name, "card", EMX_NOT_SEEN, is, "", ""};

    if (!*link->kind) {
        check_run_link(&l, CHECK_LINK | CHECK_CARD, fn, arg);
        return;
    }
    check_run_link(&l, CHECK_LINK, fn, arg);
    if (check_run_below(&l, CHECK_DEPTH, fn, arg))
        return;
    snprintf(is, sizeof(is), "virtual (%s), %s: no interrupts, queues or GRO to check", link->kind,
             l.sysfs ? "no card below it" : "and /sys does not show what is below it");
    fn(arg, &none);
}

void emx_check_host(const struct emx_checked_host *h, emx_check_fn *fn, void *arg)
{
    struct check_look l = {.host = h};

    for (size_t i = 0; i < sizeof(host_checks) / sizeof(host_checks[0]); i++)
        check_run(&l, &host_checks[i], fn, arg);
}

void emx_checked_host_init(struct emx_checked_host *h, const struct ethmx_config *cfg)
{
    *h = (struct emx_checked_host){.root = "", .ask = emx_nic_ask_kernel, .cfg = cfg};
    if (sched_getaffinity(0, sizeof(h->cores), &h->cores))
        CPU_SET(0, &h->cores);
}

struct check_each {
    const struct emx_checked_host *host;
    emx_check_fn *fn;
    void *arg;
    unsigned links;
    struct emx_info_rails rails;
};

static void check_interface(void *arg, const struct ethmx_interface_info *i)
{
    struct check_each *e = arg;
    struct emx_checked_link link = {.name = i->name, .kind = i->kind, .mac = i->mac, .mtu_bytes = i->mtu_bytes};

    if (!i->chosen)
        return;
    e->links++;
    emx_info_rails_look(&e->rails, i);
    e->fn(e->arg, &(struct emx_finding){.where = i->name,
                                        .name = "rail",
                                        .verdict = *e->rails.command ? EMX_COSTS : EMX_FINE,
                                        .is = e->rails.is,
                                        .cost = *e->rails.command ? "large messages do not use it" : "",
                                        .command = e->rails.command});
    emx_check_link(e->host, &link, e->fn, e->arg);
}

int emx_check_all(const struct ethmx_config *cfg, emx_check_fn *fn, void *arg, unsigned *links_p)
{
    struct emx_checked_host h;
    struct check_each e = {.host = &h, .fn = fn, .arg = arg, .rails = {.cfg = cfg}};
    int ret;

    emx_checked_host_init(&h, cfg);
    ret = ethmx_each_interface(cfg, check_interface, &e);
    emx_check_host(&h, fn, arg);
    *links_p = e.links;
    return ret;
}
