/*
 * spec_shape.c - what the arguments of a call are, as an expression of match
 * specs: for kprofd -check -explain.
 *
 * A trace message copies what is in it, so this has nothing of an argument but
 * tests and sizes, an atom that is a record's or a struct's name, and, only if
 * values are wanted, what a test has shown to be small.  No list is walked and
 * no map enumerated (match specs cannot do that): of a map the number of keys is
 * shown, and which of some keys it has.
 *
 * The value of a test becomes a number by {map_get, Test, {const, #{true => N,
 * false => 0}}}.  'andalso' has the value of its last part, and evaluates that
 * only where the others are true: so no expression fails, and those of a map's
 * keys cost nothing for other terms.
 */
#include <string.h>

#include "config/spec.h"
#include "kprofd/fn_name.h"
#include "kprofd/term.h"

#define VALUE_TEXT_MAX 300u	/* bytes: a binary with every byte escaped */

/* ---- keys ---- */

static bool
is_same(const struct node *a, const struct node *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == N_INT)
		return a->num == b->num;
	return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

static void
key_add(struct shape_keys *keys, const struct node *key, unsigned max)
{
	if (keys->n >= max || (key->kind != N_INT && key->kind != N_ATOM &&
	    key->kind != N_BIN) || node_is_atom(key, SHAPE_STRUCT))
		return;
	for (unsigned i = 0; i < keys->n; i++)
		if (is_same(keys->v[i], key))
			return;
	keys->v[keys->n++] = key;
}

static void
keys_walk(struct shape_keys *keys, const struct node *x)
{
	for (uint32_t i = 0; i < x->n; i++) {
		if (x->kind == N_MAP && i % 2 == 0)
			key_add(keys, x->kid[i], SHAPE_FILE_KEYS);
		else
			keys_walk(keys, x->kid[i]);
	}
	if (x->tail != NULL)
		keys_walk(keys, x->tail);
}

#define KEY(name) { .kind = N_ATOM, .text = (name), .len = sizeof(name) - 1 }

void
shape_keys(struct shape_keys *keys, const struct kp_conf *c)
{
	/* What web servers, and messages that are maps, have: see kprofd(8). */
	static const struct node usual[] = { KEY("method"), KEY("path"),
		KEY("host"), KEY("port"), KEY("scheme"), KEY("qs"),
		KEY("version"), KEY("headers"), KEY("peer"),
		KEY("request_path"), KEY("path_info"), KEY("query_string"),
		KEY("params"), KEY("remote_ip"), KEY("type"), KEY("action"),
		KEY("event"), KEY("command"), KEY("name"), KEY("id") };
	const struct node *fun;

	_Static_assert(sizeof(usual) / sizeof(usual[0]) + SHAPE_FILE_KEYS <=
	    SHAPE_KEYS_MAX, "there is room for all of them");
	keys->n = 0;
	for (int label = 0; label < 2 && c->funs != NULL; label++) {
		fun = label ? c->funs->label : c->funs->identity;
		for (uint32_t i = 0; fun != NULL && i < fun->n; i++)
			keys_walk(keys, fun->kid[i]->kid[0]);
	}
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		key_add(keys, &usual[i], SHAPE_KEYS_MAX);
}

/* ---- expressions ---- */

/* {{...n parts...}}: a tuple of their values. */
static void
tuple_put(struct kp_buf *b, uint32_t n)
{
	kp_etf_tuple(b, 1);
	kp_etf_tuple(b, n);
}

/* The second argument of map_get: ~0 for true. */
#define NUMBERS "{const,#{true,~0,false,0}}"

static void
type_put(struct kp_buf *b, const struct path *at)
{
	static const struct {
		const char *test;
		enum shape_type type;
	} types[] = { { "is_atom", SHAPE_ATOM }, { "is_integer", SHAPE_INTEGER },
		{ "is_float", SHAPE_FLOAT }, { "is_binary", SHAPE_BINARY },
		{ "is_tuple", SHAPE_TUPLE }, { "is_map", SHAPE_MAP },
		{ "is_pid", SHAPE_PID }, { "is_port", SHAPE_PORT },
		{ "is_reference", SHAPE_REFERENCE },
		{ "is_function", SHAPE_FUNCTION }, { "is_list", SHAPE_LIST } };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		call(b, "+", 2);
		call(b, "map_get", 2);
		test_put(b, types[i].test, at);
		terms_put(b, NUMBERS, NULL, INTS(types[i].type));
	}
	terms_put(b, "{map_get,{=:=,~p,[]}," NUMBERS "}", at,
	    INTS(SHAPE_NIL - SHAPE_LIST));
}

