/*
 * What processes and tables of a node use: the message that brings it, events of queues
 * that grow, its rows in the database, reports and metrics of them.
 */
#include <locale.h>

#include "cases.h"
#include "kprofd/etf.h"
#include "export/metrics.h"
#include "export/otlp_json.h"
#include "kprofd/stacks.h"
#include "report/usage.h"
#include "store/db.h"
#include "store/merge.h"
#include "store_fixture.h"

struct fed {
	int64_t at;
	int64_t sized, of;	/* processes */
	int64_t messages;	/* in the box, */
	uint32_t proc;		/* process 0.90.0, if not another */
	int64_t looked;		/* at processes; 0: all */
	int64_t other;		/* messages in the longest queue of the others */
	bool no_box;		/* it is one of them */
	bool one;		/* it is a registered process */
	bool unsized;		/* no process of the box was asked for its size */
	int64_t round, reductions;
	int64_t memory;		/* of the processes of the shop, and of a table */
};

static void
put_group(struct kp_buf *b, const char *name, const char *app, int64_t n,
    int64_t memory, int64_t reductions, int64_t messages, uint32_t proc, bool one)
{
	kp_etf_tuple(b, one ? 10 : 9);
	kp_etf_binary(b, name, strlen(name));
	kp_etf_atom(b, app);
	kp_etf_int(b, n);
	kp_etf_int(b, memory);
	kp_etf_int(b, memory / 4);
	kp_etf_int(b, reductions);
	kp_etf_int(b, messages);
	kp_etf_int(b, messages);
	if (proc != 0)
		kp_etf_pid(b, "app@host", proc, 0, 1);
	else
		kp_etf_atom(b, "none");
	if (one)
		kp_etf_atom(b, "one");
}

static void
put_usage(struct kp_buf *b, const struct fed *f)
{
	const int64_t head[] = { f->looked > 0 ? f->looked : f->of, f->of,
		f->sized, f->of, 3 * KP_NS_PER_S, f->round > 0 ? f->round :
		2 * KP_NS_PER_S };

	kp_etf_version(b);
	kp_etf_tuple(b, 3);
	kp_etf_atom(b, "kprof_groups");
	kp_etf_nil(b);
	kp_etf_tuple(b, 5);
	kp_etf_int(b, f->at);
	kp_etf_tuple(b, 6);
	for (size_t i = 0; i < 6; i++)
		kp_etf_int(b, head[i]);
	kp_etf_list(b, 2 + (f->other > 0) - f->no_box);
	if (!f->no_box)
		put_group(b, "box_mail", "undefined", !f->unsized,
		    f->unsized ? 0 : 1000, -1, f->messages,
		    f->messages == 0 ? 0 : f->proc > 0 ? f->proc : 90, f->one);
	put_group(b, "shop:init/1", "shop", 50, f->memory, f->reductions > 0 ?
	    f->reductions : 4000, 0, 0, false);
	if (f->other > 0)
		put_group(b, "_other", "undefined", 9, 1000, -1, f->other, 91,
		    false);
	kp_etf_nil(b);
	kp_etf_list(b, 1);
	kp_etf_tuple(b, 5);
	kp_etf_binary(b, "cache", 5);
	kp_etf_binary(b, "shop_cache", 10);
	kp_etf_int(b, 2);
	kp_etf_int(b, f->memory);
	kp_etf_int(b, 77);
	kp_etf_nil(b);
	kp_etf_list(b, 1);
	kp_etf_tuple(b, 4);
	kp_etf_atom(b, "atom");
	kp_etf_int(b, 5000);
	kp_etf_int(b, 300);
	kp_etf_int(b, 1000000);
	kp_etf_nil(b);
}

static void
on_usage(void *ctx, struct kp_usage *u)
{
	struct kp_usage **to = ctx;

	assert_null(*to);
	*to = u;
}

static enum kp_err
decode(const void *p, size_t n, struct kp_usage **u)
{
	static const struct kp_stack_ops ops = { .on_usage = on_usage };
	struct kp_stack_table *t = kp_stack_table_new();
	struct kp_stack_message m = { .counts.taken = 7 };
	enum kp_err err = kp_stacks_decode(p, n, t, &m, &ops, u);

	assert_int_equal(m.counts.taken, 7);
	kp_stack_table_free(t);
	return err;
}

