/*
 * agent_notice.c - reads what the agent reports without being asked: {kprof_notice,
 * Kind, What, Number}.
 *
 *   trip        what passed its limit; its queue
 *   unexact     a function; bytes of its values
 *   code        {Module, How, GapUs, UncountedUs}; functions not there now
 *   loads       {reloaded | loaded | deleted, Modules}, some of those that no tier
 *               names; how many there are
 *   neighbours  some of the processes that others trace, with their tracers;
 *               how many there are
 *   others      the same, where match specs cannot set flags because of that
 *   untraced    []; how many processes have no flags yet, since they run native
 *               code; 0: all have them
 *   brought     some of the modules that were loaded because tiers.conf names
 *               them; how many there are
 *   messages    on | off | {others, Tracer}: are they timed?
 *   hot         a function that was disarmed because it is called too often; its
 *               calls a second
 *   budget      the same because all functions together are
 *   uncounted   some of the functions that another tool counts; how many
 *   foreign     {Kind, MFA | all, dropped | ceded}, of an event of another tool's
 *               pattern; how many there were
 *   lent        which tool traces new processes in our place, by its names
 *   taken       {[{What, HowMany}], Who, Ms}: what another tool removed of ours,
 *               which tools trace there, since when at most; how often within
 *               a minute
 *   calls       [{MFA, N}], more calls of functions of tiers that the VM counted
 *               while they were armed; the same of all entries
 *   set_back    since when, in ms, at most; how many counters of entries another
 *               tool set back
 *   connected   a node to which this one has connected
 *   rest        {foreign, Kind, MFA} or {taken, .., Who}: tracing paused for it
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kprofd/cost.h"
#include "kprofd/etf.h"
#include "kprofd/fn_name.h"
#include "kprofd/guard.h"
#include "agent/agent_internal.h"

#define ATOM_TEXT 1024	/* 255 characters */
#define NAME_TEXT 200	/* of a term that is not a name */
#define CALLS_MAX (INT64_C(1) << 40)	/* more in a second are not plausible */
#define NOTICE_MAX (FN_NAME_MAX + 400)

struct what {
	struct kp_span kind;
	struct kp_term r;	/* at the term What; */
	char text[200];		/* that, printed */
	int64_t n;		/* its number */
};

