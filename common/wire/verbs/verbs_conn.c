/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Credits. A message that finds no receive posted costs at least a round trip, and many of them cause a retransmission
 * storm. So a frame is sent only with a credit: each side tells how many frames the other may have in flight, and posts
 * as many receives. After received buffers were posted again, the next frame back carries the credits. If there is
 * none, a separate message carries them when half of the credits are owed. Such messages need no credit, or both sides
 * could wait for each other for ever. Three further receives are posted for them. Proof that these suffice: a separate
 * message carries at least half of the credits (T), so the peer cannot cause more than credits / T <= 2 of them without
 * reading one. The first message on the connection is the third.
 *
 * Selective signalling. The device reports one completion for several messages: one in a quarter of the send queue. It
 * implies that all earlier messages have completed. Failed messages are reported individually. Parts of reads have
 * separate numbers, and each is reported, because siw reports a message although a read before it is still in progress.
 */
#include "wire/verbs/verbs_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "wire/verbs/verbs_read.h"

#define INLINE_STEP 16

/* ---- The table of queue pairs ---- */

static struct emx_verbs_conn **verbs_conn_bucket(struct emx_verbs_dev *d, uint32_t qp_num)
{
    return &d->by_qp[qp_num % EMX_VERBS_BUCKETS];
}

static void verbs_conn_remember(struct emx_verbs_conn *c)
{
    struct emx_verbs_conn **at = verbs_conn_bucket(c->dev, c->qp_num);

    emx_verbs_events_lock();
    c->next_qp = *at;
    *at = c;
    emx_verbs_events_unlock();
}

static void verbs_conn_forget(struct emx_verbs_conn *c)
{
    struct emx_verbs_conn **at = verbs_conn_bucket(c->dev, c->qp_num);

    emx_verbs_events_lock();
    while (*at && *at != c)
        at = &(*at)->next_qp;
    if (*at)
        *at = c->next_qp;
    emx_verbs_events_unlock();
}

/* ---- Receives ---- */

static unsigned verbs_conn_receives(const struct emx_verbs_dev *d)
{
    return EMX_VERBS_RECEIVES(d->credits);
}

static unsigned verbs_conn_promise(const struct emx_verbs_dev *d)
{
    return verbs_conn_receives(d) + EMX_VERBS_SENDS(d->credits);
}

/* Posts the missing receives. 0, or an errno. */
static int verbs_conn_fill(struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = c->dev;
    unsigned *have = d->srq ? &d->posted : &c->own, want = d->srq ? d->wanted : verbs_conn_receives(d);
    int err = 0;

    while (*have < want && !err) {
        struct emx_verbs_buf *b = emx_verbs_buf_get(d);

        err = b ? emx_verbs_dev_post(d, c->id->qp, b) : ENOMEM;
        if (!err)
            ++*have;
        else if (b)
            emx_verbs_buf_put(d, b);
    }
    return err;
}

/* Whether a buffer is to be posted again. The shared queue may have more than it needs, because a connection has ended.
 */
static bool verbs_conn_is_wanted(const struct emx_verbs_conn *c)
{
    const struct emx_verbs_dev *d = c->dev;

    return d->srq ? d->posted <= d->wanted : c->state != EMX_VERBS_ENDING;
}

static void verbs_conn_keep_back(struct emx_verbs_conn *c, struct emx_verbs_buf *b)
{
    --*(c->dev->srq ? &c->dev->posted : &c->own);
    emx_verbs_buf_put(c->dev, b);
}

static void verbs_conn_post_again(struct emx_verbs_conn *c, struct emx_verbs_buf *b)
{
    int err = c->dev->srq ? emx_verbs_dev_post_back(c->dev, b) : emx_verbs_dev_post(c->dev, c->id->qp, b);

    if (!err)
        return;
    c->broken = err;
    if (!c->dev->srq)
        verbs_conn_keep_back(c, b);
}

void emx_verbs_conn_recycle(struct emx_verbs_conn *c, struct emx_verbs_buf *b, bool frame)
{
    c->lent -= frame;
    if (verbs_conn_is_wanted(c))
        verbs_conn_post_again(c, b);
    else
        verbs_conn_keep_back(c, b);
    c->owed += frame;
    if (frame && c->state == EMX_VERBS_UP)
        emx_verbs_conn_tell(c, false);
}

/* ---- Sends ---- */

static bool verbs_conn_is_usable(const struct emx_verbs_conn *c)
{
    return c->state == EMX_VERBS_UP && c->may_send && !c->broken;
}

