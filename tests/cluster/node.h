/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How `enter` asks a node to run a command.
 *
 * The nodes have PID namespaces side by side, so no process of one node can enter another with setns(). Instead the
 * first process of each node listens on a Unix socket whose path all nodes see, and runs what it is asked to:
 *
 *   enter -> node   struct node_request, with the caller's standard input, output and error as SCM_RIGHTS; then
 *                   len_bytes of strings, each ended by a 0: the folder, the arguments, the environment
 *   enter -> node   any number of signals (uint32_t each) for the command's process group
 *   node -> enter   the status as of waitpid() (int32_t), when the command has ended
 *
 * When the caller goes away its command gets a SIGTERM.
 */
#ifndef EMX_CLUSTER_NODE_H
#define EMX_CLUSTER_NODE_H

#include <stdint.h>

#define NODE_MAGIC       0x65746e64u
#define NODE_STDIO       3
#define NODE_STRINGS_MAX (16u << 20)

enum node_verb {
    NODE_RUN,   /* run a command in the folder and the environment that are given */
    NODE_LOGIN, /* run it as a login would: in the home folder, with the environment of the user */
    NODE_HALT,  /* end the node, and with it every process on it; root only */
};

struct node_request {
    uint32_t magic;
    uint32_t verb;
    uint32_t n_args;
    uint32_t n_env;
    uint32_t len_bytes;
    char user[32]; /* run as this user; empty: as the caller. Only root may name another. */
};

#endif