static void __attribute__((format(printf, 3, 4)))
notice(struct agent *a, const char *kind, const char *fmt, ...)
{
	char text[NOTICE_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	agent_report(a, kind, text);
}

static struct kp_plan_item *
plan_item(const struct kp_plan *plan, struct kp_term mfa)
{
	struct kp_span mod, fun;
	uint32_t arity = kp_term_mfa(&mfa, &mod, &fun);

	return mfa.err == KP_OK ? kp_plan_find(plan, mod, fun, arity) : NULL;
}

static void
atom_text(struct kp_term *r, char *text)
{
	struct kp_span name = kp_term_atom(r);

	snprintf(text, ATOM_TEXT, "%.*s", (int)name.n, (const char *)name.p);
}

/* {Module, Function, Arity} as people write it; false: it is not one. */
static bool
mfa_name(struct kp_term mfa, char *text, size_t n)
{
	char mod[ATOM_TEXT], fun[ATOM_TEXT];
	int64_t arity;

	kp_term_tuple_n(&mfa, 3);
	atom_text(&mfa, mod);
	atom_text(&mfa, fun);
	arity = kp_term_int(&mfa);
	if (mfa.err != KP_OK || arity < 0 || arity > UINT8_MAX)
		return false;
	fn_name(text, n, mod, fun, (uint32_t)arity);
	return true;
}

static void
mfa_text(struct kp_term mfa, char *text, size_t n)
{
	if (!mfa_name(mfa, text, n))
		snprintf(text, n, "a function");
}

/* Writes an atom or a function by name, anything else as a term. */
static void
name_put(struct kp_term *r, struct kp_buf *b)
{
	char name[ATOM_TEXT], text[FN_NAME_MAX];
	struct kp_term mfa = *r;

	if (kp_term_peek(r) == KP_TERM_ATOM) {
		atom_text(r, name);
		kp_buf_str(b, fn_shown(text, sizeof(text), name));
	} else if (kp_term_peek(r) == KP_TERM_TUPLE &&
	    mfa_name(mfa, text, sizeof(text))) {
		kp_buf_str(b, text);
		kp_term_skip(r);
	} else {
		kp_term_print(r, b, NAME_TEXT);
	}
}

static void
name_text(struct kp_term *r, char *text, size_t n)
{
	struct kp_buf b;

	kp_buf_init(&b, FN_NAME_MAX);
	name_put(r, &b);
	snprintf(text, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* Writes a list of them. */
static void
words_put(struct kp_term *r, char *text, size_t n)
{
	struct kp_buf b;
	uint32_t len = kp_term_list(r);

	kp_buf_init(&b, 1 << 16);
	for (uint32_t i = 0; i < len && r->err == KP_OK; i++) {
		kp_buf_str(&b, i == 0 ? "" : ", ");
		name_put(r, &b);
	}
	if (len > 0)
		kp_term_nil(r);
	snprintf(text, n, "%s", kp_buf_cstr(&b));
	kp_buf_free(&b);
}

/* {queue, 20001}, or nosuspend: a limit of what waits, in words. */
static bool
limit_text(const struct agent *a, struct kp_term at, char name[ATOM_TEXT],
    struct kp_trip_limit *limit, char *text, size_t n)
{
	limit->name = name;
	if (kp_term_peek(&at) == KP_TERM_TUPLE) {
		kp_term_tuple_n(&at, 2);
		atom_text(&at, name);
		limit->value = kp_term_int(&at);
	} else {
		atom_text(&at, name);
	}
	return at.err == KP_OK && kp_trip_agent_text(limit,
	    &a->now.conf->overload, text, n);
}

/*
 * The limit that was passed: {hot, Entry, CallsPerSecond} or {budget, entries,
 * CallsPerSecond}, since entries cannot be disarmed alone: returns its name; or one of
 * what waits, which is then in *over, named in limit_name: returns NULL.
 */
static const char *
trip_text(const struct agent *a, struct kp_term at, const char *what,
    char limit_name[ATOM_TEXT], struct kp_trip_limit *over, char *text, size_t n)
{
	struct kp_span limit = { NULL, 0 };
	struct kp_term mfa = at, all = at;
	char name[FN_NAME_MAX];
	int64_t calls = 0;

	if (kp_term_peek(&at) == KP_TERM_TUPLE && kp_term_tuple(&at) == 3) {
		limit = kp_term_atom(&at);
		mfa = at;
		kp_term_skip(&at);
		calls = kp_term_int(&at);
	}
	if (at.err == KP_OK && kp_span_is(limit, "hot")) {
		mfa_text(mfa, name, sizeof(name));
		snprintf(text, n, "entry %s is called %" PRId64 " times a "
		    "second or more, which costs %.3g %% of a scheduler, more than "
		    "hot_share, %g (name another entry, or raise hot_share)",
		    name, calls, kp_cost_percent((double)calls),
		    a->now.conf->hot_share);
		return "hot_share";
	}
	if (at.err == KP_OK && kp_span_is(limit, "budget")) {
		snprintf(text, n, "entries are called %" PRId64 " times a "
		    "second or more, which costs %.3g %% of a scheduler, more than "
		    "the budget, %g (name another entry, or raise the budget)",
		    calls, kp_cost_percent((double)calls), a->now.conf->budget);
		return "budget";
	}
	if (!limit_text(a, all, limit_name, over, text, n))
		snprintf(text, n, "%s over its limit, queue %" PRId64, what,
		    over->waiting);
	return NULL;
}

/* The agent has disarmed by itself. */
static void
pause_for(struct agent *a, const char *name, const char *text,
    const struct kp_trip_limit *limit)
{
	/* Late: it is paused or ending already.  It may refuse to resume. */
	if (a->user_paused ||
	    (a->state != AGENT_ARMED && a->state != AGENT_ARMING))
		agent_report(a, "trip", text);
	else
		agent_set_pause(a, agent_emit(a, (struct agent_event){
		    .kind = AGENT_ON_TRIP, .word = name, .text = text,
		    .limit = limit }), text);
}

static void
on_trip(struct agent *a, struct what *w)
{
	struct kp_trip_limit over = { "", 0, w->n };
	char text[FN_NAME_MAX + 300], name[ATOM_TEXT];
	const char *reason = trip_text(a, w->r, w->text, name, &over, text,
	    sizeof(text));

	if (reason != NULL)
		pause_for(a, reason, text, NULL);
	else
		pause_for(a, kp_trip_agent_name(over.name), text, &over);
}

static void
plan_cool(struct kp_plan *plan, struct kp_term mfa)
{
	struct kp_plan_item *item = plan_item(plan, mfa);

	if (item != NULL)
		item->disarmed = item->hot = true;
}

/* The agent has disarmed it; it stays so until another tiers.conf names it. */
static void
on_hot(struct agent *a, struct what *w)
{
	double percent = kp_cost_percent((double)w->n);
	char name[FN_NAME_MAX];

	plan_cool(&a->now.plan, w->r);
	plan_cool(&a->next.plan, w->r);
	mfa_text(w->r, name, sizeof(name));
	if (kp_span_is(w->kind, "hot"))
		notice(a, "hot", "%s is not traced any more: it is "
		    "called %" PRId64 " times a second or more, which costs "
		    "%.3g %% of a scheduler, more than hot_share, %g (take it "
		    "out of the tiers, or raise hot_share)", name, w->n, percent,
		    a->now.conf->hot_share);
	else
		notice(a, "hot", "%s is not traced any more: calls of "
		    "all functions cost more than the budget, %g, and this "
		    "one, called %" PRId64 " times a second or more, costs "
		    "%.3g %% of a scheduler (name fewer functions, or raise the budget)",
		    name, a->now.conf->budget, w->n, percent);
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_REPLANNED });
}

static void
on_uncounted(struct agent *a, struct what *w)
{
	int64_t n = w->n;
	char some[200];

	words_put(&w->r, some, sizeof(some));
	notice(a, "uncounted", "another tool counts calls of %" PRId64
	    " %s of tiers: what they cost is not in the cost (%s)", n, n == 1 ?
	    "function" : "functions", some);
}

/*
 * The agent has armed the match spec without 'exact' that it was given.  That of
 * an entry may have an old sampling rate.
 */
static void
on_unexact(struct agent *a, struct what *w)
{
	struct kp_plan_item *item = plan_item(&a->next.plan, w->r);
	char name[FN_NAME_MAX];

	if (item != NULL)
		item->exact = false;
	item = plan_item(&a->now.plan, w->r);
	if (item != NULL) {
		item->exact = false;
		item->exact_refused = true;
		/* A reload has sent a newer one. */
		if (item->entry && !item->disarmed &&
		    a->next.step != RUN_APPLYING)
			agent_entry_respec(a, item);
	}
	mfa_text(w->r, name, sizeof(name));
	notice(a, "unexact", "'exact' taken back from %s: its values "
	    "are %" PRId64 " bytes on average", name, w->n);
}

static void
put_ms(struct kp_buf *b, int64_t us)
{
	kp_buf_printf(b, "%" PRId64 ".%" PRId64 " ms", us / 1000,
	    us % 1000 / 100);
}

static const struct change {
	const char *kind, *text;
	const char *event, *which, *others;	/* of modules that no tier names */
} changes[] = { { "deleted", "deleted", "changed", "", "deleted" },
	{ "reloaded", "loaded again", "changed", "", "loaded with other code" },
	{ "loaded", "loaded", "loads", "new ", "loaded" } };

static const struct change *
change_named(struct kp_span kind)
{
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		if (kp_span_is(kind, changes[i].kind))
			return &changes[i];
	return NULL;
}

/* As for modules that no tier names: kprof_agent_intact.erl. */
#define CHANGES_QUIET KP_NS_PER_S
#define CHANGES_LAST (10 * KP_NS_PER_S)
#define CHANGES_NAMED 8
#define AGO_MAX 3600000		/* ms */

/* A deploy loads many modules: those of one kind are one event. */
static void
report_change(struct agent *a, const struct change *how,
    const struct code_changes *c)
{
	const char *names = c->names + 2, *end = names, *next;
	uint32_t named = 0;
	struct kp_buf b;

	for (; named < CHANGES_NAMED && *end != '\0'; named++) {
		end += named > 0 ? 2 : 0;
		next = strstr(end, ", ");
		end = next != NULL ? next : end + strlen(end);
	}
	kp_buf_init(&b, 8192);
	if (c->n == 1)
		kp_buf_printf(&b, "module %s was %s", names, how->text);
	else
		kp_buf_printf(&b, "%" PRIu32 " modules were %s: %.*s", c->n,
		    how->text, (int)(end - names), names);
	if (c->n > named)
		kp_buf_printf(&b, " and %" PRIu32 " %s", c->n - named,
		    c->n - named == 1 ? "other" : "others");
	if (c->gap > 0) {
		kp_buf_str(&b, c->n == 1 ? ": traced after " :
		    "; traced again after at most ");
		put_ms(&b, c->gap);
	}
	if (c->missing > 0)
		kp_buf_printf(&b, "; functions that are not there now: %"
		    PRId64, c->missing);
	if (c->uncounted > 0) {
		kp_buf_str(&b, c->n == 1 ?
		    "; its requests were not all counted for " :
		    "; their requests were not all counted for up to ");
		put_ms(&b, c->uncounted);
	}
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_REPORT,
	    .word = how->kind, .text = kp_buf_cstr(&b),
	    .ago = kp_mono_now() - a->changes_first });
	kp_buf_free(&b);
}

