/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tag: two engines with authentication. What the one makes the other takes, once and unaltered; nothing else.
 */
#define _GNU_SOURCE /* memmem() */

#include <string.h>

#include "base/hash.h"
#include "base/keyed_hash.h"
#include "core/engine.h"
#include "core/engine_impl.h"
#include "core/format/address.h"
#include "core/peer.h"
#include "unit.h"

#define FRAME_BYTES 1500
#define FRAMES      64

struct frame {
    uint32_t len_bytes;
    uint8_t data[FRAME_BYTES];
};

struct end {
    struct emx_config cfg;
    struct emx_stats stats;
    struct emx_address self;
    struct emx_engine *engine;
};

struct pair {
    struct end end[2];
    struct frame frame[FRAMES]; /* that the last output() made */
    unsigned frames;
    emx_time now;
};

static struct emx_address address(unsigned i, bool auth)
{
    struct emx_address a = {
        .id = 0x1000 + i, .cookie = 0xc00c1e, .host_id = i, .if_count = 1, .auth = auth, .has_secret = auth};

    a.ifs[0].frame_bytes = FRAME_BYTES;
    snprintf(a.host, sizeof(a.host), "n%u", i);
    for (unsigned k = 0; auth && k < sizeof(a.secret); k++)
        a.secret[k] = (uint8_t)emx_mix64(i * 100 + k + 1);
    return a;
}

static void open_end(struct end *d, unsigned i, bool auth, unsigned guarded)
{
    struct emx_engine_params p = {.cfg = &d->cfg,
                                  .stats = &d->stats,
                                  .alloc = &emx_alloc_libc,
                                  .self = &d->self,
                                  .seed = i,
                                  .guarded_links = guarded};

    memset(d, 0, sizeof(*d));
    emx_config_defaults(&d->cfg);
    d->self = address(i, auth);
    assert_int_equal(emx_engine_create(&p, &d->engine), ETHMX_OK);
}

static void begin(struct pair *p, bool auth, unsigned guarded)
{
    memset(p, 0, sizeof(*p));
    p->now = 1000000000;
    for (unsigned i = 0; i < 2; i++)
        open_end(&p->end[i], i, auth, guarded);
}

static void end(struct pair *p)
{
    for (unsigned i = 0; i < 2; i++)
        emx_engine_destroy(p->end[i].engine);
}

static int add(struct end *d, const struct emx_address *a, struct emx_peer **peer_p, char *err, size_t err_bytes)
{
    uint8_t buf[ETHMX_ADDRESS_MAX];

    return emx_engine_peer(d->engine, buf, emx_address_encode(a, buf), peer_p, err, err_bytes);
}

static struct emx_peer *peer(struct pair *p, unsigned i)
{
    struct emx_peer *peer = NULL;
    char err[256];

    assert_int_equal(add(&p->end[i], &p->end[!i].self, &peer, err, sizeof(err)), ETHMX_OK);
    return peer;
}

/* Answers the question for routes, and collects what the engine has to send. */
static void output(struct pair *p, unsigned i)
{
    struct emx_route r = {.frame_bytes = FRAME_BYTES, .name = "test"};
    struct emx_engine *e = p->end[i].engine;
    struct emx_txframe f[EMX_WIRE_BATCH];
    struct emx_event ev;
    unsigned n;

    while (emx_engine_event(e, &ev))
        if (ev.type == EMX_EVENT_ROUTES)
            emx_engine_routes(e, ev.peer, &r, 1, "", p->now);
    n = emx_engine_output(e, 0, f, EMX_WIRE_BATCH, p->now);
    assert_true(n <= FRAMES);
    p->frames = n;
    for (unsigned k = 0; k < n; k++) {
        struct frame *to = &p->frame[k];

        to->len_bytes = (uint32_t)f[k].head_bytes + f[k].body_bytes;
        assert_true(to->len_bytes <= FRAME_BYTES);
        memcpy(to->data, f[k].head, f[k].head_bytes);
        if (f[k].body_bytes)
            memcpy(to->data + f[k].head_bytes, f[k].body, f[k].body_bytes);
    }
}

