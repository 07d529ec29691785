/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Arithmetic of one-sided operations on elements in memory, which needs no alignment.
 */
#ifndef EMX_CORE_RMA_APPLY_H
#define EMX_CORE_RMA_APPLY_H

#include <stdbool.h>
#include <stddef.h>

/* Types and operations are numbers of enum ethmx_rma_type and ethmx_rma_op, perhaps from a frame. */

size_t emx_rma_type_bytes(unsigned type);      /* 0: there is none */
bool emx_rma_is_integer(unsigned type);        /* a type that can be compared and swapped */
bool emx_rma_fits(unsigned op, unsigned type); /* whether the type has the operation */

/* Changes len_bytes of elements at to by those at from; NO_OP: from may be NULL. emx_rma_fits(), and len_bytes are of
 * complete elements. */
void emx_rma_apply(unsigned op, unsigned type, void *to, const void *from, size_t len_bytes);
/* Replaces len_bytes by those at set if they are equal to those at compare. */
void emx_rma_swap(void *to, const void *compare, const void *set, size_t len_bytes);

#endif
