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
#include <strings.h>

#include "prometheus.h"

#define BOUNDS_PER_OCTAVE 2
#define BOUND_LOWEST (-14 * BOUNDS_PER_OCTAVE)
#define BUCKETS_PER_BOUND (KP_HIST_PER_OCTAVE / BOUNDS_PER_OCTAVE)

#define SCHEMA 5		/* of native histograms: 32 buckets an octave */
#define ZERO_THRESHOLD 2.938735877055719e-39	/* 2^-128 s, client_golang's */
#define GAP_MAX 2		/* empty buckets that are cheaper than a span */

/* Wire types. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };

enum { FAMILY_NAME = 1, FAMILY_HELP = 2, FAMILY_TYPE = 3, FAMILY_METRIC = 4 };
enum { METRIC_LABEL = 1, METRIC_IS_GAUGE = 2, METRIC_IS_COUNTER = 3,
	METRIC_IS_HISTOGRAM = 7 };
enum { LABEL_NAME = 1, LABEL_VALUE = 2 };
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
	return exp2(((double)i + BOUND_LOWEST) / BOUNDS_PER_OCTAVE);
}

/* Bucket j ends at 2^((j+1)/32): it is below bound k if j + 1 <= 16 k. */
void
prom_cumulate(const struct kp_hist *h, uint64_t n[PROM_BOUNDS])
{
	uint64_t seen = 0;
	uint32_t j = 0;

	for (int i = 0; i < PROM_BOUNDS; i++) {
		while (j < h->len && h->lo + (int32_t)j + 1 <=
		    (i + BOUND_LOWEST) * BUCKETS_PER_BOUND)
			seen += h->n[j++];
		n[i] = seen;
	}
}

/* ---- the choice of the format ---- */

/* Is `what` among the words of this element of a header? */
static bool
has_word(const char *p, size_t n, const char *what)
{
	size_t len = strlen(what), word;

	for (; n > 0; p += word, n -= word) {
		word = strcspn(p, "; \t,");
		if (word > n)
			word = n;
		if (word == len && strncasecmp(p, what, len) == 0)
			return true;
		if (word == 0)
			word = 1;
	}
	return false;
}

/* The element's q parameter, 0 to 1; 1 if it has none. */
static double
quality(const char *p, size_t n)
{
	for (size_t i = 0; i + 3 < n; i++)
		if ((p[i] == ';' || p[i] == ' ') && p[i + 1] == 'q' &&
		    p[i + 2] == '=')
			return strtod(p + i + 3, NULL);
	return 1;
}

/* False: the element names none of the formats. */
static bool
element_format(const char *p, size_t n, enum prom_format *f)
{
	if (has_word(p, n, "application/openmetrics-text"))
		*f = PROM_OPENMETRICS;
	else if (has_word(p, n, "application/vnd.google.protobuf") &&
	    has_word(p, n, "proto=io.prometheus.client.MetricFamily") &&
	    has_word(p, n, "encoding=delimited"))
		*f = PROM_PROTOBUF;
	else if (has_word(p, n, "text/plain") || has_word(p, n, "text/*") ||
	    has_word(p, n, "*/*"))
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
		q = quality(p, n);
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

static void
text_hist(struct prom *x, const char *const *values, const struct kp_hist *h,
    double sum)
{
	uint64_t n[PROM_BOUNDS];
	char text[PROM_NUMBER_MAX];

	prom_cumulate(h, n);
	for (size_t i = 0; i < PROM_BOUNDS; i++) {
		text_sample(x, "_bucket", values, bound_text(text, i));
		kp_buf_printf(x->out, "%" PRIu64 "\n", n[i]);
	}
	text_sample(x, "_bucket", values, "+Inf");
	kp_buf_printf(x->out, "%" PRIu64 "\n", h->count);
	text_sample(x, "_count", values, NULL);
	kp_buf_printf(x->out, "%" PRIu64 "\n", h->count);
	text_sample(x, "_sum", values, NULL);
	kp_buf_printf(x->out, "%s\n", prom_double(text, sum));
}

/* ---- protobuf ---- */

static void
put_key(struct kp_buf *b, unsigned field, unsigned type)
{
	kp_buf_varint(b, field << 3 | type);
}

static void
put_uint(struct kp_buf *b, unsigned field, uint64_t v)
{
	put_key(b, field, VARINT);
	kp_buf_varint(b, v);
}

static uint64_t
zigzag(int64_t v)
{
	return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static void
put_sint(struct kp_buf *b, unsigned field, int64_t v)
{
	put_uint(b, field, zigzag(v));
}

static void
put_double(struct kp_buf *b, unsigned field, double v)
{
	uint64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	put_key(b, field, FIXED64);
	for (int i = 0; i < 8; i++)
		kp_buf_u8(b, (uint8_t)(bits >> 8 * i));
}

static void
put_bytes(struct kp_buf *b, unsigned field, const void *p, size_t n)
{
	put_key(b, field, BYTES);
	kp_buf_varint(b, n);
	kp_buf_put(b, p, n);
}

static void
put_string(struct kp_buf *b, unsigned field, const char *s)
{
	put_bytes(b, field, s, strlen(s));
}

/* Appends `from` to `to` as a message, with its error, and empties it. */
static void
put_message(struct kp_buf *to, unsigned field, struct kp_buf *from)
{
	if (from->err == KP_OK)
		put_bytes(to, field, from->p, from->len);
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
	put_uint(&x->family, FAMILY_TYPE, types[m->type]);
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
put_buckets(struct kp_buf *b, const struct kp_hist *h)
{
	struct kp_buf one;
	uint64_t n[PROM_BOUNDS];

	prom_cumulate(h, n);
	kp_buf_init(&one, b->max);
	for (size_t i = 0; i < PROM_BOUNDS; i++) {
		put_uint(&one, 1, n[i]);
		put_double(&one, 2, prom_bound(i));
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
		put_uint(&span, 2, end - at);
		put_message(b, HIST_SPAN, &span);
		last = first + (int32_t)(end - at);
		for (uint32_t i = at; i < end; i++) {
			kp_buf_varint(&deltas, zigzag((int64_t)(h->n[i] -
			    before)));
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
    double sum)
{
	put_labels(x, values);
	put_uint(&x->part, HIST_COUNT, h->count);
	put_double(&x->part, HIST_SUM, sum);
	put_buckets(&x->part, h);
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
    double sum)
{
	if (x->format == PROM_PROTOBUF)
		proto_hist(x, values, h, sum);
	else
		text_hist(x, values, h, sum);
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
