/*
 * fuzz_stacks.c - a sampler's messages, of any bytes: a message is taken whole
 * or not at all, and every sample has a stack of the table, whose text is valid
 * UTF-8 and has as many parts as the stack has frames.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "kprofd/label.h"
#include "kprofd/stacks.h"
#include "kprofd/trace.h"

struct seen {
	const struct kp_stack_table *t;
	size_t samples, groups;
};

static void
check_text(const struct kp_stack_table *t, uint32_t stack)
{
	struct kp_buf b;
	uint32_t n, parts = 0;
	size_t max = 4096 * KP_STACK_DEPTH_MAX;

	REQUIRE(stack < kp_stack_table_stacks(t));
	kp_stack_frames(t, stack, &n);
	REQUIRE(n <= KP_STACK_DEPTH_MAX);
	kp_buf_init(&b, max);
	kp_stack_text(t, stack, &b);
	REQUIRE(b.err == KP_OK && utf8_valid(b.p, b.len));
	for (size_t i = 0; i < b.len; i++)
		parts += b.p[i] == ';';
	REQUIRE(parts + 1 == (n > 0 ? n : 1));
	kp_buf_free(&b);
}

static void
on_sample(void *ctx, const struct kp_stack_sample *s)
{
	struct seen *seen = ctx;

	seen->samples++;
	REQUIRE(s->label < KP_LABEL_END && s->time >= 0);
	REQUIRE(s->at < KP_TARGET_TIME_MAX && s->at > -KP_TARGET_TIME_MAX);
	REQUIRE(s->state < KP_STACK_STATES);
	REQUIRE(s->state != KP_STACK_NOT_SEEN || s->stack == KP_STACK_NONE);
	check_text(seen->t, s->stack);
}

static void
on_group(void *ctx, const struct kp_stack_group *g)
{
	struct seen *seen = ctx;

	seen->groups++;
	REQUIRE(g->number > 0);
	REQUIRE(utf8_valid(g->name, strlen(g->name)));
	REQUIRE(utf8_valid(g->application, strlen(g->application)));
}

static void
on_queue(void *ctx, const char *text)
{
	(void)ctx;
	REQUIRE(utf8_valid(text, strlen(text)));
}

static void
on_usage(void *ctx, struct kp_usage *u)
{
	struct seen *seen = ctx;
	struct kp_usage *copy = kp_usage_copy(u);
	struct kp_queues q = { 0 };

	seen->groups++;
	free(u);
	if (copy == NULL)
		return;
	REQUIRE(copy->n <= KP_USAGE_ROWS_MAX);
	for (size_t i = 0; i < copy->n; i++) {
		REQUIRE(utf8_valid(copy->rows[i].name,
		    strlen(copy->rows[i].name)));
		REQUIRE(utf8_valid(copy->rows[i].owner,
		    strlen(copy->rows[i].owner)));
		REQUIRE(copy->rows[i].memory >= -1 &&
		    copy->rows[i].reductions >= -1);
	}
	for (int i = 0; i < 3; i++, copy->at += KP_NS_PER_S)
		kp_queues_look(&q, copy, i * KP_NS_PER_S, on_queue, NULL);
	REQUIRE(q.n <= KP_QUEUES_MAX);
	free(copy);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct kp_stack_ops ops = { on_sample, on_group,
		on_usage };
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_stack_message m = { 0 }, zero = { 0 };
	struct seen seen = { .t = t };
	enum kp_err err;

	if (t == NULL)
		return 0;
	err = kp_stacks_decode(data, size, t, &m, &ops, &seen);
	if (err != KP_OK) {
		REQUIRE(seen.samples == 0 && seen.groups == 0);
		REQUIRE(kp_stack_table_fns(t) == 0);
		REQUIRE(memcmp(&m, &zero, sizeof(m)) == 0);
	}
	REQUIRE(seen.samples <= size && seen.groups <= size);
	kp_stack_table_free(t);
	return 0;
}
