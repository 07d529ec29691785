/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Lent data: see lend.h. eager.c makes such frames.
 */
#include "core/msg/lend.h"

#include <string.h>

#include "core/engine_impl.h"
#include "core/rel/txbuf.h"

void emx_engine_lend(struct emx_engine *e)
{
    e->lends = true;
}

void emx_engine_settle(struct emx_engine *e)
{
    struct emx_list *l;

    e->lends = false;
    while ((l = emx_list_pop(&e->lent))) {
        struct emx_txbuf *b = emx_list_entry(l, struct emx_txbuf, lent);

        if (b->frames > 1) {
            b->body = memcpy(b->copy, b->body, b->body_bytes);
            continue;
        }
        memcpy(b->frame + b->len_bytes - b->body_bytes, b->body, b->body_bytes);
        b->body_bytes = 0;
    }
}
