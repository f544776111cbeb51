/*
 * test_request.c - runs the cases of request assembly, test/unit/cases/request/:
 * what processes do goes in; requests and losses come out.
 *
 *	case children 27 25 max_calls=3
 *	# e calls a; then e calls c.
 *	1 #1: 0 entry e<x, 2 call a<e, 3 back e, 5 call c<e, 7 back e, 10 back x
 *	expire 1000
 *	= #1 unknown 0-10: e 0-10 | a 2-3 <0 | c 5-7 <0
 *	lost stale 0, in_flight 0
 *
 * It runs on each release that it names (native: 25's native probe); caps, and the
 * name of a configuration, if it is not "two", follow.  "nodes": there is a node 1,
 * six days ahead.
 *
 * A line with a process's number (2@1: of node 1) and the label of its token
 * tells what it does and when, in ms:
 *
 *	entry F<CALLER [had #LABEL]	call F<CALLER [from PROCESS]
 *	back F		return_to; nobody: -	returned F	raised F
 *	clears F<CALLER			takes its token
 *	set CALLER, clear CALLER	kprof:set_token, clear_token; they return
 *	unsampled CALLER		a set_token that sampling passes over
 *	out [to MS], in, gc [to MS], gc_end
 *	sends PROCESS NO, takes PROCESS NO	the message's number; 3/2: its
 *	passes PROCESS NO		sender took 2 last; passes: taken 1 ms later
 *	... token NO/NO			the same of an entry or a call
 *
 * Others, each on a line of its own, or after a semicolon:
 *
 *	expire MS [on NODE]		abandon CAUSE [on NODE]
 *	remove NODE CAUSE		node NAME is NODE
 *	join NODE MS			its clock is so far ahead of node 0's
 *	clock NODE MS			the same, and nothing is told
 *	offset NODE MS ERROR		what is told is wrong by so much
 *	release N			of node 0
 *	weight N, identity NAME, label NAME	of all that begins now
 *	name N M:F			the answer to the n-th on_receiver
 *	meet, ask			see blocks below
 *	forget				what came
 *	repeat N every MS [labels] [pids]: ...	or the lines up to "end": times grow,
 *			and labels and processes by 1 if it says so
 *	= TEXT		all that has come since, line by line; see feed.h
 *	~ TEXT		this is in it; $: and the end of the line
 *	lost[@NODE] CAUSE N		so far; no_losses
 *	in_flight[@NODE] N, entries, running, strayed, outside	of the node
 *	closed N, expired N, runaways N, asked N, pauses N
 *	adds_up		the last request's self times make up its duration
 *	empty		nothing is kept
 *	oldest MS MAX = ...		in flight: label, age, where, for how long
 *	flight MS = ...			of the oldest: type, weight, calls, and path
 *	cells NODE = ...		self, gc and out of each tier ("cells")
 *
 * x, y, z, r and u0 are functions that are not traced.
 */
#include "cases.h"

#include <ctype.h>
#include <glob.h>

#include "feed_fixture.h"
#include "kprofd/label.h"
#include "kprofd/stats.h"
#include "request_check.h"

#define AHEAD 5e8	/* ms, of node 1's clock: six days */
#define NO_LABEL UINT64_MAX
#define UNOWNED (KP_LABEL_KPROFD << KP_LABEL_KIND_SHIFT | \
	(uint64_t)KP_LABEL_UNOWNED << KP_LABEL_CONST_SHIFT | 7)

#define ONE_TIERS "{tiers, [{web, {e,e,1}}, {db, [{a,a,1}, {b,b,1}]}]}.\n"

/*
 * What comes out: requests with their calls; with waits of messages in place of
 * calls, " 2:db 5.5" for 5.5 ms of process 2, "@1" on and "<1" from node 1; or
 * nothing, but cells.
 */
enum prints { CALLS, WAITS, CELLS };

