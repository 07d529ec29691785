/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit.h"

#include <string.h>

#include "base/list.h"

struct item {
    char name;
    struct emx_list link;
};

static void items_init(struct item *item, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        item[i].name = (char)('a' + i);
        emx_list_init(&item[i].link);
    }
}

/* The names, read forwards; the same backwards, or the list is broken. */
static const char *names(const struct emx_list *head)
{
    static char text[32];
    unsigned n = 0;

    emx_list_each(link, head) text[n++] = emx_list_entry(link, struct item, link)->name;
    text[n] = 0;
    for (const struct emx_list *link = head->prev; link != head; link = link->prev)
        assert_int_equal(emx_list_entry(link, struct item, link)->name, text[--n]);
    assert_int_equal(n, 0);
    return text;
}

static void elements_stand_where_they_were_put(void **state)
{
    struct item item[5];
    struct emx_list head;

    (void)state;
    items_init(item, 5);
    emx_list_init(&head);
    assert_string_equal(names(&head), "");
    emx_list_append(&head, &item[1].link);
    emx_list_append(&head, &item[2].link);
    emx_list_prepend(&head, &item[0].link);
    assert_string_equal(names(&head), "abc");
    emx_list_insert(&item[1].link, &item[3].link);
    assert_string_equal(names(&head), "adbc");
    emx_list_insert(&head, &item[4].link);
    assert_string_equal(names(&head), "adbce");
}

static void a_deleted_element_knows_it(void **state)
{
    struct item item[3];
    struct emx_list head;

    (void)state;
    items_init(item, 3);
    emx_list_init(&head);
    assert_true(emx_list_empty(&head));
    assert_null(emx_list_first(&head));
    assert_null(emx_list_pop(&head));
    for (unsigned i = 0; i < 3; i++)
        emx_list_append(&head, &item[i].link);
    assert_true(emx_list_linked(&item[1].link));
    emx_list_del(&item[1].link);
    assert_false(emx_list_linked(&item[1].link));
    assert_string_equal(names(&head), "ac");
    emx_list_del(&item[1].link); /* harmless */
    assert_ptr_equal(emx_list_pop(&head), &item[0].link);
    assert_false(emx_list_linked(&item[0].link));
    assert_ptr_equal(emx_list_first(&head), &item[2].link);
    assert_ptr_equal(emx_list_pop(&head), &item[2].link);
    assert_true(emx_list_empty(&head));
}

static void elements_may_leave_during_a_walk(void **state)
{
    struct item item[6];
    struct emx_list head;

    (void)state;
    items_init(item, 6);
    emx_list_init(&head);
    for (unsigned i = 0; i < 6; i++)
        emx_list_append(&head, &item[i].link);
    emx_list_each_safe(link, next, &head)
    {
        if (strchr("adf", emx_list_entry(link, struct item, link)->name))
            emx_list_del(link);
    }
    assert_string_equal(names(&head), "bce");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_stand_where_they_were_put),
        cmocka_unit_test(a_deleted_element_knows_it),
        cmocka_unit_test(elements_may_leave_during_a_walk),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
