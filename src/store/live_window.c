/*
 * live_window.c - writes and reads the form of running windows.
 *
 * The reader's first error sticks, and everything after it reads as 0; the
 * caller checks once.  Nothing that the form says is taken as the size of an
 * allocation before as many bytes are there.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cell_row.h"
#include "range.h"
#include "live_window.h"

#define CELL_LEAST 40u		/* bytes: its figures alone are more */

/* Figures of 64 bits, of counts and of times alike. */
static const size_t figures[] = {
#define FIGURE_AT(column, field, null) offsetof(struct kp_cell, field),
	CELL_FIGURES(FIGURE_AT)
	offsetof(struct kp_cell, min), offsetof(struct kp_cell, max),
	offsetof(struct kp_cell, async_max),
};
#define NFIGURES (sizeof(figures) / sizeof(figures[0]))

enum { HAS_GC = 1, HAS_OUT = 2 };

/* ---- writing ---- */

static void
put_string(struct kp_buf *b, const char *s)
{
	size_t n = strlen(s);

	kp_buf_varint(b, n);
	kp_buf_put(b, s, n + 1);
}

static void
put_hist(struct kp_buf *b, const struct kp_hist *h)
{
	struct kp_buf hist;

	kp_buf_init(&hist, KP_HIST_BYTES_MAX);
	kp_hist_write(h, &hist);
	kp_buf_varint(b, hist.len);
	kp_buf_put(b, hist.p, hist.len);
	if (hist.err != KP_OK && b->err == KP_OK)
		b->err = hist.err;
	kp_buf_free(&hist);
}

static void
put_cell(struct kp_buf *b, const struct kp_cell *c)
{
	int64_t v;

	put_string(b, c->tier);
	put_string(b, c->identity);
	kp_buf_u8(b, (uint8_t)((c->has_gc ? HAS_GC : 0) |
	    (c->has_out ? HAS_OUT : 0)));
	for (size_t i = 0; i < NFIGURES; i++) {
		memcpy(&v, (const char *)c + figures[i], sizeof(v));
		kp_buf_zigzag(b, v);
	}
	put_hist(b, &c->hist);
	put_hist(b, &c->async_hist);
}

void
live_windows_put_head(struct kp_buf *b, uint64_t closed, kp_dur_ns left)
{
	put_string(b, KP_VERSION);
	kp_buf_varint(b, closed);
	kp_buf_zigzag(b, left);
}

void
live_windows_put(struct kp_buf *b, const struct kp_window *w)
{
	put_string(b, w->node);
	kp_buf_zigzag(b, w->start);
	kp_buf_zigzag(b, w->end);
	kp_buf_varint(b, w->entry_calls);
	kp_buf_varint(b, w->sampled);
	kp_buf_zigzag(b, w->cost.traced_call);
	kp_buf_zigzag(b, w->cost.traced_caller);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		kp_buf_varint(b, w->losses.n[i]);
	kp_buf_varint(b, w->ncells);
	for (size_t i = 0; i < w->ncells; i++)
		put_cell(b, &w->cells[i]);
}

/* ---- reading ---- */

/* A string of the form, with the NUL behind it and none in it; else "". */
static const char *
get_string(struct kp_bytes *in)
{
	uint64_t n = kp_bytes_varint(in);
	const char *s = (const char *)in->p;
	size_t left = (size_t)(in->end - in->p);

	if (n >= left || strnlen(s, left) != n) {
		kp_bytes_fail(in, KP_EFORMAT);
		return "";
	}
	in->p += n + 1;
	return s;
}

static void
get_hist(struct kp_bytes *in, struct kp_hist *h)
{
	uint64_t n = kp_bytes_varint(in);

	if (n > (size_t)(in->end - in->p) || (in->err == KP_OK &&
	    kp_hist_read(h, in->p, n) != KP_OK))
		kp_bytes_fail(in, KP_EFORMAT);
	else
		in->p += n;
}

static void
get_cell(struct kp_bytes *in, struct kp_cell *c)
{
	uint64_t flags;
	int64_t v;

	c->tier = get_string(in);
	c->identity = get_string(in);
	flags = kp_bytes_varint(in);
	c->has_gc = flags & HAS_GC;
	c->has_out = flags & HAS_OUT;
	for (size_t i = 0; i < NFIGURES; i++) {
		v = kp_bytes_zigzag(in);
		memcpy((char *)c + figures[i], &v, sizeof(v));
	}
	get_hist(in, &c->hist);
	get_hist(in, &c->async_hist);
}

static void
get_window(struct kp_bytes *in, struct kp_window *w)
{
	uint64_t n;

	w->node = get_string(in);
	w->start = kp_bytes_zigzag(in);
	w->end = kp_bytes_zigzag(in);
	w->entry_calls = kp_bytes_varint(in);
	w->sampled = kp_bytes_varint(in);
	w->cost.traced_call = kp_bytes_zigzag(in);
	w->cost.traced_caller = kp_bytes_zigzag(in);
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		w->losses.n[i] = kp_bytes_varint(in);
	n = kp_bytes_varint(in);
	if (n > KP_CELLS_MAX || n > (size_t)(in->end - in->p) / CELL_LEAST)
		kp_bytes_fail(in, KP_EFORMAT);
	else if ((w->cells = calloc(n > 0 ? n : 1, sizeof(*w->cells))) == NULL)
		kp_bytes_fail(in, KP_ENOMEM);
	else
		for (; w->ncells < n && in->err == KP_OK; w->ncells++)
			get_cell(in, &w->cells[w->ncells]);
}

