/*
 * trace.c - kprof trace: every call of functions in a node, for a while; and kprof
 * analyse, which adds up a kept trace and writes it in the form that the user chose.
 *
 * Events go into a file as they come (that of -o, or a temporary one), which is
 * then shown as kprof analyse does.  The first Ctrl-C (or SIGTERM, SIGHUP) ends
 * the tracing, the second one the wait for events that are under way.
 *
 * Remarks about a trace go to stderr, so that the output for programs has
 * nothing else in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/probe_file.h"
#include "base/vec.h"
#include "calls/merge_nodes.h"
#include "conn/reach.h"
#include "count_requests.h"
#include "fn_command.h"
#include "kprofd/instructions.h"
#include "kprofd/nodes.h"
#include "output_file.h"
#include "profile/report/profile_db.h"
#include "profile/report/trace_report.h"
#include "text/file_why.h"
#include "text/text.h"

#define ARGS_BYTES 200		/* of the arguments of a call, as text */
#define CHUNK (64u << 10)	/* bytes that are written at once */
#define SLICES_MAX (1u << 22)	/* for viewers: 96 MiB */

/* ---- kprof analyse ---- */

#define ANALYSE_LEAST 10u

/* Zeroed, and then least set to ANALYSE_LEAST, has the defaults. */
struct analyse_args {
	int form, by;
	struct opt_order sort;
	bool no_callers, totals, no_details, cpu;
	size_t rows;		/* 0: all */
	bool queue_most;	/* -max-queue had its greatest value */
	size_t least;		/* hundredths of a percent */
	const char *db;		/* make this database, and show nothing */
};

static bool
opt_analysis(struct opt_parser *p)
{
	struct analyse_args *a = p->at->to;
	const struct {
		const char *word;
		bool *flag;
	} parts[] = { { "totals", &a->totals }, { "no-details", &a->no_details },
		{ "no-callers", &a->no_callers } };
	size_t i, n;

	p->adds = true;
	for (const char *s = p->value;; s += n + 1) {
		n = strcspn(s, ",");
		for (i = 0; i < 3 && (strlen(parts[i].word) != n ||
		    memcmp(parts[i].word, s, n) != 0); i++)
			;
		if (i == 3)
			return OPT_BAD(p, "-%s '%s': give totals, no-details, "
			    "no-callers, with commas", p->at->name, p->value);
		*parts[i].flag = true;
		if (s[n] == '\0')
			return true;
	}
}

#define OPTS_ANALYSE(a) \
	OPT_GROUP("What is shown"), \
	{ "form", "FORM", "tree (default), analysis (fprof's), callgrind, " \
	    "folded, speedscope, chrome (Perfetto), pprof, json, requests (of " \
	    "-entry), or events", opt_choice, &(a).form, \
	    "tree,analysis,callgrind,folded,speedscope,events,requests,json," \
	    "chrome,pprof" }, \
	{ "by", "KEY", "a root is all processes of one name, or that began " \
	    "with one function (default), or one process: tree, folded, " \
	    "speedscope, pprof, json, callgrind", opt_choice, &(a).by, \
	    "name,process" }, \
	{ "db", "FILE", "make an SQLite database of it, and show nothing", \
	    opt_text, &(a).db, NULL }, \
	{ "cpu", NULL, "without the time that processes were scheduled out", \
	    opt_flag, &(a).cpu, NULL }, \
	{ "least", "N", "tree: leave out what has less than N " \
	    "hundredths of a percent of the time (default 10; 0: nothing)", \
	    opt_number, &(a).least, NULL }, \
	OPT_N("all, of a tree", (a).rows), \
	{ "analysis", "LIST", "analysis: totals (all processes together, too), " \
	    "no-details (not each process), no-callers (nor callees), with " \
	    "commas", opt_analysis, &(a), NULL }, \
	OPT_SORT("acc (accumulated time, default) or own; analysis", (a).sort, \
	    "acc,own")

/* In the order of the option. */
enum { FORM_TREE, FORM_ANALYSIS, FORM_CALLGRIND, FORM_FOLDED,
	FORM_SPEEDSCOPE, FORM_EVENTS, FORM_REQUESTS, FORM_JSON, FORM_CHROME,
	FORM_PPROF };

