/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "wire/backlog.h"

#define FRAME_BYTES 100

/* A kernel that takes some frames and refuses others. */
struct kernel {
    unsigned room;     /* frames it takes before it is full */
    int refuse_number; /* frame that it refuses for good, or -1 */
    unsigned calls, taken;
    uint8_t number[2 * EMX_WIRE_BATCH];
};

static int kernel_send(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes)
{
    struct kernel *k = arg;
    const uint8_t *b = data;

    k->calls++;
    if (b[0] == k->refuse_number)
        return ENETDOWN;
    if (!k->room)
        return ENOBUFS;
    k->room--;
    assert_int_equal(to->b[0], b[0]);
    assert_int_equal(len_bytes, 10 + b[0]);
    for (size_t i = 1; i < len_bytes; i++)
        assert_int_equal(b[i], i < 5 ? b[0] : 0xBB);
    k->number[k->taken++] = b[0];
    return 0;
}

/* Keeps frames first .. first + n - 1; what they were made of is overwritten at once. */
static unsigned keep(struct emx_backlog *b, unsigned first, unsigned n)
{
    struct emx_wire_addr to[EMX_WIRE_BATCH];
    uint8_t head[EMX_WIRE_BATCH][5], body[FRAME_BYTES];
    struct emx_txframe f[EMX_WIRE_BATCH];
    unsigned lost;

    memset(to, 0, sizeof(to));
    memset(body, 0xBB, sizeof(body));
    for (unsigned i = 0; i < n; i++) {
        memset(head[i], (int)(first + i), sizeof(head[i]));
        to[i].b[0] = (uint8_t)(first + i);
        f[i] = (struct emx_txframe){.to = &to[i],
                                    .head = head[i],
                                    .head_bytes = sizeof(head[i]),
                                    .body = body,
                                    .body_bytes = (uint16_t)(5 + first + i)};
    }
    lost = emx_backlog_keep(b, f, n);
    memset(head, 0xFF, sizeof(head));
    memset(body, 0xFF, sizeof(body));
    memset(to, 0xFF, sizeof(to));
    return lost;
}

static void keeps_order(void **state)
{
    struct kernel k = {.refuse_number = -1};
    struct emx_backlog b;

    (void)state;
    assert_true(emx_backlog_init(&b, FRAME_BYTES));
    assert_int_equal(keep(&b, 0, 20), 0);
    assert_int_equal(keep(&b, 20, EMX_WIRE_BATCH - 20), 0); /* the rest of the batch */
    assert_int_equal(b.count, EMX_WIRE_BATCH);
    for (unsigned i = 0; b.count; i++) {
        k.room = i % 7;
        assert_int_equal(emx_backlog_flush(&b, kernel_send, &k), 0);
    }
    assert_int_equal(k.taken, EMX_WIRE_BATCH);
    for (unsigned i = 0; i < k.taken; i++)
        assert_int_equal(k.number[i], i);
    assert_int_equal(keep(&b, 1, EMX_WIRE_BATCH), 0); /* a full batch fits again */
    emx_backlog_fini(&b);
}

static void loses_what_is_refused(void **state)
{
    struct kernel k = {.room = 10, .refuse_number = 3};
    struct emx_backlog b;

    (void)state;
    assert_true(emx_backlog_init(&b, FRAME_BYTES));
    keep(&b, 0, 6);
    assert_int_equal(emx_backlog_flush(&b, kernel_send, &k), 1);
    assert_int_equal(b.count, 0);
    assert_int_equal(k.taken, 5);
    assert_int_equal(k.number[3], 4);
    emx_backlog_fini(&b);
}

static void loses_patience(void **state)
{
    struct kernel k = {.refuse_number = -1};
    struct emx_backlog b;
    unsigned lost = 0;

    (void)state;
    assert_true(emx_backlog_init(&b, FRAME_BYTES));
    keep(&b, 0, 6);
    while (b.count)
        lost += emx_backlog_flush(&b, kernel_send, &k);
    assert_int_equal(lost, 6);
    assert_int_equal(k.calls, EMX_BACKLOG_TRIES);
    assert_int_equal(keep(&b, 0, 4), 4); /* nothing is kept while nothing goes through */
    assert_int_equal(b.count, 0);
    emx_backlog_success(&b);
    assert_int_equal(keep(&b, 0, 4), 0);
    assert_int_equal(b.count, 4);
    emx_backlog_fini(&b);
}

static void knows_full(void **state)
{
    (void)state;
    assert_true(emx_backlog_full_error(EAGAIN));
    assert_true(emx_backlog_full_error(ENOBUFS));
    assert_false(emx_backlog_full_error(ENETDOWN));
    assert_false(emx_backlog_full_error(EMSGSIZE));
    assert_false(emx_backlog_full_error(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_order),
        cmocka_unit_test(loses_what_is_refused),
        cmocka_unit_test(loses_patience),
        cmocka_unit_test(knows_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