void
agent_report_changes(struct agent *a, bool now)
{
	kp_mono_ns at = kp_mono_now();

	if (a->changes_first == 0 || (!now &&
	    at - a->changes_last < CHANGES_QUIET &&
	    at - a->changes_first < CHANGES_LAST))
		return;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		if (a->changes[i].n > 0)
			report_change(a, &changes[i], &a->changes[i]);
		memset(&a->changes[i], 0, sizeof(a->changes[i]));
	}
	a->changes_first = 0;
}

static bool
is_named(const struct code_changes *c, const char *name)
{
	const char *p = c->names + 2;
	size_t n = strlen(name);

	while ((p = strstr(p, name)) != NULL && (p[-1] != ' ' ||
	    (p[n] != ',' && p[n] != '\0')))
		p += n;
	return p != NULL;
}

/* The agent has armed the module's functions again; there may be new ones. */
static void
on_code(struct agent *a, struct what *w)
{
	struct kp_term *r = &w->r;
	const struct change *how;
	struct code_changes *c;
	char mod[300], text[FN_NAME_MAX];
	const char *shown;
	int64_t gap, uncounted;
	size_t n;

	kp_term_tuple_n(r, 4);
	msg_text(r, mod, sizeof(mod));
	how = change_named(kp_term_atom(r));
	gap = kp_term_int(r);
	uncounted = kp_term_int(r);
	shown = fn_shown(text, sizeof(text), mod);
	if (r->err != KP_OK || how == NULL || shown[0] == '\0')
		return;
	c = &a->changes[how - changes];
	if (!is_named(c, shown)) {
		c->n++;
		n = strlen(c->names);
		if (n + 2 + strlen(shown) < sizeof(c->names))
			sprintf(c->names + n, ", %s", shown);
	}
	c->gap = gap > c->gap ? gap : c->gap;
	c->uncounted = uncounted > c->uncounted ? uncounted : c->uncounted;
	if (w->n > 0 && w->n < CALLS_MAX - c->missing)
		c->missing += w->n;
	a->changes_last = kp_mono_now();
	if (a->changes_first == 0)
		a->changes_first = a->changes_last;
	a->recheck_due = true;
}