static const struct form {
	/* NULL: it is written some other way. */
	void (*put)(struct kp_buf *b, const struct trace_view *v);
	bool paths;		/* of call trees */
	bool roots;		/* processes of one kind may be one */
	bool args;		/* shows arguments */
	bool slices;		/* in the order of time */
} forms[] = {
	[FORM_TREE] = { trace_tree, .paths = true, .roots = true, .args = true },
	[FORM_ANALYSIS] = { trace_fprof },
	[FORM_CALLGRIND] = { trace_callgrind, .roots = true },
	[FORM_FOLDED] = { trace_folded, .paths = true, .roots = true },
	[FORM_SPEEDSCOPE] = { .paths = true, .roots = true, .slices = true },
	[FORM_EVENTS] = { .args = true },
	[FORM_REQUESTS] = { trace_requests, .paths = true, .args = true },
	[FORM_JSON] = { trace_json, .paths = true, .roots = true },
	[FORM_CHROME] = { .paths = true, .slices = true },
	[FORM_PPROF] = { trace_pprof, .paths = true, .roots = true },
};

enum { BY_NAME, BY_PROCESS };

struct analysis {
	const struct analyse_args *a;
	struct kp_call_names *names;
	struct kp_calls_sum *sum;
	struct kp_critical_path *critical;	/* for FORM_REQUESTS */
	struct kp_calls_merge m;
	struct trace_slice *slices;	/* of forms that need them */
	size_t nslices, room;
	bool cut;		/* there were too many slices */
	struct kp_buf out;
};

/* ---- reading ---- */

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct analysis *s = ctx;

	if (vec_room(&s->slices, &s->room, s->nslices, SLICES_MAX) != KP_OK) {
		s->cut = true;
		return;
	}
	s->slices[s->nslices++] = (struct trace_slice){ proc, path, from,
		to };
}

static void
on_work(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct analysis *s = ctx;
	uint32_t fn = s->sum->paths[path].fn;

	kp_critical_path_spent(s->critical,
	    kp_calls_sum_request(s->sum, proc), proc,
	    fn == KP_FN_SUSPEND ? KP_PART_OUT : fn == KP_FN_GC ? KP_PART_GC :
	    KP_PART_OWN, from, to);
}

static enum kp_err
read_all(struct analysis *s)
{
	struct kp_call_event ev, shown;
	kp_target_ns first = 0;
	enum kp_err e;

	while ((e = kp_calls_merge_next(&s->m, &ev)) == KP_OK) {
		if (s->a->form == FORM_EVENTS) {
			if (s->sum->events == 0)
				first = ev.ts;
			shown = ev;
			shown.ts -= first;
			trace_put_event(&s->out, s->names, &shown);
		}
		e = kp_calls_sum_add(s->sum, &ev);
		if (e == KP_OK && s->critical != NULL)
			e = kp_critical_path_add(s->critical, &ev);
		if (e != KP_OK)
			return e;
	}
	if (e == KP_END)
		e = kp_calls_sum_end(s->sum);
	if (e == KP_OK && s->critical != NULL)
		e = kp_critical_path_end(s->critical);
	return e;
}

/* ---- showing ---- */

static enum kp_err
put_form(struct analysis *s, struct trace_view *v)
{
	const struct form *form = &forms[s->a->form];
	struct trace_roots roots = { 0 };
	enum kp_err e = KP_OK;

	if (s->a->by == BY_NAME && form->roots)
		e = trace_roots_make(&roots, v);
	if (e == KP_OK && form->slices)
		trace_viewer(&s->out, v, s->slices, s->nslices,
		    s->a->form == FORM_CHROME ? FLAME_CHROME : FLAME_SPEEDSCOPE);
	else if (e == KP_OK && form->put != NULL)
		form->put(&s->out, v);
	trace_roots_free(&roots);
	return e;
}

/* Why the trace ended, and what is missing in it. */
static void
say_remarks(const struct trace_view *v)
{
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	trace_remarks(&b, v);
	functions_say_lines(&b);
}

static const char *
damaged(enum kp_err e)
{
	return e == KP_EFORMAT ? "it is damaged" : kp_err_str(e);
}