static bool verbs_conn_has_room(const struct emx_verbs_conn *c)
{
    return verbs_conn_is_usable(c) && c->sent - c->reaped < c->depth;
}

static uint64_t verbs_conn_work_number(const struct emx_verbs_conn *c, enum emx_verbs_work kind, uint32_t number)
{
    return (uint64_t)c->serial << EMX_VERBS_SERIAL_SHIFT | (uint64_t)number << 2 | kind;
}

static inline struct emx_verbs_flight *verbs_conn_in_flight(const struct emx_verbs_conn *c, uint32_t number)
{
    return &c->in_flight[number & c->in_flight_mask];
}

/* Posts wr to the device. b: its buffer, or NULL. */
static inline bool verbs_conn_post(struct emx_verbs_conn *c, struct ibv_send_wr *wr, struct emx_verbs_buf *b)
{
    struct ibv_send_wr *bad;

    wr->wr_id = verbs_conn_work_number(c, EMX_VERBS_SEND, c->sent);
    if (++c->unsignalled >= c->depth / 4)
        wr->send_flags |= IBV_SEND_SIGNALED;
    if (wr->send_flags & IBV_SEND_SIGNALED)
        c->unsignalled = 0;
    c->broken = ibv_post_send(c->id->qp, wr, &bad);
    if (c->broken) {
        if (b)
            emx_verbs_buf_put(c->dev, b);
        return false;
    }
    *verbs_conn_in_flight(c, c->sent++) = (struct emx_verbs_flight){.buf = b, .since_ns = *c->now_ns};
    return true;
}

bool emx_verbs_conn_read(struct emx_verbs_conn *c, struct ibv_send_wr *wr, const struct emx_verbs_part *part)
{
    struct ibv_send_wr *bad;
    uint32_t at = 0;

    if (!verbs_conn_is_usable(c) || c->parts_in_flight >= c->dev->reads_max)
        return false;
    while (c->part[at].read)
        at++;
    wr->wr_id = verbs_conn_work_number(c, EMX_VERBS_PART, at);
    wr->send_flags = IBV_SEND_SIGNALED;
    c->broken = ibv_post_send(c->id->qp, wr, &bad);
    if (c->broken)
        return false;
    c->part[at] = *part;
    c->parts_in_flight++;
    return true;
}

/* An empty read, too, needs a registered address. */
static struct ibv_sge verbs_conn_nowhere(const struct emx_verbs_conn *c)
{
    const struct emx_verbs_slab *slab = c->dev->slabs;

    return (struct ibv_sge){.addr = (uintptr_t)slab->memory, .lkey = slab->mr->lkey};
}

bool emx_verbs_conn_read_nothing(struct emx_verbs_conn *c, const struct emx_verbs_part *part)
{
    struct ibv_sge sge = verbs_conn_nowhere(c);
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1};

    return emx_verbs_conn_read(c, &wr, part);
}

static struct ibv_sge verbs_conn_sge(const void *p, size_t n)
{
    return (struct ibv_sge){.addr = (uintptr_t)p, .length = (uint32_t)n};
}

/* The work request of short messages is prepared once, and only the differences are written. f NULL: credits only. */
static inline bool verbs_conn_send_inline(struct emx_verbs_conn *c, const struct emx_verbs_head *h,
                                          const struct emx_txframe *f)
{
    struct ibv_send_wr *wr = &c->inline_wr;

    wr->num_sge = 1;
    wr->send_flags = IBV_SEND_INLINE;
    c->inline_sge[0] = verbs_conn_sge(h, sizeof(*h));
    if (f)
        c->inline_sge[wr->num_sge++] = verbs_conn_sge(f->head, f->head_bytes);
    if (f && f->body_bytes)
        c->inline_sge[wr->num_sge++] = verbs_conn_sge(f->body, f->body_bytes);
    return verbs_conn_post(c, wr, NULL);
}

static __attribute__((noinline)) bool verbs_conn_send_copied(struct emx_verbs_conn *c, const struct emx_verbs_head *h,
                                                             const struct emx_txframe *f)
{
    struct emx_verbs_buf *b = emx_verbs_buf_get(c->dev);
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    uint8_t *p;

    if (!b)
        return false;
    memcpy(b->data, h, sizeof(*h));
    p = b->data + sizeof(*h);
    if (f) {
        memcpy(p, f->head, f->head_bytes);
        p += f->head_bytes;
    }
    if (f && f->body_bytes) {
        memcpy(p, f->body, f->body_bytes);
        p += f->body_bytes;
    }
    sge = verbs_conn_sge(b->data, (size_t)(p - b->data));
    sge.lkey = b->lkey;
    return verbs_conn_post(c, &wr, b);
}

