/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Frame: the complete wire format and its limits. Only frame.c and the handlers of the types use these layouts. All
 * numbers are little-endian. docs/protocol.md explains them.
 *
 *      0        1        2        3
 *  0  | version| type   | body_bytes      |  version: EMX_FRAME_V_*; body: what follows the 32 bytes, without padding
 *  4  | dst_id                            |  incarnation of the receiving endpoint
 *  8  | cookie                            |  of the receiving endpoint's job
 * 12  | src_id                            |  incarnation of the sending endpoint
 * 16  | seq                               |  of a sequenced frame; otherwise 0
 * 20  | ack                               |  next sequence number expected from the receiver of this frame
 * 24  | credit                            |  eager bytes that the receiver of this frame may have sent, mod 2^32
 * 28  | check                             |  CRC-32C over what version says, this field as 0; 0 for none
 * 32  | type-specific header, then data   |
 */
#ifndef EMX_CORE_FRAME_H
#define EMX_CORE_FRAME_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/format/drop.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "frame.h reads fields in place: a big-endian host needs swapping accessors"
#endif

/* The first byte: protocol version 1, and what the checksum covers. The values differ from each other in four bits, so
 * that damage does not turn one into another. A receiver accepts each of them. */
#define EMX_FRAME_V_OFF    0xE1 /* nothing; check is 0 */
#define EMX_FRAME_V_HEADER 0xD2 /* this header and that of the type; all of hello, hello_ack, moved, coalesced */
#define EMX_FRAME_V_FULL   0xB4 /* all */

#define EMX_FRAME_V_TAGGED 0x78 /* the first byte of a tag; it also differs in four bits */
#define EMX_FRAME_V_SHORT  0x87 /* that of a short frame, below; only wires without loss and damage carry these */

#define EMX_FRAME_MIN 256 /* a usable wire carries at least this */
#define EMX_FRAME_MAX 65535

/* Frames may start at any byte (one of several in a GSO packet), so the layouts need no alignment. */
#define EMX_LAYOUT __attribute__((packed, aligned(1)))

struct EMX_LAYOUT emx_frame {
    uint8_t version, type;
    uint16_t body_bytes;
    uint32_t dst_id, cookie, src_id;
    uint32_t seq, ack, credit, check;
};
static_assert(sizeof(struct emx_frame) == 32, "frame header");

/* With ETHMX_AUTH=on this precedes the header. See tag.c.
 *
 *      0        1        2        3
 *  0  | version| key    | frame_bytes     |  version: EMX_FRAME_V_TAGGED; key: enum emx_tag_key; of the frame alone
 *  4  | dst_id                             |  as in the frame
 *  8  | tag                                |  over all that follows; key says whose secret made it
 * 16  | number                             |  of the frame, from its sender to this receiver; from 1, none twice
 * 24  | the frame, of EMX_FRAME_V_OFF      |
 */
struct EMX_LAYOUT emx_tag {
    uint8_t version, key;
    uint16_t frame_bytes;
    uint32_t dst_id;
    uint64_t tag, number;
};
static_assert(sizeof(struct emx_tag) == 24, "tag");

enum emx_tag_key {
    EMX_TAG_OF_RECEIVER, /* made from the receiver's secret */
    EMX_TAG_OF_SENDER,   /* made from the sender's secret, if the receiver's is unknown */
    EMX_TAG_KEYS
};

/* X(name, number, sequenced, bytes of its own header, handler, meaning). The handler is known to engine_input.c only.
 * Sequenced frames arrive once and in order. The others may be lost, and their senders repeat them. */
