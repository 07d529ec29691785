/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What lower layers of the protocol tell upper ones. The order of layers is format, cc, rel, msg, engine; calls go down
 * only. Where something must be told upwards, the lower layer calls through this table, which engine.c fills. Each
 * function may do anything but end the session it is about, except end().
 */
#ifndef EMX_CORE_UPCALLS_H
#define EMX_CORE_UPCALLS_H

#include <stddef.h>
#include <stdint.h>

#include "core/format/frame.h"
#include "core/time.h"

struct emx_engine;
struct emx_route;
struct emx_session;

typedef enum emx_drop (*emx_input_fn)(struct emx_session *s, const uint8_t *data, emx_time now);

struct emx_upcalls {
    /* By type: the handlers of sequenced frames, called when their turn has come. */
    const emx_input_fn *in_order;

    /* A frame that was put together from fragments, of the link of the frame being handled. Not counted. */
    enum emx_drop (*dispatch)(struct emx_engine *e, const uint8_t *data, uint32_t len_bytes, emx_time now);

    /* The session begins: it has no route yet. */
    void (*opened)(struct emx_session *s);

    /* It goes over this route from now on, link and seal are set; NULL: over one that carries frames and nothing else,
     * of which no round trip has been measured. */
    void (*routed)(struct emx_session *s, const struct emx_route *r);

    void (*connected)(struct emx_session *s);

    /* The session is broken. It is over afterwards, and its peer's operations are complete. state: enum emx_state. */
    void (*end)(struct emx_session *s, unsigned state, int status, emx_time now);

    /* Nothing is sent to the peer or expected of it any more: a message that is arriving never will be whole. status:
     * what all operations with the peer complete with; ETHMX_OK: the caller sees to them. Another peer is greeted in
     * its place. */
    void (*stopped)(struct emx_session *s, int status, emx_time now);

    /* A message may have left the pull window: others may ask for more. */
    void (*pull_more)(struct emx_engine *e, emx_time now);

    /* The longest frame to the peer has changed. */
    void (*resized)(struct emx_session *s);

    /* The session is about to leave its link. */
    void (*moved)(struct emx_session *s, emx_time now);

    /* Frames of so many bytes, without a tag, seem to get lost. */
    void (*frames_lost)(struct emx_session *s, size_t frame_bytes, emx_time now);
};

#endif
