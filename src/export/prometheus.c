/*
 * prometheus.c - chooses a format by the Accept header, and writes the two text
 * formats and the protobuf one.
 *
 * A protobuf message is preceded by its length, also where it is nested: so each
 * depth has a buffer: part (a label, a bucket), metric, family.  The numbers of
 * fields are those of prometheus/client_model, io/prometheus/client/metrics.proto.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prometheus.h"
#include "text/accept.h"

#define SCHEMA 5		/* of native histograms: 32 buckets an octave */
#define ZERO_THRESHOLD 2.938735877055719e-39	/* 2^-128 s, client_golang's */
#define GAP_MAX 2		/* empty buckets that are cheaper than a span */

enum { FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4 };
enum { METRIC_LABEL = 1, METRIC_IS_GAUGE = 2, METRIC_IS_COUNTER = 3,
	METRIC_IS_HISTOGRAM = 7 };
enum { LABEL_NAME = 1, LABEL_VALUE = 2 };
enum { BUCKET_EXEMPLAR = 3 };
enum { HIST_COUNT = 1, HIST_SUM = 2, HIST_BUCKET = 3, HIST_SCHEMA = 5,
	HIST_ZERO_THRESHOLD = 6, HIST_SPAN = 12, HIST_DELTA = 13 };

const char *
prom_double(char text[PROM_NUMBER_MAX], double v)
{
	if (isinf(v))
		return v > 0 ? "+Inf" : "-Inf";
	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, PROM_NUMBER_MAX, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}
	return text;
}

double
prom_bound(size_t i)
{
	static const unsigned short steps[] = { 100, 150, 200, 250, 350, 500, 750 };
	size_t n = sizeof(steps) / sizeof(steps[0]);
	double us = steps[i % n];

	for (i /= n; i > 0; i--)
		us *= 10;
	return us / 1e6;
}

void
prom_cumulate(const struct kp_hist *h, uint64_t n[PROM_BOUNDS])
{
	uint64_t low, high;

	for (size_t i = 0; i < PROM_BOUNDS; i++)
		n[i] = (uint64_t)kp_hist_within(h, (kp_dur_ns)llround(
		    prom_bound(i) * 1e9), &low, &high);
}

/* ---- the choice of the format ---- */

/* False: the element names none of the formats. */
static bool
element_format(const char *p, size_t n, enum prom_format *f)
{
	if (accept_has(p, n, "application/openmetrics-text"))
		*f = PROM_OPENMETRICS;
	else if (accept_has(p, n, "application/vnd.google.protobuf") &&
	    accept_has(p, n, "proto=io.prometheus.client.MetricFamily") &&
	    accept_has(p, n, "encoding=delimited"))
		*f = PROM_PROTOBUF;
	else if (accept_has(p, n, "text/plain") || accept_has(p, n, "text/*") ||
	    accept_has(p, n, "*/*"))
		*f = PROM_TEXT;
	else
		return false;
	return true;
}

enum prom_format
prom_choose(const char *accept)
{
	enum prom_format f, best = PROM_TEXT;
	double q, best_q = 0;
	size_t n;

	for (const char *p = accept; p != NULL && *p != '\0';
	    p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		if (!element_format(p, n, &f))
			continue;
		q = accept_quality(p, n);
		/* of two equal ones the more expressive */
		if (q > best_q || (q > 0 && q == best_q && f > best)) {
			best = f;
			best_q = q;
		}
	}
	return best;
}

const char *
prom_content_type(enum prom_format f)
{
	static const char *const types[] = {
		[PROM_TEXT] = "text/plain; version=0.0.4; charset=utf-8",
		[PROM_OPENMETRICS] = "application/openmetrics-text; "
		    "version=1.0.0; charset=utf-8",
		[PROM_PROTOBUF] = "application/vnd.google.protobuf; "
		    "proto=io.prometheus.client.MetricFamily; "
		    "encoding=delimited",
	};

	return types[f];
}

/* ---- the text formats ---- */

static const char *
unit_of(const struct metric *m)
{
	static const char *const units[] = { "seconds", "bytes", "ratio" };
	size_t n = strlen(m->name), len;

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		len = strlen(units[i]);
		if (n > len && m->name[n - len - 1] == '_' &&
		    strcmp(m->name + n - len, units[i]) == 0)
			return units[i];
	}
	return NULL;
}

