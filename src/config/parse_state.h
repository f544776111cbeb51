/* parse_state.h - what the parts of the parser share. */
#ifndef KPROFD_CONFIG_PARSE_STATE_H
#define KPROFD_CONFIG_PARSE_STATE_H

#include "config/lang.h"

struct parse {
	struct scan scan;
	struct token t;		/* the next token, not yet taken */
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

/* Is the next token this punctuation or reserved word? */
bool parse_is(const struct parse *p, const char *sym);
void parse_advance(struct parse *p);
/* "found TOKEN, expected ..."; begins a panic, and is silent in one. */
void parse_error(struct parse *p, const char *expected);
/* Passes over sym, or reports that it is not there. */
bool parse_expect(struct parse *p, const char *sym, const char *expected);
/*
 * A node of these kids (NULL: none); NULL and a panic if that would make the
 * tree too deep.
 */
struct node *parse_node(struct parse *p, enum node_kind kind,
    struct kp_pos pos, const struct kids *k, struct node *tail);
/* An expression of operators that bind at least as tightly as min. */
struct node *parse_expr(struct parse *p, int min);

/* parse_text.c: each starts at the token that opens it. */
struct node *parse_string(struct parse *p);
struct node *parse_binary(struct parse *p);

#endif
