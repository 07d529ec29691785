/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ends of the libfabric provider in one process, each with its own domain, as its tests use them. libfabric loads
 * the provider from the folder that FI_PROVIDER_PATH names.
 */
#ifndef EMX_TESTS_LIBFABRIC_ENDS_H
#define EMX_TESTS_LIBFABRIC_ENDS_H

#include "unit.h"

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#define NAME_BYTES 56
#define PATIENCE_S 60 /* for what will never come */
#define LARGE      1000000
#define CAPS       (FI_MSG | FI_TAGGED | FI_MULTI_RECV | FI_DIRECTED_RECV | FI_SOURCE)

struct end {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *tx, *rx;
    struct fid_ep *ep;
    fi_addr_t peer, self;
    uint8_t *buf;
};

extern struct end end[2];
extern enum fi_wait_obj wait_object; /* of completion queues */
extern enum fi_threading threading;  /* of domains */
extern enum fi_progress progress;    /* of domains */
extern enum fi_av_type av_type;      /* of address vectors */

/* What fi_getinfo() says to these hints, which are freed. want: what it returns. */
struct fi_info *hints_new(uint64_t caps);
struct fi_info *info_of(struct fi_info *hints, int want);

struct fid_cq *cq_new(struct end *e, enum fi_cq_format format);
void end_open(struct end *e, uint64_t caps, uint64_t tx_flags, uint64_t rx_flags);
void end_enable(struct end *e);
fi_addr_t end_insert(struct end *e, struct end *other);
void end_close(struct end *e);

/* For cmocka: both ends; with selective completion; with one-sided operations. */
int ends_open(void **state);
int ends_open_selective(void **state);
int ends_open_onesided(void **state);
int ends_close(void **state);
#define WITH_ENDS(f) cmocka_unit_test_setup_teardown(f, ends_open, ends_close)

void poll_all(void);
/* The next completion of the queue: 1, or -FI_EAVAIL. */
ssize_t next_of(struct fid_cq *cq, struct fi_cq_tagged_entry *c, fi_addr_t *from);
/* It, with this context: a success, or an error. */
struct fi_cq_tagged_entry done(struct fid_cq *cq, void *context);
struct fi_cq_err_entry failed(struct fid_cq *cq, void *context);
void none_of(struct fid_cq *cq);

void fill(uint8_t *buf, size_t len, unsigned seed);
void check(const uint8_t *buf, size_t len, unsigned seed);

/* Runs the tests over shm, then over udp on loopback. */
int over_wires(const struct CMUnitTest *tests, size_t count);

#endif
