/*
 * trace_file_write.c - writes events as records, with the definitions of new names
 * before them.
 */
#include <string.h>

#include "calls/trace_file.h"

static void
put_number(struct kp_buf *b, uint64_t v)
{
	while (v >= 0x80) {
		kp_buf_u8(b, (uint8_t)(v | 0x80));
		v >>= 7;
	}
	kp_buf_u8(b, (uint8_t)v);
}

static void
put_signed(struct kp_buf *b, int64_t v)
{
	put_number(b, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

static void
put_text(struct kp_buf *b, const char *s)
{
	size_t n = strlen(s);

	put_number(b, n);
	kp_buf_put(b, s, n);
}

void
kp_calls_write_begin(struct kp_calls_writer *w, struct kp_buf *b,
    const struct kp_calls_info *info)
{
	*w = (struct kp_calls_writer){ .b = b, .fns = KP_FN_FIRST,
		.nodes = 1 };
	kp_buf_str(b, KP_CALLS_MAGIC);
	kp_buf_u8(b, KP_CALLS_VERSION);
	kp_buf_u8(b, 'T');
	put_text(b, info->target);
	put_number(b, info->otp);
	put_signed(b, info->offset);
}

static void
define_fns(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t fn)
{
	const struct kp_call_fn *f;

	for (; w->fns <= fn; w->fns++) {
		f = &t->fns[w->fns];
		kp_buf_u8(w->b, 'F');
		put_text(w->b, f->mod);
		put_text(w->b, f->fun);
		put_number(w->b, f->arity);
	}
}

static void
define_nodes(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t node)
{
	const struct kp_call_node *nd;

	for (; w->nodes <= node; w->nodes++) {
		nd = &t->nodes[w->nodes];
		kp_buf_u8(w->b, 'M');
		put_text(w->b, nd->name);
		put_number(w->b, nd->otp);
	}
}

static void
define_procs(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t proc)
{
	const struct kp_call_proc *p;

	for (; w->procs <= proc; w->procs++) {
		p = &t->procs[w->procs];
		define_nodes(w, t, p->node);
		kp_buf_u8(w->b, p->node > 0 ? 'p' : 'P');
		if (p->node > 0)
			put_number(w->b, p->node);
		put_number(w->b, p->id);
		put_number(w->b, p->serial);
	}
}

static void
put_args(struct kp_buf *b, struct kp_span args)
{
	kp_buf_u8(b, 'A');
	put_number(b, args.n);
	kp_buf_put(b, args.p, args.n);
}

void
kp_calls_write(struct kp_calls_writer *w, const struct kp_call_names *t,
    const struct kp_call_event *ev)
{
	define_procs(w, t, ev->proc);
	define_fns(w, t, ev->fn);
	if (ev->kind == KP_CALL_CALL)
		define_fns(w, t, ev->other);
	else if (ev->kind == KP_CALL_SPAWN || ev->kind == KP_CALL_RECEIVE)
		define_procs(w, t, ev->other);
	if (ev->args.n > 0)
		put_args(w->b, ev->args);
	kp_buf_u8(w->b, (uint8_t)ev->kind);
	put_number(w->b, ev->proc);
	put_signed(w->b, ev->ts - w->last);
	w->last = ev->ts;
	switch (ev->kind) {
	case KP_CALL_CALL:
	case KP_CALL_SPAWN:
		put_number(w->b, ev->fn);
		put_number(w->b, ev->other);
		break;
	case KP_CALL_RETURN_TO:
	case KP_CALL_IN:
	case KP_CALL_OUT:
		put_number(w->b, ev->fn);
		break;
	case KP_CALL_REQUEST:
		put_number(w->b, ev->other);
		break;
	case KP_CALL_SEND:
	case KP_CALL_RECEIVE:
		put_number(w->b, ev->request);
		put_number(w->b, ev->serial);
		if (ev->kind == KP_CALL_RECEIVE)
			put_number(w->b, ev->other);
		break;
	default:
		break;
	}
}

void
kp_calls_write_clock(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t node)
{
	define_nodes(w, t, node);
	kp_buf_u8(w->b, 'O');
	put_number(w->b, node);
	put_signed(w->b, t->nodes[node].offset);
	put_number(w->b, (uint64_t)t->nodes[node].error);
}

void
kp_calls_write_why(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t node)
{
	define_nodes(w, t, node);
	kp_buf_u8(w->b, 'W');
	put_number(w->b, node);
	put_number(w->b, t->nodes[node].end);
}

void
kp_calls_write_begun(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t request, uint32_t node)
{
	define_nodes(w, t, node);
	kp_buf_u8(w->b, 'B');
	put_number(w->b, request);
	put_number(w->b, node);
}

void
kp_calls_write_same(struct kp_calls_writer *w, uint32_t request, uint32_t as)
{
	kp_buf_u8(w->b, 'S');
	put_number(w->b, request);
	put_number(w->b, as);
}

void
kp_calls_write_end(struct kp_calls_writer *w, const struct kp_call_names *t,
    const struct kp_calls_info *info)
{
	const char *name;

	for (uint32_t i = 0; i < w->procs; i++) {
		name = t->procs[i].name;
		if (name == NULL)
			continue;
		kp_buf_u8(w->b, 'N');
		put_number(w->b, i);
		put_text(w->b, name);
	}
	if (info->requests > 0) {
		kp_buf_u8(w->b, 'Q');
		put_number(w->b, info->requests);
		put_number(w->b, info->begun);
		put_number(w->b, info->ended);
	}
	kp_buf_u8(w->b, 'E');
	put_number(w->b, info->end);
	put_number(w->b, info->lost);
}