static int
show_all(struct analysis *s, const char *name)
{
	const struct analyse_args *a = s->a;
	struct trace_view v = { .names = s->names, .sum = s->sum,
		.critical = s->critical, .info = &s->m.info,
		.no_callers = a->no_callers, .totals = a->totals,
		.no_details = a->no_details, .by_own = a->sort.key == 1,
		.reverse = a->sort.reverse, .least = (double)a->least / 10000,
		.rows = a->rows, .width = screen_width(),
		.queue_most = a->queue_most };
	enum kp_err e = read_all(s);
	char why[300] = "";

	v.moved = s->m.moved;
	v.moved_most = s->m.moved_most;
	if (e != KP_OK) {
		say("cannot read '%s': %s", name, damaged(e));
		return EXIT_FAILED;
	}
	if (s->sum->events == 0)
		say("there are no events: no call of these functions was traced "
		    "in these processes");
	say_remarks(&v);
	if (a->db != NULL) {
		e = trace_db_write(a->db, s->names, s->sum, &s->m.info, why,
		    sizeof(why));
		if (e != KP_OK)
			say("cannot write '%s': %s", a->db, why);
		return e == KP_OK ? EXIT_DONE : EXIT_FAILED;
	}
	if (s->critical != NULL && s->critical->nrequests == 0)
		say("there are no requests in it: it was made without -entry");
	if (put_form(s, &v) != KP_OK) {
		say("out of memory");
		return EXIT_FAILED;
	}
	if (s->cut)
		say("the trace is too long for this form: its end is missing");
	return show(&s->out);
}

static int
show_bytes(const struct analyse_args *a, const void *p, size_t n,
    const char *name)
{
	struct analysis s = { .a = a, .names = kp_call_names_new() };
	struct kp_calls_opts o = { .cpu = a->cpu, .ctx = &s,
		.paths = a->db != NULL || forms[a->form].paths,
		.slice = forms[a->form].slices ? on_slice :
		    a->form == FORM_REQUESTS ? on_work : NULL };
	int st = EXIT_FAILED;
	enum kp_err e;

	s.sum = kp_calls_sum_new(&o);
	if (a->form == FORM_REQUESTS)
		s.critical = kp_critical_path_new();
	kp_buf_init(&s.out, OUTPUT_MAX);
	e = s.names != NULL && s.sum != NULL &&
	    (s.critical != NULL || a->form != FORM_REQUESTS) ?
	    kp_calls_merge_begin(&s.m, p, n, s.names) : KP_ENOMEM;
	if (e == KP_OK)
		st = show_all(&s, name);
	else
		say("cannot read '%s': %s", name, s.m.begun ? damaged(e) :
		    e == KP_EFORMAT ? "it is not a trace that kprof has kept" :
		    e == KP_ESTATE ? "it is of another version of kprof" :
		    kp_err_str(e));
	kp_buf_free(&s.out);
	kp_calls_sum_free(s.sum);
	kp_critical_path_free(s.critical);
	kp_calls_merge_free(&s.m);
	kp_call_names_free(s.names);
	free(s.slices);
	return st;
}

/* Shows the file, or stores it in the database; returns the exit status. */
static int
analyse_show(const struct analyse_args *a, int fd, const char *name)
{
	char why[FILE_WHY_MAX];
	struct stat st;
	void *p = NULL;
	int status;

	/* An empty file cannot be mapped; show_bytes() says that it is not a trace. */
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    (st.st_size > 0 && (p = mmap(NULL, (size_t)st.st_size, PROT_READ,
	    MAP_PRIVATE, fd, 0)) == MAP_FAILED)) {
		say("cannot read '%s': %s", name, file_why(why, name, errno));
		return EXIT_FAILED;
	}
	status = show_bytes(a, p, (size_t)st.st_size, name);
	if (p != NULL)
		munmap(p, (size_t)st.st_size);
	return status;
}

int
cmd_analyse(const struct cmd *cmd, int argc, char **argv)
{
	struct analyse_args a = { .least = ANALYSE_LEAST };
	const char *file = NULL;
	const struct opt opts[] = { OPTS_ANALYSE(a) };
	int st, fd;

	st = opts_parse(cmd, OPTS(opts), argc, argv, &file);
	if (st != OPTS_GO_ON)
		return st;
	if (file == NULL)
		return opts_wrong(cmd, "FILE is missing");
	fd = open(file, O_RDONLY | O_CLOEXEC);
	st = analyse_show(&a, fd, file);
	if (fd >= 0)
		close(fd);
	return st;
}

