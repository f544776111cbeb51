/*
 * query.c - runs the typed queries: tiers, slow requests, trees, events, runs.
 * sum.c adds windows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "base/sat.h"
#include "range.h"

static bool
has_tier(const struct kp_query_tiers *t, const char *name)
{
	for (size_t i = 0; i < t->n; i++) {
		if (strcmp(t->v[i], name) == 0)
			return true;
	}
	return false;
}

enum kp_err
kp_query_tiers(struct kp_query *q, struct kp_query_tiers *out)
{
	struct kp_query_tiers t = { 0 };
	const char *name;
	enum kp_err err;
	struct read rd;

	read_start(&rd, q, "select position is null, name from tier"
	    " where name <> '_total' and instr(name, '" KP_PART_SEP "') = 0"
	    " order by position is null, position, name");
	read_order(&rd, 0, 1);
	while (read_next(&rd)) {
		name = read_text(&rd, 1);
		if (has_tier(&t, name))
			continue;
		if (!read_room(&rd, &t.v, t.n))
			break;
		t.v[t.n++] = name;
		t.current += read_int(&rd, 0) == 0;
	}
	err = read_end(&rd);
	if (err == KP_OK)
		*out = t;
	else
		kp_query_tiers_free(&t);
	return err;
}

void
kp_query_tiers_free(struct kp_query_tiers *t)
{
	free(t->v);
	*t = (struct kp_query_tiers){ 0 };
}

enum kp_err
kp_query_nodes(struct kp_query *q, const struct kp_query_range *r,
    struct kp_query_nodes *out)
{
	struct kp_query_nodes n = { 0 };
	struct kp_query_range whole;
	const char *name;
	enum kp_err err = range_whole(q, r, &whole);
	struct read rd;

	if (err != KP_OK)
		return err;
	read_start(&rd, q, "select name from node where id in"
	    " (select node_id from time_window"
	    " where start_ns >= ?1 and start_ns < ?2)"
	    " and (?3 is null or one_of(name, ?3)) order by name");
	read_bind(&rd, whole.since);
	read_bind(&rd, whole.until);
	read_bind_text(&rd, r->node);
	read_order(&rd, 0, 1);
	while (read_next(&rd)) {
		name = read_text(&rd, 0);
		if (n.n > 0 && strcmp(n.v[n.n - 1], name) == 0)
			continue;
		if (!read_room(&rd, &n.v, n.n))
			break;
		n.v[n.n++] = name;
	}
	err = read_end(&rd);
	if (err == KP_OK)
		*out = n;
	else
		kp_query_nodes_free(&n);
	return err;
}

void
kp_query_nodes_free(struct kp_query_nodes *n)
{
	free(n->v);
	*n = (struct kp_query_nodes){ 0 };
}

#define REQUEST_COLUMNS "q.id, q.start_ns, q.total_ns, n.name, i.name," \
	" q.label, q.parent_label, q.weight, q.outcome," \
	" (select count(*) from call c where c.request_id = q.id)," \
	" (select count(*) from call c where c.request_id = q.id" \
	" and c.outcome = " RAISED "), q.traceparent"
#define RAISED "2"	/* KP_RAISED */
#define RAISED_INSIDE "6"	/* KP_QUERY_RAISED_INSIDE */
_Static_assert(KP_RAISED == 2 && KP_QUERY_RAISED_INSIDE == 6,
    "SQL has them as texts");
#define REQUEST_TABLES " join node n on n.id = q.node_id" \
	" join identity i on i.id = q.identity_id"

static void
request_row(struct read *rd, struct kp_query_request *r)
{
	const char *traceparent = read_text(rd, 11);
	char text[KP_TRACEPARENT];

	/* the file is untrusted, and callers take it apart */
	if (!kp_traceparent_parse(text, traceparent, strlen(traceparent)))
		traceparent = NULL;
	*r = (struct kp_query_request){
		.id = read_id(rd, 0),
		.start = read_int(rd, 1),
		.total = read_dur(rd, 2),
		.node = read_text(rd, 3),
		.identity = read_text(rd, 4),
		.label = (uint64_t)read_int(rd, 5),
		.parent_label = (uint64_t)read_int(rd, 6),
		.weight = (uint32_t)read_int(rd, 7),
		.outcome = (uint8_t)read_int(rd, 8),
		.ncalls = (uint32_t)read_int(rd, 9),
		.nraised = (uint32_t)read_int(rd, 10),
		.traceparent = traceparent,
		.by = read_dur(rd, 12),
	};
}

