/*
 * profiles.c - keeps for each node up to when its windows were sent, and writes the
 * stacks of the next ones.
 *
 * The windows of a node are stored one after the other: all that begin before the end of
 * the last one are there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "base/map.h"
#include "base/sat.h"
#include "base/vec.h"
#include "export/profiles.h"
#include "kprofd/nodes.h"
#include "stacks/stored/stored_stacks.h"
#include "text/json.h"
#include "text/pprof.h"

#define ONE_AT_LEAST (60 * KP_NS_PER_S)	/* that one profile may cover */
#define BODY_ENOUGH (1u << 20)		/* bytes; other nodes come next time */
#define ROWS_MAX 10000			/* Pyroscope takes 16000 samples */
#define NODES_MAX 4096
#define UNREAD_MAX 3			/* failed reads before windows are given up */

struct sent_node {
	char *node;		/* owned */
	kp_wall_ns sent;	/* up to then */
	kp_wall_ns end;		/* of the windows in the body; 0: there are none */
	unsigned unread;	/* failed reads of the next ones */
	bool there;		/* it has windows of late */
};

void
profiles_init(struct profiles *p, bool otlp, const struct otlp_about *about,
    kp_wall_ns since, kp_dur_ns interval, const struct kp_retain *retain)
{
	kp_dur_ns unit = interval;

	*p = (struct profiles){ .otlp = otlp, .about = *about, .since = since,
		.whole = 1, .behind = PROFILES_BEHIND };
	if (retain->n > 0)
		p->whole = retain->step[0].length;
	if (p->whole > unit)
		unit = p->whole;
	/* one that has just ended began so long ago */
	if (p->behind < 2 * unit)
		p->behind = 2 * unit;
	/* windows are joined to longer ones when the last of these is so old */
	if (retain->n > 0 && p->behind > retain->step[0].age + p->whole)
		p->behind = retain->step[0].age + p->whole;
}

void
profiles_free(struct profiles *p)
{
	for (size_t i = 0; i < p->n; i++)
		free(p->v[i].node);
	free(p->v);
	p->v = NULL;
	p->n = 0;
}

/* ---- the body ---- */

static void
label(struct json *j, const char *name, const char *value)
{
	json_object(j, NULL);
	json_string(j, "name", name);
	json_string(j, "value", value);
	json_end(j);
}

/* The same if these windows are sent by another kprofd.  Never zero. */
static void
make_id(uint64_t id[2], const char *node, const struct stacks *s)
{
	char key[KP_NODE_NAME_MAX + 1 + 48];
	int n = snprintf(key, sizeof(key), "%s %" PRId64 " %" PRId64, node, s->start,
	    s->end);

	id[0] = intern_hash(key, (size_t)n) | 1;
	id[1] = intern_hash(key + 1, (size_t)n - 1);
}

/* A UUID. */
static void
put_id(struct json *j, const char *node, const struct stacks *s)
{
	uint64_t id[2];
	char text[40];

	make_id(id, node, s);
	snprintf(text, sizeof(text), "%08" PRIx64 "-%04" PRIx64 "-8%03" PRIx64 "-8%03" PRIx64
	    "-%012" PRIx64, id[0] >> 32, id[0] >> 16 & 0xffff, id[0] & 0xfff, id[1] >> 52,
	    id[1] & UINT64_C(0xffffffffffff));
	json_string(j, "ID", text);
}

static void
put_base64(struct json *j, const char *key, const struct kp_buf *bytes)
{
	char *text = malloc(4 * (bytes->len / 3 + 1) + 1);

	if (text == NULL) {
		j->b->err = KP_ENOMEM;
		return;
	}
	json_string_n(j, key, text, (size_t)EVP_EncodeBlock((unsigned char *)text,
	    bytes->p, (int)bytes->len));
	free(text);
}

/* The body is of one node, as OpenTelemetry's dictionary is.  False as of put_series(). */
static bool
put_otlp(struct kp_buf *b, const char *node, const struct otlp_about *about,
    const struct stacks *s)
{
	struct kp_buf resource;
	struct pprof_otlp o = { .resource = &resource };
	uint64_t id[2];

	make_id(id, node, s);
	memcpy(o.id, id, sizeof(o.id));
	kp_buf_init(&resource, b->max);
	otlp_resource(&resource, about, node);
	if (stacks_pprof(b, s, &o) == KP_OK)
		b->err = resource.err;
	kp_buf_free(&resource);
	if (b->err == KP_OK)
		return true;
	kp_buf_reset(b);
	return false;
}

