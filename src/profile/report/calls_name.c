/* calls_name.c - writes functions and processes of a trace as text. */
#include <inttypes.h>
#include <string.h>

#include "base/utf8.h"
#include "calls_internal.h"
#include "kprofd/fn_name.h"
#include "kprofd/etf.h"
#include "text/text.h"

#define NAME_BYTES_MAX 4096u
#define ATOM_BYTES_MAX 255u	/* of the external format that is used here */
#define TERM_TEXT_MAX 4096u

void
calls_put_fn(struct kp_buf *b, const struct kp_call_names *t, uint32_t fn)
{
	const struct kp_call_fn *f = kp_call_fn(t, fn);
	struct kp_buf text;

	if (f->mod[0] == '\0') {
		kp_buf_str(b, f->fun);
		return;
	}
	kp_buf_init(&text, NAME_BYTES_MAX);
	fn_name_put(&text, f->mod, f->fun, f->arity);
	text_put(b, kp_buf_cstr(&text));
	kp_buf_free(&text);
}

/* Where there are several. */
static void
put_node(struct kp_buf *b, const struct kp_call_names *t,
    const struct kp_call_proc *p)
{
	if (kp_call_nodes(t) <= 1)
		return;
	text_put(b, kp_call_node(t, p->node)->name);
	kp_buf_str(b, " ");
}

static void
put_number(struct kp_buf *b, const struct kp_call_proc *p)
{
	kp_buf_printf(b, "<0.%" PRIu32 ".%" PRIu32 ">", p->id, p->serial);
}

void
calls_put_args(struct kp_buf *b, struct kp_span args)
{
	if (args.n == 0)
		return;
	kp_buf_str(b, " (");
	text_put_n(b, (const char *)args.p, args.n);
	kp_buf_str(b, ")");
}

void
calls_put_pid(struct kp_buf *b, const struct kp_call_names *t, uint32_t proc)
{
	put_node(b, t, kp_call_proc(t, proc));
	put_number(b, kp_call_proc(t, proc));
}

void
calls_put_proc(struct kp_buf *b, const struct kp_call_names *t, uint32_t proc)
{
	const struct kp_call_proc *p = kp_call_proc(t, proc);

	put_node(b, t, p);
	if (p->name != NULL) {
		text_put(b, p->name);
		kp_buf_str(b, " ");
	}
	put_number(b, p);
}

void
calls_put_targets(struct kp_buf *b, const struct calls_view *v)
{
	text_put(b, v->info->target);
	for (uint32_t i = 1; i < kp_call_nodes(v->names); i++) {
		if (kp_call_node(v->names, i)->otp == 0)
			continue;
		kp_buf_str(b, ", ");
		text_put(b, kp_call_node(v->names, i)->name);
	}
}

static void
put_atom(struct kp_buf *term, const char *name)
{
	size_t n = strlen(name);

	kp_etf_atom_n(term, name, n <= ATOM_BYTES_MAX ? n :
	    utf8_fit(name, n, ATOM_BYTES_MAX));
}

void
calls_put_fn_term(struct kp_buf *b, const struct kp_call_names *t,
    uint32_t fn)
{
	const struct kp_call_fn *f = kp_call_fn(t, fn);
	struct kp_buf term;
	struct kp_term r;

	if (f->mod[0] == '\0') {
		kp_buf_str(b, f->fun);
		return;
	}
	kp_buf_init(&term, NAME_BYTES_MAX);
	kp_etf_tuple(&term, 3);
	put_atom(&term, f->mod);
	put_atom(&term, f->fun);
	kp_etf_int(&term, f->arity);
	if (term.err != KP_OK && b->err == KP_OK)
		b->err = term.err;
	kp_term_begin_raw(&r, term.p, term.len);
	kp_term_print(&r, b, TERM_TEXT_MAX);
	kp_buf_free(&term);
}
