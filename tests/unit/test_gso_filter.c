/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The filter of GSO packets, at a UDP socket on the loopback interface: by the mark in the first frame, the sender's
 * port, and the interface.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/placement.h"
#include "wire/gso.h"
#include "wire/gso_filter.h"

#define UDP_BYTES   8
#define OTHER_BYTES 20 /* of the others, at most */
#define PACKET      100

static int open_socket(struct sockaddr_in *at_p)
{
    socklen_t len = sizeof(*at_p);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    *at_p = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)at_p, sizeof(*at_p)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at_p, &len), 0);
    return fd;
}

/* A socket whose port is for the ring, or not. Others are held meanwhile. */
static int open_sender(bool for_ring)
{
    struct sockaddr_in at;
    int fd = open_socket(&at), other;

    if ((ntohs(at.sin_port) & EMX_GSO_RING_PORT) == (for_ring ? EMX_GSO_RING_PORT : 0))
        return fd;
    other = fd;
    fd = open_sender(for_ring);
    close(other);
    return fd;
}

static void filter(int fd, unsigned loopback_index, uint32_t other_bytes)
{
    struct sock_filter code[EMX_GSO_FILTER_CODES];
    struct sock_fprog prog = {.len = EMX_GSO_FILTER_CODES, .filter = code};

    emx_gso_filter(code, 0, loopback_index, UINT32_MAX, other_bytes);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)), 0);
}

/* How much of a packet with this mark arrives; -1: nothing. */
static int arrives(unsigned mark, bool for_ring, unsigned loopback_index, uint32_t other_bytes)
{
    uint8_t packet[PACKET] = {(uint8_t)(mark >> 8), (uint8_t)mark}, got[PACKET];
    struct sockaddr_in at;
    int to = open_socket(&at), from = open_sender(for_ring);
    ssize_t n;

    filter(to, loopback_index, other_bytes);
    assert_int_equal(sendto(from, packet, sizeof(packet), 0, (struct sockaddr *)&at, sizeof(at)), PACKET);
    n = recv(to, got, sizeof(got), MSG_DONTWAIT);
    close(to);
    close(from);
    return (int)n;
}

static void packets_with_a_place_arrive_whole(void **state)
{
    (void)state;
    assert_int_equal(arrives(EMX_PLACE_MARK_OFF, false, 0, 0), PACKET);
    assert_int_equal(arrives(EMX_PLACE_MARK_HEADER, false, 0, 0), PACKET);
}

static void others_are_cut_or_dropped(void **state)
{
    static const unsigned no_mark = EMX_PLACE_MARK_OFF ^ EMX_PLACE_MARK_HEADER ^ 0x1000;
    const unsigned lo = if_nametoindex("lo");

    (void)state;
    assert_true(no_mark != EMX_PLACE_MARK_OFF && no_mark != EMX_PLACE_MARK_HEADER && lo > 0);
    assert_int_equal(arrives(no_mark, false, 0, 0), -1);
    assert_int_equal(arrives(no_mark, false, 0, OTHER_BYTES), OTHER_BYTES - UDP_BYTES);
    assert_int_equal(arrives(EMX_PLACE_MARK_OFF, true, 0, 0), -1);
    assert_int_equal(arrives(EMX_PLACE_MARK_OFF, true, 0, OTHER_BYTES), OTHER_BYTES - UDP_BYTES);
    assert_int_equal(arrives(EMX_PLACE_MARK_HEADER, false, lo, 0), -1);
    assert_int_equal(arrives(EMX_PLACE_MARK_HEADER, false, lo, OTHER_BYTES), OTHER_BYTES - UDP_BYTES);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(packets_with_a_place_arrive_whole),
        cmocka_unit_test(others_are_cut_or_dropped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
