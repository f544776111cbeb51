/*
 * cells.c - a cell for each combination of type, duration, path, state and stack.
 *
 * All texts of a window are in one piece of memory; each path and each stack is
 * there once.
 */
#include <math.h>
#include <stdlib.h>

#include "base/sat.h"
#include "base/vec.h"
#include "stacks/cells.h"

#define Z 1.96			/* of a normal distribution, for 95 % */

void
stack_cells_free(struct stack_cells *c)
{
	intern_free(&c->at);
	intern_free(&c->by_path);
	free(c->v);
	free(c->paths);
	*c = (struct stack_cells){ .n = 0 };
}

uint32_t
stack_cells_path(struct stack_cells *c, const char *path)
{
	const struct interned *at;
	size_t n = strlen(path) + 1;

	at = intern_get(&c->by_path, path, n);
	if (at != NULL)
		return at->val;
	if (vec_room(&c->paths, &c->paths_room, c->npaths, STACK_PATHS_MAX) !=
	    KP_OK || (at = intern_put(&c->by_path, path, n, c->npaths + 1)) ==
	    NULL)
		return STACK_PATH_OTHER;
	c->paths[c->npaths++] = (const char *)at->key;
	return c->npaths;
}

static struct stack_cell *
find(const struct stack_cells *c, const struct stack_cell_key *key)
{
	const struct interned *at = intern_get(&c->at, key, sizeof(*key));

	return at != NULL ? &c->v[at->val] : NULL;
}

static struct stack_cell *
add(struct stack_cells *c, const struct stack_cell_key *key)
{
	if (vec_room(&c->v, &c->room, c->n, VEC_NO_CAP) != KP_OK ||
	    intern_put(&c->at, key, sizeof(*key), c->n) == NULL)
		return NULL;
	c->v[c->n] = (struct stack_cell){ .key = *key };
	return &c->v[c->n++];
}

static struct stack_cell *
find_or_add(struct stack_cells *c, struct stack_cell_key *key)
{
	struct stack_cell *cell = find(c, key);

	if (cell != NULL)
		return cell;
	if (c->n >= STACK_CELLS_MAX) {
		key->stack = KP_STACK_OTHER;
		cell = find(c, key);
	}
	if (cell == NULL && c->n >= STACK_CELLS_MAX + STACK_CELLS_OTHER) {
		key->identity = KP_IDENT_OTHER;
		key->path = STACK_PATH_OTHER;
		key->octave = 0;
		cell = find(c, key);
	}
	return cell != NULL ? cell : add(c, key);
}

bool
stack_cells_add(struct stack_cells *c, struct stack_cell_key key,
    kp_dur_ns time, uint32_t weight)
{
	struct stack_cell *cell = find_or_add(c, &key);

	if (cell == NULL)
		return false;
	c->other += key.stack == KP_STACK_OTHER;
	cell->samples++;
	cell->time = sat_add(cell->time, time);
	cell->w_time = sat_add(cell->w_time, sat_mul(time, weight));
	return true;
}

/* ---- into a window ---- */

/* The texts of a window, and where in them each path and stack begins. */
struct texts {
	struct kp_buf b;
	size_t *paths, *stacks;	/* plus one; 0: not there yet */
};

/* The buffer may move: only when all texts are there they have addresses. */
static enum kp_err
put_texts(struct texts *x, const struct stack_cells *c,
    const struct kp_stack_table *t)
{
	const struct stack_cell_key *key;

	for (uint32_t i = 0; i < c->n; i++) {
		key = &c->v[i].key;
		if (x->paths[key->path] == 0) {
			x->paths[key->path] = x->b.len + 1;
			kp_buf_str(&x->b, key->path == STACK_PATH_OTHER ?
			    "_other" : c->paths[key->path - 1]);
			kp_buf_u8(&x->b, '\0');
		}
		if (x->stacks[key->stack] == 0) {
			x->stacks[key->stack] = x->b.len + 1;
			kp_stack_text(t, key->stack, &x->b);
			kp_buf_u8(&x->b, '\0');
		}
	}
	return x->b.err;
}

static void
fill(struct kp_window *w, const struct stack_cells *c, struct texts *x,
    const struct kp_requests *rs)
{
	const struct stack_cell *from;

	w->stack_texts = (char *)x->b.p;
	for (uint32_t i = 0; i < c->n; i++) {
		from = &c->v[i];
		w->stacks[i] = (struct kp_stack_cell){
			.identity = kp_requests_identity(rs,
			    from->key.identity),
			.path = w->stack_texts + x->paths[from->key.path] - 1,
			.frames = w->stack_texts +
			    x->stacks[from->key.stack] - 1,
			.state = (uint8_t)from->key.state,
			.octave = (uint8_t)from->key.octave,
			.samples = from->samples,
			.time = from->time, .w_time = from->w_time,
		};
	}
	w->nstacks = c->n;
}

enum kp_err
stack_cells_copy(const struct stack_cells *c, const struct kp_stack_table *t,
    const struct kp_requests *rs, struct kp_window *w)
{
	struct texts x = { .paths = NULL };
	enum kp_err err = KP_ENOMEM;

	if (c->n == 0)
		return KP_OK;
	/* the caps of the tables bound it */
	kp_buf_init(&x.b, SIZE_MAX / 2);
	x.paths = calloc(c->npaths + 1, sizeof(*x.paths));
	x.stacks = calloc(kp_stack_table_stacks(t), sizeof(*x.stacks));
	w->stacks = calloc(c->n, sizeof(*w->stacks));
	if (x.paths != NULL && x.stacks != NULL && w->stacks != NULL &&
	    (err = put_texts(&x, c, t)) == KP_OK) {
		fill(w, c, &x, rs);
	} else {
		free(w->stacks);
		w->stacks = NULL;
		kp_buf_free(&x.b);
	}
	free(x.paths);
	free(x.stacks);
	return err;
}

/* ---- shares of samples ---- */

void
kp_stack_interval(double p, double n, double *low, double *high)
{
	double middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n);
	double half = Z / (1 + Z * Z / n) *
	    sqrt(p * (1 - p) / n + Z * Z / (4 * n * n));

	*low = middle - half > 0 ? middle - half : 0;
	*high = middle + half < 1 ? middle + half : 1;
}
