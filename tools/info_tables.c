/* SPDX-License-Identifier: BSD-3-Clause */
#include "info_tables.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "ethmx.h"

const char *emx_tables_variable(const char *name, char *text, size_t text_len_bytes)
{
    size_t i;

    snprintf(text, text_len_bytes, "ETHMX_%s", name);
    for (i = 0; text[i]; i++)
        text[i] = (char)toupper((unsigned char)text[i]);
    return text;
}

/* ---- Markdown --------------------------------------------------------------------------------------------- */

/* A table cell: a bar would end it. */
static void tables_md_cell(const char *text)
{
    for (; *text; text++) {
        if (*text == '|')
            putchar('\\');
        putchar(*text);
    }
}

void emx_tables_params_md(void)
{
    const struct ethmx_param_info *p;
    char name[64];

    puts("<!-- Made by `ethmx_info --params-md`. Do not edit: change EMX_PARAMS in common/base/config.h. -->\n"
         "# Parameters\n"
         "\n"
         "Each is an environment variable, read when an endpoint is opened. In Open MPI each is an MCA parameter too:\n"
         "`ETHMX_EAGER_MAX=64k` and `--mca mtl_ethmx_eager_max 64k` mean the same.\n"
         "Sizes take the suffixes k, m and g (1024 to the power of 1, 2 and 3); times take ns, us, ms and s.\n"
         "`ethmx_info --params` shows the current values and who set them.\n"
         "\n"
         "| Variable | Default | Legal values | Meaning |\n"
         "| --- | --- | --- | --- |");
    for (unsigned i = 0; (p = ethmx_param(i)); i++) {
        printf("| `%s` | ", emx_tables_variable(p->name, name, sizeof(name)));
        if (*p->deflt)
            printf("`%s`", p->deflt);
        else
            printf("empty");
        printf(" | ");
        tables_md_cell(p->range);
        printf(" | ");
        tables_md_cell(p->help);
        puts(" |");
    }
}

void emx_tables_counters_md(void)
{
    const struct ethmx_counter_info *c;

    puts("<!-- Made by `ethmx_info --counters-md`. Do not edit: change EMX_COUNTERS in common/base/stats.h. -->\n"
         "# Counters\n"
         "\n"
         "Every endpoint keeps these, always. `ethmx_perf --counters` prints those that are not zero; `ethmx_top`\n"
         "shows them while a job runs; in Open MPI they are MPI_T performance variables. A counter only goes up;\n"
         "a level also goes down.\n"
         "\n"
         "| Name | Kind | Unit | Meaning |\n"
         "| --- | --- | --- | --- |");
    for (unsigned i = 0; (c = ethmx_counter(i)); i++) {
        printf("| `%s` | %s | %s | ", c->name, c->level ? "level" : "counter", c->unit);
        tables_md_cell(c->help);
        puts(" |");
    }
}

/* ---- Manual pages ----------------------------------------------------------------------------------------- */

#define MAN_COLUMNS 78           /* of a line of roff */
#define MAN_DATE    "2026-11-25" /* when what the pages say besides the tables was last changed */

/* How roff takes character i of a word; NULL: as it is. A hyphen between letters may become a typographic one; any
 * other is a minus, which can be copied to a command line. */
static const char *tables_man_escape(const char *word, size_t len, size_t i)
{
    bool between_letters =
        i && isalpha((unsigned char)word[i - 1]) && i + 1 < len && isalpha((unsigned char)word[i + 1]);

    switch (word[i]) {
    case '\\':
        return "\\e";
    case '~':
        return "\\(ti";
    case '^':
        return "\\(ha";
    case '`':
        return "\\(ga";
    case '-':
        return between_letters ? NULL : "\\-";
    default:
        return NULL;
    }
}

/* Prints a word to f (NULL: does not) and returns how many columns of roff it takes. A period or an apostrophe would
 * begin a request at the start of a line. */
static size_t tables_man_word(FILE *f, const char *word, size_t len)
{
    const char *before = *word == '.' || *word == '\'' ? "\\&" : "";
    size_t columns = strlen(before);

    if (f)
        fputs(before, f);
    for (size_t i = 0; i < len; i++) {
        const char *escape = tables_man_escape(word, len, i);

        columns += escape ? strlen(escape) : 1;
        if (f && escape)
            fputs(escape, f);
        else if (f)
            putc(word[i], f);
    }
    return columns;
}

