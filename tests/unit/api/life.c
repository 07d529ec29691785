/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Scenarios: several threads, a program that computes, a forked child, closing.
 */
#include "api/scenario.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ethmx_wait.h"

#define WORKERS      4
#define WORKER_TURNS 300

struct worker {
    const struct side *s;
    unsigned number;
    bool ok;
};

/* Each thread has its own conversation; whoever makes progress makes it for all. */
static bool converse(const struct worker *w)
{
    static const size_t len[] = {8, 3000, 50000, 0};
    uint8_t *buf = malloc(50000);
    struct ethmx_result r;

    for (unsigned i = 0; i < WORKER_TURNS; i++) {
        size_t bytes = len[i % ARRAY_LEN(len)];
        unsigned tag = w->number * 1000 + i;

        if (w->s->role == (int)(i % 2)) {
            fill(buf, bytes, tag);
            CHECK(send_data(w->s, tag, flat(buf, bytes)));
        } else {
            CHECK(recv_data(w->s, tag, flat(buf, bytes), &r));
            CHECK(r.status == ETHMX_OK && r.len_bytes == bytes && is_filled(buf, bytes, tag));
        }
    }
    free(buf);
    return true;
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    w->ok = converse(w);
    return NULL;
}

bool many_threads(const struct side *s)
{
    struct worker w[WORKERS];
    pthread_t t[WORKERS];

    for (unsigned i = 0; i < WORKERS; i++) {
        w[i] = (struct worker){.s = s, .number = i};
        CHECK(!pthread_create(&t[i], NULL, worker_main, &w[i]));
    }
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(!pthread_join(t[i], NULL));
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(w[i].ok);
    return true;
}

/* The other side computes and calls nothing; large messages still go both ways. */
bool absent_program(const struct side *s)
{
    uint8_t *out = malloc(LARGE_BYTES), *in = malloc(LARGE_BYTES);
    struct pending p[2];

    fill(out, LARGE_BYTES, 20 + (unsigned)s->role);
    CHECK(start_recv(s, 1, flat(in, LARGE_BYTES), &p[0]));
    CHECK(start_send(s, 1, flat(out, LARGE_BYTES), ETHMX_SEND_STANDARD, &p[1]));
    if (s->role == 0) {
        CHECK(await(s, &p[0].done) && await(s, &p[1].done));
        CHECK(tell(s));
    } else {
        CHECK(hear(s)); /* no progress meanwhile */
        CHECK(!p[0].done && !p[1].done);
        CHECK(await(s, &p[0].done) && await(s, &p[1].done));
    }
    CHECK(p[0].result.status == ETHMX_OK && is_filled(in, LARGE_BYTES, 21 - (unsigned)s->role));
    free(in);
    free(out);
    return true;
}

/* In a forked child nothing works and nothing is disturbed. */
bool forked_child(const struct side *s)
{
    struct ethmx_data none = flat(NULL, 0);
    struct ethmx_result r;
    int status = -1;
    pid_t pid = fork();

    if (!pid) {
        bool ok = !ethmx_progress(s->ep) &&
                  ethmx_isend(s->ep, s->peer, 1, &none, ETHMX_SEND_STANDARD, NULL, NULL) == ETHMX_ERR_CLOSED &&
                  ethmx_irecv(s->ep, NULL, 1, 1, &none, NULL, NULL, NULL, &r) == ETHMX_ERR_CLOSED &&
                  ethmx_wait_arm(s->ep) == ETHMX_ERR_CLOSED;

        ethmx_wait(s->ep, UINT64_MAX);
        ethmx_ep_close(s->ep);
        _exit(!ok);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    if (s->role == 0)
        return signal_other(s, 1) && await_signal(s, 2);
    return await_signal(s, 1) && signal_other(s, 2);
}

/* Sends that have completed are delivered although the sender closes at once and nobody has asked for them yet. So the
 * messages are short enough to go eagerly. The last scenario: role 0's endpoint is closed after it. */
bool closing_delivers(const struct side *s)
{
    uint8_t *buf = malloc(30000);
    struct pending p[20];
    struct ethmx_result r;

    if (s->role == 0) {
        fill(buf, 30000, 1);
        for (unsigned i = 0; i < ARRAY_LEN(p); i++)
            CHECK(start_send(s, i, flat(buf, 300 * i), ETHMX_SEND_STANDARD, &p[i]) && atomic_load(&p[i].done));
        ethmx_ep_close(s->ep);
        CHECK(tell(s));
        free(buf);
        return true;
    }
    CHECK(hear_progressing(s));
    for (unsigned i = 0; i < ARRAY_LEN(p); i++) {
        CHECK(recv_data(s, i, flat(buf, 30000), &r));
        CHECK(r.status == ETHMX_OK && r.len_bytes == 300 * i && is_filled(buf, r.len_bytes, 1));
    }
    free(buf);
    return true;
}
