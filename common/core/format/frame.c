/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frame: checking and sealing. Order of checks: first what shows that the frame is not for this endpoint, cheapest
 * first, then its checksum, and only then its content.
 */
#include "core/format/frame.h"

#include "base/config.h"
#include "base/crc32c.h"

#define EMX_FRAME_ROW(name, number, seqd, bytes, handler, help) [number] = {#name, seqd, bytes},
const struct emx_frame_info emx_frame_info[EMX_F_COUNT] = {EMX_FRAME_TYPES(EMX_FRAME_ROW)};

/* Types whose complete body counts as header: an address, or the headers of messages. */
static bool frame_is_header_wholly(const struct emx_frame *h)
{
    return h->type == EMX_F_hello || h->type == EMX_F_hello_ack || h->type == EMX_F_coalesced || h->type == EMX_F_moved;
}

/* Bytes covered by the checksum. type may have any value. */
static size_t frame_covered_bytes(const struct emx_frame *h)
{
    if (h->version == EMX_FRAME_V_FULL || frame_is_header_wholly(h))
        return sizeof(*h) + h->body_bytes;
    return sizeof(*h) + (h->type < EMX_F_COUNT ? emx_frame_info[h->type].head_bytes : 0);
}

bool emx_frame_sum_fits(const struct emx_frame *h)
{
    size_t len_bytes = frame_covered_bytes(h);

    if (h->version != EMX_FRAME_V_HEADER && h->version != EMX_FRAME_V_FULL)
        return false;
    return len_bytes <= sizeof(*h) + h->body_bytes && emx_crc32c_but(h, len_bytes - sizeof(*h)) == h->check;
}

enum emx_drop emx_frame_check(const uint8_t *data, uint32_t len_bytes, uint32_t my_id, uint32_t my_cookie)
{
    const struct emx_frame *h = (const void *)data;

    if (len_bytes < sizeof(*h))
        return EMX_DROP_SHORT;
    if (h->version != EMX_FRAME_V_HEADER && h->version != EMX_FRAME_V_FULL && h->version != EMX_FRAME_V_OFF)
        return EMX_DROP_VERSION;
    if (h->dst_id != my_id)
        return EMX_DROP_NOT_MINE;
    if (h->cookie != my_cookie)
        return EMX_DROP_COOKIE;
    if (len_bytes < sizeof(*h) + h->body_bytes)
        return EMX_DROP_SHORT;
    if (!emx_frame_unhurt(h))
        return EMX_DROP_CHECK;
    if (h->type >= EMX_F_COUNT || !emx_frame_info[h->type].name)
        return EMX_DROP_TYPE;
    if (h->body_bytes < emx_frame_info[h->type].head_bytes)
        return EMX_DROP_MALFORMED;
    return EMX_ACCEPTED;
}

void emx_frame_seal(void *head, size_t head_bytes, const void *tail, size_t tail_bytes, unsigned level)
{
    static const uint8_t version[] = {[EMX_CHECKSUM_OFF] = EMX_FRAME_V_OFF,
                                      [EMX_CHECKSUM_HEADER] = EMX_FRAME_V_HEADER,
                                      [EMX_CHECKSUM_FULL] = EMX_FRAME_V_FULL};
    struct emx_frame *h = head;
    size_t covered;

    h->version = version[level];
    h->check = 0;
    if (level == EMX_CHECKSUM_OFF)
        return;
    covered = frame_covered_bytes(h);
    if (covered <= head_bytes)
        h->check = emx_crc32c(0, h, covered);
    else
        h->check = emx_crc32c(emx_crc32c(0, h, head_bytes), tail, tail_bytes);
}
