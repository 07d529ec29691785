/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Info rails: which of this host's interfaces carry large messages to a peer at the same time, if the peer has as many
 * in the same networks. The interfaces are looked at in their order of preference.
 */
#ifndef EMX_TOOLS_INFO_RAILS_H
#define EMX_TOOLS_INFO_RAILS_H

#include "ethmx.h"

#define EMX_INFO_RAIL_BYTES 128

struct emx_info_rails {
    const struct ethmx_config *cfg;
    unsigned count;           /* rails so far */
    unsigned first_mtu_bytes; /* of the first */
    char is[EMX_INFO_RAIL_BYTES];
    char command[EMX_INFO_RAIL_BYTES]; /* makes it a rail; "": it is one, or no setting makes it one */
};

/* Looks at the next interface, one that ethmx would use. is has what it carries, or why it is no rail. Returns its
 * number, from 1; 0: it is no rail. */
unsigned emx_info_rails_look(struct emx_info_rails *r, const struct ethmx_interface_info *i);

#endif