/*
 * This chooses requests first, by indexes only, and reads them afterwards.  The
 * last column merges the rows of several files.
 */
#define FOUND(key) "select " REQUEST_COLUMNS ", f.key_ns, -coalesce(" key \
	", -1) from (select q.id, "
#define FOUND_ORDER 13
#define FOUND_TRACE "q.traceparent >= '00-' || ?13 || '-'" \
	" and q.traceparent < '00-' || ?13 || '.'"
#define FOUND_IN " where q.start_ns >= ?1 and q.start_ns < ?2" \
	" and (?3 is null or q.node_id in" \
	" (select id from node where one_of(name, ?3)))" \
	" and (?4 is null or q.identity_id in" \
	" (select id from identity where name = ?4))" \
	" and (?5 is null or q.identity_id in" \
	" (select id from identity where name glob ?5))" \
	" and (?13 is null or (" FOUND_TRACE "))" \
	" and (?8 = 0 or q.outcome = ?8 or (?8 = " RAISED_INSIDE \
	" and exists (select 1 from call c where c.request_id = q.id" \
	" and c.outcome = " RAISED ")))" \
	" and (?12 = 0 or q.total_ns > ?11 and q.total_ns <= ?12)"
/* Rows that follow another one, by key and id. */
#define FOUND_AFTER(key) " and (coalesce(" key ", -1) < ?9" \
	" or (coalesce(" key ", -1) = ?9 and q.id > ?10))"
#define FOUND_TABLES " limit ?6) f join request q on q.id = f.id" \
	REQUEST_TABLES

#define FOUND_TOTAL(indexed, more) FOUND("q.total_ns") \
	"q.total_ns, ?7 as key_ns from request q" indexed FOUND_IN \
	FOUND_AFTER("q.total_ns") more \
	" order by q.total_ns desc, q.id" FOUND_TABLES \
	" order by q.total_ns desc, q.id"

static const char found_total[] = FOUND_TOTAL("", "");
static const char found_trace[] = FOUND_TOTAL(" indexed by request_traced",
    " and " FOUND_TRACE);
/* Chooses by request_time, tier 0: the entry call. */
static const char found_by[] = FOUND("f.key_ns")
    "t.self_ns as key_ns from request q"
    " cross join request_time t on t.request_id = q.id and t.tier_id ="
    " case when ?7 is null then 0"
    " else (select id from tier where name = ?7) end"
    FOUND_IN FOUND_AFTER("t.self_ns") " order by t.self_ns desc, q.id" FOUND_TABLES
    " order by f.key_ns desc, q.id";

/* KP_ENOENT: no file has the tier. */
enum kp_err
kp_query_tier(struct kp_query *q, const char *tier)
{
	bool found;
	struct read rd;
	enum kp_err err;

	read_start(&rd, q, "select 1 from tier where name = ?");
	read_bind_text(&rd, tier);
	found = read_next(&rd);
	err = read_end(&rd);
	return err == KP_OK && !found ? KP_ENOENT : err;
}

#define NAMES_MAX 50000

enum kp_err
kp_query_name(struct kp_query *q, enum kp_name_of of, const char *name, bool *found,
    const char **near)
{
	static const char *const names[] = { "select name from node limit ?",
		"select name from tier limit ?", "select name from identity limit ?" };
	const char **v = NULL, *one;
	struct read rd;
	size_t n = 0;

	*found = false;
	read_start(&rd, q, names[of]);
	read_bind(&rd, NAMES_MAX);
	while (!*found && read_next(&rd) && read_room(&rd, &v, n)) {
		one = read_text(&rd, 0);
		*found = strcmp(one, name) == 0;
		v[n++] = one;
	}
	*near = near_name(name, v, n, sizeof(*v),
	    (struct near_rule){ .edits = 2, .share = 3, .kept = 1 });
	free(v);
	return read_end(&rd);
}

