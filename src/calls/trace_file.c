/*
 * trace_file.c - writes events as records, with the definitions of new names before
 * them, and reads them from untrusted bytes; the format is in trace_file.h.
 *
 * A missing end is not an error: the writer may have been killed.  So is a field
 * that the end of the file cuts.
 */
#include <string.h>

#include "calls/trace_file.h"

/* ---- writing ---- */

static void
put_text(struct kp_buf *b, const char *s)
{
	size_t n = strlen(s);

	kp_buf_varint(b, n);
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
	kp_buf_varint(b, info->otp);
	kp_buf_zigzag(b, info->offset);
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
		kp_buf_varint(w->b, f->arity);
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
		kp_buf_varint(w->b, nd->otp);
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
			kp_buf_varint(w->b, p->node);
		kp_buf_varint(w->b, p->id);
		kp_buf_varint(w->b, p->serial);
	}
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
	if (ev->args.n > 0) {
		kp_buf_u8(w->b, 'A');
		kp_buf_varint(w->b, ev->args.n);
		kp_buf_put(w->b, ev->args.p, ev->args.n);
	}
	kp_buf_u8(w->b, (uint8_t)ev->kind);
	kp_buf_varint(w->b, ev->proc);
	kp_buf_zigzag(w->b, ev->ts - w->last);
	w->last = ev->ts;
	switch (ev->kind) {
	case KP_CALL_CALL:
	case KP_CALL_SPAWN:
		kp_buf_varint(w->b, ev->fn);
		kp_buf_varint(w->b, ev->other);
		break;
	case KP_CALL_RETURN_TO:
	case KP_CALL_IN:
	case KP_CALL_OUT:
		kp_buf_varint(w->b, ev->fn);
		break;
	case KP_CALL_REQUEST:
		kp_buf_varint(w->b, ev->other);
		break;
	case KP_CALL_SEND:
	case KP_CALL_RECEIVE:
		kp_buf_varint(w->b, ev->request);
		kp_buf_varint(w->b, ev->serial);
		if (ev->kind == KP_CALL_RECEIVE)
			kp_buf_varint(w->b, ev->other);
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
	kp_buf_varint(w->b, node);
	kp_buf_zigzag(w->b, t->nodes[node].offset);
	kp_buf_varint(w->b, (uint64_t)t->nodes[node].error);
}

void
kp_calls_write_why(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t node)
{
	define_nodes(w, t, node);
	kp_buf_u8(w->b, 'W');
	kp_buf_varint(w->b, node);
	kp_buf_varint(w->b, t->nodes[node].end);
}

void
kp_calls_write_begun(struct kp_calls_writer *w, const struct kp_call_names *t,
    uint32_t request, uint32_t node)
{
	define_nodes(w, t, node);
	kp_buf_u8(w->b, 'B');
	kp_buf_varint(w->b, request);
	kp_buf_varint(w->b, node);
}

void
kp_calls_write_same(struct kp_calls_writer *w, uint32_t request, uint32_t as)
{
	kp_buf_u8(w->b, 'S');
	kp_buf_varint(w->b, request);
	kp_buf_varint(w->b, as);
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
		kp_buf_varint(w->b, i);
		put_text(w->b, name);
	}
	if (info->requests > 0) {
		kp_buf_u8(w->b, 'Q');
		kp_buf_varint(w->b, info->requests);
		kp_buf_varint(w->b, info->begun);
		kp_buf_varint(w->b, info->ended);
	}
	kp_buf_u8(w->b, 'E');
	kp_buf_varint(w->b, info->end);
	kp_buf_varint(w->b, info->lost);
}

/* ---- reading ---- */

static uint64_t
get_below(struct kp_calls_reader *r, uint64_t bound)
{
	uint64_t v = kp_bytes_varint(&r->in);

	if (r->in.err == KP_OK && v >= bound)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	return r->in.err == KP_OK ? v : 0;
}

