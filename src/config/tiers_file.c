/*
 * tiers_file.c - reads the file or standard input, refuses what cannot be a
 * tiers.conf, writes the summary, and shows errors with a ^ below the column.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "config/tiers_file.h"
#include "text/file_why.h"
#include "text/text.h"

#define BEFORE_MAX 60	/* characters shown before the error's column */
#define AFTER_MAX 60	/* and from there on */
#define DIAG_BYTES_MAX (256u << 10)

/* Reads one byte more than allowed, to detect larger files, or for the NUL. */
static char *
read_all(FILE *f, const char *path, size_t *n, char *why, size_t whylen)
{
	char *p = malloc(KP_CONF_SIZE_MAX + 1), *nul;

	if (p == NULL) {
		snprintf(why, whylen, "out of memory");
		return NULL;
	}
	*n = fread(p, 1, KP_CONF_SIZE_MAX + 1, f);
	if (ferror(f)) {
		snprintf(why, whylen, "cannot read '%s': %s", path,
		    strerror(errno));
	} else if (*n > KP_CONF_SIZE_MAX) {
		snprintf(why, whylen, "'%s' is larger than %u bytes: it cannot "
		    "be a tiers.conf", path, KP_CONF_SIZE_MAX);
	} else if ((nul = memchr(p, '\0', *n)) != NULL) {
		/* Without this, a binary file would give a thousand errors. */
		snprintf(why, whylen, "'%s' is not text (byte %zu is 0): it "
		    "cannot be a tiers.conf", path, (size_t)(nul - p) + 1);
	} else {
		p[*n] = '\0';
		return p;
	}
	free(p);
	return NULL;
}

char *
tiers_file_read(const char *path, size_t *n, char *why, size_t whylen)
{
	char reason[FILE_WHY_MAX];
	bool in = strcmp(path, "-") == 0;
	FILE *f = in ? stdin : fopen(path, "re");
	char *p;

	if (f == NULL) {
		snprintf(why, whylen, "cannot open '%s': %s (name the "
		    "tiers.conf that is meant)", path,
		    file_why(reason, path, errno));
		return NULL;
	}
	p = read_all(f, path, n, why, whylen);
	if (!in)
		fclose(f);
	return p;
}

const char *
tiers_file_sampling(char *buf, size_t n, const struct kp_sampling *s)
{
	if (s->kind == KP_SAMPLE_ALL)
		snprintf(buf, n, "every request");
	else if (s->kind == KP_SAMPLE_SLICES && s->n == 1)
		snprintf(buf, n, "every request, in slices of time where that is "
		    "too dear");
	else if (s->kind == KP_SAMPLE_SLICES)
		snprintf(buf, n, "slices of time, one in %" PRIu32, s->n);
	else if (s->kind == KP_SAMPLE_ONE_IN)
		snprintf(buf, n, "one request in %" PRIu32, s->n);
	else
		snprintf(buf, n, "%" PRIu32 " request%s a second at most",
		    s->n, s->n == 1 ? "" : "s");
	return buf;
}

void
tiers_file_summary(struct kp_buf *b, const char *path, const struct kp_conf *c)
{
	size_t fns = kp_conf_functions(c), entries = c->nentries;
	char text[64];

	text_put(b, path);
	kp_buf_printf(b, ": ok: %zu tier%s, %zu function pattern%s, ",
	    c->ntiers, c->ntiers == 1 ? "" : "s", fns, fns == 1 ? "" : "s");
	if (entries > 0)
		kp_buf_printf(b, "%zu %s", entries,
		    entries == 1 ? "entry" : "entries");
	else
		kp_buf_str(b, "entries are the first tier's");
	kp_buf_printf(b, "; sampling: %s\n",
	    tiers_file_sampling(text, sizeof(text), &c->sampling));
	for (size_t i = 0; i < c->nslo; i++) {
		kp_buf_printf(b, "objective: %.10g %% of ", c->slo[i].percent);
		text_put(b, c->slo[i].text);
		kp_buf_u8(b, '\n');
	}
}

