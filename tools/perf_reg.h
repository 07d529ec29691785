/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx_perf reg: measures what registering memory costs on this host, beside copying it.
 */
#ifndef EMX_TOOLS_PERF_REG_H
#define EMX_TOOLS_PERF_REG_H

/* Runs the subcommand; argv begins with "reg". Returns the exit code. */
int perf_reg_main(int argc, char **argv);

#endif
