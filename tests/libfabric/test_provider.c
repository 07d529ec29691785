/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The libfabric provider, as libfabric loads it: two endpoints in this process, each with its own domain. All tests run
 * over shm and over udp on loopback.
 *
 * FI_PROVIDER_PATH names the folder of libethmx-fi.so.
 */
/* Headers of libfabric 2 warn of calls that the provider still has for older clients. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include "ends.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- What is offered ---- */

static void info_is_refused(void **state)
{
    struct fi_info *h, *info;

    (void)state;
    h = hints_new(FI_MSG);
    h->ep_attr->type = FI_EP_MSG;
    info_of(h, -FI_ENODATA);
    info_of(hints_new(FI_MSG | FI_MULTICAST), -FI_ENODATA);
    h = hints_new(FI_MSG);
    h->tx_attr->inject_size = 1 << 20;
    info_of(h, -FI_ENODATA);
    h = hints_new(FI_MSG);
    h->domain_attr->name = strdup("another");
    info_of(h, -FI_ENODATA);
    h = hints_new(FI_MSG);
    h->tx_attr->msg_order = FI_ORDER_RAW;
    info_of(h, -FI_ENODATA);
    h = hints_new(FI_TAGGED);
    h->domain_attr->threading = FI_THREAD_DOMAIN;
    h->domain_attr->data_progress = FI_PROGRESS_AUTO;
    h->domain_attr->av_type = FI_AV_TABLE;
    info = info_of(h, 0);
    assert_int_equal(info->domain_attr->threading, FI_THREAD_DOMAIN);
    assert_int_equal(info->domain_attr->data_progress, FI_PROGRESS_AUTO);
    assert_int_equal(info->domain_attr->av_type, FI_AV_TABLE);
    assert_int_equal(info->caps & (FI_TAGGED | FI_MSG | FI_SEND | FI_RECV), FI_TAGGED | FI_SEND | FI_RECV);
    assert_int_equal(info->domain_attr->mr_mode, 0);
    assert_string_equal(info->fabric_attr->prov_name, "ethmx");
    fi_freeinfo(info);
}

static void names_have_one_length(void **state)
{
    uint8_t name[NAME_BYTES], again[NAME_BYTES] = {0};
    char text[64];
    size_t len = 0;

    (void)state;
    assert_int_equal(fi_getname(&end[0].ep->fid, NULL, &len), -FI_ETOOSMALL);
    assert_int_equal(len, NAME_BYTES);
    assert_int_equal(fi_getname(&end[0].ep->fid, name, &len), 0);
    assert_int_equal(fi_av_lookup(end[0].av, end[0].self, again, &len), 0);
    assert_memory_equal(name, again, NAME_BYTES);
    len = sizeof(text);
    assert_non_null(fi_av_straddr(end[0].av, name, text, &len));
    assert_int_equal(strncmp(text, "ethmx://", 8), 0);
    assert_int_equal(fi_av_insert(end[0].av, name, 1, NULL, 0, NULL), 1);
    assert_int_equal(fi_av_insert(end[0].av, (void *)16, 0, NULL, 0, NULL), 0);
}

static void a_name_of_nobody_is_refused(void **state)
{
    uint8_t names[2 * NAME_BYTES] = "not a name";
    fi_addr_t addr[2] = {0, 0};
    int error[2] = {0, 0};
    size_t len = NAME_BYTES;

    (void)state;
    assert_int_equal(fi_getname(&end[1].ep->fid, names + NAME_BYTES, &len), 0);
    assert_int_equal(fi_av_insert(end[0].av, names, 2, addr, FI_SYNC_ERR, error), 1);
    assert_int_equal(addr[0], FI_ADDR_NOTAVAIL);
    assert_int_equal(error[0], FI_EINVAL);
    assert_int_equal(error[1], 0);
    assert_int_equal(fi_send(end[0].ep, end[0].buf, 1, NULL, 12345, NULL), -FI_EINVAL);
}

