/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The MTL component of Open MPI for ethmx. It translates: MPI's ranks and tags into peers and match bits, Open MPI's
 * datatypes into ethmx_data, ethmx's results into MPI's statuses. It matches nothing, resends nothing and chooses no
 * wire; libethmx does.
 *
 * Files: component (open, init, progress, finalize), launcher (what the launcher provides), params (MCA parameters and
 * MPI_T variables), help, peer (processes), comm (communicators), cid (their numbers), send, recv, probe, cancel,
 * layout (datatypes that are not contiguous), error, memory (Open MPI's memory hooks). Differences between series of
 * Open MPI are in mtl_ethmx_series.h.
 */
#ifndef MTL_ETHMX_H
#define MTL_ETHMX_H

#include "mtl_ethmx_series.h"

#include "ompi/communicator/communicator.h"
#include "ompi/constants.h"
#include "ompi/mca/mtl/base/base.h"
#include "ompi/mca/mtl/mtl.h"
#include "ompi/proc/proc.h"
#include "opal/datatype/opal_convertor.h"
#include "opal/datatype/opal_datatype_internal.h"
#include "opal/util/output.h"

#include <ethmx.h>

#include <stdio.h>

#ifndef OMPI_PROC_ENDPOINT_TAG_MTL
#error "this Open MPI was configured without any MTL: it keeps no room for an MTL's peers"
#endif

/* ---- Match bits: context id, rank of the sender, tag ------------------------------------------------------ */

#define MTL_ETHMX_CID_SHIFT   48
#define MTL_ETHMX_SRC_SHIFT   32
#define MTL_ETHMX_CID_MASK    0xffff000000000000ull
#define MTL_ETHMX_SRC_MASK    0x0000ffff00000000ull
#define MTL_ETHMX_TAG_MASK    0x00000000ffffffffull
#define MTL_ETHMX_CID_MAX     0xffff
#define MTL_ETHMX_RANKS_MAX   0x10000
/* Collectives use negative tags, which MPI_ANY_TAG must not match: the sign is always compared. */
#define MTL_ETHMX_ANYTAG_MASK 0x000000007fffffffull

static inline uint64_t mtl_ethmx_bits_of(uint32_t cid, int source, int tag)
{
    return (uint64_t)cid << MTL_ETHMX_CID_SHIFT | (uint64_t)(uint16_t)source << MTL_ETHMX_SRC_SHIFT | (uint32_t)tag;
}

/* Of messages that this process receives. */
static inline uint64_t mtl_ethmx_bits(const struct ompi_communicator_t *comm, int source, int tag)
{
    return mtl_ethmx_bits_of(MTL_ETHMX_CID(comm), source, tag);
}

/* Context ids of communicators of sessions (cid.c; Open MPI 5.0 on). begin tells the other processes and waits for
 * them; does nothing for other communicators. OMPI_ERR_*. */
int mtl_ethmx_cid_open(void);
int mtl_ethmx_cid_begin(struct ompi_communicator_t *comm);
void mtl_ethmx_cid_end(struct ompi_communicator_t *comm);
/* What the process of this rank calls it. */
uint32_t mtl_ethmx_cid_at(const struct ompi_communicator_t *comm, int dest);

/* Of a message that this process sends. */
static inline uint64_t mtl_ethmx_bits_to(const struct ompi_communicator_t *comm, int dest, int tag)
{
    uint32_t cid = OPAL_UNLIKELY(MTL_ETHMX_HAS_CIDS(comm)) ? mtl_ethmx_cid_at(comm, dest) : MTL_ETHMX_CID(comm);
    return mtl_ethmx_bits_of(cid, comm->c_my_rank, tag);
}

static inline int mtl_ethmx_bits_source(uint64_t bits)
{
    return (int)((bits & MTL_ETHMX_SRC_MASK) >> MTL_ETHMX_SRC_SHIFT);
}

static inline int mtl_ethmx_bits_tag(uint64_t bits)
{
    return (int)(uint32_t)(bits & MTL_ETHMX_TAG_MASK);
}

/* ---- The one module --------------------------------------------------------------------------------------- */

struct mtl_ethmx_module {
    struct mca_mtl_base_module_t super;
    struct ethmx_config *cfg; /* from the component's registration to its close */
    struct ethmx_ep *ep;      /* from init to finalize */
    opal_mutex_t lock;        /* between cancelling a receive and its completion; taken by threaded programs only */
    /* For the OSC component (osc/), which is a library of its own and finds the module by ompi_mtl. */
    size_t bytes; /* of this struct */
    int (*peer_add)(struct ompi_proc_t *proc, struct ethmx_peer **peer_p);
};

extern struct mtl_ethmx_module mtl_ethmx;
extern mca_mtl_base_component_t mca_mtl_ethmx_component;

/* Prints on the framework's stream; level as in mtl_base_verbose. */
#define MTL_ETHMX_VERBOSE(level, ...)                                                                                  \
    opal_output_verbose((level), ompi_mtl_base_framework.framework_output, "mtl:ethmx: " __VA_ARGS__)

/* Open MPI loads any component whose file name fits, of other series as well, where structures differ. */
static inline bool mtl_ethmx_version_fits(const char *framework)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int len, major = 0, minor = 0;
    if (MPI_SUCCESS != PMPI_Get_library_version(text, &len) || 2 != sscanf(text, "Open MPI v%d.%d", &major, &minor)) {
        major = 0;
    }
    if (OMPI_MAJOR_VERSION == major && OMPI_MINOR_VERSION == minor) {
        return true;
    }
    opal_output(0, "%s/ethmx was built for Open MPI %d.%d and is not used with this one (%s)", framework,
                OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, text);
    return false;
}

