/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Layout: where the bytes of a message that is not contiguous lie in the program's memory.
 *
 * Fragments of a message begin and end anywhere, inside a basic type too, and may come in any order; MPICH's pack and
 * unpack like neither. So MPICH is only asked to list, in order, the contiguous pieces of *one* element of the
 * datatype; the other elements are the same, shifted by the extent. The list is made when the datatype is first sent or
 * received and kept with it. A fragment's first piece is next to the last one copied, or is found by bisection.
 *
 * Datatypes that MPICH builds for itself from a description that came over the network are never told to netmods, and
 * have no place to keep a list: theirs belongs to the operation. They are known by having no contents (the record of
 * how a program made the type).
 */
#include "mpidimpl.h"

#include "ethmx_data.h"

struct piece {
    size_t offset; /* in the packed element */
    MPI_Aint at;   /* in memory, from the element's start */
};

struct MPIDI_ETHMX_layout {
    size_t element_bytes; /* packed */
    size_t basic_bytes;   /* of the only basic type in it; 1: there are several */
    MPI_Aint extent;
    size_t count;
    struct piece piece[]; /* count, and one more at the end */
};

/* Appends MPICH's list, joining what touches. */
static void layout_append(struct MPIDI_ETHMX_layout *l, const struct iovec *iov, MPI_Aint n, size_t *offset)
{
    for (MPI_Aint i = 0; i < n; i++) {
        MPI_Aint at = (MPI_Aint)iov[i].iov_base;
        const struct piece *last = l->count ? &l->piece[l->count - 1] : NULL;

        if (iov[i].iov_len == 0)
            continue;
        if (!last || last->at + (MPI_Aint)(*offset - last->offset) != at)
            l->piece[l->count++] = (struct piece){.offset = *offset, .at = at};
        *offset += iov[i].iov_len;
    }
    l->piece[l->count].offset = *offset;
}

static struct MPIDI_ETHMX_layout *layout_create(MPI_Datatype datatype, const MPIR_Datatype *dt)
{
    struct MPIDI_ETHMX_layout *l;
    struct iovec *iov;
    MPI_Aint room, n, bytes;
    size_t offset = 0;

#if MPIDI_ETHMX_CH4_IOV_BYTES
    if (MPIR_Typerep_iov_len(1, datatype, dt->size, &room, &bytes) != MPI_SUCCESS)
        return NULL;
#else
    if (MPIR_Typerep_iov_len(1, datatype, dt->size, &room) != MPI_SUCCESS)
        return NULL;
#endif
    l = MPL_malloc(sizeof(*l) + (room + 1) * sizeof(l->piece[0]), MPL_MEM_DATATYPE);
    iov = MPL_malloc(room * sizeof(*iov), MPL_MEM_DATATYPE);
    if (!l || !iov)
        goto err;
    *l = (struct MPIDI_ETHMX_layout){.element_bytes = dt->size,
                                     .basic_bytes = dt->builtin_element_size > 0 ? dt->builtin_element_size : 1,
                                     .extent = dt->extent};
    if (MPIR_Typerep_to_iov(NULL, 1, datatype, 0, iov, room, dt->size, &n, &bytes) != MPI_SUCCESS || bytes != dt->size)
        goto err;
    layout_append(l, iov, n, &offset);
    MPL_free(iov);
    return l;

err:
    MPL_free(l);
    MPL_free(iov);
    return NULL;
}

/* ---- Copying ---- */

/* The piece that holds packed offset pos of the element. */
static size_t piece_at(const struct MPIDI_ETHMX_layout *l, size_t near, size_t pos)
{
    size_t low = 0, high = l->count; /* piece[low].offset <= pos < piece[high].offset */

    for (size_t i = near; i < l->count && i < near + 2; i++)
        if (l->piece[i].offset <= pos && pos < l->piece[i + 1].offset)
            return i;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (l->piece[middle].offset <= pos)
            low = middle;
        else
            high = middle;
    }
    return low;
}