/* The agent names some of them. */
static void
on_loads(struct agent *a, struct what *w)
{
	const struct change *how;
	struct kp_term names;
	char some[1000], more[60] = "", text[1200];
	int64_t rest, ago;

	if (w->n < 0 || w->n >= CALLS_MAX)
		return;
	kp_term_tuple_n(&w->r, 3);
	how = change_named(kp_term_atom(&w->r));
	ago = kp_term_int(&w->r);
	names = w->r;
	rest = w->n - kp_term_list(&names);
	words_put(&w->r, some, sizeof(some));
	if (w->r.err != KP_OK || how == NULL || some[0] == '\0' || ago < 0)
		return;
	ago = ago < AGO_MAX ? ago : AGO_MAX;
	if (rest > 0)
		snprintf(more, sizeof(more), " and %" PRId64 " %s", rest,
		    rest == 1 ? "other" : "others");
	snprintf(text, sizeof(text), "%" PRId64 " %s%s %s: %s%s (no tier names %s)", w->n,
	    how->which, w->n == 1 ? "module was" : "modules were", how->others, some,
	    more, w->n == 1 ? "it" : "them");
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_REPORT,
	    .word = how->event, .text = text, .ago = ago * KP_NS_PER_MS });
}

static void
on_neighbours(struct agent *a, struct what *w)
{
	notice(a, "neighbours", "other tools trace %" PRId64 " %s, "
	    "whose calls are not seen (with their tracers: %s)", w->n,
	    w->n == 1 ? "process" : "processes", w->text);
}