void
objective_json(struct json *j, const struct kp_objective *o)
{
	json_string(j, "objective", o->text);
	json_string(j, "of", o->tier ? "tier" : "identity");
	json_string(j, "name", o->name);
	json_ms(j, "limit_ms", o->limit);
	json_double(j, "percent", o->percent);
}

/* ---- errors ---- */

/* Finds a line and its length; NULL: there are fewer lines. */
static const char *
find_line(const char *src, size_t n, uint32_t line, size_t *len)
{
	const char *end = src + n, *nl;

	while (line > 1) {
		nl = memchr(src, '\n', (size_t)(end - src));
		if (nl == NULL)
			return NULL;
		src = nl + 1;
		line--;
	}
	nl = memchr(src, '\n', (size_t)(end - src));
	*len = (size_t)((nl != NULL ? nl : end) - src);
	if (*len > 0 && src[*len - 1] == '\r')
		--*len;
	return src;
}

/* Skips `count` characters, and writes them if b is not NULL, tabs as blanks. */
static size_t
put_chars(struct kp_buf *b, const char *s, size_t n, uint32_t count)
{
	size_t i = 0, len;

	for (; i < n && count > 0; i += len, count--) {
		utf8_next(s + i, n - i, &len);
		if (b == NULL)
			continue;
		if (s[i] == '\t')
			kp_buf_u8(b, ' ');
		else
			text_put_n(b, s + i, len);
	}
	return i;
}

static void
put_source(struct kp_buf *b, const char *s, size_t n, uint32_t col)
{
	uint32_t chars = col > 0 ? col - 1 : 0, skip;
	struct kp_buf left;
	size_t i = 0, caret;

	skip = chars > BEFORE_MAX ? chars - BEFORE_MAX : 0;
	i = put_chars(NULL, s, n, skip);
	kp_buf_init(&left, DIAG_BYTES_MAX);
	if (skip > 0)
		kp_buf_str(&left, "... ");
	i += put_chars(&left, s + i, n - i, chars - skip);
	caret = text_width(kp_buf_cstr(&left));
	kp_buf_str(b, "  ");
	kp_buf_str(b, kp_buf_cstr(&left));
	kp_buf_free(&left);
	i += put_chars(b, s + i, n - i, AFTER_MAX);
	kp_buf_printf(b, "%s\n  %*s^\n", i < n ? " ..." : "", (int)caret, "");
}

static void
put_diag(struct kp_buf *b, const char *file, const char *src, size_t n,
    const struct kp_diag *d)
{
	const char *line;
	size_t len;

	text_put(b, file);
	kp_buf_printf(b, ":%u:%u: %s: ", d->pos.line, d->pos.col,
	    d->warning ? "warning" : "error");
	text_put(b, d->text);
	kp_buf_u8(b, '\n');
	line = src != NULL && d->pos.line > 0 ?
	    find_line(src, n, d->pos.line, &len) : NULL;
	if (line != NULL)
		put_source(b, line, len, d->pos.col);
}

void
diag_text(struct kp_buf *b, const char *file, const char *src, size_t n,
    const struct kp_diags *diags)
{
	size_t shown = 0;

	for (size_t i = 0; i < diags->n; i++) {
		put_diag(b, file, src, n, &diags->v[i]);
		shown += !diags->v[i].warning;
	}
	if (diags->errors > shown) {
		text_put(b, file);
		kp_buf_printf(b, ": %zu more errors\n", diags->errors - shown);
	}
}

void
diag_print(FILE *to, const char *file, const char *src, size_t n,
    const struct kp_diags *diags)
{
	struct kp_buf b;

	kp_buf_init(&b, DIAG_BYTES_MAX);
	diag_text(&b, file, src, n, diags);
	fputs(kp_buf_cstr(&b), to);
	kp_buf_free(&b);
}
