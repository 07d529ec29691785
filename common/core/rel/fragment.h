/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fragmentation: frames that have become too long for their route.
 */
#ifndef EMX_CORE_FRAGMENT_H
#define EMX_CORE_FRAGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "core/format/frame.h"
#include "core/time.h"
#include "base/txframe.h"

struct emx_fragmenting;
struct emx_reassembly;
struct emx_scratch;
struct emx_session;

struct emx_fragment {
    struct emx_fragmenting *out; /* frames have become shorter: longer ones leave in fragments; else NULL */
    struct emx_reassembly *in;   /* incomplete frames; NULL: none */
};

bool emx_fragment_narrow(struct emx_session *s, uint16_t frame_bytes); /* longest from now on; false: no memory */
bool emx_fragment_output(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
/* Turns a frame that is too long into its first fragment; after emx_fragment_narrow(). false: no memory, the frame is
 * lost. */
bool emx_fragment_fit(struct emx_session *s, struct emx_txframe *f, struct emx_scratch *scratch, unsigned i);
enum emx_drop emx_fragment_input(struct emx_session *s, const uint8_t *data, emx_time now);
void emx_fragment_fini(struct emx_session *s);

#endif