static void
windows_free(struct kp_window *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < v[i].ncells; k++)
			kp_cell_free(&v[i].cells[k]);
		free(v[i].cells);
	}
}

void
live_windows_cut(struct live_windows *r, size_t n)
{
	if (n < r->n) {
		windows_free(r->v + n, r->n - n);
		r->n = n;
	}
}

void
live_windows_free(struct live_windows *r)
{
	windows_free(r->v, r->n);
	free(r->v);
	for (size_t i = 0; i < r->ntexts; i++)
		free(r->texts[i]);
	free(r->texts);
	*r = (struct live_windows){ 0 };
}

/* Reads the windows into v, which has room for LIVE_WINDOWS_MAX. */
static size_t
get_form(struct kp_bytes *in, struct kp_window *v, uint64_t *closed,
    kp_dur_ns *left)
{
	size_t got = 0;

	if (strcmp(get_string(in), KP_VERSION) != 0)
		kp_bytes_fail(in, KP_EFORMAT);
	*closed = kp_bytes_varint(in);
	*left = kp_bytes_zigzag(in);
	while (in->p < in->end && got < LIVE_WINDOWS_MAX)
		get_window(in, &v[got++]);
	if (in->p < in->end)
		kp_bytes_fail(in, KP_EFORMAT);
	return got;
}

/* Takes over the n windows of v and their text; false: there is no memory. */
static bool
take(struct live_windows *to, const struct kp_window *v, size_t n, char *text)
{
	struct kp_window *w = reallocarray(to->v, to->n + n + 1, sizeof(*w));
	char **texts;

	if (w == NULL)
		return false;
	to->v = w;
	texts = reallocarray(to->texts, to->ntexts + 1, sizeof(*texts));
	if (texts == NULL)
		return false;
	to->texts = texts;
	texts[to->ntexts++] = text;
	memcpy(w + to->n, v, n * sizeof(*v));
	to->n += n;
	return true;
}

enum kp_err
live_windows_read(struct live_windows *to, const void *p, size_t n)
{
	struct kp_window *v = calloc(LIVE_WINDOWS_MAX, sizeof(*v));
	char *text = malloc(n + 1);
	struct kp_bytes in = { .err = KP_OK };
	uint64_t closed = 0;
	kp_dur_ns left = 0;
	size_t got = 0;

	if (v == NULL || text == NULL) {
		in.err = KP_ENOMEM;
	} else {
		if (n > 0)
			memcpy(text, p, n);
		in.p = (const uint8_t *)text;
		in.end = in.p + n;
		got = get_form(&in, v, &closed, &left);
	}
	if (in.err == KP_OK && !take(to, v, got, text))
		in.err = KP_ENOMEM;
	if (in.err == KP_OK) {
		if (got > 0 && (to->n == got || left < to->left))
			to->left = left;
		to->closed += closed;
	} else {
		if (v != NULL)
			windows_free(v, got);
		free(text);
	}
	free(v);
	return in.err == KP_ESHORT ? KP_EFORMAT : in.err;
}

/* ---- the sum ---- */

static enum kp_err
sum_cells(const struct live_windows *r, const struct kp_query_tiers *tiers,
    struct kp_query_sum *s)
{
	const struct kp_cell *from;
	enum kp_err err = KP_OK;
	struct range_cell *v;
	size_t n = 0, all = 0;

	for (size_t i = 0; i < r->n; i++)
		all += r->v[i].ncells;
	v = calloc(all + 1, sizeof(*v));
	if (v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < r->n; i++) {
		for (size_t k = 0; k < r->v[i].ncells && err == KP_OK; k++) {
			from = &r->v[i].cells[k];
			v[n] = (struct range_cell){ range_place(tiers, from->tier),
				.cell = { .tier = from->tier,
				.identity = from->identity, .min = -1 } };
			err = kp_cell_merge(&v[n].cell, from);
			if (r->n > 1)
				range_shares(&v[n].cell);
			n++;
		}
	}
	if (err == KP_OK)
		return range_unite(v, n, s);
	range_cells_free(v, n);
	return err;
}

static void
sum_window(struct kp_query_sum *s, const struct kp_window *w)
{
	if (s->windows++ == 0 || w->start < s->start)
		s->start = w->start;
	if (w->end > s->end)
		s->end = w->end;
	s->entry_calls += w->entry_calls;
	s->sampled += w->sampled;
	s->uncounted |= w->entry_calls == 0 && w->sampled > 0;
	for (int i = 0; i < KP_LOSS_COUNT; i++)
		s->losses.n[i] += w->losses.n[i];
	/* of the first that has measured it: they are alike on one host */
	if (s->traced_call <= 0 && w->cost.traced_call > 0) {
		s->traced_call = w->cost.traced_call;
		s->traced_caller = w->cost.traced_caller;
	}
}

enum kp_err
live_windows_sum(const struct live_windows *r, const struct kp_query_tiers *tiers,
    struct kp_query_sum *out)
{
	struct kp_query_sum s = { 0 };
	struct range_pace pace = { 0 };
	const struct kp_window *w;
	enum kp_err err;

	for (w = r->v; w < r->v + r->n; w++) {
		sum_window(&s, w);
		range_pace_add(&pace, w->entry_calls > w->sampled ? w->entry_calls :
		    w->sampled, sat_span(w->start, w->end), kp_window_counted(w));
	}
	s.covered = sat_span(s.start, s.end);
	s.counted = range_counted(&pace, s.covered);
	err = sum_cells(r, tiers, &s);
	if (err == KP_OK)
		*out = s;
	else
		kp_query_sum_free(&s);
	return err;
}