/* False: out of memory, or the body gets too large; it is as it was then. */
static bool
put_series(struct json *j, const char *node, const struct otlp_about *about,
    const struct stacks *s)
{
	char service[OTLP_SERVICE_MAX];
	struct json before = *j;
	size_t len = j->b->len;
	struct kp_buf pprof;

	kp_buf_init(&pprof, j->b->max);
	if (stacks_pprof(&pprof, s, NULL) != KP_OK) {
		kp_buf_free(&pprof);
		return false;
	}
	json_object(j, NULL);
	json_array(j, "labels");
	label(j, "__name__", "wall");
	label(j, "service_name", otlp_service(service, about->attributes, node));
	label(j, "node", node);
	json_end(j);
	json_array(j, "samples");
	json_object(j, NULL);
	put_id(j, node, s);
	put_base64(j, "rawProfile", &pprof);
	json_end(j);
	json_end(j);
	json_end(j);
	kp_buf_free(&pprof);
	if (j->b->err == KP_OK)
		return true;
	*j = before;
	j->b->len = len;
	j->b->err = KP_OK;
	return false;
}

/* ---- windows ---- */

/* Of a node; NULL: out of memory, or too many. */
static struct sent_node *
node_of(struct profiles *p, const char *node, kp_wall_ns since)
{
	char *name;

	for (size_t i = 0; i < p->n; i++)
		if (strcmp(p->v[i].node, node) == 0)
			return &p->v[i];
	if (vec_room_by_len(&p->v, p->n, NODES_MAX) != KP_OK ||
	    (name = strdup(node)) == NULL)
		return NULL;
	p->v[p->n] = (struct sent_node){ .node = name, .sent = since };
	return &p->v[p->n++];
}

static kp_dur_ns
covered(struct kp_query *q, const struct kp_query_range *r)
{
	struct kp_query_sum cover = { .covered = 0 };
	kp_dur_ns time = 0;

	if (r->since < r->until && kp_query_cover(q, r, &cover) == KP_OK) {
		time = cover.covered;
		kp_query_sum_free(&cover);
	}
	return time;
}

/* The end of the windows to send; 0: there are none yet. */
static enum kp_err
next_end(struct kp_query *q, const struct profiles *p, const struct kp_query_range *r,
    kp_wall_ns *end)
{
	kp_dur_ns one = p->whole > ONE_AT_LEAST ? p->whole : ONE_AT_LEAST;
	struct kp_query_sum cover = { .windows = 0 };
	enum kp_err err = kp_query_cover(q, r, &cover);

	*end = 0;
	if (err != KP_OK || cover.windows == 0)
		return err;
	*end = cover.end;
	/* what is missing of the last of a node that has gone does not come any more */
	if (!p->ending && r->until - *end < 2 * one)
		*end -= *end % p->whole;
	if (*end - cover.start > one)
		*end = cover.start + one - (cover.start + one) % p->whole;
	if (*end <= cover.start)
		*end = 0;
	return KP_OK;
}

/* Gives up windows; what is read next is what follows. */
static void
give_up(struct kp_query *q, struct sent_node *of, kp_wall_ns until, kp_dur_ns *lost)
{
	const struct kp_query_range r = { .since = of->sent, .until = until,
		.node = of->node, .exact = true };

	*lost = sat_add(*lost, covered(q, &r));
	of->sent = until;
	of->unread = 0;
}

/*
 * Finds the nodes that have windows of late.  Those without may come back as others, and
 * what they have left is given up.
 */
static enum kp_err
find_nodes(struct profiles *p, struct kp_query *q, kp_wall_ns now, kp_dur_ns *lost)
{
	/* somewhat longer: what is given up is counted */
	struct kp_query_range r = { .since = now - p->behind - ONE_AT_LEAST, .until = now,
		.exact = true };
	struct kp_query_nodes nodes;
	struct sent_node *of;
	enum kp_err err;
	size_t n = 0;

	if (p->since > now)
		p->since = now;
	if (r.since < p->since)
		r.since = p->since;
	err = kp_query_nodes(q, &r, &nodes);
	if (err != KP_OK)
		return err;
	for (size_t i = 0; i < p->n; i++)
		p->v[i].there = false;
	for (size_t i = 0; i < nodes.n; i++) {
		of = node_of(p, nodes.v[i], r.since);
		if (of != NULL)
			of->there = true;
	}
	kp_query_nodes_free(&nodes);
	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].there) {
			p->v[n++] = p->v[i];
			continue;
		}
		give_up(q, &p->v[i], now, lost);
		free(p->v[i].node);
	}
	p->n = n;
	return KP_OK;
}

