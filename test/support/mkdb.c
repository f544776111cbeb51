/*
 * mkdb.c - makes a database as kprofd would, always the same one, for tests
 * and for looking at the client.
 *
 *	mkdb FILE [START [RAW [RETAIN AGE]]]
 *	mkdb FILE START night
 *
 * START: seconds since 1970 of the first window; RAW: a file for the times
 * themselves, a line of tier, number of the identity, ns and weight for each.
 * With RETAIN (kprofd's -retain) it is rolled up as it would be AGE seconds
 * after START.
 *
 * `night` is that of night.h.  The other has two nodes, twelve windows of 10 s each; from
 * the seventh on one request in ten is sampled.  Some identities are what a hostile client
 * would send.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kprofd/config.h"
#include "kprofd/stacks.h"
#include "night.h"
#include "pick.h"
#include "store/db.h"
#include "store/store.h"

#define WINDOWS 12
#define START_S INT64_C(1795255200)	/* 2026-11-21T10:00:00Z */

static const char tiers_text[] =
    "[{http, {web, handle, 2}}, {database, {db, query, 2}},\n"
    " {templating, {tpl, render, 1}}, {cache, {cache, get, 1}}].\n"
    "{slo, [{create, 15, 99}, {database, 7.8125, 50}, {'_total', 250, 99.9}]}.\n";
/* cache is never called */
/* Behind the tiers: parts of database, whose calls have a label. */
static const char *const tiers[] = { "_total", "http", "database",
	"templating", "database: users", "database: \x1b[31m<b>orders;</b>" };
#define NTIERS 4
#define NLABELS 2
static const char *const identities[] = { "_total", "create",
	"gr\xc3\xb6\xc3\x9f" "e \xe6\x9d\xb1\xe4\xba\xac", "undefined",
	"update", "=cmd|'/c calc'!A1", "\x1b[31mred \"quoted\", \xff" };
#define NIDENTITIES 7
static const char *const nodes[] = { "web@a", "web@b" };

static FILE *raw;

static void
add_call(struct kp_cell *c, int64_t w, int64_t total, int64_t self)
{
	c->calls++;
	c->w_calls += (uint64_t)w;
	c->timed++;
	c->w_timed += (uint64_t)w;
	c->total += total;
	c->w_total += w * total;
	c->self += self;
	c->w_self += w * self;
	c->busy += total;
	c->w_busy += w * total;
	c->share_busy += total;
	c->w_share_busy += w * total;
	c->min = c->min < 0 || total < c->min ? total : c->min;
	c->max = total > c->max ? total : c->max;
	if (kp_hist_add(&c->hist, total, (uint64_t)w) != KP_OK)
		exit(1);
}

static void
add_async(struct kp_cell *c, int64_t w, int64_t time)
{
	c->async_calls++;
	c->w_async_calls += (uint64_t)w;
	c->async += time;
	c->w_async += w * time;
	c->async_max = time;
	if (kp_hist_add(&c->async_hist, time, (uint64_t)w) != KP_OK)
		exit(1);
}

/* The request's call of database has a label, unless its time has this remainder. */
static void
add_labelled(struct kp_cell cells[][NIDENTITIES], uint32_t id, int64_t w, int64_t db)
{
	uint32_t label = (uint32_t)(db % (NLABELS + 1));
	struct kp_cell *c;

	for (int k = 0; label < NLABELS && k < 2; k++) {
		c = &cells[NTIERS + label][k == 0 ? 0 : id];
		c->requests++;
		c->w_requests += (uint64_t)w;
		c->share_requests++;
		c->w_share_requests += (uint64_t)w;
		add_call(c, w, db, db);
		if (raw != NULL && k == 1)
			fprintf(raw, "%s,%u,%lld,%lld\n", tiers[NTIERS + label], id,
			    (long long)db, (long long)w);
	}
}