static const struct config {
	const char *name, *text;
	enum prints prints;
} configs[] = {
	{ "two", conf_two, CALLS },
	{ "one", ONE_TIERS "{sampling, all}.\n", CALLS },
	/* Requests end with the return of another function. */
	{ "finish", ONE_TIERS "{finish, {fin,fin,1}}.\n{sampling, all}.\n",
	    CALLS },
	{ "finish_b", ONE_TIERS "{entry, {e,e,1}}.\n{finish, {b,b,1}}.\n"
	    "{sampling, all}.\n", CALLS },
	{ "finish_mark", "{tiers, [{db, [{a,a,1}, {b,b,1}]}]}.\n"
	    "{entry, {kprof,set_token,0}}.\n{finish, {b,b,1}}.\n", CALLS },
	/* An entry without a token (#0) is timed. */
	{ "timed", ONE_TIERS "{slow, always}.\n", CALLS },
	{ "messages", "{tiers, [{web, {e,e,1}}]}.\n{sampling, all}.\n"
	    "{messages, true}.\n", WAITS },
	{ "unasked", "{tiers, [{web, {e,e,1}}]}.\n{sampling, all}.\n", WAITS },
	{ "cells", "{tiers, [{e, {e,e,1}}, {a, {a,a,1}}, {b, {b,b,1}}]}.\n"
	    "{entry, {e,e,1}}.\n{gc, true}.\n{scheduling, true}.\n", CELLS },
};

static const struct {
	const char *name, *does;
} blocks[] = {
	/* e of node 0 asks a on node 1 through b, which waits for it. */
	{ "ask", "1 #1: 0 entry e<u0, 1 call b<e;"
	    "1@1 #1: 2 call a<u0 from 1, 5 back u0; 1: 6 back e, 10 back u0" },
	/*
	 * 1 gives its worker back and ends; 2, which has waited, is answered
	 * with its token (message 20).  The worker (22) asks a store (24).
	 */
	{ "meet", "1 #1: 0 entry e<x; 2 #2: 1 entry e<x; 1: 4 back x;"
	    "9 #1: 5 call b<x from 2 token 22/20;"
	    "10 #1: 6 call c<x from 9 token 24/22, 7 back x; 9: 8 back x" },
};

static struct one_case *now;
static struct { char *text; unsigned line; } lines[256];	/* of it */
static unsigned nlines, at;
static char *p;			/* what is left of the line */
static const struct config *config;
static const char *release;	/* that it runs on now, or NULL */
static struct {
	double ms;
	uint32_t n, labels, pids;
	bool on;
} turn;				/* of a repeat */
static unsigned checks;
static bool looked;		/* at the text */
static char identity[64], call_label[64];
static struct kp_losses lost_at_node[FEED_NODES];
static struct kp_stats *stats[FEED_NODES];
static kp_dur_ns selfs, total;	/* of the last request */
static uint32_t pauses;
static uint64_t asked[64];
static unsigned nasked;

/* ---- what comes out ---- */

static void
print_waits(const struct kp_request *rq)
{
	const struct kp_wait *w;
	uint32_t n;

	w = kp_requests_waits(f.rs, &n);
	kp_buf_printf(&f.text, "#%llu:", (unsigned long long)rq->label);
	for (uint32_t i = 0; i < n; i++) {
		kp_buf_printf(&f.text, " %u:%s",
		    (unsigned)(kp_proc_pid(w[i].proc) & 0xFFFFFF),
		    kp_requests_receiver(f.rs, w[i].receiver));
		if (w[i].node != 0)
			kp_buf_printf(&f.text, "@%u", w[i].node);
		if (w[i].node != w[i].from)
			kp_buf_printf(&f.text, "<%u", w[i].from);
		kp_buf_printf(&f.text, " %g", (double)w[i].wait / 1e6);
	}
	kp_buf_u8(&f.text, '\n');
}

static void
on_request(void *ctx, const struct kp_request *rq)
{
	static kp_dur_ns self[20000];

	request_wellformed(rq);
	assert_in_range(rq->ncalls, 1, 20000);
	assert_int_equal(kp_request_self(rq, self), KP_OK);
	selfs = 0;
	total = rq->end - rq->start;
	for (uint32_t i = 0; i < rq->ncalls; i++)
		if (self[i] >= 0 && !rq->calls[i].async)
			selfs += self[i];
	pauses += rq->npauses;
	if (config->prints == CELLS)
		kp_stats_request(stats[rq->node], rq);
	else if (config->prints == WAITS)
		print_waits(rq);
	else
		feed_on_request(ctx, rq);
}

static void
on_late(void *ctx, const struct kp_late_call *c)
{
	(void)ctx;
	kp_stats_late(stats[c->node], c);
}

