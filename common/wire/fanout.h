/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Fanout: the kernel passes each frame to the right packet socket of a job's ranks on one node, at a cost that does not
 * grow with the number of ranks. fanout.c describes the mechanism. Used under the endpoint's lock.
 */
#ifndef EMX_WIRE_FANOUT_H
#define EMX_WIRE_FANOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/fanout_group.h"
#include "wire/wire.h"

/* The sockets of a rank. Both are bound and have filters that pass only frames for them; a rank that is alone needs
 * none. */
struct emx_fanout_rank {
    bool v6;                        /* IP packets are of IPv6 */
    int fd[EMX_FANOUT_KINDS];       /* -1: it has none of this kind */
    uint32_t key[EMX_FANOUT_KINDS]; /* what frames for it carry: the endpoint's id; the port, host order */
};

struct emx_fanout;

/* Looks for the other ranks of the job on this host. Does not wait. The sockets belong to the caller and stay open
 * until emx_fanout_close(); once they are in a group, their filters cannot be changed. Of params it uses the job and
 * the counters. NULL: not possible; why has the reason. */
struct emx_fanout *emx_fanout_open(const struct emx_wire_params *params, uint16_t ethertype,
                                   const struct emx_fanout_rank *self, char *why, size_t why_len_bytes);

/* Called regularly. Makes a system call every 16th time; none at a rank that is in a group and does not lead it. */
void emx_fanout_sweep(struct emx_fanout *f);

/* Whether no other rank of the job has connected on this host for some time. One may connect later. */
bool emx_fanout_is_alone(const struct emx_fanout *f);

/* Closes it. The rank's sockets then receive no more frames. NULL is allowed. */
void emx_fanout_close(struct emx_fanout *f);

#endif
