/*
 * flame_tree.c - call trees, in order of time, as rows, folded and for viewers.
 *
 * The number of a parent is less than that of its children, so sums and lists of
 * children are made from the last node to the first.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/sat.h"
#include "base/vec.h"
#include "text/flame_tree.h"
#include "text/json.h"
#include "text/text.h"

#define LABEL_BYTES_MAX (1u << 16)

void
flame_tree_free(struct flame_tree *t)
{
	free(t->v);
	free(t->order);
	map_free(&t->known);
	*t = (struct flame_tree){ .n = 0 };
}

uint32_t
flame_tree_add(struct flame_tree *t, uint32_t parent, uint32_t label)
{
	if (parent != FLAME_NONE && t->v[parent].depth == FLAME_DEPTH_MAX)
		return parent;
	if (vec_room(&t->v, &t->room, t->n, FLAME_NONE) != KP_OK)
		return FLAME_NONE;
	t->v[t->n] = (struct flame_node){ .parent = parent, .label = label,
		.depth = parent == FLAME_NONE ? 0 : t->v[parent].depth + 1 };
	return t->n++;
}

uint32_t
flame_tree_child(struct flame_tree *t, uint32_t parent, uint32_t label)
{
	/* never 0, which the map does not keep */
	uint64_t key = ((uint64_t)(uint32_t)(parent + 1) << 32) + label + 1;
	const uint64_t *known = map_get(&t->known, key);
	uint32_t node;

	if (known != NULL)
		return (uint32_t)*known;
	node = flame_tree_add(t, parent, label);
	return node != FLAME_NONE && map_put(&t->known, key, node) ? node :
	    FLAME_NONE;
}

enum kp_err
flame_tree_sum(struct flame_tree *t)
{
	struct flame_node *node, *parent;
	kp_dur_ns *total;
	uint32_t *first;

	t->order = malloc((t->n + 1) * sizeof(*t->order));
	if (t->order == NULL)
		return KP_ENOMEM;
	t->root = FLAME_NONE;
	for (uint32_t i = 0; i < t->n; i++) {
		t->v[i].total = t->v[i].self;
		t->v[i].child = FLAME_NONE;
	}
	for (uint32_t i = t->n; i-- > 0;) {
		node = &t->v[i];
		parent = node->parent != FLAME_NONE ? &t->v[node->parent] : NULL;
		total = parent != NULL ? &parent->total : &t->total;
		first = parent != NULL ? &parent->child : &t->root;
		*total = sat_add(*total, node->total);
		node->next = *first;
		*first = i;
	}
	return KP_OK;
}

static int
node_order(const void *a, const void *b, void *ctx)
{
	const uint32_t *x = a, *y = b;
	const struct flame_node *v = ctx;
	kp_dur_ns p = v[*x].total, q = v[*y].total;

	return p != q ? (p < q) - (p > q) : (*x > *y) - (*x < *y);
}

uint32_t
flame_tree_first(struct flame_tree *t, uint32_t parent)
{
	uint32_t *first = parent != FLAME_NONE ? &t->v[parent].child : &t->root;
	uint32_t *link = first, n = 0;

	for (uint32_t i = *first; i != FLAME_NONE; i = t->v[i].next)
		t->order[n++] = i;
	qsort_r(t->order, n, sizeof(*t->order), node_order, t->v);
	for (uint32_t i = 0; i < n; i++) {
		*link = t->order[i];
		link = &t->v[*link].next;
	}
	*link = FLAME_NONE;
	return *first;
}

/* ---- rows ---- */

/* The next one in depth-first order that is not below this one. */
static uint32_t
node_after(const struct flame_tree *t, uint32_t i)
{
	while (i != FLAME_NONE && t->v[i].next == FLAME_NONE)
		i = t->v[i].parent;
	return i != FLAME_NONE ? t->v[i].next : FLAME_NONE;
}

static bool
is_full(const struct flame_rows *r, size_t n)
{
	return r->rows > 0 && n >= r->rows;
}