static void
add_request(struct kp_cell cells[][NIDENTITIES], uint32_t id, int64_t w)
{
	int64_t db = 1000000 + pick(20000000), tpl = 200000 + pick(900000);
	int64_t http = db + tpl + 50000 + pick(5000000);
	const int64_t total[NTIERS] = { http + 30000, http, db, tpl };
	const int64_t self[NTIERS] = { 30000, http - db - tpl, db, tpl };
	bool raised = pick(50) == 0, async = pick(4) == 0;

	add_labelled(cells, id, w, db);
	for (int t = 0; t < NTIERS; t++) {
		for (int k = 0; k < 2; k++) {
			struct kp_cell *c = &cells[t][k == 0 ? 0 : id];

			c->requests++;
			c->w_requests += (uint64_t)w;
			c->share_requests++;
			c->w_share_requests += (uint64_t)w;
			add_call(c, w, total[t], self[t]);
			/* some queries fail, which their request handles */
			if ((raised && t < 2) || (t == 2 && db % 20 == 0)) {
				c->raised++;
				c->w_raised += (uint64_t)w;
			}
			if (raw != NULL && k == 1)
				fprintf(raw, "%s,%u,%lld,%lld\n", tiers[t],
				    id, (long long)total[t], (long long)w);
			if (async && (t == 0 || t == 2))
				add_async(c, w, 3000000);
		}
	}
}

/* The stacks of the windows; those with many times are met most often. */
static const struct {
	const char *path, *frames;
	enum kp_stack_state state;
	uint32_t most;		/* samples in a window, less one */
} stacks[] = {
	{ "http;database", "cowboy_stream_h:request_process/3:306;"
	    "web:handle/2:41;db:query/2:17;gen:do_call/4:259", KP_STACK_CALL,
	    9 },
	{ "http;database", "web:handle/2:44;db:query/2:22;"
	    "db:'-rows/1-lc$^0/1-0-'/1:31", KP_STACK_RUNNING, 4 },
	{ "http;database: users", "db_server:loop/1:88;gen_tcp:recv/3:812",
	    KP_STACK_PORT, 5 },
	{ "http;templating", "web:handle/2:52;tpl:render/1:9;"
	    "MyApp.View.\"my fun\"/2:3", KP_STACK_RUNNING, 3 },
	{ "http;templating", "web:handle/2:52;tpl:render/1:9;"
	    "MyApp.View.\"my fun\"/2:3", KP_STACK_GC, 2 },
	{ "http", "web:handle/2:60;'weird,module':'x y'/0",
	    KP_STACK_RUNNABLE, 2 },
	{ "http", "", KP_STACK_NOT_SEEN, 2 },
	{ "", "proc_lib:init_p_do_apply/3:241;web:init/1:12", KP_STACK_RUNNING,
	    2 },
	{ "_after;database", "db_server:loop/1:90", KP_STACK_WAIT, 2 },
};
#define NSTACKS (sizeof(stacks) / sizeof(stacks[0]))

/*
 * Of three types; what is not picked was not met.  Requests of up to 4, 8, 16 and 32 ms;
 * those that list rows are the longest, and of work after some of them it is not known.
 */
static void
add_stacks(struct kp_window *w, int64_t weight)
{
	static const uint32_t types[] = { 1, 3, 5 };
	struct kp_stack_cell *c;
	uint32_t before = seed;		/* requests stay those that they were */
	uint64_t n;

	w->stacks = calloc(3 * NSTACKS, sizeof(*w->stacks));
	for (int t = 0; t < 3; t++) {
		for (size_t k = 0; k < NSTACKS; k++) {
			n = pick(stacks[k].most);
			if (n == 0)
				continue;
			c = &w->stacks[w->nstacks++];
			*c = (struct kp_stack_cell){ .path = stacks[k].path,
				.frames = stacks[k].frames, .identity =
				identities[types[t]], .state =
				(uint8_t)stacks[k].state, .octave = (uint8_t)(k == 1 ?
				25 : k == 8 ? 0 : 22 + (k + (size_t)(w->start /
				KP_NS_PER_S / 10)) % 4), .samples = n,
				.time = (kp_dur_ns)n * 20000000,
				.w_time = (kp_dur_ns)n * 20000000 * weight };
		}
	}
	seed = before;
}