/* Is X small?  No list, and no number past 64 bits. */
static void
small_put(struct kp_buf *b, const struct path *at)
{
	terms_put(b, "{orelse,{is_atom,~p},{is_float,~p},"
	    "{andalso,{is_integer,~p},{<,~p,~0},{>,~p,~1}},"
	    "{andalso,{is_binary,~p},{=<,{byte_size,~p},~2}}}", at,
	    INTS(INT64_MAX, -INT64_MAX, SHAPE_BYTES_MAX));
}

static void
leaf_put(struct kp_buf *b, const struct path *at, bool values)
{
	tuple_put(b, 4);
	type_put(b, at);
	terms_put(b, "{andalso,{is_tuple,~p},{size,~p}},"
	    "{andalso,{is_map,~p},{map_size,~p}}", at, NULL);
	if (!values) {
		kp_etf_bool(b, false);
		return;
	}
	call(b, "andalso", 2);
	small_put(b, at);
	terms_put(b, "{{~p}}", at, NULL);
}

/* Two tests, of an element that a tuple has.  An 'andalso' is around them. */
static void
has_element_put(struct kp_buf *b, const struct path *at, unsigned i)
{
	terms_put(b, "{is_tuple,~p},{>=,{size,~p},~0}", at, INTS(i));
}

static void
tag_put(struct kp_buf *b, const struct path *at)
{
	call(b, "andalso", 4);
	has_element_put(b, at, 1);
	terms_put(b, "{is_atom,{element,1,~p}},{element,1,~p}", at, NULL);
}

static void
elements_put(struct kp_buf *b, const struct path *at, bool values)
{
	struct path x = { .kind = PATH_ELEMENT, .of = at };

	call(b, "andalso", 2);
	test_put(b, "is_tuple", at);
	tuple_put(b, SHAPE_ELEMENTS);
	for (x.n = 1; x.n <= SHAPE_ELEMENTS; x.n++) {
		call(b, "andalso", 3);
		has_element_put(b, at, x.n);
		leaf_put(b, &x, values);
	}
}

static void
head_put(struct kp_buf *b, const struct path *at, bool values)
{
	const struct path hd = { .kind = PATH_HD, .of = at };

	call(b, "andalso", 3);
	terms_put(b, "{is_list,~p},{=/=,~p,[]}", at, NULL);
	leaf_put(b, &hd, values);
}

static void
struct_put(struct kp_buf *b, const struct path *at)
{
	terms_put(b, "{andalso,{is_map,~p},{is_map_key,{const," SHAPE_STRUCT
	    "},~p},{is_atom,{map_get," SHAPE_STRUCT ",~p}},{map_get,"
	    SHAPE_STRUCT ",~p}}", at, NULL);
}

static void
keys_put(struct kp_buf *b, const struct path *at, const struct shape_keys *keys,
    bool values)
{
	struct path x = { .kind = PATH_GET, .of = at };

	call(b, "andalso", 2);
	test_put(b, "is_map", at);
	tuple_put(b, keys->n);
	for (unsigned i = 0; i < keys->n; i++) {
		x.key = keys->v[i];
		call(b, "andalso", 3);
		test_put(b, "is_map", at);
		call(b, "is_map_key", 2);
		call(b, "const", 1);
		raw_put(b, x.key);
		path_put(b, at);
		leaf_put(b, &x, values);
	}
}

void
shape_put(struct kp_buf *b, const struct kp_conf *c, uint32_t arity, bool values)
{
	uint32_t n = arity < SHAPE_ARGS_MAX ? arity : SHAPE_ARGS_MAX;
	struct path x = { .kind = PATH_ARG };
	struct shape_keys keys;

	shape_keys(&keys, c);
	tuple_put(b, n);
	for (x.n = 1; x.n <= n; x.n++) {
		tuple_put(b, 6);
		leaf_put(b, &x, values);
		tag_put(b, &x);
		elements_put(b, &x, values);
		struct_put(b, &x);
		head_put(b, &x, values);
		if (x.n <= SHAPE_MAPS_MAX)
			keys_put(b, &x, &keys, values);
		else
			kp_etf_bool(b, false);
	}
}

