/*
 * stored_stacks.c - queries the stacks of a range and the requests that they are
 * of, says why there are none, and writes them for programs: as JSON, and for flame
 * graphs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sat.h"
#include "base/vec.h"
#include "frames.h"
#include "kprofd/config.h"
#include "stored_stacks.h"
#include "text/flame_tree.h"
#include "text/json.h"
#include "text/text.h"

#define PART_BYTES_MAX 4096u	/* of a tier or a frame that is shown */
#define RUNS 20			/* looked at for one that did start */

/* ---- the requests ---- */

static bool
is_total(const char *s)
{
	return strcmp(s, "_total") == 0;
}

/*
 * Each request is of one type, so the types' sum is that of all requests asked
 * for; the row of all would have other types, too.
 */
static enum kp_err
take_requests(struct stacks *s, const struct kp_query_sum *sum)
{
	const struct kp_cell *c;

	s->requests = calloc(sum->ncells + 1, sizeof(*s->requests));
	if (s->requests == NULL)
		return KP_ENOMEM;
	s->requests[s->nrequests++].identity = "_total";
	for (size_t i = 0; i < sum->ncells; i++) {
		c = &sum->cells[i];
		if (!is_total(c->tier) || is_total(c->identity))
			continue;
		s->requests[s->nrequests++] = (struct stacks_requests){
			c->identity, c->w_requests };
		s->requests[0].requests += c->w_requests;
	}
	return KP_OK;
}

static enum kp_err
read_requests(struct kp_query *q, const struct kp_query_range *r,
    struct stacks *s)
{
	struct kp_query_sum sum = { 0 };
	struct kp_query_range of = *r;
	enum kp_err err = KP_OK;

	of.since = s->stacks.since;
	of.until = s->stacks.until;
	of.exact = true;
	if (s->stacks.n > 0)
		err = kp_query_sum(q, &of, &sum);
	if (err == KP_OK)
		err = take_requests(s, &sum);
	kp_query_sum_free(&sum);
	return err;
}

/* ---- why there are no stacks ---- */

/* Does this tiers.conf sample stacks?  True if this version cannot read it. */
static bool
conf_has_stacks(const char *text)
{
	struct kp_conf *conf = NULL;
	struct kp_diags diags;
	bool has = kp_conf_parse(&conf, text, strlen(text), &diags) != KP_OK ||
	    conf->stacks.per_second > 0;

	kp_conf_free(conf);
	kp_diags_free(&diags);
	return has;
}

/* The last tiers.conf that one could start with; true if there is none. */
static enum kp_err
is_on(struct kp_query *q, bool *on)
{
	struct kp_query_runs runs = { 0 };
	enum kp_err err = kp_query_runs(q, RUNS, &runs);

	*on = true;
	for (size_t i = 0; i < runs.n; i++) {
		if (runs.v[i].failed[0] != '\0')
			continue;
		*on = conf_has_stacks(runs.v[i].tiers_text);
		break;
	}
	kp_query_runs_free(&runs);
	return err;
}

/* Are there samples of other request types? */
static enum kp_err
has_others(struct kp_query *q, const struct kp_query_range *r, bool *others)
{
	struct kp_query_range any = *r;
	struct kp_query_stacks s;
	enum kp_err err;

	*others = false;
	if (r->identity == NULL && r->identity_glob == NULL)
		return KP_OK;
	any.identity = any.identity_glob = NULL;
	err = kp_query_stacks(q, &any, 1, &s);
	if (err != KP_OK)
		return err;
	*others = s.samples > 0;
	kp_query_stacks_free(&s);
	return KP_OK;
}

static enum kp_err
why_none(struct kp_query *q, const struct kp_query_range *r,
    const struct stacks *s, const char **why)
{
	bool on, others;
	enum kp_err err = is_on(q, &on);

	if (err == KP_OK)
		err = has_others(q, r, &others);
	if (err != KP_OK)
		return err;
	if (others)
		*why = "no request type with sampled stacks matches (see "
		    "-identity)";
	else if (!on)
		*why = "no stacks are sampled: add {stacks, {per_second, 20}} "
		    "to tiers.conf, and run kprof reload";
	else if (s->windows == 0)
		*why = "no window is stored in this range: stacks come with a "
		    "window when it closes";
	else if (s->sampled == 0)
		*why = "no request was measured in this range, and stacks are "
		    "sampled of processes that work for one";
	else
		*why = "no process was met while it worked for a measured "
		    "request: a longer range, more requests or a higher "
		    "per_second in {stacks, {per_second, N}} finds some";
	return KP_OK;
}