static void a_removed_entry_is_unknown(void **state)
{
    struct fi_cq_tagged_entry c;
    fi_addr_t from = 0;
    size_t len = NAME_BYTES;
    uint8_t name[NAME_BYTES];

    (void)state;
    assert_int_equal(fi_av_remove(end[1].av, &end[1].peer, 1, 0), 0);
    assert_int_equal(fi_av_remove(end[1].av, &end[1].peer, 1, 0), -FI_EINVAL);
    assert_int_equal(fi_av_lookup(end[1].av, end[1].peer, name, &len), -FI_EINVAL);
    assert_int_equal(fi_send(end[1].ep, end[1].buf, 1, NULL, end[1].peer, NULL), -FI_EINVAL);
    assert_int_equal(fi_recv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_send(end[0].ep, "x", 1, NULL, end[0].peer, NULL), 0);
    assert_int_equal(next_of(end[1].rx, &c, &from), 1);
    assert_int_equal(from, FI_ADDR_NOTAVAIL);
    end[1].peer = end_insert(&end[1], &end[0]);
    assert_int_equal(fi_recv(end[1].ep, end[1].buf, 10, NULL, end[1].peer, NULL), 0);
    assert_int_equal(fi_send(end[0].ep, "x", 1, NULL, end[0].peer, NULL), 0);
    assert_int_equal(next_of(end[1].rx, &c, &from), 1);
    assert_int_equal(from, end[1].peer);
}

static void objects_in_use_stay(void **state)
{
    (void)state;
    assert_int_equal(fi_close(&end[0].domain->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&end[0].av->fid), -FI_EBUSY);
    assert_int_equal(fi_close(&end[0].rx->fid), -FI_EBUSY);
}

static void wrong_settings_are_refused(void **state)
{
    struct fi_info *info = info_of(hints_new(FI_MSG), 0);
    struct fid_fabric *fabric;
    struct fid_domain *domain;

    (void)state;
    assert_int_equal(fi_fabric(info->fabric_attr, &fabric, NULL), 0);
    setenv("ETHMX_EAGER_MAX", "much", 1);
    assert_int_equal(fi_domain(fabric, info, &domain, NULL), -FI_EINVAL);
    unsetenv("ETHMX_EAGER_MAX");
    assert_int_equal(fi_close(&fabric->fid), 0);
    fi_freeinfo(info);
}

/* ---- Messages ---- */

static const size_t lengths[] = {0, 1, 1000, 4096, 20000, 65536, LARGE};

static void messages_of_all_lengths(void **state)
{
    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(lengths); i++) {
        size_t len = lengths[i];
        struct fi_cq_tagged_entry c;

        fill(end[0].buf, len, i);
        memset(end[1].buf, 0, LARGE);
        if (i % 2)
            assert_int_equal(fi_recv(end[1].ep, end[1].buf, LARGE, NULL, FI_ADDR_UNSPEC, &end[1]), 0);
        assert_int_equal(fi_send(end[0].ep, end[0].buf, len, NULL, end[0].peer, &end[0]), 0);
        if (i % 2 == 0)
            assert_int_equal(fi_recv(end[1].ep, end[1].buf, LARGE, NULL, end[1].peer, &end[1]), 0);
        c = done(end[1].rx, &end[1]);
        assert_int_equal(c.flags, FI_RECV | FI_MSG);
        assert_int_equal(c.len, len);
        check(end[1].buf, len, i);
        c = done(end[0].tx, &end[0]);
        assert_int_equal(c.flags, FI_SEND | FI_MSG);
    }
}

