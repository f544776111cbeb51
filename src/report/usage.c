/*
 * usage.c - tables of what processes, ETS tables and nodes use.  Where a range has
 * several windows, by how much memory has grown from the first to the last.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/fn_name.h"
#include "text/grid.h"
#include "text/text.h"
#include "text/timefmt.h"
#include "usage.h"

#define FULL 0.8	/* a part of a limit: more is said */

static bool
is_long(const struct kp_query_used *u)
{
	return u->row.longest >= KP_QUEUE_FOLLOWED;
}

/* Either may not be known: -1. */
static int64_t
all_of(int64_t memory, int64_t binaries)
{
	return memory + (binaries > 0 ? binaries : 0);
}

static bool
is_rest(const struct kp_query_used *u)
{
	return strcmp(u->row.name, "_other") == 0;
}

/* Long queues first, then those with most memory; all others last.  Memory is with
   binaries. */
static int
order(const void *pa, const void *pb)
{
	const struct kp_query_used *a = *(const struct kp_query_used *const *)pa;
	const struct kp_query_used *b = *(const struct kp_query_used *const *)pb;

	if (is_long(a) != is_long(b))
		return is_long(a) ? -1 : 1;
	if (is_rest(a) != is_rest(b))
		return is_rest(b) ? -1 : 1;
	if (is_long(a) && a->row.longest != b->row.longest)
		return a->row.longest > b->row.longest ? -1 : 1;
	if (all_of(a->row.memory, a->row.binaries) !=
	    all_of(b->row.memory, b->row.binaries))
		return all_of(a->row.memory, a->row.binaries) >
		    all_of(b->row.memory, b->row.binaries) ? -1 : 1;
	return strcmp(a->row.name, b->row.name);
}

/* 340 B, 5.2 kB, 87.3 MB */
static const char *
bytes_text(char buf[TEXT_MAX], int64_t v, const char *sign, bool known)
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB" };
	double d = (double)v;
	size_t i = 0;

	for (; d >= 999.95 && i + 1 < sizeof(units) / sizeof(units[0]); i++)
		d /= 1000;
	snprintf(buf, TEXT_MAX, "%s%s%.*f %s", known ? "" : "~", sign,
	    i > 0 ? 1 : 0, d, units[i]);
	return buf;
}

/* ---- columns ---- */

static void
put_count(struct grid *g, uint64_t n, bool known)
{
	char text[TEXT_MAX];

	grid_cell(g, n > 0 ? text_known(text, n, known) : "");
}

static void
put_bytes(struct grid *g, int64_t bytes, bool known)
{
	char text[TEXT_MAX];

	grid_cell(g, bytes < 0 ? "-" : bytes == 0 ? "" : bytes_text(text,
	    bytes, "", known));
}

#define CELL(name) static void name(struct grid *g, const struct kp_query_used *u)

CELL(name_cell)
{
	char name[FN_NAME_MAX];

	grid_cell(g, fn_read(name, sizeof(name), u->row.name));
}
CELL(owner_cell) { grid_cell(g, u->row.owner); }
CELL(number_cell) { put_count(g, u->row.count, !u->estimated); }
CELL(limit_cell) { put_count(g, u->row.limit, true); }
CELL(messages_cell) { put_count(g, u->row.messages, true); }
CELL(longest_cell) { put_count(g, u->row.longest, true); }
CELL(memory_cell) { put_bytes(g, u->row.memory, !u->estimated); }
CELL(binaries_cell) { put_bytes(g, u->row.binaries, !u->estimated); }

CELL(reductions_cell)
{
	put_count(g, u->row.reductions > 0 ? (uint64_t)u->row.reductions : 0,
	    !u->estimated);
}

/* With binaries: a process may hold much and be small. */
CELL(grown_cell)
{
	int64_t grown = all_of(u->row.memory, u->row.binaries) -
	    all_of(u->memory_then, u->binaries_then);
	char text[TEXT_MAX];

	if (u->memory_then < 0 || u->row.memory < 0)
		grid_cell(g, "");
	else if (grown == 0)
		grid_cell(g, "0");
	else
		grid_cell(g, bytes_text(text, grown < 0 ? -grown : grown,
		    grown < 0 ? "-" : "+", !u->estimated));
}
#undef CELL

/* Columns that are left out where no row has anything. */
static bool
has_messages(const struct kp_query_used *u)
{
	return u->row.messages > 0;
}

static bool
has_count(const struct kp_query_used *u)
{
	return u->row.count > 0;
}