/* ---- kprof trace ---- */

struct args {
	struct tracer_opts o;
	struct functions_args f;
	struct analyse_args show;
	struct limits_args l;
	struct limits *limits;	/* NULL: not by request */
	struct opt_list targets;
	const char *keep;
	int probe;
	char library[4096 + 64];
	size_t events, queue;
	bool args;
};

/* The file of a trace while it is written. */
struct kept {
	struct output_file to;
	struct kp_buf b;
	struct kp_calls_writer w;
	struct kp_call_names *names;
	const struct args *a;
};

static enum kp_err
kept_flush(struct kept *k)
{
	if (k->b.err != KP_OK)
		return k->b.err;
	if (k->b.len > 0 && fwrite(k->b.p, 1, k->b.len, k->to.f) != k->b.len)
		return KP_EIO;
	kp_buf_reset(&k->b);
	return KP_OK;
}

static enum kp_err
on_event(void *ctx, const struct kp_call_event *ev)
{
	struct kept *k = ctx;

	kp_calls_write(&k->w, k->names, ev);
	return k->b.len < CHUNK ? KP_OK : kept_flush(k);
}

static void
on_begun(void *ctx, uint32_t request, uint32_t node)
{
	struct kept *k = ctx;

	kp_calls_write_begun(&k->w, k->names, request, node);
}

/* Of one node: the request is of the type that is wanted. */
static enum kp_err
on_wanted(void *ctx, uint32_t request)
{
	on_begun(ctx, request, 0);
	return KP_OK;
}

static void
on_same(void *ctx, uint32_t request, uint32_t as)
{
	struct kept *k = ctx;

	kp_calls_write_same(&k->w, request, as);
}

/* Of several nodes: writes their clocks, and at the end why each ended. */
static void
kept_nodes(struct kept *k, const struct args *a, bool ended)
{
	for (uint32_t i = 0; i < a->targets.n && a->targets.n > 1; i++) {
		if (i > 0)
			kp_calls_write_clock(&k->w, k->names, i);
		if (ended)
			kp_calls_write_why(&k->w, k->names, i);
	}
}

/*
 * Adds up how the nodes ended; a trace of several nodes ended for the reason of
 * the first that did.  True if the user did not get all that was asked for.
 */
static bool
sum_up(const struct args *a, const struct tracers *ts,
    struct kp_calls_info *info)
{
	const struct tracer_end *end;
	uint32_t begun, ended;
	bool early = false;

	info->end = KP_CALLS_DONE;
	for (uint32_t i = 0; i < a->targets.n; i++) {
		end = tracers_ended(ts, i);
		if (info->end == KP_CALLS_DONE)
			info->end = end->end;
		info->lost += end->lost;
		early |= end->end != KP_CALLS_DONE || end->text[0] != '\0' ||
		    end->missed > 0;
	}
	begun = tracers_begun(ts, &ended);
	info->requests = (uint32_t)a->o.requests;
	info->begun = begun < info->requests ? begun : info->requests;
	info->ended = ended < info->begun ? ended : info->begun;
	return early || ended < info->requests;
}

/* Prints what was missed, and what was loaded, while the node was traced. */
static void
say_meanwhile(const char *target, const struct tracer_end *end, bool by_request)
{
	char n[TEXT_MAX];

	if (end->unsure > 0)
		say("'%s': %s may lack calls: " FUNCTIONS_UNSURE_TEXT, target,
		    text_counted(n, end->unsure, "request"));
	if (end->again > 0)
		say("'%s': %s loaded again meanwhile and traced again: calls "
		    "of a moment in between are missing", target,
		    text_counted(n, end->again, "module"));
	if (end->whole > 0)
		say("'%s': %s loaded meanwhile, traced from the first call",
		    target, text_counted(n, end->whole, "module"));
	if (end->came > 0)
		say("'%s': %s loaded meanwhile, traced from some moment after "
		    "that: earlier calls are missing%s", target, text_counted(n,
		    end->came, "module"), end->why != NULL ? end->why : "");
	if (end->missed > 0)
		say("'%s': %s loaded meanwhile and not traced%s: calls from "
		    "then on are missing", target, text_counted(n,
		    end->missed, "module"), by_request ? " (by request none is)" :
		    " (see -max-functions and -max-memory)");
}

