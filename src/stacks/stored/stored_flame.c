/*
 * stored_flame.c - writes sampled stacks for flame graphs: below each request
 * type its tiers, below each tier the frames of the stacks met there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/sat.h"
#include "frames.h"
#include "stored_stacks.h"
#include "text/flame.h"
#include "text/text.h"

#define NAME_BYTES_MAX (1u << 16)

static int
by_stack(const void *pa, const void *pb)
{
	const struct kp_query_stack *a = pa, *b = pb;
	int d = strcmp(a->identity, b->identity);

	if (d == 0)
		d = strcmp(a->path, b->path);
	return d != 0 ? d : strcmp(a->frames, b->frames);
}

static int
by_type_and_time(const void *pa, const void *pb)
{
	const struct kp_query_stack *a = pa, *b = pb;
	int d = strcmp(a->identity, b->identity);

	if (d == 0)
		d = (a->w_time < b->w_time) - (a->w_time > b->w_time);
	return d != 0 ? d : by_stack(pa, pb);
}

/*
 * Adds up the rows that differ only in node and state; free() the result.  NULL:
 * no memory.
 */
static struct kp_query_stack *
unite(const struct stacks *s, size_t *n)
{
	struct kp_query_stack *v = calloc(s->stacks.n + 1, sizeof(*v));

	*n = 0;
	if (v == NULL)
		return NULL;
	if (s->stacks.n > 0)
		memcpy(v, s->stacks.v, s->stacks.n * sizeof(*v));
	qsort(v, s->stacks.n, sizeof(*v), by_stack);
	for (size_t i = 0; i < s->stacks.n; i++) {
		if (*n > 0 && by_stack(&v[*n - 1], &v[i]) == 0)
			v[*n - 1].w_time = sat_add(v[*n - 1].w_time,
			    v[i].w_time);
		else
			v[(*n)++] = v[i];
	}
	qsort(v, *n, sizeof(*v), by_type_and_time);
	return v;
}

/* Calls put(ctx, text) for each part of a row: its tiers, then its frames. */
static void
each_part(const struct kp_query_stack *v, bool (*put)(void *ctx,
    const char *text), void *ctx)
{
	const char *path = v->path, *frames = v->frames, *part;
	char text[NAME_BYTES_MAX / 16];
	size_t n;

	while ((part = frames_next(&path, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, part);
		if (!put(ctx, stacks_tier_name(text)))
			return;
	}
	if (frames_unknown(frames)) {
		put(ctx, stacks_fn_name(frames));
		return;
	}
	while ((part = frames_next(&frames, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, part);
		if (!put(ctx, text))
			return;
	}
}

/* ---- folded ---- */

static bool
put_folded(void *ctx, const char *text)
{
	struct kp_buf *b = ctx;
	size_t from;

	kp_buf_str(b, ";");
	from = b->len;
	text_put(b, text);
	flame_clean(b, from);
	return true;
}

enum kp_err
stacks_folded(struct kp_buf *b, const struct stacks *s)
{
	size_t n, from;
	struct kp_query_stack *v = unite(s, &n);
	uint64_t us;

	if (v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < n && b->err == KP_OK; i++) {
		us = (uint64_t)v[i].w_time / KP_NS_PER_US;
		if (us == 0)
			continue;
		from = b->len;
		text_put(b, v[i].identity);
		flame_clean(b, from);
		each_part(&v[i], put_folded, b);
		kp_buf_printf(b, " %" PRIu64 "\n", us);
	}
	free(v);
	return KP_OK;
}

/* ---- speedscope ---- */

/* The frames of all rows, by number. */
struct frames {
	struct intern names;
	struct json *j;
	bool failed;		/* no memory */
};

static bool
add_frame(void *ctx, const char *text)
{
	struct frames *f = ctx;
	size_t n = strlen(text);

	if (intern_get(&f->names, text, n) != NULL)
		return true;
	if (intern_put(&f->names, text, n, (uint32_t)f->names.len) == NULL) {
		f->failed = true;
		return false;
	}
	speedscope_frame(f->j, text, "");
	return true;
}

static bool
put_number(void *ctx, const char *text)
{
	struct frames *f = ctx;
	const struct interned *known = intern_get(&f->names, text,
	    strlen(text));

	if (known != NULL)
		json_uint(f->j, NULL, known->val);
	return true;
}

/* n rows of one request type */
static void
put_profile(struct frames *f, const struct kp_query_stack *v, size_t n)
{
	kp_dur_ns end = 0;

	for (size_t i = 0; i < n; i++)
		end = sat_add(end, v[i].w_time);
	speedscope_profile(f->j, v[0].identity, 0, end);
	for (size_t i = 0; i < n && f->j->b->err == KP_OK; i++) {
		json_array(f->j, NULL);
		each_part(&v[i], put_number, f);
		json_end(f->j);
	}
	speedscope_weights(f->j);
	for (size_t i = 0; i < n; i++)
		json_int(f->j, NULL, v[i].w_time);
	speedscope_profile_end(f->j);
}

enum kp_err
stacks_speedscope(struct kp_buf *b, const struct stacks *s)
{
	struct frames f = { .failed = false };
	struct kp_query_stack *v;
	size_t n, m;
	struct json j;

	v = unite(s, &n);
	if (v == NULL)
		return KP_ENOMEM;
	f.j = &j;
	speedscope_begin(&j, b, "sampled stacks");
	for (size_t i = 0; i < n && !f.failed; i++)
		each_part(&v[i], add_frame, &f);
	speedscope_profiles(&j);
	for (size_t i = 0; i < n && b->err == KP_OK && !f.failed; i += m) {
		for (m = 1; i + m < n && strcmp(v[i + m].identity,
		    v[i].identity) == 0;)
			m++;
		put_profile(&f, &v[i], m);
	}
	speedscope_end(&j);
	intern_free(&f.names);
	free(v);
	return f.failed ? KP_ENOMEM : KP_OK;
}
