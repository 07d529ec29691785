/* SPDX-License-Identifier: BSD-3-Clause
 *
 * All calls that ch4 makes into the netmod. Collectives and partitioned communication are ch4's.
 */
#ifndef NETMOD_INLINE_H_INCLUDED
#define NETMOD_INLINE_H_INCLUDED

#ifdef MPIDI_ENABLE_AM_ONLY
#include "netmod_am_fallback.h"
#else
#include "ethmx_onesided.h"
#include "ethmx_probe.h"
#include "ethmx_recv.h"
#include "ethmx_send.h"
#include "ethmx_sync.h"
#include "netmod_am_fallback_coll.h"
#include "netmod_am_fallback_part.h"
#endif

#include "ethmx_am.h"
#include "ethmx_noinline.h" /* made by autogen.sh */
#include "ethmx_proc.h"

#endif