/*
 * ---- as text ----
 *
 * The bytes come from a target and are untrusted: what the shape above does not describe is
 * refused.
 */

static bool
is_false(const struct kp_term *r)
{
	struct kp_term at = *r;

	return kp_term_peek(r) == KP_TERM_ATOM &&
	    kp_span_is(kp_term_atom(&at), "false");
}

/* Skips `false`; returns whether it was there. */
static bool
skip_false(struct kp_term *r)
{
	if (!is_false(r))
		return false;
	kp_term_skip(r);
	return true;
}

/* {Type, TupleSize, MapSize, Value} */
struct leaf {
	int64_t type, elements, keys;	/* -1: none */
	bool shown;
	struct kp_term value;		/* shown: is at it */
};

static int64_t
size_read(struct kp_term *r)
{
	return skip_false(r) ? -1 : kp_term_int(r);
}

static void
leaf_read(struct kp_term *r, struct leaf *x)
{
	*x = (struct leaf){ 0 };
	kp_term_tuple_n(r, 4);
	x->type = kp_term_int(r);
	x->elements = size_read(r);
	x->keys = size_read(r);
	x->shown = !skip_false(r);
	if (!x->shown)
		return;
	kp_term_tuple_n(r, 1);
	x->value = *r;
	kp_term_skip(r);
}

static void
rest_text(struct kp_buf *out, int64_t n, const char *what)
{
	kp_buf_printf(out, "... %lld %s%s", (long long)n, what,
	    n == 1 ? "" : "s");
}

static void
tuple_text(struct kp_buf *out, int64_t n)
{
	kp_buf_u8(out, '{');
	if (n > SHAPE_ELEMENTS)
		rest_text(out, n, "element");
	for (int64_t i = 0; i < n && n <= SHAPE_ELEMENTS; i++)
		kp_buf_str(out, i > 0 ? ", _" : "_");
	kp_buf_u8(out, '}');
}

static void
map_text(struct kp_buf *out, int64_t n)
{
	kp_buf_str(out, "#{");
	if (n > 0)
		rest_text(out, n, "key");
	kp_buf_u8(out, '}');
}

static void
leaf_text(struct kp_buf *out, const struct leaf *x)
{
	static const char *const names[] = { [SHAPE_OTHER] = "bitstring",
		[SHAPE_ATOM] = "atom", [SHAPE_INTEGER] = "integer",
		[SHAPE_FLOAT] = "float", [SHAPE_BINARY] = "binary",
		[SHAPE_PID] = "pid", [SHAPE_PORT] = "port",
		[SHAPE_REFERENCE] = "reference", [SHAPE_FUNCTION] = "fun",
		[SHAPE_LIST] = "list", [SHAPE_NIL] = "[]" };
	struct kp_term value = x->value;

	if (x->shown)
		kp_term_print(&value, out, VALUE_TEXT_MAX);
	else if (x->type == SHAPE_TUPLE)
		tuple_text(out, x->elements);
	else if (x->type == SHAPE_MAP)
		map_text(out, x->keys);
	else if (x->type >= 0 && x->type <= SHAPE_NIL &&
	    names[x->type] != NULL)
		kp_buf_str(out, names[x->type]);
	else
		kp_buf_str(out, "term");
}

/* Begins another part of a tuple or map. */
static void
comma(struct kp_buf *out, bool *first)
{
	if (!*first)
		kp_buf_str(out, ", ");
	*first = false;
}

/* Tag, Elements: of a tuple of n.  text: as that is written. */
static void
elements_text(struct kp_buf *out, struct kp_term *r, struct kp_term tag,
    int64_t n)
{
	bool first = true;
	struct leaf x;

	kp_buf_u8(out, '{');
	kp_term_tuple_n(r, SHAPE_ELEMENTS);
	for (int i = 0; i < SHAPE_ELEMENTS; i++) {
		if (skip_false(r))
			continue;
		leaf_read(r, &x);
		comma(out, &first);
		if (i == 0 && !is_false(&tag))
			kp_term_print(&tag, out, KP_ATOM_TEXT_MAX);
		else
			leaf_text(out, &x);
	}
	if (n > SHAPE_ELEMENTS) {
		comma(out, &first);
		rest_text(out, n, "element");
	}
	kp_buf_u8(out, '}');
}

