/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pulling from senders that are away: pull_away.c describes the rule. Part of pull.c's work, only called by it.
 */
#ifndef EMX_CORE_PULL_AWAY_H
#define EMX_CORE_PULL_AWAY_H

#include <stdbool.h>

#include "core/msg/rndv.h"
#include "core/time.h"

struct emx_engine;
struct emx_session;

/* Whether it is not known that the message's sender responds: then only one chunk is requested. */
bool emx_away_is_unsure(const struct emx_engine *e, const struct emx_rndv *r);

/* Whether so much has arrived from others that the message's blocks would have arrived, if they had been sent. */
bool emx_away_is_overtaken(const struct emx_engine *e, const struct emx_rndv *r);

/* The first chunk of a block has arrived, over its rail: measures the response time. */
void emx_away_answered(struct emx_session *s, struct emx_rndv *r, const struct emx_block *b, emx_time now);

/* The message's blocks count in the pull window again: its sender responds, or they are given up. */
void emx_away_count_again(struct emx_engine *e, struct emx_rndv *r);

/* Blocks of senders that are away now no longer count in the pull window. */
void emx_away_look(struct emx_engine *e, emx_time now);

/* Messages wait for the window, and senders that are away may hold a part of it: sets the timer for emx_away_look(). */
void emx_away_look_soon(struct emx_engine *e, emx_time now);

#endif
