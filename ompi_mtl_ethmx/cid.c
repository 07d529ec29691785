/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Context ids of communicators that come from sessions (MPI-4, Open MPI 5.0 on). Each process numbers them by itself;
 * what they have in common is an extended id of 128 bits, too long for match bits. So when such a communicator is made,
 * each of its processes tells the others its number, and waits for theirs: all of them are there, as making one is
 * collective.
 */
#include "mtl_ethmx.h"

#if MTL_ETHMX_SERIES != 401

#include <pthread.h>
#include <stdlib.h>

/* What a process tells each other one. */
struct cid_told {
    ompi_comm_extended_cid_t id;
    uint32_t rank, cid; /* its own, in its group */
};

/* ompi_communicator_t.c_mtl_comm */
struct mtl_ethmx_cids {
    struct mtl_ethmx_cids *next;
    ompi_comm_extended_cid_t id;
    uint32_t size, missing; /* processes; those that have told nothing yet */
    uint32_t sending;       /* to so many */
    int status;             /* ETHMX_*, of what could not be sent */
    uint32_t cid[];         /* 0: not known, which is MPI_COMM_WORLD's */
};

/* Told before the communicator was made here. */
struct cid_early {
    struct cid_early *next;
    struct cid_told told;
};

static pthread_mutex_t cid_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mtl_ethmx_cids *cid_all;
static struct cid_early *cid_early;

static bool cid_is_same(const ompi_comm_extended_cid_t *a, const ompi_comm_extended_cid_t *b)
{
    return a->cid_base == b->cid_base && a->cid_sub.u64 == b->cid_sub.u64;
}

static void cid_learn(struct mtl_ethmx_cids *c, const struct cid_told *told)
{
    if (told->rank < c->size && 0 == c->cid[told->rank] && 0 != told->cid) {
        c->cid[told->rank] = told->cid;
        c->missing--;
    }
}

/* With the lock. */
static void cid_keep(const struct cid_told *told)
{
    struct cid_early *e = malloc(sizeof(*e));
    if (NULL == e) {
        opal_output(0, "mtl/ethmx: no memory for a communicator's number");
        abort();
    }
    *e = (struct cid_early){.next = cid_early, .told = *told};
    cid_early = e;
}

static bool cid_received(void *arg, const struct ethmx_am *am)
{
    (void)arg;
    const struct cid_told *told = am->header;
    struct mtl_ethmx_cids *c;
    if (sizeof(*told) != am->header_bytes) {
        return false;
    }
    pthread_mutex_lock(&cid_lock);
    for (c = cid_all; NULL != c && !cid_is_same(&c->id, &told->id); c = c->next) {
    }
    if (NULL != c) {
        cid_learn(c, told);
    } else {
        cid_keep(told);
    }
    pthread_mutex_unlock(&cid_lock);
    return false;
}

static void cid_sent(void *arg, const struct ethmx_result *result)
{
    struct mtl_ethmx_cids *c = arg;
    pthread_mutex_lock(&cid_lock);
    c->sending--;
    if (ETHMX_OK != result->status) {
        c->status = result->status;
    }
    pthread_mutex_unlock(&cid_lock);
}

/* From here on what is told of it is learnt, and what was told before. */
static void cid_begin(struct mtl_ethmx_cids *c)
{
    pthread_mutex_lock(&cid_lock);
    c->next = cid_all;
    cid_all = c;
    for (struct cid_early **p = &cid_early, *e; NULL != (e = *p);) {
        if (!cid_is_same(&e->told.id, &c->id)) {
            p = &e->next;
            continue;
        }
        cid_learn(c, &e->told);
        *p = e->next;
        free(e);
    }
    pthread_mutex_unlock(&cid_lock);
}

