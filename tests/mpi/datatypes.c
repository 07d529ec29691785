/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Non-contiguous data: every pair of layouts as sender's and receiver's type, in sizes of each message class. Each
 * layout carries 12 ints an item, so that any two fit. A table of our own says where each int lies; the buffer is
 * filled and checked by it, holes included.
 */
#include "mpitest.h"

#include <stdlib.h>
#include <string.h>

enum { INTS = 12, TAG = 3 };

struct layout {
    const char *name;
    MPI_Datatype type;
    MPI_Aint extent;       /* from one item to the next */
    MPI_Aint low;          /* lowest displacement touched by one item */
    MPI_Aint high;         /* end of the highest */
    MPI_Aint offset[INTS]; /* of each int, in the order of the type's signature */
};

static void layout_finish(struct layout *l, const char *name, MPI_Aint extent)
{
    MPI_Aint lb, type_extent;

    l->name = name;
    l->extent = extent;
    l->low = l->offset[0];
    l->high = l->offset[0];
    for (int i = 0; i < INTS; i++) {
        if (l->offset[i] < l->low)
            l->low = l->offset[i];
        if (l->offset[i] + (MPI_Aint)sizeof(int) > l->high)
            l->high = l->offset[i] + (MPI_Aint)sizeof(int);
    }
    mt_ok(MPI_Type_commit(&l->type));
    mt_ok(MPI_Type_get_extent(l->type, &lb, &type_extent));
    mt_check(type_extent == extent, "%s: MPI says extent %ld, the test %ld", name, (long)type_extent, (long)extent);
}

static void contiguous(struct layout *l)
{
    mt_ok(MPI_Type_contiguous(INTS, MPI_INT, &l->type));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = 4 * i;
    layout_finish(l, "contiguous", 4 * INTS);
}

static void vector_of_ones(struct layout *l)
{
    mt_ok(MPI_Type_vector(INTS, 1, 2, MPI_INT, &l->type));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = 8 * i;
    layout_finish(l, "vector of 1 in 2", 4 * (2 * INTS - 1));
}

static void vector_of_threes(struct layout *l)
{
    mt_ok(MPI_Type_vector(4, 3, 7, MPI_INT, &l->type));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = 4 * (7 * (i / 3) + i % 3);
    layout_finish(l, "vector of 3 in 7", 4 * (3 * 7 + 3));
}

static void indexed(struct layout *l)
{
    static const int lengths[] = {1, 5, 0, 2, 4}, places[] = {3, 5, 11, 20, 12};
    int n = 0;

    mt_ok(MPI_Type_indexed(5, lengths, places, MPI_INT, &l->type));
    for (int block = 0; block < 5; block++)
        for (int i = 0; i < lengths[block]; i++)
            l->offset[n++] = 4 * (places[block] + i);
    layout_finish(l, "indexed, out of order", 4 * (22 - 3));
}

static void hindexed_odd(struct layout *l)
{
    static const int lengths[] = {4, 8};
    static const MPI_Aint places[] = {1, 35};
    MPI_Datatype inner;
    int n = 0;

    mt_ok(MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &inner));
    mt_ok(MPI_Type_create_resized(inner, 0, 71, &l->type)); /* MPI may round the extent up; an odd one is harder */
    mt_ok(MPI_Type_free(&inner));
    for (int block = 0; block < 2; block++)
        for (int i = 0; i < lengths[block]; i++)
            l->offset[n++] = places[block] + 4 * i;
    layout_finish(l, "hindexed at odd places", 71);
}

static void struct_with_holes(struct layout *l)
{
    static const int lengths[] = {1, 3, 8};
    static const MPI_Aint places[] = {0, 16, 40};
    static const MPI_Datatype types[] = {MPI_INT, MPI_INT, MPI_INT};
    MPI_Datatype inner;
    int n = 0;

    mt_ok(MPI_Type_create_struct(3, lengths, places, types, &inner));
    mt_ok(MPI_Type_create_resized(inner, 0, 100, &l->type));
    mt_ok(MPI_Type_free(&inner));
    for (int block = 0; block < 3; block++)
        for (int i = 0; i < lengths[block]; i++)
            l->offset[n++] = places[block] + 4 * i;
    layout_finish(l, "struct with holes", 100);
}

