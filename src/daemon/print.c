/* print.c - formats calls and plans as text in columns. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "kprofd/fn_name.h"
#include "kprofd/instructions.h"
#include "daemon/print.h"
#include "text/grid.h"
#include "text/text.h"

#define LINE_BYTES 4096	/* names are bounded: longer ones are cut */
#define PLAN_BYTES (64u << 20)

static void
put_time(struct kp_buf *b, kp_wall_ns t)
{
	time_t s = (time_t)(t / KP_NS_PER_S);
	char text[32];
	struct tm tm;

	localtime_r(&s, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	kp_buf_printf(b, "%s.%06d  ", text, (int)(t % KP_NS_PER_S / 1000));
}

/* Appends a name that comes from a target, padded to the width. */
static void
put_name(struct kp_buf *b, const char *name, size_t width)
{
	size_t start = b->len, w;

	text_put(b, name);
	kp_buf_cstr(b);
	w = b->err == KP_OK ? text_width((const char *)b->p + start) : 0;
	for (; w < width; w++)
		kp_buf_u8(b, ' ');
	kp_buf_u8(b, ' ');
}

static void
print_call(const struct kp_requests *rs, const struct kp_request *rq,
    const struct kp_call *c, kp_dur_ns offset, const char *const *nodes)
{
	struct kp_buf b;
	char pid[48], fn[FN_NAME_MAX];

	kp_buf_init(&b, LINE_BYTES);
	put_time(&b, c->start + offset);
	put_name(&b, kp_requests_identity(rs, rq->identity), 16);
	put_name(&b, fn_shown(fn, sizeof(fn),
	    kp_requests_fn(rs, c->fn)->text), 32);
	if (kp_outcome_timed(c->outcome))
		kp_buf_printf(&b, "%11.3f ms",
		    (double)(c->end - c->start) / 1e6);
	else
		kp_buf_printf(&b, "%14s", "-");
	kp_buf_printf(&b, "  %-12s %s%s",
	    kp_proc_text(c->proc, pid, sizeof(pid)),
	    kp_outcome_name(c->outcome), c->async ? " async" : "");
	if (nodes != NULL)
		kp_buf_printf(&b, "  %s", nodes[c->node]);
	kp_buf_u8(&b, '\n');
	fputs(kp_buf_cstr(&b), stdout);
	kp_buf_free(&b);
}

void
print_request(struct print_limit *l, const struct kp_requests *rs,
    const struct kp_request *rq, kp_dur_ns offset, const char *const *nodes,
    kp_mono_ns now)
{
	if (now - l->second >= KP_NS_PER_S) {
		if (l->left_out > 0)
			printf("... %llu calls not printed\n",
			    (unsigned long long)l->left_out);
		*l = (struct print_limit){ .second = now };
		fflush(stdout);
	}
	for (uint32_t i = 0; i < rq->ncalls; i++) {
		if (l->printed == PRINT_CALLS_A_SECOND) {
			l->left_out += rq->ncalls - i;
			return;
		}
		l->printed++;
		print_call(rs, rq, &rq->calls[i], offset, nodes);
	}
}

static void
tiers_cell(struct grid *g, const struct kp_conf *c, uint64_t tiers)
{
	struct kp_buf b;

	kp_buf_init(&b, LINE_BYTES);
	for (size_t i = 0; i < c->ntiers; i++)
		if ((tiers >> i & 1) != 0)
			kp_buf_printf(&b, "%s%s", b.len > 0 ? ", " : "",
			    c->tiers[i].name);
	grid_cell(g, tiers != 0 ? kp_buf_cstr(&b) : "-");
	kp_buf_free(&b);
}

static void
plan_row(struct grid *g, const struct kp_conf *c, const struct kp_plan_item *p)
{
	char fn[FN_NAME_MAX], rate[24] = "?";

	/* Calls of an instruction are made, and not seen. */
	if (p->rate > 0 || (p->rate == 0 && !kp_is_instruction(
	    &(struct kp_mfa){ p->mod, p->fun, p->arity })))
		snprintf(rate, sizeof(rate), "%lld", (long long)p->rate);
	grid_cell(g, fn_name(fn, sizeof(fn), p->mod, p->fun, p->arity));
	grid_cell(g, rate);
	grid_cell(g, p->entry ? "entry" : p->clears ? "clear" :
	    p->exact ? "exact" : "call");
	tiers_cell(g, c, p->tiers);
}

void
put_plan(struct kp_buf *b, const struct kp_conf *c, const struct kp_plan *plan,
    const char *node)
{
	struct grid g;

	grid_init(&g);
	grid_col(&g, "FUNCTION", GRID_LEFT);
	grid_col(&g, "CALLS/S", GRID_RIGHT);
	grid_col(&g, "AS", GRID_LEFT);
	grid_col(&g, "TIERS", GRID_LEFT);
	for (size_t i = 0; i < plan->n; i++)
		plan_row(&g, c, &plan->v[i]);
	if (node != NULL)
		kp_buf_printf(b, "%s:\n", node);
	grid_write(&g, 0, b);
	grid_free(&g);
}

void
print_plan(const struct kp_conf *c, const struct kp_plan *plan,
    const char *node)
{
	struct kp_buf b;

	kp_buf_init(&b, PLAN_BYTES);
	put_plan(&b, c, plan, node);
	fputs(kp_buf_cstr(&b), stdout);
	fflush(stdout);
	kp_buf_free(&b);
}