static void
on_receiver(void *ctx, uint32_t node, uint64_t proc)
{
	(void)ctx, (void)node;
	if (nasked < sizeof(asked) / sizeof(asked[0]))
		asked[nasked++] = proc;
}

/* "1 10ms a@1 8ms, ..." */
static void
print_oldest(struct kp_buf *b, double ms, size_t max)
{
	struct kp_flight v[16];
	size_t n = kp_requests_oldest(f.rs, 0, feed_time(ms), v, max);

	for (size_t i = 0; i < n; i++) {
		kp_buf_printf(b, "%s%d %gms ", i > 0 ? ", " : "",
		    (int)v[i].label, (double)v[i].age / 1e6);
		if (v[i].fn == KP_NONE)
			kp_buf_str(b, "nowhere");
		else
			kp_buf_printf(b, "%.1s@%d %gms",
			    kp_requests_fn(f.rs, v[i].fn)->text, v[i].node,
			    (double)v[i].in_call / 1e6);
	}
}

/* "create x1, 2 calls: e b": of which those that are open, the innermost last */
static void
print_flight(struct kp_buf *b, double ms)
{
	struct kp_flight v;

	assert_int_equal(kp_requests_oldest(f.rs, 0, feed_time(ms), &v, 1), 1);
	kp_buf_printf(b, "%s x%u, %u calls:", v.identity == KP_IDENT_NONE ?
	    "-" : kp_requests_identity(f.rs, v.identity), v.weight, v.ncalls);
	for (unsigned i = 0; i < v.npath; i++)
		kp_buf_printf(b, " %.1s",
		    kp_requests_fn(f.rs, v.path[i])->text);
}

/* "e 5 1 2|..": self, gc and out of each tier of a node's window. */
static void
print_cells(struct kp_buf *b, uint32_t node)
{
	struct kp_window *w = kp_stats_rotate(stats[node], 0, 1);

	for (size_t i = 0; i < w->ncells; i++) {
		const struct kp_cell *c = &w->cells[i];

		if (strcmp(c->identity, "_total") != 0)
			continue;
		assert_true(c->has_gc && c->has_out);
		assert_true(strcmp(c->tier, "_total") == 0 ||
		    c->gc + c->out <= c->self);
		kp_buf_printf(b, "%s%s %g %g %g", b->len > 0 ? "|" : "",
		    c->tier, (double)c->self / 1e6, (double)c->gc / 1e6,
		    (double)c->out / 1e6);
	}
	kp_window_free(w);
}

/* ---- words ---- */

static _Noreturn void
bad(const char *why)
{
	case_fail(now, "%s: %s", why, nlines > at ? lines[at].text : "");
	abort();
}

static void
same(const char *came, const char *want)
{
	checks++;
	if (strcmp(came, want) != 0)
		case_fail(now, "on %s came:\n%s\nwanted:\n%s", release, came,
		    want);
}

/* The next word, if it is this one. */
static bool
eats(const char *word)
{
	size_t n = strlen(word);

	p += strspn(p, " ");
	if (strncmp(p, word, n) != 0 || (isalpha((unsigned char)*word) &&
	    (isalnum((unsigned char)p[n]) || p[n] == '_')))
		return false;
	p += n;
	return true;
}

static double
number(void)
{
	char *end;
	double v = strtod(p, &end);

	if (end == p)
		bad("a number is wanted");
	p = end;
	return v;
}

/* Good until four more were read. */
static const char *
word(void)
{
	static char v[4][64];
	static unsigned next;
	char *w = v[next++ % 4];
	size_t n;

	p += strspn(p, " ");
	n = strcspn(p, " ,;<=@");
	if (n == 0 || n >= sizeof(v[0]))
		bad("a word is wanted");
	snprintf(w, sizeof(v[0]), "%.*s", (int)n, p);
	p += n;
	return w;
}

static const char *
fn_name(void)
{
	const char *w = word();

	return strcmp(w, "-") == 0 ? NULL : w;
}

static uint32_t
a_node(void)
{
	double n = number();

	if (n < 0 || n >= FEED_NODES)
		bad("no such node");
	return (uint32_t)n;
}

static uint32_t
node_after(const char *mark)
{
	return eats(mark) ? a_node() : 0;
}

static uint32_t
process(void)
{
	uint32_t pid = (uint32_t)number() + turn.pids * turn.n;

	return AT(node_after("@"), pid);
}