/* Always inlined into its two callers, to save a call and the checks for a frame. */
static inline __attribute__((always_inline)) bool verbs_conn_send_message(struct emx_verbs_conn *c,
                                                                          enum emx_verbs_kind kind,
                                                                          const struct emx_txframe *f)
{
    const struct emx_verbs_head h = {.kind = (uint8_t)kind, .credits = c->owed};
    size_t n = sizeof(h) + (f ? (size_t)f->head_bytes + f->body_bytes : 0);
    bool sent = n <= c->inline_bytes ? verbs_conn_send_inline(c, &h, f) : verbs_conn_send_copied(c, &h, f);

    if (sent)
        c->owed = 0;
    return sent;
}

bool emx_verbs_conn_put(struct emx_verbs_conn *c, const struct emx_txframe *f, uint64_t since_ns)
{
    if (!c->credits || !verbs_conn_has_room(c) || !verbs_conn_send_message(c, EMX_VERBS_FRAME, f))
        return false;
    verbs_conn_in_flight(c, c->sent - 1)->since_ns = since_ns;
    c->credits--;
    c->used_ns = *c->now_ns;
    return true;
}

void emx_verbs_conn_tell(struct emx_verbs_conn *c, bool always)
{
    if ((always || c->owed >= (c->dev->credits + 1) / 2) && verbs_conn_has_room(c))
        verbs_conn_send_message(c, EMX_VERBS_CREDIT, NULL);
}

/* The completion of an empty write shows that everything before it has arrived. It needs no receive. */
static void verbs_conn_write_nothing(struct emx_verbs_conn *c)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};

    if (verbs_conn_has_room(c))
        verbs_conn_post(c, &wr, NULL);
}

/* With iWARP, the completion of a write only means that TCP has it. An empty read completes when the other device has
 * replied. The peer's processor is not involved. */
static void verbs_conn_read_nothing(struct emx_verbs_conn *c)
{
    struct ibv_sge sge = verbs_conn_nowhere(c);
    struct ibv_send_wr *bad, wr = {.wr_id = verbs_conn_work_number(c, EMX_VERBS_PART, EMX_VERBS_READS),
                                   .opcode = IBV_WR_RDMA_READ,
                                   .send_flags = IBV_SEND_SIGNALED,
                                   .sg_list = &sge,
                                   .num_sge = 1};

    if (!verbs_conn_is_usable(c) || c->probing)
        return;
    c->broken = ibv_post_send(c->id->qp, &wr, &bad);
    c->probing = !c->broken;
}

unsigned emx_verbs_conn_probe(struct emx_verbs_conn *c)
{
    if (c->heard || !verbs_conn_is_usable(c))
        c->silent = 0;
    else if (c->dev->fabric != EMX_VERBS_IWARP || !c->dev->reads_max)
        verbs_conn_write_nothing(c);
    else if (c->silent++ == 0)
        verbs_conn_read_nothing(c);
    c->heard = false;
    return c->silent;
}

bool emx_verbs_conn_unsent(struct emx_verbs_conn *c)
{
    if (c->state != EMX_VERBS_UP || c->sent == c->reaped)
        return false;
    if (c->unsignalled)
        verbs_conn_write_nothing(c);
    return true;
}

uint64_t emx_verbs_conn_oldest_ns(const struct emx_verbs_conn *c)
{
    return verbs_conn_in_flight(c, c->reaped)->since_ns;
}

static void verbs_conn_reap_sends(struct emx_verbs_conn *c, uint32_t until)
{
    if (until - c->reaped > c->sent - c->reaped)
        return; /* reported before */
    for (; c->reaped != until; c->reaped++) {
        struct emx_verbs_flight *f = verbs_conn_in_flight(c, c->reaped);

        if (f->buf)
            emx_verbs_buf_put(c->dev, f->buf);
        f->buf = NULL;
    }
}

static void verbs_conn_reap_part(struct emx_verbs_conn *c, uint32_t at, bool well)
{
    const struct emx_verbs_part over = at < EMX_VERBS_READS ? c->part[at] : (struct emx_verbs_part){0};

    c->heard |= well;
    if (at == EMX_VERBS_READS)
        c->probing = false;
    if (!over.read)
        return;
    c->part[at].read = NULL;
    c->parts_in_flight--;
    emx_verbs_read_part_over(c, &over, well);
}