/* A column of a matrix with 5 columns; the next item is the same column of the next matrix. */
static void column(struct layout *l)
{
    MPI_Datatype inner;

    mt_ok(MPI_Type_vector(INTS, 1, 5, MPI_INT, &inner));
    mt_ok(MPI_Type_create_resized(inner, 0, 4 * 5 * INTS, &l->type));
    mt_ok(MPI_Type_free(&inner));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = 20 * i;
    layout_finish(l, "column", 4 * 5 * INTS);
}

static void subarray(struct layout *l)
{
    static const int sizes[] = {5, 6}, parts[] = {3, 4}, starts[] = {1, 2};

    mt_ok(MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &l->type));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = 4 * (6 * (1 + i / 4) + 2 + i % 4);
    layout_finish(l, "subarray", 4 * 30);
}

static void backwards(struct layout *l)
{
    MPI_Datatype inner;

    mt_ok(MPI_Type_create_hvector(INTS, 1, -8, MPI_INT, &inner));
    mt_ok(MPI_Type_create_resized(inner, -8 * (INTS - 1), 8 * INTS, &l->type));
    mt_ok(MPI_Type_free(&inner));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = -8 * i;
    layout_finish(l, "backwards", 8 * INTS);
}

static void nested(struct layout *l)
{
    MPI_Datatype pair, row;

    mt_ok(MPI_Type_vector(2, 1, 3, MPI_INT, &pair));
    mt_ok(MPI_Type_create_resized(pair, 0, 20, &row));
    mt_ok(MPI_Type_create_hvector(2, 3, 100, row, &l->type));
    mt_ok(MPI_Type_free(&pair));
    mt_ok(MPI_Type_free(&row));
    for (int i = 0; i < INTS; i++)
        l->offset[i] = 100 * (i / 6) + 20 * (i % 6 / 2) + 12 * (i % 2);
    layout_finish(l, "nested", 100 + 60);
}

static void (*const makers[])(struct layout *) = {contiguous,        vector_of_ones, vector_of_threes, indexed,
                                                  hindexed_odd,      column,         subarray,         backwards,
                                                  struct_with_holes, nested};

enum { LAYOUTS = MT_COUNT(makers) };

static struct layout layouts[LAYOUTS];

static void layouts_make(void)
{
    for (unsigned i = 0; i < LAYOUTS; i++)
        makers[i](&layouts[i]);
}

static void layouts_free(void)
{
    for (unsigned i = 0; i < LAYOUTS; i++)
        mt_ok(MPI_Type_free(&layouts[i].type));
}

/* Bytes from the lowest to the end of the highest int of count items. */
static size_t layout_span(const struct layout *l, int count)
{
    return (size_t)(l->extent * (count - 1) + l->high - l->low);
}

static uint8_t *layout_at(const struct layout *l, uint8_t *buf, int item, int i)
{
    return buf - l->low + l->extent * item + l->offset[i];
}

static int value_of(uint64_t seed, int item, int i)
{
    return (int)(seed * 2654435761u + (unsigned)item * 40503u + (unsigned)i * 97u);
}

static void layout_fill(const struct layout *l, uint8_t *buf, int count, uint64_t seed)
{
    for (int item = 0; item < count; item++)
        for (int i = 0; i < INTS; i++) {
            int value = value_of(seed, item, i);

            memcpy(layout_at(l, buf, item, i), &value, sizeof(value));
        }
}

/* The ints must be there; afterwards all else must be untouched. */
static void layout_check(const struct layout *l, uint8_t *buf, int count, uint64_t seed, const char *from)
{
    for (int item = 0; item < count; item++)
        for (int i = 0; i < INTS; i++) {
            uint8_t *at = layout_at(l, buf, item, i);
            int value;

            memcpy(&value, at, sizeof(value));
            mt_check(value == value_of(seed, item, i), "%s to %s, %d items: int %d of item %d is %#x, not %#x", from,
                     l->name, count, i, item, value, value_of(seed, item, i));
            memset(at, 0xa5, sizeof(value));
        }
    mt_check_untouched(buf, layout_span(l, count), l->name);
}

/* Items a message: 48 bytes each. */
static const int counts[] = {1, 2, 29, 30, 31, 185, 187, 682, 683, 700, 2100};

enum way { SEND_RECV, POSTED, SYNCHRONOUS, MPROBED, WAYS };