/* A mailbox and a table that grow. */
static void
add_usage(struct kp_window *w, int i)
{
	const struct kp_usage_row rows[] = {
		{ .kind = KP_USAGE_PROCESSES, .name = "db_server", .owner =
		    "shop", .count = 1, .memory = 900000 + 200000 * i, .binaries =
		    30000, .reductions = 250000, .messages = 120 + 800u *
		    (unsigned)i, .longest = 120 + 800u * (unsigned)i, .proc = 77,
		    .since = w->start - 60 * KP_NS_PER_S },
		{ .kind = KP_USAGE_PROCESSES, .name = "web:'-init/1-fun-1-'/0", .owner =
		    "shop", .count = 240, .memory = 7000000, .binaries =
		    90000000, .reductions = 1200000 },
		{ .kind = KP_USAGE_TABLES, .name = "shop_cache", .owner =
		    "shop_cache", .count = 1, .memory = 40000000 + 3000000 * i,
		    .binaries = -1, .reductions = -1, .messages = 100000 },
		{ .kind = KP_USAGE_NODE, .name = "total", .owner = "", .memory =
		    180000000 + 3200000 * i, .binaries = -1, .reductions = -1 },
	};

	w->usage = calloc(1, sizeof(*w->usage) + sizeof(rows));
	w->usage->n = sizeof(rows) / sizeof(rows[0]);
	memcpy(w->usage->rows, rows, sizeof(rows));
}

static struct kp_window *
new_window(int i, const char *node, int64_t start)
{
	struct kp_cell cells[NTIERS + NLABELS][NIDENTITIES] = { 0 };
	struct kp_window *w = calloc(1, sizeof(*w));
	int64_t weight = i < WINDOWS / 2 ? 1 : 10;
	uint32_t n = 20 + pick(20);

	w->node = node;
	w->start = start + i * 10 * KP_NS_PER_S;
	w->end = w->start + 10 * KP_NS_PER_S;
	w->sampled = n;
	w->entry_calls = n * (uint64_t)weight;
	w->losses.n[KP_LOSS_SAMPLED_OUT] = w->entry_calls - n;
	w->cells = calloc((size_t)(NTIERS + NLABELS) * NIDENTITIES, sizeof(*w->cells));
	for (int t = 0; t < NTIERS + NLABELS; t++)
		for (int k = 0; k < NIDENTITIES; k++)
			cells[t][k].min = -1;
	while (n-- > 0)
		add_request(cells, 1 + pick(NIDENTITIES - 1), weight);
	for (int t = 0; t < NTIERS + NLABELS; t++) {
		for (int k = 0; k < NIDENTITIES; k++) {
			if (cells[t][k].requests == 0)
				continue;
			cells[t][k].tier = tiers[t];
			cells[t][k].identity = identities[k];
			w->cells[w->ncells++] = cells[t][k];
		}
	}
	add_stacks(w, weight);
	add_usage(w, i);
	return w;
}

static struct kp_tree *
new_tree(int i, int64_t start)
{
	static const struct kp_tree_call calls[] = {
		{ "web:handle/2", "http", "<0.500.0>", 0, 300000000, 40000000,
		    KP_NONE, KP_RETURNED, false, false, NULL, { -1, -1 } },
		{ "db:query/2 [users]", "database", "<0.77.0>", 1500000, 240000000,
		    240000000, 0, KP_RAISED, false, false, NULL, { -1, -1 } },
		{ "tpl:render/1", "templating", "<0.500.0>", 250000000,
		    20000000, 20000000, 0, KP_RETURNED, false, false, NULL, { -1, -1 } },
		{ "db:query/2", "database", "<0.77.0>", 310000000, 4000000,
		    4000000, 0, KP_RETURNED, true, false, NULL, { -1, -1 } },
		{ "web:done/1", "", "<0.500.0>", 299000000, -1, -1, 0,
		    KP_UNFINISHED, false, false, NULL, { -1, -1 } },
	};
	uint32_t n = sizeof(calls) / sizeof(calls[0]);
	struct kp_tree *t = calloc(1, sizeof(*t) + sizeof(calls));

	*t = (struct kp_tree){ .node = nodes[i % 2],
		.identity = identities[1 + i], .weight = i < 3 ? 1 : 10,
		.label = (UINT64_C(1) << 57) + (uint64_t)i, .ncalls = n,
		.start = start + (7 * i % 5) * 10 * KP_NS_PER_S + 123456789,
		.total = i == 4 ? -1 : 300000000 + i * 50000000,
		.outcome = i == 4 ? KP_UNFINISHED : KP_RETURNED };
	memcpy(t->calls, calls, sizeof(calls));
	return t;
}

