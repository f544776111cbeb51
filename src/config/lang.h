/*
 * lang.h - the subset of Erlang that tiers.conf is written in; private to
 * src/config, and to src/conn/tls_optfile.c, which reads another file of terms.
 *
 * text -> (scan.c) tokens -> (parse.c) nodes -> (conf.c, ident.c) struct
 * kp_conf -> (spec*.c) match specs.  Tokens and nodes live in one arena and
 * are freed with it.  Nodes are a tree no deeper than NODE_DEPTH_MAX, so
 * it is safe to walk them by recursion.
 */
#ifndef KPROFD_CONFIG_LANG_H
#define KPROFD_CONFIG_LANG_H

#include "kprofd/config.h"

#define NODE_DEPTH_MAX 64	/* bounds every recursion over a tree */
#define NODE_NEST_MAX 256	/* open brackets that recovery keeps track of */
#define ATOM_BYTES_MAX 255	/* of an atom in its short external form */
#define IDENT_CLAUSES_MAX 500	/* of the identity fun */
#define IDENT_GUARDS_MAX 64	/* alternatives of one clause */
#define IDENT_TUPLE_MAX 16	/* elements of one tuple of an identity */
#define IDENT_PARTS_MAX 64	/* atoms, variables ... of an identity */
#define SPEC_VARS_MAX 64	/* variables of one clause */

/* --- memory: freed all at once --- */

struct chunk;
struct arena {
	struct chunk *head;
	bool failed;	/* an allocation failed; sticks */
};

/* Zeroed, aligned for anything; NULL when out of memory. */
void *arena_alloc(struct arena *a, size_t n);
void arena_free(struct arena *a);
/* Overwrites what is in it, which had a secret, before arena_free(). */
void arena_wipe(struct arena *a);

/* --- errors --- */

#define diag_error(d, pos, ...) kp_diags_add(d, pos, false, __VA_ARGS__)
#define diag_warn(d, pos, ...) kp_diags_add(d, pos, true, __VA_ARGS__)
/* Sorts by place, and keeps one of several at one place. */
void diag_sort(struct kp_diags *d);

/* --- tokens --- */

enum tok {
	T_EOF,
	T_DOT,	/* a full stop: '.' and then white space or the end */
	T_ATOM,
	T_VAR,
	T_INT,
	T_FLOAT,
	T_STR,
	T_SYM,	/* punctuation and reserved words */
	T_BAD	/* reported by the scanner already */
};

struct token {
	enum tok type;
	struct kp_pos pos;
	const char *src;	/* as written, for messages */
	size_t srclen;
	const char *text;	/* atom, variable: UTF-8; symbol: static */
	size_t len;
	uint32_t *cps;		/* string: code points */
	size_t ncps;
	int64_t num;
	double real;
};

struct scan {
	const char *src;
	size_t n, off;
	struct kp_pos pos;
	unsigned unclosed;	/* quotes without an end, so far */
	struct kp_pos map;	/* of a comment that looks like a map; line 0: none */
	struct arena *arena;
	struct kp_diags *diags;
};

void scan_init(struct scan *s, const char *src, size_t n, struct arena *a,
    struct kp_diags *d);
void scan_next(struct scan *s, struct token *t);

/* Of 0..9, a..z or A..Z; 99 for any other character. */
int digit_value(uint32_t c);

/* --- nodes --- */

enum node_kind {
	N_ATOM,
	N_INT,
	N_FLOAT,
	N_STR,		/* code points; "" and [] are the same term */
	N_BIN,		/* a binary that is all literal */
	N_BINPAT,	/* any other binary; parsed to be refused */
	N_VAR,
	N_TUPLE,
	N_LIST,		/* kids, and tail unless proper */
	N_MAP,		/* kids: key, value, key, value ... */
	N_OP,		/* text; one or two kids */
	N_CALL,		/* text, mod; kids */
	/*
	 * A function, a module or an atom as code has it: m:f/2, Shop.Repo.all/2,
	 * :all.  Parsed to be refused: conf_fns.c says how it is written here.
	 */
	N_FN,
	N_FUN,		/* kids: clauses */
	N_CLAUSE,	/* pattern, body, then N_GUARDs, one an alternative */
	N_GUARD		/* kids: tests, all must hold */
};