/* clang-format off */
#define EMX_FRAME_TYPES(X) \
    X(hello,   1, 0, 16, input_hello, "asks for a connection; small and full-sized") \
    X(hello_ack, 2, 0, 16, input_hello_ack, "answers a hello of the same size") \
    X(ack,     3, 0, 16, input_ack, "acknowledges, with a map of frames that arrived early") \
    X(ping,    4, 0,  0, input_ping, "asks for a sign of life") \
    X(pong,    5, 0,  0, input_pong, "answers a ping") \
    X(close,   6, 0,  0, input_close, "the endpoint has closed; ack is final") \
    X(eager,   7, 1, 24, emx_eager_input, "a message, or its first part") \
    X(more,    8, 1,  8, emx_eager_input_more, "a further part of the eager message under way") \
    X(rts,     9, 1, 32, emx_rndv_input_rts, "a message that waits to be pulled (request to send)") \
    X(pull,   10, 0, 32, emx_rndv_input_pull, "asks for frames of a block of a message") \
    X(data,   11, 0, 16, emx_rndv_input_data, "one frame of a pulled block") \
    X(fin,    12, 1, 16, emx_rndv_input_fin, "the message has been pulled as far as it is wanted") \
    X(matched,13, 1,  8, emx_eager_input_matched, "a synchronous eager message has been matched") \
    X(coalesced, 14, 1,  8, emx_coalesce_input, "several small messages") \
    X(fragment, 15, 0,  8, emx_fragment_input, "a fragment of a frame that has become too long for its route") \
    X(rkey_request, 16, 1, 32, emx_exported_input_rkey_request, "asks for the key to more of a message that devices read") \
    X(rkey_reply, 17, 1, 32, emx_get_input_rkey_reply, "answers it") \
    X(shorter,18, 0,  8, emx_rndv_input_shorter, "answers a pull whose chunks have become too long for the route") \
    X(compact, 19, 1,  8, emx_eager_input_compact, "a message that needs nothing told but its bits, over a wire with connections") \
    X(rtr, 20, 1, 40, emx_put_input, "asks for a part of a message to be written by the sender's device (ready to receive)") \
    X(put_done, 21, 1, 16, emx_put_input_done, "answers it") \
    X(recall, 22, 0,  8, emx_credit_input_recall, "asks for credit back that is not used") \
    X(given,  23, 1,  8, emx_credit_input_given, "gives credit back") \
    X(rma_put, 24, 1, 32, emx_rma_input_put, "data for memory that the receiver has exposed") \
    X(rma_get, 25, 1, 32, emx_rma_input_get, "asks for data of such memory") \
    X(rma_atomic, 26, 1, 32, emx_rma_input_atomic, "changes elements of such memory") \
    X(rma_put_rts, 27, 1, 48, emx_rma_input_put_rts, "a long put that waits to be pulled") \
    X(rma_get_rts, 28, 1, 24, emx_rma_input_get_rts, "answers a get: its data waits to be pulled") \
    X(rma_reply, 29, 1,  8, emx_rma_input_reply, "answers a get or an atomic with data") \
    X(rma_done, 30, 1, 16, emx_rma_input_done, "answers one-sided operations without data") \
    X(route_probe, 31, 0, 8, emx_failover_input_probe, "asks whether a route reaches the peer") \
    X(route_reply, 32, 0, 8, emx_failover_input_reply, "answers it") \
    X(rail,   33, 0,  8, emx_rail_input, "asks whether a rail carries frames, or answers over it") \
    X(doubled, 34, 0, 8, input_doubled, "tells how many frames have arrived twice") \
    X(moved,  35, 0, 16, emx_failover_input_moved, "a route_probe whose sender has other addresses than before") \
    X(chunk,  36, 1, 16, emx_chunk_input, "consecutive chunks of an eager message, each with its sequence number")
/* clang-format on */

#define EMX_FRAME_ENUM(name, number, seqd, bytes, handler, help) EMX_F_##name = (number),
enum emx_frame_type { EMX_FRAME_TYPES(EMX_FRAME_ENUM) EMX_F_COUNT = 37 };

struct emx_frame_info {
    const char *name;
    bool sequenced;
    uint8_t head_bytes;
};
extern const struct emx_frame_info emx_frame_info[EMX_F_COUNT]; /* by type; unknown: name NULL */

