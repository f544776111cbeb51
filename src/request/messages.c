/*
 * messages.c - pairs sends of messages with their receives, and keeps how long
 * each waited.
 *
 * Each label has a list of messages of which one of the two events has come,
 * and a list of the waits that are known.  Either event may come first, since
 * events of several nodes or rings are not in order.  A request uses the lists
 * of its label only when it closes.  They are empty unless the configuration
 * asks for messages.
 *
 * A process numbers the messages that it sends with a token, and the numbers
 * only rise.  So the label, the sender and that number identify a message.
 *
 * Where requests meet, a message may be sent for another request than that of its
 * token (reconcile.c).  So its events wait under its label, and its wait goes to
 * the request that it was sent for.  Tokens of requests that have closed are on
 * their way for as long as a pool has no free worker: the events wait for each
 * other there, too.
 */
#include <stdlib.h>

#include "request/life.h"
#include "kprofd/label.h"

#define PENDING_MAX 1024		/* of one request, at a time */
#define WAITS_MAX 10000			/* of one request */
#define BYTES_MAX (64u << 20)		/* of all */
#define LABELS_MAX 200000		/* labels; twice the requests in flight */
#define ROOM_FIRST 8
/* For this time the entry of their request may still come. */
#define EARLY_AGE (KP_NODE_LAG_MAX + KP_HORIZON)

/* One of the two events of a message. */
struct pending {
	uint64_t from, proc;	/* sender; the process of the event */
	kp_target_ns at;	/* by the clock of: */
	uint32_t serial, last;
	uint8_t node;
	bool received;		/* else it is the send */
};

/* The messages of one label. */
struct msgs {
	uint64_t label;
	struct pending *pending;	/* owned, as are the waits */
	struct kp_wait *wait;
	uint32_t n, cap, nwaits, room;
	bool full;		/* a send was not kept */
	bool handed_on;
	bool early;		/* in the list of its node: no request in flight */
	uint8_t node;		/* of the first event, and its time */
	kp_target_ns at;
	TAILQ_ENTRY(msgs) link;
};

struct messages {
	struct map by_label;	/* label -> struct msgs * */
	TAILQ_HEAD(, msgs) early[KP_NODES_MAX];
	size_t bytes;
	struct receivers receivers;
	const struct msgs *out;	/* of the request that is being handed on */
};

bool
messages_init(struct kp_requests *rs)
{
	rs->messages = calloc(1, sizeof(*rs->messages));
	if (rs->messages == NULL)
		return false;
	for (uint32_t i = 0; i < KP_NODES_MAX; i++)
		TAILQ_INIT(&rs->messages->early[i]);
	return receivers_init(&rs->messages->receivers);
}

static struct msgs *
msgs_get(const struct messages *ms, uint64_t label)
{
	return map_find(&ms->by_label, label);
}

/* ---- labels whose request has not come yet, or has closed ---- */

static void
early_remove(struct messages *ms, struct msgs *m)
{
	if (m->early)
		TAILQ_REMOVE(&ms->early[m->node], m, link);
	m->early = false;
}

/* ---- memory ---- */

