/*
 * trace_speedscope.c - writes a trace for speedscope: the stack of each process
 * over time.
 */
#include <stdlib.h>

#include "trace_report.h"
#include "text/flame.h"
#include "kprofd/term.h"
#include "base/sat.h"

#define NAME_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)
#define TARGETS_BYTES_MAX (KP_CALLS_NODES_MAX * 2048u)

static void
put_frames(struct json *j, const struct kp_call_names *t)
{
	struct kp_buf name;

	kp_buf_init(&name, NAME_BYTES_MAX);
	for (uint32_t i = 0; i < t->nfns; i++) {
		kp_buf_reset(&name);
		trace_put_fn(&name, t, i);
		speedscope_frame(j, kp_buf_cstr(&name), t->fns[i].mod);
	}
	kp_buf_free(&name);
}

/* The functions of a path, from the outermost one on. */
static void
put_stack(struct json *j, const struct trace_view *v, uint32_t path)
{
	const struct kp_calls_path *paths = v->sum->paths;
	uint32_t way[KP_CALLS_DEPTH_MAX + 1], n = 0;

	for (uint32_t i = path; paths[i].parent != KP_PATH_NONE;
	     i = paths[i].parent)
		way[n++] = paths[i].fn;
	json_array(j, NULL);
	while (n-- > 0)
		json_uint(j, NULL, way[n]);
	json_end(j);
}

static int
slice_order(const void *a, const void *b)
{
	const struct trace_slice *x = a, *y = b;

	if (x->proc != y->proc)
		return (x->proc > y->proc) - (x->proc < y->proc);
	return (x->from > y->from) - (x->from < y->from);
}

/*
 * n slices of one process, or of one root, whose processes overlap in time: there
 * the slices follow each other.
 */
static void
put_profile(struct json *j, const struct trace_view *v,
    const struct trace_slice *l, size_t n)
{
	kp_target_ns first = l[0].from - v->sum->first, last;
	struct kp_buf name;

	kp_buf_init(&name, NAME_BYTES_MAX);
	trace_put_root(&name, v, l[0].proc);
	last = l[n - 1].to - v->sum->first;
	if (v->roots != NULL && v->roots->v[l[0].proc].n > 1) {
		first = last = 0;
		for (size_t i = 0; i < n; i++)
			last = sat_add(last, l[i].to - l[i].from);
	}
	speedscope_profile(j, kp_buf_cstr(&name), first, last);
	for (size_t i = 0; i < n && j->b->err == KP_OK; i++)
		put_stack(j, v, l[i].path);
	speedscope_weights(j);
	for (size_t i = 0; i < n; i++)
		json_int(j, NULL, l[i].to - l[i].from);
	speedscope_profile_end(j);
	kp_buf_free(&name);
}

void
trace_speedscope(struct kp_buf *b, const struct trace_view *v,
    struct trace_slice *slices, size_t n)
{
	struct kp_buf targets;
	size_t m;
	struct json j;

	kp_buf_init(&targets, TARGETS_BYTES_MAX);
	trace_put_targets(&targets, v);
	qsort(slices, n, sizeof(*slices), slice_order);
	speedscope_begin(&j, b, kp_buf_cstr(&targets));
	put_frames(&j, v->names);
	speedscope_profiles(&j);
	for (size_t i = 0; i < n && b->err == KP_OK; i += m) {
		for (m = 1; i + m < n &&
		     slices[i + m].proc == slices[i].proc;)
			m++;
		put_profile(&j, v, &slices[i], m);
	}
	speedscope_end(&j);
	kp_buf_free(&targets);
}