/* hello, hello_ack. A full-sized one is padded with zeros to the probed length. The address of the sender follows. */
struct EMX_LAYOUT emx_f_hello {
    uint16_t addr_bytes;
    uint16_t frame_bytes; /* length of this frame: the probe */
    uint16_t max_bytes;   /* longest frame that the sender accepts over this route */
    uint16_t window;      /* sequenced frames that the sender of the hello accepts beyond ack */
    uint32_t probe;       /* returned in the hello_ack */
    uint16_t ack_delay;   /* longest delay of the sender's acknowledgements, in EMX_HELLO_DELAY_NS, rounded up */
    uint16_t timeout; /* after which it declares a silent peer dead, in EMX_HELLO_TIMEOUT_NS; UINT16_MAX: that or later.
                         0: neither field is set */
};
static_assert(sizeof(struct emx_f_hello) == 16, "hello");
#define EMX_HELLO_DELAY_NS   16000u
#define EMX_HELLO_TIMEOUT_NS 100000000u

struct EMX_LAYOUT emx_f_ack {
    uint64_t early;  /* bit i: frame ack+1+i has arrived */
    uint32_t joined; /* as in pull */
    uint32_t marked; /* sequenced frames that the sender of the ack received with a congestion mark, mod 2^32 */
};
static_assert(sizeof(struct emx_f_ack) == 16, "ack");

/* Flags of eager and rts. */
#define EMX_FF_SYNC      1u  /* reply with matched */
#define EMX_FF_AM        2u  /* an active message: bits is the handler's number */
#define EMX_FF_STARVED   4u  /* rts: used only because credit is missing */
#define EMX_FF_READ      8u  /* rts: the data's address in the sender's process (64 bits) ends the frame */
#define EMX_FF_LENT      16u /* rts: struct emx_f_lent ends the frame */
#define EMX_FF_REMOTE    32u /* not with AM: the header is the remote data (ethmx_remote.h) */
#define EMX_REMOTE_BYTES 8u  /* its length */
#define EMX_FF_UNTAGGED  64u /* not with AM: only receives of untagged messages take it (ethmx_untagged.h) */

struct EMX_LAYOUT emx_f_eager {
    uint64_t bits;
    uint32_t total_bytes; /* of the message, header of an active message included */
    uint32_t op;          /* sync: the sender's operation, returned in matched */
    uint16_t am_header_bytes;
    uint16_t flags;
    uint32_t joined; /* as in pull */
};
static_assert(sizeof(struct emx_f_eager) == 24, "eager");

/* A complete standard message; the data follow. Used instead of eager if there are no GSO packets to report. It is
 * shorter, because devices take only few bytes inline. */
struct EMX_LAYOUT emx_f_compact {
    uint64_t bits;
};
static_assert(sizeof(struct emx_f_compact) == 8, "compact");

struct EMX_LAYOUT emx_f_more {
    uint32_t offset;
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_more) == 8, "more");

struct EMX_LAYOUT emx_f_rts {
    uint64_t bits;
    uint64_t total_bytes; /* of the data to pull, without the header of an active message, which follows the rts, before
                             the address if there is one */
    uint32_t op;          /* the sender's operation */
    uint16_t am_header_bytes;
    uint16_t flags;
    uint16_t chunk_bytes; /* longest data in one frame of a block */
    uint16_t pushed;      /* so many of the first chunks follow without a pull; at most EMX_PUSH_MOST */
    uint16_t reserved[2];
};
static_assert(sizeof(struct emx_f_rts) == 32, "rts");

#define EMX_PUSH_MOST 64u

/* The end of an rts: a device may read the data. */
struct EMX_LAYOUT emx_f_lent {
    uint64_t remote;    /* the data's address in the sender's process */
    uint64_t key;       /* of the wire: valid for the connection that carried it */
    uint64_t len_bytes; /* valid for this length from the beginning; 0: to be requested */
};
static_assert(sizeof(struct emx_f_lent) == 24, "lent");

struct EMX_LAYOUT emx_f_pull {
    uint32_t op, rop;     /* the sender's operation, from the rts; the receiver's, returned in data */
    uint64_t first;       /* index of the block's first chunk */
    uint64_t wanted;      /* bit i: chunk first+i is wanted */
    uint8_t round;        /* counts the attempts for this block (after 255: 1), returned in data */
    uint8_t rail : 4;     /* over which the data is to come: its number at the sender of the data */
    uint8_t more : 4;     /* whole blocks of as many chunks behind this one (then round 0, and wanted without gaps) */
    uint16_t chunk_bytes; /* unit of first and wanted */
    uint32_t joined;      /* GSO packets from the receiver of this pull that arrived properly joined, mod 2^32 */
};
static_assert(sizeof(struct emx_f_pull) == 32, "pull");

