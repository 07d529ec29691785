/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pull: data frames of several chunks, which wires make of TSO packets. An engine pulls a message from a partner that
 * sends what a test says. Whatever chunks a frame has, those that are missing are taken, and no others; the counters
 * say so, and no memory but the receive buffer is written.
 */
#include "unit.h"

#include <string.h>

#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/format/frame.h"
#include "core/msg/op.h"
#include "core/msg/rndv.h"
#include "core/peer.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

#define CHUNK       1024u
#define CHUNKS      40u
#define LAST        100u /* bytes of the last chunk */
#define MESSAGE     ((CHUNKS - 1) * CHUNK + LAST)
#define ROOM        (60 * CHUNK)
#define FRAME_BYTES 1500
#define UNTOUCHED   0xEE
#define OP          1 /* the partner's operation */

static struct emx_config cfg;
static struct emx_stats stats;
static struct unit_alloc memory;
static struct emx_engine *engine;
static bool many_blocks = true; /* there is memory for them */
static struct emx_peer *peer;
static emx_time now;

/* The partner. */
static struct {
    uint32_t tx_next, rx_next, rop;
    unsigned fins;
    bool pushes;            /* its data was not requested */
    struct emx_f_pull pull; /* the last */
    uint64_t pulled_bytes;  /* of the last fin */
} partner;

static uint8_t room[ROOM]; /* the buffer is in its middle */
static uint8_t *const message = room + 8 * CHUNK;
static size_t buffer_bytes;
static uint64_t have; /* mask of chunks */

/* ---- The partner ---- */

static struct emx_address address(unsigned id)
{
    return (struct emx_address){.id = id, .cookie = 2, .host_id = id, .host = "n"};
}

static void seal(struct emx_frame *head, enum emx_frame_type type, size_t body_bytes)
{
    head->type = (uint8_t)type;
    head->body_bytes = (uint16_t)body_bytes;
    head->dst_id = 1;
    head->cookie = 2;
    head->src_id = 2;
    head->seq = emx_frame_info[type].sequenced ? partner.tx_next++ : 0;
    head->ack = partner.rx_next;
    head->credit = 1 << 20;
    emx_frame_seal(head, sizeof(*head) + body_bytes, NULL, 0, EMX_CHECKSUM_HEADER);
}

static enum emx_drop say(struct emx_frame *head, enum emx_frame_type type, size_t body_bytes)
{
    seal(head, type, body_bytes);
    return emx_engine_input(engine, 0, (const uint8_t *)head, (uint32_t)(sizeof(*head) + body_bytes), now);
}

static void greet(enum emx_frame_type type, uint32_t probe, size_t frame_bytes)
{
    uint8_t frame[FRAME_BYTES] = {0};
    struct emx_frame *h = (void *)frame;
    struct emx_f_hello *t = (void *)(h + 1);
    struct emx_address a = address(2);
    const size_t addr_bytes = emx_address_encode(&a, (uint8_t *)(t + 1));

    if (frame_bytes < sizeof(*h) + sizeof(*t) + addr_bytes)
        frame_bytes = sizeof(*h) + sizeof(*t) + addr_bytes;
    *t = (struct emx_f_hello){.addr_bytes = (uint16_t)addr_bytes,
                              .frame_bytes = (uint16_t)frame_bytes,
                              .max_bytes = FRAME_BYTES,
                              .window = (uint16_t)cfg.p_window,
                              .probe = probe};
    assert_int_equal(say(h, type, frame_bytes - sizeof(*h)), EMX_ACCEPTED);
}

static void acknowledge(void)
{
    uint8_t frame[sizeof(struct emx_frame) + 32] = {0};

    partner.rx_next++;
    assert_int_equal(say((void *)frame, EMX_F_ack, emx_frame_info[EMX_F_ack].head_bytes), EMX_ACCEPTED);
}

