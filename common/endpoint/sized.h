/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sized structures: those of ethmx.h that programs allocate, with struct_bytes. A later version adds fields at the end,
 * so the program's structure may be shorter or longer than the library's.
 */
#ifndef EMX_ENDPOINT_SIZED_H
#define EMX_ENDPOINT_SIZED_H

#include <stddef.h>

/* The end of the last field that 1.0.0 has: no program's structure is shorter. */
#define emx_sized_end(type, field) (offsetof(type, field) + sizeof(((type *)NULL)->field))

/* ETHMX_ERR_PARAM: struct_bytes cannot be right. name: of the structure, for the error sentence. */
int emx_sized_check(size_t struct_bytes, size_t least_bytes, const char *name);

/* Copies the program's structure into the library's. Fields that the program does not have are 0. ETHMX_ERR_PARAM: as
 * above. ETHMX_ERR_VERSION: a field that the library does not have is set. */
int emx_sized_in(void *own, size_t own_bytes, size_t least_bytes, const void *theirs, size_t struct_bytes,
                 const char *name);

/* Copies the library's structure into the program's. Fields that the library does not have become 0. */
void emx_sized_out(void *theirs, size_t struct_bytes, const void *own, size_t own_bytes);

#endif
