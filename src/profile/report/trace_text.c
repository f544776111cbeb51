/*
 * trace_text.c - writes functions, processes and events of a trace as text, and
 * remarks about the trace as a whole.
 */
#include <inttypes.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "kprofd/term.h"
#include "text/text.h"
#include "trace_report.h"

void
trace_put_fn(struct kp_buf *b, const struct kp_call_names *t, uint32_t fn,
    bool people)
{
	const struct kp_call_fn *f = &t->fns[fn];

	if (f->mod[0] == '\0')
		kp_buf_str(b, f->fun);
	else
		(people ? fn_read_put : fn_name_put)(b, f->mod, f->fun, f->arity);
}

/* The name that a process is registered by. */
static void
put_registered(struct kp_buf *b, const char *name)
{
	char text[FN_NAME_MAX];

	text_put(b, fn_shown(text, sizeof(text), name));
}

/* Only if there are several nodes. */
static void
put_node_name(struct kp_buf *b, const struct kp_call_names *t,
    const struct kp_call_proc *p)
{
	if (t->nnodes <= 1)
		return;
	text_put(b, t->nodes[p->node].name);
	kp_buf_str(b, " ");
}

void
trace_put_number(struct kp_buf *b, const struct kp_call_proc *p)
{
	kp_buf_printf(b, "<0.%" PRIu32 ".%" PRIu32 ">", p->id, p->serial);
}

void
trace_put_args(struct kp_buf *b, struct kp_span args)
{
	if (args.n == 0)
		return;
	kp_buf_str(b, " (");
	text_put_n(b, (const char *)args.p, args.n);
	kp_buf_str(b, ")");
}

void
trace_put_pid(struct kp_buf *b, const struct kp_call_names *t, uint32_t proc)
{
	put_node_name(b, t, &t->procs[proc]);
	trace_put_number(b, &t->procs[proc]);
}

void
trace_put_proc(struct kp_buf *b, const struct kp_call_names *t, uint32_t proc)
{
	const struct kp_call_proc *p = &t->procs[proc];

	put_node_name(b, t, p);
	if (p->name != NULL) {
		put_registered(b, p->name);
		kp_buf_str(b, " ");
	}
	trace_put_number(b, p);
}

void
trace_put_root(struct kp_buf *b, const struct trace_view *v, uint32_t proc)
{
	const struct kp_call_proc *p = &v->names->procs[proc];
	const struct trace_root *root = v->roots != NULL ?
	    &v->roots->v[proc] : NULL;
	char n[TEXT_MAX];

	if (root == NULL || root->n <= 1) {
		trace_put_proc(b, v->names, proc);
		return;
	}
	put_node_name(b, v->names, p);
	if (p->name != NULL)
		put_registered(b, p->name);
	else
		trace_put_fn(b, v->names, root->fn, true);
	kp_buf_printf(b, " (%s processes)", text_count(n, root->n));
}

void
trace_put_targets(struct kp_buf *b, const struct trace_view *v)
{
	text_put(b, v->info->target);
	for (uint32_t i = 1; i < v->names->nnodes; i++) {
		if (v->names->nodes[i].otp == 0)
			continue;
		kp_buf_str(b, ", ");
		text_put(b, v->names->nodes[i].name);
	}
}

/* ---- events ---- */

static const char *const kinds[KP_CALL_KINDS] = {
	[KP_CALL_CALL] = "call", [KP_CALL_RETURN_TO] = "return_to",
	[KP_CALL_IN] = "in", [KP_CALL_OUT] = "out",
	[KP_CALL_GC_START] = "gc_start", [KP_CALL_GC_END] = "gc_end",
	[KP_CALL_SPAWN] = "spawn", [KP_CALL_EXIT] = "exit",
	[KP_CALL_REQUEST] = "request", [KP_CALL_SEND] = "send",
	[KP_CALL_RECEIVE] = "receive"
};

