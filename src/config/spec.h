/*
 * spec.h - the match spec compiler.
 *
 * For one function, a clause of the identity fun becomes a struct gen: the
 * head's argument patterns and the guards that they need, both as external
 * terms, and a path to the value of each variable.
 */
#ifndef KPROFD_CONFIG_SPEC_H
#define KPROFD_CONFIG_SPEC_H

#include "config/lang.h"
#include "kprofd/etf.h"

enum path_kind {
	PATH_ARG,	/* the match variable '$n' */
	PATH_ARGS,	/* the list ['$n', ..., '$last'] of whole arguments */
	PATH_ATOM,	/* a constant: the function's module or name */
	PATH_HD,
	PATH_TL,
	PATH_ELEMENT,	/* n of a tuple */
	PATH_GET,	/* key of a map */
	PATH_EXPR	/* the value of a call or an operator */
};

struct gen;
struct path {
	enum path_kind kind;
	unsigned n, last;
	const struct path *of;
	const struct node *key;	/* or the expression */
	const struct gen *gen;	/* has the variables of the expression */
	const char *atom;
};

struct gen {
	const struct kp_mfa *f;
	struct kp_buf head;	/* f->arity patterns */
	struct kp_buf guards;	/* nguards tests */
	unsigned nguards;
	bool whole;		/* the head has the arguments as '$1', '$2' ..., and
				   guards match them: `head` stays empty */
	bool selective;		/* head and guards do not match every call */
	unsigned nvars;		/* match variables in use: 1..arity are args */
	struct {
		const char *name;
		const struct path *at;
	} var[SPEC_VARS_MAX];
	unsigned nvar;
	struct arena arena;	/* paths */
};

/* {Name, ...arity terms...}: these follow. */
static inline void
call(struct kp_buf *b, const char *name, uint32_t arity)
{
	kp_etf_tuple(b, arity + 1);
	kp_etf_atom(b, name);
}

/* ---- spec_head.c ---- */

/* Compiles the pattern; false: it never matches this function. */
bool gen_pattern(struct gen *g, const struct node *pattern);

/* ---- spec_expr.c ---- */

/*
 * Writes terms as Erlang writes them, but without blanks and quotes, and with commas
 * in the place of =>: "{andalso,{is_map,~p},{<,{map_size,~p},~0}},[],#{true,1}".
 * ~p is the value of the path, ~0 to ~9 are the integers n.
 */
void terms_put(struct kp_buf *b, const char *terms, const struct path *at,
    const int64_t *n);
#define INTS(...) ((const int64_t[]){ __VA_ARGS__ })

/* Writes a literal as it stands: in heads, map keys and {const, _}. */
void raw_put(struct kp_buf *b, const struct node *x);
/* Does it have an atom with a special meaning in match specs? */
bool raw_is_special(const struct node *x);
void path_put(struct kp_buf *b, const struct path *at);
/* {Test, Value} */
void test_put(struct kp_buf *b, const char *test, const struct path *at);
/* The path to a variable's value; NULL: the pattern does not bind it. */
const struct path *gen_find(const struct gen *g, const char *name);
/* A guard test or a body. */
void expr_put(struct kp_buf *b, const struct gen *g, const struct node *x);
/* The match variable '$n'. */
void var_put(struct kp_buf *b, unsigned n);

/*
 * Writes the guards that bound every variable of an identity, given the
 * guards the user wrote (NULL: none); returns how many.  trace: the body is a
 * traceparent.
 */
unsigned bounds_put(struct kp_buf *b, const struct gen *g,
    const struct node *body, const struct node *guard, bool trace);

/*
 * ---- spec_shape.c: what arguments are, and that as text ----
 *
 * The shape of a call is a tuple of its first SHAPE_ARGS_MAX arguments, each
 *   {Leaf, Tag, Elements, Struct, Head, Keys}
 * Leaf is {Type, TupleSize, MapSize, Value}: Type is a sum of enum shape_type,
 * Value is {X} for a small X, if values are wanted.  Tag is the first element
 * of a tuple, and Struct a struct's name, if these are atoms.  Elements is a
 * tuple of the leaves of a tuple's first elements, Head the leaf of a list's;
 * Keys is a tuple of the leaves of a map's values, by shape_keys().  A part that
 * an argument does not have is false.
 */
#define SHAPE_ARGS_MAX 8	/* arguments that are shown, */
#define SHAPE_MAPS_MAX 4	/* of these, those whose keys are */
#define SHAPE_ELEMENTS 5	/* of a tuple */
#define SHAPE_FILE_KEYS 16	/* keys that the file names */
#define SHAPE_KEYS_MAX (SHAPE_FILE_KEYS + 24)
#define SHAPE_BYTES_MAX 40	/* of a binary that is shown */
#define SHAPE_STRUCT "__struct__"

enum shape_type {
	SHAPE_OTHER,	/* a bit string */
	SHAPE_ATOM,
	SHAPE_INTEGER,
	SHAPE_FLOAT,
	SHAPE_BINARY,
	SHAPE_TUPLE,
	SHAPE_MAP,
	SHAPE_PID,
	SHAPE_PORT,
	SHAPE_REFERENCE,
	SHAPE_FUNCTION,
	SHAPE_LIST,
	SHAPE_NIL = SHAPE_LIST + 1	/* a list, and 1 for being [] */
};

struct shape_keys {
	const struct node *v[SHAPE_KEYS_MAX];
	unsigned n;
};

/* The keys of maps that are looked for: those of the file, and usual ones. */
void shape_keys(struct shape_keys *keys, const struct kp_conf *c);
/* Writes what '$1', '$2' ... are; values: small ones as they are. */
void shape_put(struct kp_buf *b, const struct kp_conf *c, uint32_t arity,
    bool values);

/*
 * ---- spec_label.c: labels, and tests of tokens ----
 *
 * Each writes one expression.  None of these fails, whatever token a process
 * carries.
 */

#define HASH_BITS 24

/* Removes the token of the process; true. */
void clear_put(struct kp_buf *b);
/* Moves the trace control word on by one, unless another call is about to. */
void step_put(struct kp_buf *b);
/* Gives the process a token with a new label; true.  It may have none before. */
void label_put(struct kp_buf *b, uint64_t constant);
/* HASH_BITS bits of the trace control word, for sampling. */
void hash_put(struct kp_buf *b);

/* Does the process have a token of ours, and do `more` tests that follow hold? */
void carries_ours_put(struct kp_buf *b, uint32_t more);
/* The same of a token of a kprofd, and not of kprof trace. */
void carries_kprofds_put(struct kp_buf *b, uint32_t more);
/* Does it have a token of ours, or none? */
void carries_no_others_put(struct kp_buf *b);
/*
 * Is the token that it has a kprofd's and young?  Removes one that is too old;
 * with `gives` such a process, and one without a token, gets one of no request.
 */
void live_put(struct kp_buf *b, bool gives);

#endif
