/*
 * otlp_json.c - writes OTLP's JSON span by span and point by point, makes the
 * ids, and parses partial success.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sat.h"
#include "metrics.h"
#include "kprofd/fn_name.h"
#include "otlp_json.h"
#include "text/json.h"
#include "text/text.h"
#include "report/requests.h"

#define SCALE 5		/* 32 buckets an octave */
#define SECONDS(ns) ((double)(ns) / (double)KP_NS_PER_S)

enum { CUMULATIVE = 2 };		/* AggregationTemporality */
enum { KIND_INTERNAL = 1, KIND_SERVER = 2 };
enum { STATUS_UNSET = 0, STATUS_ERROR = 2 };

/* ---- ids ---- */

/* SplitMix64's finalizer: each bit of the result depends on every bit. */
static uint64_t
mix(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* OTLP treats an id of all zeros as invalid. */
static uint64_t
not_zero(uint64_t x)
{
	return x != 0 ? x : 1;
}

void
otlp_trace_id(char id[OTLP_TRACE_ID], kp_wall_ns run, uint64_t label)
{
	uint64_t hi = mix((uint64_t)run);

	snprintf(id, OTLP_TRACE_ID, "%016" PRIx64 "%016" PRIx64, hi,
	    not_zero(mix(hi ^ label)));
}

void
otlp_span_id(char id[OTLP_SPAN_ID], kp_wall_ns run, uint64_t label,
    uint32_t span)
{
	snprintf(id, OTLP_SPAN_ID, "%016" PRIx64,
	    not_zero(mix(mix((uint64_t)run ^ mix(label)) + span)));
}

/* ---- values and attributes ---- */

/* OTLP wants 64 bits as a string: a double cannot hold them all. */
static void
put_uint(struct json *j, const char *key, uint64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, v);
	json_string(j, key, text);
}

static void
put_int(struct json *j, const char *key, int64_t v)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, v);
	json_string(j, key, text);
}

static void
end(struct json *j, unsigned levels)
{
	while (levels-- > 0)
		json_end(j);
}

static void
attr_begin(struct json *j, const char *key)
{
	json_object(j, NULL);
	json_string(j, "key", key);
	json_object(j, "value");
}

static void
attr_text(struct json *j, const char *key, const char *v)
{
	attr_begin(j, key);
	json_string(j, "stringValue", v);
	end(j, 2);
}

static void
attr_int(struct json *j, const char *key, int64_t v)
{
	attr_begin(j, key);
	put_int(j, "intValue", v);
	end(j, 2);
}

static void
attr_true(struct json *j, const char *key)
{
	attr_begin(j, key);
	json_bool(j, "boolValue", true);
	end(j, 2);
}

/* ---- resources ---- */

#define ATTRIBUTE_MAX 256	/* bytes of a name, and of a value */

struct attribute {
	char name[ATTRIBUTE_MAX], value[ATTRIBUTE_MAX];
};

/* Moves *list past the next one.  False: it is not valid. */
static bool
next_attribute(const char **list, struct attribute *a)
{
	const char *p = *list;
	size_t n = strcspn(p, "=,"), k = 0;

	if (n == 0 || n >= ATTRIBUTE_MAX || p[n] != '=')
		return false;
	snprintf(a->name, sizeof(a->name), "%.*s", (int)n, p);
	for (p += n + 1; *p != '\0' && *p != ','; k++) {
		int v = (unsigned char)*p++;

		if (v == '%') {
			v = text_hex(p[0]) < 0 || text_hex(p[1]) < 0 ? 0 :
			    16 * text_hex(p[0]) + text_hex(p[1]);
			p += 2;
		}
		if (v < ' ' || v == 0x7f || k + 1 == sizeof(a->value))
			return false;
		a->value[k] = (char)v;
	}
	a->value[k] = '\0';
	*list = *p == ',' ? p + 1 : p;
	return *p != ',' || p[1] != '\0';
}

bool
otlp_attributes_valid(const char *list)
{
	struct attribute a;

	while (next_attribute(&list, &a))
		if (*list == '\0')
			return true;
	return false;
}

static bool
has_attribute(const char *list, const char *name)
{
	struct attribute a;

	while (list != NULL && *list != '\0' && next_attribute(&list, &a))
		if (strcmp(a.name, name) == 0)
			return true;
	return false;
}

