/*
 * prometheus.c - chooses a format by the Accept header, and writes the two text
 * formats; prometheus_proto.c writes the third.
 */
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "prometheus_proto.h"

#define BOUNDS_PER_OCTAVE 2
#define BOUND_LOWEST (-14 * BOUNDS_PER_OCTAVE)
#define BUCKETS_PER_BOUND (KP_HIST_PER_OCTAVE / BOUNDS_PER_OCTAVE)

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

static void
text_uint(struct prom *x, uint64_t n)
{
	kp_buf_printf(x->out, "%" PRIu64 "\n", n);
}

static void
text_double(struct prom *x, double v)
{
	char text[PROM_NUMBER_MAX];

	kp_buf_printf(x->out, "%s\n", prom_double(text, v));
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
	char bound[PROM_NUMBER_MAX];

	prom_cumulate(h, n);
	for (size_t i = 0; i < PROM_BOUNDS; i++) {
		text_sample(x, "_bucket", values, bound_text(bound, i));
		text_uint(x, n[i]);
	}
	text_sample(x, "_bucket", values, "+Inf");
	text_uint(x, h->count);
	text_sample(x, "_count", values, NULL);
	text_uint(x, h->count);
	text_sample(x, "_sum", values, NULL);
	text_double(x, sum);
}

/* ---- any format ---- */

void
prom_begin(struct prom *x, struct kp_buf *out, enum prom_format f)
{
	*x = (struct prom){ .out = out, .format = f };
	proto_begin(x);
}

void
prom_family(struct prom *x, const struct metric *m)
{
	if (x->format == PROM_PROTOBUF) {
		proto_family(x, m);
		return;
	}
	x->m = m;
	text_family(x);
}

void
prom_number(struct prom *x, const char *const *values, double v)
{
	if (x->format == PROM_PROTOBUF) {
		proto_number(x, values, v);
		return;
	}
	text_sample(x, x->m->type == METRIC_COUNTER ? "_total" : "", values,
	    NULL);
	text_double(x, v);
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
		proto_end(x);
}
