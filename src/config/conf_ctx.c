/* conf_ctx.c - what the setters of tiers.conf's options share. */
#include <stdlib.h>
#include <string.h>

#include "base/near_names.h"
#include "config/conf_ctx.h"

void
conf_expected(struct conf_ctx *x, const struct node *v, const char *what)
{
	node_expected(x->diags, v, what);
}

bool
conf_list(struct conf_ctx *x, const struct node *v, const char *what)
{
	if (v->kind == N_LIST && v->tail == NULL)
		return true;
	conf_expected(x, v, what);
	return false;
}

void
conf_each(struct conf_ctx *x, const struct node *list, const char *name,
    uint32_t max, void (*add)(struct conf_ctx *x, const struct node *v))
{
	for (uint32_t i = 0; i < list->n; i++) {
		if (i == max) {
			diag_error(x->diags, list->kid[i]->pos, "found %s %u, "
			    "expected at most %u", name, i + 1, max);
			return;
		}
		add(x, list->kid[i]);
	}
}

size_t
conf_name(struct conf_ctx *x, const struct node *atom, const char *kind,
    const char *const *names, size_t n)
{
	const char *near;

	for (size_t i = 0; i < n; i++)
		if (strcmp(atom->text, names[i]) == 0)
			return i;
	/* kept: a short name with no letter in common is not near. */
	near = near_name(atom->text, names, n, sizeof(*names),
	    (struct near_rule){ .edits = 3, .kept = 1 });
	if (near != NULL)
		diag_error(x->diags, atom->pos, "unknown %s '%s' (did you "
		    "mean '%s'?)", kind, atom->text, near);
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

bool
conf_has_room(struct conf_ctx *x, enum kp_err room)
{
	x->nomem |= room != KP_OK;
	return room == KP_OK;
}
