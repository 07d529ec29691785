/* SPDX-License-Identifier: BSD-3-Clause
 *
 * GSO packet: several frames back to back in one UDP packet, of equal length except that the last may be shorter. It is
 * of IPv4, or of IPv6 without extension headers.
 * The kernel or the network card segments the packet at the frame boundaries, and the receiver's may reassemble the
 * segments. So a receiver gets the packet as it was sent, or in any number of segments. Each frame has its own header.
 * Pure functions on bytes.
 */
#ifndef EMX_WIRE_GSO_H
#define EMX_WIRE_GSO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/ip.h"
#include "wire/wire.h"

#define EMX_GSO_HEAD_BYTES 42                  /* Ethernet, IPv4 and UDP headers */
#define EMX_GSO_IP_BYTES   28                  /* IPv4 and UDP headers */
#define EMX_GSO_IP6_BYTES  48                  /* IPv6 and UDP headers */
#define EMX_GSO_HEAD_MOST  62                  /* Ethernet, IPv6 and UDP headers */
#define EMX_GSO_MAX        EMX_WIRE_JOIN_BYTES /* bytes of all frames: with the kernel's own data it fills 64 KB */
#define EMX_GSO_PARTS      64                  /* frames: the limit of older kernels */

#define EMX_GSO_RING_PORT 1 /* set in the sender's port: the packet is for the receiver's ring */

/* Where a GSO packet comes from and goes to. */
struct emx_gso_way {
    uint8_t from_mac[6], to_mac[6];
    struct emx_ip from_ip, to_ip; /* of one family */
    uint16_t from_port, to_port;  /* host order */
    uint8_t tos;                  /* type of service, or traffic class */
    bool segments;                /* of TSO packets: the interface segments them, not the kernel */
};

/* Ethernet, IP and UDP headers. */
static inline unsigned emx_gso_head_bytes(bool v6)
{
    return v6 ? EMX_GSO_HEAD_MOST : EMX_GSO_HEAD_BYTES;
}

/* Bytes of a frame. */
static inline unsigned emx_gso_frame_bytes(const struct emx_txframe *f)
{
    return (unsigned)f->head_bytes + f->body_bytes;
}

/* Writes to iov where the bytes of n frames are, up to two places for each. Returns how many. */
unsigned emx_gso_iov(struct iovec *iov, const struct emx_txframe *f, unsigned n);

/* How many of the n frames at f can go as one packet of up to most_bytes; 1: only the first. Their lengths are
 * multiples of 4, so that each is aligned. gso_only: only frames with `gso` set follow the first. */
unsigned emx_gso_fit(const struct emx_txframe *f, unsigned n, unsigned most_bytes, bool gso_only);

/* Writes the headers of a packet with len_bytes of frames, and returns their length, emx_gso_head_bytes(). The sending
 * kernel computes the UDP checksum: the field holds the sum over the pseudo header. */
unsigned emx_gso_head(uint8_t *head, const struct emx_gso_way *way, size_t len_bytes);

/* A received packet whose frames are being taken. */
struct emx_gso {
    const uint8_t *at; /* the next frame */
    uint32_t left_bytes, part_bytes;
    uint32_t parts; /* complete frames in it */
    uint32_t lost;  /* frames that are missing or cut off */
    bool marked;    /* it has the congestion mark CE */
};

/* Starts with a packet of which len_bytes are at ip. part_bytes: the frames' length as the kernel reports it, 0: one
 * frame. false: it is no such packet. */
bool emx_gso_open(struct emx_gso *s, const uint8_t *ip, size_t len_bytes, size_t part_bytes);

/* The same with all len_bytes of the packet's frames, without headers. The packet is not marked. */
void emx_gso_open_frames(struct emx_gso *s, const uint8_t *frames, size_t len_bytes, size_t part_bytes);

/* The next frame and its length; NULL: no more. */
const uint8_t *emx_gso_next(struct emx_gso *s, uint32_t *len_bytes_p);

#endif
