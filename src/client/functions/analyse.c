/*
 * analyse.c - kprof analyse FILE: reads a kept trace, adds it up, and writes it
 * in the form that the user chose.
 *
 * Remarks about a trace go to stderr, so that the output for programs has
 * nothing else in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse.h"
#include "base/vec.h"
#include "calls/merge_nodes.h"
#include "profile/report/trace_report.h"
#include "profile/report/profile_db.h"
#include "text/file_why.h"

#define SLICES_MAX (1u << 22)	/* for speedscope: 96 MiB */

/* In the order of the option. */
enum { FORM_TREE, FORM_ANALYSIS, FORM_CALLGRIND, FORM_FOLDED,
	FORM_SPEEDSCOPE, FORM_EVENTS, FORM_REQUESTS };

static const struct form {
	/* NULL: it is written some other way. */
	void (*put)(struct kp_buf *b, const struct trace_view *v);
	bool paths;		/* of call trees */
	bool roots;		/* processes of one kind may be one */
	bool args;		/* shows arguments */
} forms[] = {
	[FORM_TREE] = { trace_tree, true, true, true },
	[FORM_ANALYSIS] = { trace_fprof, false, false, false },
	[FORM_CALLGRIND] = { trace_callgrind, false, true, false },
	[FORM_FOLDED] = { trace_folded, true, true, false },
	[FORM_SPEEDSCOPE] = { NULL, true, true, false },
	[FORM_EVENTS] = { NULL, false, false, true },
	[FORM_REQUESTS] = { trace_requests, true, false, true },
};

enum { BY_NAME, BY_PROCESS };

bool
analyse_has_args(const struct analyse_args *a)
{
	return a->db == NULL && forms[a->form].args;
}

struct analysis {
	const struct analyse_args *a;
	struct kp_call_names *names;
	struct kp_calls_sum *sum;
	struct kp_critical_path *critical;	/* for FORM_REQUESTS */
	struct kp_calls_merge m;
	struct trace_slice *slices;	/* for FORM_SPEEDSCOPE */
	size_t nslices, room;
	bool cut;		/* there were too many slices */
	kp_target_ns first;	/* with -relative, of the first event */
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

static void
put_event(struct analysis *s, struct kp_call_event ev)
{
	if (s->sum->events == 0 && s->a->relative)
		s->first = ev.ts;
	ev.ts -= s->first;
	trace_put_event(&s->out, s->names, &ev);
}

static enum kp_err
read_all(struct analysis *s)
{
	struct kp_call_event ev;
	enum kp_err e;

	while ((e = kp_calls_merge_next(&s->m, &ev)) == KP_OK) {
		if (s->a->form == FORM_EVENTS)
			put_event(s, ev);
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
	if (e == KP_OK && s->a->form == FORM_SPEEDSCOPE)
		trace_speedscope(&s->out, v, s->slices, s->nslices);
	else if (e == KP_OK && form->put != NULL)
		form->put(&s->out, v);
	trace_roots_free(&roots);
	return e;
}

void
analyse_say_remarks(const struct trace_view *v)
{
	struct kp_buf b;

	kp_buf_init(&b, 4096);
	trace_remarks(&b, v);
	if (b.len > 1) {
		b.len--;	/* say() ends the last line */
		say("%s", kp_buf_cstr(&b));
	}
	kp_buf_free(&b);
}

static int
write_db(struct analysis *s)
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
show_all(struct analysis *s, const char *name)
{
	const struct analyse_args *a = s->a;
	struct trace_view v = { .names = s->names, .sum = s->sum,
		.critical = s->critical, .info = &s->m.info,
		.no_callers = a->no_callers, .totals = a->totals,
		.no_details = a->no_details, .by_own = a->sort == 1,
		.cols = (unsigned)a->cols, .least = (double)a->least / 10000,
		.rows = a->rows, .width = screen_width(),
		.queue_most = a->queue_most };
	enum kp_err e = read_all(s);

	v.moved = s->m.moved;
	v.moved_most = s->m.moved_most;
	if (e != KP_OK) {
		say("cannot read '%s': %s", name, damaged(e));
		return EXIT_FAILED;
	}
	if (s->sum->events == 0)
		say("there are no events: no call of these functions was traced "
		    "in these processes");
	analyse_say_remarks(&v);
	if (a->db != NULL)
		return write_db(s);
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
		.slice = a->form == FORM_SPEEDSCOPE ? on_slice :
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

int
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

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    &file);
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
