/*
 * stored_versus.c - compares the stacks of a range with those of another time, of the
 * other nodes, of other request types, or of requests that took longer or less long:
 * per request, function by function.
 *
 * Samples are counts, of which each stands for some time.  So the limits of a figure are
 * those of a Poisson distribution, and those of a difference follow from both figures'.
 * Samples of one long request depend on each other, which makes them a little wider.
 *
 * Sources: Byar's approximation, in N. E. Breslow and N. E. Day, "Statistical Methods in
 * Cancer Research", volume 2, 1987; G. Y. Zou and A. Donner, "Construction of confidence
 * limits about effect measures: a general approach", Statistics in Medicine 27, 2008.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
#include "base/vec.h"
#include "frames.h"
#include "report/report.h"
#include "stored_stacks.h"
#include "text/grid.h"
#include "text/text.h"
#include "text/timefmt.h"

#define Z 3.2905	/* chance makes such a difference in one of 1000 functions */
#define NAME_BYTES_MAX 8192u

/* ---- what to compare with ---- */

static enum kp_err
other_nodes(struct kp_query *q, const struct kp_query_range *r, struct kp_buf *b)
{
	struct kp_query_range any = *r;
	struct kp_query_nodes all = { 0 }, chosen = { 0 };
	enum kp_err err;

	any.node = NULL;
	err = kp_query_nodes(q, &any, &all);
	if (err == KP_OK)
		err = kp_query_nodes(q, r, &chosen);
	/* both are in the order of names */
	for (size_t i = 0, k = 0; err == KP_OK && i < all.n; i++) {
		if (k < chosen.n && strcmp(chosen.v[k], all.v[i]) == 0) {
			k++;
			continue;
		}
		kp_buf_printf(b, "%s%s", b->len > 0 ? " " : "", all.v[i]);
		err = b->err;
	}
	kp_query_nodes_free(&all);
	kp_query_nodes_free(&chosen);
	return err;
}

static bool
has_type(const struct stacks *s, const char *identity)
{
	for (size_t i = 1; i < s->nrequests; i++)
		if (strcmp(s->requests[i].identity, identity) == 0)
			return true;
	return false;
}

static bool
is_other_type(const struct kp_query_stack *row, const void *ctx)
{
	return !has_type(ctx, row->identity);
}

static void
drop_types(struct stacks *s, const struct stacks *of)
{
	size_t n = 1;

	s->requests[0].requests = 0;
	for (size_t i = 1; i < s->nrequests; i++) {
		if (has_type(of, s->requests[i].identity))
			continue;
		s->requests[n++] = s->requests[i];
		s->requests[0].requests += s->requests[i].requests;
	}
	s->nrequests = n;
	stacks_keep(s, SIZE_MAX, is_other_type, of);
}

enum kp_err
stacks_against_from_db(struct kp_query *q, const struct kp_query_range *r,
    const struct stacks *now, const struct stacks_against *with, size_t cap,
    struct stacks **out)
{
	struct kp_query_range of = *r;
	struct kp_buf nodes;
	enum kp_err err = KP_OK;

	kp_buf_init(&nodes, 1u << 16);
	if (with->time.until != 0) {
		of.since = with->time.since;
		of.until = with->time.until;
		report_apart(r, now->start, now->end, &of);
	}
	if (with->what == STACKS_TYPES)
		of.identity = of.identity_glob = NULL;
	of.took_other = with->what == STACKS_DURATIONS;
	if (with->what == STACKS_NODES) {
		err = other_nodes(q, &of, &nodes);
		/* without others: a name that none has */
		of.node = nodes.len > 0 ? kp_buf_cstr(&nodes) : "_";
	}
	if (err == KP_OK)
		err = stacks_from_db(q, &of, cap, out);
	if (err == KP_OK && with->what == STACKS_TYPES)
		drop_types(*out, now);
	kp_buf_free(&nodes);
	return err;
}

/* ---- figures of both sides ---- */

