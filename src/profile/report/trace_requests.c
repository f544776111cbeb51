/*
 * trace_requests.c - writes the requests of a trace: the processes that worked for
 * each, as a tree (a process is below the sender of its first message), and the
 * critical path.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "trace_report.h"
#include "text/text.h"

#define DEPTH_MAX 32u
#define SHOWN_MAX 200u		/* steps of a path */
#define WORKS_MAX 1000u		/* processes of a request */

struct page {
	struct kp_buf *b;
	const struct trace_view *v;
	const struct kp_critical_path_work *works;	/* of one request */
	uint32_t n, more;	/* number shown, and not shown */
};

static bool
is_shown(const struct page *p, uint32_t proc)
{
	for (uint32_t i = 0; i < p->n; i++)
		if (p->works[i].proc == proc)
			return true;
	return false;
}

static void
put_ms(struct kp_buf *b, kp_dur_ns ns)
{
	char text[TEXT_MAX];

	kp_buf_printf(b, "  %10s", text_ms(text, ns));
}

static void
put_parts(struct kp_buf *b, const kp_dur_ns parts[KP_PARTS])
{
	for (int i = 0; i < KP_PARTS; i++)
		put_ms(b, parts[i]);
	kp_buf_str(b, "  ");
}

static void
put_work(struct page *p, const struct kp_critical_path_work *k, unsigned depth)
{
	put_parts(p->b, k->parts);
	kp_buf_printf(p->b, "%8" PRIu32 "  %*s", k->messages,
	    (int)(2 * depth), "");
	trace_put_proc(p->b, p->v->names, k->proc);
	kp_buf_str(p->b, "\n");
	for (uint32_t i = 0; i < p->n && depth < DEPTH_MAX; i++)
		if (p->works[i].by == k->proc && &p->works[i] != k)
			put_work(p, &p->works[i], depth + 1);
}

/* The roots are processes whose first sender is not among those shown. */
static void
put_works(struct page *p)
{
	kp_buf_printf(p->b, "  %10s  %10s  %10s  %10s  %8s  process\n",
	    "own ms", "out ms", "gc ms", "mailbox ms", "messages");
	for (uint32_t i = 0; i < p->n && p->b->err == KP_OK; i++)
		if (p->works[i].by == KP_PROC_NONE ||
		    !is_shown(p, p->works[i].by))
			put_work(p, &p->works[i], 0);
	if (p->more > 0)
		kp_buf_printf(p->b, "  and %" PRIu32 " processes more\n",
		    p->more);
}

static void
put_path(struct page *p, const struct kp_critical_path_request *r)
{
	struct kp_critical_path_step *steps = NULL;
	uint32_t n;
	enum kp_err e = kp_critical_path_steps(p->v->critical, r, &steps, &n);

	if (e == KP_ENOMEM)
		p->b->err = e;
	if (n > 0)
		kp_buf_str(p->b, "  critical path, from its begin on\n");
	for (uint32_t i = 0; i < n && i < SHOWN_MAX; i++) {
		put_parts(p->b, steps[i].parts);
		kp_buf_printf(p->b, "%+8.3f  ",
		    (double)(steps[i].from - r->begin) / 1e6);
		trace_put_proc(p->b, p->v->names, steps[i].proc);
		kp_buf_str(p->b, "\n");
	}
	if (n > SHOWN_MAX || e == KP_ELIMIT)
		kp_buf_printf(p->b, "  and more: it has %s%" PRIu32
		    " steps\n", e == KP_ELIMIT ? "over " : "", n);
	free(steps);
}

static void
put_request(struct page *p, const struct kp_critical_path_request *r)
{
	char total[TEXT_MAX];

	kp_buf_printf(p->b, "request %" PRIu32 ": ", r->number);
	trace_put_fn(p->b, p->v->names, r->fn, true);
	trace_put_args(p->b, r->args);
	kp_buf_str(p->b, " in ");
	trace_put_proc(p->b, p->v->names, r->proc);
	kp_buf_printf(p->b, ", %s ms%s\n",
	    text_ms(total, r->end - r->begin), r->ended ? "" :
	    " until the trace ended");
	put_works(p);
	put_path(p, r);
	kp_buf_str(p->b, "\n");
}

void
trace_requests(struct kp_buf *b, const struct trace_view *v)
{
	const struct kp_critical_path *w = v->critical;
	struct page p = { .b = b, .v = v, .works = w->works };

	for (uint32_t i = 0; i < w->nrequests && b->err == KP_OK; i++) {
		while (p.works < w->works + w->nworks &&
		    p.works->request < w->requests[i].number)
			p.works++;
		for (p.n = 0; p.works + p.n < w->works + w->nworks &&
		     p.works[p.n].request == w->requests[i].number;)
			p.n++;
		p.more = p.n > WORKS_MAX ? p.n - WORKS_MAX : 0;
		p.n -= p.more;
		put_request(&p, &w->requests[i]);
	}
}