struct node {
	enum node_kind kind;
	struct kp_pos pos;
	unsigned depth;
	/*
	 * Of an atom, variable, operator, binary; of N_CALL and N_FN the
	 * function, of N_FN NULL: there is none.
	 */
	const char *text;
	size_t len;		/* of text, or of cps */
	uint32_t *cps;
	int64_t num;		/* of N_FN the arity, -1: none */
	double real;
	const char *mod;	/* of N_CALL and N_FN; NULL: none */
	bool alias;		/* mod is an alias of Elixir: Shop.Repo */
	const char *src;	/* of N_FN, as written; lives while parsing */
	size_t srclen;
	struct node **kid;
	uint32_t n;
	struct node *tail;
	bool map_arrow;		/* a map that has '=>' */
	bool broken;		/* a list with elements that are not terms */
};

struct form {
	struct node *term;
	struct form *next;
};

/* All forms that could be read, in order; reports the others. */
struct form *parse_forms(struct arena *a, const char *src, size_t n,
    struct kp_diags *d);

#define NODE_TEXT_MAX 96
/* Its name in messages: "a tuple of 2", "the atom 'x'"; returns buf. */
const char *node_describe(const struct node *x, char buf[NODE_TEXT_MAX]);
/*
 * Reports "found X, expected WHAT" at the place of x, and how to write it if
 * only that is wrong.
 */
void node_expected(struct kp_diags *d, const struct node *x, const char *what);
bool node_is_atom(const struct node *x, const char *name);
/* The variable _ */
bool node_is_wildcard(const struct node *x);
/* [] or "" */
bool node_is_nil(const struct node *x);
/* A term with no variable and no map in it. */
bool node_is_literal(const struct node *x);
/* A string or binary with a NUL character. */
bool node_has_nul(const struct node *x);
/* A string's or binary's bytes, malloced; NULL: no memory. */
char *node_string(const struct node *x);

/* --- the funs of {identity, ...}, {label, ...} and {trace_id, ...} --- */

struct kp_funs {
	struct arena arena;	/* also holds the whole file's tree */
	const struct node *identity, *label, *trace;	/* NULL: the file has none */
};

/*
 * Reports what is wrong with one of them; true if match specs can express it.
 * missing: functions were refused, so those of c are not all.
 */
bool fun_check(const struct kp_conf *c, const struct node *fun,
    bool missing, struct kp_diags *d);
/* Warns of labels that no call can have; c->funs is set. */
void label_check(const struct kp_conf *c, struct kp_diags *d);
/*
 * Reports results of the fun of trace_id that are not a traceparent, and calls that it is
 * never asked about; as above.
 */
void trace_check(const struct kp_conf *c, bool missing, struct kp_diags *d);

/* How a guard function is written in match specs. */
enum guard_form { GUARD_PLAIN, GUARD_IS_BOOLEAN, GUARD_TUPLE_SIZE };
/* What a call or an operator returns, if it does not fail. */
enum value_kind {
	VALUE_ANY,
	VALUE_ATOM,
	VALUE_SIZE,	/* an integer that is always small */
	VALUE_INT,
	VALUE_FLOAT,
	VALUE_NUMBER,
	VALUE_BINARY,
	VALUE_PID
};
struct guard_fn {
	const char *name;
	unsigned arity;
	enum guard_form form;
	enum value_kind value;
};
/* NULL: match specs do not have it. */
const struct guard_fn *guard_fn_find(const char *name, unsigned arity);
/* Of a call or an operator that fun_check() accepted. */
enum value_kind value_kind_of(const struct node *x);

#endif
