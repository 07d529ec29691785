/* SPDX-License-Identifier: BSD-3-Clause
 *
 * libethmx, which is loaded by MPI_Init and not linked. A process whose libmpi cannot be loaded for want of it would
 * end before MPI_Init, and mpiexec would wait for ever for it: this way MPI_Init says which host it is, and the job
 * ends. An MPICH with other netmods in it runs where there is no ethmx.
 *
 * Its functions are called by MPIDI_ETHMX_lib.isend(...) for ethmx_isend(...): one jump through memory, as
 * with linking.
 */
#ifndef ETHMX_LIB_H_INCLUDED
#define ETHMX_LIB_H_INCLUDED

#include <ethmx.h>
#include <ethmx_rma.h>

#define MPIDI_ETHMX_LIBRARY "libethmx.so.1"

/* All that is used. */
#define MPIDI_ETHMX_CALLS(X)                                                                                           \
    X(am_handler)                                                                                                      \
    X(am_send)                                                                                                         \
    X(cancel)                                                                                                          \
    X(config_create)                                                                                                   \
    X(config_destroy)                                                                                                  \
    X(config_get)                                                                                                      \
    X(ep_address)                                                                                                      \
    X(ep_close)                                                                                                        \
    X(ep_on_error)                                                                                                     \
    X(ep_open)                                                                                                         \
    X(error_text)                                                                                                      \
    X(flush_unexpected)                                                                                                \
    X(improbe)                                                                                                         \
    X(imrecv)                                                                                                          \
    X(iprobe)                                                                                                          \
    X(irecv)                                                                                                           \
    X(isend)                                                                                                           \
    X(match_ignore)                                                                                                    \
    X(param)                                                                                                           \
    X(peer_add)                                                                                                        \
    X(peer_address)                                                                                                    \
    X(peer_user)                                                                                                       \
    X(progress)                                                                                                        \
    X(rma_accumulate)                                                                                                  \
    X(rma_compare_and_swap)                                                                                            \
    X(rma_expose)                                                                                                      \
    X(rma_fetch)                                                                                                       \
    X(rma_flush)                                                                                                       \
    X(rma_get)                                                                                                         \
    X(rma_put)                                                                                                         \
    X(rma_withdraw)                                                                                                    \
    X(strerror)                                                                                                        \
    X(version)

struct MPIDI_ETHMX_lib {
#define MPIDI_ETHMX_CALL(name) __typeof__(ethmx_##name) *name;
    MPIDI_ETHMX_CALLS(MPIDI_ETHMX_CALL)
#undef MPIDI_ETHMX_CALL
};
extern struct MPIDI_ETHMX_lib MPIDI_ETHMX_lib;

/* Loads it, at most once. NULL, or why not: a sentence that stays. */
const char *MPIDI_ETHMX_lib_load(void);

#endif
