/*
 * multi.c - opens several databases as one, and joins what each of them
 * answers: windows, names, requests, events, runs.  A query of one file gets
 * that file's answer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "range.h"
#include "store/schema.h"
#include "multi.h"
#include "one_file.h"

#define CACHE_KIB 16384u	/* of all files */
#define CACHE_KIB_MIN 128u	/* of each, all the same */

/* ---- opening ---- */

/* A run, by the time that it started, and the file that holds it. */
struct held {
	int64_t started;
	size_t file;
};

struct helds {
	struct held *v;
	size_t n;
};

static enum kp_err
read_runs(struct kp_query *part, size_t file, struct helds *all)
{
	struct read rd;

	read_start(&rd, part, "select started_ns from run");
	while (read_next(&rd)) {
		if (!read_room(&rd, &all->v, all->n))
			break;
		all->v[all->n++] = (struct held){ read_int(&rd, 0), file };
	}
	return read_end(&rd);
}

static int
held_cmp(const void *pa, const void *pb)
{
	const struct held *a = pa, *b = pb;

	if (a->started != b->started)
		return a->started < b->started ? -1 : 1;
	return (a->file > b->file) - (a->file < b->file);
}

/* A run that two files hold would be counted twice. */
static enum kp_err
check_runs(struct kp_query *set, const struct kp_query_files *f, char **why)
{
	struct helds all = { NULL, 0 };
	const struct held *h;
	enum kp_err err = KP_OK;

	for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
		err = read_runs(set->parts[i], i, &all);
		if (err != KP_OK)
			schema_why(why, "cannot read '%s': %s", f->v[i],
			    set->parts[i]->why);
	}
	if (err == KP_OK && all.n > 1)
		qsort(all.v, all.n, sizeof(*all.v), held_cmp);
	for (size_t i = 1; i < all.n && err == KP_OK; i++) {
		h = &all.v[i - 1];
		if (h[0].started != h[1].started || h[0].file == h[1].file)
			continue;
		schema_why(why, "'%s' and '%s' hold the same run of kprofd, "
		    "which would count twice (leave one out)",
		    f->v[h[0].file], f->v[h[1].file]);
		err = KP_ESTATE;
	}
	free(all.v);
	return err;
}

/* What SQLite keeps of each file: all together no more than of a few. */
static void
share_cache(struct kp_query *set)
{
	size_t kib = CACHE_KIB / set->nparts;
	char sql[64];

	snprintf(sql, sizeof(sql), "pragma cache_size = -%zu",
	    kib > CACHE_KIB_MIN ? kib : CACHE_KIB_MIN);
	for (size_t i = 0; i < set->nparts; i++)
		sqlite3_exec(set->parts[i]->conn, sql, NULL, NULL, NULL);
}

enum kp_err
kp_query_open_all(struct kp_query **out, const struct kp_query_files *f,
    char **why)
{
	struct kp_query *set;
	enum kp_err err = KP_OK;

	*why = NULL;
	if (f->n == 1)
		return kp_query_open(out, f->v[0], why);
	set = calloc(1, sizeof(*set));
	if (set != NULL)
		set->parts = calloc(f->n, sizeof(struct kp_query *));
	if (set == NULL || set->parts == NULL) {
		free(set);
		schema_why(why, "out of memory");
		return KP_ENOMEM;
	}
	for (size_t i = 0; i < f->n && err == KP_OK; i++) {
		err = kp_query_open(&set->parts[i], f->v[i], why);
		if (err == KP_OK)
			set->nparts++;
	}
	if (err == KP_OK)
		err = check_runs(set, f, why);
	if (err == KP_OK)
		share_cache(set);
	if (err == KP_OK)
		*out = set;
	else
		kp_query_close(set);
	return err;
}

/* Room for n elements; NULL, and said so: there is none. */
static void *
set_grow(struct kp_query *set, void *v, size_t n, size_t size)
{
	v = reallocarray(v, n > 0 ? n : 1, size);
	if (v == NULL)
		snprintf(set->why, sizeof(set->why), "out of memory");
	return v;
}