static bool
has_then(const struct kp_query_used *u)
{
	return u->memory_then >= 0;
}

static bool
has_reductions(const struct kp_query_used *u)
{
	return u->row.reductions > 0;
}

/* ---- tables ---- */

#define COLUMNS_MAX 9

struct column {
	const char *head;
	unsigned rank;		/* 0: never left out for want of room */
	void (*cell)(struct grid *, const struct kp_query_used *);
	bool (*has)(const struct kp_query_used *);	/* NULL: all rows */
};

static const struct table {
	struct column cols[COLUMNS_MAX];	/* the first without a head ends it */
	const char *noun;
} tables[KP_USAGE_KINDS] = {
	[KP_USAGE_PROCESSES] = { {
		{ "PROCESSES", 0, name_cell, NULL },
		{ "APPLICATION", 1, owner_cell, NULL },
		{ "COUNT", 4, number_cell, NULL },
		{ "MESSAGES", 5, messages_cell, has_messages },
		{ "LONGEST", 6, longest_cell, has_messages },
		{ "MEMORY", 0, memory_cell, NULL },
		{ "GROWN", 0, grown_cell, has_then },
		{ "BINARIES", 3, binaries_cell, NULL },
		{ "REDUCTIONS/S", 2, reductions_cell, has_reductions },
	}, "group" },
	[KP_USAGE_TABLES] = { {
		{ "ETS TABLE", 0, name_cell, NULL },
		{ "OWNER", 1, owner_cell, NULL },
		{ "TABLES", 3, number_cell, NULL },
		{ "OBJECTS", 2, messages_cell, NULL },
		{ "MEMORY", 0, memory_cell, NULL },
		{ "GROWN", 0, grown_cell, has_then },
	}, "name" },
	[KP_USAGE_NODE] = { {
		{ "NODE", 0, name_cell, NULL },
		{ "MEMORY", 0, memory_cell, NULL },
		{ "GROWN", 0, grown_cell, has_then },
		{ "COUNT", 2, number_cell, has_count },
		{ "LIMIT", 1, limit_cell, has_count },
	}, "kind" },
};

static bool
is_used(const struct column *c, const struct kp_query_used *const *v, size_t n)
{
	for (size_t i = 0; i < n && c->has != NULL; i++)
		if (c->has(v[i]))
			return true;
	return c->has == NULL;
}

static void
put_table(struct kp_buf *b, const struct table *t,
    const struct kp_query_used *const *v, size_t n, size_t rows, unsigned width)
{
	size_t some = rows > 0 && rows < n ? rows : n, nused = 0;
	const struct column *used[COLUMNS_MAX];
	char text[TEXT_MAX];
	struct grid g;

	if (n == 0)
		return;
	for (size_t i = 0; i < COLUMNS_MAX && t->cols[i].head != NULL; i++)
		if (is_used(&t->cols[i], v, some))
			used[nused++] = &t->cols[i];
	grid_init(&g);
	for (size_t i = 0; i < nused; i++)
		grid_col_optional(&g, used[i]->head, used[i]->cell == name_cell
		    || used[i]->cell == owner_cell ? GRID_LEFT : GRID_RIGHT,
		    used[i]->rank);
	for (size_t i = 0; i < some; i++)
		for (size_t k = 0; k < nused; k++)
			used[k]->cell(&g, v[i]);
	grid_write(&g, width, b);
	grid_free(&g);
	if (n > some)
		kp_buf_printf(b, "%s more (see -n)\n", text_counted(text,
		    n - some, t->noun));
	kp_buf_u8(b, '\n');
}

bool
usage_mailbox(struct kp_buf *b, const struct kp_query_used *u, uint64_t least)
{
	char n[TEXT_MAX], since[TIMEFMT_MAX];

	if (u->row.kind != KP_USAGE_PROCESSES || u->row.longest < least ||
	    u->row.since == 0)
		return false;
	kp_buf_printf(b, "%s: %s messages wait in one mailbox (process %s), long "
	    "since %s", u->row.name, text_count(n, u->row.longest), u->process,
	    timefmt_local(since, u->row.since));
	return true;
}