/* Of "app1@host" its 3: of a name like "s3@host" no number is taken away. */
static int
service_length(const char *node)
{
	int whole = (int)strcspn(node, "@"), n = whole;

	while (n > 0 && node[n - 1] >= '0' && node[n - 1] <= '9')
		n--;
	if (n < whole && n > 0 && strchr("-_.", node[n - 1]) != NULL)
		n--;
	return n < 2 ? whole : n;
}

const char *
otlp_service(char buf[OTLP_SERVICE_MAX], const char *attributes, const char *node)
{
	struct attribute a;

	snprintf(buf, OTLP_SERVICE_MAX, "%.*s", service_length(node), node);
	while (attributes != NULL && *attributes != '\0' && next_attribute(&attributes, &a))
		if (strcmp(a.name, "service.name") == 0)
			memcpy(buf, a.value, sizeof(a.value));
	return buf;
}

/* Calls put for each attribute of a node's resource.  otp: its release; 0: not known. */
static void
each_attribute(const char *list, const char *node, int otp,
    void (*put)(void *ctx, const char *name, const char *value), void *ctx)
{
	const char *host = strchr(node, '@');
	char service[OTLP_SERVICE_MAX], release[16];
	const char *const own[][2] = {
		{ "service.name", otlp_service(service, NULL, node) },
		{ "service.instance.id", node },
		{ "host.name", host != NULL ? host + 1 : "" },
		{ "process.runtime.name", "BEAM" },
		{ "process.runtime.version", otp > 0 ? release : "" },
		{ "telemetry.sdk.name", "kprofd" },
		{ "telemetry.sdk.language", "erlang" },
		{ "telemetry.sdk.version", KP_VERSION },
	};
	struct attribute a;

	snprintf(release, sizeof(release), "%d", otp);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		if (own[i][1][0] != '\0' && !has_attribute(list, own[i][0]))
			put(ctx, own[i][0], own[i][1]);
	while (list != NULL && *list != '\0' && next_attribute(&list, &a))
		put(ctx, a.name, a.value);
}

static void
put_attribute(void *ctx, const char *name, const char *value)
{
	attr_text(ctx, name, value);
}

/* As protobuf: a KeyValue, whose value is an AnyValue. */
static void
put_key_value(void *ctx, const char *name, const char *value)
{
	struct kp_buf pair, any, text;

	/* a byte that is shown becomes eight at most */
	kp_buf_init(&pair, 20 * ATTRIBUTE_MAX);
	kp_buf_init(&any, 10 * ATTRIBUTE_MAX);
	kp_buf_init(&text, 10 * ATTRIBUTE_MAX);
	text_put(&text, name);
	kp_buf_pb_bytes(&pair, 1, text.p, text.len);
	kp_buf_reset(&text);
	text_put(&text, value);
	kp_buf_pb_bytes(&any, 1, text.p, text.len);
	kp_buf_pb_bytes(&pair, 2, any.p, any.len);
	kp_buf_pb_bytes(ctx, 1, pair.p, pair.len);
	if (text.err != KP_OK || any.err != KP_OK || pair.err != KP_OK)
		((struct kp_buf *)ctx)->err = KP_ENOMEM;
	kp_buf_free(&pair);
	kp_buf_free(&any);
	kp_buf_free(&text);
}

static int
otp_of(const struct otlp_about *about, const char *node)
{
	return about != NULL && about->totals != NULL ? totals_otp(about->totals, node) : 0;
}

void
otlp_resource(struct kp_buf *b, const struct otlp_about *about, const char *node)
{
	each_attribute(about->attributes, node, otp_of(about, node), put_key_value, b);
}

#define RESOURCE_LEVELS 4

/* Opens the node's resource and scope, up to the array `what`. */
static void
begin_resource(struct json *j, const char *list, const char *node, int otp,
    const char *scopes, const char *what)
{
	json_object(j, NULL);
	json_object(j, "resource");
	json_array(j, "attributes");
	each_attribute(list, node, otp, put_attribute, j);
	end(j, 2);
	json_array(j, scopes);
	json_object(j, NULL);
	json_object(j, "scope");
	json_string(j, "name", "kprofd");
	json_string(j, "version", KP_VERSION);
	json_end(j);
	json_array(j, what);
}

/* ---- traces ---- */

struct tracing {
	struct json j;
	const struct otlp_about *about;	/* may be NULL */
	const struct kp_query_tree *tree;
	size_t spans;
};

