/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Rings: against a model, at their limits, between threads, and with a writer that has lost its mind.
 */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "wire/shm/shm_ring.h"

struct fixture {
    struct emx_shm_memory *m;
    struct emx_shm_tx tx;
    struct emx_shm_rx rx;
};

static void make(struct fixture *x)
{
    x->m = mmap(NULL, sizeof(*x->m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(x->m != MAP_FAILED);
    emx_shm_tx_init(&x->tx, x->m, false);
    emx_shm_rx_init(&x->rx, x->m);
}

static void clear(struct fixture *x)
{
    munmap(x->m, sizeof(*x->m));
}

static uint8_t byte_at(uint32_t number, unsigned i)
{
    return (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

/* Frame `number`, in a head and a body. */
static bool put(struct emx_shm_tx *t, uint32_t number, unsigned len_bytes)
{
    uint8_t buf[EMX_SHM_FRAME_BYTES];
    unsigned head = 1 + number % 64;
    struct emx_txframe f = {.head = buf, .body = buf + (head < len_bytes ? head : len_bytes)};
    bool taken;

    f.head_bytes = (uint16_t)(head < len_bytes ? head : len_bytes);
    f.body_bytes = (uint16_t)(len_bytes - f.head_bytes);
    for (unsigned i = 0; i < len_bytes; i++)
        buf[i] = byte_at(number, i);
    taken = emx_shm_tx_put(t, &f);
    memset(buf, 0, len_bytes);
    return taken;
}

static bool is_frame(const struct emx_rxframe *f, uint32_t number, unsigned len_bytes)
{
    CHECK(f->len_bytes == len_bytes);
    for (unsigned i = 0; i < len_bytes; i++)
        CHECK(f->data[i] == byte_at(number, i));
    return true;
}

static unsigned any_length(struct emx_rng *r)
{
    switch (emx_rng_below(r, 4)) {
    case 0:
        return 1 + (unsigned)emx_rng_below(r, EMX_SHM_INLINE_BYTES);
    case 1:
        return EMX_SHM_INLINE_BYTES - 2 + (unsigned)emx_rng_below(r, 5);
    case 2:
        return 1 + (unsigned)emx_rng_below(r, EMX_SHM_FRAME_BYTES);
    default:
        return EMX_SHM_FRAME_BYTES - (unsigned)emx_rng_below(r, 70);
    }
}

/* Frames in and out by chance; those in use stay as they are until they are returned. */
static bool random_traffic(uint64_t seed)
{
    struct emx_rng r = {seed};
    struct fixture x;
    unsigned len[EMX_SHM_SLOTS] = {0};
    uint32_t written = 0, read = 0;

    make(&x);
    while (read < 2000) {
        struct emx_rxframe f[EMX_SHM_SLOTS];
        unsigned want = 1 + (unsigned)emx_rng_below(&r, EMX_SHM_SLOTS), puts = (unsigned)emx_rng_below(&r, 80);
        int n;

        while (puts--) {
            unsigned l = any_length(&r);

            if (!put(&x.tx, written, l))
                break;
            len[written++ % EMX_SHM_SLOTS] = l;
        }
        CHECK(written - read <= EMX_SHM_SLOTS);
        CHECK(emx_shm_rx_ready(&x.rx) == (written != read));
        n = emx_shm_rx_take(&x.rx, f, want);
        CHECK(n == (int)(written - read < want ? written - read : want));
        while (put(&x.tx, written, 3000)) /* fills up around what is in use */
            len[written++ % EMX_SHM_SLOTS] = 3000;
        for (int i = 0; i < n; i++, read++)
            CHECK(is_frame(&f[i], read, len[read % EMX_SHM_SLOTS]));
        CHECK(!emx_shm_rx_settle(&x.rx)); /* nobody waits */
        /* Read empty, there is room for the longest frame: a writer never waits for a reader that has nothing to do. */
        if (read == written)
            CHECK(put(&x.tx, written, len[written % EMX_SHM_SLOTS] = EMX_SHM_FRAME_BYTES) && ++written);
    }
    clear(&x);
    return true;
}

static void frames_come_as_they_went(void **state)
{
    (void)state;
    each_seed(200, random_traffic);
}

/* One by one, peeked at; some are left to take(). */
static bool peeked_traffic(uint64_t seed)
{
    struct emx_rng r = {seed};
    struct fixture x;
    unsigned len[EMX_SHM_SLOTS] = {0};
    uint32_t written = 0, read = 0;

    make(&x);
    while (read < 2000) {
        struct emx_rxframe f;

        for (unsigned puts = (unsigned)emx_rng_below(&r, 80), l; puts && put(&x.tx, written, l = any_length(&r));
             puts--)
            len[written++ % EMX_SHM_SLOTS] = l;
        for (unsigned takes = (unsigned)emx_rng_below(&r, 80); takes && emx_shm_rx_ready(&x.rx); takes--, read++) {
            f.data = emx_shm_rx_peek(&x.rx, &f.len_bytes);
            CHECK(is_frame(&f, read, len[read % EMX_SHM_SLOTS]));
            if (emx_rng_below(&r, 4))
                emx_shm_rx_pass(&x.rx, f.len_bytes);
            else
                CHECK(emx_shm_rx_take(&x.rx, &f, 1) == 1 && is_frame(&f, read, len[read % EMX_SHM_SLOTS]));
            CHECK(!emx_shm_rx_settle(&x.rx));
        }
        if (read == written)
            CHECK(put(&x.tx, written, len[written % EMX_SHM_SLOTS] = EMX_SHM_FRAME_BYTES) && ++written);
    }
    clear(&x);
    return true;
}

static void peeked_frames_come_as_they_went(void **state)
{
    (void)state;
    each_seed(200, peeked_traffic);
}

/* Frames of a reader that keeps up lie in the first part of the area, whatever their lengths; of one that does not, in
 * all of it. */
static void calm_traffic_stays_in_few_pages(void **state)
{
    static struct emx_rxframe f[EMX_SHM_SLOTS];
    struct emx_rng r = {1};
    struct fixture x;
    const uint8_t *calm_end;
    unsigned n = 0, beyond = 0;

    (void)state;
    make(&x);
    calm_end = x.m->area + EMX_SHM_DEDICATED_BYTES + EMX_SHM_FRAME_BYTES;
    for (uint32_t i = 0; i < 10000; i++) {
        assert_true(put(&x.tx, i, any_length(&r)));
        assert_int_equal(emx_shm_rx_take(&x.rx, f, 1), 1);
        assert_true(f[0].data < calm_end);
        assert_false(emx_shm_rx_settle(&x.rx));
    }
    while (put(&x.tx, n, EMX_SHM_FRAME_BYTES))
        n++;
    assert_true(n >= EMX_SHM_AREA_BYTES / (EMX_SHM_FRAME_BYTES + EMX_SHM_LINE) - 2); /* all but two gaps */
    assert_int_equal(emx_shm_rx_take(&x.rx, f, EMX_SHM_SLOTS), n);
    for (unsigned i = 0; i < n; i++)
        beyond += f[i].data >= calm_end;
    assert_true(beyond > n / 2);
    clear(&x);
}

static void slots_fill_up(void **state)
{
    struct emx_rxframe f[EMX_SHM_SLOTS];
    struct fixture x;

    (void)state;
    make(&x);
    for (uint32_t lap = 0; lap < 5; lap++) {
        for (uint32_t i = 0; i < EMX_SHM_SLOTS; i++)
            assert_true(put(&x.tx, i, 40));
        assert_false(put(&x.tx, 0, 40));
        assert_int_equal(emx_shm_rx_take(&x.rx, f, EMX_SHM_SLOTS), EMX_SHM_SLOTS);
        assert_false(put(&x.tx, 0, 40)); /* in use */
        assert_false(emx_shm_rx_ready(&x.rx));
        assert_false(emx_shm_rx_settle(&x.rx));
    }
    clear(&x);
}

/* ---- Waking ---- */

static void sleeping_reader_is_woken_once(void **state)
{
    struct fixture x;

    (void)state;
    make(&x);
    assert_true(put(&x.tx, 0, 8));
    assert_false(emx_shm_tx_must_wake(&x.tx));
    emx_shm_rx_state(&x.rx, EMX_SHM_ASLEEP);
    assert_true(emx_shm_rx_ready(&x.rx));
    assert_true(put(&x.tx, 1, 8));
    assert_true(emx_shm_tx_must_wake(&x.tx));
    assert_true(put(&x.tx, 2, 8));
    assert_false(emx_shm_tx_must_wake(&x.tx));
    emx_shm_rx_state(&x.rx, EMX_SHM_AWAKE);
    assert_false(emx_shm_tx_must_wake(&x.tx));
    emx_shm_rx_state(&x.rx, EMX_SHM_ASLEEP);
    assert_true(emx_shm_tx_must_wake(&x.tx));
    clear(&x);
}

static void waiting_writer_is_woken_once(void **state)
{
    struct emx_rxframe f[EMX_SHM_SLOTS];
    struct fixture x;
    uint32_t n = 0;

    (void)state;
    make(&x);
    while (put(&x.tx, n, 100))
        n++;
    emx_shm_tx_wait(&x.tx);
    assert_false(put(&x.tx, n, 100));
    assert_int_equal(emx_shm_rx_take(&x.rx, f, 1), 1);
    assert_false(emx_shm_rx_settle(&x.rx)); /* too little to tell */
    assert_int_equal(emx_shm_rx_take(&x.rx, f, EMX_SHM_SLOTS), EMX_SHM_SLOTS - 1);
    assert_true(emx_shm_rx_settle(&x.rx));
    assert_true(put(&x.tx, n, 100));
    assert_true(emx_shm_rx_take(&x.rx, f, EMX_SHM_SLOTS) == 1);
    assert_false(emx_shm_rx_settle(&x.rx));
    clear(&x);
}

/* ---- Two threads ---- */

#define STRESS 60000u

/* A stand-in for the socket that wakes: a number of pokes under a lock. */
struct door {
    pthread_mutex_t mutex;
    pthread_cond_t poked;
    unsigned pokes;
};

struct stress {
    struct fixture x;
    struct door to_reader, to_writer;
    unsigned sleeps; /* of the reader */
    bool bad;
};

static void poke(struct door *d)
{
    pthread_mutex_lock(&d->mutex);
    d->pokes++;
    pthread_cond_signal(&d->poked);
    pthread_mutex_unlock(&d->mutex);
}

static void sleep_at(struct door *d)
{
    pthread_mutex_lock(&d->mutex);
    while (!d->pokes)
        pthread_cond_wait(&d->poked, &d->mutex);
    d->pokes = 0;
    pthread_mutex_unlock(&d->mutex);
}

static unsigned stress_length(uint32_t number)
{
    return 4 + (unsigned)(emx_mix64(number) % (number % 7 ? 150 : EMX_SHM_FRAME_BYTES - 4));
}

/* Sleeps whenever there is no room. */
static void *write_all(void *arg)
{
    struct stress *s = arg;

    for (uint32_t i = 0; i < STRESS; i++) {
        while (!put(&s->x.tx, i, stress_length(i))) {
            emx_shm_tx_wait(&s->x.tx);
            if (put(&s->x.tx, i, stress_length(i)))
                break;
            sleep_at(&s->to_writer);
        }
        if (emx_shm_tx_must_wake(&s->x.tx))
            poke(&s->to_reader);
        if (emx_mix64(i) % 512 == 0)
            sched_yield(); /* lets the reader run dry */
    }
    return NULL;
}

/* Sleeps whenever there is nothing. */
static void read_all(struct stress *s)
{
    for (uint32_t i = 0; i < STRESS && !s->bad;) {
        struct emx_rxframe f[8];
        int n = emx_shm_rx_take(&s->x.rx, f, ARRAY_LEN(f));

        for (int j = 0; j < n; j++, i++)
            s->bad |= !is_frame(&f[j], i, stress_length(i));
        if (emx_shm_rx_settle(&s->x.rx))
            poke(&s->to_writer);
        if (n)
            continue;
        emx_shm_rx_state(&s->x.rx, EMX_SHM_ASLEEP);
        if (!emx_shm_rx_ready(&s->x.rx)) {
            s->sleeps++;
            sleep_at(&s->to_reader);
        }
        emx_shm_rx_state(&s->x.rx, EMX_SHM_DOZY);
    }
}

/* A lost wake-up hangs here, a lost or torn frame fails. */
static void threads_sleep_and_wake(void **state)
{
    struct stress s = {.to_reader = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0},
                       .to_writer = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0}};
    pthread_t writer;

    (void)state;
    make(&s.x);
    assert_int_equal(pthread_create(&writer, NULL, write_all, &s), 0);
    read_all(&s);
    assert_false(s.bad);
    assert_int_equal(pthread_join(writer, NULL), 0);
    assert_true(s.sleeps > 0);
    clear(&s.x);
}

/* ---- Nonsense ---- */

/* Whatever the words say, frames in use are in the shared memory. */
static bool nonsense(uint64_t seed)
{
    struct emx_rng r = {seed};
    struct emx_rxframe f[EMX_SHM_SLOTS];
    struct fixture x;
    const uint8_t *first, *end;
    int n;

    make(&x);
    first = (const uint8_t *)x.m;
    end = (const uint8_t *)(x.m + 1);
    for (unsigned i = 0; i < EMX_SHM_SLOTS; i++)
        x.m->slot[i].word = (uint32_t)emx_rng_next(&r) >> (emx_rng_below(&r, 2) * 16);
    do {
        uint32_t len_bytes;
        const uint8_t *data = emx_shm_rx_peek(&x.rx, &len_bytes);

        CHECK(len_bytes <= EMX_SHM_FRAME_BYTES && data >= first && data + len_bytes <= end);
        n = emx_shm_rx_take(&x.rx, f, 1 + (unsigned)emx_rng_below(&r, EMX_SHM_SLOTS));
        for (int i = 0; i < n; i++)
            CHECK(f[i].len_bytes && f[i].len_bytes <= EMX_SHM_FRAME_BYTES && f[i].data >= first &&
                  f[i].data + f[i].len_bytes <= end);
        emx_shm_rx_settle(&x.rx);
    } while (n > 0);
    clear(&x);
    return true;
}

static void nonsense_stays_inside(void **state)
{
    (void)state;
    each_seed(5000, nonsense);
}

/* A reader that says anything does not make the writer write where frames are. */
static void reader_without_sense_is_not_believed(void **state)
{
    struct fixture x;
    uint32_t n = 0;

    (void)state;
    make(&x);
    while (put(&x.tx, n, 1000))
        n++;
    x.m->taken = n + 1;
    assert_false(put(&x.tx, n, 1000));
    x.m->taken = UINT32_MAX;
    assert_false(put(&x.tx, n, 1000));
    x.m->taken = 2;
    assert_true(put(&x.tx, n, 1000));
    x.m->taken = 1; /* backwards */
    while (put(&x.tx, ++n, 1000))
        assert_true(n < 2 * EMX_SHM_SLOTS);
    clear(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_come_as_they_went),
        cmocka_unit_test(peeked_frames_come_as_they_went),
        cmocka_unit_test(calm_traffic_stays_in_few_pages),
        cmocka_unit_test(slots_fill_up),
        cmocka_unit_test(sleeping_reader_is_woken_once),
        cmocka_unit_test(waiting_writer_is_woken_once),
        cmocka_unit_test(threads_sleep_and_wake),
        cmocka_unit_test(nonsense_stays_inside),
        cmocka_unit_test(reader_without_sense_is_not_believed),
    };

    return cmocka_run_group_tests_name("shm_ring", tests, NULL, NULL);
}