/* ---- all of it ---- */

static void
measure(struct stacks *s)
{
	const struct kp_query_stack *v = s->stacks.v;
	unsigned depth;

	for (size_t i = 0; i < s->stacks.n; i++) {
		depth = frames_count(v[i].frames);
		if (frames_other(v[i].frames))
			s->other += v[i].samples;
		else if (depth > s->depth)
			s->depth = depth;
	}
}

enum kp_err
stacks_from_db(struct kp_query *q, const struct kp_query_range *r, size_t cap,
    struct stacks **out)
{
	struct stacks *s = calloc(1, sizeof(*s));
	struct kp_query_sum cover = { 0 };
	enum kp_err err;

	if (s == NULL)
		return KP_ENOMEM;
	err = kp_query_cover(q, r, &cover);
	if (err == KP_OK)
		err = kp_query_stacks(q, r, cap, &s->stacks);
	s->start = cover.start;
	s->end = cover.end;
	s->windows = cover.windows;
	s->sampled = cover.sampled;
	s->losses = cover.losses;
	kp_query_sum_free(&cover);
	if (err == KP_OK)
		err = read_requests(q, r, s);
	if (err == KP_OK && s->stacks.samples == 0)
		err = why_none(q, r, s, &s->why);
	else if (err == KP_OK && s->stacks.not_seen == s->stacks.samples)
		s->why = "none of the sampled processes answered in time "
		    "(5 ms), so no stack was seen: they waited for a "
		    "scheduler, or ran native code";
	if (err != KP_OK) {
		stacks_free(s);
		return err;
	}
	measure(s);
	*out = s;
	return KP_OK;
}

void
stacks_free(struct stacks *s)
{
	if (s == NULL)
		return;
	kp_query_stacks_free(&s->stacks);
	free(s->requests);
	free(s);
}

/* ---- names ---- */

const char *
stacks_fn_name(const char *fn)
{
	if (fn[0] == '\0')
		return "(not seen)";
	if (strcmp(fn, "_late") == 0)
		return "(had gone on)";
	return strcmp(fn, "_other") == 0 ? "(other stacks)" : fn;
}

const char *
stacks_tier_name(const char *tier)
{
	if (strcmp(tier, "_after") == 0)
		return "(after the request)";
	return strcmp(tier, "_other") == 0 ? "(other tiers)" : tier;
}

/* ---- JSON ---- */

static void
put_parts(struct json *j, const char *key, const char *s)
{
	const char *part;
	size_t n;

	json_array(j, key);
	while ((part = frames_next(&s, &n)) != NULL)
		json_string_n(j, NULL, part, n);
	json_end(j);
}

static void
put_row(struct json *j, const struct kp_query_stack *v)
{
	json_object(j, NULL);
	json_string(j, "node", v->node);
	json_string(j, "identity", v->identity);
	put_parts(j, "path", v->path);
	json_string(j, "state", kp_stack_state_name(v->state));
	put_parts(j, "frames", v->frames);
	json_uint(j, "samples", v->samples);
	json_ms(j, "ms", v->w_time);
	json_end(j);
}

void
stacks_json(struct kp_buf *b, const struct stacks *s)
{
	struct json j;

	json_open(&j, b);
	json_time(&j, "from", s->start);
	json_time(&j, "to", s->end);
	json_uint(&j, "samples", s->stacks.samples);
	json_uint(&j, "not_seen", s->stacks.not_seen);
	json_uint(&j, "dropped", s->other);
	json_uint(&j, "depth", s->depth);
	json_object(&j, "left_out");
	json_uint(&j, "stacks", s->stacks.left);
	json_uint(&j, "samples", s->stacks.left_samples);
	json_ms(&j, "ms", s->stacks.left_time);
	json_end(&j);
	json_string(&j, "why", s->why);
	json_array(&j, "stacks");
	for (size_t i = 0; i < s->stacks.n && b->err == KP_OK; i++)
		put_row(&j, &s->stacks.v[i]);
	json_end(&j);
	json_close(&j);
}