void
flame_tree_rows(struct kp_buf *b, struct flame_tree *t,
    const struct flame_rows *r)
{
	double least = r->least * (double)t->total;
	uint32_t i = flame_tree_first(t, FLAME_NONE), below;
	uint64_t hidden = 0;
	size_t rows = 0, from;
	char n[TEXT_MAX];
	bool is_empty;

	while (i != FLAME_NONE && !is_full(r, rows) && b->err == KP_OK) {
		/* of a root without a call there is nothing to show */
		is_empty = t->v[i].depth == 0 && t->v[i].child == FLAME_NONE;
		if (is_empty || (double)t->v[i].total < least) {
			hidden += !is_empty;
			i = node_after(t, i);
			continue;
		}
		from = b->len;
		r->put(b, r->ctx, i);
		if (r->width > 0 && b->err == KP_OK)
			b->len = from + text_fit(kp_buf_cstr(b) + from,
			    r->width);
		kp_buf_u8(b, '\n');
		rows++;
		below = flame_tree_first(t, i);
		i = below != FLAME_NONE ? below : node_after(t, i);
	}
	if (is_full(r, rows))
		kp_buf_printf(b, "%s rows shown (-n)\n", text_count(n, rows));
	else if (hidden > 0)
		kp_buf_printf(b, "%s more with less than %.2g %% of the time "
		    "(-least)\n", text_count(n, hidden), 100 * r->least);
}

/* ---- slices ---- */

uint32_t
flame_tree_way(const struct flame_tree *t, uint32_t node,
    uint32_t way[FLAME_DEPTH_MAX + 1])
{
	uint32_t n = 0;

	for (; node != FLAME_NONE; node = t->v[node].parent)
		way[n++] = node;
	return n;
}

static uint32_t
root_of(const struct flame_tree *t, uint32_t node)
{
	while (t->v[node].parent != FLAME_NONE)
		node = t->v[node].parent;
	return node;
}

void
flame_slice_put(const struct flame_tree *t, struct flame_slice *v, size_t *n,
    uint32_t node, kp_dur_ns time)
{
	const struct flame_slice *last = *n > 0 ? &v[*n - 1] : NULL;
	bool follows = last != NULL && root_of(t, last->node) ==
	    root_of(t, node);

	v[*n] = (struct flame_slice){ node, follows ? sat_add(last->at,
	    last->time) : 0, time, 0 };
	(*n)++;
}

void
flame_tree_folded(struct kp_buf *b, const struct flame_tree *t,
    const struct flame_labels *l, const struct flame_slice *v, size_t n,
    bool differs)
{
	uint32_t way[FLAME_DEPTH_MAX + 1], depth;
	struct kp_buf label;
	kp_dur_ns time, before;
	size_t from;

	kp_buf_init(&label, LABEL_BYTES_MAX);
	for (size_t i = 0, next; i < n && b->err == KP_OK; i = next) {
		time = before = 0;
		for (next = i; next < n && v[next].node == v[i].node; next++) {
			time = sat_add(time, v[next].time);
			before = sat_add(before, v[next].before);
		}
		depth = flame_tree_way(t, v[i].node, way);
		for (uint32_t k = depth; k-- > 0;) {
			kp_buf_reset(&label);
			l->put(&label, l->ctx, t->v[way[k]].label,
			    k == depth - 1);
			from = b->len;
			text_put(b, kp_buf_cstr(&label));
			/*
			 * A semicolon would separate frames.  Blanks may stay: the
			 * number is what follows the last one.
			 */
			for (; b->err == KP_OK && from < b->len; from++)
				if (b->p[from] == ';')
					b->p[from] = ':';
			kp_buf_u8(b, k > 0 ? ';' : ' ');
		}
		if (differs)
			kp_buf_printf(b, "%" PRId64 " ", before / KP_NS_PER_US);
		kp_buf_printf(b, "%" PRId64 "\n", time / KP_NS_PER_US);
	}
	kp_buf_free(&label);
}

/* ---- viewers ---- */

struct viewer {
	struct json j;
	const struct flame_tree *t;
	const struct flame_labels *l;
	enum flame_viewer form;
	struct kp_buf label;
	uint32_t thread;	/* of Chrome's, from 1 */
};

/* Valid until the next one. */
static const char *
label_text(struct viewer *w, uint32_t label, bool is_root)
{
	kp_buf_reset(&w->label);
	w->l->put(&w->label, w->l->ctx, label, is_root);
	return kp_buf_cstr(&w->label);
}

static void
put_chrome_ids(struct viewer *w)
{
	json_uint(&w->j, "pid", 1);
	json_uint(&w->j, "tid", w->thread);
}

/* A box begins or ends. */
static void
put_edge(struct viewer *w, uint32_t node, kp_target_ns at, bool begins)
{
	struct json *j = &w->j;

	json_object(j, NULL);
	if (w->form == FLAME_SPEEDSCOPE) {
		json_string(j, "type", begins ? "O" : "C");
		json_uint(j, "frame", w->t->v[node].label);
		json_int(j, "at", at);
	} else {
		json_string(j, "ph", begins ? "B" : "E");
		if (begins)
			json_string(j, "name", label_text(w, w->t->v[node].label,
			    false));
		put_chrome_ids(w);
		/* in us, exactly */
		json_ms(j, "ts", sat_mul(at, 1000));
	}
	json_end(j);
}