static void hear(const struct emx_frame *h)
{
    if (h->type == EMX_F_hello)
        greet(EMX_F_hello_ack, ((const struct emx_f_hello *)(h + 1))->probe, sizeof(*h) + h->body_bytes);
    if (h->type == EMX_F_pull) {
        partner.pull = *(const struct emx_f_pull *)(h + 1);
        partner.rop = partner.pull.rop;
    }
    if (h->type == EMX_F_fin) {
        partner.fins++;
        partner.pulled_bytes = ((const struct emx_f_fin *)(h + 1))->pulled_bytes;
    }
    if (emx_frame_info[h->type].sequenced)
        acknowledge();
}

static void pump(void)
{
    const struct emx_route route = {.frame_bytes = FRAME_BYTES, .name = "test"};
    uint8_t frame[FRAME_BYTES];
    struct emx_txframe f;
    struct emx_event ev;

    do {
        while (emx_engine_event(engine, &ev))
            if (ev.type == EMX_EVENT_ROUTES)
                emx_engine_routes(engine, ev.peer, &route, 1, "", now);
        if (!emx_engine_output(engine, 0, &f, 1, now))
            return;
        memcpy(frame, f.head, f.head_bytes);
        if (f.body_bytes)
            memcpy(frame + f.head_bytes, f.body, f.body_bytes);
        hear((const void *)frame);
    } while (true);
}

/* ---- The message ---- */

static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 7 + at / CHUNK);
}

static void *no_memory(void *arg, size_t len_bytes)
{
    (void)arg;
    (void)len_bytes;
    return NULL;
}

/* The partner announces its message in chunks of chunk_bytes, and pushes so many. */
static enum emx_drop announce_chunks(uint16_t chunk_bytes, unsigned pushed, unsigned flags)
{
    struct EMX_LAYOUT {
        struct emx_frame head;
        struct emx_f_rts rts;
    } f = {.rts = {.total_bytes = MESSAGE,
                   .op = OP,
                   .flags = (uint16_t)flags,
                   .chunk_bytes = chunk_bytes,
                   .pushed = (uint16_t)pushed}};

    return say(&f.head, EMX_F_rts, sizeof(f.rts));
}

static enum emx_drop announce(unsigned pushed, unsigned flags)
{
    return announce_chunks(CHUNK, pushed, flags);
}

/* A receive of len_bytes waits for the partner's message, and will pull it in blocks of so many chunks. */
static void begin_to_wait(size_t len_bytes, unsigned block_chunks)
{
    static const struct emx_alloc none = {.get = no_memory};
    const struct emx_address self = address(1), other = address(2);
    const struct emx_engine_params p = {.cfg = &cfg, .stats = &stats, .alloc = &memory.alloc, .self = &self, .seed = 1};
    const struct emx_op_args a = {.data = {.base = message, .len_bytes = len_bytes}};
    struct ethmx_result result;
    uint8_t buf[ETHMX_ADDRESS_MAX];
    char err[256];

    memset(&stats, 0, sizeof(stats));
    memset(&partner, 0, sizeof(partner));
    memset(room, UNTOUCHED, sizeof(room));
    have = 0;
    buffer_bytes = len_bytes;
    unit_alloc_init(&memory);
    emx_config_defaults(&cfg);
    cfg.p_pull_frames = block_chunks;
    now = 1000000000;
    assert_int_equal(emx_engine_create(&p, &engine), ETHMX_OK);
    if (!many_blocks)
        engine->many_blocks.alloc = &none;
    assert_int_equal(emx_engine_peer(engine, buf, emx_address_encode(&other, buf), &peer, err, sizeof(err)), ETHMX_OK);
    greet(EMX_F_hello, 2, 200);
    pump();
    assert_int_equal(emx_engine_recv(engine, NULL, &a, NULL, &result, now), ETHMX_INPROGRESS);
}

/* The partner has announced its message, and the receive pulls it. */
static void begin_pushed(size_t len_bytes, unsigned block_chunks, unsigned pushed)
{
    begin_to_wait(len_bytes, block_chunks);
    assert_int_equal(announce(pushed, 0), EMX_ACCEPTED);
    pump();
}

static void begin(size_t len_bytes, unsigned block_chunks)
{
    begin_pushed(len_bytes, block_chunks, 0);
}

static void end(void)
{
    assert_null(emx_engine_check(engine));
    emx_engine_destroy(engine);
    assert_int_equal(memory.live, 0);
}