/* ---- windows ---- */

struct stream {
	struct read rd;
	kp_wall_ns start, end;
	bool more;
};

static void
stream_next(struct stream *s)
{
	s->more = read_next(&s->rd);
	if (s->more) {
		s->start = read_int(&s->rd, 0);
		s->end = read_int(&s->rd, 1);
	}
}

enum kp_err
multi_windows(struct kp_query *set, const struct kp_query_range *r,
    void (*fn)(void *ctx, kp_wall_ns start, kp_wall_ns end), void *ctx)
{
	struct stream *v = set_grow(set, NULL, set->nparts, sizeof(*v)), *least;
	enum kp_err err = KP_OK, one;

	if (v == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < set->nparts; i++) {
		read_start(&v[i].rd, set->parts[i], "select w.start_ns,"
		    " w.end_ns from time_window w" IN_RANGE
		    " order by w.start_ns");
		range_bind(&v[i].rd, r);
		stream_next(&v[i]);
	}
	do {
		least = NULL;
		for (size_t i = 0; i < set->nparts; i++) {
			if (v[i].more && (least == NULL ||
			    v[i].start < least->start))
				least = &v[i];
		}
		if (least != NULL) {
			fn(ctx, least->start, least->end);
			stream_next(least);
		}
	} while (least != NULL);
	for (size_t i = 0; i < set->nparts; i++) {
		one = read_end(&v[i].rd);
		if (err == KP_OK)
			err = query_part_fail(set, set->parts[i], one);
	}
	free(v);
	return err;
}

enum kp_err
multi_shares(struct kp_query *set, const struct kp_query_range *r)
{
	struct kp_query_nodes nodes = { 0 };
	enum kp_err err = kp_query_nodes(set, r, &nodes);

	for (size_t i = 0; i < set->nparts; i++)
		set->parts[i]->shares = nodes.n > 1;
	kp_query_nodes_free(&nodes);
	return err;
}

enum kp_err
kp_query_span(struct kp_query *set, kp_wall_ns *first, kp_wall_ns *last)
{
	kp_wall_ns a, b;
	enum kp_err err;

	if (set->nparts == 0)
		return file_span(set, first, last);
	*first = *last = 0;
	for (size_t i = 0; i < set->nparts; i++) {
		err = file_span(set->parts[i], &a, &b);
		if (err != KP_OK)
			return query_part_fail(set, set->parts[i], err);
		if (b == 0)
			continue;
		if (*last == 0 || a < *first)
			*first = a;
		if (b > *last)
			*last = b;
	}
	return KP_OK;
}

/* ---- names ---- */

static bool
has_name(const char *const *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(v[i], name) == 0)
			return true;
	}
	return false;
}

/* Those of t, from the from-th to before the to-th, that are new. */
static enum kp_err
add_tiers(struct kp_query *set, struct kp_query_tiers *all,
    const struct kp_query_tiers *t, size_t from, size_t to)
{
	const char **v = set_grow(set, all->v, all->n + t->n, sizeof(*v));

	if (v == NULL)
		return KP_ENOMEM;
	all->v = v;
	for (size_t i = from; i < to; i++) {
		if (!has_name(v, all->n, t->v[i]))
			v[all->n++] = t->v[i];
	}
	return KP_OK;
}

/* In any file's last tiers.conf first, in its order. */
enum kp_err
kp_query_tiers(struct kp_query *set, struct kp_query_tiers *out)
{
	struct kp_query_tiers all = { 0 }, one;
	enum kp_err err = KP_OK;

	if (set->nparts == 0)
		return file_tiers(set, out);
	for (size_t i = 0; i < 2 * set->nparts && err == KP_OK; i++) {
		struct kp_query *part = set->parts[i % set->nparts];
		bool old = i >= set->nparts;

		one = (struct kp_query_tiers){ 0 };
		err = query_part_fail(set, part, file_tiers(part, &one));
		if (err == KP_OK)
			err = add_tiers(set, &all, &one, old ? one.current : 0,
			    old ? one.n : one.current);
		if (!old)
			all.current = all.n;
		kp_query_tiers_free(&one);
	}
	if (err == KP_OK)
		*out = all;
	else
		kp_query_tiers_free(&all);
	return err;
}