/* What was raised is not stored: "_OTHER" is the conventions' word for that. */
static void
put_outcome(struct json *j, uint8_t outcome)
{
	if (outcome < KP_OUTCOMES)
		attr_text(j, "kprof.outcome",
		    kp_outcome_name((enum kp_outcome)outcome));
	if (outcome == KP_RAISED)
		attr_text(j, "error.type", "_OTHER");
}

/* The trace that the request is in: the application's, if that is known. */
static void
trace_of(char id[OTLP_TRACE_ID], const struct kp_query_tree *t, const char *traceparent,
    uint64_t label)
{
	if (traceparent != NULL)
		snprintf(id, OTLP_TRACE_ID, "%.*s", KP_TRACE_ID_LEN,
		    traceparent + KP_TRACE_ID_AT);
	else
		otlp_trace_id(id, t->run, label);
}

/* Opens a span, up to its attributes.  total -1, no end: its length is 0. */
static void
begin_span(struct tracing *t, uint32_t span, const char *name, int kind,
    kp_wall_ns start, kp_dur_ns total)
{
	uint64_t label = t->tree->request.label;
	char trace[OTLP_TRACE_ID], id[OTLP_SPAN_ID];

	trace_of(trace, t->tree, t->tree->request.traceparent, label);
	otlp_span_id(id, t->tree->run, label, span);
	json_object(&t->j, NULL);
	json_string(&t->j, "traceId", trace);
	json_string(&t->j, "spanId", id);
	json_string(&t->j, "name", name);
	json_int(&t->j, "kind", kind);
	put_int(&t->j, "startTimeUnixNano", start);
	put_int(&t->j, "endTimeUnixNano", sat_add(start, total > 0 ? total : 0));
	t->spans++;
}

static void
end_span(struct tracing *t, uint8_t outcome)
{
	json_object(&t->j, "status");
	json_int(&t->j, "code", outcome == KP_RAISED ? STATUS_ERROR :
	    STATUS_UNSET);
	end(&t->j, 2);
}

/*
 * A link to the request that this one was started inside.  If that is not stored, it is
 * taken to be in the same trace.
 */
static void
put_link(struct tracing *t, uint64_t label)
{
	char trace[OTLP_TRACE_ID], id[OTLP_SPAN_ID];

	if (label == 0)
		return;
	trace_of(trace, t->tree, t->tree->outer.id != 0 ? t->tree->outer.traceparent :
	    t->tree->request.traceparent, label);
	otlp_span_id(id, t->tree->run, label, 0);
	json_array(&t->j, "links");
	json_object(&t->j, NULL);
	json_string(&t->j, "traceId", trace);
	json_string(&t->j, "spanId", id);
	end(&t->j, 2);
}

/* The application's span, around the root span. */
static void
put_parent(struct tracing *t, const char *traceparent)
{
	char id[OTLP_SPAN_ID];

	if (traceparent == NULL)
		return;
	snprintf(id, sizeof(id), "%.16s", traceparent + KP_TRACE_SPAN_AT);
	json_string(&t->j, "parentSpanId", id);
	json_int(&t->j, "flags", kp_traceparent_sampled(traceparent));
}

/* As semantic conventions name a function, "MyApp.Repo.all", and its call's label. */
static void
put_function(struct json *j, const char *fn)
{
	char name[FN_NAME_MAX], shown[FN_NAME_MAX];
	const char *arity, *label = fn_label(fn, &arity);
	char *text, *slash;

	if (label == NULL)
		return;
	snprintf(name, sizeof(name), "%.*s", (int)(label - fn), fn);
	text = fn_shown(shown, sizeof(shown), name) == shown ? shown : name;
	slash = strrchr(text, '/');
	if (slash != NULL)
		*slash = '\0';
	attr_text(j, "code.function.name", text);
	if (*label == '\0')
		return;
	snprintf(name, sizeof(name), "%.*s", (int)strlen(label) - 3, label + 2);
	attr_text(j, "kprof.label", name);
}

/* Is the first call that of the entry, in which the request began? */
static bool
has_entry(const struct kp_query_tree *tree)
{
	const struct kp_query_call *c = &tree->calls[0];

	return tree->ncalls > 0 && c->parent == KP_NONE && c->start == 0 &&
	    !c->async && c->node[0] == '\0';
}

