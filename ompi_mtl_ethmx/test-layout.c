/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests layout.c and mtl_ethmx_describe(): random datatypes, packed and unpacked in random fragments in random order,
 * compared with what MPI_Pack says; and that memory of a device is refused. Runs as a single MPI process and sends
 * nothing. Argument: the first seed.
 */
#define MTL_ETHMX_SEES_DEVICES 1 /* as in an Open MPI 4.1 that was built for devices */
#include "mtl_ethmx.h"

#include "ompi/datatype/ompi_datatype.h"
#include "ompi/runtime/mpiruntime.h"

#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEEDS      1000
#define BYTES_MAX  (1 << 20)
#define BLOCKS_MAX 6

struct mtl_ethmx_module mtl_ethmx;
static unsigned refused;

int mtl_ethmx_refuse_device(void)
{
    refused++;
    return OMPI_ERR_NOT_SUPPORTED;
}

/* In builds with the address sanitizer: Open MPI itself leaks. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

static uint64_t rng;

static unsigned below(unsigned n)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (unsigned)((rng >> 33) % n);
}

static MPI_Datatype basic(void)
{
    /* long double complex: 32 bytes, the largest there is. MPI_DOUBLE_INT: has a gap inside. */
    const MPI_Datatype types[] = {
        MPI_CHAR,
        MPI_SHORT,
        MPI_INT,
        MPI_DOUBLE,
        MPI_C_DOUBLE_COMPLEX,
#if MTL_ETHMX_SERIES == 401 /* 5.0's MPI_Pack copies numbers, not bytes: a long double's padding is lost */
        MPI_LONG_DOUBLE,
        MPI_C_LONG_DOUBLE_COMPLEX,
#endif
        MPI_DOUBLE_INT,
        MPI_SHORT_INT,
        MPI_BYTE,
    };
    return types[below(sizeof(types) / sizeof(types[0]))];
}

static MPI_Datatype derived(unsigned depth);

static MPI_Datatype blocks(MPI_Datatype inner)
{
    MPI_Datatype type;
    MPI_Aint lb, extent, at[BLOCKS_MAX];
    int len[BLOCKS_MAX], n = 1 + (int)below(BLOCKS_MAX);
    MPI_Type_get_extent(inner, &lb, &extent);
    if (extent < 0) {
        extent = -extent;
    }
    MPI_Aint next = (MPI_Aint)below(64) - 32;
    for (int i = 0; i < n; i++) {
        len[i] = (int)below(4);
        at[i] = next;
        next += extent * len[i] + (below(2) ? 0 : (MPI_Aint)below(40));
    }
    for (int i = n - 1; i > 0 && below(2); i--) { /* not always in ascending order */
        int j = (int)below((unsigned)i + 1), l = len[i];
        MPI_Aint a = at[i];
        len[i] = len[j], at[i] = at[j];
        len[j] = l, at[j] = a;
    }
    MPI_Type_create_hindexed(n, len, at, inner, &type);
    return type;
}

static MPI_Datatype structure(unsigned depth)
{
    MPI_Datatype types[3], type;
    MPI_Aint at[3], next = 0, lb, extent;
    int len[3];
    for (int i = 0; i < 3; i++) {
        types[i] = derived(depth - 1);
        MPI_Type_get_true_extent(types[i], &lb, &extent);
        len[i] = 1;
        at[i] = next - lb;
        next += extent + (MPI_Aint)below(9);
    }
    MPI_Type_create_struct(3, len, at, types, &type);
    for (int i = 0; i < 3; i++) {
        MPI_Type_free(&types[i]);
    }
    return type;
}

static MPI_Datatype shaped(MPI_Datatype inner)
{
    MPI_Datatype type;
    MPI_Aint lb, extent;
    int n = 1 + (int)below(4), gap = (int)below(3), many = 1 + (int)below(below(8) ? 9 : 200);
    MPI_Type_get_extent(inner, &lb, &extent);
    switch (below(4)) {
    case 0:
        MPI_Type_contiguous(n, inner, &type);
        return type;
    case 1:
        MPI_Type_vector(many, n, n + gap, inner, &type);
        return type;
    case 2:
        MPI_Type_create_resized(inner, lb, extent + (MPI_Aint)below(20), &type);
        return type;
    default:
        return blocks(inner);
    }
}