void
trace_put_event(struct kp_buf *b, const struct kp_call_names *names,
    const struct kp_call_event *ev)
{
	kp_buf_printf(b, "%" PRId64 " ", ev->ts);
	trace_put_pid(b, names, ev->proc);
	kp_buf_printf(b, " %s", kinds[ev->kind]);
	if (ev->kind == KP_CALL_REQUEST)
		kp_buf_printf(b, " %" PRIu32, ev->other);
	if (ev->kind >= KP_CALL_SEND)
		kp_buf_printf(b, " %" PRIu32 ".%" PRIu32, ev->request,
		    ev->serial);
	if (ev->kind == KP_CALL_SPAWN || ev->kind == KP_CALL_RECEIVE) {
		kp_buf_str(b, " ");
		trace_put_pid(b, names, ev->other);
	}
	if (ev->kind <= KP_CALL_OUT || ev->kind == KP_CALL_SPAWN) {
		kp_buf_str(b, " ");
		trace_put_fn(b, names, ev->fn, true);
	}
	if (ev->kind == KP_CALL_CALL) {
		trace_put_args(b, ev->args);
		kp_buf_str(b, " by ");
		trace_put_fn(b, names, ev->other, true);
	}
	kp_buf_str(b, "\n");
}

/* ---- remarks ---- */

static void
put_remark(struct kp_buf *b, uint64_t n, const char *text)
{
	char count[TEXT_MAX];

	if (n > 0)
		kp_buf_printf(b, "%s %s\n", text_count(count, n), text);
}

static const char *const ends[KP_CALLS_ENDS] = {
	[KP_CALLS_CUT] = "the trace has no end: it was cut short",
	[KP_CALLS_EVENTS] = "ended early: as many events as were "
	    "allowed (see -max-events)",
	[KP_CALLS_QUEUE] = "ended early: the node made more events "
	    "than it could send",
	[KP_CALLS_MEMORY] = "ended early: the node had grown too much "
	    "(see -max-memory)",
	[KP_CALLS_GONE] = "ended early: the connection to the node, "
	    "or what traced in it, was gone",
	[KP_CALLS_SILENT] = "ended early: kprof did not fetch the "
	    "events in time",
};

static void
put_end(struct kp_buf *b, const struct trace_view *v, enum kp_calls_end end)
{
	kp_buf_str(b, ends[end]);
	if (end == KP_CALLS_QUEUE)
		kp_buf_printf(b, " (fewer functions or processes would do%s)",
		    v->queue_most ? "" : ", or a greater -max-queue");
}

/* Appends which node ended first, and the precision of the clocks. */
static void
put_nodes(struct kp_buf *b, const struct trace_view *v)
{
	const struct kp_call_node *nd;
	char text[TEXT_MAX], count[TEXT_MAX];

	for (uint32_t i = 0; i < v->names->nnodes; i++) {
		nd = &v->names->nodes[i];
		if (nd->end == KP_CALLS_CUT || ends[nd->end] == NULL)
			continue;
		kp_buf_str(b, "'");
		text_put(b, nd->name);
		kp_buf_str(b, "' ");
		put_end(b, v, nd->end);
		kp_buf_str(b, "; tracing ended in the others with it\n");
	}
	for (uint32_t i = 1; i < v->names->nnodes; i++) {
		nd = &v->names->nodes[i];
		if (nd->otp == 0)
			continue;
		kp_buf_str(b, "the clock of '");
		text_put(b, nd->name);
		kp_buf_str(b, "' is known to that of '");
		text_put(b, v->info->target);
		kp_buf_printf(b, "' to within %s ms\n", text_ms(text,
		    nd->error));
	}
	if (v->moved > 0)
		kp_buf_printf(b, "%s events seemed to come before their "
		    "cause, and were moved by up to %s ms: clocks drift "
		    "apart\n", text_count(count, v->moved),
		    text_ms(text, v->moved_most));
}

void
trace_remarks(struct kp_buf *b, const struct trace_view *v)
{
	const struct kp_calls_sum *s = v->sum;
	bool several = v->names != NULL && kp_calls_several(v->names);

	if (ends[v->info->end] != NULL && (!several ||
	    v->info->end == KP_CALLS_CUT)) {
		put_end(b, v, v->info->end);
		kp_buf_str(b, "\n");
	}
	if (several)
		put_nodes(b, v);
	if (v->info->ended < v->info->requests)
		kp_buf_printf(b, "ended early: of %" PRIu32 " request%s %"
		    PRIu32 " had begun, and %" PRIu32 " ended\n",
		    v->info->requests, v->info->requests == 1 ? "" : "s",
		    v->info->begun, v->info->ended);
	put_remark(b, v->info->lost, "events were lost");
	if (s == NULL)
		return;
	put_remark(b, s->odd, "events did not fit to those before");
	put_remark(b, s->overflow, "entries were too many to be kept");
}
