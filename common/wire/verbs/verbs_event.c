/* SPDX-License-Identifier: BSD-3-Clause
 *
 * librdmacm opens each device once per process, so all endpoints of a process share one descriptor for its events, and
 * the endpoint that reads an event may not be the one that it concerns. So all devices in use are in one list, under a
 * lock of this file. An event is stored in the device or connection that it concerns. Its owner, woken by the same
 * descriptor, finds it there at its next poll. Events for other users of the same context are ignored.
 *
 * An unacknowledged event blocks the destruction of its queue for ever. So each is acknowledged as soon as it is
 * stored.
 */
#include "wire/verbs/verbs_event.h"

#include <pthread.h>

#include "base/list.h"
#include "base/log.h"
#include "wire/verbs/verbs_conn.h"

static struct emx_list verbs_event_devs = {&verbs_event_devs, &verbs_event_devs};
static pthread_mutex_t verbs_event_mutex = PTHREAD_MUTEX_INITIALIZER;

void emx_verbs_events_lock(void)
{
    pthread_mutex_lock(&verbs_event_mutex);
}

void emx_verbs_events_unlock(void)
{
    pthread_mutex_unlock(&verbs_event_mutex);
}

void emx_verbs_events_open(struct emx_verbs_dev *d)
{
    atomic_init(&d->events.fatal, EMX_VERBS_NO_EVENT);
    emx_verbs_events_lock();
    emx_list_append(&verbs_event_devs, &d->events_link);
    emx_verbs_events_unlock();
}

void emx_verbs_events_close(struct emx_verbs_dev *d)
{
    emx_verbs_events_lock();
    emx_list_del(&d->events_link);
    emx_verbs_events_unlock();
}

/* ---- Storing, under the lock ---- */

static void verbs_event_note_qp(struct emx_verbs_dev *d, const struct ibv_qp *qp, enum ibv_event_type type)
{
    struct emx_verbs_conn *c = emx_verbs_conn_find(d, qp->qp_num);

    if (!c || c->id->qp != qp)
        return;
    if (type == IBV_EVENT_QP_LAST_WQE_REACHED)
        atomic_store(&c->events.last_wqe, true);
    else
        atomic_store(&c->events.fatal, (int)type);
    atomic_store(&d->events.any, true);
}

static void verbs_event_note_fatal(struct emx_verbs_dev *d, enum ibv_event_type type)
{
    atomic_store(&d->events.fatal, (int)type);
    atomic_store(&d->events.any, true);
}

static void verbs_event_note_port(struct emx_verbs_dev *d, int port)
{
    atomic_fetch_or(&d->events.ports_bad, emx_verbs_port_bit((unsigned)port));
    atomic_store(&d->events.any, true);
}

static void verbs_event_note(struct emx_verbs_dev *d, const struct ibv_async_event *ev)
{
    switch (ev->event_type) {
    case IBV_EVENT_QP_LAST_WQE_REACHED:
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
        verbs_event_note_qp(d, ev->element.qp, ev->event_type);
        break;
    case IBV_EVENT_CQ_ERR:
        if (ev->element.cq == d->cq)
            verbs_event_note_fatal(d, ev->event_type);
        break;
    case IBV_EVENT_SRQ_ERR:
        if (ev->element.srq == d->srq)
            verbs_event_note_fatal(d, ev->event_type);
        break;
    case IBV_EVENT_DEVICE_FATAL:
        verbs_event_note_fatal(d, ev->event_type);
        break;
    case IBV_EVENT_PORT_ERR:
        verbs_event_note_port(d, ev->element.port_num);
        break;
    default: /* subnet changes, alternate paths, limits that are not set */
        break;
    }
}

void emx_verbs_events_read(struct ibv_context *context)
{
    struct ibv_async_event ev;

    emx_verbs_events_lock();
    while (!ibv_get_async_event(context, &ev)) {
        emx_log(EMX_LOG_DEBUG, "verbs: %s tells: %s", ibv_get_device_name(context->device),
                ibv_event_type_str(ev.event_type));
        emx_list_each(l, &verbs_event_devs)
        {
            struct emx_verbs_dev *d = emx_list_entry(l, struct emx_verbs_dev, events_link);

            if (d->context == context)
                verbs_event_note(d, &ev);
        }
        ibv_ack_async_event(&ev);
    }
    emx_verbs_events_unlock();
}
