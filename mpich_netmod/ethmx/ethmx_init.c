/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Life of the netmod. Settings are ethmx's own: ETHMX_* in the environment, which mpiexec hands on.
 */
#include "mpidimpl.h"

#include "ethmx_impl.h"
#include "ethmx_noinline.h"

#include <unistd.h>

struct MPIDI_ETHMX_global MPIDI_ETHMX_global;

/* MPICH's autogen.sh reads the calls that make error codes: a variable with the class must be named errclass. */
int MPIDI_ETHMX_error(int status, const char *function, int line)
{
    int errclass = status == ETHMX_ERR_NO_MEMORY ? MPI_ERR_NO_MEM
                   : status == ETHMX_ERR_PARAM   ? MPI_ERR_ARG
                                                 : MPI_ERR_OTHER;

    if (status == MPIDI_ETHMX_ERR_DEVICE)
        return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, function, line, MPI_ERR_BUFFER, "**ethmx_device",
                                    0);
    if (status == ETHMX_ERR_ACCESS)
        return MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, function, line, MPI_ERR_RMA_RANGE,
                                    "**ethmx_access", 0);
    return status >= 0 ? MPI_SUCCESS
                       : MPIR_Err_create_code(MPI_SUCCESS, MPIR_ERR_RECOVERABLE, function, line, errclass, "**ethmx_op",
                                              "**ethmx_op %s", MPIDI_ETHMX_lib.strerror(status));
}

/* ---- Start ---- */

static void peer_failed(void *arg, struct ethmx_peer *peer, int status, const char *text)
{
    MPL_internal_error_printf("ethmx: %s\n", text);
}

static void print_summary(void)
{
    const struct ethmx_param_info *info;
    struct ethmx_config *cfg;

    printf("==== ethmx netmod ====\nlibethmx %s\n", MPIDI_ETHMX_lib.version());
    if (MPIDI_ETHMX_lib.config_create(&cfg) != ETHMX_OK)
        return;
    for (unsigned i = 0; (info = MPIDI_ETHMX_lib.param(i)); i++) {
        char text[256];
        const char *source;

        if (MPIDI_ETHMX_lib.config_get(cfg, i, text, sizeof(text), &source) == ETHMX_OK && strcmp(source, "default"))
            printf("%s: %s (%s)\n", info->name, text, source);
    }
    MPIDI_ETHMX_lib.config_destroy(cfg);
    printf("======================\n");
}

void MPIDI_ETHMX_end_job(const char *text)
{
    MPL_internal_error_printf("%s\n", text);
    if (MPIR_Process.size > 1) {
        fflush(stderr);
        usleep(500000);
        MPIR_pmi_abort(1, text);
    }
}

/* Half of a job's key: a hash (FNV-1a) of the job's name, another one for each seed. */
static uint64_t hash_name(const char *name, uint64_t seed)
{
    uint64_t hash = 0xcbf29ce484222325ull ^ seed;

    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * 0x100000001b3ull;
    return hash;
}

/* The same in all processes of the job, from the name that the launcher gave to its key-value space. Processes that
 * this job spawns or connects to have other keys, which their addresses tell. A process that is alone has none: without
 * a launcher its name may be somebody else's, too. */
static void job_key(uint8_t key[16])
{
    const char *name = MPIR_pmi_job_id();

    if (MPIR_Process.size > 1 && name && name[0]) {
        const uint64_t half[2] = {hash_name(name, 0), hash_name(name, 0x9e3779b97f4a7c15ull)};

        memcpy(key, half, sizeof(half));
    }
}

/* NULL, or why not. */
static const char *open_endpoint(void)
{
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION,
                                   .struct_bytes = sizeof(opt),
                                   .process = (uint64_t)MPIR_Process.rank + 1,
                                   .local_rank = (uint16_t)MPIR_Process.local_rank,
                                   .local_ranks = (unsigned)MPIR_Process.local_size};
    const char *why = MPIDI_ETHMX_lib_load();
    uint64_t flags = 0;

    if (why)
        return why;
#ifndef MPIDI_CH4_DIRECT_NETMOD
    opt.polls_others = MPIR_Process.local_size > 1; /* ch4's shared memory */
