/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage: reports an error in an ethmx_perf command line and ends the program with status 2. command: "ethmx_perf", or
 * with its subcommand; its --help is named in the message.
 */
#ifndef EMX_TOOLS_PERF_USAGE_H
#define EMX_TOOLS_PERF_USAGE_H

#include "perf_plan.h"

/* sentence: NULL if the error was printed already. */
_Noreturn void perf_usage_error(const char *command, const char *sentence);

/* The number that an option takes, from 1 to limit. */
uint64_t perf_usage_number(const char *command, const char *option, const char *text, uint64_t limit);

/* The sizes of a plan, from an option's text. */
void perf_usage_sizes(const char *command, struct perf_plan *plan, const char *text);

#endif
