/* stack_roots.c - names what cells of samples stand below, and its shares. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stack_internal.h"

#define UNNAMED "(not named)"
#define Z 1.96			/* of a normal distribution, for 95 % */

const char *
stack_group_name(const struct stack_sum *s, uint32_t group)
{
	const char *name = s->groups[group].name;

	return name != NULL && name[0] != '\0' ? name : UNNAMED;
}

const char *
stack_group_application(const struct stack_sum *s, uint32_t group)
{
	const char *name = s->groups[group].application;

	return name != NULL ? name : "";
}

/*
 * Wilson's interval, with as many samples as would have the same variance if all
 * stood for the same time (that of a ratio, by its first derivatives).
 *
 * Source: E. B. Wilson, Probable Inference, the Law of Succession, and
 * Statistical Inference, 1927.
 */
struct stack_share
stack_share(const struct stack_figure *part, const struct stack_figure *all)
{
	double w = (double)all->time, p, var, n, mid, half;

	if (all->time <= 0)
		return (struct stack_share){ 0, 0, 1 };
	p = (double)part->time / w;
	var = ((1 - 2 * p) * part->squares + p * p * all->squares) / (w * w);
	n = var > 0 ? p * (1 - p) / var : w * w / all->squares;
	n = n > 0 ? n : 1;
	mid = (p + Z * Z / (2 * n)) / (1 + Z * Z / n);
	half = Z / (1 + Z * Z / n) *
	    sqrt(p * (1 - p) / n + Z * Z / (4 * n * n));
	return (struct stack_share){ p, fmax(0, mid - half),
		fmin(1, mid + half) };
}

static char *
root_name(const struct stack_sum *s, const struct stack_cell *c)
{
	const char *app = stack_group_application(s, c->group);
	char *name = NULL;
	int n = 0;

	switch (s->by) {
	case STACK_BY_GROUP:
		n = asprintf(&name, "%s", stack_group_name(s, c->group));
		break;
	case STACK_BY_APPLICATION:
		n = asprintf(&name, "%s", app[0] != '\0' ? app :
		    "(no application)");
		break;
	case STACK_BY_PROCESS:
		n = asprintf(&name, "<0.%" PRIu32 ".%" PRIu32 "> %s",
		    (uint32_t)c->proc, (uint32_t)(c->proc >> 32),
		    stack_group_name(s, c->group));
		break;
	case STACK_BY_NONE:
		n = asprintf(&name, "all processes");
		break;
	}
	return n < 0 ? NULL : name;
}

/* Cells of one key have one root; roots of one name are the same one. */
static uint64_t
root_key(const struct stack_sum *s, const struct stack_cell *c)
{
	if (s->by == STACK_BY_NONE)
		return 1;
	return s->by == STACK_BY_PROCESS ? c->proc + 1 :
	    (uint64_t)c->group + 1;
}

static bool
root_find(const struct stack_roots *r, const char *name, uint64_t *at)
{
	for (*at = 0; *at < r->n; (*at)++)
		if (strcmp(r->names[*at], name) == 0)
			return true;
	return false;
}

static enum kp_err
root_put(struct stack_roots *r, struct map *keys, const struct stack_sum *s,
    size_t i)
{
	uint64_t key = root_key(s, &s->cells[i]), at, *known;
	char *name;

	known = map_get(keys, key);
	if (known != NULL) {
		r->of[i] = *known;
		return KP_OK;
	}
	name = root_name(s, &s->cells[i]);
	if (name == NULL)
		return KP_ENOMEM;
	/* Processes are as many as there are, and differ in their names. */
	if (s->by == STACK_BY_PROCESS || !root_find(r, name, &at)) {
		at = r->n++;
		r->names[at] = name;
	} else {
		free(name);
	}
	r->of[i] = at;
	return map_put(keys, key, at) ? KP_OK : KP_ENOMEM;
}

enum kp_err
stack_roots_make(struct stack_roots *r, const struct stack_sum *s)
{
	struct map keys = { 0 };
	enum kp_err e = KP_OK;

	*r = (struct stack_roots){ .of = calloc(s->ncells + 1, sizeof(*r->of)),
		.names = calloc(s->ncells + 1, sizeof(*r->names)) };
	if (r->of == NULL || r->names == NULL)
		return KP_ENOMEM;
	for (size_t i = 0; i < s->ncells && e == KP_OK; i++)
		e = root_put(r, &keys, s, i);
	map_free(&keys);
	return e;
}

void
stack_roots_free(struct stack_roots *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->names[i]);
	free(r->names);
	free(r->of);
	*r = (struct stack_roots){ 0 };
}