static struct kp_usage *
usage(const struct fed *f)
{
	struct kp_usage *u = NULL;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 16);
	put_usage(&b, f);
	assert_int_equal(b.err, KP_OK);
	assert_int_equal(decode(b.p, b.len, &u), KP_OK);
	assert_non_null(u);
	kp_buf_free(&b);
	return u;
}

/* ---- the message ---- */

TEST(all_of_it_is_read)
{
	struct kp_usage *u = usage(&(struct fed){ .at = -5, .sized = 100,
		.of = 100, .messages = 3, .memory = 8000 });
	struct kp_usage *copy = kp_usage_copy(u);
	const struct kp_usage_row *r = copy->rows;

	free(u);
	assert_int_equal(copy->n, 4);
	assert_false(copy->estimated);
	assert_string_equal(r[0].name, "box_mail");
	assert_string_equal(r[0].owner, "");
	assert_int_equal(r[0].proc, 90);
	assert_int_equal(r[0].longest, 3);
	assert_int_equal(r[0].reductions, -1);
	assert_string_equal(r[1].owner, "shop");
	assert_int_equal(r[1].count, 50);
	assert_int_equal(r[1].memory, 8000);
	assert_int_equal(r[1].binaries, 2000);
	assert_int_equal(r[1].reductions, 2000);	/* in 2 s */
	assert_string_equal(r[2].name, "cache");
	assert_string_equal(r[2].owner, "shop_cache");
	assert_int_equal(r[2].messages, 77);
	assert_int_equal(r[3].kind, KP_USAGE_NODE);
	assert_int_equal(r[3].limit, 1000000);
	free(copy);
}

/* Where a part was sized, it stands for all; queues were all looked at. */
TEST(a_part_stands_for_all)
{
	struct kp_usage *u = usage(&(struct fed){ .sized = 25, .of = 100,
		.messages = 3, .memory = 8000, .one = true });

	assert_true(u->estimated);
	assert_int_equal(u->rows[1].count, 200);
	assert_int_equal(u->rows[1].memory, 32000);
	/* a registered process is one */
	assert_int_equal(u->rows[0].count, 1);
	assert_int_equal(u->rows[0].memory, 1000);
	assert_int_equal(u->rows[0].messages, 3);
	assert_int_equal(u->rows[2].memory, 8000);
	free(u);
	u = usage(&(struct fed){ .sized = 1, .of = KP_TARGET_COUNT_MAX - 1,
		.round = 1, .reductions = KP_TARGET_COUNT_MAX - 1 });
	assert_int_equal(u->rows[1].reductions, KP_TARGET_COUNT_MAX);
	free(u);
	u = usage(&(struct fed){ .sized = 0, .of = 100, .memory = 8000 });
	assert_int_equal(u->rows[1].memory, -1);
	free(u);
	/* its queue is known, and its size is not 0 but not seen */
	u = usage(&(struct fed){ .sized = 100, .of = 100, .messages = 20000,
		.unsized = true });
	assert_int_equal(u->rows[0].longest, 20000);
	assert_int_equal(u->rows[0].memory, -1);
	assert_int_equal(u->rows[0].binaries, -1);
	free(u);
}

TEST(nothing_of_a_message_that_lies)
{
	struct kp_usage *u = NULL;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 16);
	put_usage(&b, &(struct fed){ .sized = 1, .of = 1, .messages = 1 });
	for (size_t n = 0; n < b.len; n++) {
		assert_int_not_equal(decode(b.p, n, &u), KP_OK);
		assert_null(u);
	}
	kp_buf_free(&b);
}

/* ---- queues ---- */

static char said[2000];

static void
say(void *ctx, const char *text)
{
	(void)ctx;
	snprintf(said + strlen(said), sizeof(said) - strlen(said), "%s\n", text);
}

/* One walk each 10 s; what is said of it. */
static const char *
walked(struct kp_queues *q, struct fed f)
{
	static int64_t walk;
	struct kp_usage *u;

	f.at = ++walk * 10 * S;
	f.sized = 1;
	u = usage(&f);
	said[0] = '\0';
	kp_queues_look(q, u, T0 + walk * 10 * S, say, NULL);
	assert_true((u->rows[0].since != 0) == (!f.no_box &&
	    f.messages >= KP_QUEUE_FOLLOWED));
	free(u);
	return said;
}

