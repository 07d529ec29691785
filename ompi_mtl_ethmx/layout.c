/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Layout: where the bytes of a non-contiguous message are in the program's memory, so that each fragment is copied
 * directly between there and a frame.
 *
 * Open MPI's convertors pack and unpack. But a fragment may begin and end anywhere, fragments may arrive in any order,
 * and the convertors of 4.1 cannot do that: those that send move to the boundary of a basic type, those that receive
 * lose their position when a fragment ends inside a basic type and the next one is elsewhere. So the convertor is only
 * used to list, in order, the segments of contiguous memory of *one* element of the datatype. The other elements are
 * the same, shifted by the extent. The segments are listed a window at a time. Datatypes with few segments need a
 * single window. Others are listed again from the start when a fragment begins before the window, which happens once
 * per element and for fragments that were lost.
 */
#include "mtl_ethmx.h"

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/runtime/mpiruntime.h"

#include <string.h>

#define WINDOW_SEGMENTS 64

struct mtl_ethmx_layout {
    struct opal_convertor_t convertor; /* of the first element */
    size_t element_bytes;              /* packed */
    ptrdiff_t extent;
    /* The window: segments of an element, in order. */
    struct iovec segment[WINDOW_SEGMENTS];
    uint32_t segment_count;
    size_t window_offset; /* packed offset of segment[0] */
    /* The cursor, in the window. */
    uint32_t at;
    size_t at_offset; /* packed offset of segment[at] */
};

/* Lists the segments from packed offset on, which is where the convertor stands. */
static void layout_window_fill(struct mtl_ethmx_layout *l, size_t offset)
{
    size_t bytes;
    l->segment_count = WINDOW_SEGMENTS;
    opal_convertor_raw(&l->convertor, l->segment, &l->segment_count, &bytes);
    l->window_offset = offset;
    l->at = 0;
    l->at_offset = offset;
}

static void layout_window_rewind(struct mtl_ethmx_layout *l)
{
    size_t start = 0;
    opal_convertor_set_position(&l->convertor, &start);
    layout_window_fill(l, 0);
}

/* Puts the cursor on the segment that has packed offset pos of the element. */
static inline void layout_cursor_seek(struct mtl_ethmx_layout *l, size_t pos)
{
    if (OPAL_UNLIKELY(pos < l->window_offset)) {
        layout_window_rewind(l);
    } else if (pos < l->at_offset) {
        l->at = 0;
        l->at_offset = l->window_offset;
    }
    while (pos >= l->at_offset + l->segment[l->at].iov_len) {
        l->at_offset += l->segment[l->at].iov_len;
        if (++l->at == l->segment_count) {
            layout_window_fill(l, l->at_offset);
        }
    }
}

static inline void layout_copy(struct mtl_ethmx_layout *l, size_t offset, char *buf, size_t len_bytes, bool pack)
{
    ptrdiff_t shift = (ptrdiff_t)(offset / l->element_bytes) * l->extent;
    size_t pos = offset % l->element_bytes;
    while (len_bytes > 0) {
        layout_cursor_seek(l, pos);
        size_t skip = pos - l->at_offset;
        size_t n = l->segment[l->at].iov_len - skip;
        if (n > len_bytes) {
            n = len_bytes;
        }
        char *there = (char *)l->segment[l->at].iov_base + shift + skip;
        if (pack) {
            memcpy(buf, there, n);
        } else {
            memcpy(there, buf, n);
        }
        buf += n;
        len_bytes -= n;
        pos += n;
        if (pos == l->element_bytes) {
            pos = 0;
            shift += l->extent;
        }
    }
}

void mtl_ethmx_layout_pack(void *layout, size_t offset, void *buf, size_t len_bytes)
{
    layout_copy(layout, offset, buf, len_bytes, true);
}

void mtl_ethmx_layout_unpack(void *layout, size_t offset, void *buf, size_t len_bytes)
{
    layout_copy(layout, offset, buf, len_bytes, false);
}

struct mtl_ethmx_layout *mtl_ethmx_layout_create(const struct opal_convertor_t *convertor)
{
    const opal_datatype_t *type = convertor->pDesc;
    struct mtl_ethmx_layout *l = malloc(sizeof(*l));
    if (NULL == l) {
        return NULL;
    }
    OBJ_CONSTRUCT(&l->convertor, opal_convertor_t);
    if (OPAL_SUCCESS != opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, type, 1, convertor->pBaseBuf,
                                                                 0, &l->convertor)) {
        OBJ_DESTRUCT(&l->convertor);
        free(l);
        return NULL;
    }
    l->element_bytes = type->size;
    l->extent = type->ub - type->lb;
    layout_window_fill(l, 0);
    return l;
}

void mtl_ethmx_layout_destroy(struct mtl_ethmx_layout *layout)
{
    OBJ_DESTRUCT(&layout->convertor);
    free(layout);
}