static void remote_data(void **state)
{
    static const uint64_t data = UINT64_C(0x8123456789abcdef);
    struct iovec iov = {"abc", 3};
    struct fi_msg_tagged m = {.msg_iov = &iov, .iov_count = 1, .tag = 5, .data = data};
    struct fi_cq_tagged_entry c;

    (void)state;
    m.addr = end[0].peer;
    for (unsigned i = 0; i < 5; i++) {
        bool tagged = i >= 2;

        if (tagged)
            assert_int_equal(fi_trecv(end[1].ep, end[1].buf, LARGE, NULL, FI_ADDR_UNSPEC, 5, 0, NULL), 0);
        else
            assert_int_equal(fi_recv(end[1].ep, end[1].buf, LARGE, NULL, FI_ADDR_UNSPEC, NULL), 0);
        switch (i) {
        case 0:
            assert_int_equal(fi_senddata(end[0].ep, "abc", 3, NULL, data, end[0].peer, NULL), 0);
            break;
        case 1:
            assert_int_equal(fi_injectdata(end[0].ep, "abc", 3, data, end[0].peer), 0);
            break;
        case 2:
            assert_int_equal(fi_tsenddata(end[0].ep, end[0].buf, LARGE, NULL, data, end[0].peer, 5, NULL), 0);
            break;
        case 3:
            assert_int_equal(fi_tinjectdata(end[0].ep, "abc", 3, data, end[0].peer, 5), 0);
            break;
        default:
            assert_int_equal(fi_tsendmsg(end[0].ep, &m, FI_REMOTE_CQ_DATA | FI_COMPLETION), 0);
        }
        c = done(end[1].rx, NULL);
        assert_int_equal(c.flags, FI_RECV | FI_REMOTE_CQ_DATA | (tagged ? FI_TAGGED : FI_MSG));
        assert_true(c.data == data);
        assert_int_equal(c.len, i == 2 ? LARGE : 3);
        if (i % 2 == 0)
            done(end[0].tx, NULL);
    }
}

static void injected_data_may_change_at_once(void **state)
{
    char c = 0;

    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        c = (char)i;
        assert_int_equal(fi_tinject(end[0].ep, &c, 1, end[0].peer, i), 0);
        c = 'x';
    }
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 1, NULL, end[1].peer, i, 0, NULL), 0);
        done(end[1].rx, NULL);
        assert_int_equal(end[1].buf[0], i);
    }
    none_of(end[0].tx);
    assert_int_equal(fi_inject(end[0].ep, end[0].buf, LARGE, end[0].peer), -FI_EINVAL);
}

static void to_ourselves(void **state)
{
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    struct fi_cq_tagged_entry c;

    (void)state;
    assert_int_equal(fi_tsenddata(end[0].ep, "self", 4, NULL, 77, end[0].self, 9, NULL), 0);
    assert_int_equal(fi_trecv(end[0].ep, end[0].buf, 10, NULL, end[0].self, 9, 0, NULL), 0);
    assert_int_equal(next_of(end[0].rx, &c, &from), 1);
    assert_int_equal(from, end[0].self);
    assert_int_equal(c.data, 77);
    assert_memory_equal(end[0].buf, "self", 4);
    done(end[0].tx, NULL);
}

static void receives_from_one(void **state)
{
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    struct fi_cq_tagged_entry c;

    (void)state;
    assert_int_equal(fi_recv(end[0].ep, end[0].buf, 10, NULL, end[0].self, &end[0]), 0);
    assert_int_equal(fi_recv(end[0].ep, end[0].buf + 10, 10, NULL, end[0].peer, &end[1]), 0);
    assert_int_equal(fi_send(end[1].ep, "peer", 4, NULL, end[1].peer, NULL), 0);
    assert_int_equal(next_of(end[0].rx, &c, &from), 1);
    assert_ptr_equal(c.op_context, &end[1]);
    assert_int_equal(from, end[0].peer);
    assert_int_equal(fi_send(end[0].ep, "self", 4, NULL, end[0].self, NULL), 0);
    assert_int_equal(next_of(end[0].rx, &c, &from), 1);
    assert_int_equal(from, end[0].self);
    assert_memory_equal(end[0].buf, "self", 4);
}

