/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Packets whose data is received into its place: right guesses, wrong ones, and packets of other lengths than guessed.
 * Whatever was guessed, the frames that come out are those that went in.
 */
#include "unit.h"

#include <string.h>

#include "base/hash.h"
#include "wire/gso_rx.h"

#define HEAD  48
#define DATA  200
#define FRAME (HEAD + DATA)
#define MOST  10

/* What a placer does: which frames it plans for, and how many it then finds right. */
static struct {
    bool expects;
    unsigned planned, last_bytes, right;
    bool moves; /* the first frame's data, to `elsewhere` */
} script;

static uint8_t memory[MOST][DATA], elsewhere[DATA];
static struct emx_stats stats;

static bool expects(const void *arg)
{
    (void)arg;
    return script.expects;
}

static void plan(void *arg, const uint8_t *head, size_t head_bytes, size_t len_bytes, struct emx_placement *p)
{
    (void)arg, (void)head, (void)head_bytes, (void)len_bytes;
    p->head_bytes = HEAD;
    p->count = script.planned;
    for (unsigned i = 0; i < p->count; i++)
        p->place[i] = (struct emx_place){memory[i], i + 1 < p->count ? DATA : script.last_bytes};
}

static unsigned settle(void *arg, struct emx_placement *p, const uint8_t *head, size_t stride, unsigned n)
{
    (void)arg, (void)head, (void)stride;
    if (script.moves) {
        memcpy(elsewhere, p->place[0].at, DATA);
        p->place[0].at = elsewhere;
    }
    return n < script.right ? n : script.right;
}

static const struct emx_placer placer = {.arg = &script, .expects = expects, .plan = plan, .settle = settle};

/* Frames with bytes of their own. */
static uint8_t packet[MOST * FRAME];

static void fill_packet(void)
{
    struct emx_rng rng = {.state = 1};

    for (unsigned i = 0; i < sizeof(packet); i++)
        packet[i] = (uint8_t)emx_rng_below(&rng, 256);
}

static void scatter(const struct emx_gso_rx *r, unsigned places, const uint8_t *bytes, size_t len_bytes)
{
    size_t done = 0;

    for (const struct iovec *iov = r->iov + 1; places && done < len_bytes; places--, iov++) {
        size_t n = iov->iov_len < len_bytes - done ? iov->iov_len : len_bytes - done;

        memcpy(iov->iov_base, bytes + done, n);
        done += n;
    }
    assert_int_equal(done, len_bytes);
}

/* Takes all frames, `step` at a time, of a packet of len_bytes in parts of part_bytes. Returns how many came with their
 * data in its place. */
static unsigned take(struct emx_gso_rx *r, size_t len_bytes, size_t part_bytes, unsigned step)
{
    struct emx_rxframe f[EMX_WIRE_BATCH];
    unsigned placed = 0, n;
    size_t at = 0;

    while ((n = emx_gso_rx_next(r, f, step, 7)))
        for (unsigned i = 0; i < n; i++) {
            size_t want = len_bytes - at < part_bytes ? len_bytes - at : part_bytes;

            assert_int_equal(f[i].len_bytes, want);
            assert_int_equal(f[i].cookie, 7);
            assert_true(f[i].marked);
            assert_int_equal(f[i].parts != 0, at == 0 && len_bytes > part_bytes);
            assert_memory_equal(f[i].data, packet + at, f[i].body ? HEAD : want);
            if (f[i].body) {
                assert_ptr_equal(f[i].body, memory[placed++]);
                assert_memory_equal(f[i].body, packet + at + HEAD, want - HEAD);
            }
            at += want;
        }
    assert_int_equal(at, len_bytes);
    assert_false(emx_gso_rx_is_open(r));
    return placed;
}

/* Receives a packet of frames that have their heads with them. */
static unsigned receive(struct emx_gso_rx *r, size_t len_bytes, size_t part_bytes, unsigned step)
{
    const struct emx_gso_seen seen = {.frame = packet, .head_bytes = HEAD, .len_bytes = len_bytes};
    unsigned places;

    memset(memory, 0, sizeof(memory));
    places = emx_gso_rx_prepare(r, &seen);
    scatter(r, places, packet, len_bytes);
    emx_gso_rx_done(r, len_bytes, part_bytes, true);
    return take(r, len_bytes, part_bytes, step);
}

/* Where the data of a packet goes of which seen_bytes are expected: into the place, if there is one, and the rest into
 * the buffer, where a head has room before it. Returns how many pieces these are. */
static unsigned prepare_data(struct emx_gso_rx *r, size_t seen_bytes)
{
    unsigned n = emx_gso_rx_prepare_data(r, packet, HEAD, seen_bytes);
    size_t placed_bytes = n == 2 ? r->iov[1].iov_len : 0;

    assert_in_range(n, 1, 2);
    if (n == 2)
        assert_ptr_equal(r->iov[1].iov_base, memory);
    assert_ptr_equal(r->iov[n].iov_base, r->buffer + HEAD + placed_bytes);
    assert_int_equal(r->iov[n].iov_len, EMX_GSO_RX_BYTES - HEAD - placed_bytes);
    return n;
}