static void
put_note(struct kp_buf *b, const struct kp_query_used *u, unsigned width)
{
	char n[TEXT_MAX], limit[TEXT_MAX];
	struct kp_buf mailbox;

	kp_buf_init(&mailbox, 4096);
	if (usage_mailbox(&mailbox, u, KP_QUEUE_FOLLOWED))
		text_note(b, width, "%s", kp_buf_cstr(&mailbox));
	kp_buf_free(&mailbox);
	if (u->row.limit > 0 && (double)u->row.count >=
	    FULL * (double)u->row.limit)
		text_note(b, width, "%s: %s of the %s that the node may have "
		    "(it ends when there is no more)", u->row.name,
		    text_count(n, u->row.count), text_count(limit,
		    u->row.limit));
}

/* The rows of one node, from v on; u: room for pointers to them. */
static void
put_node(struct kp_buf *b, const struct kp_query_used *v, size_t n,
    const struct kp_query_used **u, size_t rows, unsigned width)
{
	bool grown = false;
	size_t of;

	for (int k = 0; k < KP_USAGE_KINDS; k++) {
		of = 0;
		for (size_t i = 0; i < n; i++)
			if (v[i].row.kind == k)
				u[of++] = &v[i];
		qsort(u, of, sizeof(*u), order);
		put_table(b, &tables[k], u, of, rows, width);
	}
	for (size_t i = 0; i < n; i++) {
		put_note(b, &v[i], width);
		grown |= has_then(&v[i]);
	}
	if (grown) {
		kp_buf_str(b, "GROWN: memory and binaries, ");
		timefmt_put_range(b, v[0].then, v[0].now);
		kp_buf_u8(b, '\n');
	}
}

enum kp_err
usage_tables(struct kp_buf *b, const struct kp_query_usage *u, size_t rows,
    unsigned width)
{
	const struct kp_query_used **room = malloc((u->n + 1) * sizeof(*room));
	size_t n;

	if (room == NULL)
		return KP_ENOMEM;
	if (u->n == 0)
		text_wrap(b, "no mailboxes and memory were seen: {stacks, "
		    "{per_second, 20}} in tiers.conf does that", width, 2);
	for (size_t i = 0; i < u->n; i += n) {
		for (n = 1; i + n < u->n && strcmp(u->v[i].node,
		    u->v[i + n].node) == 0; n++)
			;
		if (i > 0)
			kp_buf_u8(b, '\n');
		if (n < u->n) {
			text_put(b, u->v[i].node);
			kp_buf_str(b, "\n\n");
		}
		put_node(b, &u->v[i], n, room, rows, width);
	}
	free(room);
	return b->err;
}

/* ---- JSON ---- */

/* null: not seen. */
static void
put_known(struct json *j, const char *key, int64_t v)
{
	if (v < 0)
		json_null(j, key);
	else
		json_int(j, key, v);
}

static void
put_time(struct json *j, const char *key, kp_wall_ns t)
{
	if (t > 0)
		json_time(j, key, t);
	else
		json_null(j, key);
}

void
usage_json(struct json *j, const struct kp_query_usage *u)
{
	const struct kp_query_used *x;
	char name[FN_NAME_MAX];

	json_array(j, "usage");
	for (size_t i = 0; i < u->n; i++) {
		x = &u->v[i];
		json_object(j, NULL);
		json_string(j, "node", x->node);
		json_string(j, "kind",
		    kp_usage_kind_name((enum kp_usage_kind)x->row.kind));
		json_string(j, "name", fn_read(name, sizeof(name), x->row.name));
		json_string(j, "owner", x->row.owner[0] != '\0' ?
		    x->row.owner : NULL);
		json_uint(j, "count", x->row.count);
		json_bool(j, "estimated", x->estimated);
		put_known(j, "memory_bytes", x->row.memory);
		put_known(j, "memory_bytes_then", x->memory_then);
		if (x->row.kind == KP_USAGE_PROCESSES)
			put_known(j, "binary_bytes_then", x->binaries_then);
		put_time(j, "then", x->then);
		put_time(j, "now", x->now);
		if (x->row.kind == KP_USAGE_PROCESSES) {
			put_known(j, "binary_bytes", x->row.binaries);
			put_known(j, "reductions_per_s", x->row.reductions);
			json_uint(j, "messages", x->row.messages);
			json_uint(j, "longest", x->row.longest);
			json_string(j, "process", x->process[0] != '\0' ?
			    x->process : NULL);
			put_time(j, "longest_since", x->row.since);
		} else if (x->row.kind == KP_USAGE_TABLES) {
			json_uint(j, "objects", x->row.messages);
		} else {
			json_uint(j, "limit", x->row.limit);
		}
		json_end(j);
	}
	json_end(j);
}