static void one_buffer_for_many(void **state)
{
    struct iovec iov = {end[1].buf, 1000};
    struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &end[1]};
    size_t least = 150, got = 0, len = sizeof(got);

    (void)state;
    assert_int_equal(fi_setopt(&end[1].ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)), 0);
    assert_int_equal(fi_getopt(&end[1].ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &got, &len), 0);
    assert_int_equal(got, least);
    assert_int_equal(fi_recvmsg(end[1].ep, &m, FI_MULTI_RECV), 0);
    for (unsigned i = 0; i < 9; i++) {
        fill(end[0].buf, 100, i);
        assert_int_equal(fi_senddata(end[0].ep, end[0].buf, 100, NULL, i, end[0].peer, NULL), 0);
        done(end[0].tx, NULL);
    }
    for (unsigned i = 0; i < 9; i++) {
        struct fi_cq_tagged_entry c = done(end[1].rx, &end[1]);

        assert_ptr_equal(c.buf, end[1].buf + 100 * i);
        assert_int_equal(c.len, 100);
        assert_int_equal(c.data, i);
        assert_int_equal(c.flags & FI_MULTI_RECV, i == 8 ? FI_MULTI_RECV : 0);
        check(c.buf, 100, i);
    }
    fi_inject(end[0].ep, "x", 1, end[0].peer);
    none_of(end[1].rx);
}

static void buffers_for_many_are_filled_in_turn(void **state)
{
    static const size_t least = 100;

    (void)state;
    assert_int_equal(fi_setopt(&end[1].ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)), 0);
    for (unsigned i = 0; i < 4; i++) {
        struct iovec iov = {end[1].buf + 300 * i, 300};
        struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = end[1].buf + i};

        assert_int_equal(fi_recvmsg(end[1].ep, &m, FI_MULTI_RECV), 0);
    }
    for (unsigned i = 0; i < 12; i++) {
        fill(end[0].buf, 100, i);
        assert_int_equal(fi_send(end[0].ep, end[0].buf, 100, NULL, end[0].peer, NULL), 0);
        done(end[0].tx, NULL);
    }
    for (unsigned i = 0; i < 12; i++) {
        struct fi_cq_tagged_entry c = done(end[1].rx, end[1].buf + i / 3);

        assert_int_equal(c.len, 100);
        assert_ptr_equal(c.buf, end[1].buf + 100 * i);
        assert_int_equal(c.flags & FI_MULTI_RECV, i % 3 == 2 ? FI_MULTI_RECV : 0);
        check(c.buf, 100, i);
    }
}

static void a_buffer_for_many_is_cancelled(void **state)
{
    struct iovec iov = {end[1].buf, 1000};
    struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &end[1]};
    struct fi_cq_err_entry err;

    (void)state;
    assert_int_equal(fi_recvmsg(end[1].ep, &m, FI_MULTI_RECV), 0);
    assert_int_equal(fi_send(end[0].ep, end[0].buf, 100, NULL, end[0].peer, NULL), 0);
    assert_int_equal(done(end[1].rx, &end[1]).flags & FI_MULTI_RECV, 0);
    assert_int_equal(fi_cancel(&end[1].ep->fid, &end[1]), 0);
    err = failed(end[1].rx, &end[1]);
    assert_int_equal(err.err, FI_ECANCELED);
    assert_int_equal(err.flags & FI_MULTI_RECV, FI_MULTI_RECV);
}

static void too_long_messages(void **state)
{
    struct fi_cq_err_entry err;

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        size_t len = i ? LARGE : 100;

        assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, 3, 0, &end[1]), 0);
        assert_int_equal(fi_tsend(end[0].ep, end[0].buf, len, NULL, end[0].peer, 3, NULL), 0);
        err = failed(end[1].rx, &end[1]);
        assert_int_equal(err.err, FI_ETRUNC);
        assert_int_equal(err.len, 10);
        assert_int_equal(err.olen, len - 10);
        assert_int_equal(err.tag, 3);
        assert_non_null(fi_cq_strerror(end[1].rx, err.prov_errno, NULL, NULL, 0));
        done(end[0].tx, NULL);
    }
}

static void cancelled_receives(void **state)
{
    (void)state;
    assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, 1, 0, &end[0]), 0);
    assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, 1, 0, &end[1]), 0);
    assert_int_equal(fi_cancel(&end[1].ep->fid, &end[0]), 0);
    assert_int_equal(failed(end[1].rx, &end[0]).err, FI_ECANCELED);
    assert_int_equal(fi_cancel(&end[1].ep->fid, &end[0]), -FI_ENOENT);
    assert_int_equal(fi_tinject(end[0].ep, "x", 1, end[0].peer, 1), 0);
    assert_int_equal(done(end[1].rx, &end[1]).len, 1);
}

