/*
 * diag_text.c - finds the line of each error in the source, and writes it with
 * a ^ below the column.
 */
#include <string.h>

#include "base/utf8.h"
#include "diag_text.h"
#include "text/text.h"

#define BEFORE_MAX 60	/* characters shown before the error's column */
#define AFTER_MAX 60	/* and from there on */
#define DIAG_BYTES_MAX (256u << 10)

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
