/* guard_fn.c - the functions and operators of match specs. */
#include <string.h>

#include "config/lang.h"

/*
 * The guard functions of match specs since OTP 25: is_bitstring, is_function/2,
 * is_record, ceil, floor, min and max came later or never; is_boolean and
 * tuple_size are made of others (spec/spec_expr.c).
 */
static const struct guard_fn guard_fns[] = {
#define FN(name, arity, value) { name, arity, GUARD_PLAIN, VALUE_##value }
	FN("abs", 1, NUMBER), FN("binary_part", 3, BINARY),
	FN("bit_size", 1, SIZE), FN("byte_size", 1, SIZE),
	FN("element", 2, ANY), FN("float", 1, FLOAT), FN("hd", 1, ANY),
	FN("is_atom", 1, ATOM), FN("is_binary", 1, ATOM),
	{ "is_boolean", 1, GUARD_IS_BOOLEAN, VALUE_ATOM },
	FN("is_float", 1, ATOM), FN("is_function", 1, ATOM),
	FN("is_integer", 1, ATOM), FN("is_list", 1, ATOM),
	FN("is_map", 1, ATOM), FN("is_map_key", 2, ATOM),
	FN("is_number", 1, ATOM), FN("is_pid", 1, ATOM),
	FN("is_port", 1, ATOM), FN("is_reference", 1, ATOM),
	FN("is_tuple", 1, ATOM), FN("length", 1, SIZE),
	FN("map_get", 2, ANY), FN("map_size", 1, SIZE), FN("node", 0, ATOM),
	FN("node", 1, ATOM), FN("round", 1, INT), FN("self", 0, PID),
	FN("size", 1, SIZE), FN("tl", 1, ANY), FN("trunc", 1, INT),
	{ "tuple_size", 1, GUARD_TUPLE_SIZE, VALUE_SIZE },
#undef FN
};
#define GUARD_FNS (sizeof(guard_fns) / sizeof(guard_fns[0]))

const struct guard_fn *
guard_fn_find(const char *name, unsigned arity)
{
	for (size_t i = 0; i < GUARD_FNS; i++) {
		if (guard_fns[i].arity == arity &&
		    strcmp(guard_fns[i].name, name) == 0)
			return &guard_fns[i];
	}
	return NULL;
}

static enum value_kind
operator_value(const char *op)
{
	static const struct {
		const char *op;
		enum value_kind value;
	} ops[] = {
		/* the value of these is that of their last part */
		{ "andalso", VALUE_ANY }, { "orelse", VALUE_ANY },
		{ "+", VALUE_NUMBER }, { "-", VALUE_NUMBER },
		{ "*", VALUE_NUMBER }, { "/", VALUE_FLOAT },
		{ "div", VALUE_INT }, { "rem", VALUE_INT },
		{ "band", VALUE_INT }, { "bor", VALUE_INT },
		{ "bxor", VALUE_INT }, { "bsl", VALUE_INT },
		{ "bsr", VALUE_INT }, { "bnot", VALUE_INT } };

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (strcmp(ops[i].op, op) == 0)
			return ops[i].value;
	}
	return VALUE_ATOM;	/* comparisons, and, or, xor, not */
}

enum value_kind
value_kind_of(const struct node *x)
{
	const struct guard_fn *fn;

	if (x->kind == N_OP)
		return operator_value(x->text);
	fn = x->kind == N_CALL && x->mod == NULL ?
	    guard_fn_find(x->text, x->n) : NULL;
	return fn != NULL ? fn->value : VALUE_ANY;
}