/* A receive from it fails, and so does a send; others go on. */
static void a_peer_that_has_gone(void **state)
{
    struct end *gone = &end[1];
    struct iovec iov = {end[0].buf + 100, 1000};
    struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .addr = end[0].peer, .context = &iov};
    struct fi_cq_err_entry err;

    (void)state;
    assert_int_equal(fi_recv(gone->ep, gone->buf, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_inject(end[0].ep, "x", 1, end[0].peer), 0);
    done(gone->rx, NULL);
    assert_int_equal(fi_trecv(end[0].ep, end[0].buf, 1, NULL, end[0].peer, 1, 0, &end[0]), 0);
    assert_int_equal(fi_trecv(end[0].ep, end[0].buf, 1, NULL, end[0].self, 1, 0, &end[1]), 0);
    assert_int_equal(fi_recvmsg(end[0].ep, &m, FI_MULTI_RECV), 0);
    assert_int_equal(fi_close(&gone->ep->fid), 0);
    assert_int_equal(failed(end[0].rx, &end[0]).err, FI_ECONNRESET);
    err = failed(end[0].rx, &iov);
    assert_int_equal(err.err, FI_ECONNRESET);
    assert_int_equal(err.flags & FI_MULTI_RECV, FI_MULTI_RECV);
    assert_int_equal(fi_tsend(end[0].ep, "x", 1, NULL, end[0].peer, 1, NULL), -FI_ECONNRESET);
    assert_int_equal(fi_tinject(end[0].ep, "x", 1, end[0].self, 1), 0);
    done(end[0].rx, &end[1]);
    assert_int_equal(fi_endpoint(gone->domain, gone->info, &gone->ep, NULL), 0);
}

/* ---- Completion ---- */

static void only_selected_completions(void **state)
{
    struct iovec iov = {"x", 1};
    struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .context = &iov};
    struct iovec in = {end[1].buf, 10};
    struct fi_msg r = {.msg_iov = &in, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = &in};

    (void)state;
    m.addr = end[0].peer;
    assert_int_equal(fi_recv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_recvmsg(end[1].ep, &r, FI_COMPLETION), 0);
    assert_int_equal(fi_send(end[0].ep, "x", 1, NULL, end[0].peer, NULL), 0);
    assert_int_equal(fi_sendmsg(end[0].ep, &m, FI_COMPLETION), 0);
    done(end[0].tx, &iov);
    done(end[1].rx, &in);
    none_of(end[0].tx);
    none_of(end[1].rx);
}

static void delivery_waits_for_the_receive(void **state)
{
    struct iovec iov = {"x", 1};
    struct fi_msg m = {.msg_iov = &iov, .iov_count = 1, .context = &iov};

    (void)state;
    m.addr = end[0].peer;
    assert_int_equal(fi_sendmsg(end[0].ep, &m, FI_DELIVERY_COMPLETE | FI_COMPLETION), 0);
    none_of(end[0].tx);
    assert_int_equal(fi_recv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, NULL), 0);
    done(end[1].rx, NULL);
    done(end[0].tx, &iov);
}

static void queues_sleep_and_wake(void **state)
{
    struct fi_cq_tagged_entry c;

    (void)state;
    assert_int_equal(fi_cq_sread(end[1].rx, &c, 1, NULL, 0), -FI_EAGAIN);
    assert_int_equal(fi_cq_sread(end[1].rx, &c, 1, NULL, 1), -FI_EAGAIN);
    assert_int_equal(fi_cq_signal(end[1].rx), 0);
    assert_int_equal(fi_cq_sread(end[1].rx, &c, 1, NULL, -1), -FI_EAGAIN);
    assert_int_equal(fi_recv(end[0].ep, end[0].buf, 10, NULL, end[0].self, end), 0);
    assert_int_equal(fi_send(end[0].ep, "x", 1, NULL, end[0].self, NULL), 0);
    assert_int_equal(fi_cq_sread(end[0].rx, &c, 1, NULL, -1), 1);
    assert_ptr_equal(c.op_context, end);
}

