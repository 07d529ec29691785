/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets from the network: the frames taken out lie in the bytes given, in order, and none twice; counts fit.
 *
 *     input: 2 bytes, the length of parts; the packet from the IP header on
 *
 * Packets of TCP are received as TSO packets, through a socket, while the same packet or a changed one is expected, and
 * some or all of the data has a place: the frame that comes is the one that was sent.
 *
 *     input: 2 bytes, settings; the headers of IP and TCP; what is expected, see below
 */
#include "fuzz.h"

#include <sys/socket.h>

#include "base/stats.h"
#include "wire/gso.h"
#include "wire/tso_socket.h"

#define PROTO_AT    9 /* in the header of IPv4 */
#define PROTO_TCP   6
#define FRONT_BYTES (10 + EMX_TSO_HEAD_BYTES - EMX_TSO_IP_BYTES) /* the kernel's header, Ethernet */

/* ---- UDP ---- */

static void fuzz_udp(struct fuzz_input in, size_t part_bytes)
{
    uint8_t *ip = fuzz_copy(in.at, in.left_bytes), sum = 0;
    const uint8_t *at, *end = ip + in.left_bytes, *frame;
    struct emx_gso s;
    uint32_t bytes, n = 0, parts;

    if (emx_gso_open(&s, ip, in.left_bytes, part_bytes)) {
        parts = s.parts;
        at = ip + (ip[0] >> 4 == 6 ? EMX_GSO_IP6_BYTES : EMX_GSO_IP_BYTES);
        while ((frame = emx_gso_next(&s, &bytes))) {
            FUZZ_CHECK(frame == at && bytes && bytes <= (size_t)(end - at), "a frame out of bounds");
            for (uint32_t i = 0; i < bytes; i++)
                sum ^= frame[i];
            at += bytes;
            n++;
        }
        FUZZ_CHECK(n == parts, "%u frames where %u were promised", n, parts);
    }
    free(ip);
    (void)sum;
}

/* ---- TCP ---- */

enum settings {
    ANNOUNCED = 1, /* the headers are known before */
    CHANGED = 2,   /* they are not quite those of the packet that comes */
    PLACED = 4,    /* data has a place */
    MOVED = 8,     /* which turns out to be another one */
    TORN = 16,     /* there is less data than the headers say, or more */
};

/* What has a place. */
static struct {
    unsigned settings;
    bool right;
    uint32_t but_bytes;      /* the end of the expected data, which has no place */
    uint8_t *memory, *moved; /* the place, and the one where the data is moved; exactly as long as it */
} guess;

static bool guess_expects(const void *arg)
{
    (void)arg;
    return guess.settings & PLACED;
}

static void guess_plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p)
{
    size_t data_bytes = len_bytes - sizeof(struct emx_place_head), n = data_bytes - guess.but_bytes % data_bytes;

    (void)arg;
    FUZZ_CHECK(head_bytes == sizeof(struct emx_place_head), "the head has %zu bytes", head_bytes);
    FUZZ_CHECK(head[1] == EMX_PLACE_DATA || head[1] == EMX_PLACE_EAGER, "it is the head of other data");
    guess.memory = malloc(n);
    FUZZ_CHECK(guess.memory, "no memory");
    p->head_bytes = sizeof(struct emx_place_head);
    p->count = 1;
    p->place[0] = (struct emx_place){.at = guess.memory, .len_bytes = (uint32_t)n};
}

static unsigned guess_settle(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n)
{
    (void)arg, (void)stride;
    FUZZ_CHECK(n == 1 && p->count == 1, "%u of %u places", n, p->count);
    FUZZ_CHECK(head[1] == EMX_PLACE_DATA || head[1] == EMX_PLACE_EAGER, "there is no head");
    if (guess.settings & MOVED) {
        guess.moved = fuzz_copy(guess.memory, p->place[0].len_bytes);
        p->place[0].at = guess.moved;
    }
    return guess.right;
}

static uint8_t byte_of_data(size_t at)
{
    return (uint8_t)(at * 7 + at / 256);
}

/* The packet comes. */
static void send_packet(int fd, const uint8_t *ip, size_t data_bytes)
{
    static uint8_t packet[FRONT_BYTES + EMX_TSO_IP_BYTES + 65536];

    memcpy(packet + FRONT_BYTES, ip, EMX_TSO_IP_BYTES);
    for (size_t i = 0; i < data_bytes; i++)
        packet[FRONT_BYTES + EMX_TSO_IP_BYTES + i] = byte_of_data(i);
    FUZZ_CHECK(send(fd, packet, FRONT_BYTES + EMX_TSO_IP_BYTES + data_bytes, 0) > 0, "%zu bytes cannot be sent",
               data_bytes);
}