/*
 * ---- for flame graphs ----
 *
 * Below each request type its tiers, below each tier the frames of the stacks met
 * there.
 */

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

struct flame {
	struct kp_query_stack *v;	/* united */
	size_t n;
	struct intern names;
	const char **labels;		/* the keys in names */
	size_t room;
	struct flame_tree t;		/* a root's label is the first row of its type */
	struct flame_slice *slices;
	size_t nslices;
};

/* FLAME_NONE: out of memory; parent may be that, too. */
static uint32_t
part_put(struct flame *f, uint32_t parent, const char *text)
{
	size_t n = strlen(text) + 1;
	const struct interned *known = intern_get(&f->names, text, n);

	if (known == NULL) {
		if (vec_room(&f->labels, &f->room, f->names.len,
		    UINT32_MAX) != KP_OK || (known = intern_put(&f->names,
		    text, n, (uint32_t)f->names.len)) == NULL)
			return FLAME_NONE;
		f->labels[known->val] = (const char *)known->key;
	}
	return parent != FLAME_NONE ? flame_tree_child(&f->t, parent,
	    known->val) : FLAME_NONE;
}

/* False: out of memory. */
static bool
flame_row_put(struct flame *f, const struct kp_query_stack *v, uint32_t type)
{
	const char *path = v->path, *frames = v->frames, *part;
	uint32_t node = flame_tree_child(&f->t, FLAME_NONE, type);
	char text[PART_BYTES_MAX];
	size_t n;

	while ((part = frames_next(&path, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, part);
		node = part_put(f, node, stacks_tier_name(text));
	}
	if (frames_unknown(frames)) {
		node = part_put(f, node, stacks_fn_name(frames));
		frames = "";
	}
	while ((part = frames_next(&frames, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, part);
		node = part_put(f, node, text);
	}
	if (node == FLAME_NONE)
		return false;
	flame_slice_put(&f->t, f->slices, &f->nslices, node, v->w_time);
	return true;
}

static void
flame_free(struct flame *f)
{
	free(f->v);
	free(f->labels);
	free(f->slices);
	intern_free(&f->names);
	flame_tree_free(&f->t);
}

/* Of rows with at least this time; KP_ENOMEM leaves nothing to be freed. */
static enum kp_err
flame_make(struct flame *f, const struct stacks *s, kp_dur_ns least)
{
	uint32_t type = 0;
	bool made;

	*f = (struct flame){ .n = 0 };
	f->v = unite(s, &f->n);
	f->slices = calloc(f->n + 1, sizeof(*f->slices));
	made = f->v != NULL && f->slices != NULL;
	for (uint32_t i = 0; i < f->n && made; i++) {
		if (strcmp(f->v[i].identity, f->v[type].identity) != 0)
			type = i;
		if (f->v[i].w_time >= least)
			made = flame_row_put(f, &f->v[i], type);
	}
	if (made)
		return KP_OK;
	flame_free(f);
	return KP_ENOMEM;
}

static void
put_label(struct kp_buf *b, const void *ctx, uint32_t label, bool is_root)
{
	const struct flame *f = ctx;

	kp_buf_str(b, is_root ? f->v[label].identity : f->labels[label]);
}

enum kp_err
stacks_folded(struct kp_buf *b, const struct stacks *s)
{
	struct flame f;
	enum kp_err err = flame_make(&f, s, KP_NS_PER_US);

	if (err != KP_OK)
		return err;
	flame_tree_folded(b, &f.t, &(struct flame_labels){
	    (uint32_t)f.names.len, put_label, NULL, &f }, f.slices, f.nslices);
	flame_free(&f);
	return KP_OK;
}

enum kp_err
stacks_speedscope(struct kp_buf *b, const struct stacks *s)
{
	struct flame f;
	enum kp_err err = flame_make(&f, s, 0);

	if (err != KP_OK)
		return err;
	flame_tree_speedscope(b, &f.t, &(struct flame_labels){
	    (uint32_t)f.names.len, put_label, NULL, &f }, "sampled stacks",
	    f.slices, f.nslices);
	flame_free(&f);
	return KP_OK;
}