static MPI_Datatype derived(unsigned depth)
{
    MPI_Datatype type;
    if (0 == depth) {
        MPI_Type_dup(basic(), &type);
        return type;
    }
    if (0 == below(4)) {
        return structure(depth);
    }
    MPI_Datatype inner = derived(depth - 1);
    type = shaped(inner);
    MPI_Type_free(&inner);
    return type;
}

/* One fragment, in whichever way it is described. */
static void fragment(const struct ethmx_data *data, size_t offset, char *buf, size_t len, bool pack)
{
    if (NULL != data->copy) {
        data->copy(data->copy_arg, offset, buf, len);
    } else if (pack) {
        memcpy(buf, (char *)data->base + offset, len);
    } else {
        memcpy((char *)data->base + offset, buf, len);
    }
}

/* Copies the whole message in fragments: mostly in order, some out of order, sends some twice. */
static void fragments(const struct ethmx_data *data, char *packed, bool pack)
{
    size_t size = 1 + below(below(2) ? 64 : 3000), count = (data->len_bytes + size - 1) / size;
    size_t *order = malloc((count + 1) * sizeof(*order));
    for (size_t i = 0; i < count; i++) {
        order[i] = i;
    }
    unsigned swaps = below(3) ? below(4) : (unsigned)count;
    for (unsigned s = 0; s < swaps; s++) {
        size_t i = below((unsigned)count), j = below((unsigned)count), o = order[i];
        order[i] = order[j], order[j] = o;
    }
    for (size_t i = 0; i < count; i++) {
        size_t offset = order[i] * size, len = data->len_bytes - offset;
        len = len > size ? size : len;
        fragment(data, offset, packed + offset, len, pack);
        if (pack && 0 == below(16)) {
            fragment(data, offset, packed + offset, len, pack);
        }
    }
    free(order);
}

/* Describes as pml/cm hands it over; partly: as it does for contiguous blocking sends. */
static void describe(opal_convertor_t *conv, MPI_Datatype type, size_t count, void *buf, bool pack, bool partly,
                     struct ethmx_data *data, struct mtl_ethmx_layout **layout)
{
    opal_datatype_t *inside = &((ompi_datatype_t *)type)->super;
    OBJ_CONSTRUCT(conv, opal_convertor_t);
    if (pack && partly && opal_datatype_is_contiguous_memory_layout(inside, (int32_t)count)) {
        conv->remoteArch = ompi_mpi_local_convertor->remoteArch;
        conv->flags = ompi_mpi_local_convertor->flags;
        conv->master = ompi_mpi_local_convertor->master;
        conv->local_size = count * inside->size;
        conv->pBaseBuf = (unsigned char *)buf + inside->true_lb;
        conv->count = count;
        conv->pDesc = inside;
    } else if (pack) {
        opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, inside, count, buf, 0, conv);
    } else {
        opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, inside, count, buf, 0, conv);
    }
    if (OMPI_SUCCESS !=
        mtl_ethmx_describe(conv, pack ? mtl_ethmx_layout_pack : mtl_ethmx_layout_unpack, data, layout)) {
        abort();
    }
}

static void fill(char *buf, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        buf[i] = (char)below(256);
    }
}

