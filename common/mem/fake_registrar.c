/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pin: a ring of io_uring holds one set of buffers, and gives it back at once only as a whole. So each registration has
 * a ring of its own; rings are kept for the next one.
 */
#define _GNU_SOURCE
#include "mem/fake_registrar.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ethmx.h"

#define PIN_MAX_BYTES ((size_t)1 << 30)

/* ---- pin ---- */

struct ring {
    struct ring *next;
    int fd;
};

struct pin {
    pthread_mutex_t lock;
    struct ring *idle;
};

static struct ring *fake_new_ring(void)
{
    struct ring *r = calloc(1, sizeof(*r));
    struct io_uring_params p = {0};

    if (!r)
        return NULL;
    r->fd = (int)syscall(SYS_io_uring_setup, 1, &p);
    if (r->fd >= 0)
        return r;
    free(r);
    return NULL;
}

static struct ring *fake_take_ring(struct pin *pin)
{
    struct ring *r;

    pthread_mutex_lock(&pin->lock);
    r = pin->idle;
    if (r)
        pin->idle = r->next;
    pthread_mutex_unlock(&pin->lock);
    return r ? r : fake_new_ring();
}

static void fake_give_ring(struct pin *pin, struct ring *r)
{
    pthread_mutex_lock(&pin->lock);
    r->next = pin->idle;
    pin->idle = r;
    pthread_mutex_unlock(&pin->lock);
}

static int fake_pin_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    struct iovec iov = {.iov_base = base, .iov_len = len_bytes};
    struct ring *r = fake_take_ring(arg);

    (void)access;
    if (!r)
        return ETHMX_ERR_NO_MEMORY;
    if (!syscall(SYS_io_uring_register, r->fd, IORING_REGISTER_BUFFERS, &iov, 1)) {
        *mr_p = r;
        return ETHMX_OK;
    }
    fake_give_ring(arg, r);
    return errno == ENOMEM || errno == EAGAIN ? ETHMX_ERR_NO_MEMORY : ETHMX_ERR_PARAM;
}

static void fake_pin_dereg(void *arg, void *mr)
{
    struct ring *r = mr;

    (void)syscall(SYS_io_uring_register, r->fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
    fake_give_ring(arg, r);
}

static void fake_free_pin(struct pin *pin)
{
    while (pin->idle) {
        struct ring *r = pin->idle;

        pin->idle = r->next;
        close(r->fd);
        free(r);
    }
    pthread_mutex_destroy(&pin->lock);
    free(pin);
}

static int fake_open_pin(struct emx_registrar *r_p, char *why, size_t why_len_bytes)
{
    struct pin *pin = calloc(1, sizeof(*pin));
    struct ring *r;

    if (!pin) {
        snprintf(why, why_len_bytes, "out of memory");
        return ETHMX_ERR_NO_MEMORY;
    }
    pthread_mutex_init(&pin->lock, NULL);
    r = fake_new_ring();
    if (!r) {
        snprintf(why, why_len_bytes, "io_uring: %s", strerror(errno));
        fake_free_pin(pin);
        return ETHMX_ERR_PARAM;
    }
    fake_give_ring(pin, r);
    *r_p = (struct emx_registrar){
        .name = "pin", .reg = fake_pin_reg, .dereg = fake_pin_dereg, .arg = pin, .max_bytes = PIN_MAX_BYTES};
    return ETHMX_OK;
}

/* ---- mlock ---- */

struct locked {
    void *base;
    size_t len_bytes;
};

static int fake_mlock_reg(void *arg, void *base, size_t len_bytes, unsigned access, void **mr_p)
{
    struct locked *l = malloc(sizeof(*l));

    (void)arg, (void)access;
    if (!l)
        return ETHMX_ERR_NO_MEMORY;
    if (mlock(base, len_bytes)) {
        free(l);
        return errno == ENOMEM || errno == EAGAIN ? ETHMX_ERR_NO_MEMORY : ETHMX_ERR_PARAM;
    }
    *l = (struct locked){base, len_bytes};
    *mr_p = l;
    return ETHMX_OK;
}

static void fake_mlock_dereg(void *arg, void *mr)
{
    struct locked *l = mr;

    (void)arg;
    munlock(l->base, l->len_bytes);
    free(l);
}

static int fake_open_mlock(struct emx_registrar *r_p)
{
    *r_p = (struct emx_registrar){.name = "mlock", .reg = fake_mlock_reg, .dereg = fake_mlock_dereg};
    return ETHMX_OK;
}

/* ---- Both ---- */

int emx_fake_registrar_open(const char *name, struct emx_registrar *r_p, char *why, size_t why_len_bytes)
{
    if (!name)
        return fake_open_pin(r_p, why, why_len_bytes) ? fake_open_mlock(r_p) : ETHMX_OK;
    if (!strcmp(name, "pin"))
        return fake_open_pin(r_p, why, why_len_bytes);
    if (!strcmp(name, "mlock"))
        return fake_open_mlock(r_p);
    snprintf(why, why_len_bytes, "there is no registrar \"%s\"", name);
    return ETHMX_ERR_PARAM;
}

const char *emx_fake_registrar_text(const struct emx_registrar *r)
{
    return r->reg == fake_pin_reg
               ? "no RDMA device: a fake registrar, io_uring, pins the pages as a device's driver would; what the "
                 "device itself takes is not in it"
               : "no RDMA device: a fake registrar, mlock(), locks the pages; what pinning and the device itself "
                 "take is not in it";
}

void emx_fake_registrar_close(struct emx_registrar *r)
{
    if (r->reg == fake_pin_reg)
        fake_free_pin(r->arg);
}