static void
put_escaped(struct kp_buf *b, const char *s)
{
	for (; *s != '\0'; s++) {
		if (*s == '\n')
			kp_buf_str(b, "\\n");
		else if (*s == '\\' || *s == '"')
			kp_buf_printf(b, "\\%c", *s);
		else
			kp_buf_u8(b, (uint8_t)*s);
	}
}

static void
text_family(struct prom *x)
{
	static const char *const types[] = {
		[METRIC_COUNTER] = "counter", [METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram",
	};
	const struct metric *m = x->m;
	/* the older format names a counter as its sample */
	const char *more = m->type == METRIC_COUNTER &&
	    x->format == PROM_TEXT ? "_total" : "";

	kp_buf_printf(x->out, "# TYPE %s%s %s\n", m->name, more,
	    types[m->type]);
	if (x->format == PROM_OPENMETRICS && unit_of(m) != NULL)
		kp_buf_printf(x->out, "# UNIT %s %s\n", m->name, unit_of(m));
	kp_buf_printf(x->out, "# HELP %s%s ", m->name, more);
	put_escaped(x->out, m->help);
	kp_buf_u8(x->out, '\n');
}

/* le: a bucket's bound, or NULL. */
static void
text_sample(struct prom *x, const char *suffix, const char *const *values,
    const char *le)
{
	const char *sep = "{";

	kp_buf_printf(x->out, "%s%s", x->m->name, suffix);
	for (int i = 0; i < METRIC_LABELS_MAX && x->m->labels[i] != NULL;
	    i++) {
		kp_buf_printf(x->out, "%s%s=\"", sep, x->m->labels[i]);
		put_escaped(x->out, values[i]);
		kp_buf_u8(x->out, '"');
		sep = ",";
	}
	if (le != NULL) {
		kp_buf_printf(x->out, "%sle=\"%s\"", sep, le);
		sep = ",";
	}
	kp_buf_str(x->out, *sep == ',' ? "} " : " ");
}

/* OpenMetrics wants a bound to look like a float: "1.0". */
static const char *
bound_text(char text[PROM_NUMBER_MAX], size_t i)
{
	prom_double(text, prom_bound(i));
	if (strpbrk(text, ".e") == NULL)
		strcat(text, ".0");
	return text;
}

/* Bucket i is the first that has the value, PROM_BOUNDS the last of all. */
static bool
in_bucket(const struct prom_exemplar *e, size_t i)
{
	return e != NULL && (i == PROM_BOUNDS || e->v <= prom_bound(i)) &&
	    (i == 0 || e->v > prom_bound(i - 1));
}

static void
text_exemplar(struct prom *x, const struct prom_exemplar *e)
{
	char text[PROM_NUMBER_MAX];

	kp_buf_str(x->out, " # {");
	for (size_t i = 0; i < e->nlabels; i++) {
		kp_buf_printf(x->out, "%s%s=\"", i > 0 ? "," : "", e->labels[i].name);
		put_escaped(x->out, e->labels[i].value);
		kp_buf_u8(x->out, '"');
	}
	kp_buf_printf(x->out, "} %s %" PRId64 ".%03d", prom_double(text, e->v),
	    e->at / KP_NS_PER_S, (int)(e->at % KP_NS_PER_S / KP_NS_PER_MS));
}

static void
text_hist(struct prom *x, const char *const *values, const struct kp_hist *h,
    double sum, const struct prom_exemplar *e)
{
	uint64_t n[PROM_BOUNDS + 1];
	char text[PROM_NUMBER_MAX];

	prom_cumulate(h, n);
	n[PROM_BOUNDS] = h->count;
	for (size_t i = 0; i <= PROM_BOUNDS; i++) {
		text_sample(x, "_bucket", values, i < PROM_BOUNDS ?
		    bound_text(text, i) : "+Inf");
		kp_buf_printf(x->out, "%" PRIu64, n[i]);
		if (x->format == PROM_OPENMETRICS && in_bucket(e, i))
			text_exemplar(x, e);
		kp_buf_u8(x->out, '\n');
	}
	text_sample(x, "_count", values, NULL);
	kp_buf_printf(x->out, "%" PRIu64 "\n", h->count);
	text_sample(x, "_sum", values, NULL);
	kp_buf_printf(x->out, "%s\n", prom_double(text, sum));
}

/* ---- protobuf ---- */

static void
put_sint(struct kp_buf *b, unsigned field, int64_t v)
{
	kp_buf_varint(b, field << 3);
	kp_buf_zigzag(b, v);
}

static void
put_double(struct kp_buf *b, unsigned field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	kp_buf_pb_fixed(b, field, bits);
}

static void
put_string(struct kp_buf *b, unsigned field, const char *s)
{
	kp_buf_pb_bytes(b, field, s, strlen(s));
}

/* Appends `from` to `to` as a message, with its error, and empties it. */
static void
put_message(struct kp_buf *to, unsigned field, struct kp_buf *from)
{
	if (from->err == KP_OK)
		kp_buf_pb_bytes(to, field, from->p, from->len);
	else if (to->err == KP_OK)
		to->err = from->err;
	kp_buf_reset(from);
}

/* ---- families ---- */

/* Writes the current family. */
static void
flush(struct prom *x)
{
	if (x->m == NULL)
		return;
	if (x->family.err != KP_OK && x->out->err == KP_OK)
		x->out->err = x->family.err;
	kp_buf_varint(x->out, x->family.len);
	kp_buf_put(x->out, x->family.p, x->family.len);
	kp_buf_reset(&x->family);
	x->m = NULL;
}

static void
proto_family(struct prom *x, const struct metric *m)
{
	static const unsigned types[] = { [METRIC_COUNTER] = 0,
		[METRIC_GAUGE] = 1, [METRIC_HISTOGRAM] = 4 };

	flush(x);
	x->m = m;
	kp_buf_str(&x->part, m->name);
	if (m->type == METRIC_COUNTER)
		kp_buf_str(&x->part, "_total");
	put_message(&x->family, FAMILY_NAME, &x->part);
	put_string(&x->family, FAMILY_HELP, m->help);
	kp_buf_pb_uint(&x->family, FAMILY_TYPE, types[m->type]);
}

static void
put_labels(struct prom *x, const char *const *values)
{
	for (int i = 0; i < METRIC_LABELS_MAX && x->m->labels[i] != NULL;
	    i++) {
		put_string(&x->part, LABEL_NAME, x->m->labels[i]);
		put_string(&x->part, LABEL_VALUE, values[i]);
		put_message(&x->metric, METRIC_LABEL, &x->part);
	}
}

/* ---- histograms ---- */

static void
put_exemplar(struct kp_buf *b, const struct prom_exemplar *e)
{
	struct kp_buf one, part;

	kp_buf_init(&one, b->max);
	kp_buf_init(&part, b->max);
	for (size_t i = 0; i < e->nlabels; i++) {
		put_string(&part, LABEL_NAME, e->labels[i].name);
		put_string(&part, LABEL_VALUE, e->labels[i].value);
		put_message(&one, 1, &part);
	}
	put_double(&one, 2, e->v);
	kp_buf_pb_uint(&part, 1, (uint64_t)(e->at / KP_NS_PER_S));
	kp_buf_pb_uint(&part, 2, (uint64_t)(e->at % KP_NS_PER_S));
	put_message(&one, 3, &part);
	put_message(b, BUCKET_EXEMPLAR, &one);
	kp_buf_free(&one);
	kp_buf_free(&part);
}

/* The last one, which has all values, is written only if it has an exemplar. */
static void
put_buckets(struct kp_buf *b, const struct kp_hist *h, const struct prom_exemplar *e)
{
	struct kp_buf one;
	uint64_t n[PROM_BOUNDS + 1];

	prom_cumulate(h, n);
	n[PROM_BOUNDS] = h->count;
	kp_buf_init(&one, b->max);
	for (size_t i = 0; i < PROM_BOUNDS || (i == PROM_BOUNDS && in_bucket(e, i)); i++) {
		kp_buf_pb_uint(&one, 1, n[i]);
		put_double(&one, 2, i < PROM_BOUNDS ? prom_bound(i) : INFINITY);
		if (in_bucket(e, i))
			put_exemplar(&one, e);
		put_message(b, HIST_BUCKET, &one);
	}
	kp_buf_free(&one);
}

/* Moves *at to the next run of buckets, its gaps at most GAP_MAX; false: none. */
static bool
next_span(const struct kp_hist *h, uint32_t *at, uint32_t *end)
{
	uint32_t i;

	while (*at < h->len && h->n[*at] == 0)
		++*at;
	*end = *at;
	for (i = *at; i < h->len && i <= *end + GAP_MAX; i++)
		if (h->n[i] > 0)
			*end = i + 1;
	return *at < h->len;
}

/*
 * Writes spans of buckets, each with its distance from the end of the one before,
 * and all counts as differences.  Prometheus names a bucket by its upper bound,
 * so its index is ours plus one.
 */
static void
put_native(struct kp_buf *b, const struct kp_hist *h)
{
	int32_t last = 0, first;
	struct kp_buf span, deltas;
	uint64_t before = 0;
	uint32_t at = 0, end;

	kp_buf_init(&span, b->max);
	kp_buf_init(&deltas, b->max);
	put_sint(b, HIST_SCHEMA, SCHEMA);
	put_double(b, HIST_ZERO_THRESHOLD, ZERO_THRESHOLD);
	for (; next_span(h, &at, &end); at = end) {
		first = h->lo + (int32_t)at + 1;
		put_sint(&span, 1, first - last);
		kp_buf_pb_uint(&span, 2, end - at);
		put_message(b, HIST_SPAN, &span);
		last = first + (int32_t)(end - at);
		for (uint32_t i = at; i < end; i++) {
			kp_buf_zigzag(&deltas, (int64_t)(h->n[i] - before));
			before = h->n[i];
		}
	}
	if (deltas.len > 0 || deltas.err != KP_OK)
		put_message(b, HIST_DELTA, &deltas);
	kp_buf_free(&span);
	kp_buf_free(&deltas);
}

static void
proto_hist(struct prom *x, const char *const *values, const struct kp_hist *h,
    double sum, const struct prom_exemplar *e)
{
	put_labels(x, values);
	kp_buf_pb_uint(&x->part, HIST_COUNT, h->count);
	put_double(&x->part, HIST_SUM, sum);
	put_buckets(&x->part, h, e);
	put_native(&x->part, h);
	put_message(&x->metric, METRIC_IS_HISTOGRAM, &x->part);
	put_message(&x->family, FAMILY_METRIC, &x->metric);
}

/* ---- any format ---- */

void
prom_begin(struct prom *x, struct kp_buf *out, enum prom_format f)
{
	*x = (struct prom){ .out = out, .format = f };
	kp_buf_init(&x->family, out->max);
	kp_buf_init(&x->metric, out->max);
	kp_buf_init(&x->part, out->max);
}

void
prom_family(struct prom *x, const struct metric *m)
{
	if (x->format == PROM_PROTOBUF) {
		proto_family(x, m);
	} else {
		x->m = m;
		text_family(x);
	}
}

void
prom_number(struct prom *x, const char *const *values, double v)
{
	bool counter = x->m->type == METRIC_COUNTER;
	char text[PROM_NUMBER_MAX];

	if (x->format == PROM_PROTOBUF) {
		put_labels(x, values);
		put_double(&x->part, 1, v);
		put_message(&x->metric, counter ? METRIC_IS_COUNTER :
		    METRIC_IS_GAUGE, &x->part);
		put_message(&x->family, FAMILY_METRIC, &x->metric);
	} else {
		text_sample(x, counter ? "_total" : "", values, NULL);
		kp_buf_printf(x->out, "%s\n", prom_double(text, v));
	}
}

void
prom_hist(struct prom *x, const char *const *values, const struct kp_hist *h,
    double sum, const struct prom_exemplar *e)
{
	if (x->format == PROM_PROTOBUF)
		proto_hist(x, values, h, sum, e);
	else
		text_hist(x, values, h, sum, e);
}

void
prom_end(struct prom *x)
{
	if (x->format == PROM_OPENMETRICS)
		kp_buf_str(x->out, "# EOF\n");
	else if (x->format == PROM_PROTOBUF)
		flush(x);
	kp_buf_free(&x->family);
	kp_buf_free(&x->metric);
	kp_buf_free(&x->part);
}
