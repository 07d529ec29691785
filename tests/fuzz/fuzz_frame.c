/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frames from the network, one after the other, to an engine that is connected and has operations open. Half of them
 * get the right id, cookie and checksum (or tag, where there is authentication), to come to their handlers.
 *
 *     input: 1 byte of settings; frames, each: 2 bytes of length, 1 byte of what is set right, the frame
 *
 * Where the route is reliable some become short frames, elsewhere a piece that is whole, with the frame inside. Half of
 * the requests of one-sided operations name memory that is exposed.
 */
#include "core/format/rma_frame.h"
#include "fuzz.h"
#include "history.h"
#include "node.h"

/* Short frames have the same places for what they have of a header. */
static void put_short(struct history *h, uint8_t *data, uint32_t len_bytes, unsigned what)
{
    struct emx_short *f = (void *)data;

    if (len_bytes < sizeof(*f))
        return;
    f->version = EMX_FRAME_V_SHORT;
    f->type = EMX_F_eager;
    if (what & 8)
        f->seq = history_next_seq(h, 1, 0);
}

/* Puts a frame into a piece: header, piece's header, frame. */
static void put_in_piece(struct history *h, uint8_t **data_p, uint32_t *len_bytes_p)
{
    uint32_t inner_bytes = *len_bytes_p;
    struct emx_frame *f = (void *)*data_p, *outer;

    if (inner_bytes < sizeof(*f))
        return;
    f->version = EMX_FRAME_V_OFF;
    f->check = 0;
    outer = malloc(sizeof(*outer) + sizeof(struct emx_f_fragment) + inner_bytes);
    FUZZ_CHECK(outer, "no memory");
    *outer = (struct emx_frame){.version = EMX_FRAME_V_OFF,
                                .type = EMX_F_fragment,
                                .body_bytes = (uint16_t)(sizeof(struct emx_f_fragment) + inner_bytes),
                                .dst_id = history_id(h, 0),
                                .cookie = history_cookie(),
                                .src_id = history_id(h, 1),
                                .ack = f->ack,
                                .credit = f->credit};
    *(struct emx_f_fragment *)(outer + 1) =
        (struct emx_f_fragment){.number = f->seq, .total_bytes = (uint16_t)inner_bytes};
    memcpy((uint8_t *)(outer + 1) + sizeof(struct emx_f_fragment), f, inner_bytes);
    free(f);
    *data_p = (void *)outer;
    *len_bytes_p += sizeof(*outer) + sizeof(struct emx_f_fragment);
}

/* Requests name the exposed memory, unless their first key byte is odd, and a place near to it. */
static void put_key(struct emx_frame *f, uint32_t len_bytes)
{
    struct emx_f_rma *r = (void *)(f + 1);

    if (f->type < EMX_F_rma_put || f->type > EMX_F_rma_put_rts || len_bytes < sizeof(*f) + sizeof(*r) || r->key & 1)
        return;
    r->key = FUZZ_REGION_KEY;
    r->offset %= FUZZ_REGION_BYTES + 64;
    r->len_bytes %= 2 * FUZZ_REGION_BYTES;
}

/* Returns whether the frame is sealed. */
static bool put_right(struct history *h, uint8_t **data_p, uint32_t *len_bytes_p, unsigned what)
{
    struct emx_frame *f = (void *)*data_p;
    uint32_t len_bytes = *len_bytes_p;

    if (len_bytes < sizeof(*f))
        return false;
    if (what & 1) {
        f->dst_id = history_id(h, 0);
        f->cookie = history_cookie();
        f->src_id = history_id(h, 1);
    }
    if (what & 2)
        f->body_bytes = (uint16_t)(len_bytes - sizeof(*f));
    if (what & 4)
        f->type = (uint8_t)(1 + f->type % (EMX_F_COUNT - 1));
    put_key(f, len_bytes);
    if (what & 8 && f->type < EMX_F_COUNT && emx_frame_info[f->type].sequenced)
        f->seq = history_next_seq(h, 1, 0);
    if (what & 32 && history_reliable(h)) {
        put_short(h, *data_p, len_bytes, what);
        return true;
    }
    if (what & 32)
        put_in_piece(h, data_p, len_bytes_p);
    return what & 16 && history_seal(h, 1, 0, data_p, len_bytes_p, what >> 6 ? EMX_CHECKSUM_HEADER : EMX_CHECKSUM_FULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len_bytes)
{
    struct fuzz_input in = {data, len_bytes};
    struct history *h = history_begin(2, (unsigned)fuzz_number(&in, 1));

    history_connect(h, 0, 1);
    history_open_some(h);
    while (in.left_bytes) {
        uint32_t bytes = (uint32_t)fuzz_number(&in, 2) % 1601;
        unsigned what = (unsigned)fuzz_number(&in, 1);
        uint8_t *frame;
        bool sealed;

        if (bytes > in.left_bytes)
            bytes = (uint32_t)in.left_bytes;
        frame = fuzz_copy(in.at, bytes);
        in.at += bytes;
        in.left_bytes -= bytes;
        sealed = put_right(h, &frame, &bytes, what);
        history_input(h, 0, frame, bytes, sealed);
        free(frame);
    }
    history_quiet(h);
    history_end(h);
    return 0;
}
