/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/backlog.h"

bool emx_backlog_init(struct emx_backlog *b, size_t frame_bytes)
{
    memset(b, 0, sizeof(*b));
    b->slot_bytes = frame_bytes;
    b->mem = malloc(frame_bytes * EMX_WIRE_BATCH);
    return b->mem != NULL;
}

void emx_backlog_fini(struct emx_backlog *b)
{
    free(b->mem);
    b->mem = NULL;
}

bool emx_backlog_full_error(int err)
{
    return err == EAGAIN || err == EWOULDBLOCK || err == ENOBUFS;
}

unsigned emx_backlog_keep(struct emx_backlog *b, const struct emx_txframe *f, unsigned n)
{
    if (b->tries >= EMX_BACKLOG_TRIES)
        return n;
    if (!b->count)
        b->first = 0;
    for (; n; n--, f++) {
        unsigned i = b->first + b->count++;
        uint8_t *slot = b->mem + i * b->slot_bytes;

        memcpy(slot, f->head, f->head_bytes);
        if (f->body_bytes)
            memcpy(slot + f->head_bytes, f->body, f->body_bytes);
        b->len_bytes[i] = (uint32_t)f->head_bytes + f->body_bytes;
        b->to[i] = *f->to;
    }
    return 0;
}

unsigned emx_backlog_flush(struct emx_backlog *b,
                           int (*send)(void *arg, const struct emx_wire_addr *to, const void *data, size_t len_bytes),
                           void *arg)
{
    unsigned lost = 0;

    while (b->count) {
        unsigned i = b->first;
        int err = send(arg, &b->to[i], b->mem + i * b->slot_bytes, b->len_bytes[i]);

        if (emx_backlog_full_error(err)) {
            if (++b->tries < EMX_BACKLOG_TRIES)
                return lost;
            lost += b->count;
            b->count = 0;
            return lost;
        }
        if (err)
            lost++;
        else
            emx_backlog_success(b);
        b->first++;
        b->count--;
    }
    return lost;
}
