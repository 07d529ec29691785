/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two ends of the libfabric provider in one process, as its tests use them.
 */
#include "ends.h"

#include <string.h>
#include <time.h>

struct end end[2];

/* ---- Ends ---- */

struct fi_info *hints_new(uint64_t caps)
{
    struct fi_info *h = fi_allocinfo();

    assert_non_null(h);
    h->caps = caps;
    h->ep_attr->type = FI_EP_RDM;
    h->fabric_attr->prov_name = strdup("ethmx");
    return h;
}

struct fi_info *info_of(struct fi_info *hints, int want)
{
    struct fi_info *info = NULL;

    assert_int_equal(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), want);
    fi_freeinfo(hints);
    return info;
}

enum fi_wait_obj wait_object = FI_WAIT_UNSPEC;
enum fi_threading threading = FI_THREAD_UNSPEC;
enum fi_progress progress = FI_PROGRESS_UNSPEC;
enum fi_av_type av_type = FI_AV_MAP;

struct fid_cq *cq_new(struct end *e, enum fi_cq_format format)
{
    struct fi_cq_attr attr = {.format = format, .wait_obj = wait_object, .size = 1};
    struct fid_cq *cq;

    assert_int_equal(fi_cq_open(e->domain, &attr, &cq, NULL), 0);
    return cq;
}

void end_open(struct end *e, uint64_t caps, uint64_t tx_flags, uint64_t rx_flags)
{
    struct fi_info *h = hints_new(caps);
    struct fi_av_attr av = {.type = av_type};

    h->domain_attr->threading = threading;
    h->domain_attr->control_progress = h->domain_attr->data_progress = progress;
    h->domain_attr->av_type = av_type;
    e->info = info_of(h, 0);
    assert_int_equal(fi_fabric(e->info->fabric_attr, &e->fabric, NULL), 0);
    assert_int_equal(fi_domain(e->fabric, e->info, &e->domain, NULL), 0);
    assert_int_equal(fi_av_open(e->domain, &av, &e->av, NULL), 0);
    assert_int_equal(fi_endpoint(e->domain, e->info, &e->ep, NULL), 0);
    e->tx = cq_new(e, FI_CQ_FORMAT_TAGGED);
    e->rx = cq_new(e, FI_CQ_FORMAT_TAGGED);
    assert_int_equal(fi_ep_bind(e->ep, &e->tx->fid, FI_TRANSMIT | tx_flags), 0);
    assert_int_equal(fi_ep_bind(e->ep, &e->rx->fid, FI_RECV | rx_flags), 0);
    assert_int_equal(fi_ep_bind(e->ep, &e->av->fid, 0), 0);
    e->buf = calloc(1, LARGE);
    assert_non_null(e->buf);
}

void end_enable(struct end *e)
{
    assert_int_equal(fi_enable(e->ep), 0);
}

fi_addr_t end_insert(struct end *e, struct end *other)
{
    uint8_t name[NAME_BYTES];
    size_t len = sizeof(name);
    fi_addr_t addr;

    assert_int_equal(fi_getname(&other->ep->fid, name, &len), 0);
    assert_int_equal(len, NAME_BYTES);
    assert_int_equal(fi_av_insert(e->av, name, 1, &addr, 0, NULL), 1);
    return addr;
}

void end_close(struct end *e)
{
    assert_int_equal(fi_close(&e->ep->fid), 0);
    assert_int_equal(fi_close(&e->av->fid), 0);
    assert_int_equal(fi_close(&e->tx->fid), 0);
    assert_int_equal(fi_close(&e->rx->fid), 0);
    assert_int_equal(fi_close(&e->domain->fid), 0);
    assert_int_equal(fi_close(&e->fabric->fid), 0);
    fi_freeinfo(e->info);
    free(e->buf);
}

static void open_both(uint64_t caps, uint64_t flags)
{
    for (unsigned i = 0; i < 2; i++) {
        end_open(&end[i], caps, flags, flags);
        end_enable(&end[i]);
    }
    for (unsigned i = 0; i < 2; i++) {
        end[i].self = end_insert(&end[i], &end[i]);
        end[i].peer = end_insert(&end[i], &end[1 - i]);
    }
}

int ends_open(void **state)
{
    (void)state;
    open_both(CAPS, 0);
    return 0;
}

int ends_open_selective(void **state)
{
    (void)state;
    open_both(CAPS, FI_SELECTIVE_COMPLETION);
    return 0;
}

int ends_open_onesided(void **state)
{
    (void)state;
    open_both(CAPS | FI_RMA | FI_ATOMIC, 0);
    return 0;
}

int ends_close(void **state)
{
    (void)state;
    end_close(&end[0]);
    end_close(&end[1]);
    return 0;
}

/* ---- Completions ---- */

void poll_all(void)
{
    for (unsigned i = 0; i < 2; i++) {
        fi_cq_read(end[i].tx, NULL, 0);
        fi_cq_read(end[i].rx, NULL, 0);
    }
}

/* The next completion of the queue, or its error. */
ssize_t next_of(struct fid_cq *cq, struct fi_cq_tagged_entry *c, fi_addr_t *from)
{
    time_t late = time(NULL) + PATIENCE_S;
    ssize_t rc;

    memset(c, 0, sizeof(*c));
    while ((rc = fi_cq_readfrom(cq, c, 1, from)) == -FI_EAGAIN) {
        assert_true(time(NULL) < late);
        poll_all();
    }
    return rc;
}

struct fi_cq_tagged_entry done(struct fid_cq *cq, void *context)
{
    struct fi_cq_tagged_entry c;
    fi_addr_t from;

    assert_int_equal(next_of(cq, &c, &from), 1);
    assert_ptr_equal(c.op_context, context);
    return c;
}

struct fi_cq_err_entry failed(struct fid_cq *cq, void *context)
{
    struct fi_cq_err_entry err = {0};
    struct fi_cq_tagged_entry c;
    fi_addr_t from;

    assert_int_equal(next_of(cq, &c, &from), -FI_EAVAIL);
    assert_int_equal(fi_cq_readerr(cq, &err, 0), 1);
    assert_ptr_equal(err.op_context, context);
    return err;
}

void none_of(struct fid_cq *cq)
{
    struct fi_cq_tagged_entry c;

    for (unsigned i = 0; i < 20; i++) {
        poll_all();
        assert_int_equal(fi_cq_read(cq, &c, 1), -FI_EAGAIN);
    }
}

void fill(uint8_t *buf, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        buf[i] = (uint8_t)(i * 7 + i / 251 + seed);
}

void check(const uint8_t *buf, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        assert_int_equal(buf[i], (uint8_t)(i * 7 + i / 251 + seed));
}

static int run(const char *name, const struct CMUnitTest *tests, size_t count)
{
    return _cmocka_run_group_tests(name, tests, count, NULL, NULL);
}

int over_wires(const struct CMUnitTest *tests, size_t count)
{
    int failures;

    setenv("ETHMX_WIRES", "shm", 1);
    failures = run("over shm", tests, count);
    setenv("ETHMX_WIRES", "udp", 1);
    setenv("ETHMX_IF", "lo", 1);
    return failures + run("over udp", tests, count);
}
