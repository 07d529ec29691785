/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Path MTU probing: whether long frames still arrive on a connected route, and which length does if not.
 */
#ifndef EMX_CORE_PATH_MTU_H
#define EMX_CORE_PATH_MTU_H

#include <stddef.h>
#include <stdint.h>

#include "core/format/frame.h"
#include "core/time.h"

struct emx_route;
struct emx_session;

/* Frame bytes that an MTU of 1500 carries on this route, or over Ethernet. */
uint16_t emx_path_mtu_common(const struct emx_route *r);

/* The next shorter length to try on this route, in bytes; 0: none is left. */
uint16_t emx_path_mtu_shorter(const struct emx_route *r, unsigned bytes);

/* Frames of that length, without a tag, seem to get lost: probes whether the length is the cause. */
void emx_path_mtu_probe(struct emx_session *s, size_t frame_bytes, emx_time now);

/* A hello_ack has come while emx_connect.mtu_probing. */
enum emx_drop emx_path_mtu_answered(struct emx_session *s, const struct emx_f_hello *t, emx_time now);

/* Timer, while emx_connect.mtu_probing. May end the session. */
void emx_path_mtu_expire(struct emx_session *s, emx_time now);

#endif
