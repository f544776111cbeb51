/*
 * prometheus.c - chooses a form from the Accept header, and writes the two text
 * forms; prometheus_proto.c writes the third.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "prometheus.h"

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

/* ---- which form ---- */

/* Is one of the words of a header's element this one? */
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

/* 0 to 1; 1 where it does not say. */
static double
quality(const char *p, size_t n)
{
	for (size_t i = 0; i + 3 < n; i++)
		if ((p[i] == ';' || p[i] == ' ') && p[i + 1] == 'q' &&
		    p[i + 2] == '=')
			return strtod(p + i + 3, NULL);
	return 1;
}

/* False: it asks for none of them. */
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
		/* of two it likes as well, what has more in it */
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

/* ---- the text forms ---- */

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

/* quote: also what would end a label's value. */
static void
put_escaped(struct kp_buf *b, const char *s, bool quote)
{
	for (; *s != '\0'; s++) {
		if (*s == '\n')
			kp_buf_str(b, "\\n");
		else if (*s == '\\' || (*s == '"' && quote))
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
	/* in the older form a counter's name is that of its sample */
	const char *more = m->type == METRIC_COUNTER &&
	    x->format == PROM_TEXT ? "_total" : "";

	kp_buf_printf(x->out, "# TYPE %s%s %s\n", m->name, more,
	    types[m->type]);
	if (x->format == PROM_OPENMETRICS && unit_of(m) != NULL)
		kp_buf_printf(x->out, "# UNIT %s %s\n", m->name, unit_of(m));
	kp_buf_printf(x->out, "# HELP %s%s ", m->name, more);
	put_escaped(x->out, m->help, true);
	kp_buf_u8(x->out, '\n');
}

/* le: NULL, or the bound as a text. */
static void
text_sample(struct prom *x, const char *suffix, const char *const *values,
    const char *le)
{
	const char *sep = "{";

	kp_buf_printf(x->out, "%s%s", x->m->name, suffix);
	for (int i = 0; i < METRIC_LABELS_MAX && x->m->labels[i] != NULL;
	    i++) {
		kp_buf_printf(x->out, "%s%s=\"", sep, x->m->labels[i]);
		put_escaped(x->out, values[i], true);
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

/* A bound is a float, and shows it: "1.0". */
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

/* ---- whichever form ---- */

void
prom_begin(struct prom *x, struct kp_buf *out, enum prom_format f)
{
	*x = (struct prom){ .out = out, .format = f };
	proto_begin(&x->proto, out);
}

void
prom_family(struct prom *x, const struct metric *m)
{
	x->m = m;
	if (x->format == PROM_PROTOBUF)
		proto_family(&x->proto, m);
	else
		text_family(x);
}

void
prom_number(struct prom *x, const char *const *values, double v)
{
	if (x->format == PROM_PROTOBUF) {
		proto_number(&x->proto, values, v);
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
		proto_hist(&x->proto, values, h, sum);
	else
		text_hist(x, values, h, sum);
}

void
prom_end(struct prom *x)
{
	if (x->format == PROM_OPENMETRICS)
		kp_buf_str(x->out, "# EOF\n");
	proto_end(&x->proto);
}
