/*
 * trace_callgrind.c - writes a trace for the tools of callgrind.
 *
 * All functions are at line 0 of their module.  An object is a process, or all
 * processes of one root (trace_roots.h).  suspend, which has no own time by fprof's
 * rules, has the time that passed; so the costs of a process add up to its time.
 *
 * Source: "Callgrind Format Specification", valgrind's manual.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "kprofd/fn_name.h"
#include "trace_internal.h"
#include "base/sat.h"
#include "text/text.h"

static kp_dur_ns
cost(uint32_t fn, kp_dur_ns acc, kp_dur_ns own)
{
	return fn == KP_FN_SUSPEND ? acc : own;
}

/* The cost of all rows. */
static kp_dur_ns
summary(const struct kp_calls_clock *rows, uint32_t n)
{
	kp_dur_ns sum = 0;

	for (uint32_t i = 0; i < n; i++)
		sum = sat_add(sum, cost(rows[i].fn, rows[i].acc,
		    rows[i].own));
	return sum;
}

static void
put_name(struct kp_buf *b, const struct trace_view *v, const char *fl,
    const char *key, uint32_t fn)
{
	const char *mod = v->names->fns[fn].mod;
	char name[FN_NAME_MAX];

	kp_buf_printf(b, "%s=", fl);
	text_put(b, mod[0] != '\0' ? fn_shown(name, sizeof(name), mod) :
	    "pseudo");
	kp_buf_printf(b, "\n%s=", key);
	trace_put_fn(b, v->names, fn);
	kp_buf_str(b, "\n");
}

static void
put_fn(struct kp_buf *b, const struct trace_view *v,
    const struct trace_fn *f)
{
	const struct kp_calls_clock *c;

	put_name(b, v, "fl", "fn", f->fn);
	kp_buf_printf(b, "0 %" PRId64 "\n", cost(f->fn, f->acc, f->own));
	for (uint32_t i = 0; i < f->ncalled; i++) {
		c = &f->called[i];
		put_name(b, v, "cfi", "cfn", c->fn);
		kp_buf_printf(b, "calls=%" PRIu64 " 0\n0 %" PRId64 "\n",
		    c->calls, c->acc);
	}
	kp_buf_str(b, "\n");
}

static void
put_process(struct kp_buf *b, const struct trace_view *v,
    const struct kp_calls_clock *rows, uint32_t n)
{
	struct trace_group g;

	if (trace_group_make(&g, rows, n, v->names, true) != KP_OK) {
		b->err = KP_ENOMEM;
		return;
	}
	kp_buf_str(b, "ob=");
	trace_put_root(b, v, rows[0].proc);
	kp_buf_str(b, "\n");
	for (uint32_t i = 0; i < g.nfns; i++)
		put_fn(b, v, &g.fns[i]);
	trace_group_free(&g);
}

void
trace_callgrind(struct kp_buf *b, const struct trace_view *v)
{
	struct kp_calls_clock *rows = trace_rows_by_proc(v->sum);
	uint32_t n;

	if (rows == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	/* A function found on a stack was called once, before the trace. */
	for (uint32_t i = 0; i < v->sum->nclocks; i++)
		if (rows[i].calls == 0)
			rows[i].calls = 1;
	kp_buf_str(b, "# callgrind format\nversion: 1\ncreator: kprof\ncmd: ");
	trace_put_targets(b, v);
	kp_buf_printf(b, "\npositions: line\nevent: ns : time in ns\n"
	    "events: ns\nsummary: %" PRId64 "\n\n",
	    summary(rows, v->sum->nclocks));
	for (uint32_t i = 0; i < v->sum->nclocks && b->err == KP_OK; i += n) {
		n = trace_rows_of_one(&rows[i], v->sum->nclocks - i);
		put_process(b, v, &rows[i], n);
	}
	free(rows);
}
