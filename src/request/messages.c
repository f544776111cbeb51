/*
 * messages.c - pairs sends of messages with their receives, and keeps the
 * waits.
 *
 * Each label has a list of messages that wait for the other of their two
 * events, and one of the waits that are known.  Either event may come first:
 * events of several nodes or rings are not in the order of time.  These lists
 * are apart from requests, which use them only when they close; they are empty
 * unless the configuration asks for messages.
 *
 * A process numbers what it sends with a token, and numbers only rise: so the
 * label, the sender and that number identify one message.
 */
#include <stdlib.h>

#include "request/state.h"

#define PENDING_MAX 1024		/* of one request, at a time */
#define WAITS_MAX 10000			/* of one request */
#define BYTES_MAX (64u << 20)		/* of all */
#define MAILS_MAX 200000		/* labels; twice the requests in flight */
#define ROOM_FIRST 8
/* The entry of their request may be on its way for this time. */
#define EARLY_AGE (KP_NODE_LAG_MAX + KP_HORIZON)

/* One of the two events of a message. */
struct pending {
	uint64_t from, proc;	/* sender; the process of the event */
	kp_target_ns at;	/* by the clock of: */
	uint32_t serial;
	uint8_t node;
	bool received;		/* that one, else the send */
};

struct mail {
	uint64_t label;
	struct pending *pending;	/* owned, as are the waits */
	struct kp_wait *wait;
	uint32_t n, cap, nwaits, room;
	bool full;		/* some of its sends were not kept */
	bool handed_on;
	bool early;		/* in the list of its node: no request yet */
	uint8_t node;		/* of the first event, and when it came */
	kp_target_ns at;
	struct mail *prev, *next;
};

struct mails {
	struct map by_label;	/* label -> struct mail * */
	struct {
		struct mail *head, *tail;
	} early[KP_NODES_MAX];
	size_t bytes;
	struct receivers receivers;
	const struct mail *out;	/* of the request that is handed on */
};

bool
mails_init(struct kp_requests *rs)
{
	rs->mails = calloc(1, sizeof(*rs->mails));
	return rs->mails != NULL && receivers_init(&rs->mails->receivers);
}

static struct mail *
mail_get(const struct mails *ms, uint64_t label)
{
	uint64_t *at = map_get(&ms->by_label, label);

	return at != NULL ? (struct mail *)(uintptr_t)*at : NULL;
}

/* ---- those without a request yet ---- */

static void
early_add(struct mails *ms, struct mail *m)
{
	m->early = true;
	m->prev = ms->early[m->node].tail;
	if (m->prev != NULL)
		m->prev->next = m;
	else
		ms->early[m->node].head = m;
	ms->early[m->node].tail = m;
}

static void
early_remove(struct mails *ms, struct mail *m)
{
	if (!m->early)
		return;
	if (m->prev != NULL)
		m->prev->next = m->next;
	else
		ms->early[m->node].head = m->next;
	if (m->next != NULL)
		m->next->prev = m->prev;
	else
		ms->early[m->node].tail = m->prev;
	m->early = false;
	m->prev = m->next = NULL;
}

/* ---- memory ---- */

/* v with room for one more, up to max; NULL: there is none, and v is as before. */
static void *
grown(struct mails *ms, void *v, uint32_t n, uint32_t *cap, uint32_t max,
    size_t size)
{
	uint32_t more = *cap > 0 ? *cap : ROOM_FIRST;

	if (n < *cap)
		return v;
	if (n >= max || ms->bytes + more * size > BYTES_MAX ||
	    (v = realloc(v, (*cap + more) * size)) == NULL)
		return NULL;
	*cap += more;
	ms->bytes += more * size;
	return v;
}

static struct mail *
mail_make(struct mails *ms, uint64_t label, uint8_t node, kp_target_ns at,
    bool early)
{
	struct mail *m;

	if (ms->by_label.len == MAILS_MAX || ms->bytes > BYTES_MAX ||
	    (m = calloc(1, sizeof(*m))) == NULL)
		return NULL;
	*m = (struct mail){ .label = label, .node = node, .at = at };
	if (!map_put(&ms->by_label, label, (uint64_t)(uintptr_t)m)) {
		free(m);
		return NULL;
	}
	ms->bytes += sizeof(*m);
	if (early)
		early_add(ms, m);
	return m;
}

static void
mail_free(struct mails *ms, struct mail *m)
{
	early_remove(ms, m);
	map_remove(&ms->by_label, m->label);
	ms->bytes -= sizeof(*m) + m->cap * sizeof(*m->pending) +
	    m->room * sizeof(*m->wait);
	free(m->pending);
	free(m->wait);
	free(m);
}

