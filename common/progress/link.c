/* SPDX-License-Identifier: BSD-3-Clause */
#include "progress/link.h"

void emx_links_add(struct emx_links *l, const struct emx_wire_ops *ops, struct emx_wire *wire)
{
    struct emx_link *k = &l->link[l->count];

    *k = (struct emx_link){.ops = ops, .wire = wire};
    ops->query(wire, &k->attr);
    *(k->attr.cheap_poll ? &l->cheap : &l->syscall_poll) |= 1u << l->count;
    l->peekable |= (unsigned)(k->attr.cheap_poll && ops->peek) << l->count;
    l->reliable |= (unsigned)k->attr.reliable << l->count;
    l->guarded |= (unsigned)k->attr.guarded << l->count;
    l->count++;
}

void emx_links_sweep(const struct emx_links *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (l->link[i].ops->sweep)
            l->link[i].ops->sweep(l->link[i].wire);
    }
}