/* NULL: all has arrived. */
static struct emx_rndv *pulled(void)
{
    struct emx_op *op = emx_op_by_id(engine, partner.rop, peer->session);

    return op && op->where == EMX_OP_PULLING ? op->rndv : NULL;
}

static uint64_t chunks_from(unsigned first, unsigned n)
{
    return ((UINT64_C(1) << n) - 1) << first;
}

/* Bytes of the message in these chunks. */
static uint64_t bytes_of(uint64_t chunks)
{
    uint64_t bytes = (uint64_t)__builtin_popcountll(chunks) * CHUNK;

    return chunks >> (CHUNKS - 1) & 1 ? bytes - CHUNK + LAST : bytes;
}

/* What is in memory is what has arrived, and the engine counts just that. */
static bool all_is_right(void)
{
    const struct emx_rndv *r = pulled();
    const uint64_t wanted = (buffer_bytes + CHUNK - 1) / CHUNK;

    for (size_t i = 0; i < ROOM; i++) {
        const size_t at = i - (size_t)(message - room); /* wraps before the buffer */
        const bool here = at < buffer_bytes && have >> at / CHUNK & 1;

        CHECK(room[i] == (here ? byte_at(at) : UNTOUCHED));
    }
    CHECK(engine->pulled_bytes == bytes_of(have));
    CHECK(!emx_engine_check(engine));
    if (have == chunks_from(0, (unsigned)wanted)) {
        CHECK(!r && partner.fins == 1 && partner.pulled_bytes == buffer_bytes && stats.msgs_received == 1);
        CHECK(engine->pulling_bytes == 0);
        return true;
    }
    CHECK(r && r->got_chunks == (uint64_t)__builtin_popcountll(have) && !partner.fins);
    CHECK(engine->pulling_bytes == (r->next_chunk - r->got_chunks) * CHUNK);
    return true;
}

/* ---- Data frames ---- */

static struct EMX_LAYOUT {
    struct emx_frame head;
    struct emx_f_data data;
    uint8_t body[UINT16_MAX];
} frame;

/* Makes a frame of n bytes from this chunk on. Only the chunks of the mask have the message's data. */
static void frame_make(uint64_t chunk, size_t n, uint64_t true_chunks)
{
    memset(&frame, 0, sizeof(frame));
    frame.data = (struct emx_f_data){
        .rop = partner.pushes ? OP : partner.rop, .pushed = partner.pushes, .chunk_bytes = CHUNK, .chunk = chunk};
    for (size_t i = 0; i < n; i++) {
        const uint64_t of = chunk + i / CHUNK;
        const uint8_t right = byte_at(chunk * CHUNK + i);

        frame.body[i] = of < 64 && true_chunks >> of & 1 ? right : (uint8_t)~right;
    }
}

/* Sends it; just these chunks of it must be taken. */
static bool takes(uint64_t chunk, size_t n, uint64_t chunks)
{
    const uint64_t copied = stats.bytes_copied, duplicates = stats.drop_duplicate;
    enum emx_drop drop;

    frame_make(chunk, n, chunks);
    drop = say(&frame.head, EMX_F_data, sizeof(frame.data) + n);
    CHECK(drop == (chunks ? EMX_ACCEPTED : EMX_DROP_DUPLICATE));
    CHECK(stats.drop_duplicate == duplicates + !chunks);
    CHECK(stats.bytes_copied == copied + bytes_of(chunks));
    have |= chunks;
    pump();
    return all_is_right();
}

static bool is_dropped(uint64_t chunk, size_t n, enum emx_drop why)
{
    frame_make(chunk, n, 0);
    CHECK(say(&frame.head, EMX_F_data, sizeof(frame.data) + n) == why);
    pump();
    return all_is_right();
}

