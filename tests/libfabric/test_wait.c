/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Waiting over the libfabric provider: by descriptors, in sread, and for counters. Two threads are the two ends, so
 * that what one sends must wake the other. A wait that nothing ends fails.
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "ends.h"

#define TURNS   300
#define HANG_MS 60000

static int ends_open_with_fd(void **state)
{
    int rc;

    wait_object = FI_WAIT_FD;
    rc = ends_open(state);
    wait_object = FI_WAIT_UNSPEC;
    return rc;
}

#define WITH_FDS(f) cmocka_unit_test_setup_teardown(f, ends_open_with_fd, ends_close)

static int fd_of(struct fid *fid)
{
    int fd = -1;

    assert_int_equal(fi_control(fid, FI_GETWAIT, &fd), 0);
    assert_true(fd >= 0);
    return fd;
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, timeout_ms) == 1;
}

/* ---- Two threads ---- */

/* Waits for the next completion of one of the queue; false: it never comes. */
static bool await_by_fd(struct end *e, struct fid_cq *cq, struct fi_cq_tagged_entry *c)
{
    struct fid *fid = &cq->fid;
    ssize_t n;
    int rc;

    while ((n = fi_cq_read(cq, c, 1)) == -FI_EAGAIN) {
        rc = fi_trywait(e->fabric, &fid, 1);
        if (rc && rc != -FI_EAGAIN)
            return false;
        if (!rc && !readable(fd_of(fid), HANG_MS))
            return false;
    }
    return n == 1;
}

static bool await_by_sread(struct end *e, struct fid_cq *cq, struct fi_cq_tagged_entry *c)
{
    (void)e;
    return fi_cq_sread(cq, c, 1, NULL, HANG_MS) == 1;
}

struct player {
    struct end *e;
    bool (*await)(struct end *e, struct fid_cq *cq, struct fi_cq_tagged_entry *c);
    bool serves, ok;
};

static bool play_turn(struct player *p, unsigned i)
{
    static const size_t len[] = {0, 8, 5000, 100000};
    struct fi_cq_tagged_entry c;
    size_t bytes = len[i / 2 % ARRAY_LEN(len)];

    if (p->serves == (i % 2 == 0))
        return !fi_tsend(p->e->ep, p->e->buf, bytes, NULL, p->e->peer, i, NULL) && p->await(p->e, p->e->tx, &c);
    return !fi_trecv(p->e->ep, p->e->buf, LARGE, NULL, FI_ADDR_UNSPEC, i, 0, NULL) && p->await(p->e, p->e->rx, &c) &&
           c.tag == i && c.len == bytes;
}

static void *play(void *arg)
{
    struct player *p = arg;

    for (unsigned i = 0; i < TURNS; i++)
        if (!play_turn(p, i))
            return NULL;
    p->ok = true;
    return NULL;
}

static void play_both(bool (*await)(struct end *e, struct fid_cq *cq, struct fi_cq_tagged_entry *c))
{
    struct player p[2] = {{.e = &end[0], .await = await, .serves = true}, {.e = &end[1], .await = await}};
    pthread_t t;

    assert_int_equal(pthread_create(&t, NULL, play, &p[1]), 0);
    play(&p[0]);
    assert_true(p[0].ok);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_true(p[1].ok);
}

static void messages_wake_descriptors(void **state)
{
    (void)state;
    play_both(await_by_fd);
}

static void messages_wake_sread(void **state)
{
    (void)state;
    play_both(await_by_sread);
}

/* ---- One thread ---- */

