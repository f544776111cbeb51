/*
 * prometheus_proto.c - writes metric families as protobuf messages, each preceded
 * by its length.
 *
 * A nested message needs its length first, so each depth has a buffer: part (a
 * label, a bucket), metric, family.
 *
 * Source: prometheus/client_model, io/prometheus/client/metrics.proto; the
 * numbers below are that file's.
 */
#include <stdbool.h>
#include <string.h>

#include "prometheus_proto.h"

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

static void
put_varint(struct kp_buf *b, uint64_t v)
{
	for (; v >= 0x80; v >>= 7)
		kp_buf_u8(b, (uint8_t)(v | 0x80));
	kp_buf_u8(b, (uint8_t)v);
}

static void
put_key(struct kp_buf *b, unsigned field, unsigned type)
{
	put_varint(b, field << 3 | type);
}

static void
put_uint(struct kp_buf *b, unsigned field, uint64_t v)
{
	put_key(b, field, VARINT);
	put_varint(b, v);
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
	put_varint(b, n);
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

void
proto_begin(struct prom *x)
{
	kp_buf_init(&x->family, x->out->max);
	kp_buf_init(&x->metric, x->out->max);
	kp_buf_init(&x->part, x->out->max);
}

/* Writes the current family. */
static void
flush(struct prom *x)
{
	if (x->m == NULL)
		return;
	if (x->family.err != KP_OK && x->out->err == KP_OK)
		x->out->err = x->family.err;
	put_varint(x->out, x->family.len);
	kp_buf_put(x->out, x->family.p, x->family.len);
	kp_buf_reset(&x->family);
	x->m = NULL;
}

void
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

void
proto_number(struct prom *x, const char *const *values, double v)
{
	put_labels(x, values);
	put_double(&x->part, 1, v);
	put_message(&x->metric, x->m->type == METRIC_COUNTER ?
	    METRIC_IS_COUNTER : METRIC_IS_GAUGE, &x->part);
	put_message(&x->family, FAMILY_METRIC, &x->metric);
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
			put_varint(&deltas, zigzag((int64_t)(h->n[i] -
			    before)));
			before = h->n[i];
		}
	}
	if (deltas.len > 0 || deltas.err != KP_OK)
		put_message(b, HIST_DELTA, &deltas);
	kp_buf_free(&span);
	kp_buf_free(&deltas);
}

void
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

void
proto_end(struct prom *x)
{
	flush(x);
	kp_buf_free(&x->family);
	kp_buf_free(&x->metric);
	kp_buf_free(&x->part);
}
