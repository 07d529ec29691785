/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The libfabric provider: FI_RMA and FI_ATOMIC.
 */
#include "ends.h"

#include <string.h>

#define KEY 0 /* the least that a client may choose */

static struct fid_mr *mr;

static void expose(unsigned i, size_t len, uint64_t key)
{
    assert_int_equal(fi_mr_reg(end[i].domain, end[i].buf, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, key, 0, &mr, NULL),
                     0);
    assert_int_equal(fi_mr_key(mr), key);
}

static void hide(void)
{
    assert_int_equal(fi_close(&mr->fid), 0);
}

static const size_t lengths[] = {1, 1000, 20000, LARGE};

static void writes_and_reads(void **state)
{
    struct fi_cq_tagged_entry c;

    (void)state;
    expose(1, LARGE, KEY);
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        size_t len = lengths[i];

        fill(end[0].buf, len, i);
        memset(end[1].buf, 0, LARGE);
        assert_int_equal(fi_write(end[0].ep, end[0].buf, len, NULL, end[0].peer, 0, KEY, &c), 0);
        assert_int_equal(done(end[0].tx, &c).flags, FI_RMA | FI_WRITE);
        check(end[1].buf, len, i);
        memset(end[0].buf, 0, LARGE);
        assert_int_equal(fi_read(end[0].ep, end[0].buf, len, NULL, end[0].peer, 0, KEY, &c), 0);
        assert_int_equal(done(end[0].tx, &c).flags, FI_RMA | FI_READ);
        check(end[0].buf, len, i);
    }
    hide();
}

static void writes_of_pieces_at_an_offset(void **state)
{
    struct iovec out[2] = {{"abc", 3}, {"de", 2}};

    (void)state;
    expose(1, 100, 7);
    assert_int_equal(fi_writev(end[0].ep, out, NULL, 2, end[0].peer, 10, 7, out), 0);
    done(end[0].tx, out);
    assert_memory_equal(end[1].buf + 10, "abcde", 5);
    assert_int_equal(fi_inject_write(end[0].ep, "xy", 2, end[0].peer, 20, 7), 0);
    assert_int_equal(fi_write(end[0].ep, "z", 1, NULL, end[0].peer, 22, 7, out), 0);
    done(end[0].tx, out);
    while (memcmp(end[1].buf + 20, "xyz", 3))
        poll_all();
    none_of(end[0].tx);
    hide();
}

static void remote_data_follows_the_write(void **state)
{
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    struct fi_cq_tagged_entry c;

    (void)state;
    expose(1, LARGE, KEY);
    fill(end[0].buf, LARGE, 5);
    assert_int_equal(fi_writedata(end[0].ep, end[0].buf, LARGE, NULL, UINT64_MAX, end[0].peer, 0, KEY, end), 0);
    assert_int_equal(next_of(end[1].rx, &c, &from), 1);
    check(end[1].buf, LARGE, 5);
    assert_true(c.data == UINT64_MAX);
    assert_int_equal(c.flags, FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
    assert_int_equal(c.len, LARGE);
    assert_int_equal(from, end[1].peer);
    done(end[0].tx, end);
    hide();
}

static void what_is_not_exposed_is_refused(void **state)
{
    struct fid_mr *second;

    (void)state;
    assert_int_equal(fi_write(end[0].ep, "x", 1, NULL, end[0].peer, 0, 5, end), 0);
    assert_int_equal(failed(end[0].tx, end).err, FI_EACCES);
    expose(1, 100, 5);
    assert_int_equal(fi_mr_reg(end[1].domain, end[1].buf, 10, FI_REMOTE_READ, 0, 5, 0, &second, NULL), -FI_ENOKEY);
    assert_int_equal(fi_write(end[0].ep, "x", 1, NULL, end[0].peer, 100, 5, end), 0);
    assert_int_equal(failed(end[0].tx, end).err, FI_EACCES);
    assert_int_equal(fi_write(end[0].ep, "x", 1, NULL, end[0].peer, 99, 5, end), 0);
    done(end[0].tx, end);
    hide();
    assert_int_equal(fi_read(end[0].ep, end[0].buf, 1, NULL, end[0].peer, 0, 5, end), 0);
    assert_int_equal(failed(end[0].tx, end).err, FI_EACCES);
}

static void ended(bool permitted)
{
    if (permitted)
        done(end[0].tx, end);
    else
        assert_int_equal(failed(end[0].tx, end).err, FI_EACCES);
}

static void access_is_what_was_registered(void **state)
{
    static const uint64_t access[] = {FI_REMOTE_READ, FI_REMOTE_WRITE};
    uint64_t one = 1, old;
    struct fid_mr *mr;

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(access); i++) {
        assert_int_equal(fi_mr_reg(end[1].domain, end[1].buf, 100, access[i], 0, 5, 0, &mr, NULL), 0);
        assert_int_equal(fi_write(end[0].ep, &one, 8, NULL, end[0].peer, 0, 5, end), 0);
        ended(access[i] == FI_REMOTE_WRITE);
        assert_int_equal(fi_read(end[0].ep, end[0].buf, 8, NULL, end[0].peer, 0, 5, end), 0);
        ended(access[i] == FI_REMOTE_READ);
        assert_int_equal(
            fi_fetch_atomic(end[0].ep, NULL, 1, NULL, &old, NULL, end[0].peer, 0, 5, FI_UINT64, FI_ATOMIC_READ, end),
            0);
        ended(access[i] == FI_REMOTE_READ);
        assert_int_equal(
            fi_fetch_atomic(end[0].ep, &one, 1, NULL, &old, NULL, end[0].peer, 0, 5, FI_UINT64, FI_SUM, end), 0);
        ended(false);
        assert_int_equal(fi_close(&mr->fid), 0);
    }
}