void emx_verbs_conn_reap(struct emx_verbs_conn *c, uint64_t wr_id, bool well)
{
    uint32_t number = (uint32_t)(wr_id >> 2);

    if (emx_verbs_work(wr_id) == EMX_VERBS_SEND)
        verbs_conn_reap_sends(c, number + 1);
    else
        verbs_conn_reap_part(c, number, well);
    if (c->state != EMX_VERBS_UP)
        return;
    emx_verbs_conn_tell(c, false);
    if (!emx_list_empty(&c->reads))
        emx_verbs_reads_go_on(c);
}

/* ---- Beginning and end ---- */

static bool verbs_conn_create_qp(struct emx_verbs_conn *c, unsigned sges, unsigned inline_bytes)
{
    struct emx_verbs_dev *d = c->dev;
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .send_cq = d->cq, .recv_cq = d->cq, .srq = d->srq};

    attr.cap = (struct ibv_qp_cap){.max_send_wr = EMX_VERBS_WORK(d->credits),
                                   .max_recv_wr = d->srq ? 0 : verbs_conn_receives(d),
                                   .max_send_sge = sges,
                                   .max_recv_sge = d->srq ? 0 : 1,
                                   .max_inline_data = inline_bytes};
    if (rdma_create_qp(c->id, d->pd, &attr))
        return false;
    c->inline_bytes = inline_bytes ? attr.cap.max_inline_data : 0;
    c->qp_num = c->id->qp->qp_num;
    return true;
}

/* Some devices have fewer inline bytes than requested, and fail instead of reporting how many they have (siw). The
 * first connection tries. */
static int verbs_conn_make_qp(struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = c->dev;
    unsigned sges = d->sge_limit < EMX_VERBS_SGES ? d->sge_limit : EMX_VERBS_SGES;
    unsigned inline_bytes = sges < EMX_VERBS_SGES ? 0 : d->inline_bytes;

    while (!verbs_conn_create_qp(c, sges, inline_bytes)) {
        if (!inline_bytes)
            return errno;
        inline_bytes = (inline_bytes - 1) / INLINE_STEP * INLINE_STEP;
    }
    d->inline_bytes = inline_bytes;
    return 0;
}

static int verbs_conn_make_in_flight(struct emx_verbs_conn *c)
{
    uint32_t n = 1;

    while (n < c->depth)
        n *= 2;
    c->in_flight_mask = n - 1;
    c->in_flight = calloc(n, sizeof(c->in_flight[0]));
    return c->in_flight ? 0 : ENOMEM;
}

int emx_verbs_conn_ready(struct emx_verbs_conn *c, struct emx_verbs_dev *d)
{
    int err = emx_verbs_dev_promise(d, verbs_conn_promise(d));

    if (err) /* the resources of other connections would suffice */
        return err == ENOMEM && d->conn_count ? ENOSPC : err;
    c->dev = d;
    c->depth = EMX_VERBS_SENDS(d->credits);
    c->inline_wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND, .sg_list = c->inline_sge};
    err = verbs_conn_make_in_flight(c);
    if (!err)
        err = verbs_conn_make_qp(c);
    if (err) {
        free(c->in_flight);
        c->in_flight = NULL;
        c->dev = NULL;
        emx_verbs_dev_release(d, verbs_conn_promise(d));
        return err;
    }
    verbs_conn_remember(c);
    d->wanted += d->srq ? verbs_conn_receives(d) : 0;
    return verbs_conn_fill(c); /* on failure, emx_verbs_conn_fini() frees the rest */
}

bool emx_verbs_conn_idle(const struct emx_verbs_conn *c)
{
    return !c->lent && (!c->dev || (c->sent == c->reaped && !c->own && !c->parts_in_flight));
}

void emx_verbs_conn_fini(struct emx_verbs_conn *c)
{
    struct emx_verbs_dev *d = c->dev;

    if (d)
        verbs_conn_forget(c);
    if (c->id && c->id->qp)
        rdma_destroy_qp(c->id);
    if (d) {
        verbs_conn_reap_sends(c, c->sent);
        for (uint32_t i = 0; i < EMX_VERBS_READS; i++)
            verbs_conn_reap_part(c, i, false);
        d->wanted -= d->srq ? verbs_conn_receives(d) : 0;
        emx_verbs_dev_release(d, verbs_conn_promise(d));
        free(c->in_flight);
        c->in_flight = NULL;
        c->dev = NULL;
    }
    if (c->id)
        rdma_destroy_id(c->id);
    c->id = NULL;
}