static enum emx_drop input(struct pair *p, unsigned i, const struct frame *f)
{
    uint8_t *exact = malloc(f->len_bytes);
    enum emx_drop why;

    assert_non_null(exact);
    memcpy(exact, f->data, f->len_bytes);
    why = emx_engine_input(p->end[i].engine, 0, exact, f->len_bytes, p->now);
    free(exact);
    return why;
}

/* Lets frames go until there are none; all must be taken. */
static void run(struct pair *p)
{
    unsigned quiet = 0;

    for (unsigned i = 0; quiet < 4; i = !i) {
        output(p, i);
        quiet = p->frames ? 0 : quiet + 1;
        for (unsigned k = 0; k < p->frames; k++)
            assert_int_equal(input(p, !i, &p->frame[k]), EMX_ACCEPTED);
        p->now += 1000000;
        for (unsigned k = 0; k < 2; k++)
            if (emx_engine_deadline(p->end[k].engine) <= p->now)
                emx_engine_expire(p->end[k].engine, p->now);
    }
}

static void send(struct pair *p, unsigned i, size_t len_bytes)
{
    static uint8_t data[100000];
    struct emx_op_args a = {.data = {.base = data, .len_bytes = len_bytes}};

    assert_true(emx_engine_send(p->end[i].engine, peer(p, i), &a, p->now) >= 0);
}

static void connect_them(struct pair *p)
{
    send(p, 0, 8);
    run(p);
    assert_int_equal(p->end[0].stats.peers_connected, 1);
    assert_int_equal(p->end[1].stats.peers_connected, 1);
}

/* ---- What passes ---- */

/* What end 1 knows end 0 by. */
static struct emx_peer *greeter(struct pair *p)
{
    return emx_peer_find(p->end[1].engine, p->end[0].self.id);
}

/* The one who is greeted need not know the other, and can answer. */
static void strangers_connect(void **state)
{
    const struct emx_address *told;
    struct pair p;

    (void)state;
    begin(&p, true, 0);
    connect_them(&p);
    assert_int_equal(p.end[1].stats.unexpected_now, 1);
    assert_false(emx_peer_address(p.end[1].engine, greeter(&p))->has_secret);
    send(&p, 1, 5000); /* tells it the address, too */
    run(&p);
    assert_int_equal(p.end[0].stats.unexpected_now, 1);
    told = emx_peer_address(p.end[1].engine, greeter(&p));
    assert_true(told->has_secret);
    assert_memory_equal(told->secret, p.end[0].self.secret, sizeof(told->secret));
    assert_string_equal(told->host, "n0");
    end(&p);
}

static void no_frame_tells_a_secret(void **state)
{
    unsigned hellos = 0;
    struct pair p;

    (void)state;
    begin(&p, true, 0);
    send(&p, 0, 8);
    for (unsigned i = 0; i < 8; i++) {
        output(&p, i % 2);
        for (unsigned k = 0; k < p.frames; k++) {
            for (unsigned s = 0; s < 2; s++)
                assert_null(memmem(p.frame[k].data, p.frame[k].len_bytes, p.end[s].self.secret, 4));
            hellos += p.frame[k].data[sizeof(struct emx_tag) + 1] == EMX_F_hello;
            assert_int_equal(input(&p, !(i % 2), &p.frame[k]), EMX_ACCEPTED);
        }
    }
    assert_int_equal(hellos, 4);
    end(&p);
}

static void guarded_links_have_no_tags(void **state)
{
    struct pair p;

    (void)state;
    begin(&p, true, 1);
    send(&p, 0, 8);
    output(&p, 0);
    assert_true(p.frames);
    for (unsigned k = 0; k < p.frames; k++)
        assert_int_not_equal(p.frame[k].data[0], EMX_FRAME_V_TAGGED);
    end(&p);
}

/* ---- What does not ---- */