static void
on_untraced(struct agent *a, struct what *w)
{
	int64_t n = w->n;

	if (n == 0)
		notice(a, "untraced", "all processes are traced now");
	else
		notice(a, "untraced", "%" PRId64 " %s not traced yet: %s native "
		    "code, and calls there are not seen", n, n == 1 ?
		    "process is" : "processes are", n == 1 ? "it runs" :
		    "they run");
}

/* They stay loaded: processes may use them by now. */
static void
on_brought(struct agent *a, struct what *w)
{
	int64_t n = w->n;
	char some[600];

	words_put(&w->r, some, sizeof(some));
	notice(a, "modules", "%" PRId64 " that tiers.conf names %s not "
	    "loaded there, and %s now, to stay: %s", n,
	    n == 1 ? "was" : "were", n == 1 ? "is" : "are", some);
}

static void
on_others(struct agent *a, struct what *w)
{
	notice(a, "neighbours", "%s not measured while other tools "
	    "trace %sprocesses, now %" PRId64 " (with their tracers: %s)",
	    a->hello.session ? "garbage collection is" :
	    "garbage collection and scheduling are",
	    a->hello.session ? "that of " : "", w->n, w->text);
}

/* on, off or {others, Tracer}: a node has one system tracer. */
static void
on_messages(struct agent *a, struct what *w)
{
	struct agent_event e = { .kind = AGENT_ON_MESSAGES, .text = "" };
	char who[200], why[400];

	if (kp_term_peek(&w->r) == KP_TERM_ATOM) {
		e.timed = kp_span_is(kp_term_atom(&w->r), "on");
	} else {
		kp_term_tuple_n(&w->r, 2);
		kp_term_skip(&w->r);
		msg_text(&w->r, who, sizeof(who));
		snprintf(why, sizeof(why), "another tool is the system tracer there: "
		    "%s (seq_trace:set_system_tracer(false) ends that)", who);
		e.text = why;
	}
	agent_emit(a, e);
}

#define TAKEN_MS_MAX 60000	/* more is not plausible */
#define REMEDY "-probe native or OTP 27 have no such events"

