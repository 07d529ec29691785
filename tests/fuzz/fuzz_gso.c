/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packets from the network: the frames taken out lie in the bytes given, in order, and none twice; counts fit.
 *
 *     input: 2 bytes, the length of parts; the packet from the IP header on
 *
 * Packets of TCP are received as TSO packets, through a socket, while the same packet or a changed one is expected, and
 * any data has a place: the frames that come are those that were sent.
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
    PLACES = 4,    /* data has places */
    STREWN = 8,    /* which are not neighbours */
    TORN = 16,     /* there is not as much data as the headers say */
};

/* What has a place. */
static struct {
    unsigned settings, count, right, odd;
    uint32_t len_bytes, odd_bytes;
    uint8_t *memory; /* exactly as long as all places */
} guess;

static bool guess_expects(const void *arg)
{
    (void)arg;
    return guess.settings & PLACES;
}

/* Places of equal length, but one. */
static void guess_plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p)
{
    size_t all_bytes = (size_t)guess.count * (guess.len_bytes + guess.odd_bytes), at = 0;

    (void)arg, (void)head, (void)len_bytes;
    FUZZ_CHECK(head_bytes == sizeof(struct emx_place_head), "the head has %zu bytes", head_bytes);
    p->head_bytes = sizeof(struct emx_place_head);
    p->count = guess.count;
    guess.memory = malloc(all_bytes + 1);
    FUZZ_CHECK(guess.memory, "no memory");
    for (unsigned i = 0; i < p->count; i++) {
        p->place[i].len_bytes = i == guess.odd ? guess.odd_bytes : guess.len_bytes;
        at += p->place[i].len_bytes;
        p->place[i].at = guess.memory + (guess.settings & STREWN ? all_bytes - at : at - p->place[i].len_bytes);
    }
}

static unsigned guess_settle(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n)
{
    (void)arg, (void)head, (void)stride;
    FUZZ_CHECK(n <= p->count, "%u of %u places", n, p->count);
    return n < guess.right ? n : guess.right;
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

/* The frame is number i of the packet. */
static void check_frame(const struct emx_tso *t, unsigned i, const struct emx_rxframe *f)
{
    const uint8_t *body = f->body ? f->body : f->data + sizeof(struct emx_place_head);
    size_t from = (size_t)i * t->first.chunk_bytes, n = t->data_bytes - from;
    struct emx_place_head want;

    FUZZ_CHECK(i < t->frames, "frame %u of %u", i, t->frames);
    if (n > t->first.chunk_bytes)
        n = t->first.chunk_bytes;
    emx_tso_frame_head(t, i, &want);
    FUZZ_CHECK(f->len_bytes == sizeof(want) + n, "frame %u has %u bytes", i, f->len_bytes);
    FUZZ_CHECK(!memcmp(f->data, &want, sizeof(want)), "the head of frame %u", i);
    FUZZ_CHECK(want.body_bytes == f->len_bytes - EMX_PLACE_FRAME_BYTES, "frame %u tells of %u bytes", i,
               want.body_bytes);
    for (size_t k = 0; k < n; k++)
        FUZZ_CHECK(body[k] == byte_of_data(from + k), "byte %zu of frame %u", k, i);
}

/* What comes of it: all frames of the packet, or none; all: not none. t NULL: it is refused. */
static void check_packet(struct emx_gso_rx *r, const struct emx_tso *t, bool all)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned n = 0, more;

    FUZZ_CHECK(!all || r->stats->wire_lost == 0, "a packet as expected is lost");
    while ((more = emx_gso_rx_next(r, f, EMX_WIRE_BATCH, 0))) {
        FUZZ_CHECK(t, "frames of a packet that is refused");
        for (unsigned i = 0; i < more; i++)
            check_frame(t, n + i, &f[i]);
        n += more;
    }
    FUZZ_CHECK(r->stats->wire_lost == !n, "%u frames, %lu packets lost", n, (unsigned long)r->stats->wire_lost);
    FUZZ_CHECK(!n || n == t->frames, "%u frames of %u", n, t->frames);
}

static void read_guess(struct fuzz_input *in, unsigned settings, const struct emx_tso *t)
{
    guess.settings = settings;
    guess.count = fuzz_below(in, EMX_WIRE_BATCH + 1);
    guess.right = fuzz_below(in, EMX_WIRE_BATCH + 1);
    guess.odd = fuzz_below(in, EMX_WIRE_BATCH + 1);
    guess.len_bytes = t ? t->first.chunk_bytes : 8;
    guess.odd_bytes = fuzz_below(in, 65536) % (guess.len_bytes + 8);
    guess.memory = NULL;
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
        FUZZ_CHECK(t.frames && t.frames <= EMX_WIRE_BATCH && t.data_bytes && emx_tso_frames_bytes(&t) <= 65535,
                   "%u frames of %u bytes", t.frames, t.data_bytes);
    data_bytes = settings & TORN ? fuzz_below(&in, 65536) : ok ? t.data_bytes : 100;
    send_packet(fd[0], ip, data_bytes);
    known = read_expected(&in, settings, ip, &expected);
    read_guess(&in, settings, known ? &expected : ok ? &t : NULL);
    stats.wire_lost = 0;
    FUZZ_CHECK(emx_tso_receive(fd[1], &r, known ? &expected : NULL), "a packet is not received");
    check_packet(&r, ok ? &t : NULL, ok && !(settings & (TORN | CHANGED)));
    FUZZ_CHECK(!emx_tso_receive(fd[1], &r, NULL) && !emx_gso_rx_is_open(&r), "there was one packet");
    free(guess.memory);
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
