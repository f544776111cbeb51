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
#include "kprofd/fn_name.h"
#include "stored_stacks.h"
#include "text/flame_tree.h"
#include "text/json.h"
#include "text/pprof.h"
#include "text/text.h"

#define PART_BYTES_MAX 4096u	/* of a tier or a frame that is shown */
#define PPROF_PLACES_MAX 1024u	/* frames of a stack: the VM shows 64 at most */
#define RUNS 20			/* looked at for one that did start */

/* ---- the requests ---- */

static bool
is_total(const char *s)
{
	return strcmp(s, "_total") == 0;
}

/* Of a cell of _total: those that the range is of. */
static uint64_t
requests_of(const struct kp_cell *c, const struct kp_query_range *r)
{
	uint64_t n;

	if (r->took_to == 0)
		return c->w_requests;
	n = kp_hist_octaves(&c->hist, r->took_from, r->took_to);
	return r->took_other ? c->hist.count - n : n;
}

/*
 * Each request is of one type, so the types' sum is that of all requests asked
 * for; the row of all would have other types, too.
 */
static enum kp_err
take_requests(struct stacks *s, const struct kp_query_sum *sum,
    const struct kp_query_range *r)
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
			c->identity, requests_of(c, r) };
		s->requests[0].requests += requests_of(c, r);
	}
	return KP_OK;
}

static enum kp_err
read_requests(struct kp_query *q, const struct kp_query_range *r,
    struct stacks *s)
{
	const struct kp_query_key key = { "_total", r->identity };
	struct kp_query_sum sum = { 0 };
	struct kp_query_range of = *r;
	enum kp_err err = KP_OK;