/* The answer is padded with zeros to the length of the rail's longest data frames. */
struct EMX_LAYOUT emx_f_rail {
    uint8_t rail;   /* number of the rail, at the sender of the answer */
    uint8_t answer; /* 0: a question, 1: the answer */
    uint16_t reserved;
    uint32_t number; /* returned in the answer */
};
static_assert(sizeof(struct emx_f_rail) == 8, "rail");

struct EMX_LAYOUT emx_f_data {
    uint32_t rop;         /* from the pull; pushed: the sender's operation, from the rts */
    uint8_t round;        /* from the pull; pushed: 0 */
    uint8_t rail : 4;     /* over which it is sent */
    uint8_t pushed : 4;   /* 1: there was no pull */
    uint16_t chunk_bytes; /* from the pull, or the rts */
    uint64_t chunk;       /* index */
};
static_assert(sizeof(struct emx_f_data) == 16, "data");

struct EMX_LAYOUT emx_f_shorter {
    uint32_t rop;         /* from the pull */
    uint16_t chunk_bytes; /* longest data in a frame that the route carries now */
    uint16_t reserved;
};
static_assert(sizeof(struct emx_f_shorter) == 8, "shorter");

struct EMX_LAYOUT emx_f_fin {
    uint32_t op;
    uint32_t reserved;
    uint64_t pulled_bytes;
};
static_assert(sizeof(struct emx_f_fin) == 16, "fin");

struct EMX_LAYOUT emx_f_rkey_request {
    uint32_t op;         /* the sender's operation, from the rts */
    uint32_t rop;        /* the receiver's, returned in rkey_reply */
    uint64_t offset;     /* from here on */
    uint64_t done_bytes; /* this has arrived: it need not be exported any longer */
    uint32_t again;      /* 1: the last key is no longer valid */
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_rkey_request) == 32, "rkey_request");

struct EMX_LAYOUT emx_f_rkey_reply {
    uint32_t rop;
    uint32_t reserved;
    uint64_t offset; /* as requested */
    uint64_t key;
    uint64_t len_bytes; /* from offset; 0: pull the rest */
};
static_assert(sizeof(struct emx_f_rkey_reply) == 32, "rkey_reply");

struct EMX_LAYOUT emx_f_rtr {
    uint32_t op;        /* the sender's operation, from the rts */
    uint32_t rop;       /* the receiver's, returned in put_done */
    uint64_t remote;    /* where the message begins in the receiver's process */
    uint64_t key;       /* of the wire: valid for the connection that carried it */
    uint64_t offset;    /* write from here on */
    uint64_t len_bytes; /* this length; 0: nothing, only the reply is wanted */
};
static_assert(sizeof(struct emx_f_rtr) == 40, "rtr");

enum emx_put_status {
    EMX_PUT_DONE,         /* the data was written */
    EMX_PUT_DONE_REFUSED, /* nothing of it will be written: pull the rest of the message */
    EMX_PUT_DONE_STALE,   /* nothing of it will be written with this key; another may be valid */
    EMX_PUT_DONE_FAILED,  /* unknown what was written, and what may still be */
    EMX_PUT_DONE_COUNT
};

struct EMX_LAYOUT emx_f_put_done {
    uint32_t rop;
    uint32_t status; /* enum emx_put_status */
    uint64_t end;    /* end of the requested part in the message */
};
static_assert(sizeof(struct emx_f_put_done) == 16, "put_done");

/* recall: requests a lower limit on eager bytes than in the header. given: the sender applies it from now on. */
struct EMX_LAYOUT emx_f_recall {
    uint32_t limit; /* mod 2^32 */
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_recall) == 8, "recall");

struct EMX_LAYOUT emx_f_doubled {
    uint32_t frames; /* sequenced ones that had arrived before, since the session began, mod 2^32 */
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_doubled) == 8, "doubled");

