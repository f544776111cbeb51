/* stacks_json.c - writes sampled stacks for programs. */
#include "frames.h"
#include "stacks.h"
#include "text/json.h"

static void
put_parts(struct json *j, const char *key, const char *s)
{
	const char *part;
	size_t n;

	json_array(j, key);
	while ((part = frames_next(&s, &n)) != NULL)
		json_string_n(j, NULL, part, n);
	json_end(j);
}

static void
put_row(struct json *j, const struct kp_query_stack *v)
{
	json_object(j, NULL);
	json_string(j, "node", v->node);
	json_string(j, "identity", v->identity);
	put_parts(j, "path", v->path);
	json_string(j, "state", kp_stack_state_name(v->state));
	put_parts(j, "frames", v->frames);
	json_uint(j, "samples", v->samples);
	json_ms(j, "ms", v->w_time);
	json_end(j);
}

void
stacks_json(struct kp_buf *b, const struct stacks *s)
{
	struct json j;

	json_begin(&j, b);
	json_object(&j, NULL);
	json_time(&j, "from", s->start);
	json_time(&j, "to", s->end);
	json_uint(&j, "samples", s->stacks.samples);
	json_uint(&j, "not_seen", s->stacks.not_seen);
	json_uint(&j, "dropped", s->other);
	json_uint(&j, "depth", s->depth);
	json_object(&j, "left_out");
	json_uint(&j, "stacks", s->stacks.left);
	json_uint(&j, "samples", s->stacks.left_samples);
	json_ms(&j, "ms", s->stacks.left_time);
	json_end(&j);
	json_string(&j, "why", s->why);
	json_array(&j, "stacks");
	for (size_t i = 0; i < s->stacks.n && b->err == KP_OK; i++)
		put_row(&j, &s->stacks.v[i]);
	json_end(&j);
	json_end(&j);
	kp_buf_u8(b, '\n');
}
