/* parse_text.c - strings and binaries. */
#include <string.h>

#include "base/utf8.h"
#include "config/parse_state.h"

/* Joins "a" "b", as Erlang does. */
struct node *
parse_string(struct parse *p)
{
	struct node *x = parse_node(p, N_STR, p->t.pos, NULL, NULL);
	uint32_t *cps;

	while (x != NULL && p->t.type == T_STR) {
		if (x->len == 0) {
			x->cps = p->t.cps;
			x->len = p->t.ncps;
		} else if (p->t.ncps > 0) {
			cps = arena_alloc(p->arena,
			    (x->len + p->t.ncps) * sizeof(*cps));
			if (cps == NULL) {
				p->panic = true;
				return NULL;
			}
			memcpy(cps, x->cps, x->len * sizeof(*cps));
			memcpy(cps + x->len, p->t.cps,
			    p->t.ncps * sizeof(*cps));
			x->cps = cps;
			x->len += p->t.ncps;
		}
		parse_advance(p);
	}
	return x;
}

struct bytes {
	char *p;
	size_t n, room;
	bool literal;
};

static void
bytes_put(struct parse *p, struct bytes *b, const char *from, size_t n)
{
	char *to;

	if (n > b->room - b->n) {
		b->room = (b->n + n) * 2;
		to = arena_alloc(p->arena, b->room);
		if (to == NULL) {
			p->panic = true;
			b->room = b->n;
			return;
		}
		if (b->n > 0)
			memcpy(to, b->p, b->n);
		b->p = to;
	}
	memcpy(b->p + b->n, from, n);
	b->n += n;
}

/* The literal value of one segment; utf8: as "..."/utf8 wants it. */
static void
segment_put(struct parse *p, struct bytes *b, const struct node *v, bool utf8)
{
	char c[4];

	if (v->kind == N_INT && v->num >= 0 && v->num <= 255 && !utf8) {
		c[0] = (char)v->num;
		bytes_put(p, b, c, 1);
		return;
	}
	b->literal &= v->kind == N_STR;
	for (size_t i = 0; v->kind == N_STR && i < v->len && !p->panic; i++) {
		if (!utf8 && v->cps[i] > 255) {
			diag_error(p->diags, v->pos, "this text has "
			    "characters that take more than a byte: write "
			    "<<\"...\"/utf8>>");
			p->panic = true;
			return;
		}
		c[0] = (char)v->cps[i];
		bytes_put(p, b, c, utf8 ? utf8_put(c, v->cps[i]) : 1);
	}
}

/* Value[:Size][/type-type] */
static void
parse_segment(struct parse *p, struct bytes *b)
{
	struct node *v = parse_expr(p, 800);
	bool utf8 = false, plain = true;

	if (!p->panic && parse_is(p, ":")) {
		parse_advance(p);
		plain = false;
		parse_expr(p, 800);
	}
	while (!p->panic && (parse_is(p, "/") || parse_is(p, "-"))) {
		parse_advance(p);
		if (p->t.type != T_ATOM) {
			parse_error(p, "a type such as utf8");
			return;
		}
		utf8 |= p->t.len == 4 && memcmp(p->t.text, "utf8", 4) == 0;
		plain &= utf8;
		parse_advance(p);
	}
	b->literal &= plain;
	if (!p->panic && b->literal)
		segment_put(p, b, v, utf8);
}

struct node *
parse_binary(struct parse *p)
{
	struct kp_pos pos = p->t.pos;
	struct bytes b = { .literal = true };
	struct node *x;

	parse_advance(p);
	while (!p->panic && !parse_is(p, ">>")) {
		parse_segment(p, &b);
		if (!parse_is(p, ","))
			break;
		parse_advance(p);
	}
	if (!parse_expect(p, ">>", "',' or '>>'"))
		return NULL;
	x = parse_node(p, b.literal ? N_BIN : N_BINPAT, pos, NULL, NULL);
	if (x != NULL) {
		x->text = b.p != NULL ? b.p : "";
		x->len = b.n;
	}
	return x;
}
