/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Doubly linked circular lists with the links inside the elements. The caller owns the elements. An element that is in
 * no list points to itself (after emx_list_init() or emx_list_del()), so emx_list_linked() works. Not thread-safe.
 */
#ifndef EMX_BASE_LIST_H
#define EMX_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct emx_list {
    struct emx_list *next, *prev;
};

#define emx_container(ptr, type, member)  ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define emx_list_entry(ptr, type, member) emx_container(ptr, type, member)

static inline void emx_list_init(struct emx_list *l)
{
    l->next = l->prev = l;
}

static inline bool emx_list_empty(const struct emx_list *l)
{
    return l->next == l;
}

static inline bool emx_list_linked(const struct emx_list *e)
{
    return e->next != e;
}

/* Inserts e before pos; with pos the head this appends. */
static inline void emx_list_insert(struct emx_list *pos, struct emx_list *e)
{
    e->next = pos;
    e->prev = pos->prev;
    pos->prev->next = e;
    pos->prev = e;
}

static inline void emx_list_append(struct emx_list *head, struct emx_list *e)
{
    emx_list_insert(head, e);
}

static inline void emx_list_prepend(struct emx_list *head, struct emx_list *e)
{
    emx_list_insert(head->next, e);
}

static inline void emx_list_del(struct emx_list *e)
{
    e->prev->next = e->next;
    e->next->prev = e->prev;
    emx_list_init(e);
}

/* First element, or NULL. */
static inline struct emx_list *emx_list_first(const struct emx_list *head)
{
    return emx_list_empty(head) ? NULL : head->next;
}

/* Takes the first element out; NULL when empty. */
static inline struct emx_list *emx_list_pop(struct emx_list *head)
{
    struct emx_list *e = emx_list_first(head);

    if (e)
        emx_list_del(e);
    return e;
}

#define emx_list_each(pos, head) for (struct emx_list *pos = (head)->next; pos != (head); pos = pos->next)

/* pos may be deleted in the body. */
#define emx_list_each_safe(pos, tmp, head)                                                                             \
    for (struct emx_list *pos = (head)->next, *tmp = pos->next; pos != (head); pos = tmp, tmp = pos->next)

#endif