void
mails_free(struct kp_requests *rs)
{
	struct mails *ms = rs->mails;

	if (ms == NULL)
		return;
	for (size_t i = 0; i < ms->by_label.cap; ) {
		/* what goes makes room for one that comes after it */
		if (ms->by_label.slots[i].key != 0)
			mail_free(ms, (struct mail *)(uintptr_t)
			    ms->by_label.slots[i].val);
		else
			i++;
	}
	map_free(&ms->by_label);
	receivers_free(&ms->receivers);
	free(ms);
	rs->mails = NULL;
}

/* ---- losses ---- */

static void
lose(struct kp_requests *rs, uint32_t node, enum kp_loss cause)
{
	rs->nodes[node].lost.n[cause]++;
}

/* It has not found its other event, and will not. */
static void
pending_lose(struct kp_requests *rs, const struct mail *m,
    const struct pending *p, enum kp_loss of_send)
{
	if (!p->received)
		lose(rs, p->node, of_send);
	else if (of_send == KP_LOSS_UNRECEIVED && !m->full)
		lose(rs, p->node, KP_LOSS_UNPAIRED);
}

/* ---- events in ---- */

/* A wait that is known; false: their clocks are not, or there is no room. */
static void
mail_pair(struct kp_requests *rs, struct mail *m, const struct pending *sent,
    const struct pending *got)
{
	const struct rnode *f = &rs->nodes[sent->node];
	const struct rnode *t = &rs->nodes[got->node];
	struct kp_wait *v;
	kp_target_ns at;

	if (sent->node != got->node && (!f->timed || !t->timed)) {
		lose(rs, sent->node, KP_LOSS_UNRECEIVED);
		return;
	}
	v = grown(rs->mails, m->wait, m->nwaits, &m->room, WAITS_MAX,
	    sizeof(*v));
	if (v == NULL) {
		lose(rs, sent->node, KP_LOSS_MAIL_CAP);
		return;
	}
	m->wait = v;
	at = node_time(rs, sent->node, got->node, sent->at);
	m->wait[m->nwaits++] = (struct kp_wait){ .proc = got->proc,
		.wait = got->at > at ? got->at - at : 0, .node = got->node,
		.from = sent->node };
}

static void
mail_add(struct kp_requests *rs, struct mail *m, const struct pending *p)
{
	struct pending *v = m->pending;

	for (uint32_t i = 0; i < m->n; i++) {
		if (v[i].serial != p->serial || v[i].from != p->from ||
		    v[i].received == p->received)
			continue;
		mail_pair(rs, m, p->received ? &v[i] : p,
		    p->received ? p : &v[i]);
		v[i] = v[--m->n];
		return;
	}
	v = grown(rs->mails, v, m->n, &m->cap, PENDING_MAX, sizeof(*v));
	if (v != NULL) {
		m->pending = v;
		v[m->n++] = *p;
		return;
	}
	pending_lose(rs, m, p, p->received ? KP_LOSS_UNRECEIVED :
	    KP_LOSS_MAIL_CAP);
	m->full |= !p->received;
}

/* That of the label; NULL: it cannot be kept, and a send is counted. */
static struct mail *
mail_of(struct kp_requests *rs, const struct kp_event *ev,
    const struct pending *p)
{
	const struct req *rq = req_get(rs, ev->label);
	struct mail *m = mail_get(rs->mails, ev->label);
	enum kp_loss cause = KP_LOSS_MAIL_CAP;

	if (rq != NULL && rq->collided)
		cause = KP_LOSS_MAIL_GONE;
	else if (rq == NULL && tombs_get(rs, ev->label) != NULL)
		cause = KP_LOSS_MAIL_LATE;
	else if (m != NULL || (m = mail_make(rs->mails, ev->label, p->node,
	    p->at, rq == NULL)) != NULL)
		return m;
	if (!p->received)
		lose(rs, p->node, cause);
	return NULL;
}

void
mail_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev)
{
	struct pending p = { .proc = pid_key(nd->index, &ev->pid),
		.at = ev->ts, .serial = ev->serial,
		.node = (uint8_t)nd->index,
		.received = ev->kind == KP_EV_RECEIVE };
	uint64_t other = node_sender(rs, nd, ev);
	struct mail *m;

	if (p.proc == 0 || ev->label == 0 || ev->ts >= KP_TARGET_TIME_MAX ||
	    ev->ts <= -KP_TARGET_TIME_MAX) {
		nd->lost.n[KP_LOSS_BAD_EVENT]++;
		return;
	}
	/* From or to a node that tells us nothing: there is no pair of it. */
	if (other == 0 && (p.received || ev->has_from))
		return;
	p.from = p.received ? other : p.proc;
	m = mail_of(rs, ev, &p);
	if (m == NULL)
		return;
	if (p.received && rs->o.on_receiver != NULL &&
	    receivers_add(&rs->mails->receivers, p.proc))
		rs->o.on_receiver(rs->o.ctx, nd->index, p.proc);
	mail_add(rs, m, &p);
}