/* Their events cost time in the agent: values are copied before it drops them. */
static void
on_foreign(struct agent *a, struct what *w)
{
	struct kp_term r = w->r;
	char kind[64], mfa[FN_NAME_MAX];

	kp_term_tuple_n(&r, 3);
	msg_text(&r, kind, sizeof(kind));
	name_text(&r, mfa, sizeof(mfa));
	if (strcmp(mfa, "all") == 0) {
		notice(a, "foreign", "another tool has a trace pattern on every "
		    "function, whose events come to kprofd's agent, which drops "
		    "them; if that tool has ended, this clears them, in the "
		    "node's shell, and kprofd sets its own again: "
		    AGENT_CLEAR_ALL);
		return;
	}
	notice(a, "foreign", "another tool traces %s, and as a "
	    "process has one tracer before OTP 27 its %s events come to "
	    "kprofd's agent, which drops them%s; " REMEDY, mfa, kind,
	    kp_span_is(kp_term_atom(&r), "ceded") ? ": processes that send "
	    "them are not traced until the next resume" : "");
}

static const struct {
	const char *what, *text;
	bool number;
} parts[] = { { "patterns", "the trace patterns of functions", true },
	{ "counters", "the counters of entries", true },
	{ "watch", "the watch for code that is loaded", false },
	{ "flags", "the flags of processes", false },
	{ "new_processes", "the setting for new processes", false } };

/* {What, HowMany} */
static void
part_put(struct kp_term *r, struct kp_buf *b)
{
	size_t i, n = sizeof(parts) / sizeof(parts[0]);
	struct kp_span what;
	int64_t many;

	kp_term_tuple_n(r, 2);
	what = kp_term_atom(r);
	many = kp_term_int(r);
	for (i = 0; i < n && !kp_span_is(what, parts[i].what); i++)
		;
	if (r->err != KP_OK || i == n)
		return;
	kp_buf_printf(b, "%s%s", b->len > 0 ? ", " : "", parts[i].text);
	if (parts[i].number)
		kp_buf_printf(b, " (%" PRId64 ")", many);
}

/* {.., [{What, HowMany}], Who} */
static void
taken_text(struct kp_term *r, char *text, size_t n)
{
	struct kp_buf what;
	char who[300];
	uint32_t len = kp_term_list(r);

	kp_buf_init(&what, 4096);
	for (uint32_t i = 0; i < len && r->err == KP_OK; i++)
		part_put(r, &what);
	if (len > 0)
		kp_term_nil(r);
	words_put(r, who, sizeof(who));
	snprintf(text, n, "another tool took or replaced %s%s%s",
	    kp_buf_cstr(&what), who[0] != '\0' ? "; at work there: " : "",
	    who);
	kp_buf_free(&what);
}

static void
on_taken(struct agent *a, struct what *w)
{
	struct kp_term r = w->r;
	char taken[800], text[1000];
	int64_t ms;

	kp_term_tuple_n(&r, 3);
	taken_text(&r, taken, sizeof(taken));
	ms = kp_term_int(&r);
	if (r.err != KP_OK || ms < 0 || ms > TAKEN_MS_MAX)
		ms = 0;
	snprintf(text, sizeof(text), "%s; it was put back, and up to %" PRId64
	    " ms before that were not seen (the third time in a minute tracing "
	    "is paused; this was number %" PRId64 ")", taken, ms, w->n);
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_REPORT, .word = "taken",
	    .text = text, .gap = ms * KP_NS_PER_MS });
}

/* Before OTP 27 new processes have one tracer, which is another tool now. */
static void
on_lent(struct agent *a, struct what *w)
{
	struct kp_term r = w->r;
	char who[300];

	words_put(&r, who, sizeof(who));
	notice(a, "taken", "another tool traces new processes now, "
	    "in kprofd's place (at work there: %s): processes that are spawned "
	    "from here on are not traced, and requests in them are not seen; "
	    "when it ends (dbg:stop(), say) they are again (OTP 27 has a "
	    "session for each)", who);
}

static void
on_set_back(struct agent *a, struct what *w)
{
	int64_t ms = kp_term_int(&w->r), n = w->n;

	if (w->r.err != KP_OK || ms < 0 || ms > TAKEN_MS_MAX)
		ms = 0;
	notice(a, "taken", "another tool set the VM's counters of %" PRId64
	    " %s back, as cprof:restart() does: kprofd goes on from what it had "
	    "read, and calls of up to %" PRId64 " ms before are counted only as "
	    "far as they were traced (OTP 27 has counters for each session)",
	    n, n == 1 ? "entry" : "entries", ms);
}