static void what_is_missing_is_taken(void **state)
{
    (void)state;
    begin(MESSAGE, 8);
    assert_int_equal(pulled()->next_chunk, CHUNKS); /* in 5 blocks */
    assert_true(all_is_right());
    assert_true(takes(0, 4 * CHUNK, chunks_from(0, 4)));      /* all */
    assert_true(takes(0, 4 * CHUNK, 0));                      /* nothing */
    assert_true(takes(2, 4 * CHUNK, chunks_from(4, 2)));      /* the end */
    assert_true(takes(10, CHUNK, chunks_from(10, 1)));        /* one */
    assert_true(takes(6, 6 * CHUNK, 0xbc0));                  /* over two blocks, around one that is there */
    assert_true(takes(14, 20 * CHUNK, chunks_from(14, 20)));  /* over four blocks */
    assert_true(takes(38, CHUNK + LAST, chunks_from(38, 2))); /* the last one is shorter */
    assert_true(takes(39, LAST, 0));
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~have)); /* the rest, in four pieces */
    assert_true(is_dropped(0, MESSAGE, EMX_DROP_STALE));
    end();
}

static void a_message_comes_in_one_frame(void **state)
{
    (void)state;
    for (unsigned block_chunks = 3; block_chunks <= 64; block_chunks++) {
        begin(MESSAGE, block_chunks);
        assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS)));
        end();
    }
}

/* A message of more blocks than it has room for itself gets room for all. */
static void many_blocks_are_requested_at_once(void **state)
{
    (void)state;
    for (unsigned block_chunks = 1; block_chunks <= 2; block_chunks++) {
        begin(MESSAGE, block_chunks);
        assert_int_equal(pulled()->active, CHUNKS / block_chunks);
        assert_true(takes(EMX_BLOCKS_OWN + 1, 4 * CHUNK, chunks_from(EMX_BLOCKS_OWN + 1, 4)));
        assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~chunks_from(EMX_BLOCKS_OWN + 1, 4)));
        end();
    }
}

/* Sends one chunk of a message in short chunks. */
static void send_short_chunk(unsigned chunk, unsigned chunk_bytes)
{
    const unsigned at = chunk * chunk_bytes, n = at + chunk_bytes < MESSAGE ? chunk_bytes : MESSAGE - at;

    memset(&frame, 0, sizeof(frame));
    frame.data = (struct emx_f_data){.rop = partner.rop, .chunk_bytes = (uint16_t)chunk_bytes, .chunk = chunk};
    for (unsigned i = 0; i < n; i++)
        frame.body[i] = byte_at(at + i);
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + n), EMX_ACCEPTED);
    pump();
    assert_null(emx_engine_check(engine));
}

/* Gaps are looked for in the oldest 64 blocks. A chunk lost behind them is found when older blocks have arrived. */
static void a_gap_behind_many_blocks_is_found_later(void **state)
{
    enum { SHORT = 256, COUNT = (MESSAGE + SHORT - 1) / SHORT, LOST = 90 };

    (void)state;
    begin_to_wait(MESSAGE, 1);
    assert_int_equal(announce_chunks(SHORT, 0, 0), EMX_ACCEPTED);
    pump();
    assert_int_equal(pulled()->active, EMX_BLOCKS);
    send_short_chunk(LOST + 1, SHORT);
    assert_int_equal(stats.pulls_resent, 64);
    for (unsigned i = 0; i < LOST; i++)
        send_short_chunk(i, SHORT);
    assert_int_equal(stats.pulls_resent, 64);
    assert_int_equal(pulled()->block[0].first, LOST);
    assert_false(pulled()->block[0].overtaken);
    send_short_chunk(LOST + 2, SHORT);
    assert_true(pulled()->block[0].overtaken); /* the others were only late, so this may be, too */
    for (unsigned i = LOST; i < COUNT; i++)
        if (i != LOST + 1 && i != LOST + 2)
            send_short_chunk(i, SHORT);
    assert_int_equal(partner.fins, 1);
    for (size_t i = 0; i < MESSAGE; i++)
        assert_int_equal(message[i], byte_at(i));
    end();
}

/* Chunks that were not requested are not taken, except if room for them is made by those before. There is no memory for
 * the blocks that follow. */