static const char *
look(struct kp_queues *q, int64_t messages)
{
	return walked(q, (struct fed){ .of = 9, .messages = messages });
}

TEST(a_queue_that_grows_is_said_once)
{
	struct kp_queues q = { 0 };

	assert_string_equal(look(&q, 99), "");
	assert_int_equal(q.n, 0);
	assert_string_equal(look(&q, 200), "");
	assert_string_equal(look(&q, 1000), "box_mail: 1 000 messages wait, "
	    "growing 80 a second since 22:13 (process <0.90.0>)\n");
	assert_string_equal(look(&q, 1900), "");
	assert_string_equal(look(&q, 2000), "box_mail: 2 000 messages wait, "
	    "growing 60 a second since 22:13 (process <0.90.0>)\n");
	assert_string_equal(look(&q, 300), "");
	assert_string_equal(look(&q, 50), "box_mail: its queue is short again; "
	    "2 000 messages waited at most, since 22:13 (process <0.90.0>)\n");
	assert_int_equal(q.n, 0);
	assert_string_equal(look(&q, 5), "");
}

/* One that does not grow is only news if it is very long. */
TEST(a_queue_that_stands)
{
	struct kp_queues q = { 0 };

	for (int i = 0; i < 3; i++)
		assert_string_equal(look(&q, 9999), "");
	look(&q, 0);
	assert_string_equal(look(&q, 10000), "");
	assert_non_null(strstr(look(&q, 10000), "messages wait since 22:"));
	assert_string_equal(look(&q, 10000), "");
}

/*
 * Whichever process of a group had the longest queue in a walk, the others counted as
 * gone: "short again", and later as new ones.
 */
TEST(a_group_has_one_queue)
{
	struct kp_queues q = { 0 };

	for (uint32_t i = 0; i < 9; i++) {
		walked(&q, (struct fed){ .of = 9, .messages = 20000 + i,
		    .proc = 1 + i % 3 });
		assert_true((said[0] != '\0') == (i == 1));
	}
	assert_int_equal(q.n, 1);
	assert_non_null(strstr(walked(&q, (struct fed){ .of = 9,
		.messages = 40300, .proc = 7 }), "box_mail: 40 300 messages wait, "));
	assert_non_null(strstr(said, "(process <0.7.0>)\n"));
	assert_non_null(strstr(look(&q, 99), "box_mail: its queue is short again; "
	    "40 300 messages waited at most"));
}

/* A queue that a walk does not see is not short; nor is it for ever. */
TEST(a_queue_that_is_not_seen)
{
	static const struct fed unseen[] = {
		{ .of = 9, .looked = 8 },		/* it does not answer */
		{ .of = 9, .looked = 8, .no_box = true },
		{ .of = 9, .no_box = true, .other = 30000 },
		{ .of = 0 },		/* no list of processes */
		{ .of = 0, .no_box = true },
		{ .of = 2000000, .looked = 1000000 },
	};
	struct kp_queues q = { 0 };
	char text[KP_QUEUE_TEXT_MAX];

	for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++) {
		q.n = 0;
		look(&q, 20000);
		assert_non_null(strstr(look(&q, 20000), "box_mail: 20 000"));
		for (unsigned k = 0; k < KP_QUEUE_UNSEEN_MAX; k++) {
			walked(&q, unseen[i]);
			assert_null(strstr(said, "box_mail"));
		}
		assert_non_null(strstr(kp_queue_text(&q.v[0], T0, text,
		    sizeof(text)), "<0.90.0>, not seen in the last walk)"));
		assert_null(strstr(look(&q, 20000), "box_mail"));
		for (unsigned k = 0; k < KP_QUEUE_UNSEEN_MAX; k++)
			walked(&q, unseen[i]);
		assert_non_null(strstr(walked(&q, unseen[i]), "box_mail: its "
		    "queue is not seen any more; 20 000 messages waited at most"));
	}
	/* it is among the others, and none of these is long */
	q.n = 0;
	look(&q, 20000);
	look(&q, 20000);
	assert_non_null(strstr(walked(&q, (struct fed){ .of = 9, .no_box = true,
		.other = 99 }), "box_mail: its queue is short again"));
	assert_int_equal(q.n, 0);
}

/* ---- rows ---- */