#endif
    job_key(opt.job_key);
    if (MPIDI_ETHMX_lib.ep_open(NULL, &opt, &MPIDI_ETHMX_global.ep) != ETHMX_OK) {
        MPIDI_ETHMX_global.ep = NULL;
        return MPIDI_ETHMX_lib.error_text();
    }
    MPIDI_ETHMX_lib.ep_on_error(MPIDI_ETHMX_global.ep, peer_failed, NULL);
#ifdef HAVE_TAG_ERROR_BITS
    flags = (uint64_t)(MPIR_TAG_ERROR_BIT | MPIR_TAG_PROC_FAILURE_BIT);
#endif
    MPIDI_ETHMX_lib.match_ignore(MPIDI_ETHMX_global.ep, flags);
    return NULL;
}

#if MPIDI_ETHMX_CH4_LPID
/* The only process that is known at the start. */
static int add_self(void)
{
    struct MPIDI_ETHMX_card own;
    int mpi_errno = MPIDI_ETHMX_card_own(&own);

    return mpi_errno == MPI_SUCCESS ? MPIDI_ETHMX_card_add(MPIR_Process.rank, &own) : mpi_errno;
}
#endif

int MPIDI_ETHMX_init_local(int *tag_bits)
{
    int mpi_errno = MPI_SUCCESS;
    const char *why;

    MPL_COMPILE_TIME_ASSERT(MPIR_CONTEXT_ID_BITS <= 16);
#if !MPIDI_ETHMX_CH4_INIT_VCIS
    MPIR_ERR_CHKANDJUMP(MPIDI_global.n_vcis > 1, mpi_errno, MPI_ERR_OTHER, "**ethmx_vcis");
#endif
    MPIR_ERR_CHKANDJUMP(MPIR_Process.size > MPIDI_ETHMX_RANKS_MAX, mpi_errno, MPI_ERR_OTHER, "**ethmx_ranks");
    *tag_bits = MPIR_TAG_BITS_DEFAULT;
    MPIR_Process.tag_bits = *tag_bits; /* ch4 sets it after this, to the same */
    why = open_endpoint();
    if (why) {
        char host[256] = "?", text[1024];

        gethostname(host, sizeof(host) - 1);
        snprintf(text, sizeof(text), "ethmx cannot be used on host %s: %s", host, why);
        MPIDI_ETHMX_end_job(text);
        MPIR_ERR_SETANDJUMP2(mpi_errno, MPI_ERR_OTHER, "**ethmx_init", "**ethmx_init %s %s", host, why);
    }
    mpi_errno = MPIDI_ETHMX_am_init();
    MPIR_ERR_CHECK(mpi_errno);
#if MPIDI_ETHMX_CH4_LPID
    mpi_errno = add_self();
    MPIR_ERR_CHECK(mpi_errno);
#endif
    if (MPIR_CVAR_DEBUG_SUMMARY && MPIR_Process.rank == 0)
        print_summary();

fn_exit:
    return mpi_errno;
fn_fail:
    goto fn_exit;
}

/* ---- Virtual interfaces: there is one ---- */

#if MPIDI_ETHMX_CH4_LPID

int MPIDI_ETHMX_comm_set_vcis(MPIR_Comm *comm, int num_implicit, int num_reserved, MPIDI_num_vci_t *all_num_vcis)
{
    for (int i = 0; i < comm->local_size; i++)
        all_num_vcis[i].n_vcis = all_num_vcis[i].n_total_vcis = 1;
    return MPI_SUCCESS;
}

#else

#if MPIDI_ETHMX_CH4_INIT_VCIS
int MPIDI_ETHMX_init_vcis(int num_vcis, int *num_vcis_actual)
{
    *num_vcis_actual = 1;
    return MPI_SUCCESS;
}
#endif

int MPIDI_ETHMX_post_init(void)
{
    return MPI_SUCCESS;
}

#endif

/* ---- End ---- */

int MPIDI_ETHMX_mpi_finalize_hook(void)
{
    if (MPIDI_ETHMX_global.next_send) {
        MPIDI_ETHMX_complete(MPIDI_ETHMX_global.next_send);
        MPIR_Request_free_unsafe(MPIDI_ETHMX_global.next_send);
    }
    MPIDI_ETHMX_global.next_send = NULL;
    if (MPIDI_ETHMX_global.ep)
        MPIDI_ETHMX_lib.ep_close(MPIDI_ETHMX_global.ep);
    MPIDI_ETHMX_global.ep = NULL;
    return MPI_SUCCESS;
}
