/*
 * coverage.c - writes the lines below a table: the time and the nodes that it covers,
 * how its figures were measured, and what is missing from it.
 */
#include <stdio.h>
#include <string.h>

#include "losses.h"
#include "report.h"
#include "text/text.h"
#include "text/timefmt.h"

#define NODES_NAMED 3	/* more are counted */
#define UNTIMED 0.005	/* a smaller part of a tier's calls is not reported */

static void
put_nodes(struct kp_buf *b, const struct report *r)
{
	size_t n = r->nnodes > NODES_NAMED + 1 ? NODES_NAMED : r->nnodes;

	for (size_t i = 0; i < n; i++) {
		kp_buf_str(b, ", ");
		text_put(b, r->nodes[i]);
	}
	if (r->nnodes > n)
		kp_buf_printf(b, " and %zu more nodes", r->nnodes - n);
}

/*
 * Says how much of the time from the first window to the last was measured: less
 * than all of it where kprofd was off, or had no target, in between.
 */
static void
put_gaps(struct kp_buf *b, const struct report *r)
{
	uint64_t of_each = r->windows / (r->nnodes > 0 ? r->nnodes : 1);
	kp_dur_ns window = r->covered / (int64_t)(of_each > 0 ? of_each : 1);
	char covered[TEXT_MAX], range[TEXT_MAX];

	if (r->end - r->start - r->covered > window)
		kp_buf_printf(b, ", covered %s of %s",
		    text_span(covered, r->covered),
		    text_span(range, r->end - r->start));
}

/* The lines below a table: each is built in `line`, then wrapped into `out`. */
struct lines {
	struct kp_buf *out, line;
	unsigned width;
};

/* Ends the line; does nothing if it is empty. */
static void
end_line(struct lines *l)
{
	if (l->line.len > 0)
		text_wrap(l->out, kp_buf_cstr(&l->line), l->width, 2);
	kp_buf_reset(&l->line);
}

static void
put_sampling(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *all = &r->rows[0].cells[0];
	char some[TEXT_MAX], of[TEXT_MAX];
	bool known;
	uint64_t n = report_requests(r, 0, &known);

	if (all->requests == all->sampled_requests)
		return;
	kp_buf_printf(b, "sampling: %s of %s requests%s were measured; the "
	    "table estimates ", text_count(some, all->sampled_requests),
	    text_known(of, n, known), known ? ", as the VM counted them," : "");
	if (report_unmeasured(r) > 0)
		kp_buf_printf(b, "the ~%s that were made while tracing was on",
		    text_count(of, all->requests));
	else
		kp_buf_str(b, "all");
	kp_buf_str(b, " (~: an estimated count)");
}

static void
put_missing_of(struct kp_buf *b, const struct report *r, size_t tier,
    const struct report_missing *m)
{
	double requests = (double)r->rows[0].cells[0].requests;
	char text[TEXT_MAX];

	text_put(b, r->tiers[tier - 1]);
	kp_buf_printf(b, ": %s calls per request",
	    text_average(text, (double)m->calls / requests));
	if (m->after > 0)
		kp_buf_printf(b, " and %s after it",
		    text_average(text, (double)m->after / requests));
	if (m->counted > 0) {
		kp_buf_printf(b, ", where the VM counted %s, ",
		    text_known(text, m->counted, true));
		kp_buf_printf(b, "%s per request",
		    text_average(text, (double)m->counted / (double)m->entries));
	}
	kp_buf_printf(b, "; about %s per request lost their token",
	    text_average(text, (double)m->missed / requests));
}

/*
 * Tiers whose calls lost their tokens: the VM counts all calls, also those outside
 * of requests, so how many are missing comes from the calls that strayed.
 */
