/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Calls from lower layers of the protocol to upper ones. The order of layers is format, cc, rel, msg, rma, engine.
 * Calls go down only. A lower layer calls upper ones through this table, which engine.c fills. No function may end the
 * session it is about, except end().
 */
#ifndef EMX_CORE_UPCALLS_H
#define EMX_CORE_UPCALLS_H

#include <stddef.h>
#include <stdint.h>

#include "core/format/frame.h"
#include "core/time.h"

struct emx_engine;
struct emx_op;
struct emx_route;
struct emx_session;

typedef enum emx_drop (*emx_input_fn)(struct emx_session *s, const uint8_t *data, emx_time now);

struct emx_upcalls {
    /* By type: the handlers of sequenced frames, called in order. */
    const emx_input_fn *in_order;

    /* Handles a reassembled frame, of the link of the frame being handled. Does not count it. */
    enum emx_drop (*dispatch)(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now);

    /* The session begins: it has no route yet. */
    void (*opened)(struct emx_session *s);

    /* The session uses this route from now on; link and seal are set. NULL: a route that only carries frames, without a
     * measured round trip. */
    void (*routed)(struct emx_session *s, const struct emx_route *r);

    void (*connected)(struct emx_session *s);

    /* Ends the broken session, and completes its peer's operations. state: enum emx_state. */
    void (*end)(struct emx_session *s, unsigned state, int status, emx_time now);

    /* Nothing is sent to the peer or expected of it any more: an incomplete message will not complete. status: of all
     * operations with the peer; ETHMX_OK: the caller completes them. Another peer gets its place in the handshake. */
    void (*stopped)(struct emx_session *s, int status, emx_time now);

    /* A message may have left the pull window: others may request more. */
    void (*pull_more)(struct emx_engine *e, emx_time now);

    /* The longest frame to the peer has changed. */
    void (*resized)(struct emx_session *s);

    /* The session is about to leave its link. */
    void (*moved)(struct emx_session *s, emx_time now);

    /* This rail of a connected session carries nothing any more: what was asked or is to be sent over it takes others.
     * Without rails: rail 0. */
    void (*rail_lost)(struct emx_session *s, unsigned rail);

    /* A one-sided operation has completed here with this status. May free it. */
    void (*rma_ended)(struct emx_engine *e, struct emx_op *op, int status);

    /* Frames of that length, without a tag, seem to get lost. */
    void (*frames_lost)(struct emx_session *s, size_t frame_bytes, emx_time now);
};

#endif
