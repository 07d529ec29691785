/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx_info: what ethmx finds on this host and how it is set. Answers "which wire would I get, and why not the
 * other?" before a job runs. The documentation's tables of parameters and counters are its output too (info_tables.h).
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ethmx.h"
#include "info_check.h"
#include "info_rails.h"
#include "info_tables.h"
#include "json.h"

enum section {
    SECTION_VERSION = 1,
    SECTION_INTERFACES = 2,
    SECTION_WIRES = 4,
    SECTION_PARAMS = 8,
    SECTION_COUNTERS = 16,
    SECTION_MEMORY = 32,
    SECTION_ALL = 63,
    SECTION_CHECK = 64, /* advice, only on request */
};

enum form { FORM_TEXT, FORM_JSON };

struct options {
    unsigned sections;
    enum form form;
    void (*table)(void); /* prints a table as a document, instead of the sections; or NULL */
};

static const char usage_text[] =
    "Usage: ethmx_info [OPTION]...\n"
    "Shows what ethmx finds on this host and how it is set. Without options: everything.\n"
    "\n"
    "  -r, --release       the version of the library\n"
    "  -i, --interfaces    network interfaces, and which are used and why\n"
    "  -w, --wires         wires, usable or not and why\n"
    "  -m, --memory        whether memory stays registered with devices, and how that is kept right\n"
    "  -p, --params        parameters: value, who set it, default, legal values\n"
    "  -c, --counters      counters that every endpoint keeps\n"
    "  -a, --all           all of these\n"
    "  -k, --check         what costs latency or bandwidth here, and the command that changes it (it changes nothing)\n"
    "  -j, --json          the same for machines\n"
    "      --params-md     docs/parameters.md\n"
    "      --counters-md   docs/counters.md\n"
    "      --params-man    ethmx-parameters(7)\n"
    "      --counters-man  ethmx-counters(7)\n"
    "      --params-list   parameters for scripts: variable, legal values and meaning, separated by tabs\n"
    "  -h, --help          this text\n"
    "  -V, --version       the version of this program\n"
    "\n"
    "Parameters are set by environment variables: eager_max by ETHMX_EAGER_MAX.\n"
    "Exit code: 0; 1 when ethmx is set wrongly (the message says how), or --check finds no interface that ethmx\n"
    "would use; 2 for wrong usage.\n";

/* ---- Text ------------------------------------------------------------------------------------------------- */

