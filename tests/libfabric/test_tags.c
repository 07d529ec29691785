/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tagged messages beside untagged ones: all 64 bits of tags, and messages that are looked at, claimed and discarded.
 * Two endpoints of the libfabric provider in this process, over shm and over udp on loopback; with FI_THREAD_DOMAIN;
 * with authentication.
 */
#include "ends.h"

#include <stdlib.h>
#include <time.h>

#include "ethmx_config.h"

static void tags_and_pieces(void **state)
{
    struct iovec out[3] = {{"abc", 3}, {"", 0}, {"defgh", 5}}, in[2];
    uint64_t tag = UINT64_C(0xfedcba9876543210);
    struct fi_cq_tagged_entry c;

    (void)state;
    in[0] = (struct iovec){end[1].buf, 4};
    in[1] = (struct iovec){end[1].buf + 100, 10};
    assert_int_equal(fi_trecvv(end[1].ep, in, NULL, 2, FI_ADDR_UNSPEC, tag & ~UINT64_C(0xff), 0xff, in), 0);
    assert_int_equal(fi_tsendv(end[0].ep, out, NULL, 3, end[0].peer, tag, out), 0);
    c = done(end[1].rx, in);
    assert_int_equal(c.flags, FI_RECV | FI_TAGGED);
    assert_int_equal(c.tag, tag);
    assert_int_equal(c.len, 8);
    assert_memory_equal(end[1].buf, "abcd", 4);
    assert_memory_equal(end[1].buf + 100, "efgh", 4);
    done(end[0].tx, out);
}

static void tagged_and_untagged_are_apart(void **state)
{
    (void)state;
    assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX, &end[1]), 0);
    assert_int_equal(fi_send(end[0].ep, "untagged", 8, NULL, end[0].peer, NULL), 0);
    done(end[0].tx, NULL);
    none_of(end[1].rx);
    assert_int_equal(fi_tsend(end[0].ep, "tag", 3, NULL, end[0].peer, 0, NULL), 0);
    assert_int_equal(done(end[1].rx, &end[1]).len, 3);
    assert_int_equal(fi_recv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, end), 0);
    assert_int_equal(done(end[1].rx, end).len, 8);
}

static void tags_have_64_bits(void **state)
{
    static const uint64_t tag[] = {UINT64_MAX, UINT64_C(1) << 63, UINT64_MAX >> 1, 0};
    struct fi_cq_tagged_entry c;

    (void)state;
    assert_true(end[0].info->ep_attr->mem_tag_format >> 63);
    assert_int_equal(fi_send(end[0].ep, "untagged", 8, NULL, end[0].peer, NULL), 0);
    for (unsigned i = 0; i < ARRAY_LEN(tag); i++)
        assert_int_equal(fi_tsenddata(end[0].ep, "tag", i, NULL, tag[i], end[0].peer, tag[i], NULL), 0);
    for (unsigned i = 0; i < ARRAY_LEN(tag); i++) {
        assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, tag[i], 0, &end[1]), 0);
        c = done(end[1].rx, &end[1]);
        assert_int_equal(c.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
        assert_true(c.tag == tag[i] && c.data == tag[i] && c.len == i);
    }
    none_of(end[1].rx);
    assert_int_equal(fi_recv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, end), 0);
    c = done(end[1].rx, end);
    assert_true(c.flags == (FI_RECV | FI_MSG) && c.tag == 0 && c.len == 8);
    assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, 0, UINT64_MAX >> 1, &end[0]), 0);
    assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 10, NULL, FI_ADDR_UNSPEC, tag[1], UINT64_MAX >> 1, &end[1]), 0);
    assert_int_equal(fi_tinject(end[0].ep, "high", 4, end[0].peer, UINT64_MAX), 0);
    assert_int_equal(done(end[1].rx, &end[1]).len, 4);
    assert_int_equal(fi_tinject(end[0].ep, "low", 3, end[0].peer, UINT64_MAX >> 1), 0);
    assert_int_equal(done(end[1].rx, &end[0]).len, 3);
}

/* ---- Peek, claim, discard ---- */

static ssize_t look(uint64_t tag, uint64_t flags, void *context, struct iovec *iov)
{
    struct fi_msg_tagged m = {
        .msg_iov = iov, .iov_count = iov ? 1 : 0, .addr = FI_ADDR_UNSPEC, .tag = tag, .context = context};

    return fi_trecvmsg(end[1].ep, &m, flags | FI_COMPLETION);
}

/* Peeks until the message has arrived. */
static struct fi_cq_tagged_entry peek(uint64_t tag, uint64_t flags, void *context)
{
    time_t late = time(NULL) + PATIENCE_S;
    struct fi_cq_tagged_entry c;
    fi_addr_t from;

    for (;;) {
        assert_int_equal(look(tag, FI_PEEK | flags, context, NULL), 0);
        if (next_of(end[1].rx, &c, &from) == 1)
            break;
        assert_int_equal(failed(end[1].rx, context).err, FI_ENOMSG);
        assert_true(time(NULL) < late);
    }
    assert_ptr_equal(c.op_context, context);
    return c;
}

