/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static int stderr_copy, pipe_fd[2];

static void capture_begin(void)
{
    assert_int_equal(pipe(pipe_fd), 0);
    stderr_copy = dup(STDERR_FILENO);
    assert_true(stderr_copy >= 0);
    assert_int_equal(dup2(pipe_fd[1], STDERR_FILENO), STDERR_FILENO);
    close(pipe_fd[1]);
}

/* What went to stderr since, at most what a pipe holds. */
static size_t capture_end(char *text, size_t room)
{
    ssize_t n;

    assert_int_equal(dup2(stderr_copy, STDERR_FILENO), STDERR_FILENO);
    close(stderr_copy);
    n = read(pipe_fd[0], text, room - 1);
    close(pipe_fd[0]);
    assert_true(n >= 0);
    text[n] = 0;
    return (size_t)n;
}

static void a_line_says_who_and_how_bad(void **state)
{
    char text[2048], pid[32];

    (void)state;
    snprintf(pid, sizeof(pid), "pid %d: warning: ", (int)getpid());
    capture_begin();
    errno = 42;
    emx_log(EMX_LOG_WARN, "eth%d is %s", 7, "down");
    assert_int_equal(errno, 42);
    capture_end(text, sizeof(text));
    assert_int_equal(strncmp(text, "ethmx: host ", 12), 0);
    assert_non_null(strstr(text, pid));
    assert_string_equal(strstr(text, "warning: "), "warning: eth7 is down\n");
}

static void levels_above_the_limit_are_silent(void **state)
{
    char text[2048];

    (void)state;
    capture_begin();
    emx_log(EMX_LOG_INFO, "unheard");
    emx_log_limit = EMX_LOG_INFO;
    emx_log(EMX_LOG_INFO, "heard");
    emx_log_limit = EMX_LOG_WARN;
    capture_end(text, sizeof(text));
    assert_null(strstr(text, "unheard"));
    assert_non_null(strstr(text, "info: heard\n"));
}

static void a_long_line_is_cut_and_ended(void **state)
{
    char longest[5000], text[8192];
    size_t n;

    (void)state;
    memset(longest, 'x', sizeof(longest));
    longest[sizeof(longest) - 1] = 0;
    capture_begin();
    emx_log(EMX_LOG_ERROR, "%s", longest);
    n = capture_end(text, sizeof(text));
    assert_int_equal(n, 1023);
    assert_ptr_equal(strchr(text, '\n'), text + n - 1);
}

static void *other_thread(void *arg)
{
    (void)arg;
    assert_string_equal(emx_error_get(), "no error");
    emx_error_set("other");
    return NULL;
}

static void each_thread_has_its_error(void **state)
{
    pthread_t t;

    (void)state;
    assert_string_equal(emx_error_get(), "no error");
    emx_error_set("mine, number %d", 1);
    assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
    assert_int_equal(pthread_join(t, NULL), 0);
    assert_string_equal(emx_error_get(), "mine, number 1");
    emx_error_set("%s, again", emx_error_get());
    assert_string_equal(emx_error_get(), "mine, number 1, again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_who_and_how_bad),
        cmocka_unit_test(levels_above_the_limit_are_silent),
        cmocka_unit_test(a_long_line_is_cut_and_ended),
        cmocka_unit_test(each_thread_has_its_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
