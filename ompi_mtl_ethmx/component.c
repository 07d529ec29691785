/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Component: registration, selection, start and end.
 *
 * When are we used? Open MPI's pml/ob1 has priority 20 and pml/cm takes that of the MTL it found. Installing ethmx must
 * not change anybody's jobs, so the default priority is 10: ob1 wins. Who names us (--mca mtl ethmx) means it, so the
 * priority is then 60, above any pml of Open MPI. Who asks for pml/cm gets us unless a fabric's own MTL is there. In
 * all other cases we decline before anything is opened, so that jobs that do not use us do not pay for us.
 */
#include "mtl_ethmx.h"

#include "ompi/mca/pml/base/base.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/argv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PRIORITY_DEFAULT 10
#define PRIORITY_OB1     20
#define PRIORITY_NAMED   60

static int component_register(void);
static int component_query(mca_base_module_t **module_p, int *priority_p);
static int component_close(void);
static mca_mtl_base_module_t *component_init(MTL_ETHMX_INIT_ARGUMENTS);
static int component_module_finalize(struct mca_mtl_base_module_t *mtl);

MTL_ETHMX_EXPORT extern mca_mtl_base_component_t mca_mtl_ethmx_component;

mca_mtl_base_component_t mca_mtl_ethmx_component = {
    .mtl_version =
        {
            MCA_MTL_BASE_VERSION_2_0_0,
            .mca_component_name = "ethmx",
            MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION),
            .mca_close_component = component_close,
            .mca_query_component = component_query,
            .mca_register_component_params = component_register,
        },
    .mtl_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .mtl_init = component_init,
};

struct mtl_ethmx_module mtl_ethmx = {
    .super =
        {
            .mtl_max_contextid = MTL_ETHMX_CID_MAX,
            .mtl_flags = MTL_ETHMX_FLAGS,
            .mtl_max_tag = INT_MAX,
            .mtl_request_size = sizeof(struct mtl_ethmx_request) - sizeof(struct mca_mtl_request_t),
            .mtl_add_procs = mtl_ethmx_add_procs,
            .mtl_del_procs = mtl_ethmx_del_procs,
            .mtl_finalize = component_module_finalize,
            .mtl_send = mtl_ethmx_send,
            .mtl_isend = mtl_ethmx_isend,
            .mtl_irecv = mtl_ethmx_irecv,
            .mtl_iprobe = mtl_ethmx_iprobe,
            .mtl_imrecv = mtl_ethmx_imrecv,
            .mtl_improbe = mtl_ethmx_improbe,
            .mtl_cancel = mtl_ethmx_cancel,
            .mtl_add_comm = mtl_ethmx_add_comm,
            .mtl_del_comm = mtl_ethmx_del_comm,
        },
    .lock = OPAL_MUTEX_STATIC_INIT,
    .bytes = sizeof(struct mtl_ethmx_module),
    .peer_add = mtl_ethmx_peer_add,
};

static int priority_param;

/* ---- Registration ----------------------------------------------------------------------------------------- */

static int component_register(void)
{
    if (!mtl_ethmx_version_fits("mtl")) {
        return OMPI_ERR_NOT_AVAILABLE;
    }
    priority_param = PRIORITY_DEFAULT;
    (void)mca_base_component_var_register(
        &mca_mtl_ethmx_component.mtl_version, "priority",
        "Priority of ethmx when it is not asked for. Above 20 it is used wherever it can work; it must then be "
        "installed on all nodes. --mca mtl ethmx raises it to 60.",
        MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY, &priority_param);
    return mtl_ethmx_params_register();
}

static int component_close(void)
{
    mtl_ethmx_params_release();
    return OMPI_SUCCESS;
}

/* ---- Selection -------------------------------------------------------------------------------------------- */

/* Whether a framework's selection ("a,b" or "^a,b") lets a component in by name: 1 yes, -1 no, 0 it does not say. */
static int component_selection_says(const char *selection, const char *name)
{
    if (NULL == selection || '\0' == selection[0]) {
        return 0;
    }
    int found = '^' == selection[0] ? -1 : 1;
    char **names = opal_argv_split(selection + (found < 0), ',');
    int says = 0;
    for (int i = 0; NULL != names && NULL != names[i]; i++) {
        if (0 == strcmp(names[i], name)) {
            says = found;
        }
    }
    opal_argv_free(names);
    return says;
}

static bool component_named(void)
{
    return component_selection_says(ompi_mtl_base_framework.framework_selection, "ethmx") > 0;
}

/* Whether anything but pml/ob1 could come to be used. */
static bool component_pml_may_be_cm(void)
{
    const char *selection = ompi_pml_base_framework.framework_selection;
    return component_selection_says(selection, "cm") > 0 || component_selection_says(selection, "ob1") < 0;
}