static void peek_claim_discard(void **state)
{
    struct iovec iov = {end[1].buf, LARGE};
    struct fi_cq_tagged_entry c;

    (void)state;
    assert_int_equal(look(1, FI_PEEK, &iov, NULL), 0);
    assert_int_equal(failed(end[1].rx, &iov).err, FI_ENOMSG);
    fill(end[0].buf, LARGE, 1);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(fi_tsenddata(end[0].ep, end[0].buf, i == 2 ? LARGE : 10 + i, NULL, i, end[0].peer, 1, NULL),
                         0);
    c = peek(1, 0, &end[0]);
    assert_int_equal(c.len, 10);
    c = peek(1, FI_DISCARD, &end[0]);
    assert_int_equal(c.len, 10);
    c = peek(1, FI_CLAIM, &end[0]);
    assert_int_equal(c.len, 11);
    assert_int_equal(c.data, 1);
    c = peek(1, FI_CLAIM, &end[1]);
    assert_int_equal(c.len, LARGE);
    assert_int_equal(c.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
    assert_int_equal(look(1, FI_CLAIM, &end[1], &iov), 0);
    c = done(end[1].rx, &end[1]);
    assert_int_equal(c.len, LARGE);
    assert_int_equal(c.data, 2);
    check(end[1].buf, LARGE, 1);
    assert_int_equal(look(1, FI_CLAIM | FI_DISCARD, &end[0], NULL), 0);
    done(end[1].rx, &end[0]);
    assert_int_equal(look(1, FI_CLAIM, &end[0], &iov), -FI_EINVAL);
    assert_int_equal(peek(1, 0, &end[0]).len, 13);
    assert_int_equal(fi_trecv(end[1].ep, end[1].buf, 20, NULL, FI_ADDR_UNSPEC, 1, 0, NULL), 0);
    assert_int_equal(done(end[1].rx, NULL).data, 3);
    for (unsigned i = 0; i < 4; i++)
        done(end[0].tx, NULL);
}

static ssize_t look_untagged(uint64_t flags, void *context, struct iovec *iov)
{
    struct fi_msg m = {.msg_iov = iov, .iov_count = iov ? 1 : 0, .addr = FI_ADDR_UNSPEC, .context = context};

    return fi_recvmsg(end[1].ep, &m, flags | FI_COMPLETION);
}

/* Both have arrived when the last one is seen. */
static void looks_see_their_kind(void **state)
{
    static const uint64_t tag = UINT64_C(1) << 63;
    struct iovec iov = {end[1].buf, LARGE};
    struct fi_cq_tagged_entry c;

    (void)state;
    assert_int_equal(fi_senddata(end[0].ep, "abc", 3, NULL, 33, end[0].peer, NULL), 0);
    assert_int_equal(fi_send(end[0].ep, "defg", 4, NULL, end[0].peer, NULL), 0);
    assert_int_equal(fi_tsend(end[0].ep, "hijkl", 5, NULL, end[0].peer, tag, NULL), 0);
    assert_int_equal(peek(tag, 0, &end[0]).len, 5);
    assert_int_equal(look(0, FI_PEEK, &iov, NULL), 0);
    assert_int_equal(failed(end[1].rx, &iov).err, FI_ENOMSG);
    assert_int_equal(look_untagged(FI_PEEK | FI_CLAIM, &end[1], NULL), 0);
    c = done(end[1].rx, &end[1]);
    assert_int_equal(c.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    assert_true(c.len == 3 && c.data == 33 && c.tag == 0);
    assert_int_equal(look_untagged(FI_PEEK | FI_DISCARD, &end[0], NULL), 0);
    assert_int_equal(done(end[1].rx, &end[0]).len, 4);
    assert_int_equal(look_untagged(FI_PEEK, &iov, NULL), 0);
    assert_int_equal(failed(end[1].rx, &iov).err, FI_ENOMSG);
    assert_int_equal(look_untagged(FI_CLAIM, &end[1], &iov), 0);
    c = done(end[1].rx, &end[1]);
    assert_int_equal(c.flags, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA);
    assert_memory_equal(end[1].buf, "abc", 3);
    c = peek(tag, FI_CLAIM, &end[0]);
    assert_true(c.tag == tag && c.len == 5);
    assert_int_equal(look(tag, FI_CLAIM, &end[0], &iov), 0);
    assert_true(done(end[1].rx, &end[0]).tag == tag);
    assert_memory_equal(end[1].buf, "hijkl", 5);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENDS(tags_and_pieces),    WITH_ENDS(tagged_and_untagged_are_apart), WITH_ENDS(tags_have_64_bits),
        WITH_ENDS(peek_claim_discard), WITH_ENDS(looks_see_their_kind),
    };
    int failures;

    failures = over_wires(tests, ARRAY_LEN(tests));
    threading = FI_THREAD_DOMAIN;
    failures += over_wires(tests, ARRAY_LEN(tests));
#ifdef ETHMX_HAVE_SODIUM
    setenv("ETHMX_AUTH", "on", 1); /* names have secrets, too */
    failures += over_wires(tests, ARRAY_LEN(tests));
#endif
    return failures;
}