/* Receives a packet of one frame whose data_bytes come apart from its head, while seen_bytes were expected. */
static unsigned receive_data(struct emx_gso_rx *r, size_t seen_bytes, size_t data_bytes)
{
    unsigned places;

    memset(memory, 0, sizeof(memory));
    memset(r->buffer, 0, EMX_GSO_RX_BYTES);
    memset(r->head, 0, EMX_WIRE_BATCH * sizeof(*r->head));
    places = prepare_data(r, seen_bytes);
    scatter(r, places, packet + HEAD, data_bytes);
    memcpy(emx_gso_rx_head(r), packet, HEAD);
    emx_gso_rx_done(r, HEAD + data_bytes, 0, true);
    return take(r, HEAD + data_bytes, HEAD + data_bytes, EMX_WIRE_BATCH);
}

static void every_guess_gives_the_frames(void **state)
{
    static const size_t parts[] = {FRAME, FRAME - 4, FRAME + 4, 100, MOST * FRAME};
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.expects = true;
    for (unsigned frames = 1; frames <= MOST; frames++)
        for (script.planned = 0; script.planned <= MOST; script.planned++)
            for (script.right = 0; script.right <= script.planned; script.right++)
                for (unsigned cut = 0; cut < 3; cut++)
                    for (unsigned p = 0; p < sizeof(parts) / sizeof(parts[0]); p++) {
                        script.last_bytes = cut == 1 ? DATA - 8 : DATA;
                        receive(&r, frames * FRAME - 8 * (cut > 0), parts[p], 1 + frames % 4);
                    }
    emx_gso_rx_fini(&r);
}

static void right_guesses_copy_nothing(void **state)
{
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    stats = (struct emx_stats){0};
    script.expects = true;
    script.planned = script.right = 5;
    script.last_bytes = DATA - 8;
    assert_int_equal(receive(&r, 5 * FRAME - 8, FRAME, EMX_WIRE_BATCH), 5);
    assert_false(r.missed);
    assert_int_equal(stats.bytes_copied, 0);
    script.right = 2;
    assert_int_equal(receive(&r, 5 * FRAME - 8, FRAME, EMX_WIRE_BATCH), 2);
    assert_int_equal(stats.bytes_copied, 3 * DATA - 8);
    script.right = 0;
    assert_int_equal(receive(&r, 5 * FRAME - 8, FRAME, EMX_WIRE_BATCH), 0);
    assert_true(r.missed);
    emx_gso_rx_fini(&r);
}

/* A packet whose first data had to be moved is another one than was thought. */
static void moved_packets_are_told(void **state)
{
    const struct emx_gso_seen seen = {.frame = packet, .head_bytes = HEAD, .len_bytes = 3 * FRAME};
    struct emx_rxframe f[EMX_WIRE_BATCH];
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.expects = script.moves = true;
    script.planned = script.right = 3;
    script.last_bytes = DATA;
    scatter(&r, emx_gso_rx_prepare(&r, &seen), packet, 3 * FRAME);
    emx_gso_rx_done(&r, 3 * FRAME, FRAME, false);
    assert_true(r.missed);
    assert_int_equal(emx_gso_rx_next(&r, f, EMX_WIRE_BATCH, 0), 3);
    assert_ptr_equal(f[0].body, elsewhere);
    assert_memory_equal(elsewhere, packet + HEAD, DATA);
    script.moves = false;
    emx_gso_rx_fini(&r);
}

/* Where nothing is expected, and after a place that could not be written, there are no guesses. */
static void no_guess_without_reason(void **state)
{
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.planned = script.right = 3;
    script.last_bytes = DATA;
    script.expects = false;
    assert_int_equal(receive(&r, 3 * FRAME, FRAME, EMX_WIRE_BATCH), 0);
    script.expects = true;
    assert_int_equal(receive(&r, 3 * FRAME, FRAME, EMX_WIRE_BATCH), 3);
    emx_gso_rx_failed(&r, false);
    assert_int_equal(receive(&r, 3 * FRAME, FRAME, EMX_WIRE_BATCH), 3);
    emx_gso_rx_failed(&r, true);
    assert_false(emx_gso_rx_places(&r));
    assert_int_equal(receive(&r, 3 * FRAME, FRAME, EMX_WIRE_BATCH), 0);
    emx_gso_rx_fini(&r);
}

/* ---- Packets whose head is received apart ---- */

/* Right or not, with a place for all that was seen, some of it, or nothing; packets as long as the seen one, shorter
 * and longer. Frames that would follow have no place. */