/* Within +-2^62, so that two of them can be added. */
static int64_t
get_signed(struct kp_calls_reader *r)
{
	uint64_t v = get_below(r, UINT64_C(1) << 63);

	return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

static struct kp_span
get_text_of(struct kp_calls_reader *r, uint32_t most)
{
	uint64_t n = get_below(r, (uint64_t)most + 1);
	struct kp_span s = { r->in.p, 0 };

	if (n > (uint64_t)(r->in.end - r->in.p)) {
		kp_bytes_fail(&r->in, KP_ESHORT);
		return s;
	}
	s.n = (uint32_t)n;
	r->in.p += n;
	return s;
}

static struct kp_span
get_text(struct kp_calls_reader *r)
{
	return get_text_of(r, KP_CALLS_NAME_MAX);
}

/* A second definition of the same name is an error: it would have two numbers. */
static bool
is_new(struct kp_calls_reader *r, enum kp_err e, bool added)
{
	if (e != KP_OK || !added)
		kp_bytes_fail(&r->in, e != KP_OK ? e : KP_EFORMAT);
	return r->in.err == KP_OK;
}

static void
define_node(struct kp_calls_reader *r, struct kp_span name, uint32_t otp)
{
	uint32_t node;
	bool added = false;
	enum kp_err e;

	if (r->in.err != KP_OK || r->again)
		return;
	e = kp_call_node_put(r->names, name, &node, &added);
	if (is_new(r, e, added))
		r->names->nodes[node].otp = otp;
}

static void
read_target(struct kp_calls_reader *r)
{
	struct kp_span name;

	if (get_below(r, 256) != 'T')
		kp_bytes_fail(&r->in, KP_EFORMAT);
	name = get_text(r);
	if (name.n >= sizeof(r->info.target) ||
	    (name.n > 0 && memchr(name.p, '\0', name.n) != NULL))
		kp_bytes_fail(&r->in, KP_EFORMAT);
	r->info.otp = (uint32_t)get_below(r, 1000);
	r->info.offset = get_signed(r);
	if (r->in.err != KP_OK)
		return;
	memcpy(r->info.target, name.p, name.n);
	define_node(r, name, r->info.otp);
}

enum kp_err
kp_calls_read_begin(struct kp_calls_reader *r, const void *p, size_t n,
    struct kp_call_names *names, bool again)
{
	size_t magic = strlen(KP_CALLS_MAGIC);

	*r = (struct kp_calls_reader){ .names = names, .again = again };
	r->in.p = p;
	r->in.end = r->in.p + n;
	if (n < magic || memcmp(p, KP_CALLS_MAGIC, magic) != 0)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	else if (n == magic || r->in.p[magic] == 0 ||
	    r->in.p[magic] > KP_CALLS_VERSION)
		kp_bytes_fail(&r->in, KP_ESTATE);
	else {
		r->version = r->in.p[magic];
		r->in.p += magic + 1;
		read_target(r);
	}
	/* A file that is cut here is of no use. */
	if (r->in.err == KP_ESHORT)
		r->in.err = KP_EFORMAT;
	return r->in.err;
}

static void
define_fn(struct kp_calls_reader *r)
{
	struct kp_span mod = get_text(r), fun = get_text(r);
	uint32_t arity = (uint32_t)get_below(r, 256), fn;
	bool added = false;
	enum kp_err e;

	if (r->in.err != KP_OK || r->again)
		return;
	e = kp_call_fn_put(r->names, mod, fun, arity, &fn, &added);
	is_new(r, e, added);
}

static uint32_t
get_node(struct kp_calls_reader *r)
{
	return (uint32_t)get_below(r, r->names->nnodes);
}

static void
define_proc(struct kp_calls_reader *r, uint32_t node)
{
	uint32_t id = (uint32_t)get_below(r, UINT64_C(1) << 32);
	uint32_t serial = (uint32_t)get_below(r, UINT64_C(1) << 32), proc;
	bool added = false;
	enum kp_err e;

	if (r->in.err != KP_OK || r->again)
		return;
	e = kp_call_proc_put(r->names, node, id, serial, &proc, &added);
	is_new(r, e, added);
}

static void
name_proc(struct kp_calls_reader *r)
{
	uint32_t proc = (uint32_t)get_below(r, KP_CALLS_PROCS_MAX);
	struct kp_span name = get_text(r);
	enum kp_err e;

	if (r->in.err != KP_OK || r->again)
		return;
	e = kp_call_proc_name(r->names, proc, name);
	if (e != KP_OK)
		kp_bytes_fail(&r->in, e);
}

static void
read_end(struct kp_calls_reader *r)
{
	uint64_t end = get_below(r, KP_CALLS_ENDS);
	uint64_t lost = get_below(r, UINT64_C(1) << 48);

	if (r->in.err == KP_OK && r->in.p != r->in.end)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	if (r->in.err != KP_OK)
		return;
	r->info.end = (enum kp_calls_end)end;
	r->info.lost = lost;
	r->in.err = KP_END;
}

static void
read_requests(struct kp_calls_reader *r)
{
	uint32_t n = (uint32_t)get_below(r, KP_CALLS_REQUESTS_MAX);
	uint32_t begun = (uint32_t)get_below(r, (uint64_t)n + 1);
	uint32_t ended = (uint32_t)get_below(r, (uint64_t)begun + 1);

	if (r->in.err != KP_OK)
		return;
	r->info.requests = n;
	r->info.begun = begun;
	r->info.ended = ended;
}

/* ---- several nodes ---- */

/* Offsets are bounded so that sums with times do not overflow. */
static void
read_clock(struct kp_calls_reader *r)
{
	uint32_t node = get_node(r);
	kp_dur_ns offset = get_signed(r);
	uint64_t error = get_below(r, (uint64_t)KP_CALLS_TIME_MAX);

	if (node == 0)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	if (r->in.err != KP_OK || r->again)
		return;
	r->names->nodes[node].offset = offset;
	r->names->nodes[node].error = (kp_dur_ns)error;
}

static void
read_why(struct kp_calls_reader *r)
{
	uint32_t node = get_node(r);
	uint64_t end = get_below(r, KP_CALLS_ENDS);

	if (r->in.err == KP_OK && !r->again)
		r->names->nodes[node].end =
		    (enum kp_calls_end)end;
}

static uint32_t
get_request(struct kp_calls_reader *r)
{
	uint32_t n = (uint32_t)get_below(r, KP_CALLS_REQUESTS_MAX);

	if (n == 0)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	return n;
}

static void
read_request(struct kp_calls_reader *r, uint8_t tag)
{
	uint32_t request = get_request(r);
	uint32_t of = tag == 'B' ? get_node(r) : get_request(r);

	if (r->in.err != KP_OK || r->ops == NULL)
		return;
	if (tag == 'B')
		r->ops->begun(r->ops->ctx, request, of);
	else
		r->ops->same(r->ops->ctx, request, of);
}

/* Events do not name pseudo functions, except undefined. */
static uint32_t
get_fn(struct kp_calls_reader *r)
{
	uint32_t fn = (uint32_t)get_below(r, r->names->nfns);

	if (fn > KP_FN_UNDEFINED && fn < KP_FN_FIRST)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	return fn;
}

static uint32_t
get_proc(struct kp_calls_reader *r)
{
	return (uint32_t)get_below(r, r->names->nprocs);
}

static void
read_event(struct kp_calls_reader *r, enum kp_call_kind kind,
    struct kp_call_event *ev)
{
	kp_target_ns ts;

	ev->kind = kind;
	ev->proc = get_proc(r);
	ts = r->last + get_signed(r);
	if (ts <= -KP_CALLS_TIME_MAX || ts >= KP_CALLS_TIME_MAX)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	if (kind <= KP_CALL_OUT || kind == KP_CALL_SPAWN)
		ev->fn = get_fn(r);
	if (kind == KP_CALL_CALL)
		ev->other = get_fn(r);
	if (kind == KP_CALL_SPAWN)
		ev->other = get_proc(r);
	if (kind == KP_CALL_REQUEST)
		ev->other = (uint32_t)get_below(r, KP_CALLS_REQUESTS_MAX);
	if (kind >= KP_CALL_SEND) {
		ev->request = (uint32_t)get_below(r, KP_CALLS_REQUESTS_MAX);
		ev->serial = (uint32_t)get_below(r, UINT64_C(1) << 32);
	}
	if (kind == KP_CALL_RECEIVE)
		ev->other = get_proc(r);
	if (kind == KP_CALL_CALL && ev->fn == KP_FN_UNDEFINED)
		kp_bytes_fail(&r->in, KP_EFORMAT);
	if (r->in.err != KP_OK)
		return;
	ev->ts = ts;
	r->last = ts;
}

/* True if the record was an event. */
static bool
read_record(struct kp_calls_reader *r, struct kp_call_event *ev)
{
	uint8_t tag = *r->in.p++;
	struct kp_span name;

	if (r->args.n > 0 && tag != KP_CALL_CALL) {
		kp_bytes_fail(&r->in, KP_EFORMAT);
		return false;
	}
	if (tag > 0 && tag < KP_CALL_KINDS) {
		ev->args = r->args;
		r->args.n = 0;
		read_event(r, (enum kp_call_kind)tag, ev);
		return true;
	}
	/* Files of version 1 are of one node. */
	if (r->version < 2 && tag != 0 && strchr("MpOBSW", tag) != NULL)
		tag = 0;
	switch (tag) {
	case 'F':
		define_fn(r);
		break;
	case 'P':
		define_proc(r, 0);
		break;
	case 'N':
		name_proc(r);
		break;
	case 'A':
		r->args = get_text_of(r, KP_CALLS_ARGS_MAX);
		if (r->args.n == 0)
			kp_bytes_fail(&r->in, KP_EFORMAT);
		break;
	case 'Q':
		read_requests(r);
		break;
	case 'E':
		read_end(r);
		break;
	case 'M':
		name = get_text(r);
		define_node(r, name, (uint32_t)get_below(r, 1000));
		break;
	case 'p':
		define_proc(r, get_node(r));
		break;
	case 'O':
		read_clock(r);
		break;
	case 'B':
	case 'S':
		read_request(r, tag);
		break;
	case 'W':
		read_why(r);
		break;
	default:
		kp_bytes_fail(&r->in, KP_EFORMAT);
	}
	return false;
}

enum kp_err
kp_calls_read(struct kp_calls_reader *r, struct kp_call_event *ev)
{
	bool event = false;

	*ev = (struct kp_call_event){ 0 };
	while (r->in.err == KP_OK && !event && r->in.p < r->in.end)
		event = read_record(r, ev);
	/* The file is cut, within a record or between two. */
	if (r->in.err == KP_ESHORT || (r->in.err == KP_OK && !event))
		r->in.err = KP_END;
	if (r->in.err != KP_OK)
		*ev = (struct kp_call_event){ 0 };
	return r->in.err;
}