static struct kp_window *
window(kp_wall_ns start, int64_t messages, int64_t memory)
{
	struct kp_window *w = known_window("a@h", start);
	struct kp_queues q = { 0 };

	w->usage = usage(&(struct fed){ .sized = 100, .of = 100,
		.messages = messages, .memory = memory });
	kp_queues_look(&q, w->usage, start, say, NULL);
	return w;
}

TEST_WITH(rows_and_views, setup, teardown)
{
	struct kp_store *s = open_store();
	struct kp_window *w = window(T0, 5000, 8000000);

	assert_int_equal(db_window_rows(w), KNOWN_ROWS + 4);
	kp_store_window(s, w);
	kp_store_close(s);
	assert_sql("select * from process_stats",
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|"
	    "shop:init/1|shop|50|0|0|null|null|8.0|2.0|2000|0\n"
	    "2023-11-14T22:13:20.123Z|2023-11-14T22:13:30.123Z|a@h|"
	    "box_mail||1|5000|5000|<0.90.0>|2023-11-14T22:13:20Z|0.001|0.0|null|0");
	assert_sql("select kind, name, owner, memory_mb, count, most, objects"
	    " from memory_stats", "node|atom||0.005|300|1000000|null\n"
	    "tables|cache|shop_cache|8.0|2|null|77");
}

TEST_WITH(rolled_up_they_are_means, setup, teardown)
{
	struct kp_db *db = keep_open("10s:1h,1h:400d");
	struct kp_window *w;

	for (int i = 0; i < 4; i++) {
		w = window(NOON + i * MIN, i == 2 ? 9000 : 200,
		    i * 1000000);
		/* one that combines three */
		if (i == 3)
			w->end = w->start + 30 * S;
		keep_put(db, w);
		kp_window_free(w);
	}
	keep_settle(db, NOON + DAY);
	db_close(db, 0);
	assert_sql("select count(*), min(level) from time_window", "1|3600");
	assert_sql("select name, memory_bytes, messages, longest, process,"
	    " (longest_since_ns - " "1700049600000000000) / 1000000000"
	    " from usage order by kind, name",
	    "atom|5000|null|null|null|null\n"
	    "box_mail|1000|1667|9000|<0.90.0>|120\n"
	    "shop:init/1|2000000|0|0|null|null\n"
	    "cache|2000000|null|null|null|null");
}

/* A turn takes windows for as many rows as it may delete, and those of usage are some. */
TEST_WITH(a_turn_is_bounded, setup, teardown)
{
	struct kp_db *db = keep_open("10s:1h,1h:400d");
	bool more = true;
	int changes;

	for (int i = 0; i < 300; i++)
		keep_put_known(db, "a@h", NOON + i * S / 10);
	sql_exec("with recursive r (n) as (select 1 union all select n + 1 from r"
	    " where n < 150) insert into usage select w.id, 'tables', 't' || n, '',"
	    " 0, 1, 0, 1, null, null, null, 1, null, null, null"
	    " from time_window w, r");
	while (more) {
		changes = sqlite3_total_changes(db->conn);
		assert_int_equal(upkeep_turn(&keep, db, NOON + DAY, &more),
		    SQLITE_OK);
		assert_in_range(sqlite3_total_changes(db->conn) - changes, 0,
		    DELETE_ROWS + 2000);
	}
	db_close(db, 0);
	assert_sql("select count(*), min(level) from time_window", "1|3600");
	assert_sql("select count(*), sum(memory_bytes) from usage", "150|150");
}

/* ---- reports ---- */

static const char *
table(const struct kp_query_range *r)
{
	static char text[4096];
	struct kp_query *q = open_query();
	struct kp_query_usage u;
	struct kp_buf b;

	kp_buf_init(&b, 1 << 16);
	assert_int_equal(kp_query_usage(q, r, &u), KP_OK);
	assert_int_equal(usage_tables(&b, &u, 0, 0), KP_OK);
	snprintf(text, sizeof(text), "%s", kp_buf_cstr(&b));
	kp_query_usage_free(&u);
	kp_query_close(q);
	kp_buf_free(&b);
	return text;
}

