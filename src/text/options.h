/*
 * options.h - parses a program's options by a table.
 *
 * An option has one dash or two, and is "-name value" or "-name=value".  Given
 * again, a list gets longer and a flag stays set; all others are refused, since
 * a value that replaces another is mostly a mistake.  Errors and the lines of -h
 * go into a buffer that the program prints.
 */
#ifndef KPROFD_TEXT_OPTIONS_H
#define KPROFD_TEXT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/near_names.h"
#include "kprofd/buf.h"
#include "kprofd/clock.h"

#define OPT_COUNT_MAX 1000000000u
#define OPT_LIST_MAX 256	/* of one option */
#define OPT_TABLE_MAX 128	/* options of a program or a command */
#define OPT_WHY_MAX (1u << 20)	/* bytes: more than an argument has */
#define OPT_HELP_WIDTH 80u

struct opt_list {
	const char *v[OPT_LIST_MAX];	/* borrowed of argv */
	size_t n;
};

struct opt_parser;

struct opt {
	const char *name;
	const char *arg;	/* name of its value; NULL: a flag */
	const char *help;
	/*
	 * Converts p->value into *p->at->to, and sets p->adds if a value adds
	 * to the one before it.  False: p->why has the reason.
	 */
	bool (*convert)(struct opt_parser *p);
	void *to;
	const char *choices;	/* opt_choice, opt_sort: "a,b,c" */
};

/* A heading of -h; the options up to the next one are its group. */
#define OPT_GROUP(title) { "", NULL, title, NULL, NULL, NULL }
/* The options after it are on another page: -h has this line in their place. */
#define OPT_ELSEWHERE(what, page) { "", what, page, NULL, NULL, NULL }

/* The caller sets the first five members; it initialises and frees why. */
struct opt_parser {
	const struct opt *table;
	size_t n;
	struct near_rule near;
	kp_wall_ns now;		/* for converters */
	struct kp_buf why;	/* the error text */
	const struct opt *at;	/* the current option, NULL: unknown */
	const char *value;	/* its value, "" for a flag */
	bool adds;		/* it may be given again */
	const char *until;	/* the text of -until, which depends on -since */
	bool given[OPT_TABLE_MAX];	/* those of the table that were */
};

/* For opt_sort: which of the choices, and the other way round. */
struct opt_order {
	int key;
	bool reverse;
};

/*
 * Takes argv[*i], which begins with a dash; *i moves on to its value.  False:
 * p->why has the reason.  True: p->why has what the option is called now, if that
 * is another name; else it is empty.
 */
bool opt_take(struct opt_parser *p, char **argv, int *i);
/* Writes to p->why that an argument is none, and whose value it may be. */
void opt_unexpected(struct opt_parser *p, const char *arg);
/* Returns whether an argument is this option, without a value. */
bool opt_is(const char *arg, const char *name);
/* Writes the lines of -h, up to OPT_ELSEWHERE, of OPT_HELP_WIDTH columns at most. */
void opt_help(struct kp_buf *b, const struct opt *table, size_t n);

/* Appends an error text to p->why; its value is false. */
#define OPT_BAD(p, ...) (kp_buf_printf(&(p)->why, __VA_ARGS__), false)

/* Converters that programs share, with the type of *to. */
bool opt_flag(struct opt_parser *p);	/* bool */
bool opt_text(struct opt_parser *p);	/* const char *, not empty */
bool opt_count(struct opt_parser *p);	/* size_t, 1 .. OPT_COUNT_MAX */
bool opt_number(struct opt_parser *p);	/* size_t, 0 .. OPT_COUNT_MAX */
bool opt_choice(struct opt_parser *p);	/* int: which of the choices */
/* struct opt_order: KEY, or -KEY for the other order */
bool opt_sort(struct opt_parser *p);
bool opt_list(struct opt_parser *p);	/* struct opt_list: several times */
/* const char *, not empty; several times: one text with commas between them */
bool opt_commas(struct opt_parser *p);

/*
 * For converters: appends a copy of the text to *p->at->to, a const char *, with
 * `between` before it if the option was given already.  Never freed.
 */
bool opt_join(struct opt_parser *p, char between, const char *text);

#endif
