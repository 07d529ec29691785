/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The netmod `ethmx` of MPICH's device ch4. It translates: communicators, ranks and tags into peers and match bits,
 * datatypes into ethmx_data, ethmx's results into MPI's statuses, ch4's active messages into ethmx's. It matches
 * nothing, resends nothing and chooses no wire; libethmx does. Collectives are ch4's own, over point-to-point.
 *
 * One file per subject: lib (libethmx's functions), send, recv, probe, am (active messages), data (datatypes that are
 * not contiguous), init (life), address, spawn (dynamic processes), comm, win, window and dynamic (windows), onesided,
 * atomic, sync (their operations, accumulates and synchronization), proc.
 *
 * Threads: MPICH calls a netmod with its global lock, or that of the only VCI, held. So the endpoint is used by one
 * thread at a time, whatever the level of threads. Callbacks run inside MPIDI_NM_progress(), so with that lock, too.
 */
#ifndef ETHMX_IMPL_H_INCLUDED
#define ETHMX_IMPL_H_INCLUDED

#include <mpidimpl.h>

#include "ch4_impl.h"
#include "ethmx_lib.h"
#include "mpidch4r.h"

#ifdef MPIDI_CH4_USE_WORK_QUEUES
#error "the netmod ethmx works with --enable-ch4-mt=direct only"
#endif

/* ---- What differs between MPICH's versions
 * ---------------------------------------------------------------------------
 *
 * Each difference that matters here has a name, and each #if of ours asks for one. */

/* 4.2: context offset, "synchronous" and the error flag of a collective come together in one argument `attr`; there are
 * no isend_coll and issend of their own. Before, `attr` is the context offset. */
#define MPIDI_ETHMX_CH4_ATTR           (MPICH_NUMVERSION >= 40200000)
/* 4.2: the number of VCIs is asked for after the start. */
#define MPIDI_ETHMX_CH4_INIT_VCIS      (MPICH_NUMVERSION >= 40200000)
/* 4.2: progress has another second argument, and a cancelled receive has one. Both are of no use here. */
#define MPIDI_ETHMX_CH4_PROGRESS_TELLS (MPICH_NUMVERSION >= 40200000)
#define MPIDI_ETHMX_CH4_CANCEL_BLOCKS  (MPICH_NUMVERSION >= 40200000)
/* 4.2: names in ch4's requests. */
#define MPIDI_ETHMX_CH4_REQUEST_NAMES  (MPICH_NUMVERSION >= 40200000)
/* 4.2: MPIR_Typerep_iov_len() tells the bytes, too. */
#define MPIDI_ETHMX_CH4_IOV_BYTES      (MPICH_NUMVERSION >= 40200000)
/* 4.3: when our half of a receive from any source is complete at once, we look after the other half; before, ch4 does.
 */
#define MPIDI_ETHMX_CH4_ANYSRC_OURS    (MPICH_NUMVERSION >= 40300000)
/* 5.0: the half in shared memory is over if it has forgotten its partner; before, if it is marked as cancelled. */
#define MPIDI_ETHMX_CH4_ANYSRC_PARTS   (MPICH_NUMVERSION >= 50000000)
/* 4.3: ch4 is told whether a partitioned receive is from the own node. From us it never is. */
#define MPIDI_ETHMX_CH4_PRECV_LOCAL    (MPICH_NUMVERSION >= 40300000)
/* 4.3: data of active messages may go by sends with tags, if the netmod likes. */
#define MPIDI_ETHMX_CH4_AM_TAG         (MPICH_NUMVERSION >= 40300000)

/* 4.2: one-sided operations count in MPI_Aint. */
#define MPIDI_ETHMX_CH4_RMA_AINT       (MPICH_NUMVERSION >= 40200000)
/* 5.0: processes are numbered by MPIR_Lpid in all of MPICH, and addresses are exchanged when a communicator is made of
 * processes that do not know each other. VCIs are asked for by communicator. Requests have locks of their own pools. */
#define MPIDI_ETHMX_CH4_LPID           (MPICH_NUMVERSION >= 50000000)
/* 5.0: inside MPICH, basic datatypes are internal ones, which have the index of MPI's datatype. */
#define MPIDI_ETHMX_CH4_INTERNAL_TYPES (MPICH_NUMVERSION >= 50000000)