/* Shows a topic of help-mtl-ethmx.txt, unless another process of the job did so on this host. framed: between lines.
 * Returns whether it was shown. */
bool mtl_ethmx_help(const char *topic, int framed, ...);

/* ---- Requests --------------------------------------------------------------------------------------------- */

struct mtl_ethmx_layout;

/* Contained in Open MPI's own request. */
struct mtl_ethmx_request {
    struct mca_mtl_request_t super;
    struct ethmx_req *posted;        /* a receive that can still be cancelled, or NULL */
    struct mtl_ethmx_layout *layout; /* of data that is not contiguous, or NULL */
};

static inline struct mtl_ethmx_request *mtl_ethmx_request(struct mca_mtl_request_t *r)
{
    return (struct mtl_ethmx_request *)r;
}

/* ETHMX_* as MPI_ERR_* (in a request's status) and as OMPI_ERR_* (returned by a call). */
int mtl_ethmx_mpi_error(int status);
int mtl_ethmx_ompi_error(int status);

/* ---- Peers ------------------------------------------------------------------------------------------------ */

/* Adds proc as a peer, by what it published; harmless if it is one. Prints help on failure. OMPI_ERR_*. */
int mtl_ethmx_peer_add(struct ompi_proc_t *proc, struct ethmx_peer **peer_p);

/* The peer of a rank (of the remote group, if comm is an intercommunicator), added at first use. */
static inline int mtl_ethmx_peer(struct ompi_communicator_t *comm, int rank, struct ethmx_peer **peer_p)
{
    struct ompi_proc_t *proc = ompi_comm_peer_lookup(comm, rank);
    if (OPAL_LIKELY(NULL != proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL])) {
        *peer_p = proc->proc_endpoints[OMPI_PROC_ENDPOINT_TAG_MTL];
        return OMPI_SUCCESS;
    }
    return mtl_ethmx_peer_add(proc, peer_p);
}

/* The match of a receive or probe. */
struct mtl_ethmx_want {
    struct ethmx_peer *peer; /* NULL: any */
    uint64_t bits, mask;
};

static inline int mtl_ethmx_want(struct ompi_communicator_t *comm, int source, int tag, struct mtl_ethmx_want *want_p)
{
    want_p->mask = MTL_ETHMX_CID_MASK | MTL_ETHMX_SRC_MASK | MTL_ETHMX_TAG_MASK;
    want_p->peer = NULL;
    if (MPI_ANY_TAG == tag) {
        want_p->mask &= ~MTL_ETHMX_ANYTAG_MASK;
        tag = 0;
    }
    if (MPI_ANY_SOURCE == source) {
        want_p->mask &= ~MTL_ETHMX_SRC_MASK;
        want_p->bits = mtl_ethmx_bits(comm, 0, tag);
        return OMPI_SUCCESS;
    }
    want_p->bits = mtl_ethmx_bits(comm, source, tag);
    return mtl_ethmx_peer(comm, source, &want_p->peer);
}

/* Called after an operation with this rank completed at once. If the rank is this process, the other side of the
 * message has completed, too, but only the next progress reports it. MPI requires no more. But ob1 reports both in one
 * call, and programs rely on that if they test once (MPI_Testsome tests before it calls progress). In an
 * intercommunicator the rank may be another process's; then the call is harmless. */
static inline void mtl_ethmx_tell_self(const struct ompi_communicator_t *comm, int rank)
{
    if (OPAL_UNLIKELY(rank == comm->c_my_rank)) {
        ethmx_progress(mtl_ethmx.ep);
    }
}

/* ---- Data ------------------------------------------------------------------------------------------------- */

/* A cursor over data that is not contiguous. NULL: out of memory. Uses convertor's datatype, count and buffer only;
 * the datatype must stay until the layout is destroyed. */
struct mtl_ethmx_layout *mtl_ethmx_layout_create(const struct opal_convertor_t *convertor);
void mtl_ethmx_layout_destroy(struct mtl_ethmx_layout *layout);

/* Copy len_bytes at offset of the packed message to, or from, buf. ethmx_copy_fn. */
void mtl_ethmx_layout_pack(void *layout, size_t offset, void *buf, size_t len_bytes);
void mtl_ethmx_layout_unpack(void *layout, size_t offset, void *buf, size_t len_bytes);

