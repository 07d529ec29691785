/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Eager messages in chunk frames (format/chunk_frame.h), which leave as TSO packets: see chunk.c.
 */
#ifndef EMX_CORE_CHUNK_H
#define EMX_CORE_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/placement.h"
#include "core/engine.h"
#include "core/format/drop.h"
#include "core/time.h"

struct emx_eager_source;
struct emx_session;
struct emx_txbuf;

/* In how many chunks a message can be sent now; 0: it cannot, or it does not pay. */
unsigned emx_chunk_suits(const struct emx_session *s, const struct emx_eager_source *m);

/* Puts the message into the window in so many chunks, which refer to the program's memory. false: no memory. */
bool emx_chunk_push(struct emx_session *s, const struct emx_eager_source *m, unsigned chunks);

/* Whether this run can leave as one frame now. Otherwise it is split. */
bool emx_chunk_leaves(const struct emx_session *s, const struct emx_txbuf *b);

enum emx_drop emx_chunk_input(struct emx_session *s, const uint8_t *data, emx_time now);

/* Where the data of a packet that is one chunk frame is to go: as the plan of struct emx_placer, with no message. */
void emx_chunk_plan(struct emx_engine *e, const uint8_t *head, size_t len_bytes, struct emx_placement *p);

/* Whether a packet with this head has the place that was planned. */
bool emx_chunk_is_planned(struct emx_engine *e, const struct emx_placement *p, const uint8_t *head);

#endif