/* route_probe; route_reply returns it. */
struct EMX_LAYOUT emx_f_route_probe {
    uint32_t number;  /* of the search */
    uint8_t route;    /* number of the route, at the sender of the probe */
    uint8_t searches; /* 1: it hears nothing from the receiver, which should probe its own routes */
    uint16_t lost;    /* mask: interfaces in the sender's address that carry nothing now */
};
static_assert(sizeof(struct emx_f_route_probe) == 8, "route_probe");

/* Begins as route_probe. The sender's address follows. */
struct EMX_LAYOUT emx_f_moved {
    uint32_t number;
    uint8_t route, searches;
    uint16_t lost;
    uint32_t moves; /* how often an interface of the sender has got another address */
    uint16_t addr_bytes, reserved;
};
static_assert(sizeof(struct emx_f_moved) == 16, "moved");

struct EMX_LAYOUT emx_f_matched {
    uint32_t op;
    uint32_t reserved;
};
static_assert(sizeof(struct emx_f_matched) == 8, "matched");

/* Parts follow, without gaps, to the end of the body; at least one. */
struct EMX_LAYOUT emx_f_coalesced {
    uint32_t reserved[2];
};
static_assert(sizeof(struct emx_f_coalesced) == 8, "coalesced");

/* A part: this header, then its message's data. */
struct EMX_LAYOUT emx_f_part {
    uint64_t bits;
    uint16_t len_bytes;
    uint16_t flags; /* 0 */
};
static_assert(sizeof(struct emx_f_part) == 12, "part of a coalesced frame");

/* A short frame: a complete standard eager message over a reliable link. It is sequenced like others. Header fields
 * that it omits would be 0, or have no meaning on such links. So a few bytes of data share a cache line with it. The
 * first 16 bytes are those of struct emx_frame. */
struct EMX_LAYOUT emx_short {
    uint8_t version, type; /* EMX_FRAME_V_SHORT, EMX_F_eager */
    uint16_t body_bytes;   /* the message's data */
    uint32_t dst_id, cookie, src_id;
    uint32_t seq, credit;
    uint64_t bits;
};
static_assert(sizeof(struct emx_short) == 32, "short frame");
static_assert(offsetof(struct emx_short, seq) == offsetof(struct emx_frame, seq), "short frames begin as others do");

/* The fragment follows, to the end of the body. */
struct EMX_LAYOUT emx_f_fragment {
    uint32_t number;      /* of the frame: its seq */
    uint16_t offset;      /* of the fragment in it: a multiple of 8, like the length of all but the last */
    uint16_t total_bytes; /* of the frame, its header included */
};
static_assert(sizeof(struct emx_f_fragment) == 8, "fragment");

static inline bool emx_seq_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* The accepted frame, behind its tag if it has one. */
static inline const struct emx_frame *emx_frame_within(const uint8_t *data)
{
    return (const void *)(data[0] == EMX_FRAME_V_TAGGED ? data + sizeof(struct emx_tag) : data);
}

/* Checks a received frame before any other use: length, version, destination, cookie, checksum, type, room for the
 * header of the type. Afterwards body_bytes and the type can be trusted. */
enum emx_drop emx_frame_check(const uint8_t *data, uint32_t len_bytes, uint32_t my_id, uint32_t my_cookie);

/* Whether the frame has a checksum, and it is correct. body_bytes have arrived. */
bool emx_frame_sum_fits(const struct emx_frame *h);

/* Whether the frame needs no checksum, or its checksum is correct: the rest of emx_frame_check() for a caller that has
 * checked everything else. */
static inline bool emx_frame_unhurt(const struct emx_frame *h)
{
    return h->version == EMX_FRAME_V_OFF ? !h->check : emx_frame_sum_fits(h);
}

/* Sets version by level (enum emx_checksum), computes and stores check of a finished frame. tail (may be NULL) is the
 * end of the body if it is in another place. head_bytes are at least the header and that of the type. */
void emx_frame_seal(void *head, size_t head_bytes, const void *tail, size_t tail_bytes, unsigned level);

#endif