static void what_was_not_requested_is_not_taken(void **state)
{
    const unsigned asked = 2 * EMX_BLOCKS_OWN;

    (void)state;
    many_blocks = false;
    begin(MESSAGE, 2);
    many_blocks = true;
    assert_int_equal(pulled()->next_chunk, asked);
    assert_true(takes(asked, 4 * CHUNK, 0));
    assert_true(takes(asked - 1, 4 * CHUNK, chunks_from(asked - 1, 1)));
    assert_int_equal(pulled()->next_chunk, asked);
    assert_true(takes(asked - 2, 4 * CHUNK, chunks_from(asked - 2, 1) | chunks_from(asked, 2)));
    end();
}

static void wrong_frames_are_dropped(void **state)
{
    static const struct {
        uint64_t chunk;
        size_t n;
    } frames[] = {
        {0, 0},
        {0, 1},
        {0, CHUNK - 1},
        {0, CHUNK + 1},
        {0, 3 * CHUNK + 512},
        {CHUNKS - 2, 2 * CHUNK}, /* the last chunk is too long, too short, or not there */
        {CHUNKS - 2, CHUNK + LAST + 1},
        {CHUNKS - 2, CHUNK + LAST - 1},
        {CHUNKS - 1, CHUNK},
        {CHUNKS - 1, LAST + CHUNK},
        {CHUNKS, LAST},
        {0, MESSAGE + 1},
        {0, UINT16_MAX - sizeof(struct emx_f_data)},
        {UINT64_MAX, CHUNK}, /* numbers that wrap, as chunks or as bytes */
        {UINT64_MAX, 2 * CHUNK},
        {UINT64_MAX - 1, 8 * CHUNK},
        {UINT64_MAX / CHUNK + 1, CHUNK},
        {UINT64_MAX / CHUNK, 2 * CHUNK},
        {UINT64_C(1) << 63, 4 * CHUNK},
        {UINT64_C(1) << 32, 4 * CHUNK},
    };

    (void)state;
    begin(MESSAGE, 8);
    for (unsigned i = 0; i < ARRAY_LEN(frames); i++)
        assert_true(is_dropped(frames[i].chunk, frames[i].n, EMX_DROP_MALFORMED));
    partner.rop ^= 0x10000;
    frame_make(0, 2 * CHUNK, 0);
    partner.rop ^= 0x10000;
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + 2 * CHUNK), EMX_DROP_STALE);
    frame.data.rop = partner.rop;
    frame.data.chunk_bytes = CHUNK / 2;
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + 2 * CHUNK), EMX_DROP_STALE);
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS)));
    end();
}

/* The buffer takes 10 chunks and a half. */
static void a_short_buffer_is_not_exceeded(void **state)
{
    (void)state;
    begin(10 * CHUNK + 512, 4);
    assert_int_equal(pulled()->chunks, 11);
    assert_true(is_dropped(8, 2 * CHUNK + 512, EMX_DROP_MALFORMED));
    assert_true(is_dropped(9, 3 * CHUNK, EMX_DROP_MALFORMED));
    assert_true(is_dropped(0, MESSAGE, EMX_DROP_MALFORMED));
    assert_true(takes(8, 3 * CHUNK, chunks_from(8, 3)));
    assert_true(takes(0, 11 * CHUNK, chunks_from(0, 8)));
    end();
}

/* The order of what arrives shows what is lost: chunks before the end of a request, and blocks before another. */
static void gaps_are_requested_again(void **state)
{
    (void)state;
    begin(MESSAGE, 8);
    assert_true(takes(0, 6 * CHUNK, chunks_from(0, 6)));
    assert_true(takes(6, 2 * CHUNK, chunks_from(6, 2)));
    assert_true(takes(8, 3 * CHUNK, chunks_from(8, 3)));
    assert_int_equal(stats.pulls_resent, 0);
    assert_true(takes(13, 3 * CHUNK, chunks_from(13, 3)));
    assert_int_equal(stats.pulls_resent, 1);
    assert_true(takes(24, 2 * CHUNK, chunks_from(24, 2))); /* and the block before */
    assert_int_equal(stats.pulls_resent, 2);
    end();
}

static void time_passes(emx_time ns)
{
    now += ns;
    emx_engine_expire(engine, now);
    pump();
}

/* A block that was requested again for a gap, and then comes by the first request, was out of order. From then on gaps
 * are given some time. */