static void a_queue_grows(void **state)
{
    (void)state;
    for (uintptr_t i = 0; i < 1000; i++)
        assert_int_equal(fi_trecv(end[0].ep, end[0].buf, 10, NULL, end[0].self, i, 0, (void *)i), 0);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(fi_tinject(end[0].ep, "x", 1, end[0].self, i), 0);
    for (uintptr_t i = 0; i < 1000; i++)
        assert_int_equal(done(end[0].rx, (void *)i).tag, i);
}

static void queues_of_all_formats(void **state)
{
    static const enum fi_cq_format formats[] = {FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_MSG, FI_CQ_FORMAT_DATA};

    (void)state;
    for (unsigned i = 0; i < ARRAY_LEN(formats); i++) {
        struct end e = {0};
        struct fi_cq_data_entry c[2] = {0};
        char x;

        end_open(&e, CAPS, 0, 0);
        assert_int_equal(fi_close(&e.ep->fid), 0);
        assert_int_equal(fi_close(&e.rx->fid), 0);
        e.rx = cq_new(&e, formats[i]);
        assert_int_equal(fi_endpoint(e.domain, e.info, &e.ep, NULL), 0);
        assert_int_equal(fi_enable(e.ep), -FI_ENOAV);
        assert_int_equal(fi_ep_bind(e.ep, &e.av->fid, 0), 0);
        assert_int_equal(fi_enable(e.ep), -FI_ENOCQ);
        assert_int_equal(fi_ep_bind(e.ep, &e.tx->fid, FI_TRANSMIT), 0);
        assert_int_equal(fi_ep_bind(e.ep, &e.rx->fid, FI_RECV), 0);
        end_enable(&e);
        e.self = end_insert(&e, &e);
        assert_int_equal(fi_recv(e.ep, &x, 1, NULL, FI_ADDR_UNSPEC, &x), 0);
        assert_int_equal(fi_senddata(e.ep, "x", 1, NULL, 5, e.self, NULL), 0);
        while (fi_cq_read(e.rx, c, 1) == -FI_EAGAIN)
            ;
        assert_ptr_equal(c[0].op_context, &x);
        assert_int_equal(c[0].len, formats[i] == FI_CQ_FORMAT_CONTEXT ? 0 : 1);
        assert_int_equal(c[0].data, formats[i] == FI_CQ_FORMAT_DATA ? 5 : 0);
        end_close(&e);
    }
}