#if MPIDI_ETHMX_CH4_RMA_AINT
typedef MPI_Aint MPIDI_ETHMX_count_t;
#else
typedef int MPIDI_ETHMX_count_t;
#endif

#if MPIDI_ETHMX_CH4_LPID
#define MPIDI_ETHMX_VCI_LOCK MPIDI_VCI_LOCK(0)
#else
#define MPIDI_ETHMX_VCI_LOCK MPIDI_VCI(0).lock
#endif

/* The bits of a tag that programs use. */
#ifdef MPIR_TAG_USABLE_MASK
#define MPIDI_ETHMX_TAG_USABLE MPIR_TAG_USABLE_MASK
#else
#define MPIDI_ETHMX_TAG_USABLE MPIR_TAG_USABLE_BITS
#endif

/* The number of a process, and its entry in MPICH's tables. */
#if MPIDI_ETHMX_CH4_LPID
typedef MPIR_Lpid MPIDI_ETHMX_proc_t;
#define MPIDI_ETHMX_PROC_AV(proc)   MPIDIU_lpid_to_av_slow(proc)
#define MPIDI_ETHMX_PROC_RANK(proc) ((int)MPIR_LPID_WORLD_RANK(proc))
#else
typedef uint64_t MPIDI_ETHMX_proc_t;
#define MPIDI_ETHMX_PROC_AV(proc)   (&MPIDIU_get_av(MPIDIU_GPID_GET_AVTID(proc), MPIDIU_GPID_GET_LPID(proc)))
#define MPIDI_ETHMX_PROC_RANK(proc) ((int)MPIDIU_GPID_GET_LPID(proc))
#endif

#if MPIDI_ETHMX_CH4_ATTR
#define MPIDI_ETHMX_CONTEXT_OFFSET(attr) MPIR_PT2PT_ATTR_CONTEXT_OFFSET(attr)
#else
#define MPIDI_ETHMX_CONTEXT_OFFSET(attr) (attr)
#endif

#if MPIDI_ETHMX_CH4_REQUEST_NAMES
#define MPIDI_ETHMX_complete(req) MPIDI_Request_complete_fast(req)
#define MPIDI_ETHMX_PARTNER(req)  ((req)->dev.anysrc_partner)
#else
#define MPIDI_ETHMX_complete(req) MPIDIU_request_complete(req)
#define MPIDI_ETHMX_PARTNER(req)  MPIDI_REQUEST_ANYSOURCE_PARTNER(req)
#endif

/* ---- State ---- */

struct MPIDI_ETHMX_global {
    struct ethmx_ep *ep;     /* from init_local to finalize */
    MPIR_Request *next_send; /* made already for the next send (ethmx_send.h), or NULL */
};
extern struct MPIDI_ETHMX_global MPIDI_ETHMX_global;

#define MPIDI_ETHMX_REQ(req)    ((req)->dev.ch4.netmod.ethmx)
#define MPIDI_ETHMX_AM_REQ(req) ((req)->dev.ch4.am.netmod_am.ethmx)
#define MPIDI_ETHMX_PEER(av)    ((av)->netmod.ethmx.peer)

/* The lock of the only VCI. Nothing with MPICH's global lock, the default. */
#define MPIDI_ETHMX_LOCK()   MPID_THREAD_CS_ENTER(VCI, MPIDI_ETHMX_VCI_LOCK)
#define MPIDI_ETHMX_UNLOCK() MPID_THREAD_CS_EXIT(VCI, MPIDI_ETHMX_VCI_LOCK)

/* ---- Match bits: context id, rank of the sender, tag ----------------------------------------------------------------
 *
 * MPICH's collectives put error flags into two bits of the tag, which must not decide a match: ethmx is told so at
 * start (ethmx_match_ignore()), so receives without wildcards are exact ones.
 *
 * A context id of all ones is never MPICH's (its part "sub-communicator" has no such value): it is for the first words
 * between programs that connect.
 */
#define MPIDI_ETHMX_CONTEXT_SHIFT   48
#define MPIDI_ETHMX_SOURCE_SHIFT    32
#define MPIDI_ETHMX_CONTEXT_MASK    0xffff000000000000ull
#define MPIDI_ETHMX_SOURCE_MASK     0x0000ffff00000000ull
#define MPIDI_ETHMX_TAG_MASK        0x00000000ffffffffull
#define MPIDI_ETHMX_RANKS_MAX       0x10000
#define MPIDI_ETHMX_CONTEXT_DYNAMIC 0xffff

