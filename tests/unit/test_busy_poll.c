/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the kernel holds of busy polling at a socket. Packets that come by it: tests/cluster/test-busy-poll, and
 * tests/guest/drivers (condition busy).
 */
#define _GNU_SOURCE
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire/busy_poll.h"

#ifndef SO_PREFER_BUSY_POLL
#define SO_PREFER_BUSY_POLL 69
#endif

#define NOBODY 65534

static int option(int fd, int name)
{
    int value = 0;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? -errno : value;
}

static int udp_socket(void)
{
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    return fd;
}

/* Whether this process may set what a socket does not have. */
static bool privileged(void)
{
    int fd = udp_socket(), us = 1000000;
    bool may = !setsockopt(fd, SOL_SOCKET, SO_BUSY_POLL, &us, sizeof(us));

    close(fd);
    return may;
}

static void off_changes_nothing(void **state)
{
    struct emx_config cfg;
    int fd = udp_socket(), before = option(fd, SO_BUSY_POLL);

    (void)state;
    emx_config_defaults(&cfg);
    assert_int_equal(cfg.p_busy_poll, 0);
    assert_string_equal(emx_busy_poll_set(fd, &cfg, false), "");
    assert_int_equal(option(fd, SO_BUSY_POLL), before);
    close(fd);
}

static void is_preferred(void **state)
{
    struct emx_config cfg = {.p_busy_poll = 64};
    int fd = udp_socket(), preferred;
    const char *text;

    (void)state;
    if (!privileged())
        skip();
    text = emx_busy_poll_set(fd, &cfg, false);
    preferred = option(fd, SO_PREFER_BUSY_POLL);
    assert_true(option(fd, SO_BUSY_POLL) > 0);
    if (preferred == -ENOPROTOOPT) {
        assert_non_null(strstr(text, "beside interrupts"));
    } else {
        assert_string_equal(text, ", busy polling");
        assert_int_equal(preferred, 1);
    }
    close(fd);
}

/* The driver has to be woken. */
static void is_not_preferred_with_zero_copy(void **state)
{
    struct emx_config cfg = {.p_busy_poll = 64};
    int fd = udp_socket();

    (void)state;
    if (!privileged())
        skip();
    assert_non_null(strstr(emx_busy_poll_set(fd, &cfg, true), "beside interrupts"));
    assert_true(option(fd, SO_BUSY_POLL) > 0);
    assert_true(option(fd, SO_PREFER_BUSY_POLL) <= 0);
    close(fd);
}

/* Newer kernels permit busy polling to all, but not to prefer it to interrupts. */
static bool set_as_nobody(void)
{
    struct emx_config cfg = {.p_busy_poll = 8};
    int fd = udp_socket();
    const char *text = emx_busy_poll_set(fd, &cfg, false);
    const char *expected = option(fd, SO_BUSY_POLL) ? ", busy polling beside interrupts ("
                                                    : ", no busy polling (this kernel wants CAP_NET_ADMIN";

    return !strncmp(text, expected, strlen(expected)) && option(fd, SO_PREFER_BUSY_POLL) != 1;
}

static void no_error_without_capability(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    if (option(udp_socket(), SO_BUSY_POLL) < 0)
        skip(); /* the kernel has no busy polling */
    pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit((!geteuid() && setresuid(NOBODY, NOBODY, NOBODY)) || !set_as_nobody());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void other_sockets_are_not_supported(void **state)
{
    struct emx_config cfg = {.p_busy_poll = 8};

    (void)state;
    assert_non_null(strstr(emx_busy_poll_set(-1, &cfg, false), "not supported"));
}

static void xdp_polls_where_it_can_be_preferred(void **state)
{
    int fd = udp_socket();

    (void)state;
    assert_int_equal(emx_busy_poll_has_xdp(fd), option(fd, SO_PREFER_BUSY_POLL) >= 0);
    assert_false(emx_busy_poll_has_xdp(-1));
    close(fd);
}

static void range(void **state)
{
    struct emx_config cfg;
    char err[256];

    (void)state;
    emx_config_defaults(&cfg);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_busy_poll, "1024", "test", err, sizeof(err)), 0);
    assert_int_equal(cfg.p_busy_poll, 1024);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_busy_poll, "1025", "test", err, sizeof(err)), ETHMX_ERR_PARAM);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_busy_poll, "-1", "test", err, sizeof(err)), ETHMX_ERR_PARAM);
    assert_int_equal(emx_config_parse(&cfg, EMX_P_busy_poll, "yes", "test", err, sizeof(err)), ETHMX_ERR_PARAM);
    assert_int_equal(cfg.p_busy_poll, 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(off_changes_nothing),
        cmocka_unit_test(is_preferred),
        cmocka_unit_test(is_not_preferred_with_zero_copy),
        cmocka_unit_test(no_error_without_capability),
        cmocka_unit_test(other_sockets_are_not_supported),
        cmocka_unit_test(xdp_polls_where_it_can_be_preferred),
        cmocka_unit_test(range),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