static void check_frame(const struct emx_tso *t, const struct emx_rxframe *f)
{
    const uint8_t *body = f->body ? f->body : f->data + sizeof(t->head);
    const unsigned parts = t->chunks < UINT8_MAX ? t->chunks : UINT8_MAX;

    FUZZ_CHECK(f->len_bytes == sizeof(t->head) + t->data_bytes, "the frame has %u bytes", f->len_bytes);
    FUZZ_CHECK(!memcmp(f->data, &t->head, sizeof(t->head)), "the head is another one");
    FUZZ_CHECK(t->head.body_bytes == f->len_bytes - EMX_PLACE_FRAME_BYTES, "the head tells of %u bytes",
               t->head.body_bytes);
    FUZZ_CHECK(!f->body || body == guess.memory || body == guess.moved, "the data is somewhere else");
    FUZZ_CHECK(f->parts == (parts > 1 ? parts : 0), "%u parts of %u", f->parts, t->chunks);
    FUZZ_CHECK(f->marked == t->marked, "marked: %d", f->marked);
    for (size_t i = 0; i < t->data_bytes; i++)
        FUZZ_CHECK(body[i] == byte_of_data(i), "byte %zu", i);
}

/* What comes of it: one frame; or t NULL: none, and it is counted. */
static void check_packet(struct emx_gso_rx *r, const struct emx_tso *t)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned n = emx_gso_rx_next(r, f, EMX_WIRE_BATCH, 0);

    FUZZ_CHECK(n == (t ? 1 : 0), "%u frames", n);
    FUZZ_CHECK(r->stats->wire_lost == !t, "%lu packets lost", (unsigned long)r->stats->wire_lost);
    if (t)
        check_frame(t, f);
}

static void read_guess(struct fuzz_input *in, unsigned settings)
{
    guess.settings = settings;
    guess.right = fuzz_below(in, 2);
    guess.but_bytes = (uint32_t)fuzz_number(in, 2);
    guess.memory = guess.moved = NULL;
}

/* The headers that are expected. false: none. */
static bool read_expected(struct fuzz_input *in, unsigned settings, uint8_t *ip, struct emx_tso *expected_p)
{
    for (unsigned n = settings & CHANGED ? 1 + fuzz_below(in, 4) : 0; n; n--) {
        unsigned at = fuzz_below(in, EMX_TSO_IP_BYTES);

        ip[at] = (uint8_t)fuzz_number(in, 1);
    }
    return settings & ANNOUNCED && emx_tso_open(expected_p, ip);
}

static void fuzz_tcp(struct fuzz_input in, unsigned settings)
{
    static const struct emx_placer placer = {
        .arg = &guess, .expects = guess_expects, .plan = guess_plan, .settle = guess_settle};
    static struct emx_stats stats;
    static struct emx_gso_rx r;
    static int fd[2] = {-1, -1};
    uint8_t *ip = fuzz_copy(in.at, EMX_TSO_IP_BYTES);
    struct emx_tso t, expected;
    size_t data_bytes;
    bool ok, known;

    if (fd[0] < 0)
        FUZZ_CHECK(!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fd) && emx_gso_rx_init(&r, &placer, &stats),
                   "no socket");
    in.at += EMX_TSO_IP_BYTES;
    in.left_bytes -= EMX_TSO_IP_BYTES;
    ok = emx_tso_open(&t, ip);
    if (ok)
        FUZZ_CHECK(t.chunks && t.data_bytes && sizeof(t.head) + t.data_bytes <= EMX_GSO_RX_BYTES,
                   "%u chunks of %u bytes", t.chunks, t.data_bytes);
    data_bytes = settings & TORN ? fuzz_below(&in, 65536) : ok ? t.data_bytes : 100;
    send_packet(fd[0], ip, data_bytes);
    known = read_expected(&in, settings, ip, &expected);
    read_guess(&in, settings);
    stats.wire_lost = 0;
    FUZZ_CHECK(emx_tso_receive(fd[1], &r, known ? &expected : NULL), "a packet is not received");
    check_packet(&r, ok && data_bytes >= t.data_bytes ? &t : NULL);
    FUZZ_CHECK(!emx_tso_receive(fd[1], &r, NULL) && !emx_gso_rx_is_open(&r), "there was one packet");
    free(guess.memory);
    free(guess.moved);
    free(ip);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz_input in = {data, len_bytes};
    unsigned first = (unsigned)fuzz_number(&in, 2);

    if (in.left_bytes >= EMX_TSO_IP_BYTES && in.at[PROTO_AT] == PROTO_TCP)
        fuzz_tcp(in, first);
    fuzz_udp(in, first);
    return 0;
}
