/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The types that go into MPICH's own objects. MPICH's configure writes each of the names MPIDI_ETHMX_*_t into a union.
 */
#ifndef ETHMX_PRE_H_INCLUDED
#define ETHMX_PRE_H_INCLUDED

#include <ethmx.h>

struct MPIDI_ETHMX_layout;
struct MPIDI_ETHMX_window;

/* Data that is not contiguous, while an operation on it goes on (ethmx_data.h). */
typedef struct {
    const struct MPIDI_ETHMX_layout *layout; /* NULL: contiguous */
    char *base;
    size_t near;           /* the piece that was copied last */
    MPI_Datatype datatype; /* kept by us; or MPI_DATATYPE_NULL: the layout is the operation's own */
} MPIDI_ETHMX_strided_t;

/* A request of the native verbs. */
typedef struct {
    struct ethmx_req *posted;      /* a receive that can still be cancelled, or NULL */
    struct ethmx_message *message; /* taken by improbe */
    MPIDI_ETHMX_strided_t strided;
} MPIDI_ETHMX_request_t;

/* A request of ch4's active messages, while its data is being sent. */
typedef struct {
    int handler_id;
    MPIDI_ETHMX_strided_t strided;
} MPIDI_ETHMX_am_request_t;

typedef struct {
    struct MPIDI_ETHMX_layout *layout; /* of one element; made at first use */
} MPIDI_ETHMX_dt_t;

/* A process. */
typedef struct {
    struct ethmx_peer *peer;
} MPIDI_ETHMX_addr_t;

typedef struct {
    struct MPIDI_ETHMX_window *window; /* NULL: its operations are active messages */
} MPIDI_ETHMX_win_t;

/* Nothing of ours in these. */
typedef struct {
    int unused;
} MPIDI_ETHMX_comm_t;
typedef struct {
    int unused;
} MPIDI_ETHMX_op_t;
typedef struct {
    int unused;
} MPIDI_ETHMX_part_t;

#endif
