/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Learning: what a peer's hello adds to the address that the launcher carries.
 */
#ifndef EMX_CORE_LEARN_H
#define EMX_CORE_LEARN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct emx_address;
struct emx_route;
struct emx_session;

/* Stores the address in a hello or hello_ack, decoded and encoded. */
void emx_learn_address(struct emx_session *s, const struct emx_address *a, const void *addr, size_t len_bytes);
/* Requests the routes of a connected session again. */
void emx_learn_anew(struct emx_session *s);
/* An interface of the peer has got another address since it told a. false: not yet, for lack of memory. */
bool emx_learn_moved(struct emx_session *s, const void *addr, size_t len_bytes, uint32_t moves);
/* Takes the routes that were requested again. false: the handshake must restart, with the first. */
bool emx_learn_routes(struct emx_session *s, const struct emx_route *r, unsigned n);
/* The session is connected, and keeps its routes. Where these are among the n, they may lead to other places. */
void emx_learn_places(struct emx_session *s, const struct emx_route *r, unsigned n);

#endif
