/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The control connection of ethmx_perf over TCP of the loopback interface.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "perf_control.h"

/* The two ends of a connection. */
static void make_connection(int end[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(addr);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(listener >= 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&addr, len), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    end[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(end[0], (struct sockaddr *)&addr, len), 0);
    end[1] = accept(listener, NULL, NULL);
    assert_true(end[1] >= 0);
    close(listener);
}

static void await_input(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    assert_int_equal(poll(&p, 1, 10000), 1);
}

/* Until the whole report is there: it may come in parts. */
static enum perf_peek await_report(enum perf_peek (*look)(int, struct perf_report *), int fd, struct perf_report *r_p)
{
    enum perf_peek peek;

    await_input(fd);
    while ((peek = look(fd, r_p)) == PERF_PEEK_NOTHING) {
    }
    return peek;
}

/* An end that has the other's report closes. The other end sees its report and the end of the stream, no reset. */
static void test_close_after_report(void **state)
{
    struct perf_report sent = {.status = -3, .data_errors = 7, .text = "a sentence"}, got;
    int end[2];
    char byte;

    (void)state;
    make_connection(end);
    assert_int_equal(perf_control_peek(end[1], &got), PERF_PEEK_NOTHING);
    assert_int_equal(perf_control_send_report(end[0], &sent), 0);
    assert_int_equal(await_report(perf_control_peek, end[1], &got), PERF_PEEK_REPORT);
    assert_int_equal(await_report(perf_control_take, end[1], &got), PERF_PEEK_REPORT);
    assert_int_equal(got.data_errors, 7);
    assert_string_equal(got.text, "a sentence");
    assert_int_equal(perf_control_peek(end[1], &got), PERF_PEEK_NOTHING);
    close(end[1]);
    await_input(end[0]);
    assert_int_equal(recv(end[0], &byte, 1, 0), 0);
    close(end[0]);
}

static void test_end_without_report(void **state)
{
    struct perf_report got;
    int end[2];

    (void)state;
    make_connection(end);
    close(end[1]);
    assert_int_equal(await_report(perf_control_take, end[0], &got), PERF_PEEK_CLOSED);
    close(end[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_after_report),
        cmocka_unit_test(test_end_without_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
