/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measures the memory that the core keeps for a peer: one that is connected and idle, and one that was never talked to.
 * One endpoint exchanges a message with each of many others in this process, waits until all is acknowledged, and asks.
 * Prints "silent 1 BYTES" and "connected 1 BYTES".
 */
#include "ethmx.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PEERS = 32 };

static struct ethmx_ep *one, *others[PEERS];
static struct ethmx_peer *peers[PEERS];
static unsigned received;

static void die(const char *what)
{
    fprintf(stderr, "peermem: %s: %s\n", what, ethmx_error_text());
    exit(1);
}

static void count(void *arg, const struct ethmx_result *result)
{
    (void)arg;
    if (result->status != ETHMX_OK)
        die(ethmx_strerror(result->status));
    received++;
}

static void ignore(void *arg, const struct ethmx_result *result)
{
    (void)arg;
    (void)result;
}

static struct ethmx_ep *open_one(void)
{
    struct ethmx_ep_options options = {
        .api_version = ETHMX_API_VERSION, .struct_bytes = sizeof(options), .job_key = {1, 2, 3}, .reach = "127.0.0.1"};
    struct ethmx_config *cfg;
    struct ethmx_ep *ep;

    if (ethmx_config_create(&cfg) != ETHMX_OK || ethmx_config_set(cfg, "wires", "udp", "peermem") != ETHMX_OK ||
        ethmx_config_set(cfg, "if", "lo", "peermem") != ETHMX_OK || ethmx_ep_open(cfg, &options, &ep) != ETHMX_OK)
        die("cannot open an endpoint over udp on lo");
    ethmx_config_destroy(cfg);
    return ep;
}

static void progress_all(void)
{
    ethmx_progress(one);
    for (unsigned i = 0; i < PEERS; i++)
        ethmx_progress(others[i]);
}

static double seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The most that the core keeps for any of them. */
static size_t memory_bytes(void)
{
    size_t most = 0;

    for (unsigned i = 0; i < PEERS; i++) {
        struct ethmx_peer_info info = {.struct_bytes = sizeof(info)};

        ethmx_peer_query(one, peers[i], &info);
        if (info.memory_bytes > most)
            most = info.memory_bytes;
    }
    return most;
}

static void add_peers(void)
{
    for (unsigned i = 0; i < PEERS; i++) {
        unsigned char address[ETHMX_ADDRESS_MAX];
        size_t len = sizeof(address);

        others[i] = open_one();
        if (ethmx_ep_address(others[i], address, &len) != ETHMX_OK ||
            ethmx_peer_add(one, address, len, NULL, &peers[i]) != ETHMX_OK)
            die("cannot add a peer");
    }
}

static void talk_to_all(void)
{
    static char in[PEERS][64], out[64];
    double end;

    for (unsigned i = 0; i < PEERS; i++) {
        struct ethmx_data room = {.len_bytes = sizeof(in[i]), .base = in[i]};
        struct ethmx_data data = {.len_bytes = sizeof(out), .base = out};
        struct ethmx_result result;

        if (ethmx_irecv(others[i], NULL, 7, UINT64_MAX, &room, count, NULL, NULL, &result) < 0 ||
            ethmx_isend(one, peers[i], 7, &data, ETHMX_SEND_STANDARD, ignore, NULL) < 0)
            die("cannot send");
    }
    for (end = seconds() + 20; received < PEERS;) {
        progress_all();
        if (seconds() > end) {
            fprintf(stderr, "peermem: only %u of %d messages arrived in 20 s\n", received, PEERS);
            exit(1);
        }
    }
    /* Acknowledgements, which may wait a little for a frame to ride on. */
    for (end = seconds() + 0.3; seconds() < end;)
        progress_all();
}

int main(void)
{
    one = open_one();
    add_peers();
    printf("silent 1 %zu\n", memory_bytes());
    talk_to_all();
    printf("connected 1 %zu\n", memory_bytes());
    for (unsigned i = 0; i < PEERS; i++)
        ethmx_ep_close(others[i]);
    ethmx_ep_close(one);
    return 0;
}