static enum kp_err
read_requests(struct read *rd, size_t skip, size_t limit,
    struct kp_query_requests *out)
{
	struct kp_query_requests s = { 0 };
	enum kp_err err;

	while (s.n < limit && read_next(rd)) {
		if (skip > 0) {
			skip--;
			continue;
		}
		if (!read_room(rd, &s.v, s.n))
			break;
		request_row(rd, &s.v[s.n++]);
	}
	err = read_end(rd);
	if (err == KP_OK)
		*out = s;
	else
		kp_query_requests_free(&s);
	return err;
}

enum kp_err
kp_query_slow(struct kp_query *q, const struct kp_query_range *r,
    enum kp_slow_by by, const char *tier, size_t skip, size_t limit,
    struct kp_query_requests *out)
{
	enum kp_err err = KP_OK;
	struct read rd;

	if (by != KP_SLOW_TIER)
		tier = NULL;
	/* what a request spent in parts of tiers is not stored */
	if (tier != NULL)
		err = strstr(tier, KP_PART_SEP) != NULL ? KP_ENOENT :
		    kp_query_tier(q, tier);
	if (err != KP_OK)
		return err;
	read_start(&rd, q, by != KP_SLOW_TOTAL ? found_by :
	    r->trace != NULL ? found_trace : found_total);
	read_order(&rd, FOUND_ORDER, 1);
	read_bind(&rd, r->since);
	read_bind(&rd, r->until);
	read_bind_text(&rd, r->node);
	read_bind_text(&rd, r->identity);
	read_bind_text(&rd, r->identity_glob);
	read_bind(&rd, (int64_t)(skip + limit));
	read_bind_text(&rd, tier);
	read_bind(&rd, r->outcome);
	read_bind(&rd, r->after.is ? r->after.key : INT64_MAX);
	read_bind_id(&rd, r->after.id);
	read_bind(&rd, r->took_to > 0 ? kp_hist_octave_end(r->took_from - 1u) : 0);
	read_bind(&rd, kp_hist_octave_end(r->took_to));
	read_bind_text(&rd, r->trace);
	return read_requests(&rd, skip, limit, out);
}

void
kp_query_requests_free(struct kp_query_requests *s)
{
	free(s->v);
	*s = (struct kp_query_requests){ 0 };
}

static void
call_row(struct read *rd, struct kp_query_call *c, size_t seq)
{
	kp_dur_ns parent = read_dur(rd, 0);

	*c = (struct kp_query_call){
		/* the file is untrusted, and callers may index with it */
		.parent = parent >= 0 && (uint64_t)parent < seq ?
		    (uint32_t)parent : KP_NONE,
		.depth = (uint32_t)read_int(rd, 1),
		.fn = read_text(rd, 2),
		.tier = read_text(rd, 3),
		.pid = read_text(rd, 4),
		.start = read_int(rd, 5),
		.total = read_dur(rd, 6),
		.self = read_dur(rd, 7),
		.outcome = (uint8_t)read_int(rd, 8),
		.async = read_int(rd, 9) != 0,
		.node = read_text(rd, 10),
		.outlasts = read_int(rd, 11) != 0,
		.pauses = { .gc = read_dur(rd, 12), .out = read_dur(rd, 13) },
	};
}

static enum kp_err
read_calls(struct kp_query *q, size_t file, int64_t id,
    struct kp_query_tree *t)
{
	struct read rd;

	read_start_file(&rd, q, file, "select c.parent, c.depth, f.name,"
	    " t.name, c.pid, c.start_ns, c.total_ns, c.self_ns, c.outcome,"
	    " c.async, n.name, c.outlasts, c.gc_ns, c.out_ns"
	    " from call c join function f on f.id = c.function_id"
	    " left join tier t on t.id = c.tier_id"
	    " left join node n on n.id = c.node_id"
	    " where c.request_id = ? order by c.seq");
	read_bind(&rd, id);
	while (read_next(&rd)) {
		if (!read_room(&rd, &t->calls, t->ncalls))
			break;
		call_row(&rd, &t->calls[t->ncalls], t->ncalls);
		t->ncalls++;
	}
	return read_end(&rd);
}