static void every_flipped_bit_is_seen(void **state)
{
    static const size_t lengths[] = {0, 7, 8, 9, 100, 1300};
    struct pair p;

    (void)state;
    begin(&p, true, 0);
    connect_them(&p);
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        struct frame sent;

        send(&p, 0, lengths[i]);
        output(&p, 0);
        assert_int_equal(p.frames, 1);
        sent = p.frame[0];
        for (uint32_t bit = 0; bit < sent.len_bytes * 8; bit++) {
            struct frame f = sent;

            f.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_not_equal(input(&p, 1, &f), EMX_ACCEPTED);
        }
        for (uint32_t len = 0; len < sent.len_bytes; len++) {
            struct frame f = sent;

            f.len_bytes = len;
            assert_int_not_equal(input(&p, 1, &f), EMX_ACCEPTED);
        }
        assert_int_equal(input(&p, 1, &sent), EMX_ACCEPTED);
        assert_int_equal(input(&p, 1, &sent), EMX_DROP_REPLAYED);
        run(&p);
    }
    assert_int_equal(p.end[1].stats.unexpected_now, 1 + ARRAY_LEN(lengths));
    assert_int_equal(p.end[1].stats.drop_replayed, ARRAY_LEN(lengths));
    assert_true(p.end[1].stats.drop_forged > 1000);
    end(&p);
}

/* The first frame of all, too: it makes the session, and must not do it twice. */
static void greetings(void **state)
{
    struct frame hello, forged;
    struct emx_frame *h;
    struct pair p;

    (void)state;
    begin(&p, true, 0);
    send(&p, 0, 8);
    output(&p, 0);
    hello = forged = p.frame[0];
    h = (void *)(forged.data + sizeof(struct emx_tag));
    h->src_id++; /* somebody who is not known, with a tag that is not his */
    assert_int_equal(input(&p, 1, &forged), EMX_DROP_FORGED);
    forged.len_bytes -= (uint32_t)sizeof(struct emx_tag);
    memcpy(forged.data, hello.data + sizeof(struct emx_tag), forged.len_bytes); /* without a tag */
    assert_int_equal(input(&p, 1, &forged), EMX_DROP_FORGED);
    assert_int_equal(p.end[1].stats.peers_known, 0);
    assert_int_equal(input(&p, 1, &hello), EMX_ACCEPTED);
    assert_int_equal(input(&p, 1, &hello), EMX_DROP_REPLAYED);
    end(&p);
}

/* Who is not told the secret of a process gets nothing through to it. */
static void a_wrong_secret(void **state)
{
    struct emx_address wrong;
    struct emx_peer *peer;
    struct emx_op_args a = {.data = {.len_bytes = 0}};
    char err[256];
    struct pair p;

    (void)state;
    begin(&p, true, 0);
    wrong = p.end[1].self;
    wrong.secret[15] ^= 1;
    assert_int_equal(add(&p.end[0], &wrong, &peer, err, sizeof(err)), ETHMX_OK);
    assert_true(emx_engine_send(p.end[0].engine, peer, &a, p.now) >= 0);
    output(&p, 0);
    assert_int_equal(p.frames, 2);
    for (unsigned k = 0; k < 2; k++)
        assert_int_equal(input(&p, 1, &p.frame[k]), EMX_DROP_FORGED);
    end(&p);
}

static void both_or_none(void **state)
{
    struct pair p;

    (void)state;
    for (unsigned on = 0; on < 2; on++) {
        struct emx_address other = address(1, !on);
        struct emx_peer *peer;
        char err[512] = "";

        begin(&p, on, 0);
        assert_int_equal(add(&p.end[0], &other, &peer, err, sizeof(err)), ETHMX_ERR_PARAM);
        assert_non_null(strstr(err, "ETHMX_AUTH"));
        assert_non_null(strstr(err, on ? "off on host n1 and on on host n0" : "on on host n1 and off on host n0"));
        end(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_connect),
        cmocka_unit_test(no_frame_tells_a_secret),
        cmocka_unit_test(guarded_links_have_no_tags),
        cmocka_unit_test(every_flipped_bit_is_seen),
        cmocka_unit_test(greetings),
        cmocka_unit_test(a_wrong_secret),
        cmocka_unit_test(both_or_none),
    };
    const char *why;

    if (!emx_keyed_hash_usable(&why)) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
