/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of other processes: one copy instead of two for large messages, where the system allows it.
 */
#ifndef EMX_WIRE_SHM_MEM_H
#define EMX_WIRE_SHM_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A random number in a process's memory and where it lies: whoever reads it there reads the right process. */
struct emx_shm_token {
    uint64_t value;
    uint64_t address;
    uint64_t guard; /* emx_shm_guard_new() of that process; 0: nobody may write to it */
};

/* Whether processes of this user on this host can read each other's memory, as far as one process can know. why gets
 * the reason if not, or "". Allows it to the other processes of the user where the system leaves that to us. */
bool emx_shm_mem_probe(char *why, size_t why_len_bytes);

/* Copies len_bytes at remote in process pid to local. 0, or an errno: nothing may be relied upon. ESRCH: pid is not the
 * process of the token. token NULL: it was found to be so a moment ago. */
int emx_shm_mem_read(pid_t pid, const struct emx_shm_token *token, uint64_t remote, void *local, size_t len_bytes);

/* Opens the memory of the token's process, to see later whether it lives. -1 and errno. */
int emx_shm_mem_open(pid_t pid, const struct emx_shm_token *token);

/* Whether no thread of its process is left that could write to others: it has ended, or runs another program. */
bool emx_shm_mem_gone(int fd, const struct emx_shm_token *token);

/* Maps a page whose address identifies this process to those that write to its memory. Returns the address, or 0. */
uint64_t emx_shm_guard_new(void);
void emx_shm_guard_free(uint64_t guard);

/* Writes len_bytes to remote in the process, if that has this guard. 0, or an errno: not all of it, or nothing. */
int emx_shm_mem_write(pid_t pid, uint64_t guard, uint64_t remote, const void *local, size_t len_bytes);

#endif