static void what_is_there_prevents_a_wait(void **state)
{
    struct fid *rx = &end[0].rx->fid;
    struct fi_cq_tagged_entry c;
    enum fi_wait_obj object;

    (void)state;
    assert_int_equal(fi_control(rx, FI_GETWAITOBJ, &object), 0);
    assert_int_equal(object, FI_WAIT_FD);
    assert_int_equal(fi_recv(end[0].ep, end[0].buf, 10, NULL, end[0].self, end), 0);
    assert_int_equal(fi_send(end[0].ep, "x", 1, NULL, end[0].self, NULL), 0);
    assert_int_equal(fi_trywait(end[0].fabric, &rx, 1), -FI_EAGAIN); /* to be moved */
    done(end[0].tx, NULL);
    assert_int_equal(fi_trywait(end[0].fabric, &rx, 1), -FI_EAGAIN); /* to be read */
    assert_int_equal(fi_cq_read(end[0].rx, &c, 1), 1);
    assert_int_equal(fi_cq_read(end[0].rx, &c, 1), -FI_EAGAIN);
    assert_int_equal(fi_cq_signal(end[0].rx), 0);
    assert_true(readable(fd_of(rx), 0));
    assert_int_equal(fi_trywait(end[0].fabric, &rx, 1), -FI_EAGAIN); /* signalled */
    assert_int_equal(fi_cq_sread(end[0].rx, &c, 1, NULL, -1), -FI_EAGAIN);
}

static void *signal_end(void *arg)
{
    struct end *e = arg;

    fi_cq_signal(e->rx);
    return NULL;
}

static void a_signal_ends_sread(void **state)
{
    struct fi_cq_tagged_entry c;
    pthread_t t;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(pthread_create(&t, NULL, signal_end, &end[0]), 0);
        assert_int_equal(fi_cq_sread(end[0].rx, &c, 1, NULL, -1), -FI_EAGAIN);
        assert_int_equal(pthread_join(t, NULL), 0);
    }
}

static void descriptors_are_asked_for(void **state)
{
    struct fid *rx = &end[0].rx->fid;
    int fd;

    (void)state;
    assert_int_equal(fi_control(rx, FI_GETWAIT, &fd), -FI_ENODATA);
}

static void counters_wake(void **state)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_FD};
    struct fid_cntr *cntr;
    struct fid *fid;
    int rc;

    (void)state;
    assert_int_equal(fi_cntr_open(end[0].domain, &attr, &cntr, NULL), 0);
    fid = &cntr->fid;
    assert_int_equal(fi_trywait(end[0].fabric, &fid, 1), 0);
    assert_false(readable(fd_of(fid), 0));
    assert_int_equal(fi_cntr_add(cntr, 2), 0);
    assert_true(readable(fd_of(fid), 0));
    assert_int_equal(fi_trywait(end[0].fabric, &fid, 1), -FI_EAGAIN);
    assert_int_equal(fi_cntr_read(cntr), 2);
    rc = fi_trywait(end[0].fabric, &fid, 1);
    assert_int_equal(rc, 0);
    assert_false(readable(fd_of(fid), 0));
    assert_int_equal(fi_close(fid), 0);
}

static void event_queues_wake(void **state)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_FD, .flags = FI_WRITE};
    struct fi_eq_entry in = {.data = 5}, out;
    struct fid_eq *eq;
    struct fid *fid;
    uint32_t event;

    (void)state;
    assert_int_equal(fi_eq_open(end[0].fabric, &attr, &eq, NULL), 0);
    fid = &eq->fid;
    assert_int_equal(fi_trywait(end[0].fabric, &fid, 1), 0);
    assert_false(readable(fd_of(fid), 0));
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &in, sizeof(in), 0), sizeof(in));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(fi_trywait(end[0].fabric, &fid, 1), -FI_EAGAIN);
        assert_true(readable(fd_of(fid), 0));
        assert_int_equal(fi_eq_read(eq, &event, &out, sizeof(out), 0), sizeof(out));
    }
    assert_false(readable(fd_of(fid), 0));
    assert_int_equal(fi_close(fid), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_FDS(messages_wake_descriptors),
        WITH_ENDS(messages_wake_sread),
        WITH_FDS(what_is_there_prevents_a_wait),
        WITH_ENDS(a_signal_ends_sread),
        WITH_ENDS(descriptors_are_asked_for),
        WITH_ENDS(counters_wake),
        WITH_ENDS(event_queues_wake),
    };

    return over_wires(tests, ARRAY_LEN(tests));
}