static void every_guess_gives_the_data(void **state)
{
    static const size_t most = MOST * DATA;
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.expects = true;
    for (size_t seen = 1; seen <= most; seen += 1 + seen / 9)
        for (size_t n = 1; n <= most; n += 1 + n / 7)
            for (script.planned = 0; script.planned <= 2; script.planned++)
                for (script.right = 0; script.right <= script.planned; script.right++) {
                    const size_t place = script.planned == 2 ? DATA : seen;
                    const bool fits = script.right && n == place;

                    script.last_bytes = (unsigned)seen;
                    assert_int_equal(receive_data(&r, seen, n), fits);
                    assert_int_equal(r.missed, script.planned && !fits);
                    assert_int_equal(receive_data(&r, seen, seen), script.right && seen == place);
                }
    emx_gso_rx_fini(&r);
}

static void only_wrong_guesses_copy_data(void **state)
{
    static const struct {
        unsigned place, data, right, copied;
    } cases[] = {
        {5 * DATA - 8, 5 * DATA - 8, 1, 0},        {1, 1, 1, 0},
        {5 * DATA, 5 * DATA, 0, 5 * DATA},         /* of another message */
        {5 * DATA, 3 * DATA + 1, 1, 3 * DATA + 1}, /* shorter */
        {3 * DATA, 5 * DATA, 1, 3 * DATA},         /* longer: the rest is in the buffer */
    };
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.expects = true;
    script.planned = 1;
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        stats = (struct emx_stats){0};
        script.right = cases[i].right;
        script.last_bytes = cases[i].place;
        assert_int_equal(receive_data(&r, cases[i].place, cases[i].data), cases[i].copied == 0);
        assert_int_equal(stats.bytes_copied, cases[i].copied);
    }
    emx_gso_rx_fini(&r);
}

static void moved_data_is_told(void **state)
{
    struct emx_rxframe f;
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.expects = script.moves = true;
    script.planned = script.right = 1;
    script.last_bytes = DATA;
    scatter(&r, prepare_data(&r, DATA), packet + HEAD, DATA);
    memcpy(emx_gso_rx_head(&r), packet, HEAD);
    emx_gso_rx_done(&r, FRAME, 0, false);
    script.moves = false;
    assert_true(r.missed);
    assert_int_equal(emx_gso_rx_next(&r, &f, 1, 0), 1);
    assert_int_equal(f.len_bytes, FRAME);
    assert_memory_equal(f.data, packet, HEAD);
    assert_ptr_equal(f.body, elsewhere);
    assert_memory_equal(elsewhere, packet + HEAD, DATA);
    emx_gso_rx_fini(&r);
}

/* Without a placer, where nothing is expected, and after a place could not be written, the frame lies in the buffer. */
static void data_without_a_place(void **state)
{
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, NULL, &stats));
    for (unsigned n = 1; n <= MOST * DATA; n += 97)
        assert_int_equal(receive_data(&r, n, n), 0);
    assert_ptr_equal(emx_gso_rx_head(&r), r.buffer);
    emx_gso_rx_fini(&r);
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    script.planned = script.right = 1;
    script.last_bytes = 3 * DATA;
    script.expects = false;
    assert_int_equal(receive_data(&r, 3 * DATA, 3 * DATA), 0);
    script.expects = true;
    assert_int_equal(receive_data(&r, 3 * DATA, 3 * DATA), 1);
    emx_gso_rx_failed(&r, true);
    assert_int_equal(receive_data(&r, 3 * DATA, 3 * DATA), 0);
    emx_gso_rx_fini(&r);
}

static void lost_data_is_not_taken(void **state)
{
    struct emx_rxframe f;
    struct emx_gso_rx r;

    (void)state;
    assert_true(emx_gso_rx_init(&r, &placer, &stats));
    stats = (struct emx_stats){0};
    script.expects = true;
    script.planned = script.right = 1;
    script.last_bytes = DATA;
    assert_int_equal(prepare_data(&r, DATA), 2);
    emx_gso_rx_lost(&r);
    assert_int_equal(emx_gso_rx_next(&r, &f, 1, 0), 0);
    assert_true(r.missed);
    assert_int_equal(stats.wire_lost, 1);
    emx_gso_rx_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_guess_gives_the_frames), cmocka_unit_test(right_guesses_copy_nothing),
        cmocka_unit_test(moved_packets_are_told),       cmocka_unit_test(no_guess_without_reason),
        cmocka_unit_test(every_guess_gives_the_data),   cmocka_unit_test(only_wrong_guesses_copy_data),
        cmocka_unit_test(moved_data_is_told),           cmocka_unit_test(data_without_a_place),
        cmocka_unit_test(lost_data_is_not_taken),
    };

    fill_packet();
    return cmocka_run_group_tests_name("GSO packet receive", tests, NULL, NULL);
}