static void send_one(MPI_Comm comm, int to, const struct layout *l, int count, uint64_t seed, enum way way)
{
    uint8_t *buf = mt_alloc(layout_span(l, count));

    layout_fill(l, buf, count, seed);
    if (way == POSTED)
        mt_ok(MPI_Recv(NULL, 0, MPI_BYTE, to, TAG, comm, MPI_STATUS_IGNORE));
    mt_ok((way == SYNCHRONOUS ? MPI_Ssend : MPI_Send)(buf - l->low, count, l->type, to, TAG, comm));
    layout_check(l, buf, count, seed, "send buffer");
    mt_free(buf);
}

static void receive_one(MPI_Comm comm, int from, const struct layout *theirs, const struct layout *l, int count,
                        uint64_t seed, enum way way)
{
    uint8_t *buf = mt_alloc(layout_span(l, count));
    MPI_Message message;
    MPI_Request request;
    MPI_Status status;
    int items;

    if (way == MPROBED) {
        mt_ok(MPI_Mprobe(from, TAG, comm, &message, &status));
        mt_ok(MPI_Mrecv(buf - l->low, count, l->type, &message, &status));
    } else if (way == POSTED) {
        mt_ok(MPI_Irecv(buf - l->low, count, l->type, from, TAG, comm, &request));
        mt_ok(MPI_Send(NULL, 0, MPI_BYTE, from, TAG, comm));
        mt_ok(MPI_Wait(&request, &status));
    } else {
        mt_ok(MPI_Recv(buf - l->low, count, l->type, from, TAG, comm, &status));
    }
    mt_ok(MPI_Get_count(&status, l->type, &items));
    mt_check(items == count, "%s: MPI_Get_count says %d items, not %d", l->name, items, count);
    layout_check(l, buf, count, seed, theirs->name);
    mt_free(buf);
}

/* Each pair of layouts, each way, in one size of the table. */
static void pairs(MPI_Comm comm, enum way way)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);
    uint64_t seed = 1;

    layouts_make();
    for (unsigned a = 0; a < LAYOUTS && partner >= 0; a++)
        for (unsigned b = 0; b < LAYOUTS; b++)
            for (unsigned c = 0; c < MT_COUNT(counts); c++, seed++)
                if (rank < partner)
                    send_one(comm, partner, &layouts[a], counts[c], seed, way);
                else
                    receive_one(comm, partner, &layouts[a], &layouts[b], counts[c], seed, way);
    layouts_free();
}

static void run_pairs(MPI_Comm comm)
{
    pairs(comm, SEND_RECV);
}

static void run_pairs_posted(MPI_Comm comm)
{
    pairs(comm, POSTED);
}

static void run_pairs_synchronous(MPI_Comm comm)
{
    pairs(comm, SYNCHRONOUS);
}

static void run_pairs_mprobed(MPI_Comm comm)
{
    pairs(comm, MPROBED);
}

/* 3 MB a message. */
static void run_big(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm), count = 65536;

    layouts_make();
    for (unsigned a = 0; a < LAYOUTS && partner >= 0; a++) {
        const struct layout *mine = &layouts[a], *other = &layouts[(a + 3) % LAYOUTS];

        if (rank < partner)
            send_one(comm, partner, mine, count, a, SEND_RECV);
        else
            receive_one(comm, partner, mine, other, count, a, SEND_RECV);
    }
    layouts_free();
}

/* Both at once, many in flight. */
static void run_many(MPI_Comm comm)
{
    enum { MANY = 60 };
    int partner = mt_partner(comm), rank = mt_rank(comm);
    MPI_Request requests[2 * MANY];
    uint8_t *in[MANY], *out[MANY];

    if (partner < 0)
        return;
    layouts_make();
    for (int i = 0; i < MANY; i++) {
        const struct layout *from = &layouts[i % LAYOUTS], *to = &layouts[(i * 7 + 1) % LAYOUTS];
        int count = counts[i % (int)MT_COUNT(counts)];

        in[i] = mt_alloc(layout_span(to, count));
        out[i] = mt_alloc(layout_span(from, count));
        layout_fill(from, out[i], count, mt_seed((uint64_t)rank, (uint64_t)i, 0));
        mt_ok(MPI_Irecv(in[i] - to->low, count, to->type, partner, i, comm, &requests[2 * i]));
        mt_ok(MPI_Isend(out[i] - from->low, count, from->type, partner, i, comm, &requests[2 * i + 1]));
    }
    mt_ok(MPI_Waitall(2 * MANY, requests, MPI_STATUSES_IGNORE));
    for (int i = 0; i < MANY; i++) {
        layout_check(&layouts[(i * 7 + 1) % LAYOUTS], in[i], counts[i % (int)MT_COUNT(counts)],
                     mt_seed((uint64_t)partner, (uint64_t)i, 0), "one of many");
        mt_free(in[i]);
        mt_free(out[i]);
    }
    layouts_free();
}

