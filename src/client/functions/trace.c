/*
 * trace.c - kprof trace: every call of functions in a node, for a while.
 *
 * Events go into a file as they come (that of -o, or a temporary one), which is
 * then shown as kprof analyse does.  The first Ctrl-C (or SIGTERM, SIGHUP) ends
 * the tracing, the second one the wait for events that are under way.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyse.h"
#include "shared.h"
#include "conn/reach.h"
#include "kprofd/instructions.h"
#include "kprofd/nodes.h"
#include "calls/trace_file.h"
#include "agent/probe_file.h"
#include "text/text.h"
#include "output_file.h"

#define ARGS_BYTES 200		/* of the arguments of a call, as text */
#define ARGS_BYTES_MIN 16
#define CHUNK (64u << 10)	/* bytes that are written at once */

struct args {
	struct tracer_opts o;
	struct functions_args f;
	struct analyse_args show;
	struct kp_mfa_pat entry;	/* mod NULL: not by request */
	struct opt_list targets;
	const char *keep, *entry_text;
	int probe;
	char library[4096 + 64];
	size_t events, queue, requests, bytes;
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
	int st = EXIT_DONE;

	kept_nodes(k, a, true);
	kp_calls_write_end(&k->w, k->names, info);
	if (kept_flush(k) != KP_OK || fflush(k->to.f) != 0) {
		say("cannot write '%s': %s", k->to.name, strerror(errno));
		return EXIT_FAILED;
	}
	say_ends(a, ts);
	if (!a->f.quiet || a->keep == NULL || a->show.db != NULL)
		st = analyse_show(&a->show, fileno(k->to.f), k->to.name);
	else if (early || info->lost > 0)
		analyse_say_remarks(&(struct trace_view){ .names = k->names,
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
	char where[512], more[64] = "", count[TEXT_MAX];

	if (a->f.limit > 0 || a->o.g.apply[0] != '\0' || a->f.quiet)
		return;
	if (a->targets.n > 1)
		snprintf(more, sizeof(more), " and %zu more nodes",
		    a->targets.n - 1);
	snprintf(where, sizeof(where), "'%s'%s", a->targets.v[0], more);
	if (a->o.requests > 0)
		say("tracing %s in %s, which %s begins, for "
		    REQUESTS_LIMIT_TEXT " at most (see -for); Ctrl-C ends it "
		    "and shows what there is", text_counted(count, a->requests,
		    "request"), where, a->entry_text);
	else
		say("tracing in %s; Ctrl-C ends it and shows the figures",
		    where);
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
trace(const struct args *a)
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
		return a->bytes == 0 ? OPTS_GO_ON :
		    opts_wrong(cmd, "-args-bytes goes with -args");
	if (a->keep == NULL && !analyse_has_args(&a->show))
		return opts_wrong(cmd, "-args goes with -form tree, events or "
		    "requests, or with -o FILE");
	a->o.args = a->bytes > 0 ? a->bytes : ARGS_BYTES;
	if (a->o.args < ARGS_BYTES_MIN || a->o.args > KP_CALLS_ARGS_MAX)
		return opts_wrong(cmd, "-args-bytes is a number from %d to "
		    "%u", ARGS_BYTES_MIN, KP_CALLS_ARGS_MAX);
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
	if (st == OPTS_GO_ON)
		st = functions_entry(cmd, a->entry_text, &a->entry,
		    &a->requests);
	if (st != OPTS_GO_ON)
		return st;
	a->o.entry = &a->entry;
	a->o.nentries = a->entry_text != NULL;
	a->o.requests = a->requests;
	a->o.max_events = a->events;
	a->o.max_queue = a->queue;
	a->show.queue_most = a->queue == OPT_COUNT_MAX;
	a->o.probe = (enum tracer_probe)a->probe;
	if (a->o.probe_library == NULL)
		a->o.probe_library = probe_file(a->library, sizeof(a->library),
		    "kprof_calls_probe.so");
	if (a->o.probe_library[0] != '/')
		return opts_wrong(cmd, "-probe-library needs the whole path");
	if (a->f.list && (a->targets.n > 1 || a->o.nentries > 0))
		return opts_wrong(cmd, "-list goes with one -target and "
		    "without -entry");
	st = functions_check(cmd, &a->f, &a->o.g);
	if (a->o.g.span == 0 && a->o.requests > 0 &&
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
		    &a.entry_text, NULL },
		{ "requests", "N", "with -entry: end after N requests (default "
		    "1)", opt_count, &a.requests, NULL },
		OPT_GROUP("What is traced, and how"),
		{ "args", NULL, "with the arguments of calls, as far as "
		    "they are small", opt_flag, &a.args, NULL },
		{ "args-bytes", "N", "with -args: N bytes of text for a call "
		    "(default 200, at most 4096)", opt_count, &a.bytes, NULL },
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

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = check_args(cmd, &a);
	if (st == OPTS_GO_ON)
		a.o.g.talk.wake = signals_catch();
	if (st == OPTS_GO_ON)
		st = a.o.g.talk.wake < 0 ? EXIT_FAILED : a.f.list ?
		    functions_list(&a.o.g) : trace(&a);
	kp_mfa_pat_free(&a.entry);
	functions_free(&a.o.g);
	return st;
}