struct side {
	uint64_t samples;
	kp_dur_ns time;
	double spread;		/* sum of the squares of what samples stand for */
};

/* A function in a tier, or all of them. */
struct line {
	const char *tier, *fn;	/* borrowed, not terminated */
	size_t ntier, nfn;
	struct side of[2];	/* now, then */
	double by, low, high;	/* ns a request */
};

struct versus {
	const struct stacks *s[2];
	const struct stacks_opts *o;
	struct line *v, all;
	uint32_t n;
	size_t room;
	struct intern names;	/* of tier and function -> line */
	struct intern tiers;	/* -> lost */
	kp_dur_ns (*lost)[2];	/* by tier: of stacks that were not kept */
	size_t lost_room;
};

static bool
is_wait(uint8_t state)
{
	return state == KP_STACK_CALL || state == KP_STACK_PORT ||
	    state == KP_STACK_WAIT;
}

static void
side_add(struct side *to, const struct kp_query_stack *row)
{
	double time = (double)row->w_time;

	to->samples += row->samples;
	to->time = sat_add(to->time, row->w_time);
	to->spread += time * time / (double)(row->samples > 0 ? row->samples : 1);
}

static const char *
last_tier(const char *path, size_t *n)
{
	const char *part, *last = "";
	size_t len = 0;

	*n = 0;
	while ((part = frames_next(&path, &len)) != NULL) {
		last = part;
		*n = len;
	}
	return last;
}

/* The line of this tier and function; NULL: out of memory. */
static struct line *
line_of(struct versus *v, const struct line *want)
{
	const struct interned *at;
	struct kp_buf key;

	kp_buf_init(&key, SIZE_MAX / 2);
	kp_buf_put(&key, want->tier, want->ntier);
	kp_buf_u8(&key, ';');
	kp_buf_put(&key, want->fn, want->nfn);
	at = key.err != KP_OK ? NULL : intern_get(&v->names, key.p, key.len);
	if (at == NULL && key.err == KP_OK && vec_room(&v->v, &v->room, v->n,
	    UINT32_MAX) == KP_OK && (at = intern_put(&v->names, key.p, key.len,
	    v->n)) != NULL)
		v->v[v->n++] = *want;
	kp_buf_free(&key);
	return at != NULL ? &v->v[at->val] : NULL;
}

static bool
lose(struct versus *v, const struct line *in, int side, kp_dur_ns time)
{
	const struct interned *at = intern_get(&v->tiers, in->tier, in->ntier);

	if (at == NULL) {
		if (vec_room(&v->lost, &v->lost_room, v->tiers.len, UINT32_MAX) !=
		    KP_OK || (at = intern_put(&v->tiers, in->tier, in->ntier,
		    (uint32_t)v->tiers.len)) == NULL)
			return false;
		memset(v->lost[at->val], 0, sizeof(v->lost[at->val]));
	}
	v->lost[at->val][side] = sat_add(v->lost[at->val][side], time);
	return true;
}

static bool
add_side(struct versus *v, int side)
{
	const struct kp_query_stack *row = v->s[side]->stacks.v;
	const struct kp_query_stack *end = row + v->s[side]->stacks.n;
	struct line want, *to;

	for (; row < end; row++) {
		if ((!v->o->waits && is_wait(row->state)) || (v->o->tier != NULL &&
		    !frames_in_tier(row->path, v->o->tier)))
			continue;
		want = (struct line){ .fn = "" };
		want.tier = last_tier(row->path, &want.ntier);
		want.fn = frames_app(row->frames, &want.nfn);
		if (want.fn == NULL)
			want.fn = "";
		else
			want.nfn = frame_fn(want.fn, want.nfn);
		to = line_of(v, &want);
		if (to == NULL || (frames_other(row->frames) &&
		    !lose(v, &want, side, row->w_time)))
			return false;
		side_add(&to->of[side], row);
		side_add(&v->all.of[side], row);
	}
	return true;
}

/* ---- the difference, and how sure it is ---- */

