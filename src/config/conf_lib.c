/* conf_lib.c - what the setters of tiers.conf's options share. */
#include <stdlib.h>
#include <string.h>

#include "config/conf.h"

#define NEAR_MAX 3u	/* edits between a name and what was meant */

void
conf_expected(struct conf_ctx *x, const struct node *v, const char *what)
{
	char found[NODE_TEXT_MAX];

	diag_error(x->diags, v->pos, "found %s, expected %s",
	    node_describe(v, found), what);
}

bool
conf_list(struct conf_ctx *x, const struct node *v, const char *what)
{
	if (v->kind == N_LIST && v->tail == NULL)
		return true;
	conf_expected(x, v, what);
	return false;
}

size_t
conf_name(struct conf_ctx *x, const struct node *atom, const char *kind,
    const char *const *names, size_t n)
{
	unsigned d, best = NEAR_MAX + 1;
	size_t i, near = 0;

	for (i = 0; i < n; i++) {
		d = kp_name_distance(atom->text, names[i], NEAR_MAX);
		if (d == 0)
			return i;
		/* A short name is not near what shares no letter with it. */
		if (d < best && d < strlen(names[i])) {
			best = d;
			near = i;
		}
	}
	if (best <= NEAR_MAX)
		diag_error(x->diags, atom->pos, "unknown %s '%s' (did you "
		    "mean '%s'?)", kind, atom->text, names[near]);
	else
		diag_error(x->diags, atom->pos, "unknown %s '%s'", kind,
		    atom->text);
	return n;
}

char *
conf_string(struct conf_ctx *x, const struct node *v, const char *what)
{
	char *s;

	/* "" and [] are one term */
	if (v->kind != N_STR && v->kind != N_BIN && !node_is_nil(v)) {
		conf_expected(x, v, what);
		return NULL;
	}
	if (node_has_nul(v)) {
		diag_error(x->diags, v->pos, "a text with a NUL character is "
		    "of no use here");
		return NULL;
	}
	s = node_string(v);
	x->nomem |= s == NULL;
	return s;
}

void *
conf_grow(struct conf_ctx *x, void *vec, size_t *n, size_t *room, size_t size)
{
	void *p = vec;

	if (*n == *room) {
		*room = *room > 0 ? *room * 2 : 8;
		p = realloc(vec, *room * size);
		if (p == NULL) {
			*room = *n;
			x->nomem = true;
			return NULL;
		}
	}
	memset((char *)p + *n * size, 0, size);
	return p;
}