static void counters_count(void **state)
{
    struct fi_cntr_attr attr = {.wait_obj = FI_WAIT_UNSPEC};
    struct fi_poll_attr poll_attr = {0};
    struct fid_cntr *sent, *received;
    struct fid_poll *poll;
    struct end e = {0};
    void *who[4];

    (void)state;
    end_open(&e, CAPS, 0, 0);
    assert_int_equal(fi_cntr_open(e.domain, &attr, &sent, &sent), 0);
    assert_int_equal(fi_cntr_open(e.domain, &attr, &received, &received), 0);
    assert_int_equal(fi_ep_bind(e.ep, &sent->fid, FI_SEND), 0);
    assert_int_equal(fi_ep_bind(e.ep, &received->fid, FI_RECV), 0);
    assert_int_equal(fi_poll_open(e.domain, &poll_attr, &poll), 0);
    assert_int_equal(fi_poll_add(poll, &received->fid, 0), 0);
    end_enable(&e);
    e.self = end_insert(&e, &e);
    assert_int_equal(fi_cntr_wait(received, 1, 1), -FI_ETIMEDOUT);
    assert_int_equal(fi_poll(poll, who, 4), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(fi_recv(e.ep, e.buf, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
        assert_int_equal(fi_inject(e.ep, "x", 1, e.self), 0);
    }
    assert_int_equal(fi_cntr_wait(received, 3, -1), 0);
    assert_int_equal(fi_cntr_wait(sent, 3, -1), 0);
    assert_int_equal(fi_cntr_read(sent), 3);
    assert_int_equal(fi_poll(poll, who, 4), 1);
    assert_ptr_equal(who[0], &received);
    assert_int_equal(fi_poll(poll, who, 4), 0);
    assert_int_equal(fi_cntr_set(sent, 10), 0);
    assert_int_equal(fi_cntr_add(sent, 1), 0);
    assert_int_equal(fi_cntr_read(sent), 11);
    assert_int_equal(fi_recv(e.ep, e.buf, 1, NULL, FI_ADDR_UNSPEC, NULL), 0);
    assert_int_equal(fi_inject(e.ep, "xyz", 3, e.self), 0);
    assert_int_equal(fi_cntr_wait(received, 4, -1), -FI_EAVAIL);
    assert_int_equal(fi_cntr_readerr(received), 1);
    assert_int_equal(fi_close(&poll->fid), 0);
    assert_int_equal(fi_close(&e.ep->fid), 0);
    assert_int_equal(fi_close(&sent->fid), 0);
    assert_int_equal(fi_close(&received->fid), 0);
    assert_int_equal(fi_endpoint(e.domain, e.info, &e.ep, NULL), 0);
    end_close(&e);
}

static void events_come_back(void **state)
{
    struct fi_eq_attr attr = {.wait_obj = FI_WAIT_UNSPEC, .flags = FI_WRITE};
    struct fi_eq_entry in = {.data = 5}, out = {0};
    struct fid_eq *eq;
    uint32_t event;

    (void)state;
    assert_int_equal(fi_eq_open(end[0].fabric, &attr, &eq, NULL), 0);
    assert_int_equal(fi_eq_read(eq, &event, &out, sizeof(out), 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_sread(eq, &event, &out, sizeof(out), 1, 0), -FI_EAGAIN);
    assert_int_equal(fi_eq_write(eq, FI_NOTIFY, &in, sizeof(in), 0), sizeof(in));
    assert_int_equal(fi_eq_read(eq, &event, &out, sizeof(out), FI_PEEK), sizeof(out));
    assert_int_equal(fi_eq_sread(eq, &event, &out, sizeof(out), -1, 0), sizeof(out));
    assert_int_equal(event, FI_NOTIFY);
    assert_int_equal(out.data, 5);
    assert_int_equal(fi_eq_read(eq, &event, &out, sizeof(out), 0), -FI_EAGAIN);
    assert_int_equal(fi_close(&eq->fid), 0);
}

static void regions_have_keys(void **state)
{
    struct fid_mr *mr;

    (void)state;
    assert_int_equal(fi_mr_reg(end[0].domain, end[0].buf, 100, FI_SEND | FI_RECV, 0, 4711, 0, &mr, NULL), 0);
    assert_int_equal(fi_mr_key(mr), 4711);
    assert_int_equal(fi_close(&mr->fid), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(info_is_refused),
        cmocka_unit_test(wrong_settings_are_refused),
        WITH_ENDS(names_have_one_length),
        WITH_ENDS(a_name_of_nobody_is_refused),
        WITH_ENDS(a_removed_entry_is_unknown),
        WITH_ENDS(objects_in_use_stay),
        WITH_ENDS(messages_of_all_lengths),
        WITH_ENDS(remote_data),
        WITH_ENDS(injected_data_may_change_at_once),
        WITH_ENDS(to_ourselves),
        WITH_ENDS(receives_from_one),
        WITH_ENDS(one_buffer_for_many),
        WITH_ENDS(buffers_for_many_are_filled_in_turn),
        WITH_ENDS(a_buffer_for_many_is_cancelled),
        WITH_ENDS(too_long_messages),
        WITH_ENDS(cancelled_receives),
        WITH_ENDS(a_peer_that_has_gone),
        cmocka_unit_test_setup_teardown(only_selected_completions, ends_open_selective, ends_close),
        WITH_ENDS(delivery_waits_for_the_receive),
        WITH_ENDS(queues_sleep_and_wake),
        WITH_ENDS(a_queue_grows),
        cmocka_unit_test(queues_of_all_formats),
        cmocka_unit_test(counters_count),
        WITH_ENDS(events_come_back),
        WITH_ENDS(regions_have_keys),
    };

    return over_wires(tests, ARRAY_LEN(tests));
}