#define RELATED "select " REQUEST_COLUMNS ", null from request q" REQUEST_TABLES \
	" where q.start_ns >= ?1 and q.start_ns <= ?2 and q.run_id =" \
	" (select run_id from request where id = ?3) and "
/* Clocks of nodes differ; and a request lasts no longer than a minute here. */
#define CLOCKS KP_NS_PER_S
#define LASTS (60 * KP_NS_PER_S)

static enum kp_err
read_outer(struct kp_query *q, size_t file, int64_t id, struct kp_query_tree *t)
{
	kp_wall_ns start = t->request.start;
	struct read rd;

	if (t->request.parent_label == 0)
		return KP_OK;
	read_start_file(&rd, q, file, RELATED "q.label = ?4 limit 1");
	read_bind(&rd, sat_add(start, -LASTS - CLOCKS));
	read_bind(&rd, sat_add(start, CLOCKS));
	read_bind(&rd, id);
	read_bind(&rd, (int64_t)t->request.parent_label);
	while (read_next(&rd))
		request_row(&rd, &t->outer);
	return read_end(&rd);
}

enum kp_err
kp_query_tree(struct kp_query *q, int64_t id, struct kp_query_tree *out)
{
	struct kp_query_tree t = { 0 };
	bool found = false;
	enum kp_err err;
	struct read rd;
	size_t file;

	if (!query_file_of(q, &id, &file))
		return KP_ENOENT;
	read_start_file(&rd, q, file, "select " REQUEST_COLUMNS ", null,"
	    " (select started_ns from run where id = q.run_id)"
	    " from request q" REQUEST_TABLES " where q.id = ?");
	read_bind(&rd, id);
	if (read_next(&rd)) {
		found = true;
		request_row(&rd, &t.request);
		t.run = read_int(&rd, 13);
	}
	err = read_end(&rd);
	if (err == KP_OK && !found)
		return KP_ENOENT;
	if (err == KP_OK)
		err = read_calls(q, file, id, &t);
	if (err == KP_OK)
		err = query_tree_waits(q, file, id, &t);
	if (err == KP_OK)
		err = read_outer(q, file, id, &t);
	if (err == KP_OK)
		*out = t;
	else
		kp_query_tree_free(&t);
	return err;
}

/* What is there of a request whose end was not seen is its start. */
static const char together[] = RELATED
    "q.node_id = (select node_id from request where id = ?3) and q.id <> ?3"
    " and q.start_ns + ifnull(q.total_ns, 0) >= ?4 order by"
    " min(?2, q.start_ns + ifnull(q.total_ns, 0)) - max(?4, q.start_ns) desc,"
    " q.start_ns limit ?5";

static enum kp_err
read_peers(struct kp_query *q, size_t file, int64_t id, struct kp_query_tree *t)
{
	const struct kp_query_request *rq = &t->request;
	struct read rd;

	read_start_file(&rd, q, file, together);
	read_bind(&rd, sat_add(rq->start, -LASTS));
	read_bind(&rd, sat_add(rq->start, rq->total < 0 ? 0 : rq->total));
	read_bind(&rd, id);
	read_bind(&rd, rq->start);
	read_bind(&rd, KP_QUERY_PEERS_MAX);
	while (read_next(&rd) && read_room(&rd, &t->peers, t->npeers))
		request_row(&rd, &t->peers[t->npeers++]);
	return read_end(&rd);
}

