/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files that make and end connections have in common: verbs_cm.c (calls), verbs_life.c (records of
 * connections), verbs_watch.c (failures), verbs_listen.c (devices). Not for others.
 */
#ifndef EMX_WIRE_VERBS_CM_H
#define EMX_WIRE_VERBS_CM_H

#include <arpa/inet.h>

#include "wire/verbs/verbs_peer.h"

/* verbs_cm.c */
/* The peer is not reached any more; it is told upwards. */
void emx_verbs_peer_unreachable(struct emx_verbs_wire *w, struct emx_verbs_peer *p);

/* verbs_life.c */
/* A connection with the peer, without device yet. NULL: out of memory. */
struct emx_verbs_conn *emx_verbs_life_new(struct emx_verbs_wire *w, struct emx_verbs_peer *p,
                                          enum emx_verbs_state state);
/* Its end begins. The peer has none then. */
void emx_verbs_life_end(struct emx_verbs_wire *w, struct emx_verbs_conn *c);
/* Ends all, and frees them at once. */
void emx_verbs_life_end_all(struct emx_verbs_wire *w);
/* Frees those whose end is over. */
void emx_verbs_life_finish(struct emx_verbs_wire *w);
/* The peer is to wait for room on the device: ends the connection that was used least lately, of those that may end.
 * false: none of ours is there, so waiting is of no use. */
bool emx_verbs_life_make_room(struct emx_verbs_wire *w, const struct emx_verbs_dev *d, struct emx_verbs_peer *for_peer);

/* verbs_watch.c */
/* Looks after connections and devices, if it is time; takes note of what devices have told. */
void emx_verbs_watch(struct emx_verbs_wire *w, uint64_t now);
/* The device is of no use any more; why: after its name. */
void emx_verbs_device_lost(struct emx_verbs_wire *w, const struct ibv_context *context, const char *why);

/* verbs_listen.c */
/* That of ours, or NULL. */
struct emx_verbs_dev *emx_verbs_dev_find(const struct emx_verbs_wire *w, const struct ibv_context *context);
/* All that holds a device that is gone has to be given back, or its removal waits for us. */
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
