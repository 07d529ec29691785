/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The tables of parameters and counters as documents: pages of docs/ (Markdown), manual pages (roff), and lines for
 * scripts, such as the completion of shells. Each function prints to standard output.
 */
#ifndef EMX_TOOLS_INFO_TABLES_H
#define EMX_TOOLS_INFO_TABLES_H

#include <stddef.h>

/* Writes the environment variable of a parameter to text and returns it: eager_max is ETHMX_EAGER_MAX. */
const char *emx_tables_variable(const char *name, char *text, size_t text_len_bytes);

void emx_tables_params_md(void);   /* docs/parameters.md */
void emx_tables_counters_md(void); /* docs/counters.md */

void emx_tables_params_man(void);   /* docs/man/ethmx-parameters.7 */
void emx_tables_counters_man(void); /* docs/man/ethmx-counters.7 */

/* A line for each parameter: variable, legal values and help, separated by tabs. */
void emx_tables_params_list(void);

#endif