static void
put_missing(struct kp_buf *b, const struct report *r)
{
	struct report_missing m;
	const char *sep = "!";

	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!report_missing(r, t, &m) || !m.sure)
			continue;
		kp_buf_printf(b, "%s ", sep);
		put_missing_of(b, r, t, &m);
		sep = ";";
	}
	if (*sep == ';')
		kp_buf_str(b, ": a process was answered because of another request "
		    "(a pool's worker was given back, a reply deferred, an event "
		    "postponed), which sampling had passed over; what it did then "
		    "is not seen, or counts after another request, and times of "
		    "these tiers are too small ({sampling, all} sees it)");
}

/* Tiers of which the VM counted calls and requests have hardly any. */
static void
put_absent(struct kp_buf *b, const struct report *r)
{
	char calls[TEXT_MAX], each[TEXT_MAX];
	const char *sep = "not in requests:";
	struct report_missing m;

	for (size_t t = 1; t <= r->ntiers; t++) {
		if (!report_missing(r, t, &m) || m.sure)
			continue;
		kp_buf_printf(b, "%s %s calls of ", sep,
		    text_known(calls, m.counted, true));
		text_put(b, r->tiers[t - 1]);
		kp_buf_printf(b, ", %s per request", text_average(each,
		    (double)m.counted / (double)m.entries));
		sep = ";";
	}
	if (*sep == ';')
		kp_buf_str(b, ": the VM counted them, and measured requests have "
		    "hardly any; they are made outside of requests, or tokens are "
		    "lost before them, as where all workers of a pool are taken, "
		    "and a request gets its worker from one that is not measured");
}

/* The time after the end of requests, and which share of calls cause it. */
static void
put_after(struct kp_buf *b, const struct report *r)
{
	const struct report_row *all = &r->rows[0];
	double after = report_value(all, 0, REPORT_ASYNC);
	double async = 0, outlast = 0, calls = 0;
	char text[TEXT_MAX];

	for (size_t t = 1; t <= r->ntiers; t++) {
		async += (double)all->cells[t].async_calls;
		outlast += (double)all->cells[t].outlasting;
		calls += (double)all->cells[t].calls;
	}
	if (async + outlast == 0)
		return;
	kp_buf_printf(b, "after: time after the request's end, %s %s",
	    text_dur(text, after < 0 ? all->cells[0].async :
	    (kp_dur_ns)(after + 0.5)), after < 0 ? "in all" :
	    "per request (in a tier's column: +), not in total");
	if (async > 0)
		kp_buf_printf(b, "; %s of the calls began after it",
		    text_share(text, async / (async + calls)));
	if (outlast > 0)
		kp_buf_printf(b, "; %s of the calls outlast it",
		    text_share(text, outlast / (async + calls)));
}

static void
put_part(struct kp_buf *b, const char *sep, double part, double of,
    const char *what)
{
	char text[TEXT_MAX];

	kp_buf_printf(b, "%s%s %s", sep, text_share(text, part / of), what);
}

/* The parts of tiers' self time in gc and scheduled out, if measured. */
static void
put_pauses(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *c = r->rows[0].cells;
	double self = 0, gc = 0, out = 0;
	bool has_gc = false, has_out = false;

	for (size_t t = 1; t <= r->ntiers; t++) {
		self += (double)c[t].self;
		has_gc |= c[t].calls > 0 && c[t].gc >= 0;
		has_out |= c[t].calls > 0 && c[t].out >= 0;
		gc += c[t].gc > 0 ? (double)c[t].gc : 0;
		out += c[t].out > 0 ? (double)c[t].out : 0;
	}
	if (self <= 0 || (!has_gc && !has_out))
		return;
	kp_buf_str(b, "of tiers' self time ");
	if (has_gc)
		put_part(b, "", gc, self, "garbage collection");
	if (has_out)
		put_part(b, has_gc ? ", " : "", out, self, "scheduled out");
}

static void
put_untimed_of(struct kp_buf *b, const char **sep, uint64_t untimed,
    uint64_t calls, const char *tier, const char *when)
{
	double share = calls > 0 ? (double)untimed / (double)calls : 0;

	if (share < UNTIMED)
		return;
	kp_buf_printf(b, "%s %.0f %% of the calls of ", *sep, 100 * share);
	text_put(b, tier);
	kp_buf_str(b, when);
	*sep = ",";
}

