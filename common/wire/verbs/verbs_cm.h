/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared by the files that establish and end connections: verbs_cm.c (requests), verbs_life.c (records of connections),
 * verbs_watch.c (failures), verbs_listen.c (devices). Not for other files.
 */
#ifndef EMX_WIRE_VERBS_CM_H
#define EMX_WIRE_VERBS_CM_H

#include <arpa/inet.h>

#include "wire/verbs/verbs_peer.h"

/* verbs_cm.c */
/* Marks the peer as unreachable, to be reported to the engine. */
void emx_verbs_peer_unreachable(struct emx_verbs_wire *w, struct emx_verbs_peer *p);

/* verbs_life.c */
/* Returns a new connection with the peer, without a device. NULL: out of memory. */
struct emx_verbs_conn *emx_verbs_life_new(struct emx_verbs_wire *w, struct emx_verbs_peer *p,
                                          enum emx_verbs_state state);
/* Begins to end the connection. The peer has none from now on. */
void emx_verbs_life_end(struct emx_verbs_wire *w, struct emx_verbs_conn *c);
/* Ends and frees all connections immediately. */
void emx_verbs_life_end_all(struct emx_verbs_wire *w);
/* Frees connections that have ended. */
void emx_verbs_life_finish(struct emx_verbs_wire *w);
/* The peer must wait for room on the device. Ends the least recently used connection among those that may end. false:
 * this endpoint has no connection there, so waiting is useless. */
bool emx_verbs_life_make_room(struct emx_verbs_wire *w, const struct emx_verbs_dev *d, struct emx_verbs_peer *for_peer);

/* verbs_watch.c */
/* Checks connections and devices, if it is time. Handles stored events. */
void emx_verbs_watch(struct emx_verbs_wire *w, uint64_t now);
/* The device cannot be used any more. why: follows its name in the log. */
void emx_verbs_device_lost(struct emx_verbs_wire *w, const struct ibv_context *context, const char *why);

/* verbs_listen.c */
/* The device of this wire with this context, or NULL. */
struct emx_verbs_dev *emx_verbs_dev_find(const struct emx_verbs_wire *w, const struct ibv_context *context);
/* Releases all resources of devices that are gone. Otherwise their removal would wait for this process. */
void emx_verbs_devs_forget(struct emx_verbs_wire *w);

static inline struct sockaddr_in emx_verbs_sockaddr(struct in_addr ip, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = ip, .sin_port = htons(port)};
}

static inline const char *emx_verbs_ip_text(struct in_addr ip, char buf[INET_ADDRSTRLEN])
{
    return inet_ntop(AF_INET, &ip, buf, INET_ADDRSTRLEN);
}

#endif
