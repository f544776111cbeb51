/*
 * stack_json.c - writes sampled stacks as JSON.  What it has in common with the
 * stacks of kprof report has the same names there.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stack_internal.h"
#include "text/json.h"

#define FRAME_MAX 4096u

static int
cell_order(const void *a, const void *b)
{
	const struct stack_cell *x = *(const struct stack_cell *const *)a;
	const struct stack_cell *y = *(const struct stack_cell *const *)b;

	if (x->f.time != y->f.time)
		return x->f.time < y->f.time ? 1 : -1;
	return x < y ? -1 : 1;
}

static void
put_frames(struct json *j, const struct kp_stack_table *t, uint32_t stack)
{
	const struct kp_stack_frame *f;
	struct kp_buf text;
	uint32_t n;

	f = kp_stack_frames(t, stack, &n);
	kp_buf_init(&text, FRAME_MAX);
	json_array(j, "frames");
	for (uint32_t i = 0; i < n; i++) {
		kp_buf_reset(&text);
		kp_buf_str(&text, kp_stack_fn(t, f[i].fn));
		if (f[i].line > 0)
			kp_buf_printf(&text, ":%u", f[i].line);
		json_string(j, NULL, kp_buf_cstr(&text));
	}
	json_end(j);
	kp_buf_free(&text);
}

static void
put_cell(struct json *j, const struct stack_view *v, const struct stack_cell *c)
{
	const struct stack_sum *s = v->sum;
	const char *app = stack_group_application(s, c->group);
	char pid[64];

	json_object(j, NULL);
	json_string(j, "node", v->target);
	json_string(j, "group", stack_group_name(s, c->group));
	json_string(j, "application", app[0] != '\0' ? app : NULL);
	if (s->by == STACK_BY_PROCESS) {
		snprintf(pid, sizeof(pid), "<0.%u.%u>", (unsigned)c->proc,
		    (unsigned)(c->proc >> 32));
		json_string(j, "process", pid);
	}
	json_string(j, "state", kp_stack_state_name(c->state));
	put_frames(j, s->table, c->stack);
	json_uint(j, "samples", c->f.samples);
	json_ms(j, "ms", c->f.time);
	json_end(j);
}

static void
put_figures(struct json *j, const struct stack_view *v)
{
	json_time(j, "from", v->from);
	json_time(j, "to", v->to);
	json_string(j, "target", v->target);
	json_int(j, "otp", v->otp);
	json_uint(j, "schedulers", v->schedulers);
	json_ms(j, "elapsed_ms", v->elapsed);
	json_ms(j, "sampling_ms", v->counts.busy);
	json_uint(j, "ticks", v->counts.ticks);
	json_uint(j, "looked", v->counts.looked);
	json_uint(j, "samples", v->sum->samples);
	json_uint(j, "not_seen", v->sum->not_seen);
	json_uint(j, "dropped", v->counts.unsent + v->sum->overflow +
	    kp_stack_table_overflow(v->sum->table));
	json_ms(j, "processes_ms", v->time);
	json_ms(j, "not_looked_at_ms", v->young);
	json_uint(j, "depth", v->depth);
}

void
stack_json(struct kp_buf *b, const struct stack_view *v)
{
	const struct stack_sum *s = v->sum;
	const struct stack_cell **cells = malloc((s->ncells + 1) *
	    sizeof(*cells));
	struct json j;

	if (cells == NULL) {
		b->err = KP_ENOMEM;
		return;
	}
	for (size_t i = 0; i < s->ncells; i++)
		cells[i] = &s->cells[i];
	qsort(cells, s->ncells, sizeof(*cells), cell_order);
	json_begin(&j, b);
	json_object(&j, NULL);
	put_figures(&j, v);
	json_array(&j, "stacks");
	for (size_t i = 0; i < s->ncells && b->err == KP_OK; i++)
		put_cell(&j, v, cells[i]);
	json_end(&j);
	json_end(&j);
	kp_buf_u8(b, '\n');
	free(cells);
}