static void data_out_of_order_is_awaited(void **state)
{
    emx_time wait_ns;

    (void)state;
    begin(MESSAGE, 4);
    now += 40000;
    assert_true(takes(0, CHUNK, chunks_from(0, 1)));
    assert_true(takes(8, CHUNK, chunks_from(8, 1)));
    assert_int_equal(stats.pulls_resent, 2); /* the first two blocks */
    assert_true(takes(1, 3 * CHUNK, chunks_from(1, 3)));
    assert_true(takes(4, 4 * CHUNK, chunks_from(4, 4)));
    assert_int_equal(stats.pulls_reordered, 2);
    wait_ns = emx_reo_window_ns(&peer->session->pulling.reo_window, 40000, EMX_NEVER);
    assert_int_equal(wait_ns, 20000);
    assert_true(takes(12, CHUNK, chunks_from(12, 1)));
    time_passes(wait_ns - 1);
    assert_true(takes(16, CHUNK, chunks_from(16, 1))); /* blocks wait together */
    assert_int_equal(stats.pulls_resent, 2);
    assert_true(takes(9, 3 * CHUNK, chunks_from(9, 3))); /* in time */
    time_passes(1);
    assert_int_equal(stats.pulls_resent, 3); /* the block from 12 */
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~have));
    end();
}

/* A request for a gap got its reply only after a time-out and another request: that reply is not the original data. */
static void a_late_reply_is_not_out_of_order(void **state)
{
    (void)state;
    begin(MESSAGE, 4);
    now += 40000;
    assert_true(takes(8, CHUNK, chunks_from(8, 1)));
    assert_int_equal(stats.pulls_resent, 2);
    time_passes(2 * peer->session->pulling.block_rtt.rto_ns);
    assert_int_equal(stats.pulls_resent, 3); /* the oldest block */
    frame_make(0, 4 * CHUNK, chunks_from(0, 4));
    frame.data.round = 1;
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + 4 * CHUNK), EMX_ACCEPTED);
    have |= chunks_from(0, 4);
    assert_int_equal(stats.pulls_reordered, 0);
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~have));
    end();
}

/* After a time-out one chunk is requested. If it comes, all that was requested before it is lost; if the blocks come,
 * the sender was only late. */
static void one_chunk_tells_what_is_lost(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 2; late++) {
        begin(MESSAGE, 10);
        assert_true(takes(0, 2 * CHUNK, chunks_from(0, 2)));
        time_passes(2 * peer->session->pulling.block_rtt.rto_ns);
        assert_int_equal(stats.pulls_resent, 1);
        assert_int_equal(partner.pull.first, 0);
        assert_int_equal(partner.pull.wanted, chunks_from(9, 1));
        assert_int_equal(partner.pull.round, 1);
        if (late)
            assert_true(takes(2, 8 * CHUNK, chunks_from(2, 8)));
        frame_make(9, CHUNK, chunks_from(9, 1));
        frame.data.round = 1;
        assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + CHUNK),
                         late ? EMX_DROP_DUPLICATE : EMX_ACCEPTED);
        have |= chunks_from(9, 1);
        pump();
        assert_true(all_is_right());
        assert_int_equal(stats.pulls_resent, late ? 1 : 1 + CHUNKS / 10);
        assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~have));
        end();
    }
}

/* Takes all buffers for short frames. Returns how many. */
static unsigned exhaust(struct emx_txbuf *b[], unsigned most)
{
    unsigned n = 0;

    memory.fail_at = 1;
    while (n < most && (b[n] = emx_txbuf_get(&engine->txbufs, sizeof(struct emx_frame))))
        n++;
    return n;
}

/* Without memory for the fin, the last piece is not taken. It comes again. */
static void the_end_needs_memory(void **state)
{
    static struct emx_txbuf *b[4096];
    unsigned n;

    (void)state;
    begin(MESSAGE, 8);
    assert_true(takes(8, 2 * CHUNK, chunks_from(8, 2)));
    n = exhaust(b, ARRAY_LEN(b));
    assert_in_range(n, 1, ARRAY_LEN(b) - 1);
    frame_make(0, MESSAGE, UINT64_MAX);
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + MESSAGE), EMX_ACCEPTED);
    have = chunks_from(0, 32);
    assert_true(all_is_right());
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + MESSAGE), EMX_DROP_MEMORY);
    assert_true(all_is_right());
    memory.fail_at = 0;
    while (n)
        emx_txbuf_put(&engine->txbufs, b[--n]);
    assert_true(takes(0, MESSAGE, chunks_from(32, 8)));
    end();
}

