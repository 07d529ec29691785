/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes: questions that ch4 answers itself. And progress.
 */
#ifndef ETHMX_PROC_H_INCLUDED
#define ETHMX_PROC_H_INCLUDED

#include "ethmx_impl.h"

#if MPIDI_ETHMX_CH4_PROGRESS_TELLS
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int *made_progress)
#else
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_progress(int vci, int blocking)
#endif
{
    if (likely(vci == 0 && MPIDI_ETHMX_global.ep))
        MPIDI_ETHMX_lib.progress(MPIDI_ETHMX_global.ep);
    return MPI_SUCCESS;
}

MPL_STATIC_INLINE_PREFIX int MPIDI_NM_rank_is_local(int target, MPIR_Comm *comm)
{
    return MPIDIU_av_is_local(MPIDIU_comm_rank_to_av(comm, target));
}

#if !MPIDI_ETHMX_CH4_LPID
MPL_STATIC_INLINE_PREFIX int MPIDI_NM_comm_get_gpid(MPIR_Comm *comm_ptr, int idx, uint64_t *gpid_ptr, bool is_remote)
{
    int avtid = 0, lpid = 0;

    if (comm_ptr->comm_kind == MPIR_COMM_KIND__INTRACOMM || is_remote)
        MPIDIU_comm_rank_to_pid(comm_ptr, idx, &lpid, &avtid);
    else
        MPIDIU_comm_rank_to_pid_local(comm_ptr, idx, &lpid, &avtid);
    *gpid_ptr = MPIDIU_GPID_CREATE(avtid, lpid);
    return MPI_SUCCESS;
}
#endif

#endif