enum kp_err
kp_query_related(struct kp_query *q, int64_t id, struct kp_query_tree *t)
{
	kp_wall_ns start = t->request.start;
	kp_dur_ns total = t->request.total < 0 ? LASTS : t->request.total;
	struct read rd;
	enum kp_err err;
	size_t file;

	if (!query_file_of(q, &id, &file))
		return KP_ENOENT;
	err = read_peers(q, file, id, t);
	if (err != KP_OK)
		return err;
	read_start_file(&rd, q, file, RELATED "q.parent_label = ?4"
	    " order by q.start_ns limit ?5");
	read_bind(&rd, sat_add(start, -CLOCKS));
	read_bind(&rd, sat_add(sat_add(start, total), CLOCKS));
	read_bind(&rd, id);
	read_bind(&rd, (int64_t)t->request.label);
	read_bind(&rd, KP_QUERY_INNER_MAX);
	while (read_next(&rd) && read_room(&rd, &t->inner, t->ninner))
		request_row(&rd, &t->inner[t->ninner++]);
	return read_end(&rd);
}

void
kp_query_tree_free(struct kp_query_tree *t)
{
	free(t->calls);
	free(t->inner);
	free(t->peers);
	free(t->waits);
	*t = (struct kp_query_tree){ 0 };
}

enum kp_err
kp_query_events(struct kp_query *q, const struct kp_query_range *r,
    size_t limit, struct kp_query_events *out)
{
	struct kp_query_events e = { 0 };
	struct kp_query_event last;
	enum kp_err err;
	struct read rd;

	read_start(&rd, q, "select e.at_ns, e.run_id, n.name, e.kind, e.text, e.id"
	    " from event e join node n on n.id = e.node_id"
	    " where e.at_ns >= ?1 and e.at_ns < ?2"
	    " and (?3 is null or n.name = '' or one_of(n.name, ?3))"
	    " and (e.at_ns < ?5 or (e.at_ns = ?5 and e.id < ?6))"
	    " order by e.at_ns desc, e.id desc limit ?4");
	read_latest(&rd, 0);
	read_bind(&rd, r->since);
	read_bind(&rd, r->until);
	read_bind_text(&rd, r->node);
	read_bind(&rd, (int64_t)limit);
	read_bind(&rd, r->after.is ? r->after.key : INT64_MAX);
	read_bind_id(&rd, r->after.id);
	while (e.n < limit && read_next(&rd)) {
		if (!read_room(&rd, &e.v, e.n))
			break;
		e.v[e.n++] = (struct kp_query_event){ read_int(&rd, 0),
			read_id(&rd, 1), read_id(&rd, 5), read_text(&rd, 2),
			read_text(&rd, 3), read_text(&rd, 4) };
	}
	for (size_t i = 0; i < e.n / 2; i++) {
		last = e.v[e.n - 1 - i];
		e.v[e.n - 1 - i] = e.v[i];
		e.v[i] = last;
	}
	err = read_end(&rd);
	if (err == KP_OK)
		*out = e;
	else
		kp_query_events_free(&e);
	return err;
}

void
kp_query_events_free(struct kp_query_events *e)
{
	free(e->v);
	*e = (struct kp_query_events){ 0 };
}

static void
run_row(struct read *rd, struct kp_query_run *r)
{
	kp_dur_ns clean = read_dur(rd, 3);

	*r = (struct kp_query_run){
		.id = read_id(rd, 0),
		.started = read_int(rd, 1),
		.ended = read_int(rd, 2),
		.state = clean < 0 ? KP_RUN_RUNNING :
		    clean == 1 ? KP_RUN_CLEAN : KP_RUN_UNCLEAN,
		.interval = read_int(rd, 4),
		.version = read_text(rd, 5),
		.tiers_text = read_text(rd, 6),
		.failed = read_text(rd, 7),
		.reloaded = read_int(rd, 8),
	};
}

enum kp_err
kp_query_runs(struct kp_query *q, size_t limit, struct kp_query_runs *out)
{
	struct kp_query_runs r = { 0 };
	enum kp_err err;
	struct read rd;

	read_start(&rd, q, "select id, started_ns, ended_ns, clean,"
	    " interval_ns, version, tiers_conf, failed, reloaded from run"
	    " left join (select run_id, max(at_ns) as reloaded from event"
	    " where kind = 'reload' group by run_id) on run_id = id"
	    " order by id desc limit ?");
	read_latest(&rd, 1);
	read_bind(&rd, (int64_t)limit);
	while (r.n < limit && read_next(&rd)) {
		if (!read_room(&rd, &r.v, r.n))
			break;
		run_row(&rd, &r.v[r.n++]);
	}
	err = read_end(&rd);
	if (err == KP_OK)
		*out = r;
	else
		kp_query_runs_free(&r);
	return err;
}

