/* parse_state.h - the state of the parser. */
#ifndef KPROFD_CONFIG_PARSE_STATE_H
#define KPROFD_CONFIG_PARSE_STATE_H

#include "config/lang.h"

struct parse {
	struct scan scan;
	struct token t;		/* the next token, not yet taken */
	const char *end;	/* of the last one that was taken */
	struct arena *arena;
	struct kp_diags *diags;
	bool panic;
	unsigned depth;		/* of calls */
	char open[NODE_NEST_MAX];	/* what closes each open bracket */
	unsigned nest;
};

struct kids {
	struct node **v;
	uint32_t n, room;
};

/* parse.c: an expression of operators that bind at least as tightly as min */
struct node *parse_expr(struct parse *p, int min);
/*
 * Parses elements, and the closing bracket.  tail NULL: there may be none, and
 * an element's place has meaning, so no error is passed over.
 */
void parse_elements(struct parse *p, struct kids *k, const char *close,
    char id, struct node **tail);

/* parse_fn.c: each begins at a token of its kind */
struct node *parse_atom(struct parse *p);
struct node *parse_var(struct parse *p);
struct node *parse_colon(struct parse *p);	/* :all */
struct node *parse_capture(struct parse *p);	/* &Shop.Repo.all/2 */
/* After "fun", which was opened with nest brackets open: m:f/2 */
struct node *parse_fun_name(struct parse *p, const struct token *fun,
    unsigned nest);

/* Is the next token this punctuation or reserved word? */
bool parse_is(const struct parse *p, const char *sym);
void parse_advance(struct parse *p);
/* Reports "found TOKEN, expected ..." unless in panic, and begins a panic. */
void parse_error(struct parse *p, const char *expected);
/* Passes over sym, or reports that it is not there. */
bool parse_expect(struct parse *p, const char *sym, const char *expected);
/*
 * Makes a node of these kids (NULL: none); NULL, and a panic, if the tree gets
 * too deep or memory runs out.
 */
struct node *parse_node(struct parse *p, enum node_kind kind,
    struct kp_pos pos, const struct kids *k, struct node *tail);
/* Adds an element; x may be NULL. */
void kids_add(struct parse *p, struct kids *k, struct node *x);
/*
 * Leaves the panic at the next sep or closing bracket of the construct that
 * was opened with nest brackets open; false when there is none.
 */
bool parse_recover(struct parse *p, unsigned nest, const char *sep,
    const char *close, char id);

#endif