static uint64_t
label(void)
{
	bool unowned;

	if (!eats("#"))
		bad("a label is wanted");
	unowned = eats("unowned");
	if (unowned && *p != '+')
		return UNOWNED;
	return (uint64_t)number() + (unowned ? UNOWNED : turn.labels * turn.n);
}

static enum kp_loss
cause(void)
{
	const char *w = word();

	for (unsigned i = 0; i < KP_LOSS_COUNT; i++)
		if (strcmp(w, kp_loss_name(i)) == 0)
			return i;
	bad("no such cause");
}

/* ---- what processes do ---- */

static const struct verb {
	const char *name;
	enum kp_event_kind kind;
	enum { OPENS, RETURNS, MARK, PAUSE, MESSAGE } takes;
	const char *mark;
} verbs[] = {
	{ "entry", KP_EV_ENTRY, OPENS, NULL },
	{ "call", KP_EV_CALL, OPENS, NULL },
	{ "clears", KP_EV_CLEAR, OPENS, NULL },
	{ "back", KP_EV_RETURN_TO, RETURNS, NULL },
	{ "returned", KP_EV_RETURN_FROM, RETURNS, NULL },
	{ "raised", KP_EV_EXCEPTION_FROM, RETURNS, NULL },
	{ "set", KP_EV_ENTRY, MARK, "set_token" },
	{ "clear", KP_EV_CLEAR, MARK, "clear_token" },
	{ "unsampled", KP_EV_CLEAR, MARK, "set_token" },
	{ "out", KP_EV_OUT, PAUSE, NULL },
	{ "in", KP_EV_IN, PAUSE, NULL },
	{ "gc", KP_EV_GC_START, PAUSE, NULL },
	{ "gc_end", KP_EV_GC_END, PAUSE, NULL },
	{ "sends", KP_EV_SEND, MESSAGE, NULL },
	{ "takes", KP_EV_RECEIVE, MESSAGE, NULL },
	{ "passes", KP_EV_SEND, MESSAGE, NULL },
};

static const struct verb *
verb(void)
{
	const char *w = word();

	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(w, verbs[i].name) == 0)
			return &verbs[i];
	bad("no such verb");
}

static void
token(void)
{
	f.serial = (uint32_t)number();
	f.last = *p == '/' ? (p++, (uint32_t)number()) : 0;
}

/* The second event of a verb that has two. */
static void
second(enum kp_event_kind kind, uint32_t pid, uint32_t other, uint64_t of,
    double ms)
{
	feed_event(&f, &(struct kp_event){ .kind = kind, .pid = feed_pid(pid),
	    .ts = feed_time(ms), .label = of, .has_from = other != 0,
	    .from = feed_pid(other) }, NULL, NULL);
}

static void
event(uint32_t pid, uint64_t of)
{
	double ms = number() + turn.ms * turn.n;
	const struct verb *v = verb();
	const char *fn = v->mark, *caller = NULL;
	uint32_t other = 0, serial, last;
	struct kp_event ev = { .kind = v->kind, .pid = feed_pid(pid),
		.ts = feed_time(ms) };

	if (v->takes == OPENS || v->takes == RETURNS)
		fn = fn_name();
	if (v->takes == OPENS && !eats("<"))
		bad("< is wanted");
	if (v->takes == OPENS || v->takes == MARK)
		caller = fn_name();
	if (v->takes == MESSAGE) {
		other = process();
		token();
		ev.has_from = other != 0;
		ev.from = feed_pid(other);
	}
	if (v->kind == KP_EV_ENTRY && eats("had"))
		ev.old_label = label();
	if (v->kind == KP_EV_CALL && eats("from")) {
		ev.has_from = true;
		ev.from = feed_pid(process());
	}
	if (v->takes == OPENS && eats("token"))
		token();
	if (v->takes == OPENS || v->takes == MARK || v->takes == MESSAGE) {
		if (of == NO_LABEL)
			bad("a label is wanted");
		ev.label = of;
	}
	if (v->kind == KP_EV_ENTRY)
		ev.weight = f.weight;
	serial = f.serial;
	last = f.last;
	feed_event(&f, &ev, fn, caller);
	if (v->takes == MARK)
		back_to(&f, pid, caller, ms);
	if (v->takes == PAUSE && eats("to"))
		second(v->kind == KP_EV_OUT ? KP_EV_IN : KP_EV_GC_END, pid, 0,
		    0, number() + turn.ms * turn.n);
	if (strcmp(v->name, "passes") == 0) {
		f.serial = serial;
		f.last = last;
		second(KP_EV_RECEIVE, other, pid, of, ms + 1);
	}
}

