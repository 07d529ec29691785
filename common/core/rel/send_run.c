/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/rel/send_run.h"

#include <string.h>

#include "core/engine_impl.h"
#include "core/format/chunk_frame.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

bool emx_send_run_suits_ack(const struct emx_session *s, uint32_t ack, uint64_t early)
{
    if (early)
        return false;
    emx_list_each(l, &s->tx.unacked)
    {
        const struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (!emx_seq_before(b->seq, ack))
            break;
        if (emx_seq_before(ack, b->seq + b->frames))
            return false;
    }
    return true;
}

/* Makes the buffer of frame i of a run. NULL: no memory. */
static struct emx_txbuf *send_run_make(struct emx_session *s, const struct emx_txbuf *run, unsigned i)
{
    const struct emx_frame *h = (const void *)run->frame;
    unsigned chunk_bytes = emx_chunk_head(h)->chunk_bytes, at = i * chunk_bytes, left = run->body_bytes - at;
    struct emx_txbuf *b =
        emx_txbuf_get(&s->e->txbufs, EMX_CHUNK_HEAD_BYTES + (left < chunk_bytes ? left : chunk_bytes));

    if (!b)
        return NULL;
    emx_chunk_split(b->frame, h, run->body, i);
    b->seq = run->seq + i;
    b->sent_ns = run->sent_ns;
    b->tries = run->tries;
    b->gso = run->gso;
    b->slot = run->slot && !i;
    return b;
}

bool emx_send_run_split(struct emx_session *s, struct emx_txbuf *run)
{
    struct emx_list made, *l, *first = NULL;

    emx_list_init(&made);
    for (unsigned i = 0; i < run->frames; i++) {
        struct emx_txbuf *b = send_run_make(s, run, i);

        if (!b) {
            emx_txbuf_put_all(&s->e->txbufs, &made);
            return false;
        }
        emx_list_append(&made, &b->link);
    }
    while ((l = emx_list_pop(&made))) {
        emx_list_insert(&run->link, l);
        first = first ? first : l;
    }
    if (s->tx.send_next == &run->link)
        s->tx.send_next = first;
    s->tx.runs--;
    emx_list_del(&run->link);
    emx_txbuf_put(&s->e->txbufs, run);
    return true;
}

bool emx_send_run_split_all(struct emx_session *s)
{
    emx_list_each_safe(l, next, &s->tx.unacked)
    {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, link);

        if (b->frames > 1 && !emx_send_run_split(s, b))
            return false;
    }
    return true;
}
