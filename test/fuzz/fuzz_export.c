/*
 * fuzz_export.c - what the other ends of exports say: a scraper's Accept
 * header, a collector's answer, the daemon's lines; and that names, whatever
 * they are, come out as labels that do not end early.
 */
#include <string.h>

#include "export/metrics.h"
#include "export/otlp_json.h"
#include "base/utf8.h"
#include "fuzz.h"

#define OUT_MAX (1u << 20)

/* Each line is a comment or ends with a number behind a blank. */
static void
lines_are_whole(const struct kp_buf *b)
{
	const char *p = (const char *)b->p, *end = p + b->len, *eol, *blank;

	REQUIRE(utf8_valid(p, b->len));
	for (; p < end; p = eol + 1) {
		eol = memchr(p, '\n', (size_t)(end - p));
		REQUIRE(eol != NULL);
		blank = memrchr(p, ' ', (size_t)(eol - p));
		REQUIRE(p[0] == '#' || (blank != NULL && blank + 1 < eol &&
		    strchr("+-0123456789IinN", blank[1]) != NULL));
	}
}

static void
names(const char *name)
{
	struct kp_cell c = { .tier = "_total", .identity = name,
		.w_calls = 1 };
	struct kp_window w = { .node = name, .end = 1, .cells = &c,
		.ncells = 1 };
	struct totals *t = totals_new();
	struct kp_buf b;
	struct prom x;

	REQUIRE(t != NULL);
	totals_add(t, &w);
	kp_buf_init(&b, OUT_MAX);
	prom_begin(&x, &b, PROM_OPENMETRICS);
	families_write(&x, t);
	prom_end(&x);
	REQUIRE(b.err == KP_OK);
	lines_are_whole(&b);
	kp_buf_reset(&b);
	for (size_t i = 0; i < totals_count(t, TOTALS_NODE); i++)
		otlp_metrics(&b, NULL, t, i);
	REQUIRE(b.err == KP_OK && utf8_valid(b.p, b.len));
	kp_buf_free(&b);
	totals_free(t);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	const char *why;
	size_t nwhy;
	struct kp_buf b;
	struct prom x;

	REQUIRE(text != NULL);
	REQUIRE(prom_choose(text) <= PROM_PROTOBUF);
	REQUIRE(otlp_refused((const char *)data, size, true, 7) <= 7);
	REQUIRE(otlp_refused((const char *)data, size, false, 0) == 0);
	otlp_refused_profiles((const char *)data, size, &why, &nwhy);
	REQUIRE(nwhy <= size);
	kp_buf_init(&b, OUT_MAX);
	prom_begin(&x, &b, PROM_TEXT);
	health_write(&x, (const char *)data, size);
	prom_end(&x);
	if (b.err == KP_OK)
		lines_are_whole(&b);
	kp_buf_free(&b);
	names(text);
	free(text);
	return 0;
}