static void
key_text(struct kp_buf *out, const struct node *key)
{
	struct kp_buf b;
	struct kp_term r;

	kp_buf_init(&b, KP_CONF_SIZE_MAX);
	raw_put(&b, key);
	if (b.err == KP_OK) {
		kp_term_begin_raw(&r, b.p, b.len);
		kp_term_print(&r, out, VALUE_TEXT_MAX);
	}
	kp_buf_free(&b);
}

static void
keys_text(struct kp_buf *out, struct kp_term *r, struct kp_term name,
    const struct shape_keys *keys, int64_t n)
{
	int64_t shown = 0;
	bool first = true;
	struct leaf x;

	kp_buf_str(out, "#{");
	if (!is_false(&name)) {
		comma(out, &first);
		kp_buf_str(out, "'" SHAPE_STRUCT "' := ");
		kp_term_print(&name, out, KP_ATOM_TEXT_MAX);
		shown++;
	}
	kp_term_tuple_n(r, keys->n);
	for (unsigned i = 0; i < keys->n && r->err == KP_OK; i++) {
		if (skip_false(r))
			continue;
		leaf_read(r, &x);
		comma(out, &first);
		key_text(out, keys->v[i]);
		kp_buf_str(out, " := ");
		leaf_text(out, &x);
		shown++;
	}
	if (n > shown) {
		comma(out, &first);
		rest_text(out, n, "key");
	}
	kp_buf_u8(out, '}');
}

/* {Leaf, Tag, Elements, Struct, Head, Keys} */
static void
arg_text(struct kp_buf *out, struct kp_term *r, const struct shape_keys *keys)
{
	struct kp_term tag, elements, name, head, fields;
	struct leaf x, first;

	kp_term_tuple_n(r, 6);
	leaf_read(r, &x);
	tag = *r;
	kp_term_skip(r);
	elements = *r;
	kp_term_skip(r);
	name = *r;
	kp_term_skip(r);
	head = *r;
	kp_term_skip(r);
	fields = *r;
	kp_term_skip(r);
	if (r->err != KP_OK)
		return;
	if (x.type == SHAPE_TUPLE && !is_false(&elements)) {
		elements_text(out, &elements, tag, x.elements);
		r->err = elements.err;
	} else if (x.type == SHAPE_MAP && !is_false(&fields)) {
		keys_text(out, &fields, name, keys, x.keys);
		r->err = fields.err;
	} else if (x.type == SHAPE_LIST && !is_false(&head)) {
		leaf_read(&head, &first);
		kp_buf_u8(out, '[');
		leaf_text(out, &first);
		kp_buf_str(out, " | _]");
		r->err = head.err;
	} else {
		leaf_text(out, &x);
	}
}

/* "shop_handler:init(" */
static void
name_text(struct kp_buf *out, const struct kp_mfa *f)
{
	char text[FN_NAME_MAX], *slash;

	fn_name(text, sizeof(text), f->mod, f->fun, f->arity);
	slash = strrchr(text, '/');
	if (slash != NULL)
		*slash = '\0';
	kp_buf_str(out, text);
	kp_buf_u8(out, '(');
}

enum kp_err
kp_shape_text(const struct kp_conf *c, const struct kp_mfa *f,
    const uint8_t *term, size_t n, struct kp_buf *out)
{
	struct shape_keys keys;
	struct kp_term r;
	uint32_t args;

	shape_keys(&keys, c);
	kp_term_begin_raw(&r, term, n);
	args = kp_term_tuple(&r);
	if (r.err == KP_OK && (args > SHAPE_ARGS_MAX || args > f->arity))
		return KP_EFORMAT;
	name_text(out, f);
	for (uint32_t i = 0; i < args && r.err == KP_OK; i++) {
		if (i > 0)
			kp_buf_str(out, ", ");
		arg_text(out, &r, &keys);
	}
	kp_buf_str(out, f->arity > args ? ", ...)" : ")");
	return r.err != KP_OK ? KP_EFORMAT : out->err;
}