/* ---- counts ---- */

static void
is(uint64_t came)
{
	double want = number();

	checks++;
	if ((double)came != want)
		case_fail(now, "on %s %llu, wanted %.0f: %s", release,
		    (unsigned long long)came, want, lines[at].text);
}

static const struct kp_losses *
losses(uint32_t node)
{
	kp_requests_losses_take(f.rs, node, &lost_at_node[node]);
	return &lost_at_node[node];
}

static void
count(void)
{
	const char *w = word();
	uint32_t node = eats("@-") ? KP_NONE : node_after("@");

#define COUNT(name, value) else if (strcmp(w, name) == 0) is(value)
	if (strcmp(w, "in_flight") == 0)
		is(kp_requests_in_flight(f.rs, node));
	COUNT("running", kp_requests_running(f.rs, node));
	COUNT("entries", kp_requests_entries(f.rs, node));
	COUNT("strayed", kp_requests_strayed(f.rs, node));
	COUNT("outside", kp_requests_outside(f.rs, node));
	COUNT("closed", f.closed);
	COUNT("expired", f.expired);
	COUNT("runaways", f.runaways);
	COUNT("asked", nasked);
	COUNT("pauses", pauses);
	else
		bad("what is this");
}

/* ---- lines ---- */

static void play(unsigned first, unsigned last);
static void one_line(const char *line);

static char *
rest(void)
{
	char *r = p;

	p += strlen(p);
	return r;
}

static void
name_receiver(void)
{
	unsigned i = (unsigned)number();
	char *mod = (p++, rest()), *fun = strchr(mod, ':');
	struct kp_buf b;

	kp_buf_init(&b, 1024);
	if (fun != NULL) {
		*fun++ = '\0';
		kp_etf_tuple(&b, 3);
		kp_etf_atom(&b, mod);
		kp_etf_atom(&b, fun);
		kp_etf_int(&b, 2);
	} else if (strcmp(mod, "-") != 0) {
		kp_etf_atom(&b, mod);
	} else {
		kp_etf_nil(&b);
	}
	if (i >= nasked)
		bad("nobody was asked for");
	kp_requests_name_receiver(f.rs, asked[i],
	    (struct kp_span){ b.p, (uint32_t)b.len });
	kp_buf_free(&b);
}

/* "oldest 10 9 = ..." and its like */
static bool
print(void)
{
	struct kp_buf b;
	double ms;

	kp_buf_init(&b, 1 << 12);
	if (eats("cells"))
		print_cells(&b, a_node());
	else if (eats("flight"))
		print_flight(&b, number());
	else if (eats("oldest"))
		ms = number(), print_oldest(&b, ms, (size_t)number());
	else
		return false;
	if (!eats("="))
		bad("= is wanted");
	same(kp_buf_cstr(&b), p + strspn(p, " "));
	rest();
	kp_buf_free(&b);
	return true;
}

/* What follows on the line, or the lines up to `end`, again and again. */
static void
repeat(void)
{
	unsigned n = (unsigned)number(), first = at + 1, last = first;
	char *here = NULL;

	if (!eats("every") || turn.on)
		bad("every is wanted, and no repeat around it");
	turn.on = true;
	turn.ms = number();
	turn.labels = eats("labels");
	turn.pids = eats("pids");
	if (eats(":"))
		here = rest();
	while (here == NULL && strcmp(lines[last].text, "end") != 0)
		if (++last >= nlines)
			bad("without an end");
	for (turn.n = 0; turn.n < n; turn.n++) {
		if (here != NULL)
			one_line(here);
		else
			play(first, last);
	}
	memset(&turn, 0, sizeof(turn));
	if (here == NULL)
		at = last;
	p = strchr(lines[at].text, '\0');
}

static bool
block(void)
{
	char *left;

	for (size_t i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		if (!eats(blocks[i].name))
			continue;
		left = p;
		one_line(blocks[i].does);
		p = left;
		return true;
	}
	return false;
}

