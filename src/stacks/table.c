/*
 * table.c - keeps one copy of each function and of each stack.
 *
 * A stack is an array of frames, each the number of a function and a line; its
 * text is made when it is asked for.  The array is the key in the table of
 * stacks, so that stacks are equal if their texts are.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/vec.h"
#include "kprofd/fn_name.h"
#include "stacks/table.h"

/* Of the names of all functions: a hostile node could make each 2 KB. */
#define NAMES_MAX (4u << 20)
#define LINE_TEXT_MAX 12	/* ":4294967295;" */

struct stack {
	const struct kp_stack_frame *frames;	/* the key in by_frames */
	uint32_t n;
};

struct kp_stack_table {
	struct intern by_name, by_frames;
	const char **fns;		/* the keys in by_name */
	struct stack *stacks;
	size_t fns_room, stacks_room, names, texts;
	uint32_t nfns, nstacks;
	uint64_t overflow;
};

struct kp_stack_table *
kp_stack_table_new(void)
{
	struct kp_stack_table *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	if (vec_room(&t->stacks, &t->stacks_room, 0, KP_STACK_STACKS_MAX) !=
	    KP_OK) {
		free(t);
		return NULL;
	}
	t->stacks[KP_STACK_OTHER] = t->stacks[KP_STACK_NONE] =
	    t->stacks[KP_STACK_LATE] = (struct stack){ NULL, 0 };
	t->nstacks = KP_STACK_LATE + 1;
	return t;
}

void
kp_stack_table_free(struct kp_stack_table *t)
{
	if (t == NULL)
		return;
	intern_free(&t->by_name);
	intern_free(&t->by_frames);
	free(t->fns);
	free(t->stacks);
	free(t);
}

uint32_t
kp_stack_table_stacks(const struct kp_stack_table *t)
{
	return t->nstacks;
}

uint32_t
kp_stack_table_fns(const struct kp_stack_table *t)
{
	return t->nfns;
}

uint64_t
kp_stack_table_overflow(const struct kp_stack_table *t)
{
	return t->overflow;
}

bool
stack_table_fills(const struct kp_stack_table *t)
{
	return t->nfns > KP_STACK_FNS_MAX / 2 ||
	    t->nstacks > KP_STACK_STACKS_MAX / 2 ||
	    t->names > NAMES_MAX / 2 || t->texts > KP_STACK_TEXTS_MAX / 2;
}

uint32_t
stack_put_other(struct kp_stack_table *t)
{
	t->overflow++;
	return KP_STACK_OTHER;
}

/* text, of n bytes with its NUL, is a name that is not there yet. */
static uint32_t
fn_add(struct kp_stack_table *t, const char *text, size_t n)
{
	const struct interned *at;

	if (t->names + n > NAMES_MAX || vec_room(&t->fns, &t->fns_room,
	    t->nfns, KP_STACK_FNS_MAX) != KP_OK ||
	    (at = intern_put(&t->by_name, text, n, t->nfns)) == NULL)
		return STACK_NO_FN;
	t->names += n;
	t->fns[t->nfns] = (const char *)at->key;
	return t->nfns++;
}

static uint32_t
fn_find(struct kp_stack_table *t, const char *text)
{
	size_t n = strlen(text) + 1;
	const struct interned *at = intern_get(&t->by_name, text, n);

	return at != NULL ? at->val : fn_add(t, text, n);
}

uint32_t
stack_fn_put(struct kp_stack_table *t, const char *mod, const char *fun,
    uint32_t arity)
{
	char text[FN_NAME_MAX];

	fn_name(text, sizeof(text), mod, fun, arity);
	for (char *p = text; (p = strchr(p, ';')) != NULL;)
		*p = ',';
	return fn_find(t, text);
}

/* Returns an upper bound of the length of a stack's text. */
static size_t
text_max(const struct kp_stack_table *t, const struct kp_stack_frame *frames,
    uint32_t n)
{
	size_t len = 0;

	for (uint32_t i = 0; i < n; i++)
		len += strlen(t->fns[frames[i].fn]) + LINE_TEXT_MAX;
	return len;
}

/* The stack is not there yet. */
static uint32_t
stack_add(struct kp_stack_table *t, const struct kp_stack_frame *frames,
    uint32_t n)
{
	size_t text = text_max(t, frames, n);
	const struct interned *at;

	if (t->texts + text > KP_STACK_TEXTS_MAX || vec_room(&t->stacks,
	    &t->stacks_room, t->nstacks, KP_STACK_STACKS_MAX) != KP_OK ||
	    (at = intern_put(&t->by_frames, frames, n * sizeof(*frames),
	    t->nstacks)) == NULL)
		return stack_put_other(t);
	t->texts += text;
	/* the copy comes from malloc(), so it is aligned */
	t->stacks[t->nstacks] = (struct stack){
		(const struct kp_stack_frame *)(const void *)at->key, n };
	return t->nstacks++;
}

uint32_t
kp_stack_put(struct kp_stack_table *t, const struct kp_stack_frame *frames,
    uint32_t n)
{
	const struct interned *at;

	if (n == 0)
		return KP_STACK_NONE;
	if (n > KP_STACK_DEPTH_MAX)
		return stack_put_other(t);
	at = intern_get(&t->by_frames, frames, n * sizeof(*frames));
	return at != NULL ? at->val : stack_add(t, frames, n);
}

uint32_t
kp_stack_copy(struct kp_stack_table *to, const struct kp_stack_table *from,
    uint32_t stack)
{
	const struct stack *s = &from->stacks[stack];
	struct kp_stack_frame v[KP_STACK_DEPTH_MAX];

	if (stack == KP_STACK_OTHER || stack == KP_STACK_LATE)
		return stack;
	for (uint32_t i = 0; i < s->n; i++) {
		v[i] = (struct kp_stack_frame){
			fn_find(to, from->fns[s->frames[i].fn]),
			s->frames[i].line };
		if (v[i].fn == STACK_NO_FN)
			return stack_put_other(to);
	}
	return kp_stack_put(to, v, s->n);
}

const struct kp_stack_frame *
kp_stack_frames(const struct kp_stack_table *t, uint32_t stack, uint32_t *n)
{
	*n = t->stacks[stack].n;
	return t->stacks[stack].frames;
}

const char *
kp_stack_fn(const struct kp_stack_table *t, uint32_t fn)
{
	return t->fns[fn];
}

void
kp_stack_text(const struct kp_stack_table *t, uint32_t stack,
    struct kp_buf *b)
{
	const struct stack *s = &t->stacks[stack];

	if (stack == KP_STACK_OTHER)
		kp_buf_str(b, "_other");
	else if (stack == KP_STACK_LATE)
		kp_buf_str(b, "_late");
	for (uint32_t i = 0; i < s->n; i++) {
		if (i > 0)
			kp_buf_u8(b, ';');
		kp_buf_str(b, t->fns[s->frames[i].fn]);
		if (s->frames[i].line > 0)
			kp_buf_printf(b, ":%" PRIu32, s->frames[i].line);
	}
}