/* The attributes of a call, but for how it ended. */
static void
put_what(struct tracing *t, const struct kp_query_call *c)
{
	if (c->tier[0] != '\0')
		attr_text(&t->j, "kprof.tier", c->tier);
	put_function(&t->j, c->fn);
	attr_text(&t->j, "kprof.pid", c->pid);
	if (c->self >= 0)
		attr_int(&t->j, "kprof.self_ns", c->self);
	if (c->pauses.gc >= 0)
		attr_int(&t->j, "kprof.gc_ns", c->pauses.gc);
	if (c->pauses.out >= 0)
		attr_int(&t->j, "kprof.out_ns", c->pauses.out);
}

static void
put_request(struct tracing *t)
{
	const struct kp_query_request *rq = &t->tree->request;

	begin_span(t, 0, rq->identity, KIND_SERVER, rq->start, rq->total);
	put_parent(t, rq->traceparent);
	json_array(&t->j, "attributes");
	attr_text(&t->j, "kprof.identity", rq->identity);
	attr_int(&t->j, "kprof.weight", rq->weight);
	attr_int(&t->j, "kprof.request", rq->id);
	if (has_entry(t->tree))
		put_what(t, &t->tree->calls[0]);
	put_outcome(&t->j, rq->outcome);
	json_end(&t->j);
	put_link(t, rq->parent_label);
	end_span(t, rq->outcome);
}

/* The span of a call: the request's own, of its entry's. */
static uint32_t
span_of(const struct tracing *t, uint32_t call)
{
	return call == KP_NONE || (call == 0 && has_entry(t->tree)) ? 0 : call + 1;
}

static void
put_call(struct tracing *t, uint32_t i)
{
	const struct kp_query_call *c = &t->tree->calls[i];
	const struct kp_query_request *rq = &t->tree->request;
	char parent[OTLP_SPAN_ID];
	kp_dur_ns after;

	begin_span(t, i + 1, c->fn, KIND_INTERNAL, sat_add(rq->start, c->start),
	    c->total);
	otlp_span_id(parent, t->tree->run, rq->label, span_of(t, c->parent));
	json_string(&t->j, "parentSpanId", parent);
	json_array(&t->j, "attributes");
	put_what(t, c);
	if (c->async)
		attr_true(&t->j, "kprof.async");
	after = request_time_after(rq, c);
	if (after > 0 && i > 0)
		attr_int(&t->j, "kprof.after_ns", after);
	/* a call that was still running has no outcome */
	if (c->outlasts)
		attr_true(&t->j, "kprof.outlasts");
	else
		put_outcome(&t->j, c->outcome);
	json_end(&t->j);
	end_span(t, c->outcome);
}

static const char *
node_of(const struct kp_query_tree *tree, size_t i)
{
	const char *node = tree->calls[i].node;

	return node[0] != '\0' ? node : tree->request.node;
}

/* Is call i the first on its node, and that not the request's? */
static bool
is_new_node(const struct kp_query_tree *tree, size_t i)
{
	const char *node = node_of(tree, i);

	if (strcmp(node, tree->request.node) == 0)
		return false;
	for (size_t k = 0; k < i; k++)
		if (strcmp(node, node_of(tree, k)) == 0)
			return false;
	return true;
}

/* The spans of the request on this node. */
static void
put_node(struct tracing *t, const char *node)
{
	begin_resource(&t->j, t->about != NULL ? t->about->attributes : NULL, node,
	    otp_of(t->about, node), "scopeSpans", "spans");
	if (strcmp(node, t->tree->request.node) == 0)
		put_request(t);
	for (size_t i = 0; i < t->tree->ncalls; i++)
		if (strcmp(node, node_of(t->tree, i)) == 0 &&
		    span_of(t, (uint32_t)i) > 0)
			put_call(t, (uint32_t)i);
	end(&t->j, RESOURCE_LEVELS);
}

size_t
otlp_traces(struct kp_buf *b, const struct otlp_about *about,
    const struct kp_query_tree *trees, size_t n)
{
	struct tracing t = { .about = about };

	json_open(&t.j, b);
	json_array(&t.j, "resourceSpans");
	for (size_t i = 0; i < n; i++) {
		t.tree = &trees[i];
		put_node(&t, t.tree->request.node);
		for (size_t k = 0; k < t.tree->ncalls; k++)
			if (is_new_node(t.tree, k))
				put_node(&t, node_of(t.tree, k));
	}
	end(&t.j, 2);
	return t.spans;
}

/* ---- metrics ---- */