/* All lines that begin with =. */
static void
all_that_came(void)
{
	struct kp_buf want;

	kp_buf_init(&want, 1 << 16);
	for (;; at++) {
		if (lines[at].text[1] == ' ')
			kp_buf_printf(&want, "%s\n", lines[at].text + 2);
		else if (lines[at].text[1] != '\0')
			bad("= and a blank");
		if (at + 1 == nlines || lines[at + 1].text[0] != '=')
			break;
	}
	same(kp_buf_cstr(&f.text), kp_buf_cstr(&want));
	kp_buf_reset(&f.text);
	kp_buf_free(&want);
	p = strchr(p, '\0');
}

static void
known_node(void)
{
	char name[32];
	int n;

	if (sscanf(p, " %31s is %n", name, &n) != 1)
		bad("node NAME is N");
	p += n;
	is(kp_requests_node(f.rs, name));
}

/* One of those between commas. */
static void
directive(void)
{
	uint32_t node;
	double ms;

	if (eats("expire")) {
		ms = number() + turn.ms * turn.n;
		if (!eats("on")) {
			expire(&f, ms);
			return;
		}
		node = a_node();
		kp_requests_close_due(f.rs, node,
		    feed_time(ms) + f.clock[node]);
	} else if (eats("abandon")) {
		enum kp_loss why = cause();

		kp_requests_abandon(f.rs, node_after("on"), why);
	} else if (eats("remove")) {
		node = a_node();
		f.joined[node] = false;
		kp_requests_remove(f.rs, node, cause());
	} else if (eats("join")) {
		node = a_node();
		join(&f, node, number());
	} else if (eats("clock")) {
		node = a_node();
		f.clock[node] = (kp_dur_ns)(number() * 1e6);
	} else if (eats("offset")) {
		node = a_node();
		ms = number();
		kp_requests_offset(f.rs, node, (kp_dur_ns)(ms * 1e6) -
		    f.clock[node], (kp_dur_ns)(number() * 1e6));
	} else if (eats("node")) {
		known_node();
	} else if (eats("release")) {
		kp_requests_set_otp(f.rs, 0, (int)number());
	} else if (eats("weight")) {
		f.weight = (uint32_t)number();
	} else if (eats("identity")) {
		p += strspn(p, " ");
		snprintf(identity, sizeof(identity), "%s", rest());
		f.identity = identity;
	} else if (eats("label")) {
		p += strspn(p, " ");
		snprintf(call_label, sizeof(call_label), "%s", rest());
		f.label = call_label;
	} else if (eats("name")) {
		name_receiver();
	} else if (eats("forget")) {
		kp_buf_reset(&f.text);
	} else if (eats("lost")) {
		const struct kp_losses *l = losses(node_after("@"));

		is(l->n[cause()]);
	} else if (eats("no_losses")) {
		checks++;
		for (unsigned i = 0; i < KP_LOSS_COUNT; i++)
			if (losses(0)->n[i] != 0)
				bad(kp_loss_name(i));
	} else if (eats("adds_up")) {
		checks++;
		if (selfs != total)
			bad("the self times do not");
	} else if (eats("empty")) {
		checks++;
		requests_empty(f.rs);
	} else if (eats("repeat")) {
		repeat();
	} else if (!print() && !block()) {
		count();
	}
}

/* What a process does, or some of the others. */
static void
part(void)
{
	uint64_t of = NO_LABEL;
	uint32_t pid = 0;
	bool does;

	p += strspn(p, " ");
	does = isdigit((unsigned char)*p);
	if (does) {
		pid = process();
		p += strspn(p, " ");
		of = *p == '#' ? label() : NO_LABEL;
		if (!eats(":"))
			bad(": is wanted");
	}
	do {
		if (does)
			event(pid, of);
		else
			directive();
	} while (eats(","));
}

static void
one_line(const char *line)
{
	char *text = strdup(line);

	p = text;
	looked = looked && *p != '=';
	if (eats("=")) {
		all_that_came();
	} else if (eats("~ ")) {
		checks++;
		looked = true;
		if (*p != '\0' && p[strlen(p) - 1] == '$')
			p[strlen(p) - 1] = '\n';
		if (strstr(kp_buf_cstr(&f.text), p) == NULL)
			same(kp_buf_cstr(&f.text), p);
	} else {
		do
			part();
		while (eats(";"));
		if (p[strspn(p, " ")] != '\0')
			bad("what is this");
	}
	free(text);
}