/* ---- Data that a wire has put into its place ---- */

static enum emx_drop say_placed(uint64_t chunk, size_t n, uint8_t *at)
{
    enum emx_drop drop;

    frame_make(chunk, n, UINT64_MAX);
    memcpy(at, frame.body, n);
    seal(&frame.head, EMX_F_data, sizeof(frame.data) + n);
    drop = emx_engine_input_placed(engine, 0, (const uint8_t *)&frame, at,
                                   (uint32_t)(sizeof(frame.head) + sizeof(frame.data) + n), now);
    pump();
    return drop;
}

static void data_in_its_place_is_taken(void **state)
{
    uint8_t elsewhere[4 * CHUNK];

    (void)state;
    begin(MESSAGE, 8);
    assert_int_equal(say_placed(6, 4 * CHUNK, elsewhere), EMX_DROP_STALE);
    assert_true(all_is_right());
    assert_int_equal(say_placed(6, 4 * CHUNK, message + 6 * CHUNK), EMX_ACCEPTED);
    have |= chunks_from(6, 4);
    assert_true(all_is_right());
    assert_int_equal(say_placed(36, 3 * CHUNK + LAST, message + 36 * CHUNK), EMX_ACCEPTED);
    have |= chunks_from(36, 4);
    assert_true(all_is_right());
    assert_int_equal(stats.bytes_copied, 0);
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~have));
    end();
}

/* ---- Any frames ---- */

static bool message_of_seed_arrives(uint64_t seed)
{
    const uint64_t all = chunks_from(0, CHUNKS);
    struct emx_rng rng = {.state = seed};

    begin(MESSAGE, 3 + (unsigned)emx_rng_below(&rng, 62));
    while (have != all) {
        const unsigned first = (unsigned)emx_rng_below(&rng, CHUNKS);
        const unsigned n = 1 + (unsigned)emx_rng_below(&rng, emx_rng_below(&rng, 2) ? CHUNKS - first : 1);
        const uint64_t mask = chunks_from(first, n);

        CHECK(takes(first, bytes_of(mask), mask & ~have));
    }
    end();
    return true;
}

static void any_frames_make_the_message(void **state)
{
    (void)state;
    each_seed(200, message_of_seed_arrives);
}

/* ---- Pushed chunks ---- */

static void pushed_chunks_count_as_requested(void **state)
{
    (void)state;
    begin_pushed(MESSAGE, 8, 10);
    assert_int_equal(partner.pull.first, 10); /* the rest is requested at once */
    assert_int_equal(pulled()->next_chunk, CHUNKS);
    partner.pushes = true;
    assert_true(takes(0, 4 * CHUNK, chunks_from(0, 4)));
    assert_true(takes(2, 8 * CHUNK, chunks_from(4, 6)));
    assert_true(takes(2, 8 * CHUNK, 0));
    assert_int_equal(peer->session->pulling.block_rtt.least_ns, 0); /* nothing was measured */
    partner.pushes = false;
    assert_true(takes(10, MESSAGE - 10 * CHUNK, chunks_from(10, CHUNKS - 10)));
    partner.pushes = true;
    assert_true(is_dropped(0, CHUNK, EMX_DROP_STALE));
    end();
}

/* They are not waited for, and nothing counts as lost. */
static void pushed_chunks_overtake_the_announcement(void **state)
{
    (void)state;
    begin_to_wait(MESSAGE, 8);
    partner.pushes = true;
    frame_make(0, 8 * CHUNK, chunks_from(0, 8));
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + 8 * CHUNK), EMX_DROP_STALE);
    assert_int_equal(announce(8, 0), EMX_ACCEPTED);
    pump();
    assert_int_equal(partner.pull.first, 0);
    partner.pushes = false;
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS)));
    assert_int_equal(stats.pulls_resent, 0);
    end();
}

