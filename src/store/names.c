/* names.c - a hash of short texts to row ids; see the header. */
#include <stdlib.h>
#include <string.h>

#include "names.h"

static size_t
slot_of(const struct names *ns, uint32_t kind, const char *text)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ kind;	/* FNV-1a */
	size_t s;

	for (const char *p = text; *p != '\0'; p++)
		h = (h ^ (uint8_t)*p) * UINT64_C(0x100000001b3);
	for (s = h & (ns->cap - 1); ns->v[s].text != NULL;
	    s = (s + 1) & (ns->cap - 1)) {
		if (ns->v[s].kind == kind &&
		    strcmp(ns->v[s].text, text) == 0)
			break;
	}
	return s;
}

void
names_clear(struct names *ns)
{
	for (size_t i = 0; i < ns->cap; i++)
		free(ns->v[i].text);
	free(ns->v);
	*ns = (struct names){ 0 };
}

const struct name *
names_find(const struct names *ns, uint32_t kind, const char *text)
{
	const struct name *n;

	if (ns->cap == 0)
		return NULL;
	n = &ns->v[slot_of(ns, kind, text)];
	return n->text != NULL ? n : NULL;
}

static bool
names_grow(struct names *ns)
{
	struct names new = { .n = ns->n, .cap = ns->cap ? 2 * ns->cap : 64 };

	new.v = calloc(new.cap, sizeof(*new.v));
	if (new.v == NULL)
		return false;
	for (size_t i = 0; i < ns->cap; i++) {
		if (ns->v[i].text != NULL)
			new.v[slot_of(&new, ns->v[i].kind, ns->v[i].text)] =
			    ns->v[i];
	}
	free(ns->v);
	*ns = new;
	return true;
}

const struct name *
names_put(struct names *ns, uint32_t kind, const char *text, int64_t id)
{
	struct name *n;

	if (2 * (ns->n + 1) > ns->cap && !names_grow(ns))
		return NULL;
	n = &ns->v[slot_of(ns, kind, text)];
	if (n->text != NULL)
		return n;
	n->text = strdup(text);
	if (n->text == NULL)
		return NULL;
	n->kind = kind;
	n->id = id;
	ns->n++;
	return n;
}