/* Reads the next stacks of the node, past windows without any; NULL: there are none. */
static struct stacks *
next_stacks(struct kp_query *q, const struct profiles *p, struct sent_node *of,
    kp_wall_ns now, kp_wall_ns *end, enum kp_err *err)
{
	struct kp_query_range r = { .node = of->node, .exact = true };
	struct stacks *s;

	for (;; of->sent = *end) {
		r.since = of->sent;
		r.until = now;
		*err = next_end(q, p, &r, end);
		if (*err != KP_OK || *end == 0)
			return NULL;
		r.until = *end;
		*err = stacks_from_db(q, &r, ROWS_MAX, &s);
		if (*err != KP_OK)
			return NULL;
		if (s->stacks.samples > 0)
			return s;
		stacks_free(s);
	}
}

/* Returns whether a profile was written.  *err: of the database. */
static bool
put_node(struct json *j, struct kp_query *q, const struct profiles *p,
    struct sent_node *of, kp_wall_ns now, kp_dur_ns *lost, enum kp_err *err)
{
	struct stacks *s;
	kp_wall_ns end;
	bool put;

	if (of->sent > now)	/* the clock was set back */
		of->sent = now;
	if (of->sent < now - p->behind)
		give_up(q, of, now - p->behind, lost);
	s = next_stacks(q, p, of, now, &end, err);
	if (*err == KP_OK)
		of->unread = 0;
	else if (++of->unread >= UNREAD_MAX && end > 0)
		give_up(q, of, end, lost);
	if (s == NULL)
		return false;
	put = p->otlp ? put_otlp(j->b, of->node, &p->about, s) :
	    put_series(j, of->node, &p->about, s);
	if (put)
		of->end = end;
	else
		give_up(q, of, end, lost);
	stacks_free(s);
	return put;
}

size_t
profiles_put(struct kp_buf *b, struct kp_query *q, struct profiles *p,
    kp_wall_ns now, kp_dur_ns *lost)
{
	struct sent_node *of;
	enum kp_err err;
	size_t put = 0;
	struct json j;

	kp_query_hold(q);
	if (find_nodes(p, q, now, lost) != KP_OK) {
		kp_query_release(q);
		return 0;
	}
	for (size_t i = 0; i < p->n; i++)
		p->v[i].end = 0;
	j.b = b;
	if (!p->otlp) {
		json_open(&j, b);
		json_array(&j, "series");
	}
	/* after an error others come first, since the time to read is limited */
	err = KP_OK;
	for (size_t i = 0; i < p->n && err == KP_OK && b->len < (p->otlp ? 1 : BODY_ENOUGH);
	     i++) {
		of = &p->v[p->turn++ % p->n];
		put += put_node(&j, q, p, of, now, lost, &err);
	}
	if (!p->otlp) {
		json_end(&j);
		json_close(&j);
	}
	kp_query_release(q);
	return b->err == KP_OK ? put : 0;
}

void
profiles_sent(struct profiles *p)
{
	for (size_t i = 0; i < p->n; i++) {
		if (p->v[i].end > 0)
			p->v[i].sent = p->v[i].end;
		p->v[i].end = 0;
	}
}

bool
profiles_stale(const struct profiles *p, kp_wall_ns now)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].end > 0 && p->v[i].sent < now - p->behind)
			return true;
	return false;
}

kp_dur_ns
profiles_left(struct kp_query *q, struct profiles *p, kp_wall_ns now, kp_dur_ns *lost)
{
	struct kp_query_sum cover;
	kp_dur_ns left = 0;

	kp_query_hold(q);
	if (find_nodes(p, q, now, lost) != KP_OK)
		left = -1;
	for (size_t i = 0; i < p->n && left >= 0; i++) {
		if (kp_query_cover(q, &(struct kp_query_range){ .since = p->v[i].sent,
		    .until = now, .node = p->v[i].node, .exact = true }, &cover) != KP_OK) {
			left = -1;
			break;
		}
		left = sat_add(left, cover.covered);
		kp_query_sum_free(&cover);
	}
	kp_query_release(q);
	return left;
}
