/* receiver.c - names of processes that receive messages. */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "request/names.h"
#include "request/names.h"

#define NAME_BYTES 256		/* of an atom in a name */
#define PROCS_MAX 65536		/* known at a time: 2 MiB at most */

/* The name's id, new if need be; KP_RECEIVER_OTHER if there is no room. */
static uint32_t
name_id(struct receivers *r, const char *name)
{
	for (uint32_t i = 0; i < r->n; i++)
		if (strcmp(r->name[i], name) == 0)
			return i;
	if (r->n == KP_RECEIVERS_MAX ||
	    (r->name[r->n] = strdup(name)) == NULL)
		return KP_RECEIVER_OTHER;
	return r->n++;
}

bool
receivers_init(struct receivers *r)
{
	static const char *const first[] = { [KP_RECEIVER_OTHER] = "_other",
		[KP_RECEIVER_GONE] = "_gone", [KP_RECEIVER_ENTRY] = "_entry" };

	*r = (struct receivers){ .n = 0 };
	for (uint32_t i = 0; i < sizeof(first) / sizeof(first[0]); i++)
		if (name_id(r, first[i]) != i || r->n == i)
			return false;
	return true;
}

void
receivers_free(struct receivers *r)
{
	for (uint32_t i = 0; i < r->n; i++)
		free(r->name[i]);
	map_free(&r->procs);
}

bool
receivers_add(struct receivers *r, uint64_t proc)
{
	if (map_get(&r->procs, proc) != NULL)
		return false;
	if (r->procs.len == PROCS_MAX)
		map_free(&r->procs);
	/* If this fails its name is requested again. */
	map_put(&r->procs, proc, 0);
	return true;
}

/* The text of a raw name, owned by the caller; NULL: it is not a name. */
static char *
name_text(struct kp_span name)
{
	struct kp_span mod, fun;
	struct kp_term r;
	struct kp_buf b;
	char *text = NULL;
	uint32_t arity;

	kp_term_begin_raw(&r, name.p, name.n);
	kp_buf_init(&b, 2 * NAME_BYTES);
	if (kp_term_peek(&r) == KP_TERM_ATOM) {
		mod = kp_term_atom(&r);
		utf8_put_name(&b, mod.p, mod.n, NAME_BYTES);
		if (kp_term_finish(&r) == KP_OK && b.err == KP_OK)
			text = strdup(kp_buf_cstr(&b));
	} else if (kp_term_peek(&r) == KP_TERM_TUPLE) {
		arity = kp_term_mfa(&r, &mod, &fun);
		if (kp_term_finish(&r) == KP_OK)
			text = fn_text(mod, fun, arity);
	}
	kp_buf_free(&b);
	return text;
}

void
receivers_name(struct receivers *r, uint64_t proc, struct kp_span name)
{
	char *text = name_text(name);
	uint32_t id = text != NULL ? name_id(r, text) : KP_RECEIVER_GONE;

	if (map_get(&r->procs, proc) != NULL)
		map_put(&r->procs, proc, UINT64_C(1) + id);
	free(text);
}

uint32_t
receivers_get(const struct receivers *r, uint64_t proc)
{
	const uint64_t *at = map_get(&r->procs, proc);

	return at != NULL && *at > 0 ? (uint32_t)*at - 1 : KP_RECEIVER_GONE;
}