/* A function that the plan no longer has is left out. */
static void
on_calls(struct agent *a, struct what *w)
{
	struct kp_term *r = &w->r;
	int64_t entries = w->n;
	uint64_t tiers[KP_TIER_MAX] = { 0 };
	uint32_t n = kp_term_list(r);
	const struct kp_plan_item *p;
	struct kp_term mfa;
	int64_t calls;

	if (n > KP_PLAN_MAX)
		return;		/* each is looked for in the plan */
	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		mfa = *r;
		kp_term_skip(r);
		calls = kp_term_int(r);
		p = r->err == KP_OK && calls > 0 && calls < CALLS_MAX ?
		    plan_item(&a->now.plan, mfa) : NULL;
		for (uint64_t t = p != NULL ? p->tiers : 0; t != 0; t &= t - 1)
			tiers[__builtin_ctzll(t)] += (uint64_t)calls;
	}
	if (r->err == KP_OK && entries >= 0 && entries < CALLS_MAX)
		agent_emit(a, (struct agent_event){ .kind = AGENT_ON_CALLS,
		    .entries = (uint64_t)entries, .tiers = tiers });
}

static void
on_connected(struct agent *a, struct what *w)
{
	agent_emit(a, (struct agent_event){ .kind = AGENT_ON_CONNECTED, .text = w->text });
}

/* The agent has disarmed by itself, as for a trip. */
static void
on_rest(struct agent *a, struct what *w)
{
	struct kp_term r = w->r;
	char kind[64], mfa[FN_NAME_MAX], text[sizeof(mfa) + 400];
	bool foreign;

	kp_term_tuple(&r);
	foreign = kp_span_is(kp_term_atom(&r), "foreign");
	if (foreign) {
		msg_text(&r, kind, sizeof(kind));
		name_text(&r, mfa, sizeof(mfa));
		if (strcmp(kind, "pattern") == 0)
			snprintf(text, sizeof(text), "another tool has a trace "
			    "pattern on %s that copies arguments or values, and "
			    "before OTP 27 the VM would send them to kprofd's "
			    "agent: no process is traced by it while the pattern "
			    "stands and the function is called often; " REMEDY,
			    mfa);
		else
			snprintf(text, sizeof(text), "another tool traces %s, "
			    "whose %s events all came to kprofd's agent and were "
			    "too much: no process is traced by it meanwhile; "
			    REMEDY, mfa, kind);
	} else {
		taken_text(&r, text, 900);
		snprintf(text + strlen(text), 90, "; that was three times in "
		    "a minute");
	}
	pause_for(a, foreign ? "foreign" : "taken", text, NULL);
}

static const struct {
	const char *kind;
	void (*take)(struct agent *a, struct what *w);
} kinds[] = { { "trip", on_trip }, { "unexact", on_unexact },
	{ "code", on_code }, { "loads", on_loads }, { "messages", on_messages },
	{ "neighbours", on_neighbours }, { "untraced", on_untraced },
	{ "brought", on_brought }, { "others", on_others }, { "hot", on_hot },
	{ "budget", on_hot }, { "uncounted", on_uncounted },
	{ "foreign", on_foreign }, { "taken", on_taken },
	{ "connected", on_connected }, { "lent", on_lent },
	{ "calls", on_calls }, { "set_back", on_set_back },
	{ "rest", on_rest } };

/* A later agent may send kinds that we do not know. */
void
agent_on_notice(struct agent *a, struct kp_term *r)
{
	struct what w = { .kind = kp_term_atom(r) };

	w.r = *r;
	msg_text(r, w.text, sizeof(w.text));
	w.n = kp_term_int(r);
	for (size_t i = 0; r->err == KP_OK && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (kp_span_is(w.kind, kinds[i].kind)) {
			kinds[i].take(a, &w);
			return;
		}
}
