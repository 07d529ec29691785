/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The reference model of MPI's matching (MPI 4.0, section 3.5), for histories in which nobody saw when messages
 * arrived. Known are: the order of sends of each process, the order in which each process posted its receives (a
 * successful matched probe counts as one), which receive got which message, and the order of all calls and completions.
 * From the two rules
 *
 *     an arriving message takes the earliest posted receive that fits,
 *     a receive takes the earliest arrived message that fits, and messages of one sender arrive in order,
 *
 * follows for every history:
 *
 * 1. If receive R got message M, then each earlier message of the same sender that R fits was got by a receive posted
 *    before R: else R would have found, or met, that one first.
 * 2. If receive R got message M, then each receive posted before R that fits M was over at that time: it had got a
 *    message (sent before R completed), or was cancelled before R completed.
 *
 * Together with "each message once" nothing else can be asked of the matching of one receiver.
 */
#include "program.h"

#include <inttypes.h>
#include <string.h>

bool sim_fits(const struct sim_receive *r, const struct sim_message *m)
{
    return !m->is_am && !m->refused && m->dst == r->party && (r->from == SIM_ANY || m->src == (unsigned)r->from) &&
           !((m->bits ^ r->bits) & r->mask);
}

/* Whether the message may be what the receive got, as far as anything tells. */
static bool looks_like(const struct sim_program *p, const struct sim_message *m, const struct sim_receive *r)
{
    return m && m->len_bytes == r->msg_bytes && m->sent_step <= r->done_step &&
           (!p->content || sim_content_fits(m->ident, 0, r->head, r->head_bytes));
}

/* Messages too short to say which they are, or cut so short: of those with equal sender and bits, receives get them in
 * order. One whose sending failed may have arrived all the same, or another receive waited for the rest of it for ever:
 * where it and one that did not fail both may be the one, nothing is asked of either. */
static void identify_by_rank(struct sim_program *p, struct sim_receive *r)
{
    struct sim_message *due = NULL, *failed = NULL;

    for (size_t i = 0; i < p->message_count; i++) {
        struct sim_message *m = p->message[i];

        if (m->receive || m->is_am || m->refused || m->src != r->src || m->dst != r->party || m->bits != r->got_bits)
            continue;
        if (m->status >= 0 && !due)
            due = m;
        if (m->status < 0 && !failed && looks_like(p, m, r))
            failed = m;
    }
    r->message = looks_like(p, due, r) ? due : failed;
    if (failed && r->message == due)
        failed->doubtful = due->doubtful = true;
    if (r->message)
        r->message->receive = r;
    else if (due)
        sim_fail(p->world,
                 "party %u: by order message %u of %zu bytes was due, one of %zu bytes with bits %" PRIx64
                 " or other content came",
                 r->party, (unsigned)due->ident, due->len_bytes, r->msg_bytes, r->got_bits);
    else
        sim_fail(p->world, "party %u received a message of party %u, bits %" PRIx64 ", that nobody sent or got before",
                 r->party, r->src, r->got_bits);
}

/* Rule 1. */
static void check_messages_before(struct sim_program *p, const struct sim_receive *r)
{
    for (size_t i = 0; i < p->message_count && p->message[i] != r->message; i++) {
        const struct sim_message *m = p->message[i];

        if (m->src != r->src || !sim_fits(r, m) || m->status < 0 || m->doubtful)
            continue;
        if (!m->receive)
            sim_fail(p->world, "party %u: message %u was received, and %u, sent before, fits too but was not", r->party,
                     (unsigned)r->message->ident, (unsigned)m->ident);
        else if (m->receive->posted_step > r->posted_step)
            sim_fail(p->world, "party %u: message %u overtook message %u of the same sender", r->party,
                     (unsigned)r->message->ident, (unsigned)m->ident);
    }
}

/* Rule 2. */
static void check_receives_before(struct sim_program *p, const struct sim_receive *r)
{
    for (size_t i = 0; i < p->receive_count && p->receive[i] != r; i++) {
        const struct sim_receive *q = p->receive[i];
        bool wrong = false;

        if (q->is_am || !sim_fits(q, r->message))
            continue;
        if (q->state == SIM_OPEN)
            wrong = !q->bound;
        else if (q->state == SIM_CANCELED)
            wrong = r->done_step < q->cancel_step;
        else if (q->state == SIM_DONE)
            wrong = !q->message->doubtful && q->message->sent_step > r->done_step;
        if (wrong)
            sim_fail(p->world, "party %u: message %u was due to an earlier receive (from %d, %" PRIx64 "/%" PRIx64 ")",
                     r->party, (unsigned)r->message->ident, q->from, q->bits, q->mask);
    }
}

/* A synchronous send completes after its receive was posted. (When either side crashes, the receive may have matched
 * the message and not got all of it: then nothing tells which receive it was.) */
static void check_synchronous(struct sim_program *p, const struct sim_message *m)
{
    if (m->mode != ETHMX_SEND_SYNC || m->is_am || m->refused || m->open || m->status != ETHMX_OK)
        return;
    if (!m->receive && (p->doomed[m->src] || p->doomed[m->dst]))
        return;
    if (!m->receive || m->receive->posted_step > m->done_step)
        sim_fail(p->world, "synchronous message %u completed before it was matched", (unsigned)m->ident);
}

void sim_model_check(struct sim_program *p)
{
    for (size_t i = 0; i < p->receive_count && !sim_failed(p->world); i++) {
        struct sim_receive *r = p->receive[i];

        if (r->state == SIM_DONE && !r->message)
            identify_by_rank(p, r);
    }
    for (size_t i = 0; i < p->receive_count && !sim_failed(p->world); i++) {
        const struct sim_receive *r = p->receive[i];

        if (r->state != SIM_DONE || r->is_am || r->message->doubtful)
            continue;
        check_messages_before(p, r);
        check_receives_before(p, r);
    }
    for (size_t i = 0; i < p->message_count && !sim_failed(p->world); i++)
        check_synchronous(p, p->message[i]);
}