/* A shorter message: the status counts elements, and the items that did not come stay as they were. */
static void run_partial(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);

    layouts_make();
    for (unsigned a = 0; a < LAYOUTS && partner >= 0; a++)
        for (unsigned c = 1; c < MT_COUNT(counts); c++) {
            const struct layout *l = &layouts[a];
            int room = counts[c], items = room / 2, ints = items * INTS + 5;
            uint8_t *buf = mt_alloc(layout_span(l, room));
            int *flat = malloc(sizeof(int) * (size_t)ints);
            MPI_Status status;
            int elements, count;

            for (int i = 0; i < ints; i++)
                flat[i] = value_of(c, i / INTS, i % INTS);
            if (rank < partner) {
                mt_ok(MPI_Send(flat, ints, MPI_INT, partner, TAG, comm));
            } else {
                mt_ok(MPI_Recv(buf - l->low, room, l->type, partner, TAG, comm, &status));
                mt_ok(MPI_Get_elements(&status, l->type, &elements));
                mt_check(elements == ints, "%s: MPI_Get_elements says %d, not %d", l->name, elements, ints);
                mt_ok(MPI_Get_count(&status, l->type, &count));
                mt_check(count == MPI_UNDEFINED, "%s: MPI_Get_count says %d for a part of an item", l->name, count);
                for (int i = 0; i < ints; i++) {
                    uint8_t *at = layout_at(l, buf, i / INTS, i % INTS);

                    mt_check(!memcmp(at, &flat[i], sizeof(int)), "%s: int %d of a partial receive is wrong", l->name,
                             i);
                    memset(at, 0xa5, sizeof(int));
                }
                mt_check_untouched(buf, layout_span(l, room), "what a partial receive did not cover");
            }
            free(flat);
            mt_free(buf);
        }
    layouts_free();
}

/* Packed by hand on one side. */
static void run_packed(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm);

    layouts_make();
    for (unsigned a = 0; a < LAYOUTS && partner >= 0; a++)
        for (unsigned c = 0; c < MT_COUNT(counts); c++) {
            const struct layout *l = &layouts[a];
            uint8_t *buf = mt_alloc(layout_span(l, counts[c]));
            int place = 0, room;
            void *packed;

            mt_ok(MPI_Pack_size(counts[c], l->type, comm, &room));
            packed = malloc((size_t)room);
            if (rank < partner) {
                layout_fill(l, buf, counts[c], a);
                mt_ok(MPI_Pack(buf - l->low, counts[c], l->type, packed, room, &place, comm));
                mt_ok(MPI_Send(packed, place, MPI_PACKED, partner, TAG, comm));
                mt_ok(MPI_Send(buf - l->low, counts[c], l->type, partner, TAG, comm));
            } else {
                mt_ok(MPI_Recv(buf - l->low, counts[c], l->type, partner, TAG, comm, MPI_STATUS_IGNORE));
                layout_check(l, buf, counts[c], a, "packed");
                mt_ok(MPI_Recv(packed, room, MPI_PACKED, partner, TAG, comm, MPI_STATUS_IGNORE));
                mt_ok(MPI_Unpack(packed, room, &place, buf - l->low, counts[c], l->type, comm));
                layout_check(l, buf, counts[c], a, "received packed");
            }
            free(packed);
            mt_free(buf);
        }
    layouts_free();
}

/* A struct of several basic types, as programs have them. */
struct particle {
    char kind;
    double position[3];
    short charge;
    int64_t id;
};

