/* SPDX-License-Identifier: BSD-3-Clause
 *
 * instructions: what a small message costs the processor in the library itself. Two endpoints in one process play
 * ping-pong over a wire made of memory; no system call, no other thread. Meant for valgrind --tool=callgrind, which
 * counts inside measured_send(), measured_recv() and measured_idle() (see count-instructions).
 *
 *     instructions reliable|lossy ROUNDS [fetch]
 *
 * reliable: as over shared memory. lossy: as over Ethernet, with acknowledgements and a checksum. fetch: instead of
 * messages, fetch and add on 8 bytes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rma/rma.h"
#include "endpoint/ep.h"
#include "ethmx.h"
#include "ethmx_rma.h"
#include "progress/clock.h"
#include "wire/netif.h"
#include "wire/udp/udp.h"
#include "wire/udp/udp_conn.h"
#include "wire/wire.h"

#define MESSAGE_BYTES 8
#define SLOTS         64
#define SLOT_BYTES    9216
#define WIRES         2

/* ---- The wire: a ring of frames for each endpoint. It takes the place of udp, whose addresses it uses. ---- */

struct slot {
    uint32_t len_bytes;
    uint8_t frame[SLOT_BYTES] __attribute__((aligned(64)));
};

struct memory_wire {
    struct emx_wire w;
    unsigned port; /* 1 and up */
    unsigned head, tail;
    struct slot slot[SLOTS];
};

static struct memory_wire wires[WIRES];
static unsigned wire_count;
static bool reliable;

static int mem_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes);

static void mem_close(struct emx_wire *w)
{
    (void)w;
}

static void mem_query(const struct emx_wire *w, struct emx_wire_attr *attr_p)
{
    (void)w;
    *attr_p = (struct emx_wire_attr){.frame_bytes = 8192, .cheap_poll = true, .reliable = reliable};
}

static unsigned mem_describe(const struct emx_wire *w, const struct emx_way_site *site, uint8_t *value,
                             unsigned *least_p)
{
    (void)site;
    emx_wire_value_put_u16(value, (uint16_t)((const struct memory_wire *)(const void *)w)->port);
    *least_p = EMX_UDP_PART_BYTES;
    return EMX_UDP_PART_BYTES;
}

static unsigned mem_tx_room(struct emx_wire *w)
{
    (void)w;
    return SLOTS / 2;
}

static struct memory_wire *wire_at(const struct emx_wire_addr *a)
{
    struct emx_udp_addr to;

    memcpy(&to, a, sizeof(to));
    return &wires[ntohs(to.port) - 1];
}

static void mem_tx(struct emx_wire *w, const struct emx_txframe *f, unsigned n)
{
    (void)w;
    for (unsigned i = 0; i < n; i++) {
        struct memory_wire *to = wire_at(f[i].to);
        struct slot *s = &to->slot[to->head++ % SLOTS];

        memcpy(s->frame, f[i].head, f[i].head_bytes);
        if (f[i].body_bytes)
            memcpy(s->frame + f[i].head_bytes, f[i].body, f[i].body_bytes);
        s->len_bytes = f[i].head_bytes + f[i].body_bytes;
    }
}

static struct memory_wire *placing;

static void *mem_reserve(struct emx_wire *w, const struct emx_wire_addr *to, uint32_t len_bytes)
{
    struct slot *s;

    (void)w;
    placing = wire_at(to);
    s = &placing->slot[placing->head % SLOTS];
    s->len_bytes = len_bytes;
    return s->frame;
}

static void mem_commit(struct emx_wire *w)
{
    (void)w;
    placing->head++;
}

static unsigned mem_rx(struct emx_wire *w, struct emx_rxframe *f, unsigned max)
{
    struct memory_wire *m = (void *)w;
    unsigned n = 0;

    while (n < max && m->tail + n != m->head) {
        const struct slot *s = &m->slot[(m->tail + n) % SLOTS];

        f[n++] = (struct emx_rxframe){.data = s->frame, .len_bytes = s->len_bytes};
    }
    return n;
}