/* Prints text in lines of at most 100 columns, each after indent blanks. */
static void info_print_wrapped(const char *text, unsigned indent)
{
    unsigned column = 0;

    while (*text) {
        unsigned word = (unsigned)strcspn(text, " ");

        if (column && indent + column + 1 + word > 100) {
            putchar('\n');
            column = 0;
        }
        column += (unsigned)(column ? printf(" %.*s", (int)word, text)
                                    : printf("%*s%.*s", (int)indent, "", (int)word, text) - (int)indent);
        text += word;
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* What walks over the interfaces. */
struct interfaces {
    struct emx_info_rails rails;
    unsigned count;
    struct emx_json *j;
};

static void info_text_interface(void *arg, const struct ethmx_interface_info *i)
{
    struct interfaces *all = arg;

    all->count++;
    printf("  %-15s %-18s %-17s mtu %-5u %-4s %s\n", i->name,
           *i->ipv4   ? i->ipv4
           : *i->ipv6 ? i->ipv6
                      : "no address",
           *i->mac ? i->mac : "no MAC", i->mtu_bytes, i->up ? "up" : "down", i->kind);
    if (*i->ipv4 && *i->ipv6)
        printf("    %s\n", i->ipv6);
    if (i->speed_mbit)
        printf("    %u Mbit/s", i->speed_mbit);
    else
        printf("    speed unknown");
    if (i->numa_node >= 0)
        printf(", NUMA node %d", i->numa_node);
    printf("\n    %s%s%s\n", i->chosen ? "used" : "not used", *i->reason ? ": " : "", i->reason);
    if (!i->chosen)
        return;
    emx_info_rails_look(&all->rails, i);
    printf("    %s\n", all->rails.is);
}

static void info_text_wire(void *arg, const struct ethmx_wire_info *w)
{
    unsigned *usable = arg;

    *usable += w->usable;
    printf("  %-10s %s", w->name, w->usable ? "usable" : "not usable");
    if (w->usable)
        printf(", frames of up to %u bytes", w->frame_bytes);
    putchar('\n');
    info_print_wrapped(w->help, 4);
    if (*w->reason)
        info_print_wrapped(w->reason, 4);
}

static void info_text_memory(void *arg, const struct ethmx_memory_info *m)
{
    (void)arg;
    printf("  %s, up to %llu MiB\n", m->keeps ? "registrations are kept" : "registrations are not kept",
           (unsigned long long)m->limit_bytes >> 20);
    info_print_wrapped(m->reason, 4);
}

static void info_text_params(const struct ethmx_config *cfg)
{
    const struct ethmx_param_info *p;
    const char *source;
    char value[256], name[64];

    puts("Parameters");
    for (unsigned i = 0; (p = ethmx_param(i)); i++) {
        if (ethmx_config_get(cfg, i, value, sizeof(value), &source))
            continue;
        printf("  %s = %s  (%s)\n", emx_tables_variable(p->name, name, sizeof(name)), *value ? value : "\"\"", source);
        info_print_wrapped(p->help, 6);
        printf("      Legal: %s. Default: %s.\n", p->range, *p->deflt ? p->deflt : "empty");
    }
}

static void info_text_counters(void)
{
    const struct ethmx_counter_info *c;

    puts("Counters");
    for (unsigned i = 0; (c = ethmx_counter(i)); i++)
        printf("  %-20s %-9s %s\n", c->name, c->unit, c->help);
}

static const char *const verdict_text[] = {[EMX_FINE] = "fine", [EMX_COSTS] = "costs", [EMX_NOT_SEEN] = "not seen"};

/* One line for each check. */
static void info_text_finding(void *arg, const struct emx_finding *f)
{
    (void)arg;
    printf("  %-8s  %s %s: %s", verdict_text[f->verdict], f->where, f->name, f->is);
    if (f->verdict == EMX_COSTS)
        printf(". Cost: %s. %s%s", f->cost, *f->command ? "Change: " : "No command changes it.", f->command);
    putchar('\n');
}

/* The error of a check of a host with links interfaces that ethmx would use. */
static int info_check_error(int err, unsigned links)
{
    if (err)
        fprintf(stderr, "ethmx_info: %s\n", ethmx_error_text());
    else if (!links)
        fputs("ethmx_info: no interface that ethmx would use; ethmx_info --interfaces says why\n", stderr);
    return err ? err : links ? 0 : ETHMX_ERR_NO_WIRE;
}

static int info_text_check(const struct ethmx_config *cfg)
{
    unsigned links = 0;
    int err;

    puts("What costs latency or bandwidth");
    err = emx_check_all(cfg, info_text_finding, NULL, &links);
    err = info_check_error(err, links);
    putchar('\n');
    return err;
}

/* Shows the sections that ask the host. 0, or the error of the last that failed; its sentence is on stderr. */
static int info_text_host(const struct ethmx_config *cfg, unsigned sections)
{
    struct interfaces all = {.rails = {.cfg = cfg}};
    unsigned usable = 0;
    int ret = 0, err;

    if (sections & SECTION_INTERFACES) {
        puts("Interfaces");
        err = ethmx_each_interface(cfg, info_text_interface, &all);
        if (err) {
            fprintf(stderr, "ethmx_info: %s\n", ethmx_error_text());
            ret = err;
        } else if (!all.count) {
            puts("  none");
        }
        putchar('\n');
    }
    if (sections & SECTION_WIRES) {
        puts("Wires, best first");
        err = ethmx_each_wire(cfg, info_text_wire, &usable);
        if (err) {
            fprintf(stderr, "ethmx_info: %s\n", ethmx_error_text());
            ret = err;
        } else if (!usable) {
            puts("  No wire is usable: ethmx cannot run here.");
        }
        putchar('\n');
    }
    if (sections & SECTION_MEMORY) {
        puts("Memory registered with devices (verbs)");
        err = ethmx_memory_query(cfg, info_text_memory, NULL);
        if (err) {
            fprintf(stderr, "ethmx_info: %s\n", ethmx_error_text());
            ret = err;
        }
        putchar('\n');
    }
    return ret;
}

static int info_show_text(const struct ethmx_config *cfg, unsigned sections)
{
    int ret;

    if (sections & SECTION_VERSION)
        printf("ethmx %s, API version %d\n\n", ethmx_version(), ETHMX_API_VERSION);
    ret = info_text_host(cfg, sections);
    if (sections & SECTION_CHECK) {
        int err = info_text_check(cfg);

        ret = err ? err : ret;
    }
    if (sections & SECTION_PARAMS) {
        info_text_params(cfg);
        putchar('\n');
    }
    if (sections & SECTION_COUNTERS)
        info_text_counters();
    return ret;
}

/* ---- JSON ------------------------------------------------------------------------------------------------- */

static void info_json_interface(void *arg, const struct ethmx_interface_info *i)
{
    struct interfaces *all = arg;
    struct emx_json *j = all->j;

    emx_json_open(j, NULL, '{');
    emx_json_string(j, "name", i->name);
    emx_json_string(j, "kind", i->kind);
    emx_json_string(j, "ipv4", i->ipv4);
    emx_json_string(j, "ipv6", i->ipv6);
    emx_json_string(j, "mac", i->mac);
    emx_json_uint(j, "mtu_bytes", i->mtu_bytes);
    if (i->speed_mbit)
        emx_json_uint(j, "speed_mbit", i->speed_mbit);
    if (i->numa_node >= 0)
        emx_json_uint(j, "numa_node", (unsigned)i->numa_node);
    emx_json_bool(j, "up", i->up);
    emx_json_bool(j, "chosen", i->chosen);
    emx_json_string(j, "reason", i->reason);
    if (i->chosen) {
        emx_json_uint(j, "rail", emx_info_rails_look(&all->rails, i));
        emx_json_string(j, "rail_reason", all->rails.is);
    }
    emx_json_close(j, '}');
}

static void info_json_wire(void *arg, const struct ethmx_wire_info *w)
{
    struct emx_json *j = arg;

    emx_json_open(j, NULL, '{');
    emx_json_string(j, "name", w->name);
    emx_json_string(j, "help", w->help);
    emx_json_bool(j, "usable", w->usable);
    emx_json_string(j, "reason", w->reason);
    if (w->usable)
        emx_json_uint(j, "frame_bytes", w->frame_bytes);
    emx_json_close(j, '}');
}

static void info_json_memory(void *arg, const struct ethmx_memory_info *m)
{
    struct emx_json *j = arg;

    emx_json_open(j, NULL, '{');
    emx_json_bool(j, "keeps", m->keeps);
    emx_json_string(j, "watch", m->watch);
    emx_json_string(j, "reason", m->reason);
    emx_json_uint(j, "limit_bytes", m->limit_bytes);
    emx_json_close(j, '}');
}

static void info_json_finding(void *arg, const struct emx_finding *f)
{
    struct emx_json *j = arg;

    emx_json_open(j, NULL, '{');
    emx_json_string(j, "where", f->where);
    emx_json_string(j, "name", f->name);
    emx_json_string(j, "verdict", verdict_text[f->verdict]);
    emx_json_string(j, "is", f->is);
    emx_json_string(j, "cost", f->cost);
    emx_json_string(j, "command", f->command);
    emx_json_close(j, '}');
}

static int info_json_check(struct emx_json *j, const struct ethmx_config *cfg)
{
    unsigned links = 0;
    int err;

    emx_json_open(j, "checks", '[');
    err = emx_check_all(cfg, info_json_finding, j, &links);
    emx_json_close(j, ']');
    return info_check_error(err, links);
}

static void info_json_params(struct emx_json *j, const struct ethmx_config *cfg)
{
    const struct ethmx_param_info *p;
    const char *source;
    char value[256], name[64];

    emx_json_open(j, "parameters", '[');
    for (unsigned i = 0; (p = ethmx_param(i)); i++) {
        if (ethmx_config_get(cfg, i, value, sizeof(value), &source))
            continue;
        emx_json_open(j, NULL, '{');
        emx_json_string(j, "name", p->name);
        emx_json_string(j, "variable", emx_tables_variable(p->name, name, sizeof(name)));
        emx_json_string(j, "value", value);
        emx_json_string(j, "source", source);
        emx_json_string(j, "default", p->deflt);
        emx_json_string(j, "range", p->range);
        emx_json_string(j, "help", p->help);
        emx_json_close(j, '}');
    }
    emx_json_close(j, ']');
}

static void info_json_counters(struct emx_json *j)
{
    const struct ethmx_counter_info *c;

    emx_json_open(j, "counters", '[');
    for (unsigned i = 0; (c = ethmx_counter(i)); i++) {
        emx_json_open(j, NULL, '{');
        emx_json_string(j, "name", c->name);
        emx_json_string(j, "unit", c->unit);
        emx_json_bool(j, "level", c->level);
        emx_json_string(j, "help", c->help);
        emx_json_close(j, '}');
    }
    emx_json_close(j, ']');
}

/* A list that asks the host; its error, if any, becomes a member beside it, so that the output is whole JSON. */
static int info_json_host(struct emx_json *j, const char *name, int err)
{
    char text[64];

    emx_json_close(j, ']');
    if (!err)
        return 0;
    snprintf(text, sizeof(text), "%s_error", name);
    emx_json_string(j, text, ethmx_error_text());
    fprintf(stderr, "ethmx_info: %s\n", ethmx_error_text());
    return err;
}

static int info_show_json(const struct ethmx_config *cfg, unsigned sections)
{
    struct interfaces all = {.rails = {.cfg = cfg}};
    struct emx_json j;
    int ret = 0, err;

    all.j = &j;
    emx_json_init(&j, stdout);
    emx_json_open(&j, NULL, '{');
    if (sections & SECTION_VERSION) {
        emx_json_string(&j, "version", ethmx_version());
        emx_json_uint(&j, "api_version", ETHMX_API_VERSION);
    }
    if (sections & SECTION_INTERFACES) {
        emx_json_open(&j, "interfaces", '[');
        err = info_json_host(&j, "interfaces", ethmx_each_interface(cfg, info_json_interface, &all));
        ret = err ? err : ret;
    }
    if (sections & SECTION_WIRES) {
        emx_json_open(&j, "wires", '[');
        err = info_json_host(&j, "wires", ethmx_each_wire(cfg, info_json_wire, &j));
        ret = err ? err : ret;
    }
    if (sections & SECTION_MEMORY) {
        emx_json_open(&j, "memory", '[');
        err = info_json_host(&j, "memory", ethmx_memory_query(cfg, info_json_memory, &j));
        ret = err ? err : ret;
    }
    if (sections & SECTION_CHECK) {
        err = info_json_check(&j, cfg);
        ret = err ? err : ret;
    }
    if (sections & SECTION_PARAMS)
        info_json_params(&j, cfg);
    if (sections & SECTION_COUNTERS)
        info_json_counters(&j);
    emx_json_close(&j, '}');
    return ret;
}

/* ---- Program ---------------------------------------------------------------------------------------------- */

enum { OPT_PARAMS_MD = 256, OPT_COUNTERS_MD, OPT_PARAMS_MAN, OPT_COUNTERS_MAN, OPT_PARAMS_LIST };

static const struct option long_options[] = {
    {"release", no_argument, NULL, 'r'},
    {"interfaces", no_argument, NULL, 'i'},
    {"wires", no_argument, NULL, 'w'},
    {"memory", no_argument, NULL, 'm'},
    {"params", no_argument, NULL, 'p'},
    {"counters", no_argument, NULL, 'c'},
    {"all", no_argument, NULL, 'a'},
    {"check", no_argument, NULL, 'k'},
    {"json", no_argument, NULL, 'j'},
    {"params-md", no_argument, NULL, OPT_PARAMS_MD},
    {"counters-md", no_argument, NULL, OPT_COUNTERS_MD},
    {"params-man", no_argument, NULL, OPT_PARAMS_MAN},
    {"counters-man", no_argument, NULL, OPT_COUNTERS_MAN},
    {"params-list", no_argument, NULL, OPT_PARAMS_LIST},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static void info_usage_error(const char *what)
{
    if (what)
        fprintf(stderr, "ethmx_info: unexpected argument \"%s\"\n", what);
    fputs("Try \"ethmx_info --help\".\n", stderr);
    exit(2);
}

/* An option that prints a table as a document. false: it is none. */
static bool info_table_option(struct options *o, int c)
{
    static void (*const tables[])(void) = {
        [OPT_PARAMS_MD - OPT_PARAMS_MD] = emx_tables_params_md,
        [OPT_COUNTERS_MD - OPT_PARAMS_MD] = emx_tables_counters_md,
        [OPT_PARAMS_MAN - OPT_PARAMS_MD] = emx_tables_params_man,
        [OPT_COUNTERS_MAN - OPT_PARAMS_MD] = emx_tables_counters_man,
        [OPT_PARAMS_LIST - OPT_PARAMS_MD] = emx_tables_params_list,
    };

    if (c < OPT_PARAMS_MD || c > OPT_PARAMS_LIST)
        return false;
    o->table = tables[c - OPT_PARAMS_MD];
    return true;
}

static void info_option(struct options *o, int c)
{
    if (info_table_option(o, c))
        return;
    switch (c) {
    case 'r':
        o->sections |= SECTION_VERSION;
        break;
    case 'i':
        o->sections |= SECTION_INTERFACES;
        break;
    case 'w':
        o->sections |= SECTION_WIRES;
        break;
    case 'm':
        o->sections |= SECTION_MEMORY;
        break;
    case 'p':
        o->sections |= SECTION_PARAMS;
        break;
    case 'c':
        o->sections |= SECTION_COUNTERS;
        break;
    case 'a':
        o->sections |= SECTION_ALL;
        break;
    case 'k':
        o->sections |= SECTION_CHECK;
        break;
    case 'j':
        o->form = FORM_JSON;
        break;
    case 'h':
        fputs(usage_text, stdout);
        exit(0);
    case 'V':
        printf("ethmx_info %s\n", ethmx_version());
        exit(0);
    default:
        info_usage_error(NULL);
    }
}

static void info_parse(struct options *o, int argc, char **argv)
{
    int c;

    o->sections = 0;
    o->form = FORM_TEXT;
    o->table = NULL;
    while ((c = getopt_long(argc, argv, "riwmpcakjhV", long_options, NULL)) != -1)
        info_option(o, c);
    if (optind < argc)
        info_usage_error(argv[optind]);
    if (!o->sections)
        o->sections = SECTION_ALL;
}

static int info_show_host(const struct options *o)
{
    struct ethmx_config *cfg;
    int ret = ethmx_config_create(&cfg);

    if (ret) {
        fprintf(stderr, "ethmx_info: %s\n", ethmx_error_text());
        return ret;
    }
    ret = o->form == FORM_JSON ? info_show_json(cfg, o->sections) : info_show_text(cfg, o->sections);
    ethmx_config_destroy(cfg);
    return ret;
}

int main(int argc, char **argv)
{
    struct options o;
    int ret = 0;

    info_parse(&o, argc, argv);
    if (o.table)
        o.table();
    else
        ret = info_show_host(&o);
    if (fflush(stdout) || ferror(stdout)) {
        perror("ethmx_info: standard output");
        return 1;
    }
    return ret ? 1 : 0;
}