static int
name_cmp(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Each of them once; returns how many that are. */
static size_t
sort_names(const char **v, size_t n)
{
	size_t kept = 0;

	if (n > 1)
		qsort(v, n, sizeof(*v), name_cmp);
	for (size_t i = 0; i < n; i++) {
		if (kept == 0 || strcmp(v[kept - 1], v[i]) != 0)
			v[kept++] = v[i];
	}
	return kept;
}

enum kp_err
kp_query_nodes(struct kp_query *set, const struct kp_query_range *r,
    struct kp_query_nodes *out)
{
	struct kp_query_nodes all = { 0 }, one;
	enum kp_err err = KP_OK;
	const char **v;

	if (set->nparts == 0)
		return file_nodes(set, r, out);
	for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
		one = (struct kp_query_nodes){ 0 };
		err = query_part_fail(set, set->parts[i],
		    file_nodes(set->parts[i], r, &one));
		v = set_grow(set, all.v, all.n + one.n, sizeof(*v));
		if (v == NULL)
			err = KP_ENOMEM;
		else
			all.v = v;
		for (size_t k = 0; k < one.n && err == KP_OK; k++)
			v[all.n++] = one.v[k];
		kp_query_nodes_free(&one);
	}
	if (err == KP_OK) {
		all.n = sort_names(all.v, all.n);
		*out = all;
	} else {
		kp_query_nodes_free(&all);
	}
	return err;
}

/* ---- requests ---- */

/* By what they were chosen by: all of them by the same. */
static int
slower(const void *pa, const void *pb)
{
	const struct kp_query_request *a = pa, *b = pb;

	if (a->by != b->by)
		return a->by > b->by ? -1 : 1;
	if (a->by < 0 && a->total != b->total)
		return a->total > b->total ? -1 : 1;
	return (a->id > b->id) - (a->id < b->id);
}

static void
keep_page(struct kp_query_requests *s, size_t skip, size_t limit)
{
	qsort(s->v, s->n, sizeof(*s->v), slower);
	skip = skip < s->n ? skip : s->n;
	s->n -= skip;
	s->n = s->n < limit ? s->n : limit;
	memmove(s->v, s->v + skip, s->n * sizeof(*s->v));
}

/* A tier that none of them knows is a mistake; that some do not, is not. */
enum kp_err
kp_query_slow(struct kp_query *set, const struct kp_query_range *r,
    enum kp_slow_by by, const char *tier, size_t skip, size_t limit,
    struct kp_query_requests *out)
{
	struct kp_query_requests all = { 0 }, one;
	struct kp_query_request *v;
	enum kp_err err = KP_OK;
	size_t strange = 0;

	if (set->nparts == 0)
		return file_slow(set, r, by, tier, skip, limit, out);
	for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
		one = (struct kp_query_requests){ 0 };
		err = file_slow(set->parts[i], r, by, tier, 0,
		    skip + limit, &one);
		if (err == KP_ENOENT && ++strange < set->nparts) {
			err = KP_OK;
			continue;
		}
		query_part_fail(set, set->parts[i], err);
		v = set_grow(set, all.v, all.n + one.n, sizeof(*v));
		if (v == NULL)
			err = KP_ENOMEM;
		else
			all.v = v;
		for (size_t k = 0; k < one.n && err == KP_OK; k++) {
			v[all.n] = one.v[k];
			v[all.n++].id += (int64_t)i * MULTI_STRIDE;
		}
		kp_query_requests_free(&one);
	}
	if (err == KP_OK) {
		keep_page(&all, skip, limit);
		*out = all;
	} else {
		kp_query_requests_free(&all);
	}
	return err;
}