/* The innermost node that both are in. */
static uint32_t
common(const struct flame_tree *t, uint32_t a, uint32_t b)
{
	while (a != b)
		if (t->v[a].depth >= t->v[b].depth)
			a = t->v[a].parent;
		else
			b = t->v[b].parent;
	return a;
}

/* Boxes of n slices of one root, of which what is open at the end of one goes on. */
static void
put_edges(struct viewer *w, const struct flame_slice *v, size_t n)
{
	uint32_t way[FLAME_DEPTH_MAX + 1], root = root_of(w->t, v[0].node);
	uint32_t open = root, stays;
	kp_target_ns at, end = v[0].at;

	for (size_t i = 0; i <= n && w->j.b->err == KP_OK; i++) {
		if (i < n && v[i].time == 0)
			continue;
		at = i < n && v[i].at > end ? v[i].at : end;
		stays = i < n && at == end ? common(w->t, open, v[i].node) : root;
		for (; open != stays; open = w->t->v[open].parent)
			put_edge(w, open, end, false);
		if (i == n)
			break;
		for (uint32_t k = flame_tree_way(w->t, v[i].node, way) -
		     w->t->v[open].depth - 1; k-- > 0;)
			put_edge(w, way[k], at, true);
		open = v[i].node;
		end = sat_add(at, v[i].time);
	}
}

/* n slices of one root */
static void
put_root(struct viewer *w, const struct flame_slice *v, size_t n)
{
	const char *name = label_text(w, w->t->v[root_of(w->t, v[0].node)].label,
	    true);
	struct json *j = &w->j;

	w->thread++;
	json_object(j, NULL);
	if (w->form == FLAME_CHROME) {
		json_string(j, "ph", "M");
		json_string(j, "name", "thread_name");
		put_chrome_ids(w);
		json_object(j, "args");
		json_string(j, "name", name);
		json_end(j);
		json_end(j);
		put_edges(w, v, n);
		return;
	}
	json_string(j, "type", "evented");
	json_string(j, "name", name);
	json_string(j, "unit", "nanoseconds");
	json_int(j, "startValue", v[0].at);
	json_int(j, "endValue", sat_add(v[n - 1].at, v[n - 1].time));
	json_array(j, "events");
	put_edges(w, v, n);
	json_end(j);
	json_end(j);
}

static void
put_frames(struct viewer *w)
{
	const char *file;

	json_object(&w->j, "shared");
	json_array(&w->j, "frames");
	for (uint32_t i = 0; i < w->l->n && w->j.b->err == KP_OK; i++) {
		file = w->l->file != NULL ? w->l->file(w->l->ctx, i) : "";
		json_object(&w->j, NULL);
		json_string(&w->j, "name", label_text(w, i, false));
		if (file[0] != '\0')
			json_string(&w->j, "file", file);
		json_end(&w->j);
	}
	json_end(&w->j);
	json_end(&w->j);
}

void
flame_tree_viewer(struct kp_buf *b, const struct flame_tree *t,
    const struct flame_labels *l, const char *name,
    const struct flame_slice *v, size_t n, enum flame_viewer form)
{
	struct viewer w = { .t = t, .l = l, .form = form };

	kp_buf_init(&w.label, LABEL_BYTES_MAX);
	json_open(&w.j, b);
	if (form == FLAME_SPEEDSCOPE) {
		json_string(&w.j, "$schema", SPEEDSCOPE_SCHEMA);
		json_string(&w.j, "name", name);
		json_string(&w.j, "exporter", "kprof");
		put_frames(&w);
	}
	json_array(&w.j, form == FLAME_CHROME ? "traceEvents" : "profiles");
	for (size_t i = 0, next; i < n && b->err == KP_OK; i = next) {
		uint32_t root = root_of(t, v[i].node);

		for (next = i + 1; next < n &&
		     root_of(t, v[next].node) == root;)
			next++;
		put_root(&w, &v[i], next - i);
	}
	json_end(&w.j);
	if (form == FLAME_CHROME) {
		json_string(&w.j, "displayTimeUnit", "ms");
		json_object(&w.j, "otherData");
		json_string(&w.j, "name", name);
		json_string(&w.j, "exporter", "kprof");
		json_end(&w.j);
	}
	json_close(&w.j);
	kp_buf_free(&w.label);
}