static int component_query(mca_base_module_t **module_p, int *priority_p)
{
    *module_p = NULL;
    *priority_p = component_named() && priority_param < PRIORITY_NAMED ? PRIORITY_NAMED : priority_param;
    if (*priority_p <= PRIORITY_OB1 && !component_pml_may_be_cm()) {
        MTL_ETHMX_VERBOSE(20, "not asked for (--mca pml cm --mca mtl ethmx), priority %d", *priority_p);
        return OMPI_ERR_NOT_AVAILABLE;
    }
    *module_p = (mca_base_module_t *)&mtl_ethmx.super;
    return OMPI_SUCCESS;
}

/* ---- Start ------------------------------------------------------------------------------------------------ */

/* ethmx cannot be used. Open MPI continues with another transport; if ethmx was named, it must not, and the process
 * that has printed the reason aborts the job. */
static mca_mtl_base_module_t *component_decline(const char *why)
{
    if (!component_named()) {
        mtl_ethmx_help("declined", false, ompi_process_info.nodename, why);
    } else if (mtl_ethmx_help("named but unusable", true, ompi_process_info.nodename, why)) {
        ompi_rte_abort(1, NULL);
    }
    return NULL;
}

/* The launcher may tell the job's key through PMIx. */
static void component_job_key(uint8_t key[16])
{
    const opal_process_name_t job = {.jobid = OMPI_PROC_MY_NAME->jobid, .vpid = OPAL_VPID_WILDCARD};
    char *credential = NULL;
    int rc;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, MTL_ETHMX_PMIX_KEY, &job, &credential, MTL_ETHMX_PMIX_STRING);
    mtl_ethmx_launcher_key(OMPI_SUCCESS == rc ? credential : NULL, key);
    free(credential);
}

static int component_address_publish(void)
{
    uint8_t addr[ETHMX_ADDRESS_MAX];
    size_t len_bytes = sizeof(addr);
    int rc = mtl_ethmx_ompi_error(ethmx_ep_address(mtl_ethmx.ep, addr, &len_bytes));
    if (OMPI_SUCCESS == rc) {
        OPAL_MODEX_SEND(rc, MTL_ETHMX_PMIX_GLOBAL, &mca_mtl_ethmx_component.mtl_version, addr, len_bytes);
    }
    return rc;
}

static void component_peer_failed(void *arg, struct ethmx_peer *peer, int status, const char *text)
{
    (void)arg, (void)peer, (void)status;
    opal_output(0, "mtl/ethmx: %s", text);
}

static int component_module_progress(void)
{
    return (int)ethmx_progress(mtl_ethmx.ep);
}

/* 5.0 also asks, by a pointer to false, whether we take memory of devices. */
static mca_mtl_base_module_t *component_init(MTL_ETHMX_INIT_ARGUMENTS)
{
    (void)enable_progress_threads;
    const char *why;
    if (ompi_process_info.num_procs > MTL_ETHMX_RANKS_MAX) {
        return component_decline("ethmx carries jobs of at most 65536 processes");
    }
    if (!mtl_ethmx_params_apply(&why)) {
        return component_decline(why);
    }
    char address[256];
    struct ethmx_ep_options opt = {.api_version = ETHMX_API_VERSION,
                                   .struct_bytes = sizeof(opt),
                                   .thread_multiple = enable_mpi_threads,
                                   .process = (uint64_t)OMPI_PROC_MY_NAME->jobid << 32 | (OMPI_PROC_MY_NAME->vpid + 1),
                                   .local_rank = ompi_process_info.my_local_rank,
                                   .local_ranks = ompi_process_info.num_local_peers + 1};
    component_job_key(opt.job_key);
    opt.reach = mtl_ethmx_launcher_address(address, sizeof(address)) ? address : NULL;
    MTL_ETHMX_VERBOSE(20, "libethmx %s, launcher reached at %s", ethmx_version(), opt.reach ? opt.reach : "(unknown)");
    mtl_ethmx_memory_offer(true);
    if (ETHMX_OK != ethmx_ep_open(mtl_ethmx.cfg, &opt, &mtl_ethmx.ep)) {
        mtl_ethmx.ep = NULL;
        mtl_ethmx_memory_offer(false);
        return component_decline(ethmx_error_text());
    }
    if (OMPI_SUCCESS != mtl_ethmx_cid_open() || OMPI_SUCCESS != component_address_publish()) {
        ethmx_ep_close(mtl_ethmx.ep);
        mtl_ethmx.ep = NULL;
        mtl_ethmx_memory_offer(false);
        return component_decline("its address could not be published through PMIx");
    }
    ethmx_ep_on_error(mtl_ethmx.ep, component_peer_failed, NULL);
    opal_progress_register(component_module_progress);
    return &mtl_ethmx.super;
}

/* ---- End -------------------------------------------------------------------------------------------------- */

static int component_module_finalize(struct mca_mtl_base_module_t *mtl)
{
    (void)mtl;
    if (NULL != mtl_ethmx.ep) {
        opal_progress_unregister(component_module_progress);
        ethmx_ep_close(mtl_ethmx.ep);
        mtl_ethmx.ep = NULL;
        mtl_ethmx_memory_offer(false);
    }
    return OMPI_SUCCESS;
}