static void regions_from_before_the_endpoint(void **state)
{
    struct end e = {0};
    struct fid_mr *early;

    (void)state;
    end_open(&e, CAPS | FI_RMA, 0, 0);
    assert_int_equal(fi_mr_reg(e.domain, e.buf, 10, FI_REMOTE_WRITE, 0, 3, 0, &early, NULL), 0);
    end_enable(&e);
    e.self = end_insert(&e, &e);
    assert_int_equal(fi_write(e.ep, "self", 4, NULL, e.self, 2, 3, &e), 0);
    done(e.tx, &e);
    assert_memory_equal(e.buf + 2, "self", 4);
    assert_int_equal(fi_close(&e.ep->fid), 0);
    assert_int_equal(fi_close(&early->fid), 0);
    assert_int_equal(fi_endpoint(e.domain, e.info, &e.ep, NULL), 0);
    end_close(&e);
}

static void atomics(void **state)
{
    uint64_t *at = (uint64_t *)(void *)end[1].buf, operand = 5, old = 0, compare = 12, swap = 99;

    (void)state;
    expose(1, 1024, KEY);
    *at = 7;
    assert_int_equal(fi_atomic(end[0].ep, &operand, 1, NULL, end[0].peer, 0, KEY, FI_UINT64, FI_SUM, end), 0);
    assert_int_equal(done(end[0].tx, end).flags, FI_ATOMIC | FI_WRITE);
    assert_int_equal(*at, 12);
    assert_int_equal(
        fi_fetch_atomic(end[0].ep, NULL, 1, NULL, &old, NULL, end[0].peer, 0, KEY, FI_UINT64, FI_ATOMIC_READ, end), 0);
    assert_int_equal(done(end[0].tx, end).flags, FI_ATOMIC | FI_READ);
    assert_int_equal(old, 12);
    assert_int_equal(fi_compare_atomic(end[0].ep, &swap, 1, NULL, &compare, NULL, &old, NULL, end[0].peer, 0, KEY,
                                       FI_UINT64, FI_CSWAP, end),
                     0);
    done(end[0].tx, end);
    assert_int_equal(*at, 99);
    assert_int_equal(
        fi_fetch_atomic(end[0].ep, &operand, 1, NULL, &old, NULL, end[0].peer, 0, KEY, FI_UINT64, FI_MIN, end), 0);
    done(end[0].tx, end);
    assert_int_equal(old, 99);
    assert_int_equal(*at, 5);
    hide();
}

static void atomics_that_there_are(void **state)
{
    uint64_t many[200] = {0};
    size_t count = 0;

    (void)state;
    assert_int_equal(fi_atomicvalid(end[0].ep, FI_UINT64, FI_SUM, &count), 0);
    assert_int_equal(count, 128);
    assert_int_equal(fi_atomicvalid(end[0].ep, FI_DOUBLE, FI_BXOR, &count), -FI_EOPNOTSUPP);
    assert_int_equal(fi_atomicvalid(end[0].ep, FI_UINT64, FI_ATOMIC_READ, &count), -FI_EOPNOTSUPP);
    assert_int_equal(fi_fetch_atomicvalid(end[0].ep, FI_UINT8, FI_ATOMIC_READ, &count), 0);
    assert_int_equal(count, 1024);
    assert_int_equal(fi_compare_atomicvalid(end[0].ep, FI_INT32, FI_CSWAP, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(fi_compare_atomicvalid(end[0].ep, FI_INT32, FI_MSWAP, &count), -FI_EOPNOTSUPP);
    assert_int_equal(fi_atomic(end[0].ep, many, 129, NULL, end[0].peer, 0, KEY, FI_UINT64, FI_SUM, NULL), -FI_EINVAL);
}

#define ONESIDED(f) cmocka_unit_test_setup_teardown(f, ends_open_onesided, ends_close)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        ONESIDED(writes_and_reads),
        ONESIDED(writes_of_pieces_at_an_offset),
        ONESIDED(remote_data_follows_the_write),
        ONESIDED(what_is_not_exposed_is_refused),
        ONESIDED(access_is_what_was_registered),
        cmocka_unit_test(regions_from_before_the_endpoint),
        ONESIDED(atomics),
        ONESIDED(atomics_that_there_are),
    };

    return over_wires(tests, ARRAY_LEN(tests));
}
