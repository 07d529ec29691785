/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Exported memory: requests to progress about message memory that devices access.
 */
#include <string.h>

#include "core/engine_impl.h"
#include "core/msg/exported.h"
#include "core/msg/op.h"
#include "core/msg/read.h"
#include "core/rel/session.h"
#include "core/rel/txbuf.h"

void emx_exported_has_work(struct emx_engine *e, unsigned link)
{
    e->ready_flags.memory |= 1u << link;
}

void emx_exported_no_work(struct emx_engine *e, unsigned link)
{
    if (emx_list_empty(&e->exports[link]) && emx_list_empty(&e->disconnects[link]))
        e->ready_flags.memory &= ~(1u << link);
}

void emx_exported_queue(struct emx_exported *l, enum emx_export_what what)
{
    struct emx_session *s = l->session;

    l->what = (uint8_t)what;
    if (emx_list_linked(&l->link))
        return;
    emx_list_append(&s->e->exports[l->on], &l->link);
    emx_exported_has_work(s->e, l->on);
}

void emx_exported_unqueue(struct emx_exported *l)
{
    emx_list_del(&l->link);
    emx_exported_no_work(l->session->e, l->on);
}

struct emx_exported *emx_exported_new(struct emx_session *s, struct emx_op *op)
{
    struct emx_exported *l = emx_pool_get(&s->e->exported_pool);

    if (!l)
        return NULL;
    memset(l, 0, sizeof(*l));
    emx_list_init(&l->link);
    emx_list_init(&l->write);
    l->session = s;
    l->on = s->link;
    l->to = s->to;
    l->op = op;
    op->exported = l;
    return l;
}

void emx_exported_free(struct emx_exported *l)
{
    struct emx_engine *e = l->session->e;

    if (emx_list_linked(&l->link))
        emx_list_del(&l->link);
    emx_exported_no_work(e, l->on);
    if (l->answer)
        emx_txbuf_put(&e->txbufs, l->answer);
    emx_pool_put(&e->exported_pool, l);
}

void emx_exported_no_write(struct emx_exported *l)
{
    if (!emx_list_linked(&l->write))
        return;
    emx_list_del(&l->write);
    emx_read_ended(l->session->e, l->on);
}

void emx_exported_forget_puts(struct emx_exported *l)
{
    emx_exported_no_write(l);
    for (unsigned i = 0; i < l->put_count; i++) {
        if (l->puts[i].answer)
            emx_txbuf_put(&l->session->e->txbufs, l->puts[i].answer);
    }
    l->put_count = 0;
}

void emx_exported_over(struct emx_op *op, int status)
{
    struct emx_exported *l = op->exported;

    op->exported = NULL;
    l->op = NULL;
    if (l->rts)
        l->rts->unready = false;
    l->rts = NULL;
    l->failed = op->is_send && status != ETHMX_OK; /* for a receive, the connection was ended before if necessary */
    emx_exported_forget_puts(l);
    emx_exported_queue(l, EMX_UNEXPORT);
}
