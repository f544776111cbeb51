/* trace_names.c - writes functions and processes of a trace as text. */
#include <inttypes.h>
#include <string.h>

#include "trace_internal.h"
#include "trace_roots.h"
#include "kprofd/fn_name.h"
#include "kprofd/term.h"
#include "text/text.h"

void
trace_put_fn(struct kp_buf *b, const struct kp_call_names *t, uint32_t fn)
{
	const struct kp_call_fn *f = &t->fns[fn];

	if (f->mod[0] == '\0')
		kp_buf_str(b, f->fun);
	else
		fn_name_put(b, f->mod, f->fun, f->arity);
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
put_node(struct kp_buf *b, const struct kp_call_names *t,
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
	put_node(b, t, &t->procs[proc]);
	trace_put_number(b, &t->procs[proc]);
}

void
trace_put_proc(struct kp_buf *b, const struct kp_call_names *t, uint32_t proc)
{
	const struct kp_call_proc *p = &t->procs[proc];

	put_node(b, t, p);
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
	put_node(b, v->names, p);
	if (p->name != NULL)
		put_registered(b, p->name);
	else
		trace_put_fn(b, v->names, root->fn);
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

void
trace_put_fn_term(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t fn)
{
	const struct kp_call_fn *f = &t->fns[fn];

	if (f->mod[0] == '\0') {
		kp_buf_str(b, f->fun);
		return;
	}
	kp_buf_str(b, "{");
	kp_atom_print(b, f->mod);
	kp_buf_str(b, ",");
	kp_atom_print(b, f->fun);
	kp_buf_printf(b, ",%" PRIu32 "}", f->arity);
}
