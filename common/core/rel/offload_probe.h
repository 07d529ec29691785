/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Offload probing: whether the path to a peer carries GSO packets, for each of their forms.
 */
#ifndef EMX_CORE_OFFLOAD_PROBE_H
#define EMX_CORE_OFFLOAD_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define EMX_JOINED_BYTES 8192 /* data that makes a GSO packet worth its slot */

enum emx_gso_form { EMX_GSO_OF_UDP, EMX_GSO_OF_TSO, EMX_GSO_FORMS };

/* All in all as small as it can be: each peer has one. */
struct emx_offload_form {
    uint32_t left : 11; /* blocks that may go in GSO packets before the peer must report some */
    uint32_t gap : 5;   /* if none is left: the last distance between two tries is 2^gap blocks */
    uint32_t wait : 16; /* blocks until the next try */
};

struct emx_offload_probe {
    uint32_t joined_rx;   /* GSO packets that arrived properly joined: 16 bits for each form, mod 2^16 */
    uint32_t joined_told; /* of those sent by this side, as last reported */
    struct emx_offload_form form[EMX_GSO_FORMS];
};

void emx_offload_probe_init(struct emx_offload_probe *o); /* a new route */
void emx_offload_probe_told(struct emx_offload_probe *o, uint32_t joined);
/* The same where 16 bits have place: of each form the lowest 8. */
uint16_t emx_offload_probe_brief(const struct emx_offload_probe *o);
void emx_offload_probe_told_briefly(struct emx_offload_probe *o, uint16_t brief);
void emx_offload_probe_arrived(struct emx_offload_probe *o, enum emx_gso_form form); /* one, properly joined */
/* A block or message in GSO packets must be sent again. */
void emx_offload_probe_lost(struct emx_offload_probe *o, enum emx_gso_form form);
/* Whether the next block or message is sent in GSO packets of this form. joins: it would arrive properly joined. */
bool emx_offload_probe_take(struct emx_offload_probe *o, enum emx_gso_form form, bool joins);

/* Whether packets of this form have arrived lately, or may. */
static inline bool emx_offload_probe_trusts(const struct emx_offload_probe *o, enum emx_gso_form form)
{
    return o->form[form].left;
}

#endif
