/* SPDX-License-Identifier: BSD-3-Clause */
#include "endpoint/links.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "endpoint/text.h"

#define WHY_BYTES 384

static void links_known_wires(char *buf, size_t room_bytes)
{
    struct emx_text t;

    emx_text_init(&t, buf, room_bytes);
    for (unsigned i = 0; emx_wires[i]; i++) {
        emx_text_separate(&t, ", ");
        emx_text_add(&t, "%s", emx_wires[i]->name);
    }
}

static int links_unknown_wire(const char *name)
{
    char known[128];

    links_known_wires(known, sizeof(known));
    if (name)
        emx_error_set("ETHMX_WIRES names the wire \"%s\", which does not exist. There are: %s", name, known);
    else
        emx_error_set("ETHMX_WIRES names no wire. There are: %s", known);
    return ETHMX_ERR_PARAM;
}

static bool links_is_in(const struct emx_wire_ops *const *ops, unsigned count, const struct emx_wire_ops *one)
{
    for (unsigned i = 0; i < count; i++) {
        if (ops[i] == one)
            return true;
    }
    return false;
}

int emx_links_parse(const struct emx_config *cfg, const struct emx_wire_ops *ops[EMX_ENGINE_LINKS], unsigned *count_p)
{
    char list[EMX_STRING_MAX];
    char *rest = list, *name;
    unsigned count = 0;

    memcpy(list, cfg->p_wires, sizeof(list));
    list[sizeof(list) - 1] = 0;
    while ((name = strsep(&rest, ", \t"))) {
        const struct emx_wire_ops *one;

        if (!*name)
            continue;
        one = emx_wire_find(name);
        if (!one)
            return links_unknown_wire(name);
        if (links_is_in(ops, count, one))
            continue;
        if (count == EMX_ENGINE_LINKS) {
            emx_error_set("ETHMX_WIRES names more than %d wires", EMX_ENGINE_LINKS);
            return ETHMX_ERR_PARAM;
        }
        ops[count++] = one;
    }
    if (!count)
        return links_unknown_wire(NULL);
    *count_p = count;
    return ETHMX_OK;
}

/* Opens one wire. Declined: false, and why has the reason. */
static bool links_open_one(struct emx_links *l, const struct emx_wire_ops *ops, const struct emx_wire_params *params,
                           char *why, int *rc_p)
{
    struct emx_wire *wire;

    why[0] = 0;
    *rc_p = ops->open(&wire, params, why, WHY_BYTES);
    if (*rc_p)
        return false;
    emx_links_add(l, ops, wire);
    emx_log(EMX_LOG_DEBUG, "wire %s is open%s%s", ops->name, why[0] ? ": " : "", why);
    return true;
}

int emx_links_open(struct emx_links *l, const struct emx_wire_params *params)
{
    const struct emx_wire_ops *ops[EMX_ENGINE_LINKS];
    char host[64] = "?", why[WHY_BYTES], reasons[900];
    struct emx_text t;
    unsigned count = 0;
    int rc = emx_links_parse(params->cfg, ops, &count);

    if (rc)
        return rc;
    l->count = l->cheap = l->syscall_poll = l->peekable = l->reliable = l->guarded = 0;
    emx_text_init(&t, reasons, sizeof(reasons));
    for (unsigned i = 0; i < count; i++) {
        int failure;

        if (links_open_one(l, ops[i], params, why, &failure))
            continue;
        if (failure != ETHMX_ERR_NO_WIRE)
            rc = failure;
        emx_log(EMX_LOG_INFO, "wire %s is not used: %s", ops[i]->name, why);
        emx_text_separate(&t, "; ");
        emx_text_add(&t, "%s: %s", ops[i]->name, why);
    }
    if (l->count)
        return ETHMX_OK;
    (void)gethostname(host, sizeof(host) - 1);
    emx_error_set("no wire can be used on host %s: %s", host, reasons);
    return rc ? rc : ETHMX_ERR_NO_WIRE;
}

void emx_links_close(struct emx_links *l)
{
    while (l->count) {
        struct emx_link *k = &l->link[--l->count];

        k->ops->close(k->wire);
    }
}

int emx_links_tell(const struct emx_links *l, const struct emx_way_site *site, struct emx_address *a)
{
    for (unsigned i = 0; i < l->count; i++) {
        const struct emx_link *k = &l->link[i];
        uint8_t value[EMX_WIRE_VALUE_BYTES];
        unsigned min_bytes = 0;
        unsigned len_bytes = k->ops->describe ? k->ops->describe(k->wire, site, value, &min_bytes) : 0;

        if (!emx_address_add_part(a, k->ops->part, value, len_bytes)) {
            emx_error_set("the address has no room for the wire %s: name fewer in ETHMX_WIRES", k->ops->name);
            return ETHMX_ERR_PARAM;
        }
        a->min_bytes[k->ops->part] = (uint8_t)min_bytes;
        a->by_ip |= (uint32_t)k->ops->by_ip << k->ops->part;
    }
    return ETHMX_OK;
}

bool emx_links_unsent(const struct emx_links *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (l->link[i].ops->unsent && l->link[i].ops->unsent(l->link[i].wire))
            return true;
    }
    return false;
}

bool emx_links_arm(const struct emx_links *l)
{
    for (unsigned i = 0; i < l->count; i++) {
        if (l->link[i].ops->arm && !l->link[i].ops->arm(l->link[i].wire))
            return false;
    }
    return true;
}

unsigned emx_links_fds(const struct emx_links *l, unsigned full, struct pollfd fd[EMX_LINKS_FDS], bool *all_p)
{
    unsigned n = 0;

    *all_p = true;
    for (unsigned i = 0; i < l->count; i++) {
        for (unsigned j = 0; j < EMX_WIRE_FDS; j++) {
            int one = l->link[i].ops->fd(l->link[i].wire, j);

            if (one >= 0)
                fd[n++] = (struct pollfd){.fd = one, .events = (short)(POLLIN | (full & 1u << i ? POLLOUT : 0))};
            else if (!j)
                *all_p = false;
        }
    }
    return n;
}
