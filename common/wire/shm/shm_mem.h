/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of other processes: reads and writes it for large messages, where the system allows it, so that they are
 * copied once and not twice. Stateless, except for the guard page.
 */
#ifndef EMX_WIRE_SHM_MEM_H
#define EMX_WIRE_SHM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A random number and its address in a process's memory. A process that has the number there is the right one. */
struct emx_shm_token {
    uint64_t value;
    uint64_t address;
    uint64_t guard; /* emx_shm_guard_new() of that process; 0: it allows no writes */
};

/* Whether processes of this user on this host can read each other's memory, as far as one process can tell. If the
 * system leaves that to the process, allows it. why: the reason if not, or "". */
bool emx_shm_mem_probe(char *why, size_t why_len_bytes);

/* Copies len_bytes at remote in process pid to local. 0, or an errno: the content is undefined. ESRCH: pid is not the
 * token's process. token NULL: skips that check, which was made a moment ago. */
int emx_shm_mem_read(pid_t pid, const struct emx_shm_token *token, uint64_t remote, void *local, size_t len_bytes);

/* Opens the memory of the token's process, for emx_shm_mem_gone(). -1 and errno. */
int emx_shm_mem_open(pid_t pid, const struct emx_shm_token *token);

/* Whether its process has no thread left that could write to other processes: it has ended, or runs another program. */
bool emx_shm_mem_gone(int fd, const struct emx_shm_token *token);

/* Maps a page whose address identifies this process to those that write to its memory. Returns the address, or 0. */
uint64_t emx_shm_guard_new(void);
void emx_shm_guard_free(uint64_t guard);

/* Writes len_bytes to remote in the process, if it has this guard. 0, or an errno: written in part, or not at all. */
int emx_shm_mem_write(pid_t pid, uint64_t guard, uint64_t remote, const void *local, size_t len_bytes);

#endif
