/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ethmx_perf reg: what registering memory costs on this host, beside copying it.
 */
#ifndef EMX_TOOLS_PERF_REG_H
#define EMX_TOOLS_PERF_REG_H

/* The program, from its second argument ("reg") on. Its exit code. */
int perf_reg_main(int argc, char **argv);

#endif