static struct kp_store *
open_store(const char *path, struct kp_conf **conf)
{
	struct kp_store_opts o = { .path = path, .version = "0.1.0",
		.tiers_text = tiers_text, .interval = 10 * KP_NS_PER_S };
	struct kp_diags diags;
	struct kp_store *s;
	char *why = NULL;

	if (kp_conf_parse(conf, tiers_text, strlen(tiers_text), &diags) !=
	    KP_OK)
		exit(1);
	kp_diags_free(&diags);
	o.conf = *conf;
	if (kp_store_open(&s, &o, &why) == KP_OK)
		return s;
	fprintf(stderr, "mkdb: %s\n", why);
	exit(1);
}

static void
roll_up(const char *path, const struct kp_conf *conf, const char *retain,
    kp_wall_ns now)
{
	struct kp_store_opts o = { .path = path, .version = "0.1.0",
		.tiers_text = tiers_text, .conf = conf,
		.interval = 10 * KP_NS_PER_S };
	struct upkeep u = { .interval = o.interval };
	bool more = true;
	struct kp_db *db;
	char *why = NULL;

	if (!kp_retain_parse(retain, &u.retain) ||
	    db_open(&db, &o, &why) != KP_OK)
		exit(1);
	while (more)
		if (upkeep_turn(&u, db, now, &more) != SQLITE_OK)
			exit(1);
	db_close(db, 0);
}

/* Without the store, which drops what its thread cannot write so fast. */
static int
put_night(const char *path, int64_t start)
{
	struct kp_store_opts o = { .path = path, .version = "0.1.0",
		.tiers_text = night_conf, .interval = NIGHT_STEP };
	struct kp_conf *conf;
	struct kp_diags diags;
	struct kp_db *db;
	char *why = NULL;

	if (kp_conf_parse(&conf, night_conf, strlen(night_conf), &diags) != KP_OK)
		return 1;
	kp_diags_free(&diags);
	o.conf = conf;
	if (db_open(&db, &o, &why) != KP_OK)
		return 1;
	night_put(db, start, true);
	db_close(db, 0);
	kp_conf_free(conf);
	return 0;
}

int
main(int argc, char **argv)
{
	int64_t start = (argc > 2 ? atoll(argv[2]) : START_S) * KP_NS_PER_S;
	struct kp_happening trip = { .at = start + 61 * KP_NS_PER_S,
		.node = nodes[0], .kind = "trip",
		.text = "queue of 20123 messages \x1b[2J" };
	struct kp_conf *conf;
	struct kp_store *s;

	if (argc < 2) {
		fprintf(stderr, "usage: mkdb FILE [START [RAW [RETAIN AGE]]], or mkdb "
		    "FILE START night\n");
		return 2;
	}
	if (argc == 4 && strcmp(argv[3], "night") == 0)
		return put_night(argv[1], start);
	if (argc > 3 && (raw = fopen(argv[3], "w")) == NULL) {
		perror(argv[3]);
		return 1;
	}
	s = open_store(argv[1], &conf);
	for (int i = 0; i < 2 * WINDOWS; i++)
		kp_store_window(s, new_window(i / 2, nodes[i % 2], start));
	for (int i = 0; i < 5; i++)
		kp_store_tree(s, new_tree(i, start));
	kp_store_happening(s, &trip);
	kp_store_close(s);
	if (argc > 5)
		roll_up(argv[1], conf, argv[4], start + atoll(argv[5]) *
		    KP_NS_PER_S);
	kp_conf_free(conf);
	return raw != NULL && fclose(raw) != 0;
}