/* Prints text in lines of roff. */
static void tables_man_text(const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " ");

        if (column && column + 1 + tables_man_word(NULL, text, len) > MAN_COLUMNS) {
            putchar('\n');
            column = 0;
        } else if (column) {
            putchar(' ');
            column++;
        }
        column += tables_man_word(stdout, text, len);
        text += len;
        text += strspn(text, " ");
    }
    putchar('\n');
}

void emx_tables_params_man(void)
{
    const struct ethmx_param_info *p;
    char name[64];

    puts(".\\\" SPDX-License-Identifier: BSD-3-Clause\n"
         ".\\\" Made by ethmx_info --params-man. Do not edit: change EMX_PARAMS in\n"
         ".\\\" common/base/config.h.\n"
         ".TH ETHMX-PARAMETERS 7 " MAN_DATE " ethmx \"ethmx manual\"\n"
         ".SH NAME\n"
         "ethmx-parameters \\- parameters of ethmx\n"
         ".SH DESCRIPTION\n"
         "Each parameter is an environment variable, read when an endpoint is opened.\n"
         "In Open MPI each is an MCA parameter, too:\n"
         ".B ETHMX_EAGER_MAX=64k\n"
         "and\n"
         ".B \\-\\-mca mtl_ethmx_eager_max 64k\n"
         "mean the same.\n"
         ".PP\n"
         "Sizes take the suffixes k, m and g (1024 to the power of 1, 2 and 3);\n"
         "times take ns, us, ms and s.\n"
         ".B ethmx_info \\-\\-params\n"
         "shows the current values and who set them.\n"
         ".SH PARAMETERS");
    for (unsigned i = 0; (p = ethmx_param(i)); i++) {
        printf(".TP\n.B %s\n", emx_tables_variable(p->name, name, sizeof(name)));
        tables_man_text(p->help);
        puts(".br\nLegal values:");
        tables_man_text(p->range);
        puts(".br\nDefault:");
        tables_man_text(*p->deflt ? p->deflt : "empty");
    }
    puts(".SH SEE ALSO\n"
         ".BR ethmx (7),\n"
         ".BR ethmx_info (1),\n"
         ".BR ethmx\\-counters (7)");
}

void emx_tables_counters_man(void)
{
    const struct ethmx_counter_info *c;

    puts(".\\\" SPDX-License-Identifier: BSD-3-Clause\n"
         ".\\\" Made by ethmx_info --counters-man. Do not edit: change EMX_COUNTERS in\n"
         ".\\\" common/base/stats.h.\n"
         ".TH ETHMX-COUNTERS 7 " MAN_DATE " ethmx \"ethmx manual\"\n"
         ".SH NAME\n"
         "ethmx-counters \\- counters of ethmx\n"
         ".SH DESCRIPTION\n"
         "Every endpoint keeps these counters, always.\n"
         ".B ethmx_perf \\-\\-counters\n"
         "prints those that are not zero,\n"
         ".B ethmx_top\n"
         "shows them while a job runs.\n"
         "In Open MPI they are MPI_T performance variables, such as\n"
         ".BR mtl_ethmx_frames_resent .\n"
         "A counter only goes up; a level also goes down.\n"
         ".SH COUNTERS");
    for (unsigned i = 0; (c = ethmx_counter(i)); i++) {
        printf(".TP\n.BR %s \" (%s%s)\"\n", c->name, c->unit, c->level ? ", level" : "");
        tables_man_text(c->help);
    }
    puts(".SH SEE ALSO\n"
         ".BR ethmx (7),\n"
         ".BR ethmx_perf (1),\n"
         ".BR ethmx_top (1),\n"
         ".BR ethmx\\-parameters (7)");
}

/* ---- Lines for scripts ------------------------------------------------------------------------------------ */

void emx_tables_params_list(void)
{
    const struct ethmx_param_info *p;
    char name[64];

    for (unsigned i = 0; (p = ethmx_param(i)); i++)
        printf("%s\t%s\t%s\n", emx_tables_variable(p->name, name, sizeof(name)), p->range, p->help);
}