struct metering {
	struct json j;
	const char *attributes;		/* of all resources */
	const struct totals *t;
	size_t node, points;
};

static void
begin_metric(struct metering *m, const char *name, const char *unit,
    const char *help, const char *kind)
{
	json_object(&m->j, NULL);
	json_string(&m->j, "name", name);
	json_string(&m->j, "unit", unit);
	json_string(&m->j, "description", help);
	json_object(&m->j, kind);
	if (strcmp(kind, "gauge") != 0)
		json_int(&m->j, "aggregationTemporality", CUMULATIVE);
	if (strcmp(kind, "sum") == 0)
		json_bool(&m->j, "isMonotonic", true);
	json_array(&m->j, "dataPoints");
}

static void
end_metric(struct metering *m)
{
	end(&m->j, 3);
}

/* Opens a point, with its times and those attributes whose value is not NULL. */
static void
begin_point(struct metering *m, const char *tier, const char *identity,
    const char *more, const char *value)
{
	const struct total_node *n = totals_node(m->t, m->node);

	json_object(&m->j, NULL);
	put_int(&m->j, "startTimeUnixNano", n->first);
	put_int(&m->j, "timeUnixNano", n->last);
	json_array(&m->j, "attributes");
	if (tier != NULL)
		attr_text(&m->j, "kprof.tier", tier);
	if (identity != NULL)
		attr_text(&m->j, "kprof.identity", identity);
	if (value != NULL)
		attr_text(&m->j, more, value);
	json_end(&m->j);
	m->points++;
}

static void
put_hist(struct metering *m, const struct total *c)
{
	const struct kp_hist *h = &c->hist;
	uint32_t first = 0, past = h->len;

	while (first < past && h->n[first] == 0)
		first++;
	while (past > first && h->n[past - 1] == 0)
		past--;
	put_uint(&m->j, "count", h->count);
	json_double(&m->j, "sum", SECONDS(c->time));
	json_int(&m->j, "scale", SCALE);
	put_uint(&m->j, "zeroCount", 0);
	json_object(&m->j, "positive");
	json_int(&m->j, "offset", first < past ? h->lo + (int32_t)first : 0);
	json_array(&m->j, "bucketCounts");
	for (; first < past; first++)
		put_uint(&m->j, NULL, h->n[first]);
	end(&m->j, 3);
}

static void
put_family(struct metering *m, const struct cell_family *f)
{
	bool hist = f->m.type == METRIC_HISTOGRAM;
	struct totals_cell at = { NULL };
	double v;

	begin_metric(m, f->otlp, f->unit, f->help != NULL ? f->help : f->m.help,
	    hist ? "exponentialHistogram" : "sum");
	while (totals_next(m->t, m->node, metric_has_label(&f->m, "tier"),
	    metric_has_label(&f->m, "identity"), &at)) {
		if (hist) {
			begin_point(m, at.tier, at.identity, NULL, NULL);
			put_hist(m, at.c);
		} else if (f->get != NULL) {
			begin_point(m, at.tier, at.identity, NULL, NULL);
			json_double(&m->j, "asDouble", f->get(at.c));
			json_end(&m->j);
		}
		for (int i = 0; !hist && f->get == NULL &&
		     i < REQUEST_OUTCOMES; i++) {
			v = request_outcomes[i].get(at.c);
			if (v < 0)
				continue;
			begin_point(m, at.tier, at.identity, "kprof.outcome",
			    request_outcomes[i].name);
			put_uint(&m->j, "asInt", (uint64_t)v);
			json_end(&m->j);
		}
	}
	end_metric(m);
}

static void
put_lost(struct metering *m)
{
	const struct total_node *n = totals_node(m->t, m->node);

	for (const struct lost_unit *u = lost_units; u < lost_units + LOST_UNITS; u++) {
		begin_metric(m, u->otlp, u->otlp_unit, u->m.help, "sum");
		for (int i = 0; i < KP_LOSS_COUNT; i++) {
			if (strcmp(kp_loss_unit(i), u->unit) != 0)
				continue;
			begin_point(m, NULL, NULL, "kprof.cause",
			    kp_loss_name(i));
			put_uint(&m->j, "asInt", n->lost.n[i]);
			json_end(&m->j);
		}
		end_metric(m);
	}
}