static void
play(unsigned first, unsigned last)
{
	for (at = first; at < last; at++) {
		now->line = lines[at].line;
		one_line(lines[at].text);
	}
}

static void
begin(const struct kp_requests_opts *caps, bool nodes)
{
	struct kp_requests_opts o = *caps;
	bool native = strcmp(release, "native") == 0;

	memset(&turn, 0, sizeof(turn));
	memset(lost_at_node, 0, sizeof(lost_at_node));
	pauses = nasked = checks = 0;
	looked = false;
	o.chain_is_ambiguous = native || strcmp(release, "25") == 0;
	feed_init(&f, config->text, &o);
	f.opts.on_request = on_request;
	f.opts.on_receiver = config->prints == WAITS ? on_receiver : NULL;
	if (config->prints == CELLS)
		feed_hand_on(&f, 1, on_request, on_late);
	else
		feed_requests(&f, 1);
	for (int i = 0; i < FEED_NODES && config->prints == CELLS; i++) {
		stats[i] = kp_stats_new(f.conf, feed_names[i]);
		kp_stats_names(stats[i], f.rs);
		kp_stats_peers(stats[i], stats);
	}
	if (native)
		kp_requests_native(f.rs, 0, true);
	if (nodes)
		join(&f, 1, AHEAD);
}

FIXTURE(end)
{
	for (int i = 0; i < FEED_NODES; i++) {
		kp_stats_free(stats[i]);
		stats[i] = NULL;
	}
	if (release != NULL)
		teardown(state);
	release = NULL;
	return 0;
}

/* A configuration or a cap, after the releases. */
static bool
head_word(const char *w, struct kp_requests_opts *o)
{
	unsigned long calls;

	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++)
		if (strcmp(w, configs[i].name) == 0) {
			config = &configs[i];
			return true;
		}
	if (sscanf(w, "max_calls_in_flight=%lu", &calls) == 1) {
		o->max_calls_in_flight = calls;
		return true;
	}
	return sscanf(w, "max_requests=%zu", &o->max_requests) == 1 ||
	    sscanf(w, "max_calls=%u", &o->max_calls) == 1 ||
	    sscanf(w, "max_stack=%u", &o->max_stack) == 1 ||
	    sscanf(w, "max_identities=%u", &o->max_identities) == 1;
}

/* "children 25 27 max_calls=3" and its lines, on each of these releases. */
static void
run_case(void **state)
{
	struct kp_requests_opts caps = { 0 };
	char head[128], *w, *left, *releases[4];
	unsigned n = 0;
	bool nodes = false;

	now = *state;
	nlines = 0;
	config = &configs[0];
	snprintf(head, sizeof(head), "%s", now->name);
	strtok_r(head, " ", &left);
	while ((w = strtok_r(NULL, " ", &left)) != NULL) {
		if (n < 4 && (strcmp(w, "25") == 0 || strcmp(w, "27") == 0 ||
		    strcmp(w, "native") == 0))
			releases[n++] = w;
		else if (strcmp(w, "nodes") == 0)
			nodes = true;
		else if (!head_word(w, &caps))
			case_fail(now, "no such release or cap: %s", w);
	}
	for (; (w = case_line(now)) != NULL; nlines++) {
		if (nlines == sizeof(lines) / sizeof(lines[0]))
			case_fail(now, "a long case");
		lines[nlines].text = w;
		lines[nlines].line = now->line;
	}
	if (n == 0)
		case_fail(now, "on no release");
	for (unsigned i = 0; i < n; i++) {
		release = releases[i];
		begin(&caps, nodes);
		play(0, nlines);
		if (checks == 0)
			case_fail(now, "nothing is checked");
		if (f.text.len > 0 && !looked)
			case_fail(now, "on %s came also:\n%s", release,
			    kp_buf_cstr(&f.text));
		end(state);
	}
}

int
main(void)
{
	glob_t g;
	bool good = glob("test/unit/cases/request/*.txt", 0, NULL, &g) == 0;

	if (!good)
		fprintf(stderr, "no cases: run from the top of the tree\n");
	for (size_t i = 0; good && i < g.gl_pathc; i++)
		good = cases_add(g.gl_pathv[i], run_case);
	good = good && tests_run("request", NULL, end, NULL, NULL) == 0;
	/* Cases name their files to the end. */
	globfree(&g);
	return !good;
}