/* The tiers in which some calls have no time. */
static void
put_untimed(struct kp_buf *b, const struct report *r)
{
	const char *sep = "no time for";

	for (size_t t = 1; t <= r->ntiers; t++) {
		const struct report_cell *c = &r->rows[0].cells[t];

		put_untimed_of(b, &sep, c->calls - c->timed, c->calls,
		    r->tiers[t - 1], "");
		put_untimed_of(b, &sep, c->async_unfinished, c->async_calls,
		    r->tiers[t - 1], " after the end");
	}
	if (*sep == ',')
		kp_buf_str(b, ": their end was not seen");
}

/* How many requests raised, and whether that was seen of all of them. */
static void
put_errors(struct kp_buf *b, const struct report *r)
{
	const struct report_cell *c = &r->rows[0].cells[0];
	char text[TEXT_MAX], share[TEXT_MAX];
	bool known = c->calls == c->sampled_calls;

	switch (kp_raised_seen(c->raised, c->unseen)) {
	case KP_SEEN:
		if (c->raised > 0)
			kp_buf_printf(b, "errors: %s of the requests raised "
			    "(%s)", text_known(text, c->raised, known),
			    text_share(share, (double)c->raised /
			    (double)c->calls));
		return;
	case KP_SEEN_PART:
		kp_buf_printf(b, "errors: %s%s%s of the requests raised; "
		    "of others it is", known ? "at least " : "",
		    text_known(text, c->raised, known), known ? "" : " or more");
		break;
	case KP_NOT_SEEN:
		kp_buf_str(b, "errors:");
	}
	kp_buf_str(b, " not seen: " SEEN_WAY_OUT);
}

void
report_put_running(struct kp_buf *b, const struct report *r)
{
	char so_far[TEXT_MAX], left[TEXT_MAX];

	if (r->running)
		kp_buf_printf(b, "running window: %s so far; it is stored when "
		    "it ends, in %s", text_about(so_far, r->covered),
		    text_about(left, r->left));
}

void
report_put_hints(struct kp_buf *b, const struct report *r, unsigned width)
{
	struct lines l = { .out = b, .width = width };

	kp_buf_init(&l.line, 1 << 16);
	for (size_t i = 0; i < r->nhints; i++) {
		text_put(&l.line, r->hints[i]);
		end_line(&l);
	}
	kp_buf_free(&l.line);
}

void
report_coverage(struct kp_buf *b, const struct report *r,
    const struct report_opts *o, const char *title, const char *note)
{
	static const struct {
		void (*put)(struct kp_buf *b, const struct report *r);
		bool of_times;	/* not of numbers of calls, or of async time */
	} notes[] = {
		{ put_sampling, false }, { put_missing, false },
		{ put_absent, false }, { put_after, false },
		{ put_pauses, false }, { put_untimed, true },
		{ report_put_tracing, true }, { put_errors, false },
	};
	struct lines l = { .out = b, .width = o->width };
	size_t n;

	kp_buf_init(&l.line, 1 << 16);
	kp_buf_str(&l.line, title);
	timefmt_put_range(&l.line, r->start, r->end);
	put_gaps(&l.line, r);
	put_nodes(&l.line, r);
	end_line(&l);
	report_put_running(&l.line, r);
	end_line(&l);
	for (const char *s = note; *s != '\0'; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		kp_buf_put(&l.line, s, n);
		end_line(&l);
	}
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		if (notes[i].of_times && (o->what == REPORT_CALLS ||
		    o->what == REPORT_ASYNC))
			continue;
		notes[i].put(&l.line, r);
		end_line(&l);
	}
	kp_buf_free(&l.line);
	report_put_hints(b, r, o->width);
	losses_text(b, &r->losses, o->width);
}