/* Of a Poisson distribution, where x is what was counted, or one more. */
static double
limit(double x, double z)
{
	return x * pow(fmax(1 - 1 / (9 * x) + z / (3 * sqrt(x)), 0), 3);
}

/* unit: what one sample stands for where there is none of it. */
static void
limits(const struct side *s, double unit, double *low, double *high)
{
	double time = (double)s->time;
	double n = s->spread > 0 ? time * time / s->spread : 0;

	*low = n > 0 ? time / n * limit(n, -Z) : 0;
	*high = (n > 0 ? time / n : unit) * limit(n + 1, Z);
}

static double
requests_of(const struct versus *v, int side)
{
	return (double)v->s[side]->requests[0].requests;
}

/* What was not kept of its tier may be of this function, on either side. */
static void
differ(const struct versus *v, struct line *l)
{
	const struct interned *at = l->tier != NULL && !frames_other(l->fn) ?
	    intern_get(&v->tiers, l->tier, l->ntier) : NULL;
	double rate[2], low[2], high[2], lost[2], unit, n;

	for (int i = 0; i < 2; i++) {
		n = requests_of(v, i);
		unit = v->all.of[i].samples > 0 ? (double)v->all.of[i].time /
		    (double)v->all.of[i].samples : 0;
		limits(&l->of[i], unit, &low[i], &high[i]);
		rate[i] = (double)l->of[i].time / n;
		low[i] = rate[i] - low[i] / n;
		high[i] = high[i] / n - rate[i];
		lost[i] = at != NULL ? (double)v->lost[at->val][i] / n : 0;
	}
	l->by = rate[0] - rate[1];
	l->low = l->by - hypot(low[0], high[1]) - lost[1];
	l->high = l->by + hypot(high[0], low[1]) + lost[0];
}

static bool
is_sure(const struct line *l)
{
	return l->low > 0 || l->high < 0;
}

static int
by_difference(const void *pa, const void *pb)
{
	const struct line *a = pa, *b = pb;
	double x = fabs(a->by), y = fabs(b->by);

	if (is_sure(a) != is_sure(b))
		return is_sure(a) ? -1 : 1;
	return x != y ? (x < y) - (x > y) : strcmp(a->fn, b->fn);
}

/* ---- for people ---- */

static const char *const heads[][2] = { [STACKS_TIME] = { "now", "then" },
	[STACKS_NODES] = { "here", "other nodes" },
	[STACKS_TYPES] = { "of these", "other types" },
	[STACKS_DURATIONS] = { "of these", "others" } };

static const char *
signed_dur(char *buf, double ns)
{
	char text[TEXT_MAX];

	snprintf(buf, TEXT_MAX, "%s%.*s", ns < 0 ? "-" : "+", TEXT_MAX - 2,
	    text_dur(text, (kp_dur_ns)fabs(ns)));
	return buf;
}

static void
put_line(struct versus *v, struct grid *g, const struct line *l)
{
	char text[TEXT_MAX], low[TEXT_MAX], both[2 * TEXT_MAX + 8], fn[NAME_BYTES_MAX],
	    tier[NAME_BYTES_MAX];

	snprintf(fn, sizeof(fn), "%.*s", (int)l->nfn, l->fn);
	snprintf(tier, sizeof(tier), "%.*s", (int)l->ntier, l->tier != NULL ?
	    l->tier : "");
	grid_cell(g, l->tier == NULL ? "all functions" : stacks_fn_name(fn));
	grid_cell(g, stacks_tier_name(tier));
	for (int i = 0; i < 2; i++) {
		snprintf(both, sizeof(both), "~%s", text_dur(text,
		    (kp_dur_ns)((double)l->of[i].time / requests_of(v, i))));
		grid_cell(g, both);
	}
	snprintf(both, sizeof(both), "~%s", signed_dur(text, l->by));
	grid_cell(g, is_sure(l) ? both : "");
	snprintf(both, sizeof(both), "%s to %s", signed_dur(low, l->low),
	    signed_dur(text, l->high));
	grid_cell(g, both);
	snprintf(both, sizeof(both), "%s, %s", text_count(low, l->of[0].samples),
	    text_count(text, l->of[1].samples));
	grid_cell(g, both);
}