/* Makes room for one more, up to max; NULL: there is none, and v is unchanged. */
static void *
grown(struct messages *ms, void *v, uint32_t n, uint32_t *cap, uint32_t max,
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

static void
early_put(struct messages *ms, struct msgs *m, uint8_t node, kp_target_ns at)
{
	m->node = node;
	m->at = at;
	m->early = true;
	TAILQ_INSERT_TAIL(&ms->early[node], m, link);
}

static struct msgs *
msgs_make(struct messages *ms, uint64_t label, uint8_t node, kp_target_ns at,
    bool early)
{
	struct msgs *m;

	if (ms->by_label.len == LABELS_MAX || ms->bytes > BYTES_MAX ||
	    (m = calloc(1, sizeof(*m))) == NULL)
		return NULL;
	*m = (struct msgs){ .label = label };
	if (!map_put(&ms->by_label, label, (uint64_t)(uintptr_t)m)) {
		free(m);
		return NULL;
	}
	ms->bytes += sizeof(*m);
	if (early)
		early_put(ms, m, node, at);
	return m;
}

static void
msgs_free(struct messages *ms, struct msgs *m)
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
messages_free(struct kp_requests *rs)
{
	struct messages *ms = rs->messages;

	if (ms == NULL)
		return;
	for (size_t i = 0; i < ms->by_label.cap; ) {
		/* Removal shifts later entries back. */
		if (ms->by_label.slots[i].key != 0)
			msgs_free(ms, (struct msgs *)(uintptr_t)
			    ms->by_label.slots[i].val);
		else
			i++;
	}
	map_free(&ms->by_label);
	receivers_free(&ms->receivers);
	free(ms);
	rs->messages = NULL;
}

/* ---- losses ---- */

static void
lose(struct kp_requests *rs, uint32_t node, enum kp_loss cause)
{
	rs->nodes[node].lost.n[cause]++;
}

/* Its other event will not come. */
static void
pending_lose(struct kp_requests *rs, const struct msgs *m,
    const struct pending *p, enum kp_loss of_send)
{
	if (!p->received)
		lose(rs, p->node, of_send);
	else if (of_send == KP_LOSS_UNRECEIVED && !m->full)
		lose(rs, p->node, KP_LOSS_UNPAIRED);
}

/* ---- events in ---- */

/*
 * The messages of a label, for a wait or one of the two events; NULL: it is not
 * kept, and a send is counted.
 */
static struct msgs *
msgs_for(struct kp_requests *rs, uint64_t label, const struct pending *p,
    bool wait)
{
	const struct req *rq = req_get(rs, label);
	const struct tombstone *t = rq == NULL ? tombs_get(rs, label) : NULL;
	struct msgs *m = msgs_get(rs->messages, label);
	enum kp_loss cause = KP_LOSS_MAIL_CAP;

	if (rq != NULL && rq->collided)
		cause = KP_LOSS_MAIL_GONE;
	else if (t != NULL && (wait || !t->spread))
		cause = KP_LOSS_MAIL_LATE;
	else if (m != NULL || (m = msgs_make(rs->messages, label, p->node,
	    p->at, rq == NULL)) != NULL)
		return m;
	if (!p->received)
		lose(rs, p->node, cause);
	return NULL;
}

/* Keeps the wait of a message of which both events are here. */
static void
msgs_pair(struct kp_requests *rs, struct msgs *m, const struct pending *sent,
    const struct pending *got)
{
	const struct rnode *f = &rs->nodes[sent->node];
	const struct rnode *t = &rs->nodes[got->node];
	uint64_t of = message_works_for(rs, f, got->proc, &(struct token){
	    .label = m->label, .from = sent->from, .serial = sent->serial,
	    .last = sent->last }, sent->at);
	struct kp_wait *v;
	kp_target_ns at;

	if (of == 0) {
		lose(rs, sent->node, KP_LOSS_MAIL_CROSSED);
		return;
	}
	m = msgs_for(rs, of, sent, true);
	if (m == NULL)
		return;
	if (sent->node != got->node && (!f->timed || !t->timed)) {
		lose(rs, sent->node, KP_LOSS_UNRECEIVED);
		return;
	}
	v = grown(rs->messages, m->wait, m->nwaits, &m->room, WAITS_MAX,
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
msgs_add(struct kp_requests *rs, struct msgs *m, const struct pending *p)
{
	struct pending *v = m->pending;

	for (uint32_t i = 0; i < m->n; i++) {
		if (v[i].serial != p->serial || v[i].from != p->from ||
		    v[i].received == p->received)
			continue;
		msgs_pair(rs, m, p->received ? &v[i] : p,
		    p->received ? p : &v[i]);
		v[i] = v[--m->n];
		return;
	}
	v = grown(rs->messages, v, m->n, &m->cap, PENDING_MAX, sizeof(*v));
	if (v != NULL) {
		m->pending = v;
		v[m->n++] = *p;
		return;
	}
	pending_lose(rs, m, p, p->received ? KP_LOSS_UNRECEIVED :
	    KP_LOSS_MAIL_CAP);
	m->full |= !p->received;
}

void
messages_event(struct kp_requests *rs, struct rnode *nd,
    const struct kp_event *ev)
{
	struct pending p = { .proc = pid_key(nd->index, &ev->pid),
		.at = ev->ts, .serial = ev->serial, .last = ev->last,
		.node = (uint8_t)nd->index,
		.received = ev->kind == KP_EV_RECEIVE };
	uint64_t other = node_sender(rs, nd, ev);
	struct msgs *m;

	if (p.proc == 0 || ev->label == 0 || ev->ts >= KP_TARGET_TIME_MAX ||
	    ev->ts <= -KP_TARGET_TIME_MAX) {
		nd->lost.n[KP_LOSS_BAD_EVENT]++;
		return;
	}
	/* The other end is on a node that is not profiled: no pair will come. */
	if (other == 0 && (p.received || ev->has_from))
		return;
	if (kp_label_is_unowned(ev->label))
		return;		/* tiers give none where messages are timed */
	p.from = p.received ? other : p.proc;
	if (!p.received && other != 0)
		message_works_for(rs, nd, other, &(struct token){
		    .label = ev->label, .from = p.proc, .serial = ev->serial,
		    .last = ev->last }, ev->ts);
	m = msgs_for(rs, ev->label, &p, false);
	if (m == NULL)
		return;
	if (p.received && rs->o.on_receiver != NULL &&
	    receivers_add(&rs->messages->receivers, p.proc))
		rs->o.on_receiver(rs->o.ctx, nd->index, p.proc);
	msgs_add(rs, m, &p);
}

/* ---- requests out ---- */

/* The process that began the request may be named so while it has no name. */
static uint32_t
receiver_of(const struct messages *ms, const struct req *rq,
    const struct kp_wait *w)
{
	uint32_t id = receivers_get(&ms->receivers, w->proc);

	return id == KP_RECEIVER_GONE && w->proc == rq->calls[0].c.proc ?
	    KP_RECEIVER_ENTRY : id;
}

void
messages_hand_on(struct kp_requests *rs, const struct req *rq)
{
	struct messages *ms = rs->messages;
	struct msgs *m = msgs_get(ms, rq->r.label);

	ms->out = m;
	if (m == NULL)
		return;
	for (uint32_t i = 0; i < m->n && !rq->spread; i++)
		pending_lose(rs, m, &m->pending[i], KP_LOSS_UNRECEIVED);
	for (uint32_t i = 0; i < m->nwaits; i++)
		m->wait[i].receiver = receiver_of(ms, rq, &m->wait[i]);
	m->n = rq->spread ? m->n : 0;
	m->handed_on = true;
}

static void
msgs_drop_waits(struct kp_requests *rs, struct msgs *m, enum kp_loss cause)
{
	for (uint32_t i = 0; i < m->nwaits && !m->handed_on; i++)
		lose(rs, m->wait[i].from, cause);
	if (rs->messages->out == m)
		rs->messages->out = NULL;
	m->nwaits = 0;
}

/* Counts all of it as lost for this cause, unless it was handed on. */
static void
msgs_drop(struct kp_requests *rs, struct msgs *m, enum kp_loss cause)
{
	for (uint32_t i = 0; i < m->n; i++)
		pending_lose(rs, m, &m->pending[i], cause);
	msgs_drop_waits(rs, m, cause);
	msgs_free(rs->messages, m);
}

void
messages_forget(struct kp_requests *rs, uint64_t label)
{
	struct msgs *m = msgs_get(rs->messages, label);
	const struct tombstone *t = m != NULL && m->n > 0 ?
	    tombs_get(rs, label) : NULL;

	if (t != NULL && t->spread) {
		msgs_drop_waits(rs, m, KP_LOSS_MAIL_GONE);
		early_remove(rs->messages, m);
		early_put(rs->messages, m, m->pending[0].node,
		    m->pending[0].at);
	} else if (m != NULL) {
		msgs_drop(rs, m, KP_LOSS_MAIL_GONE);
	}
}

/*
 * Other requests' messages have the token of a closed one: those that have waited
 * too long are lost.  The others are looked at again after the same time.
 */
static void
msgs_age(struct kp_requests *rs, struct msgs *m, const struct rnode *nd,
    kp_target_ns now)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < m->n; i++) {
		if (now - node_time(rs, m->pending[i].node, nd->index,
		    m->pending[i].at) >= EARLY_AGE)
			pending_lose(rs, m, &m->pending[i], KP_LOSS_MAIL_LATE);
		else
			m->pending[n++] = m->pending[i];
	}
	m->n = n;
	if (n > 0)
		early_put(rs->messages, m, (uint8_t)nd->index, now);
	else
		msgs_drop(rs, m, KP_LOSS_MAIL_LATE);
}

void
messages_expire(struct kp_requests *rs, const struct rnode *nd, kp_target_ns now)
{
	struct messages *ms = rs->messages;
	const struct tombstone *t;
	struct msgs *m;

	while ((m = TAILQ_FIRST(&ms->early[nd->index])) != NULL &&
	    now - m->at >= EARLY_AGE) {
		early_remove(ms, m);
		if (req_get(rs, m->label) != NULL)
			continue;
		t = tombs_get(rs, m->label);
		if (t != NULL && t->spread)
			msgs_age(rs, m, nd, now);
		else
			msgs_drop(rs, m, KP_LOSS_MAIL_LATE);
	}
}

/* Drops what is of this node, since another may get its index and clock. */
static void
msgs_detach(struct kp_requests *rs, struct msgs *m, uint32_t node)
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
messages_detach(struct kp_requests *rs, const struct rnode *nd)
{
	struct messages *ms = rs->messages;
	struct msgs *m;

	while ((m = TAILQ_FIRST(&ms->early[nd->index])) != NULL)
		msgs_drop(rs, m, KP_LOSS_MAIL_GONE);
	for (size_t i = 0; i < ms->by_label.cap; i++)
		if (ms->by_label.slots[i].key != 0)
			msgs_detach(rs, (struct msgs *)(uintptr_t)
			    ms->by_label.slots[i].val, nd->index);
}

/* ---- queries ---- */

const struct kp_wait *
kp_requests_waits(const struct kp_requests *rs, uint32_t *n)
{
	const struct msgs *m = rs->messages != NULL ? rs->messages->out : NULL;

	*n = m != NULL ? m->nwaits : 0;
	return m != NULL ? m->wait : NULL;
}

const char *
kp_requests_receiver(const struct kp_requests *rs, uint32_t id)
{
	return id == KP_RECEIVER_QUEUE ? KP_QUEUE :
	    rs->messages->receivers.name[id];
}

void
kp_requests_name_receiver(struct kp_requests *rs, uint64_t proc,
    struct kp_span name)
{
	if (rs->messages != NULL)
		receivers_name(&rs->messages->receivers, proc, name);
}