	of.keys = &key;
	of.nkeys = 1;
	of.since = s->stacks.since;
	of.until = s->stacks.until;
	of.exact = true;
	if (s->stacks.until > 0)
		err = kp_query_sum(q, &of, &sum);
	if (err == KP_OK)
		err = take_requests(s, &sum, r);
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

/* Are there samples of other request types, or of requests that took any time? */
static enum kp_err
has_others(struct kp_query *q, const struct kp_query_range *r, bool *others)
{
	struct kp_query_range any = *r;
	struct kp_query_stacks s;
	enum kp_err err;

	*others = false;
	any.took_to = 0;
	if (r->took_to == 0)
		any.identity = any.identity_glob = NULL;
	if (r->took_to == 0 && r->identity == NULL && r->identity_glob == NULL)
		return KP_OK;
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
	if (others && r->took_to > 0)
		*why = r->took_other ? "no sample is of a request of another duration" :
		    "no sample is of a request of this duration (see -took)";
	else if (others)
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

/* ---- names of functions ---- */

/* Calls the compiler's functions as people do, by the one that holds them. */
static enum kp_err
read_frames(struct stacks *s)
{
	struct kp_query_stack *row = s->stacks.v, *end = row + s->stacks.n;
	char fn[PART_BYTES_MAX], shown[FN_NAME_MAX];
	const struct interned *text;
	const char *frames, *part;
	struct kp_buf b;
	size_t n, len;

	kp_buf_init(&b, SIZE_MAX / 2);
	for (; row < end; row++) {
		frames = row->frames;
		if (strstr(frames, "'-") == NULL && strstr(frames, "\"-") == NULL)
			continue;
		kp_buf_reset(&b);
		while ((part = frames_next(&frames, &n)) != NULL) {
			len = frame_fn(part, n);
			snprintf(fn, sizeof(fn), "%.*s", (int)len, part);
			kp_buf_str(&b, b.len > 0 ? ";" : "");
			kp_buf_str(&b, fn_read(shown, sizeof(shown), fn));
			kp_buf_put(&b, part + len, n - len);
		}
		kp_buf_u8(&b, '\0');
		if (b.err != KP_OK ||
		    ((text = intern_get(&s->texts, b.p, b.len)) == NULL &&
		    (text = intern_put(&s->texts, b.p, b.len, 0)) == NULL))
			break;
		row->frames = (const char *)text->key;
	}
	kp_buf_free(&b);
	return row == end ? KP_OK : KP_ENOMEM;
}

/* ---- all of it ---- */

/*
 * The VM's limit is not stored: but where stacks are cut, the deepest ones are.  A node
 * whose application has lowered it is not known.
 */
static bool
is_cut(const struct stacks *s, const char *frames)
{
	return s->depth >= KP_STACK_DEPTH && frames_count(frames) == s->depth;
}

static void
measure(struct stacks *s)
{
	const struct kp_query_stack *v = s->stacks.v, *end = v + s->stacks.n;
	unsigned depth;

	for (const struct kp_query_stack *row = v; row < end; row++) {
		depth = frames_count(row->frames);
		if (frames_other(row->frames))
			s->other += row->samples;
		else if (depth > s->depth)
			s->depth = depth;
	}
	for (const struct kp_query_stack *row = v; row < end; row++)
		if (is_cut(s, row->frames))
			s->cut += row->samples;
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
	s->took_from = r->took_from;
	s->took_to = r->took_to;
	s->took_other = r->took_other;
	kp_query_sum_free(&cover);
	if (err == KP_OK)
		err = read_frames(s);
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
	intern_free(&s->texts);
	free(s->requests);
	free(s);
}

void
stacks_keep(struct stacks *s, size_t cap,
    bool (*is_wanted)(const struct kp_query_stack *row, const void *ctx),
    const void *ctx)
{
	struct kp_query_stacks *to = &s->stacks;
	size_t n = to->n;

	to->n = 0;
	to->samples = to->left_samples;
	to->not_seen = 0;
	s->other = s->cut = 0;
	for (size_t i = 0; i < n; i++) {
		const struct kp_query_stack row = to->v[i];

		if (!is_wanted(&row, ctx))
			continue;
		to->samples += row.samples;
		if (row.state == KP_STACK_NOT_SEEN)
			to->not_seen += row.samples;
		if (frames_other(row.frames))
			s->other += row.samples;
		if (is_cut(s, row.frames))
			s->cut += row.samples;
		if (to->n < cap) {
			to->v[to->n++] = row;
			continue;
		}
		to->left++;
		to->left_samples += row.samples;
		to->left_time = sat_add(to->left_time, row.w_time);
	}
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

static void
put_side(struct json *j, const struct stacks *s)
{
	json_time(j, "from", s->start);
	json_time(j, "to", s->end);
	if (s->took_to == 0) {
		json_null(j, "took");
	} else {
		json_object(j, "took");
		json_ms(j, "over_ms", kp_hist_octave_end(s->took_from - 1u));
		if (s->took_to < KP_HIST_OCTAVES)
			json_ms(j, "to_ms", kp_hist_octave_end(s->took_to));
		else
			json_null(j, "to_ms");
		json_bool(j, "other", s->took_other);
		json_end(j);
	}
	json_uint(j, "samples", s->stacks.samples);
	json_uint(j, "not_seen", s->stacks.not_seen);
	json_uint(j, "untimed", s->stacks.untimed);
	json_uint(j, "dropped", s->other);
	json_uint(j, "depth", s->depth);
	json_uint(j, "cut", s->cut);
	json_object(j, "left_out");
	json_uint(j, "stacks", s->stacks.left);
	json_uint(j, "samples", s->stacks.left_samples);
	json_ms(j, "ms", s->stacks.left_time);
	json_end(j);
	json_string(j, "why", s->why);
	json_array(j, "requests");
	for (size_t i = 0; i < s->nrequests; i++) {
		json_object(j, NULL);
		json_string(j, "identity", s->requests[i].identity);
		json_uint(j, "requests", s->requests[i].requests);
		json_end(j);
	}
	json_end(j);
	json_array(j, "stacks");
	for (size_t i = 0; i < s->stacks.n && j->b->err == KP_OK; i++)
		put_row(j, &s->stacks.v[i]);
	json_end(j);
}

void
stacks_json(struct kp_buf *b, const struct stacks *s, const struct stacks *versus)
{
	struct json j;

	json_open(&j, b);
	put_side(&j, s);
	if (versus != NULL) {
		json_object(&j, "versus");
		put_side(&j, versus);
		json_end(&j);
	} else {
		json_null(&j, "versus");
	}
	json_close(&j);
}

/*
 * ---- for flame graphs ----
 *
 * Below each request type its tiers, below each tier the frames of the stacks met
 * there; of one that the VM may have cut, below "...".
 */

struct flame {
	struct intern names;
	const char **labels;		/* the keys in names */
	size_t room;
	struct flame_tree t;
	struct flame_slice *slices;	/* by node; then those that have a time */
	uint32_t nslices;
};

/* FLAME_NONE: out of memory; parent may be that, too, where this is not the root. */
static uint32_t
part_put(struct flame *f, uint32_t parent, const char *part, size_t n,
    bool is_root)
{
	char text[PART_BYTES_MAX];
	const struct interned *known;

	n = (size_t)snprintf(text, sizeof(text), "%.*s", (int)n, part) + 1;
	n = n < sizeof(text) ? n : sizeof(text);
	known = intern_get(&f->names, text, n);
	if (known == NULL) {
		if (vec_room(&f->labels, &f->room, f->names.len,
		    UINT32_MAX) != KP_OK || (known = intern_put(&f->names,
		    text, n, (uint32_t)f->names.len)) == NULL)
			return FLAME_NONE;
		f->labels[known->val] = (const char *)known->key;
	}
	return parent != FLAME_NONE || is_root ? flame_tree_child(&f->t, parent,
	    known->val) : FLAME_NONE;
}

/* The node of a stack, in which a function that calls itself is one box. */
static uint32_t
stack_put(struct flame *f, const struct stacks *s, const struct kp_query_stack *v)
{
	const char *path = v->path, *frames = v->frames, *part, *name, *last = "";
	uint32_t node = part_put(f, FLAME_NONE, v->identity, strlen(v->identity),
	    true);
	char text[PART_BYTES_MAX];
	size_t n, nlast = 0;

	while ((part = frames_next(&path, &n)) != NULL) {
		snprintf(text, sizeof(text), "%.*s", (int)n, part);
		name = stacks_tier_name(text);
		node = part_put(f, node, name, strlen(name), false);
	}
	if (frames_unknown(frames)) {
		name = stacks_fn_name(frames);
		return part_put(f, node, name, strlen(name), false);
	}
	if (is_cut(s, frames))
		node = part_put(f, node, "...", 3, false);
	for (; (part = frames_next(&frames, &n)) != NULL; last = part) {
		if (nlast == frame_fn(part, n) && memcmp(last, part, nlast) == 0)
			continue;
		nlast = frame_fn(part, n);
		node = part_put(f, node, part, n, false);
	}
	return node;
}

uint64_t
stacks_requests_of(const struct stacks *s, const char *identity)
{
	for (size_t i = 0; i < s->nrequests; i++)
		if (strcmp(s->requests[i].identity, identity) == 0)
			return s->requests[i].requests;
	return 0;
}

/* The rows of one side; of the other one as many requests as now.  False: no memory. */
static bool
rows_put(struct flame *f, const struct stacks *s, const struct stacks *now)
{
	const struct kp_query_stack *row = s->stacks.v;
	struct flame_slice *to;
	uint64_t of, as;
	uint32_t node;
	double before;

	for (size_t i = 0; i < s->stacks.n; i++, row++) {
		node = stack_put(f, s, row);
		if (node == FLAME_NONE || vec_reach(&f->slices, &f->nslices,
		    node) != KP_OK)
			return false;
		to = &f->slices[node];
		to->node = node;
		if (now == NULL) {
			to->time = sat_add(to->time, row->w_time);
			continue;
		}
		of = stacks_requests_of(s, row->identity);
		as = stacks_requests_of(now, row->identity);
		before = (double)row->w_time;
		if (of > 0 && as > 0)
			before *= (double)as / (double)of;
		to->before = sat_add(to->before, before < 0x1p63 ?
		    (kp_dur_ns)before : INT64_MAX);
	}
	return true;
}

static const char *
type_of(const struct flame *f, uint32_t node)
{
	while (f->t.v[node].parent != FLAME_NONE)
		node = f->t.v[node].parent;
	return f->labels[f->t.v[node].label];
}

static int
slice_order(const void *pa, const void *pb, void *ctx)
{
	const struct flame_slice *a = pa, *b = pb;
	int d = strcmp(type_of(ctx, a->node), type_of(ctx, b->node));

	if (d != 0 || (a->node == b->node))
		return d;
	if (a->time != b->time)
		return a->time < b->time ? 1 : -1;
	return a->node < b->node ? -1 : 1;
}

static void
flame_free(struct flame *f)
{
	free(f->labels);
	free(f->slices);
	intern_free(&f->names);
	flame_tree_free(&f->t);
}

/* Slices with at least this time, by type, the longest first.  KP_ENOMEM: free it. */
static enum kp_err
flame_make(struct flame *f, const struct stacks *s, const struct stacks *versus,
    kp_dur_ns least)
{
	struct flame_slice *v;
	size_t n = 0;

	*f = (struct flame){ .nslices = 0 };
	if (!rows_put(f, s, NULL) ||
	    (versus != NULL && !rows_put(f, versus, s)))
		return KP_ENOMEM;
	v = f->slices;
	for (uint32_t i = 0; i < f->nslices; i++)
		if ((v[i].time > 0 || v[i].before > 0) &&
		    (v[i].time >= least || v[i].before >= least))
			v[n++] = v[i];
	if (n > 0)
		qsort_r(v, n, sizeof(*v), slice_order, f);
	f->nslices = 0;
	for (size_t i = 0, to = 0; i < n; i++) {
		kp_dur_ns before = v[i].before;

		flame_slice_put(&f->t, v, &to, v[i].node, v[i].time);
		v[i].before = before;
		f->nslices++;
	}
	return KP_OK;
}

static void
put_label(struct kp_buf *b, const void *ctx, uint32_t label, bool is_root)
{
	const struct flame *f = ctx;

	(void)is_root;
	kp_buf_str(b, f->labels[label]);
}

/* ---- pprof ---- */

/* The innermost of a path, and the path as a text: "web > db". */
static const char *
tiers_text(char text[PART_BYTES_MAX], char tier[PART_BYTES_MAX], const char *path)
{
	const char *part;
	size_t n, len = 0;

	text[0] = tier[0] = '\0';
	while ((part = frames_next(&path, &n)) != NULL) {
		snprintf(tier, PART_BYTES_MAX, "%.*s", (int)n, part);
		if (len < PART_BYTES_MAX)
			len += (size_t)snprintf(text + len, PART_BYTES_MAX - len,
			    "%s%s", len > 0 ? " > " : "", stacks_tier_name(tier));
	}
	return text;
}

enum kp_err
stacks_pprof(struct kp_buf *b, const struct stacks *s, const struct pprof_otlp *otlp)
{
	static const struct pprof_type types[] = { PPROF_STACK_TYPES };
	char tiers[PART_BYTES_MAX], tier[PART_BYTES_MAX];
	uint64_t places[PPROF_PLACES_MAX], samples = 0;
	const char *frames, *part;
	kp_dur_ns time = 0;
	struct pprof p;
	size_t n, len, at;

	pprof_begin(&p, types, 3, 2, otlp);
	for (size_t i = 0; i < s->stacks.n; i++) {
		const struct kp_query_stack *row = &s->stacks.v[i];
		bool works = (KP_STACK_WORKING >> row->state & 1) != 0;

		at = PPROF_PLACES_MAX;
		frames = row->frames;
		if (is_cut(s, frames))
			places[--at] = pprof_place(&p, "...", 3, 0);
		if (frames_unknown(frames)) {
			frames = stacks_fn_name(frames);
			places[--at] = pprof_place(&p, frames, strlen(frames), 0);
			frames = "";
		}
		while (at > 0 && (part = frames_next(&frames, &n)) != NULL) {
			len = frame_fn(part, n);
			places[--at] = pprof_place(&p, part, len, len < n ?
			    (uint32_t)strtoul(part + len + 1, NULL, 10) : 0);
		}
		tiers_text(tiers, tier, row->path);
		pprof_sample(&p, places + at, PPROF_PLACES_MAX - at,
		    (const int64_t[]){ (int64_t)row->samples, row->w_time,
		    works ? row->w_time : 0 }, (const struct pprof_label[]){
		    { "node", row->node }, { "request_type", row->identity },
		    { "tier", stacks_tier_name(tier) }, { "tiers", tiers },
		    { "state", kp_stack_state_name(row->state) } }, 5);
		samples += row->samples;
		time = sat_add(time, row->w_time);
	}
	pprof_end(&p, b, s->start, sat_span(s->start, s->end), samples > 0 ?
	    time / (kp_dur_ns)samples : 0);
	return b->err;
}

enum kp_err
stacks_put(struct kp_buf *b, const struct stacks *s,
    const struct stacks *versus, enum stacks_form form)
{
	bool differs = form == STACKS_DIFFFOLDED;
	struct flame f;
	enum kp_err err;

	if (form == STACKS_JSON)
		stacks_json(b, s, versus);
	if (form == STACKS_PPROF)
		stacks_pprof(b, s, NULL);
	if (form == STACKS_JSON || form == STACKS_PPROF)
		return b->err;
	err = flame_make(&f, s, differs ? versus : NULL,
	    form == STACKS_SPEEDSCOPE ? 0 : KP_NS_PER_US);
	if (err == KP_OK) {
		const struct flame_labels l = { (uint32_t)f.names.len, put_label,
			NULL, &f };

		if (form == STACKS_SPEEDSCOPE)
			flame_tree_viewer(b, &f.t, &l, "sampled stacks", f.slices,
			    f.nslices, FLAME_SPEEDSCOPE);
		else
			flame_tree_folded(b, &f.t, &l, f.slices, f.nslices,
			    differs);
	}
	flame_free(&f);
	return err != KP_OK ? err : b->err;
}