static size_t
put_lines(struct versus *v, const char *const names[2], struct kp_buf *b)
{
	size_t rows = 0;
	struct grid g;

	grid_init(&g);
	grid_col(&g, "", GRID_LEFT);
	grid_col(&g, "tier", GRID_LEFT);
	grid_col(&g, names[0], GRID_RIGHT);
	grid_col(&g, names[1], GRID_RIGHT);
	grid_col(&g, "difference", GRID_RIGHT);
	grid_col_optional(&g, "99.9 %", GRID_RIGHT, 2);
	grid_col_optional(&g, "samples", GRID_RIGHT, 1);
	put_line(v, &g, &v->all);
	grid_rule(&g);
	for (; rows < v->n && (v->o->rows == 0 || (rows < v->o->rows &&
	     is_sure(&v->v[rows]))); rows++)
		put_line(v, &g, &v->v[rows]);
	grid_write(&g, v->o->width, b);
	grid_free(&g);
	return rows;
}

static void
put_range(struct kp_buf *b, const struct versus *v, int side, const char *name)
{
	const struct stacks *s = v->s[side];
	char n[TEXT_MAX], samples[TEXT_MAX];
	struct kp_buf range;

	if (s->windows == 0) {
		text_note(b, v->o->width, "%s: nothing is stored of this", name);
		return;
	}
	kp_buf_init(&range, 4096);
	timefmt_put_range(&range, s->start, s->end);
	text_note(b, v->o->width, "%s: %s, ~%s, %s%s", name, kp_buf_cstr(&range),
	    text_counted(n, s->requests[0].requests, "request"),
	    text_counted(samples, v->all.of[side].samples, "sample"),
	    s->stacks.left > 0 ? "; not all stacks were read (a shorter range has "
	    "fewer)" : "");
	kp_buf_free(&range);
	if (s->why != NULL)
		text_note(b, v->o->width, "%s: %s", name, s->why);
}

static void
put_all(struct versus *v, const char *const names[2], struct kp_buf *b)
{
	char text[TEXT_MAX];
	size_t shown;

	if (requests_of(v, 0) > 0 && requests_of(v, 1) > 0) {
		differ(v, &v->all);
		for (uint32_t i = 0; i < v->n; i++)
			differ(v, &v->v[i]);
		qsort(v->v, v->n, sizeof(*v->v), by_difference);
		shown = put_lines(v, names, b);
		kp_buf_u8(b, '\n');
		if (shown < v->n)
			text_note(b, v->o->width, "%s not shown: they differ less, "
			    "or not by more than chance (-n 0 shows all)",
			    text_counted(text, v->n - shown, "function"));
		text_note(b, v->o->width, "time per request%s, estimated from "
		    "samples; 99.9 %%: what chance leaves open, in all but one of "
		    "1000 functions", v->o->waits ? "" : " without waits "
		    "(-waits has them)");
	} else {
		text_note(b, v->o->width, "there is no time per request to compare: no "
		    "request ended on one side");
	}
	put_range(b, v, 0, names[0]);
	put_range(b, v, 1, names[1]);
	stacks_put_took(b, v->s[0], v->o->width);
}

enum kp_err
stacks_versus_table(struct kp_buf *b, const struct stacks *now,
    const struct stacks *then, enum stacks_what what, const struct stacks_opts *o)
{
	struct versus v = { .s = { now, then }, .o = o };
	bool made = add_side(&v, 0) && add_side(&v, 1);

	v.all.fn = "";
	if (made)
		put_all(&v, heads[what], b);
	free(v.v);
	free(v.lost);
	intern_free(&v.names);
	intern_free(&v.tiers);
	return made ? KP_OK : KP_ENOMEM;
}
