/* SPDX-License-Identifier: BSD-3-Clause
 *
 * FI_PROGRESS_AUTO: end 0 makes transfers, and end 1 calls libfabric only before them and after them. The names are in
 * address vectors of the type FI_AV_TABLE.
 */
#include "ends.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KEY    3
#define PEER   1 /* the entry of the other end in each table */
#define OTHERS 40

#define WITH_ONESIDED(f) cmocka_unit_test_setup_teardown(f, ends_open_onesided, ends_close)

static const size_t lengths[] = {0, 1, 1000, 20000, LARGE};

/* The next completion of end 0, for which end 1 does nothing. */
static struct fi_cq_tagged_entry done_alone(struct fid_cq *cq, void *context)
{
    time_t late = time(NULL) + PATIENCE_S;
    struct fi_cq_tagged_entry c;
    ssize_t n;

    while ((n = fi_cq_read(cq, &c, 1)) == -FI_EAGAIN)
        assert_true(time(NULL) < late);
    assert_int_equal(n, 1);
    assert_ptr_equal(c.op_context, context);
    return c;
}

static void the_settings_are_as_asked_for(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(end[i].info->domain_attr->data_progress, FI_PROGRESS_AUTO);
        assert_int_equal(end[i].info->domain_attr->control_progress, FI_PROGRESS_AUTO);
        assert_int_equal(end[i].info->domain_attr->av_type, FI_AV_TABLE);
    }
}

/* A send is complete when the data is there: the long ones, and by FI_DELIVERY_COMPLETE the short ones. */
static void posted_receives_are_filled(void **state)
{
    struct iovec iov = {.iov_base = end[0].buf};
    struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .addr = PEER, .context = &iov};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        iov.iov_len = lengths[i];
        m.tag = i;
        fill(end[0].buf, lengths[i], i);
        memset(end[1].buf, 0, LARGE);
        assert_int_equal(fi_trecv(end[1].ep, end[1].buf, LARGE, NULL, PEER, i, 0, &end[1]), 0);
        assert_int_equal(fi_tsendmsg(end[0].ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION), 0);
        done_alone(end[0].tx, &iov);
        check(end[1].buf, lengths[i], i);
        assert_int_equal(done(end[1].rx, &end[1]).len, lengths[i]);
    }
}

static void memory_is_written_and_read(void **state)
{
    struct fid_mr *mr;

    (void)state;
    assert_int_equal(
        fi_mr_reg(end[1].domain, end[1].buf, LARGE, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL), 0);
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        fill(end[0].buf, lengths[i], i);
        assert_int_equal(fi_write(end[0].ep, end[0].buf, lengths[i], NULL, PEER, 0, KEY, &mr), 0);
        done_alone(end[0].tx, &mr);
        check(end[1].buf, lengths[i], i);
        memset(end[0].buf, 0, LARGE);
        assert_int_equal(fi_read(end[0].ep, end[0].buf, lengths[i], NULL, PEER, 0, KEY, &mr), 0);
        done_alone(end[0].tx, &mr);
        check(end[0].buf, lengths[i], i);
    }
    assert_int_equal(fi_close(&mr->fid), 0);
}

static void memory_is_changed(void **state)
{
    uint64_t add = 5, before = 0, value = 100;
    struct fid_mr *mr;

    (void)state;
    memcpy(end[1].buf, &value, sizeof(value));
    assert_int_equal(fi_mr_reg(end[1].domain, end[1].buf, 8, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, KEY, 0, &mr, NULL),
                     0);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(fi_fetch_atomic(end[0].ep, &add, 1, NULL, &before, NULL, PEER, 0, KEY, FI_UINT64, FI_SUM, &mr),
                         0);
        done_alone(end[0].tx, &mr);
        assert_int_equal(before, 100 + 5 * i);
    }
    assert_int_equal(fi_close(&mr->fid), 0);
    memcpy(&value, end[1].buf, sizeof(value));
    assert_int_equal(value, 200);
}

/* Names of a table have the numbers in which they were inserted, also where nobody asked for the numbers. */
static void tables_count_their_names(void **state)
{
    uint8_t names[OTHERS * NAME_BYTES];
    struct fi_cq_tagged_entry c;
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    struct end e = {0};
    size_t len = NAME_BYTES;

    (void)state;
    for (unsigned i = 0; i < OTHERS; i++)
        assert_int_equal(fi_getname(&end[i % 2].ep->fid, names + i * NAME_BYTES, &len), 0);
    end_open(&e, CAPS, 0, 0);
    end_enable(&e);
    assert_int_equal(end_insert(&e, &e), 0);
    assert_int_equal(fi_av_insert(e.av, names, OTHERS, NULL, 0, NULL), OTHERS);
    assert_int_equal(end_insert(&e, &e), OTHERS + 1);
    for (unsigned i = 0; i < OTHERS; i++) {
        assert_int_equal(fi_trecv(end[i % 2].ep, end[i % 2].buf, 8, NULL, FI_ADDR_UNSPEC, i, 0, &e), 0);
        assert_int_equal(fi_tinject(e.ep, "entry", 5, i + 1, i), 0);
        done(end[i % 2].rx, &e);
    }
    assert_int_equal(fi_av_remove(e.av, &(fi_addr_t){0}, 1, 0), 0);
    assert_int_equal(fi_trecv(e.ep, e.buf, 8, NULL, OTHERS + 1, 1, 0, &e), 0);
    assert_int_equal(fi_tinject(e.ep, "self", 4, OTHERS + 1, 1), 0);
    assert_int_equal(next_of(e.rx, &c, &from), 1);
    assert_int_equal(from, OTHERS + 1);
    end_close(&e);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ONESIDED(the_settings_are_as_asked_for), WITH_ONESIDED(posted_receives_are_filled),
        WITH_ONESIDED(memory_is_written_and_read),    WITH_ONESIDED(memory_is_changed),
        WITH_ONESIDED(tables_count_their_names),
    };
    int failures;

    setenv("ETHMX_HEARTBEAT", "0", 1); /* so that nothing else moves end 1 */
    progress = FI_PROGRESS_AUTO;
    av_type = FI_AV_TABLE;
    failures = over_wires(tests, ARRAY_LEN(tests));
    threading = FI_THREAD_DOMAIN;
    return failures + over_wires(tests, ARRAY_LEN(tests));
}