void
kp_query_runs_free(struct kp_query_runs *r)
{
	free(r->v);
	*r = (struct kp_query_runs){ 0 };
}

enum kp_err
kp_query_newest(struct kp_query *q, const char *node, kp_wall_ns *start)
{
	struct read rd;

	*start = 0;
	read_start(&rd, q, "select start_ns from time_window where ?1 is null or"
	    " node_id in (select id from node where one_of(name, ?1))"
	    " order by start_ns desc limit 1");
	read_bind_text(&rd, node);
	while (read_next(&rd))
		if (read_int(&rd, 0) > *start)
			*start = read_int(&rd, 0);
	return read_end(&rd);
}

enum kp_err
kp_query_span(struct kp_query *q, kp_wall_ns *first, kp_wall_ns *last)
{
	struct read rd;

	*first = *last = 0;
	read_start(&rd, q, "select (select min(start_ns) from time_window),"
	    " (select max(end_ns) from (select end_ns from time_window"
	    " order by start_ns desc limit 100))");
	while (read_next(&rd)) {
		if (read_int(&rd, 1) == 0)
			continue;	/* it has none */
		if (*last == 0 || read_int(&rd, 0) < *first)
			*first = read_int(&rd, 0);
		if (read_int(&rd, 1) > *last)
			*last = read_int(&rd, 1);
	}
	return read_end(&rd);
}

/* ---- the requests of the latest run, as they are written ---- */

/*
 * Finds the latest run.  If it is a new one, moves f to its beginning; of all runs, to the
 * beginning of the file, unless the run that was the latest before is in it.
 */
static enum kp_err
tail_run(struct kp_query *q, struct kp_request_tail *f)
{
	struct kp_request_tail now = { .all = f->all };
	struct read rd;
	enum kp_err err;

	/* earlier runs' requests are not deleted before they are read */
	read_start(&rd, q, "select id, started_ns, (select"
	    " coalesce(max(q.id), 0) from request q where q.run_id < run.id),"
	    " exists (select 1 from run where id = ?1 and started_ns = ?2)"
	    " from run order by id desc limit 1");
	read_bind(&rd, f->run);
	read_bind(&rd, f->started);
	if (read_next(&rd)) {
		now.run = read_int(&rd, 0);
		now.started = read_int(&rd, 1);
		now.request = !f->all ? read_int(&rd, 2) : read_int(&rd, 3) != 0 ?
		    f->request : 0;
	}
	err = read_end(&rd);
	if (err == KP_OK && (now.run != f->run || now.started != f->started))
		*f = now;
	return err;
}

enum kp_err
kp_request_tail_next(struct kp_query *q, struct kp_request_tail *f, int64_t *ids,
    size_t max, size_t *n, int64_t *newest)
{
	enum kp_err err = tail_run(q, f);
	struct read rd;

	*n = 0;
	if (err != KP_OK)
		return err;
	read_start(&rd, q, "select coalesce(max(id), 0) from request");
	*newest = read_next(&rd) ? read_int(&rd, 0) : 0;
	err = read_end(&rd);
	if (err != KP_OK)
		return err;
	/* SQLite uses the last row's id again if that was deleted */
	if (*newest < f->request)
		f->request = *newest;
	read_start(&rd, q, "select id from request where id > ?1"
	    " and run_id >= ?2 order by id limit ?3");
	read_bind(&rd, f->request);
	read_bind(&rd, f->all ? 0 : f->run);
	read_bind(&rd, (int64_t)max);
	while (read_next(&rd))
		ids[(*n)++] = read_int(&rd, 0);
	return read_end(&rd);
}
