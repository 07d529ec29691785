/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Processes and peers. Open MPI tells of the processes of the own node at start and of others when they are first
 * needed, or never; so each verb looks a peer up by itself (mtl_ethmx_peer()).
 */
#include "mtl_ethmx.h"

#include "opal/util/error.h"

/* Help that names both ends. The host of the other is asked for only now, and may not be known. */
static void peer_help(struct ompi_proc_t *proc, const char *topic, const char *why)
{
    char *host = NULL;
    int rc;
    OPAL_MODEX_RECV_VALUE_OPTIONAL(rc, MTL_ETHMX_PMIX_HOSTNAME, &proc->super.proc_name, &host, MTL_ETHMX_PMIX_STRING);
    mtl_ethmx_help(topic, true, ompi_process_info.nodename,
                   OMPI_SUCCESS == rc && NULL != host ? host : "an unknown host",
                   OMPI_NAME_PRINT(&proc->super.proc_name), why);
    free(host);
}

int mtl_ethmx_peer_add(struct ompi_proc_t *proc, struct ethmx_peer **peer_p)
{
    void *addr = NULL;
    size_t len_bytes = 0;
    int rc;
    OPAL_MODEX_RECV(rc, &mca_mtl_ethmx_component.mtl_version, &proc->super.proc_name, &addr, &len_bytes);
    if (OMPI_SUCCESS != rc || NULL == addr) {
        peer_help(proc, "no address", opal_strerror(rc));
        free(addr);
        return OMPI_ERR_UNREACH;
    }
    int status = ethmx_peer_add(mtl_ethmx.ep, addr, len_bytes, proc, peer_p);
    free(addr);
    if (ETHMX_OK != status) {
        peer_help(proc, "bad address", ethmx_error_text());
        return mtl_ethmx_ompi_error(status);
    }
    proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL] = *peer_p;
    return OMPI_SUCCESS;
}

int mtl_ethmx_add_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs, struct ompi_proc_t **procs)
{
    (void)mtl;
    for (size_t i = 0; i < nprocs; i++) {
        struct ethmx_peer *peer;
        if (NULL == procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL]) {
            int rc = mtl_ethmx_peer_add(procs[i], &peer);
            if (OMPI_SUCCESS != rc) {
                return rc;
            }
        }
    }
    return OMPI_SUCCESS;
}

/* Comes at the end of the job. The peers are the endpoint's, which goes soon. */
int mtl_ethmx_del_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs, struct ompi_proc_t **procs)
{
    (void)mtl;
    for (size_t i = 0; i < nprocs; i++) {
        struct ethmx_peer *peer = procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
        if (NULL == peer) {
            continue;
        }
        procs[i]->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL] = NULL;
        if (NULL != mtl_ethmx.ep) {
            struct ethmx_peer_info info = {.struct_bytes = sizeof(info)};
            ethmx_peer_query(mtl_ethmx.ep, peer, &info);
            MTL_ETHMX_VERBOSE(20, "peer %s on %s: %s%s%s%s%s, round trip %llu ns",
                              OMPI_NAME_PRINT(&procs[i]->super.proc_name), info.host, info.state,
                              info.wire[0] ? " by " : "", info.wire, info.interface[0] ? " on " : "", info.interface,
                              (unsigned long long)info.rtt_ns);
        }
    }
    return OMPI_SUCCESS;
}