static void mem_rx_return(struct emx_wire *w, const struct emx_rxframe *f, unsigned n)
{
    (void)f;
    ((struct memory_wire *)(void *)w)->tail += n;
}

static struct emx_wire_peek mem_peek(struct emx_wire *w)
{
    const struct memory_wire *m = (const void *)w;
    const struct slot *s = &m->slot[m->tail % SLOTS];

    if (m->tail == m->head)
        return (struct emx_wire_peek){0};
    return (struct emx_wire_peek){.data = s->frame, .len_bytes = s->len_bytes};
}

static void mem_consume(struct emx_wire *w)
{
    ((struct memory_wire *)(void *)w)->tail++;
}

static int mem_fd(struct emx_wire *w, unsigned i)
{
    (void)w, (void)i;
    return -1;
}

/* As shared memory has it, frames lie where both ends can reach them; main() takes that from a lossy one, which still
 * shows where a frame has come, as the packet wire does. */
static struct emx_wire_ops mem_ops = {.name = "udp",
                                      .help = "memory",
                                      .open = mem_open,
                                      .close = mem_close,
                                      .part = EMX_UDP_PART,
                                      .query = mem_query,
                                      .describe = mem_describe,
                                      .ways = emx_udp_ways,
                                      .tx_room = mem_tx_room,
                                      .tx = mem_tx,
                                      .reserve = mem_reserve,
                                      .commit = mem_commit,
                                      .rx = mem_rx,
                                      .rx_return = mem_rx_return,
                                      .peek = mem_peek,
                                      .consume = mem_consume,
                                      .fd = mem_fd};

static int mem_open(struct emx_wire **w_p, const struct emx_wire_params *params, char *why, size_t why_len_bytes)
{
    struct memory_wire *m = &wires[wire_count++];

    (void)params, (void)why, (void)why_len_bytes;
    m->w.ops = &mem_ops;
    m->port = wire_count;
    *w_p = &m->w;
    return ETHMX_OK;
}

const struct emx_wire_ops *const emx_wires[] = {&mem_ops, NULL};

/* ---- The clock: each look at it is 100 ns after the last one, or timers would be due as often as the machine is slow.
 * It takes the place of progress/clock.c. ---- */

uint64_t emx_clock_reread(struct emx_clock *c)
{
    return c->last_ns += 100;
}

void emx_clock_init(struct emx_clock *c)
{
    *c = (struct emx_clock){.last_ns = 1000000000};
}

/* ---- The endpoints ---- */

static struct ethmx_ep *ep[2];
static struct ethmx_peer *peer[2]; /* peer[i]: of ep[i], the other one */
static uint8_t out[MESSAGE_BYTES], in[MESSAGE_BYTES];
static bool received;

static void must(int rc)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "instructions: %s: %s\n", ethmx_strerror(rc), ethmx_error_text());
    exit(1);
}

static void begin(void)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(opt), .job_key = {1}};
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t bytes;

    for (unsigned i = 0; i < 2; i++)
        must(ethmx_ep_open(NULL, &opt, &ep[i]));
    for (unsigned i = 0; i < 2; i++) {
        bytes = sizeof(addr);
        must(ethmx_ep_address(ep[!i], addr, &bytes));
        must(ethmx_peer_add(ep[i], addr, bytes, NULL, &peer[i]));
    }
}

static void arrived(void *arg, const struct ethmx_result *result)
{
    (void)arg;
    must(result->status);
    received = true;
}

__attribute__((noinline)) void measured_post(unsigned i)
{
    struct ethmx_data data = {.len_bytes = sizeof(in), .base = in};
    struct ethmx_req *req;
    struct ethmx_result result;

    must(ethmx_irecv(ep[i], peer[i], 7, UINT64_MAX, &data, arrived, NULL, &req, &result));
}