MPL_STATIC_INLINE_PREFIX uint64_t MPIDI_ETHMX_bits(int context, int source, int tag)
{
    return (uint64_t)(uint16_t)context << MPIDI_ETHMX_CONTEXT_SHIFT |
           (uint64_t)(uint16_t)source << MPIDI_ETHMX_SOURCE_SHIFT | (uint32_t)tag;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_bits_source(uint64_t bits)
{
    return (int)((bits & MPIDI_ETHMX_SOURCE_MASK) >> MPIDI_ETHMX_SOURCE_SHIFT);
}

/* With the error flags, which collectives look at. */
MPL_STATIC_INLINE_PREFIX int MPIDI_ETHMX_bits_tag(uint64_t bits)
{
    return (int)(bits & MPIDI_ETHMX_TAG_MASK);
}

/* What a receive or a probe asks for. */
struct MPIDI_ETHMX_want {
    struct ethmx_peer *peer; /* NULL: any */
    uint64_t bits, mask;
};

MPL_STATIC_INLINE_PREFIX struct MPIDI_ETHMX_want MPIDI_ETHMX_want(int source, int tag, MPIR_Comm *comm, int attr,
                                                                  MPIDI_av_entry_t *av)
{
    struct MPIDI_ETHMX_want w = {.mask = UINT64_MAX};
    if (unlikely(tag == MPI_ANY_TAG)) {
        w.mask &= ~(uint64_t)MPIDI_ETHMX_TAG_USABLE;
        tag = 0;
    }
    if (unlikely(source == MPI_ANY_SOURCE)) {
        w.mask &= ~MPIDI_ETHMX_SOURCE_MASK;
        source = 0;
    } else {
        w.peer = MPIDI_ETHMX_PEER(av);
    }
    w.bits = MPIDI_ETHMX_bits(comm->recvcontext_id + MPIDI_ETHMX_CONTEXT_OFFSET(attr), source, tag);
    return w;
}

/* ---- Errors ---- */

/* Beside those of ethmx: the data lie in memory of a device (a graphics card), which the processor cannot copy. */
#define MPIDI_ETHMX_ERR_DEVICE (-1000)

/* An MPI error code for a status of ethmx, MPI_SUCCESS for none. */
int MPIDI_ETHMX_error(int status, const char *function, int line);

#define MPIDI_ETHMX_ERROR(status) MPIDI_ETHMX_error((status), __func__, __LINE__)

/* ---- Addresses ---- */

/* What a process tells the others of itself: of one length everywhere, as MPICH likes it best. */
struct MPIDI_ETHMX_card {
    uint8_t len_bytes;
    uint8_t addr[ETHMX_ADDRESS_LAUNCHER];
};

/* These return an MPI error code. */
int MPIDI_ETHMX_card_own(struct MPIDI_ETHMX_card *card);
/* Makes the process with this card, or this address, known. The first ends the job if the address is not usable. */
int MPIDI_ETHMX_card_add(MPIDI_ETHMX_proc_t proc, const struct MPIDI_ETHMX_card *card);
int MPIDI_ETHMX_peer_add(MPIDI_ETHMX_proc_t proc, const void *addr, size_t len_bytes);

#if MPIDI_ETHMX_CH4_LPID
/* Of a communicator whose processes do not know each other yet. */
int MPIDI_ETHMX_comm_address_exchange(MPIR_Comm *comm);
#endif

/* MPICH 4.0 ends a process whose MPI_Init fails without a word to the launcher, and those on other hosts wait for it
 * for ever. So the launcher is told here, which ends the job. */
void MPIDI_ETHMX_end_job(const char *text);

/* ---- Active messages ---- */

#define MPIDI_ETHMX_AM_ID 0

struct MPIDI_ETHMX_am_header {
    uint16_t handler_id;
    uint8_t src_vci, dst_vci;
    uint32_t zero; /* ch4's header, which follows, has fields of 8 bytes */
};

#define MPIDI_ETHMX_AM_HEADER_MAX (ETHMX_AM_HEADER_MAX - (MPI_Aint)sizeof(struct MPIDI_ETHMX_am_header))

/* ethmx_done_fn; arg is the request. */
void MPIDI_ETHMX_am_sent(void *arg, const struct ethmx_result *result);

/* Takes ch4's active messages from now on. */
int MPIDI_ETHMX_am_init(void);

#endif