static void a_message_is_pushed_as_a_whole(void **state)
{
    (void)state;
    begin_pushed(MESSAGE, 8, CHUNKS);
    assert_int_equal(stats.pulls_sent, 0);
    partner.pushes = true;
    frame_make(0, MESSAGE, chunks_from(0, CHUNKS));
    assert_int_equal(say(&frame.head, EMX_F_data, sizeof(frame.data) + MESSAGE), EMX_ACCEPTED);
    have = chunks_from(0, CHUNKS);
    pump();
    assert_true(all_is_right());
    end();
}

/* Data that was requested later overtakes them. Late ones are still taken, the others requested. */
static void lost_pushed_chunks_are_requested(void **state)
{
    (void)state;
    begin_pushed(MESSAGE, 8, 10);
    assert_true(takes(10, 8 * CHUNK, chunks_from(10, 8)));
    assert_int_equal(stats.pulls_resent, 1);
    assert_int_equal(partner.pull.first, 0);
    assert_int_equal(partner.pull.wanted, chunks_from(0, 10));
    assert_int_equal(partner.pull.round, 1);
    partner.pushes = true;
    assert_true(takes(0, 2 * CHUNK, chunks_from(0, 2)));
    partner.pushes = false;
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS) & ~have));
    end();
}

/* Nothing of the message arrives. */
static void a_timer_waits_for_pushed_chunks(void **state)
{
    (void)state;
    begin_pushed(MESSAGE, 8, CHUNKS);
    time_passes(1000000000);
    assert_int_equal(stats.pulls_resent, 1);
    assert_int_equal(partner.pull.wanted, chunks_from(CHUNKS - 1, 1)); /* it tells what of the others is lost */
    assert_true(takes(0, MESSAGE, chunks_from(0, CHUNKS)));
    end();
}

static void pushed_chunks_need_a_receive_for_all(void **state)
{
    (void)state;
    begin_pushed(MESSAGE - 1, 8, 10);
    assert_int_equal(stats.pulls_sent, 1);
    assert_int_equal(pulled()->block[0].first, 0);
    partner.pushes = true;
    assert_true(is_dropped(0, CHUNK, EMX_DROP_STALE));
    end();
}

static void wrong_announcements_are_dropped(void **state)
{
    (void)state;
    begin_to_wait(MESSAGE, 8);
    assert_int_equal(announce(CHUNKS + 1, 0), EMX_DROP_MALFORMED);
    partner.tx_next--;
    assert_int_equal(announce(10, EMX_FF_AM), EMX_DROP_MALFORMED);
    end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_taken),
        cmocka_unit_test(a_message_comes_in_one_frame),
        cmocka_unit_test(many_blocks_are_requested_at_once),
        cmocka_unit_test(a_gap_behind_many_blocks_is_found_later),
        cmocka_unit_test(what_was_not_requested_is_not_taken),
        cmocka_unit_test(wrong_frames_are_dropped),
        cmocka_unit_test(a_short_buffer_is_not_exceeded),
        cmocka_unit_test(gaps_are_requested_again),
        cmocka_unit_test(data_out_of_order_is_awaited),
        cmocka_unit_test(a_late_reply_is_not_out_of_order),
        cmocka_unit_test(one_chunk_tells_what_is_lost),
        cmocka_unit_test(the_end_needs_memory),
        cmocka_unit_test(data_in_its_place_is_taken),
        cmocka_unit_test(any_frames_make_the_message),
        cmocka_unit_test(pushed_chunks_count_as_requested),
        cmocka_unit_test(pushed_chunks_overtake_the_announcement),
        cmocka_unit_test(a_message_is_pushed_as_a_whole),
        cmocka_unit_test(lost_pushed_chunks_are_requested),
        cmocka_unit_test(a_timer_waits_for_pushed_chunks),
        cmocka_unit_test(pushed_chunks_need_a_receive_for_all),
        cmocka_unit_test(wrong_announcements_are_dropped),
    };

    return cmocka_run_group_tests_name("pull", tests, NULL, NULL);
}