__attribute__((noinline)) void measured_send(unsigned i)
{
    struct ethmx_data data = {.len_bytes = sizeof(out), .base = out};

    must(ethmx_isend(ep[i], peer[i], 7, &data, ETHMX_SEND_STANDARD, NULL, NULL));
}

__attribute__((noinline)) void measured_recv(unsigned i)
{
    ethmx_progress(ep[i]);
}

__attribute__((noinline)) void measured_idle(unsigned i)
{
    ethmx_progress(ep[i]);
}

static void connect_both(void)
{
    measured_post(0);
    measured_post(1);
    must(ethmx_isend(ep[0], peer[0], 7, &(struct ethmx_data){.base = out, .len_bytes = sizeof(out)},
                     ETHMX_SEND_STANDARD, NULL, NULL));
    must(ethmx_isend(ep[1], peer[1], 7, &(struct ethmx_data){.base = out, .len_bytes = sizeof(out)},
                     ETHMX_SEND_STANDARD, NULL, NULL));
    for (unsigned i = 0; i < 1000; i++)
        ethmx_progress(ep[i % 2]);
}

/* As in a ping-pong: the other's receive is posted when the message comes. */
static void round_trip(void)
{
    for (unsigned i = 0; i < 2; i++) {
        measured_post(!i);
        measured_idle(!i);
        received = false;
        measured_send(i);
        measured_recv(!i);
        if (!received) {
            fprintf(stderr, "instructions: a message did not arrive at once\n");
            exit(1);
        }
    }
}

/* ---- Fetch and add ---- */

#define KEY 1

static int64_t counter; /* exposed by endpoint 1 */
static unsigned ended;

static void fetched(void *arg, const struct ethmx_result *result)
{
    (void)arg;
    must(result->status);
    ended++;
}

/* Without a helper thread, which ethmx_rma_expose() starts. */
static void expose(void)
{
    struct emx_rma_region *region;

    must(emx_engine_expose(ep[1]->progress.engine, &counter, sizeof(counter), KEY, EMX_RMA_MAY_BOTH, &region));
}

__attribute__((noinline)) void measured_fetch(int64_t *old)
{
    const struct ethmx_rma_target to = {.peer = peer[0], .key = KEY};
    const struct ethmx_data data = {.base = old, .len_bytes = sizeof(*old)};
    const int64_t one = 1;

    must(ethmx_rma_fetch(ep[0], &to, ETHMX_RMA_SUM, ETHMX_RMA_INT64, &one, &data, fetched, NULL));
}

__attribute__((noinline)) void measured_serve(void)
{
    ethmx_progress(ep[1]);
}

__attribute__((noinline)) void measured_result(void)
{
    ethmx_progress(ep[0]);
}

static void fetch_and_add(void)
{
    int64_t expected = counter, old = -1;

    ended = 0;
    measured_fetch(&old);
    ethmx_progress(ep[0]);
    measured_serve();
    measured_result();
    if (ended != 1 || old != expected || counter != expected + 1) {
        fprintf(stderr, "instructions: a fetch did not end at once\n");
        exit(1);
    }
    ethmx_progress(ep[1]);
}

int main(int argc, char **argv)
{
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;

    if (!rounds) {
        fprintf(stderr, "usage: instructions reliable|lossy ROUNDS [fetch]\n");
        return 2;
    }
    reliable = !strcmp(argv[1], "reliable");
    if (!reliable)
        mem_ops.reserve = NULL;
    setenv("ETHMX_WIRES", mem_ops.name, 1);
    setenv("ETHMX_HEARTBEAT", "0", 1);
    begin();
    connect_both();
    if (argc > 3) {
        expose();
        for (unsigned long i = 0; i < rounds; i++)
            fetch_and_add();
        printf("%lu\n", rounds);
        return 0;
    }
    for (unsigned long i = 0; i < rounds; i++)
        round_trip();
    printf("%lu\n", 2 * rounds);
    return 0;
}
