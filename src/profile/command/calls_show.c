/*
 * calls_show.c - reads a kept trace, adds it up, and writes the form that was
 * asked for.
 *
 * Remarks about a trace go to stderr, so that the output for programs has
 * nothing else in it.
 */
#include <stdlib.h>

#include "calls_show.h"
#include "kprofd/calls_merge.h"
#include "base/vec.h"
#include "profile/report/calls_roots.h"
#include "profile/report/trace_db.h"

#define SLICES_MAX (1u << 22)	/* of the form that needs them: 96 MiB */

enum { FORM_TREE, FORM_ANALYSIS, FORM_CALLGRIND, FORM_FOLDED,
	FORM_SPEEDSCOPE, FORM_EVENTS, FORM_REQUESTS };

enum { BY_NAME, BY_PROCESS };

bool
calls_has_args(const struct calls_args *a)
{
	return a->db == NULL && (a->form == FORM_TREE ||
	    a->form == FORM_EVENTS || a->form == FORM_REQUESTS);
}

struct showing {
	const struct calls_args *a;
	struct kp_call_names *names;
	struct kp_calls_sum *sum;
	struct kp_critical_path *way;	/* of that form only */
	struct kp_calls_merge m;
	struct calls_slice *slices;
	size_t nslices, room;
	bool cut;		/* slices were too many */
	kp_target_ns first;	/* what times of events are since */
	struct kp_buf out;
};

static void
on_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct showing *s = ctx;

	if (vec_room(&s->slices, &s->room, s->nslices, SLICES_MAX) != KP_OK) {
		s->cut = true;
		return;
	}
	s->slices[s->nslices++] = (struct calls_slice){ proc, path, from,
		to };
}

static void
on_way_slice(void *ctx, uint32_t proc, uint32_t path, kp_target_ns from,
    kp_target_ns to)
{
	struct showing *s = ctx;
	uint32_t fn = s->sum->paths[path].fn;

	kp_critical_path_spent(s->way, kp_calls_sum_request(s->sum, proc), proc,
	    fn == KP_FN_SUSPEND ? KP_PART_OUT : fn == KP_FN_GC ? KP_PART_GC :
	    KP_PART_OWN, from, to);
}

static void
put_event(struct showing *s, struct kp_call_event ev)
{
	if (s->sum->events == 0 && s->a->relative)
		s->first = ev.ts;
	ev.ts -= s->first;
	calls_dump(&s->out, s->names, &ev);
}

static enum kp_err
read_all(struct showing *s)
{
	struct kp_call_event ev;
	enum kp_err e;

	while ((e = kp_calls_merge_next(&s->m, &ev)) == KP_OK) {
		if (s->a->form == FORM_EVENTS)
			put_event(s, ev);
		e = kp_calls_sum_add(s->sum, &ev);
		if (e == KP_OK && s->way != NULL)
			e = kp_critical_path_add(s->way, &ev);
		if (e != KP_OK)
			return e;
	}
	if (e == KP_END)
		e = kp_calls_sum_end(s->sum);
	if (e == KP_OK && s->way != NULL)
		e = kp_critical_path_end(s->way);
	return e;
}

static void
put_form(struct showing *s, const struct calls_view *v)
{
	switch (s->a->form) {
	case FORM_ANALYSIS:
		calls_analysis(&s->out, v);
		break;
	case FORM_CALLGRIND:
		calls_callgrind(&s->out, v);
		break;
	case FORM_FOLDED:
		calls_folded(&s->out, v);
		break;
	case FORM_SPEEDSCOPE:
		calls_speedscope(&s->out, v, s->slices, s->nslices);
		break;
	case FORM_REQUESTS:
		calls_requests(&s->out, v);
		break;
	case FORM_TREE:
		calls_tree(&s->out, v);
		break;
	default:
		break;
	}
}

/* Forms that have a root for each process, or for those of one kind. */
static enum kp_err
put_rooted(struct showing *s, struct calls_view *v)
{
	struct calls_roots roots = { 0 };
	enum kp_err e = KP_OK;

	if (s->a->by == BY_NAME && (s->a->form == FORM_TREE ||
	    s->a->form == FORM_FOLDED || s->a->form == FORM_CALLGRIND ||
	    s->a->form == FORM_SPEEDSCOPE))
		e = calls_roots_make(&roots, v, s->slices, s->nslices);
	if (e == KP_OK)
		put_form(s, v);
	calls_roots_free(&roots);
	return e;
}

void
calls_say_remarks(const struct calls_view *v)
{
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	calls_remarks(&b, v);
	if (b.len > 1) {
		/* say() ends the last line. */
		b.len--;
		say("%s", kp_buf_cstr(&b));
	}
	kp_buf_free(&b);
}

static int
write_db(struct showing *s)
{
	char why[300] = "";

	if (trace_db_write(s->a->db, s->names, s->sum, &s->m.info, why,
	    sizeof(why)) == KP_OK)
		return EXIT_DONE;
	say("cannot write '%s': %s", s->a->db, why);
	return EXIT_FAILED;
}

static const char *
damaged(enum kp_err e)
{
	return e == KP_EFORMAT ? "it is damaged" : kp_err_str(e);
}

static int
show_all(struct showing *s, const char *name)
{
	const struct calls_args *a = s->a;
	struct calls_view v = { .names = s->names, .sum = s->sum, .way = s->way,
		.info = &s->m.info, .no_callers = a->no_callers,
		.totals = a->totals, .no_details = a->no_details,
		.by_own = a->sort == 1, .cols = (unsigned)a->cols,
		.least = (double)a->least / 10000, .rows = a->rows,
		.width = screen_width(), .queue_most = a->queue_most };
	enum kp_err e = read_all(s);

	v.moved = s->m.moved;
	v.moved_most = s->m.moved_most;
	if (e != KP_OK) {
		say("cannot read '%s': %s", name, damaged(e));
		return EXIT_FAILED;
	}
	if (s->sum->events == 0)
		say("there are no events: none of these functions was called "
		    "in these processes");
	calls_say_remarks(&v);
	if (a->db != NULL)
		return write_db(s);
	if (s->way != NULL && s->way->nrequests == 0)
		say("there are no requests in it: it was made without -entry");
	if (put_rooted(s, &v) != KP_OK) {
		say("out of memory");
		return EXIT_FAILED;
	}
	if (s->cut)
		say("the trace is too long for this form: its end is missing");
	return show(&s->out);
}

int
calls_show(const struct calls_args *a, const void *p, size_t n,
    const char *name)
{
	struct showing s = { .a = a, .names = kp_call_names_new() };
	struct kp_calls_opts o = { .cpu = a->cpu, .ctx = &s,
		.paths = a->db != NULL || (a->form != FORM_ANALYSIS &&
		    a->form != FORM_CALLGRIND && a->form != FORM_EVENTS),
		.slice = a->form == FORM_SPEEDSCOPE ? on_slice :
		    a->form == FORM_REQUESTS ? on_way_slice : NULL };
	int st = EXIT_FAILED;
	enum kp_err e;

	s.sum = kp_calls_sum_new(&o);
	if (a->form == FORM_REQUESTS)
		s.way = kp_critical_path_new();
	kp_buf_init(&s.out, OUTPUT_MAX);
	e = s.names != NULL && s.sum != NULL &&
	    (s.way != NULL || a->form != FORM_REQUESTS) ?
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
	kp_critical_path_free(s.way);
	kp_calls_merge_free(&s.m);
	kp_call_names_free(s.names);
	free(s.slices);
	return st;
}