enum kp_err
kp_query_tree(struct kp_query *set, int64_t id, struct kp_query_tree *out)
{
	uint64_t i = (uint64_t)id / (uint64_t)MULTI_STRIDE;
	enum kp_err err;

	if (set->nparts == 0)
		return file_tree(set, id, out);
	if (id < 0 || i >= set->nparts)
		return KP_ENOENT;
	err = file_tree(set->parts[i], id % MULTI_STRIDE, out);
	if (err == KP_OK)
		out->request.id = id;
	return query_part_fail(set, set->parts[i], err);
}

enum kp_err
kp_query_around(struct kp_query *set, const struct kp_query_request *rq,
    struct kp_query_range *out)
{
	uint64_t i = (uint64_t)rq->id / (uint64_t)MULTI_STRIDE;

	if (set->nparts == 0)
		return file_around(set, rq, out);
	if (rq->id < 0 || i >= set->nparts)
		return KP_ENOENT;
	return query_part_fail(set, set->parts[i],
	    file_around(set->parts[i], rq, out));
}

/* ---- history ---- */

static int
earlier(const void *pa, const void *pb)
{
	const struct kp_query_event *a = pa, *b = pb;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return (a->run > b->run) - (a->run < b->run);
}

enum kp_err
kp_query_events(struct kp_query *set, const struct kp_query_range *r,
    size_t limit, struct kp_query_events *out)
{
	struct kp_query_events all = { 0 }, one;
	struct kp_query_event *v;
	enum kp_err err = KP_OK;
	size_t skip;

	if (set->nparts == 0)
		return file_events(set, r, limit, out);
	for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
		one = (struct kp_query_events){ 0 };
		err = query_part_fail(set, set->parts[i],
		    file_events(set->parts[i], r, limit, &one));
		v = set_grow(set, all.v, all.n + one.n, sizeof(*v));
		if (v == NULL)
			err = KP_ENOMEM;
		else
			all.v = v;
		for (size_t k = 0; k < one.n && err == KP_OK; k++) {
			v[all.n] = one.v[k];
			v[all.n++].run += (int64_t)i * MULTI_STRIDE;
		}
		kp_query_events_free(&one);
	}
	if (err != KP_OK) {
		kp_query_events_free(&all);
		return err;
	}
	qsort(all.v, all.n, sizeof(*all.v), earlier);
	skip = all.n > limit ? all.n - limit : 0;
	all.n -= skip;
	memmove(all.v, all.v + skip, all.n * sizeof(*all.v));
	*out = all;
	return KP_OK;
}

static int
later(const void *pa, const void *pb)
{
	const struct kp_query_run *a = pa, *b = pb;

	if (a->started != b->started)
		return a->started > b->started ? -1 : 1;
	return (a->id < b->id) - (a->id > b->id);
}

enum kp_err
kp_query_runs(struct kp_query *set, size_t limit, struct kp_query_runs *out)
{
	struct kp_query_runs all = { 0 }, one;
	struct kp_query_run *v;
	enum kp_err err = KP_OK;

	if (set->nparts == 0)
		return file_runs(set, limit, out);
	for (size_t i = 0; i < set->nparts && err == KP_OK; i++) {
		one = (struct kp_query_runs){ 0 };
		err = query_part_fail(set, set->parts[i],
		    file_runs(set->parts[i], limit, &one));
		v = set_grow(set, all.v, all.n + one.n, sizeof(*v));
		if (v == NULL)
			err = KP_ENOMEM;
		else
			all.v = v;
		for (size_t k = 0; k < one.n && err == KP_OK; k++) {
			v[all.n] = one.v[k];
			v[all.n++].id += (int64_t)i * MULTI_STRIDE;
		}
		kp_query_runs_free(&one);
	}
	if (err != KP_OK) {
		kp_query_runs_free(&all);
		return err;
	}
	qsort(all.v, all.n, sizeof(*all.v), later);
	all.n = all.n < limit ? all.n : limit;
	*out = all;
	return KP_OK;
}