static void
say_ends(const struct args *a, const struct tracers *ts)
{
	const char *text;

	for (uint32_t i = 0; i < a->targets.n; i++) {
		text = tracers_ended(ts, i)->text;
		say_meanwhile(a->targets.v[i], tracers_ended(ts, i),
		    a->o.requests > 0);
		if (text[0] == '\'' || (text[0] != '\0' && a->targets.n == 1))
			say("%s", text);
		else if (text[0] != '\0')
			say("'%s': %s", a->targets.v[i], text);
	}
}

/* Ends the file, and shows it.  EXIT_FAILED if the trace ended early. */
static int
finish(struct kept *k, const struct args *a, struct kp_calls_info *info,
    const struct tracers *ts)
{
	bool early = sum_up(a, ts, info);
	struct kp_buf types;
	int st = EXIT_DONE;

	kept_nodes(k, a, true);
	kp_calls_write_end(&k->w, k->names, info);
	if (kept_flush(k) != KP_OK || fflush(k->to.f) != 0) {
		say("cannot write '%s': %s", k->to.name, strerror(errno));
		return EXIT_FAILED;
	}
	say_ends(a, ts);
	if (a->limits != NULL) {
		kp_buf_init(&types, 8192);
		limits_remark(a->limits, info->begun, &types);
		functions_say_lines(&types);
	}
	if (!a->f.quiet || a->keep == NULL || a->show.db != NULL)
		st = analyse_show(&a->show, fileno(k->to.f), k->to.name);
	else if (early || info->lost > 0)
		say_remarks(&(struct trace_view){ .names = k->names,
		    .info = info });
	functions_say_value(&a->f, tracers_hello(ts, 0));
	return st == EXIT_DONE && early ? EXIT_FAILED : st;
}

/* Prints what is awaited, where that may take long. */
static void
say_begin(void *ctx)
{
	const struct kept *k = ctx;
	const struct args *a = k->a;
	const struct counts_limit *of;
	char where[512], more[64] = "", count[TEXT_MAX], type[300] = "";

	if (a->f.limit > 0 || a->o.g.apply[0] != '\0' || a->f.quiet)
		return;
	if (a->targets.n > 1)
		snprintf(more, sizeof(more), " and %zu more nodes",
		    a->targets.n - 1);
	snprintf(where, sizeof(where), "'%s'%s", a->targets.v[0], more);
	if (a->limits == NULL) {
		say("tracing in %s; Ctrl-C ends it and shows the figures",
		    where);
		return;
	}
	of = limits_shown(a->limits);
	if (of->identity != NULL)
		snprintf(type, sizeof(type), " of type '%s'", of->identity);
	say("tracing %s%s in %s, which %s%s begins, for "
	    REQUESTS_LIMIT_TEXT " at most (see -for); Ctrl-C ends it "
	    "and shows what there is", text_counted(count, (size_t)a->o.requests,
	    "request"), type, where, of->nentries > 1 ? "an entry such as " :
	    "", of->entries[0]);
}