/* OMPI_ERR_*. */
static int cid_tell(struct mtl_ethmx_cids *c, struct ompi_communicator_t *comm)
{
    const struct cid_told told = {.id = c->id, .rank = (uint32_t)comm->c_my_rank, .cid = comm->c_index};
    const struct ethmx_data none = {.len_bytes = 0};
    for (uint32_t rank = 0; rank < c->size; rank++) {
        struct ethmx_peer *peer;
        int rc = mtl_ethmx_peer(comm, (int)rank, &peer);
        if (OMPI_SUCCESS != rc) {
            return rc;
        }
        pthread_mutex_lock(&cid_lock);
        c->sending++;
        pthread_mutex_unlock(&cid_lock);
        int status = ethmx_am_send(mtl_ethmx.ep, peer, 0, &told, sizeof(told), &none, cid_sent, c);
        if (ETHMX_INPROGRESS != status) {
            cid_sent(c, &(struct ethmx_result){.status = status});
        }
    }
    return OMPI_SUCCESS;
}

/* Whether it has ended. */
static bool cid_look(const struct mtl_ethmx_cids *c, bool told)
{
    pthread_mutex_lock(&cid_lock);
    bool over = 0 == c->sending && (!told || ETHMX_OK != c->status || 0 == c->missing);
    pthread_mutex_unlock(&cid_lock);
    return over;
}

int mtl_ethmx_cid_begin(struct ompi_communicator_t *comm)
{
    if (OMPI_COMM_IS_GLOBAL_INDEX(comm)) {
        return OMPI_SUCCESS;
    }
    uint32_t size = (uint32_t)(OMPI_COMM_IS_INTER(comm) ? ompi_comm_remote_size(comm) : ompi_comm_size(comm));
    struct mtl_ethmx_cids *c = calloc(1, sizeof(*c) + size * sizeof(c->cid[0]));
    if (NULL == c) {
        return OMPI_ERR_OUT_OF_RESOURCE;
    }
    c->id = comm->c_contextid;
    c->size = c->missing = size;
    comm->c_mtl_comm = (struct mca_mtl_comm_t *)c;
    cid_begin(c);
    int rc = cid_tell(c, comm);
    while (!cid_look(c, OMPI_SUCCESS == rc)) {
        ethmx_progress(mtl_ethmx.ep);
    }
    if (OMPI_SUCCESS == rc && ETHMX_OK != c->status) {
        rc = mtl_ethmx_ompi_error(c->status);
    }
    if (OMPI_SUCCESS != rc) {
        mtl_ethmx_cid_end(comm);
    }
    return rc;
}

void mtl_ethmx_cid_end(struct ompi_communicator_t *comm)
{
    struct mtl_ethmx_cids *c = OMPI_COMM_IS_GLOBAL_INDEX(comm) ? NULL : (struct mtl_ethmx_cids *)comm->c_mtl_comm;
    if (NULL == c) {
        return;
    }
    pthread_mutex_lock(&cid_lock);
    for (struct mtl_ethmx_cids **p = &cid_all; NULL != *p; p = &(*p)->next) {
        if (*p == c) {
            *p = c->next;
            break;
        }
    }
    pthread_mutex_unlock(&cid_lock);
    comm->c_mtl_comm = NULL;
    free(c);
}

uint32_t mtl_ethmx_cid_at(const struct ompi_communicator_t *comm, int dest)
{
    return ((const struct mtl_ethmx_cids *)comm->c_mtl_comm)->cid[dest];
}

int mtl_ethmx_cid_open(void)
{
    return ETHMX_OK == ethmx_am_handler(mtl_ethmx.ep, 0, cid_received, NULL) ? OMPI_SUCCESS : OMPI_ERROR;
}

#else

int mtl_ethmx_cid_open(void)
{
    return OMPI_SUCCESS;
}

int mtl_ethmx_cid_begin(struct ompi_communicator_t *comm)
{
    (void)comm;
    return OMPI_SUCCESS;
}

void mtl_ethmx_cid_end(struct ompi_communicator_t *comm)
{
    (void)comm;
}

uint32_t mtl_ethmx_cid_at(const struct ompi_communicator_t *comm, int dest)
{
    (void)dest;
    return MTL_ETHMX_CID(comm);
}

#endif