/* The last window of a range, and what has grown since its first. */
TEST_WITH(a_range_is_its_end_and_its_growth, setup, teardown)
{
	struct kp_db *db = keep_open(NULL);
	const struct kp_query_range one = { .since = NOON, .until = NOON + 1,
		.exact = true };
	const char *text;
	struct kp_window *w;

	for (int i = 0; i < 3; i++) {
		w = window(NOON + i * 10 * S, i == 2 ? 5000 : 10,
		    4000000 + i * 1000000);
		keep_put(db, w);
		kp_window_free(w);
	}
	/* one without a walk changes nothing */
	keep_put_known(db, "a@h", NOON + 30 * S);
	db_close(db, 0);
	text = table(&all);
	assert_string_equal(text,
	    "PROCESSES    APPLICATION  COUNT  MESSAGES  LONGEST  MEMORY    GROWN"
	    "  BINARIES  REDUCTIONS/S\n"
	    "------------------------------------------------------------------"
	    "-------------------------\n"
	    "box_mail                      1     5 000    5 000  1.0 kB        0"
	    "     250 B\n"
	    "shop:init/1  shop            50                     6.0 MB  +2.5 MB"
	    "    1.5 MB         2 000\n\n"
	    "ETS TABLE  OWNER       TABLES  OBJECTS  MEMORY    GROWN\n"
	    "-------------------------------------------------------\n"
	    "cache      shop_cache       2       77  6.0 MB  +2.0 MB\n\n"
	    "NODE  MEMORY  GROWN  COUNT      LIMIT\n"
	    "-------------------------------------\n"
	    "atom  5.0 kB      0    300  1 000 000\n\n"
	    "box_mail: 5 000 messages wait in one mailbox (process <0.90.0>), "
	    "long since 2023-11-15 12:00:20\n"
	    "GROWN: memory and binaries, 2023-11-15 12:00:00 to 12:00:30 UTC "
	    "(30s)\n");
	text = table(&one);
	assert_null(strstr(text, "GROWN"));
	assert_non_null(strstr(text, "4.0 MB"));
	assert_non_null(strstr(table(&(struct kp_query_range){ .until = INT64_MAX,
	    .node = "b@*" }), "{stacks, {per_second, 20}} in tiers.conf"));
}

/* ---- metrics ---- */

TEST(gauges)
{
	struct totals *t = totals_new();
	struct kp_window *w = window(T0, 5000, 8000000);
	struct kp_buf b;
	const char *type;

	totals_add(t, w);
	kp_buf_init(&b, 1 << 20);
	metrics_answer(t, NULL, NULL, 0, &b, &type);
	assert_non_null(strstr(kp_buf_cstr(&b), "\nkprof_mailbox_longest_messages"
	    "{node=\"a@h\",group=\"box_mail\",application=\"\"} 5000\n"));
	assert_non_null(strstr(kp_buf_cstr(&b), "\nkprof_process_memory_bytes"
	    "{node=\"a@h\",group=\"shop:init/1\",application=\"shop\"} "
	    "8000000\n"));
	assert_non_null(strstr(kp_buf_cstr(&b), "\nkprof_ets_memory_bytes"
	    "{node=\"a@h\",table=\"cache\",owner=\"shop_cache\"} 8000000\n"));
	assert_non_null(strstr(kp_buf_cstr(&b), "\nkprof_node_memory_bytes"
	    "{node=\"a@h\",kind=\"atom\"} 5000\n"));
	kp_buf_reset(&b);
	assert_true(otlp_metrics(&b, NULL, t, 1) > 6);
	assert_non_null(strstr(kp_buf_cstr(&b), "{\"name\":"
	    "\"kprof.mailbox.longest\",\"unit\":\"{message}\""));
	assert_non_null(strstr(kp_buf_cstr(&b), "\"gauge\":{\"dataPoints\":["
	    "{\"timeUnixNano\":\"1700000010123000000\",\"attributes\":[{\"key\":"
	    "\"kprof.group\",\"value\":{\"stringValue\":\"box_mail\"}}"));
	/* what was seen long ago is not now */
	free(w->usage);
	w->usage = NULL;
	w->end += TOTALS_STALE - 1;
	totals_add(t, w);
	assert_non_null(totals_node(t, 1)->usage);
	w->end++;
	totals_add(t, w);
	assert_null(totals_node(t, 1)->usage);
	kp_buf_reset(&b);
	metrics_answer(t, NULL, NULL, 0, &b, &type);
	assert_null(strstr(kp_buf_cstr(&b), "kprof_mailbox"));
	kp_window_free(w);
	totals_free(t);
	kp_buf_free(&b);
}

TESTS(NULL, NULL)
