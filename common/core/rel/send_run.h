/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Send run: consecutive chunk frames (format/chunk_frame.h) in one buffer of the send window, with one header and their
 * data in one piece. It is sent once, as one TSO packet. Most often it is acknowledged as a whole. Where its frames
 * must be told apart, because some were lost or it cannot leave as one, it is split into buffers of one frame each.
 */
#ifndef EMX_CORE_SEND_RUN_H
#define EMX_CORE_SEND_RUN_H

#include <stdbool.h>
#include <stdint.h>

struct emx_session;
struct emx_txbuf;

/* Whether an acknowledgement concerns only whole runs. */
bool emx_send_run_suits_ack(const struct emx_session *s, uint32_t ack, uint64_t early);

/* Replaces a run by its frames. false: no memory, nothing has changed. */
bool emx_send_run_split(struct emx_session *s, struct emx_txbuf *b);

/* The same for all in the window. false: no memory for some of them. */
bool emx_send_run_split_all(struct emx_session *s);

#endif