static void
say_unseen(const struct injected_opts *o, int otp)
{
	const struct kp_instructions unseen = kp_instructions(o->patterns,
	    o->npatterns, o->exclude, o->nexclude, otp);
	struct kp_buf b;

	if (unseen.n == 0)
		return;
	kp_buf_init(&b, 8192);
	kp_instructions_put(&b, &unseen, "traced");
	say("%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* Prints how tracing differs from what the user may expect, and why. */
static void
say_otherwise(const struct tracers *ts, const struct args *a)
{
	const struct injected_hello *h;

	say_unseen(&a->o.g, tracers_hello(ts, 0)->otp);
	for (uint32_t i = 0; i < a->targets.n; i++) {
		h = tracers_hello(ts, i);
		if (h->not_native[0] != '\0')
			say("'%s': not by the native probe: %s",
			    a->targets.v[i], h->not_native);
		if (h->no_gc)
			say("'%s': without garbage collection: another tool "
			    "traces that, and two would crash that VM "
			    "(erlang/otp#11624)",
			    a->targets.v[i]);
	}
}

static int
trace_with(struct tracers *ts, struct kept *k, const struct args *a)
{
	struct kp_calls_info info = {
		.otp = k->names->nodes[0].otp };
	kp_dur_ns offset = tracers_hello(ts, 0)->offset;
	const struct tracers_sink sink = { on_event, on_begun, on_same,
		say_begin, k };
	char why[INJECTED_TEXT_MAX];
	enum kp_err e;

	k->a = a;
	kp_node_bare(a->targets.v[0], info.target);
	if (offset > -KP_CALLS_TIME_MAX * 2 + 1 &&
	    offset < KP_CALLS_TIME_MAX * 2 - 1)
		info.offset = offset;
	kp_calls_write_begin(&k->w, &k->b, &info);
	kept_nodes(k, a, false);
	for (uint32_t i = 0; i < a->targets.n; i++)
		functions_say_doubt(a->targets.v[i], tracers_hello(ts, i));
	e = tracers_go(ts, why, sizeof(why));
	if (e != KP_OK)
		return functions_failed(a->targets.v[0], e, why, "traced");
	if (kept_flush(k) != KP_OK || !output_file_keep(&k->to))
		return EXIT_FAILED;
	say_otherwise(ts, a);
	e = functions_take(ts, a->o.g.span > 0 ?
	    kp_mono_now() + a->o.g.span : INT64_MAX, &sink);
	if (e != KP_OK) {
		say("cannot write '%s': %s", k->to.name, e == KP_EIO ?
		    strerror(errno) : kp_err_str(e));
		return EXIT_FAILED;
	}
	/* The nodes are left alone while this adds up and prints. */
	if (!tracers_leave(ts))
		functions_say_late(a->targets.n == 1 ? a->targets.v[0] :
		    "one of the nodes");
	return finish(k, a, &info, ts);
}

static int
trace(struct args *a)
{
	struct kept k = { .names = kp_call_names_new() };
	char why[INJECTED_TEXT_MAX + 512] = "";
	struct tracers *ts = NULL;
	int st = EXIT_FAILED;
	enum kp_err e;

	if (a->show.db != NULL && !output_can_be(a->show.db, true)) {
		kp_call_names_free(k.names);
		return EXIT_FAILED;
	}
	kp_buf_init(&k.b, 16 * CHUNK);
	if (a->limits != NULL)
		limits_trace(a->limits, &a->o, on_wanted, &k);
	if (k.names != NULL && output_file_open(&k.to, a->keep)) {
		e = tracers_start(&ts, &a->o, a->targets.v,
		    (uint32_t)a->targets.n, k.names, why, sizeof(why));
		st = e == KP_OK ? trace_with(ts, &k, a) :
		    functions_failed(a->targets.v[0], e, why, "traced");
	}
	tracers_stop(ts);
	output_file_close(&k.to);
	kp_buf_free(&k.b);
	kp_call_names_free(k.names);
	return st;
}

/* Refuses -args where nothing would show the arguments. */
static int
check_arguments(const struct cmd *cmd, struct args *a)
{
	if (!a->args)
		return OPTS_GO_ON;
	if (a->keep == NULL && (a->show.db != NULL ||
	    !forms[a->show.form].args))
		return opts_wrong(cmd, "-args goes with -form tree, events or "
		    "requests, or with -o FILE");
	a->o.args = ARGS_BYTES;
	return OPTS_GO_ON;
}

/* True: one of the first n is the same node, and has the port now, if any. */
static bool
is_before(struct opt_list *l, size_t n, const char *target)
{
	struct kp_node_at at;

	for (size_t i = 0; i < n; i++)
		if (kp_node_same(l->v[i], target)) {
			if (kp_node_split(target, strlen(target), &at) ==
			    NULL && at.port != 0)
				l->v[i] = target;
			return true;
		}
	return false;
}

/* Drops targets that are given twice. */
static int
check_targets(const struct cmd *cmd, struct args *a)
{
	struct opt_list *l = &a->targets;
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		if (!is_before(l, n, l->v[i]))
			l->v[n++] = l->v[i];
	l->n = n;
	if (n > TRACERS_MAX)
		return opts_wrong(cmd, "more than %u times a -target",
		    TRACERS_MAX);
	if (n > 1 && a->o.g.apply[0] != '\0')
		return opts_wrong(cmd, "-apply goes with one -target");
	if (n > 0)
		a->o.g.talk.target = l->v[0];
	return OPTS_GO_ON;
}

static int
check_args(const struct cmd *cmd, struct args *a)
{
	int st = check_targets(cmd, a);

	if (st == OPTS_GO_ON)
		st = check_arguments(cmd, a);
	if (st != OPTS_GO_ON)
		return st;
	a->o.max_events = a->events;
	a->o.max_queue = a->queue;
	a->show.queue_most = a->queue == OPT_COUNT_MAX;
	a->o.probe = (enum tracer_probe)a->probe;
	if (a->o.probe_library == NULL)
		a->o.probe_library = probe_file(a->library, sizeof(a->library),
		    "kprof_calls_probe.so");
	if (a->o.probe_library[0] != '/')
		return opts_wrong(cmd, "-probe-library needs the whole path");
	if (a->f.list && (a->targets.n > 1 || a->l.entry != NULL ||
	    a->l.tiers != NULL))
		return opts_wrong(cmd, "-list goes with one -target and "
		    "without -entry and -tiers");
	st = functions_check(cmd, &a->f, &a->o.g);
	if (st == OPTS_GO_ON)
		st = limits_open(cmd, &a->l, &a->targets, &a->limits);
	if (a->o.g.span == 0 && a->limits != NULL &&
	    a->o.g.apply[0] == '\0')
		a->o.g.span = REQUESTS_LIMIT;
	return st;
}

int
cmd_trace(const struct cmd *cmd, int argc, char **argv)
{
	struct args a = { .o = { .g = { .processes = "", .apply = "",
		.talk = { .wake = -1 } } }, .f = { FUNCTIONS_LIMITS },
		.show = { .least = ANALYSE_LEAST }, .events = MAX_EVENTS,
		.queue = MAX_QUEUE, .probe = TRACER_AUTO };
	const struct opt opts[] = {
		OPT_GROUP("Where, and for how long"),
		{ "target", "NODE", "the node to trace in (needed); several "
		    "for requests that cross them", opt_node_list,
		    &a.targets, NULL },
		OPTS_RUN(a.f, a.o.g, "trace"),
		{ "entry", "FUNCTION", "trace only work done for requests, "
		    "which are calls of this function", opt_text,
		    &a.l.entry, NULL },
		{ "tiers", "FILE", "the same, with the entries of this "
		    "tiers.conf", opt_text, &a.l.tiers, NULL },
		{ "identity", "NAME", "with -tiers: only requests of this type",
		    opt_text, &a.l.identity, NULL },
		{ "requests", "N", "with -entry or -tiers: end after N requests "
		    "(default 1)", opt_count, &a.l.requests, NULL },
		OPT_GROUP("What is traced, and how"),
		{ "args", NULL, "with the arguments of calls, as far as "
		    "they are small, in 200 bytes", opt_flag, &a.args, NULL },
		{ "probe", "KIND", "how events leave the node: relay, native "
		    "(a library in C, loaded there), or auto (default): native "
		    "if it can be loaded", opt_choice, &a.probe, TRACER_PROBES },
		{ "probe-library", "FILE", "where the node finds the native "
		    "probe's library (kprof_calls_probe.so beside kprof or in "
		    "../lib/kprofd)", opt_text, &a.o.probe_library, NULL },
		{ "max-events", "N", "end after N events (default 1000000)",
		    opt_count, &a.events, NULL },
		{ "max-queue", "N", "end when N events wait in the node to be "
		    "sent (default 200000)", opt_count, &a.queue, NULL },
		{ "o", "FILE", "keep the trace there (kprof analyse)",
		    opt_text, &a.keep, NULL },
		OPTS_ANALYSE(a.show),
		OPTS_FUNCTIONS(a.f, a.o.g),
	};
	int st;

	st = opts_parse(cmd, OPTS(opts), argc, argv, NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	if (st == OPTS_GO_ON)
		a.o.g.talk.wake = signals_catch();
	if (st == OPTS_GO_ON)
		st = a.o.g.talk.wake < 0 ? EXIT_FAILED : a.f.list ?
		    functions_list(&a.o.g) : trace(&a);
	limits_free(a.limits);
	functions_free(&a.o.g);
	return st;
}
