/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "../unit/unit.h"

#include <linux/virtio_net.h>
#include <string.h>
#include <sys/uio.h>

#include "base/crc32c.h"
#include "base/hash.h"
#include "chunks.h"
#include "mangled.h"

#define DATA_MOST 65536

static unsigned body_bytes(const struct chunks *c, unsigned i)
{
    return i + 1 < c->n ? c->chunk_bytes : c->last_bytes;
}

/* The head of chunk i for an end. */
static struct emx_place_head head_of(const struct chunks *c, const struct end *to, bool checked, unsigned i)
{
    const unsigned mark = checked ? EMX_PLACE_MARK_HEADER : EMX_PLACE_MARK_OFF;
    struct emx_place_head h = {.version = (uint8_t)(mark >> 8),
                               .type = mark & 0xff,
                               .body_bytes = (uint16_t)(sizeof(h) - EMX_PLACE_FRAME_BYTES + body_bytes(c, i)),
                               .message = {1, 2, 3, 4, 5, 6},
                               .chunk_bytes = (uint16_t)c->chunk_bytes,
                               .chunk = c->first + i};

    memcpy(h.ids, &to->id, sizeof(to->id));
    if (checked)
        h.check = emx_crc32c_but(&h, sizeof(h) - EMX_PLACE_FRAME_BYTES);
    return h;
}

/* The data of a chunk. */
static void fill(uint8_t *at, uint64_t chunk, unsigned len_bytes)
{
    for (unsigned i = 0; i < len_bytes; i++)
        at[i] = (uint8_t)(emx_mix64((chunk << 16) + i / 8) >> (8 * (i % 8)));
}

/* The frame that is sent, with head and data. */
static struct emx_txframe frame_of(const struct chunks *c, const struct end *to, const struct emx_wire_addr *way,
                                   struct emx_place_head *head, uint8_t *data)
{
    const unsigned data_bytes = (c->n - 1) * c->chunk_bytes + c->last_bytes;

    assert_true(c->n * c->chunk_bytes <= DATA_MOST);
    *head = head_of(c, to, c->checked, 0);
    head->body_bytes = (uint16_t)(sizeof(*head) - EMX_PLACE_FRAME_BYTES + data_bytes);
    for (unsigned i = 0; i < c->n; i++)
        fill(data + i * c->chunk_bytes, c->first + i, body_bytes(c, i));
    return (struct emx_txframe){.to = way,
                                .head = head,
                                .head_bytes = sizeof(*head),
                                .body = data,
                                .body_bytes = (uint16_t)data_bytes,
                                .chunk_bytes = (uint16_t)c->chunk_bytes,
                                .gso = true};
}

void chunks_send(const struct chunks *c, struct end *from, const struct end *to)
{
    static uint8_t data[DATA_MOST];
    const struct emx_wire_addr way = end_way(from, to);
    struct emx_place_head head;
    const struct emx_txframe f = frame_of(c, to, &way, &head, data);

    assert_true(from->ops->tx_room(from->w) >= c->n);
    end_tx(from, &f, 1);
}

/* Completes the TCP checksum, as a sending kernel does it: the field has the sum over the pseudo header. */
static void complete_sum(uint8_t *packet, unsigned data_bytes)
{
    enum { TCP = EMX_TSO_HEAD_BYTES - EMX_TSO_TCP_BYTES, SUM = TCP + 16 };
    unsigned sum = 0;

    packet[EMX_TSO_HEAD_BYTES + data_bytes] = 0;
    for (unsigned i = TCP; i < EMX_TSO_HEAD_BYTES + data_bytes; i += 2)
        sum += (unsigned)packet[i] << 8 | packet[i + 1];
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    packet[SUM] = (uint8_t)(~sum >> 8);
    packet[SUM + 1] = (uint8_t)~sum;
}

void chunks_send_damaged(const struct chunks *c, const struct end *from, const struct end *to)
{
    static uint8_t packet[EMX_TSO_HEAD_BYTES + DATA_MOST + 1];
    const struct emx_gso_way way = mangled_way(from, to);
    struct emx_place_head head;
    const struct emx_txframe f = frame_of(c, to, NULL, &head, packet + EMX_TSO_HEAD_BYTES);
    struct virtio_net_hdr vnet = {.gso_type = VIRTIO_NET_HDR_GSO_NONE};
    struct iovec iov[] = {{.iov_base = &vnet, .iov_len = sizeof(vnet)},
                          {.iov_base = packet, .iov_len = c->damage.sent_bytes}};

    if (!c->damage.sent_bytes)
        iov[1].iov_len = EMX_TSO_HEAD_BYTES + f.body_bytes;
    emx_tso_head(packet, &way, &f);
    complete_sum(packet, f.body_bytes);
    packet[EMX_TSO_HEAD_BYTES - EMX_TSO_IP_BYTES + c->damage.at] ^= c->damage.change;
    mangled_send_pieces(from, to, iov, 2);
}

/* How many chunks from i on it has, which must be right; 0: it is of a damaged packet. */
static unsigned chunks_in(const struct chunks *c, const struct end *to, const struct emx_rxframe *rx, unsigned i)
{
    static uint8_t data[DATA_MOST];
    struct emx_place_head want = head_of(c, to, false, i), h;
    unsigned data_bytes, n;

    assert_true(rx->len_bytes > sizeof(h));
    data_bytes = rx->len_bytes - (unsigned)sizeof(h);
    memcpy(&h, rx->data, sizeof(h));
    if (h.chunk < c->first || h.chunk >= c->first + CHUNKS_APART)
        return 0;
    n = (data_bytes + c->chunk_bytes - 1) / c->chunk_bytes;
    assert_in_range(n, 1, c->n - i);
    assert_int_equal(data_bytes, (n - 1) * c->chunk_bytes + body_bytes(c, i + n - 1));
    want.body_bytes = (uint16_t)(sizeof(h) - EMX_PLACE_FRAME_BYTES + data_bytes);
    assert_memory_equal(&h, &want, sizeof(h));
    for (unsigned k = 0; k < n; k++)
        fill(data + k * c->chunk_bytes, c->first + i + k, body_bytes(c, i + k));
    assert_memory_equal(rx->body ? rx->body : rx->data + sizeof(h), data, data_bytes);
    return n;
}

void chunks_expect(const struct chunks *c, struct end *to)
{
    struct emx_rxframe rx[EMX_WIRE_BATCH];
    unsigned n, came = 0;

    while (came < c->n) {
        n = end_wait(to, rx, EMX_WIRE_BATCH);
        if (!n)
            fail_msg("%u of %u chunks from %u on came", came, c->n, c->first);
        for (unsigned i = 0; i < n; i++)
            came += chunks_in(c, to, &rx[i], came);
        to->ops->rx_return(to->w, rx, n);
    }
}