static void run_struct(MPI_Comm comm)
{
    static const int lengths[] = {1, 3, 1, 1}, numbers[] = {1, 40, 300, 5000, 100000};
    static const MPI_Datatype types[] = {MPI_CHAR, MPI_DOUBLE, MPI_SHORT, MPI_INT64_T};
    static const MPI_Aint places[] = {offsetof(struct particle, kind), offsetof(struct particle, position),
                                      offsetof(struct particle, charge), offsetof(struct particle, id)};
    int partner = mt_partner(comm), rank = mt_rank(comm);
    MPI_Datatype inner, type;

    mt_ok(MPI_Type_create_struct(4, lengths, places, types, &inner));
    mt_ok(MPI_Type_create_resized(inner, 0, sizeof(struct particle), &type));
    mt_ok(MPI_Type_commit(&type));
    for (unsigned n = 0; n < MT_COUNT(numbers) && partner >= 0; n++) {
        size_t bytes = sizeof(struct particle) * (size_t)numbers[n];
        struct particle *p = mt_alloc(bytes);

        if (rank < partner) {
            for (int i = 0; i < numbers[n]; i++)
                p[i] = (struct particle){(char)i, {i, i + 0.5, -i}, (short)(i * 3), (int64_t)i << 33};
            mt_ok(MPI_Send(p, numbers[n], type, partner, TAG, comm));
        } else {
            mt_ok(MPI_Recv(p, numbers[n], type, partner, TAG, comm, MPI_STATUS_IGNORE));
            for (int i = 0; i < numbers[n]; i++) {
                mt_check(p[i].kind == (char)i && p[i].position[0] == i && p[i].position[1] == i + 0.5 &&
                             p[i].position[2] == -i && p[i].charge == (short)(i * 3) && p[i].id == (int64_t)i << 33,
                         "particle %d of %d is wrong", i, numbers[n]);
                mt_check_untouched((uint8_t *)&p[i] + 1, offsetof(struct particle, position) - 1, "hole in a struct");
            }
        }
        mt_free(p);
    }
    mt_ok(MPI_Type_free(&inner));
    mt_ok(MPI_Type_free(&type));
}

/* Types and counts of no bytes. */
static void run_empty(MPI_Comm comm)
{
    int partner = mt_partner(comm), rank = mt_rank(comm), nothing = 77;
    MPI_Datatype empty;
    MPI_Status status;

    mt_ok(MPI_Type_contiguous(0, MPI_INT, &empty));
    mt_ok(MPI_Type_commit(&empty));
    if (partner >= 0 && rank < partner) {
        mt_ok(MPI_Send(&nothing, 5, empty, partner, TAG, comm));
        mt_ok(MPI_Ssend(&nothing, 0, MPI_INT, partner, TAG, comm));
    } else if (partner >= 0) {
        mt_ok(MPI_Recv(&nothing, 3, empty, partner, TAG, comm, &status));
        mt_status(&status, partner, TAG, 0);
        mt_ok(MPI_Recv(&nothing, 1, MPI_INT, partner, TAG, comm, &status));
        mt_status(&status, partner, TAG, 0);
    }
    mt_check(nothing == 77, "a message of no bytes wrote %d", nothing);
    mt_ok(MPI_Type_free(&empty));
}

/* Three bytes into ints: MPICH tells the receiver when it has to take the data apart. */
static void run_split(MPI_Comm comm)
{
#ifdef MPICH_VERSION
    int partner = mt_partner(comm), rank = mt_rank(comm), lengths[] = {1, 2, 1}, places[] = {4, 8, 16}, in[32] = {0};
    const char out[3] = {1, 2, 3};
    MPI_Datatype scattered;

    mt_ok(MPI_Type_indexed(3, lengths, places, MPI_INT, &scattered));
    mt_ok(MPI_Type_commit(&scattered));
    if (partner >= 0 && rank < partner) {
        mt_ok(MPI_Send(out, 3, MPI_CHAR, partner, TAG, comm));
        mt_ok(MPI_Send(in, 2, MPI_INT, partner, TAG, comm));
    } else if (partner >= 0) {
        mt_error(MPI_ERR_TYPE, MPI_Recv(in, 1, scattered, partner, TAG, comm, MPI_STATUS_IGNORE));
        mt_ok(MPI_Recv(in, 1, scattered, partner, TAG, comm, MPI_STATUS_IGNORE));
    }
    mt_ok(MPI_Type_free(&scattered));
#else
    mt_skip(comm, "a message that ends inside an int: Open MPI receives it without a word");
#endif
}

static const struct mt_scenario scenarios[] = {
    {"pairs", 2, run_pairs},
    {"pairs-posted", 2, run_pairs_posted},
    {"pairs-synchronous", 2, run_pairs_synchronous},
    {"pairs-mprobed", 2, run_pairs_mprobed},
    {"big", 2, run_big},
    {"many", 2, run_many},
    {"partial", 2, run_partial},
    {"packed", 2, run_packed},
    {"struct", 2, run_struct},
    {"empty", 2, run_empty},
    {"split", 2, run_split},
    {NULL, 0, NULL},
};

int main(int argc, char **argv)
{
    return mt_main(argc, argv, MPI_THREAD_SINGLE, scenarios);
}