MPL_STATIC_INLINE_PREFIX void strided_copy(MPIDI_ETHMX_strided_t *s, size_t offset, char *buf, size_t len_bytes,
                                           bool pack)
{
    const struct MPIDI_ETHMX_layout *l = s->layout;
    char *element = s->base + (MPI_Aint)(offset / l->element_bytes) * l->extent;
    size_t pos = offset % l->element_bytes;
    size_t i = piece_at(l, s->near, pos);

    while (len_bytes > 0) {
        size_t skip = pos - l->piece[i].offset;
        size_t n = l->piece[i + 1].offset - pos;
        char *there = element + l->piece[i].at + skip;

        n = n < len_bytes ? n : len_bytes;
        if (pack)
            memcpy(buf, there, n);
        else
            memcpy(there, buf, n);
        s->near = i;
        buf += n;
        len_bytes -= n;
        pos += n;
        if (pos == l->element_bytes) {
            element += l->extent;
            pos = 0;
            i = 0;
        } else if (pos == l->piece[i + 1].offset) {
            i++;
        }
    }
}

void MPIDI_ETHMX_pack(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    strided_copy(arg, offset, buf, len_bytes, true);
}

void MPIDI_ETHMX_unpack(void *arg, size_t offset, void *buf, size_t len_bytes)
{
    strided_copy(arg, offset, buf, len_bytes, false);
}

size_t MPIDI_ETHMX_strided_piece(MPIDI_ETHMX_strided_t *s, size_t offset, MPI_Aint *at_p)
{
    const struct MPIDI_ETHMX_layout *l = s->layout;
    size_t pos = offset % l->element_bytes;
    size_t i = piece_at(l, s->near, pos);

    s->near = i;
    *at_p = (MPI_Aint)(offset / l->element_bytes) * l->extent + l->piece[i].at + (MPI_Aint)(pos - l->piece[i].offset);
    return l->piece[i + 1].offset - pos;
}

size_t MPIDI_ETHMX_strided_pieces(const MPIDI_ETHMX_strided_t *s, size_t len_bytes)
{
    return len_bytes / s->layout->element_bytes * s->layout->count;
}

/* ---- An operation's data ---- */

static bool keeps_layout(const MPIR_Datatype *dt)
{
    return dt->is_committed && dt->contents;
}

bool MPIDI_ETHMX_strided_begin(MPIDI_ETHMX_strided_t *s, void *buf, MPI_Datatype datatype, MPIR_Datatype *dt)
{
    struct MPIDI_ETHMX_layout **kept = &dt->dev.netmod.ethmx.layout;
    struct MPIDI_ETHMX_layout *layout = keeps_layout(dt) ? *kept : NULL;

    if (!layout)
        layout = layout_create(datatype, dt);
    if (!layout)
        return false;
    *s = (MPIDI_ETHMX_strided_t){.layout = layout, .base = buf, .datatype = MPI_DATATYPE_NULL};
    if (keeps_layout(dt)) {
        *kept = layout;
        s->datatype = datatype;
        MPIR_Datatype_ptr_add_ref(dt);
    }
    return true;
}

void MPIDI_ETHMX_strided_end(MPIDI_ETHMX_strided_t *s)
{
    if (s->datatype == MPI_DATATYPE_NULL) {
        MPL_free((void *)s->layout);
    } else {
        MPIR_Datatype *dt;

        MPIR_Datatype_get_ptr(s->datatype, dt);
        MPIR_Datatype_ptr_release(dt);
    }
    s->layout = NULL;
}

bool MPIDI_ETHMX_strided_splits(const MPIDI_ETHMX_strided_t *s, size_t len_bytes)
{
    return len_bytes % s->layout->basic_bytes != 0;
}

int MPIDI_ETHMX_mpi_type_commit_hook(MPIR_Datatype *datatype_p)
{
    datatype_p->dev.netmod.ethmx.layout = NULL;
    return MPI_SUCCESS;
}

int MPIDI_ETHMX_mpi_type_free_hook(MPIR_Datatype *datatype_p)
{
    if (keeps_layout(datatype_p)) {
        MPL_free(datatype_p->dev.netmod.ethmx.layout);
        datatype_p->dev.netmod.ethmx.layout = NULL;
    }
    return MPI_SUCCESS;
}