/* Whether it is memory of a device (a GPU) that the processor cannot copy. Unified memory does not count. */
static inline bool mtl_ethmx_is_device(const struct opal_convertor_t *convertor)
{
    return MTL_ETHMX_SEES_DEVICES &&
           MTL_ETHMX_DEVICE == (convertor->flags & (MTL_ETHMX_DEVICE | MTL_ETHMX_DEVICE_UNIFIED));
}

/* Prints, once, that ethmx carries memory of the host only. Returns OMPI_ERR_NOT_SUPPORTED. */
int mtl_ethmx_refuse_device(void);

/* Describes the convertor's data. *layout_p (NULL for contiguous data) is the caller's to destroy after the operation.
 *
 * For contiguous sends pml/cm fills only a part of the convertor, without the CONVERTOR_SEND flag, and has added the
 * datatype's true lower bound to the buffer already. In convertors that Open MPI prepared it has not been added. */
static inline int mtl_ethmx_describe(const struct opal_convertor_t *convertor, ethmx_copy_fn copy,
                                     struct ethmx_data *data_p, struct mtl_ethmx_layout **layout_p)
{
    const opal_datatype_t *type = convertor->pDesc;
    *data_p = (struct ethmx_data){.len_bytes = convertor->local_size, .base = convertor->pBaseBuf};
    *layout_p = NULL;
    if (OPAL_UNLIKELY(0 == convertor->local_size)) {
        return OMPI_SUCCESS;
    }
    if (OPAL_UNLIKELY(mtl_ethmx_is_device(convertor))) {
        return mtl_ethmx_refuse_device();
    }
    if (OPAL_LIKELY((type->flags & OPAL_DATATYPE_FLAG_NO_GAPS) ||
                    ((type->flags & OPAL_DATATYPE_FLAG_CONTIGUOUS) && 1 == convertor->count))) {
        if (convertor->flags & (CONVERTOR_SEND | CONVERTOR_RECV)) {
            data_p->base = convertor->pBaseBuf + type->true_lb;
        }
        return OMPI_SUCCESS;
    }
    *layout_p = mtl_ethmx_layout_create(convertor);
    if (NULL == *layout_p) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    data_p->base = NULL;
    data_p->copy = copy;
    data_p->copy_arg = *layout_p;
    return OMPI_SUCCESS;
}

static inline void mtl_ethmx_undescribe(struct mtl_ethmx_layout *layout)
{
    if (OPAL_UNLIKELY(NULL != layout)) {
        mtl_ethmx_layout_destroy(layout);
    }
}

/* ---- Launcher --------------------------------------------------------------------------------------------- */

/* The job's key: the same in all its processes and in those it spawns, different in other jobs. All zero: there is
 * none. credential: PMIx's credential, or NULL. */
void mtl_ethmx_launcher_key(const char *credential, uint8_t key[16]);

/* The address or host name of the launcher. false: not known. */
bool mtl_ethmx_launcher_address(char *address, size_t room_bytes);

/* ---- Parameters ------------------------------------------------------------------------------------------- */

/* Registers mtl_ethmx_* for each parameter of ethmx and a variable of MPI_T for each counter. OMPI_ERR_*. */
int mtl_ethmx_params_register(void);

/* Copies MCA parameters that were set into mtl_ethmx.cfg. false and a sentence: one is invalid. */
bool mtl_ethmx_params_apply(const char **error_p);

void mtl_ethmx_params_release(void);

/* ---- Memory ----------------------------------------------------------------------------------------------- */

/* Offers Open MPI's memory hooks to ethmx, or withdraws them. Called while no endpoint is open. */
void mtl_ethmx_memory_offer(bool on);

/* ---- The verbs (documented in ompi/mca/mtl/mtl.h) ---------------------------------------------------------- */

int mtl_ethmx_add_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs, struct ompi_proc_t **procs);
int mtl_ethmx_del_procs(struct mca_mtl_base_module_t *mtl, size_t nprocs, struct ompi_proc_t **procs);
int mtl_ethmx_add_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm);
int mtl_ethmx_del_comm(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm);
int mtl_ethmx_send(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int dest, int tag,
                   struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode);
int mtl_ethmx_isend(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int dest, int tag,
                    struct opal_convertor_t *convertor, mca_pml_base_send_mode_t mode, bool blocking,
                    mca_mtl_request_t *mtl_request);
int mtl_ethmx_irecv(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int src, int tag,
                    struct opal_convertor_t *convertor, struct mca_mtl_request_t *mtl_request);
int mtl_ethmx_iprobe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int src, int tag, int *flag,
                     struct ompi_status_public_t *status);
int mtl_ethmx_improbe(struct mca_mtl_base_module_t *mtl, struct ompi_communicator_t *comm, int src, int tag,
                      int *matched, struct ompi_message_t **message, struct ompi_status_public_t *status);
int mtl_ethmx_imrecv(struct mca_mtl_base_module_t *mtl, struct opal_convertor_t *convertor,
                     struct ompi_message_t **message, struct mca_mtl_request_t *mtl_request);
int mtl_ethmx_cancel(struct mca_mtl_base_module_t *mtl, mca_mtl_request_t *mtl_request, int flag);

#endif