/* ---- requests out ---- */

/* One that has no name, or not yet, may be the one that began the request. */
static uint32_t
receiver_of(const struct mails *ms, const struct req *rq,
    const struct kp_wait *w)
{
	uint32_t id = receivers_get(&ms->receivers, w->proc);

	return id == KP_RECEIVER_GONE && w->proc == rq->calls[0].c.proc ?
	    KP_RECEIVER_ENTRY : id;
}

void
mail_hand_on(struct kp_requests *rs, const struct req *rq)
{
	struct mails *ms = rs->mails;
	struct mail *m = mail_get(ms, rq->r.label);

	ms->out = m;
	if (m == NULL)
		return;
	for (uint32_t i = 0; i < m->n; i++)
		pending_lose(rs, m, &m->pending[i], KP_LOSS_UNRECEIVED);
	for (uint32_t i = 0; i < m->nwaits; i++)
		m->wait[i].receiver = receiver_of(ms, rq, &m->wait[i]);
	m->n = 0;
	m->handed_on = true;
}

/* All of it is lost for this cause, but what was handed on. */
static void
mail_drop(struct kp_requests *rs, struct mail *m, enum kp_loss cause)
{
	for (uint32_t i = 0; i < m->n; i++)
		pending_lose(rs, m, &m->pending[i], cause);
	for (uint32_t i = 0; i < m->nwaits && !m->handed_on; i++)
		lose(rs, m->wait[i].from, cause);
	if (rs->mails->out == m)
		rs->mails->out = NULL;
	mail_free(rs->mails, m);
}

void
mail_forget(struct kp_requests *rs, uint64_t label)
{
	struct mail *m = mail_get(rs->mails, label);

	if (m != NULL)
		mail_drop(rs, m, KP_LOSS_MAIL_GONE);
}

void
mails_expire(struct kp_requests *rs, const struct rnode *nd, kp_target_ns now)
{
	struct mails *ms = rs->mails;
	struct mail *m;

	while ((m = ms->early[nd->index].head) != NULL &&
	    now - m->at >= EARLY_AGE) {
		early_remove(ms, m);
		if (req_get(rs, m->label) == NULL)
			mail_drop(rs, m, KP_LOSS_MAIL_LATE);
	}
}

/* What is of this node, whose index and clock another may have next. */
static void
mail_detach(struct kp_requests *rs, struct mail *m, uint32_t node)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		if (m->pending[i].node == node ||
		    m->pending[i].from >> PID_NODE == node)
			pending_lose(rs, m, &m->pending[i],
			    KP_LOSS_UNRECEIVED);
		else
			m->pending[n++] = m->pending[i];
	}
	m->n = n;
	n = 0;
	for (uint32_t i = 0; i < m->nwaits; i++) {
		if (m->wait[i].node == node || m->wait[i].from == node)
			lose(rs, m->wait[i].from, KP_LOSS_MAIL_GONE);
		else
			m->wait[n++] = m->wait[i];
	}
	m->nwaits = n;
}

void
mails_detach(struct kp_requests *rs, const struct rnode *nd)
{
	struct mails *ms = rs->mails;

	while (ms->early[nd->index].head != NULL)
		mail_drop(rs, ms->early[nd->index].head, KP_LOSS_MAIL_GONE);
	for (size_t i = 0; i < ms->by_label.cap; i++)
		if (ms->by_label.slots[i].key != 0)
			mail_detach(rs, (struct mail *)(uintptr_t)
			    ms->by_label.slots[i].val, nd->index);
}

/* ---- what is asked from outside ---- */

const struct kp_wait *
kp_requests_waits(const struct kp_requests *rs, uint32_t *n)
{
	const struct mail *m = rs->mails != NULL ? rs->mails->out : NULL;

	*n = m != NULL ? m->nwaits : 0;
	return m != NULL ? m->wait : NULL;
}

const char *
kp_requests_receiver(const struct kp_requests *rs, uint32_t id)
{
	return rs->mails->receivers.name[id];
}

void
kp_requests_name_receiver(struct kp_requests *rs, uint64_t proc,
    struct kp_span name)
{
	if (rs->mails != NULL)
		receivers_name(&rs->mails->receivers, proc, name);
}