static void
put_usage(struct metering *m, const struct usage_family *f)
{
	const struct kp_usage *u = totals_node(m->t, m->node)->usage;
	const struct kp_usage_row *r;

	if (u == NULL)
		return;
	begin_metric(m, f->otlp, f->unit, f->m.help, "gauge");
	for (size_t i = 0; i < u->n; i++) {
		r = &u->rows[i];
		if (r->kind != f->kind || f->get(r) < 0)
			continue;
		json_object(&m->j, NULL);
		put_int(&m->j, "timeUnixNano",
		    totals_node(m->t, m->node)->seen);
		json_array(&m->j, "attributes");
		for (int k = 1; k < METRIC_LABELS_MAX &&
		     f->m.labels[k] != NULL; k++) {
			char key[64];

			snprintf(key, sizeof(key), "kprof.%s", f->m.labels[k]);
			attr_text(&m->j, key, k == 1 ? r->name : r->owner);
		}
		json_end(&m->j);
		put_int(&m->j, "asInt", f->get(r));
		json_end(&m->j);
		m->points++;
	}
	end_metric(m);
}

size_t
otlp_metrics(struct kp_buf *b, const char *attributes, const struct totals *t,
    size_t node)
{
	struct metering m = { .attributes = attributes, .t = t, .node = node };

	if (totals_node(t, node) == NULL)
		return 0;
	json_open(&m.j, b);
	json_array(&m.j, "resourceMetrics");
	begin_resource(&m.j, attributes, totals_name(t, TOTALS_NODE, node),
	    totals_node(t, node)->otp, "scopeMetrics", "metrics");
	/* histograms first */
	for (int hist = 1; hist >= 0; hist--)
		for (int i = 0; i < CELL_FAMILIES; i++)
			if (cell_families[i].otlp != NULL && hist ==
			    (cell_families[i].m.type == METRIC_HISTOGRAM))
				put_family(&m, &cell_families[i]);
	for (int i = 0; i < USAGE_FAMILIES; i++)
		put_usage(&m, &usage_families[i]);
	put_lost(&m);
	end(&m.j, RESOURCE_LEVELS + 2);
	return m.points;
}

/* ---- partial success ---- */

uint64_t
otlp_refused(const char *answer, size_t n, bool traces, uint64_t sent)
{
	const char *key = traces ? "\"rejectedSpans\"" :
	    "\"rejectedDataPoints\"";
	const char *past = answer + n;
	const char *p = n > 0 ? memmem(answer, n, key, strlen(key)) : NULL;
	uint64_t refused = 0;

	if (p == NULL)
		return 0;
	p += strlen(key);
	/* a number, or a number as a string */
	while (p < past && (*p == '"' || *p == ':' || *p == ' '))
		p++;
	for (; p < past && *p >= '0' && *p <= '9' && refused < sent; p++)
		refused = 10 * refused + (uint64_t)(*p - '0');
	return refused < sent ? refused : sent;
}

/* The next field of a message, a number or bytes.  0: there is none, or it is neither. */
static unsigned
next_field(struct kp_bytes *in, uint64_t *number, struct kp_bytes *bytes)
{
	uint64_t tag = kp_bytes_varint(in);

	*number = kp_bytes_varint(in);
	*bytes = (struct kp_bytes){ .err = KP_OK };
	if (in->err != KP_OK || tag >> 3 > UINT16_MAX || ((tag & 7) != 0 && (tag & 7) != 2))
		return 0;
	if ((tag & 7) == 2) {
		if (*number > (uint64_t)(in->end - in->p))
			return 0;
		*bytes = (struct kp_bytes){ .p = in->p, .end = in->p + *number };
		in->p += *number;
	}
	return (unsigned)(tag >> 3);
}

uint64_t
otlp_refused_profiles(const char *answer, size_t n, const char **why, size_t *nwhy)
{
	struct kp_bytes in = { .p = (const uint8_t *)answer,
		.end = (const uint8_t *)answer + n }, part, text = { .p = NULL }, inner_text;
	uint64_t number, refused = 0;
	unsigned field, inner;

	while (in.p < in.end && (field = next_field(&in, &number, &part)) != 0) {
		if (field == 2)		/* of an error, the message */
			text = part;
		while (field == 1 && part.p < part.end &&
		    (inner = next_field(&part, &number, &inner_text)) != 0) {
			if (inner == 1)
				refused = number;
			else if (inner == 2)
				text = inner_text;
		}
	}
	*why = (const char *)text.p;
	*nwhy = text.p != NULL ? (size_t)(text.end - text.p) : 0;
	return refused;
}