/* Packs, compares with MPI_Pack; unpacks elsewhere, compares with MPI_Unpack, gaps included. */
static bool round_trip(MPI_Datatype type, int count, bool *layout_used)
{
    MPI_Aint lb, true_lb, extent, true_extent;
    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    int size;
    MPI_Type_size(type, &size);
    if (0 == size) {
        true_lb = true_extent = 0; /* Open MPI says something else */
    }
    size_t room = (size_t)(extent * count + true_extent) + 256;
    size_t bytes = (size_t)size * (size_t)count;
    char *from = malloc(room), *want = malloc(bytes + 1), *got = malloc(bytes + 1);
    char *to_want = malloc(room), *to_got = malloc(room);
    fill(from, room);
    fill(to_want, room);
    memcpy(to_got, to_want, room);
    ptrdiff_t base = 128 - true_lb;
    int at = 0;
    MPI_Pack(from + base, count, type, want, (int)bytes, &at, MPI_COMM_SELF);
    at = 0;
    MPI_Unpack(want, (int)bytes, &at, to_want + base, count, type, MPI_COMM_SELF);

    opal_convertor_t conv;
    struct ethmx_data data;
    struct mtl_ethmx_layout *layout;
    describe(&conv, type, (size_t)count, from + base, true, below(2), &data, &layout);
    bool ok = data.len_bytes == bytes;
    *layout_used = NULL != layout;
    if (ok && bytes > 0) {
        fragments(&data, got, true);
        ok = 0 == memcmp(got, want, bytes);
    }
    mtl_ethmx_undescribe(layout);
    OBJ_DESTRUCT(&conv);

    describe(&conv, type, (size_t)count, to_got + base, false, false, &data, &layout);
    if (ok && bytes > 0) {
        fragments(&data, want, false);
        ok = 0 == memcmp(to_got, to_want, room);
    }
    mtl_ethmx_undescribe(layout);
    OBJ_DESTRUCT(&conv);
    free(from), free(want), free(got), free(to_want), free(to_got);
    return ok;
}

/* Marked as Open MPI's convertors are when its support of devices knows the buffer. */
static bool describes(uint32_t flags, MPI_Datatype type, size_t count)
{
    static char buf[4096];
    opal_convertor_t conv;
    OBJ_CONSTRUCT(&conv, opal_convertor_t);
    opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &((ompi_datatype_t *)type)->super, count, buf, 0,
                                             &conv);
    conv.flags |= flags;
    struct ethmx_data data;
    struct mtl_ethmx_layout *layout = NULL;
    int rc = mtl_ethmx_describe(&conv, mtl_ethmx_layout_pack, &data, &layout);
    mtl_ethmx_undescribe(layout);
    OBJ_DESTRUCT(&conv);
    return OMPI_SUCCESS == rc;
}

/* Contiguous or not; but nothing is nowhere, and what is shared is the host's. */
static bool device_is_refused(void)
{
    MPI_Datatype gaps;
    MPI_Type_vector(3, 1, 2, MPI_INT, &gaps);
    MPI_Type_commit(&gaps);
    bool ok = !describes(MTL_ETHMX_DEVICE, MPI_INT, 5) && !describes(MTL_ETHMX_DEVICE, gaps, 5) && 2 == refused &&
              describes(MTL_ETHMX_DEVICE, MPI_INT, 0) && describes(0, MPI_INT, 5) &&
              describes(MTL_ETHMX_DEVICE | MTL_ETHMX_DEVICE_UNIFIED, gaps, 5) && 2 == refused;
    MPI_Type_free(&gaps);
    return ok;
}

int main(int argc, char **argv)
{
    unsigned first = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 0) : 1, layouts = 0, failed = 0;
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", "self", 0);
    MPI_Init(&argc, &argv);
    for (unsigned seed = first; seed < first + SEEDS && 0 == failed; seed++) {
        rng = seed;
        MPI_Datatype type = derived(1 + below(4));
        MPI_Type_commit(&type);
        int size, count = (int)below(below(4) ? 8 : 300);
        MPI_Type_size(type, &size);
        bool layout_used = false;
        if ((size_t)size * (size_t)count <= BYTES_MAX && !round_trip(type, count, &layout_used)) {
            printf("failed with seed %u: %d elements of %d bytes\n", seed, count, size);
            failed++;
        }
        layouts += layout_used;
        MPI_Type_free(&type);
    }
    if (!device_is_refused()) {
        printf("memory of a device is not refused as it should be\n");
        failed++;
    }
    MPI_Finalize();
    printf("%u datatypes that are not contiguous, %u failed\n", layouts, failed);
    return 0 == failed && layouts > SEEDS / 4 ? 0 : 1;
}
