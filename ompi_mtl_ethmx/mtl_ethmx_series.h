/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What differs between the series of Open MPI, 4.1, 5.0 and 6.0, in one place: the rest of the component is the same
 * source for all. Their structures differ, so each needs a binary of its own. First to be included: it also supplies
 * what 5.0 and 6.0 do not install.
 */
#ifndef MTL_ETHMX_SERIES_H
#define MTL_ETHMX_SERIES_H

#include "ompi_config.h"

#define MTL_ETHMX_SERIES (OMPI_MAJOR_VERSION * 100 + OMPI_MINOR_VERSION)

#if MTL_ETHMX_SERIES != 401 && MTL_ETHMX_SERIES != 500 && MTL_ETHMX_SERIES != 600
#error "ethmx knows Open MPI 4.1, 5.0 and 6.0 only"
#endif

/* ---- Headers ---------------------------------------------------------------------------------------------- */

#if MTL_ETHMX_SERIES == 401

#include "ompi/mca/rte/rte.h"
#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"

#else

/* Open MPI's headers of threads include others, of its implementation by pthreads, that it does not install. Here is
 * what these declare, as far as the headers that are installed use it. */
#if !__has_include(MCA_threads_mutex_base_include_HEADER)

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#undef MCA_threads_base_include_HEADER
#undef MCA_threads_mutex_base_include_HEADER
#undef MCA_threads_tsd_base_include_HEADER
#define MCA_threads_base_include_HEADER       <pthread.h>
#define MCA_threads_mutex_base_include_HEADER <pthread.h>
#define MCA_threads_tsd_base_include_HEADER   <pthread.h>

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;
typedef pthread_key_t opal_tsd_key_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER           PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER            PTHREAD_COND_INITIALIZER

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t *mutex, bool recursive)
{
    pthread_mutexattr_t attr;
    if (0 != pthread_mutexattr_init(&attr)) {
        return -1;
    }
    pthread_mutexattr_settype(&attr, recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    int rc = pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return 0 == rc ? 0 : -1;
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_destroy(mutex);
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_lock(mutex);
}

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t *mutex)
{
    return 0 != pthread_mutex_trylock(mutex);
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t *mutex)
{
    (void)pthread_mutex_unlock(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t *cond)
{
    return 0 == pthread_cond_init(cond, NULL) ? 0 : -1;
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t *cond)
{
    (void)pthread_cond_destroy(cond);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t *cond)
{
    (void)pthread_cond_signal(cond);
}

static inline int opal_tsd_get(opal_tsd_key_t key, void **value_p)
{
    *value_p = pthread_getspecific(key);
    return 0;
}

static inline void opal_thread_yield(void)
{
    (void)sched_yield();
}

#endif

#include "ompi/runtime/ompi_rte.h"
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"

#endif

/* ---- Names ------------------------------------------------------------------------------------------------ */

#if MTL_ETHMX_SERIES == 401

#define MTL_ETHMX_INIT_ARGUMENTS bool enable_progress_threads, bool enable_mpi_threads
#define MTL_ETHMX_EXPORT         OMPI_MODULE_DECLSPEC
#define MTL_ETHMX_CID(comm)      ((comm)->c_contextid)
#define MTL_ETHMX_PMIX_GLOBAL    OPAL_PMIX_GLOBAL
#define MTL_ETHMX_PMIX_HOSTNAME  OPAL_PMIX_HOSTNAME
#define MTL_ETHMX_PMIX_KEY       OPAL_PMIX_CREDENTIAL
#define MTL_ETHMX_PMIX_STRING    OPAL_STRING

#else

#define MTL_ETHMX_INIT_ARGUMENTS                                                                                       \
    bool enable_progress_threads, bool enable_mpi_threads, bool *accelerator_support __opal_attribute_unused__
#define MTL_ETHMX_EXPORT        OMPI_DECLSPEC
#define MTL_ETHMX_CID(comm)     ((comm)->c_index)
#define MTL_ETHMX_PMIX_GLOBAL   PMIX_GLOBAL
#define MTL_ETHMX_PMIX_HOSTNAME PMIX_HOSTNAME
#define MTL_ETHMX_PMIX_KEY      PMIX_CREDENTIAL
#define MTL_ETHMX_PMIX_STRING   PMIX_STRING

#endif

/* Whether communicators may have another number at each process (cid.c): those of sessions, from 5.0 on. */
#if MTL_ETHMX_SERIES == 401
#define MTL_ETHMX_FLAGS          0
#define MTL_ETHMX_HAS_CIDS(comm) ((void)(comm), false)
#else
#define MTL_ETHMX_FLAGS          MCA_MTL_BASE_FLAG_SUPPORTS_EXT_CID
#define MTL_ETHMX_HAS_CIDS(comm) (!OMPI_COMM_IS_GLOBAL_INDEX(comm))
#endif

/* Whether this Open MPI looks at each buffer and marks the convertor of one that is memory of a device, and its marks.
 */
#if MTL_ETHMX_SERIES == 401

#ifndef MTL_ETHMX_SEES_DEVICES
#define MTL_ETHMX_SEES_DEVICES OPAL_CUDA_SUPPORT
#endif
#define MTL_ETHMX_DEVICE         CONVERTOR_CUDA
#define MTL_ETHMX_DEVICE_UNIFIED CONVERTOR_CUDA_UNIFIED

#else

#ifndef MTL_ETHMX_SEES_DEVICES
#define MTL_ETHMX_SEES_DEVICES 1
#endif
#define MTL_ETHMX_DEVICE         CONVERTOR_ACCELERATOR
#define MTL_ETHMX_DEVICE_UNIFIED CONVERTOR_ACCELERATOR_UNIFIED

#endif

#endif
