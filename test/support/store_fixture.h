/*
 * store_fixture.h - a database in a directory of its own for each test, with
 * windows whose figures are all known.
 */
#ifndef KPROFD_TEST_STORE_FIXTURE_H
#define KPROFD_TEST_STORE_FIXTURE_H

#include <sqlite3.h>

#include "store/db.h"
#include "store/query.h"
#include "store/store.h"

#define T0 INT64_C(1700000000123000000)	/* 2023-11-14T22:13:20.123Z */
#define S KP_NS_PER_S
#define MIN (60 * S)
#define HOUR (60 * MIN)
#define DAY (24 * HOUR)
#define NOON (INT64_C(1700049600) * S)	/* 2023-11-15T12:00:00Z */

extern char dir[64], path[96];		/* path: the database, in dir */

int setup(void **state);
int teardown(void **state);

/* Tiers web and db, windows of 10 s, nothing ever deleted. */
enum kp_err try_open(struct kp_store **s, const char *file, char **why);
struct kp_store *open_store(void);
/* The same with what the test wants to be otherwise. */
struct kp_store_opts store_opts(const char *file);
struct kp_store *open_store_with(const struct kp_store_opts *o);
/* Waits for all that is queued; false: it is not on disk. */
bool sync_store(struct kp_store *s);
/* Rows dropped so far, of every cause. */
uint64_t dropped(struct kp_store *s);

struct kp_window *new_window(const char *node, kp_wall_ns start,
    size_t ncells);
/* Figures that are all different, so that no two can be mixed up. */
void fill_cell(struct kp_cell *c, const char *tier, const char *identity);
/* Four cells: _total and db, of _total and create. */
struct kp_window *known_window(const char *node, kp_wall_ns start);
#define KNOWN_ROWS 6
/* The same, and two parts of db. */
struct kp_window *labelled_window(const char *node, kp_wall_ns start);
#define PART "db: users"
struct kp_tree *new_tree(uint32_t ncalls);

/* All rows of a query: columns with '|', rows with newlines; static. */
char *sql_text(const char *sql);
#define assert_sql(sql, want) assert_string_equal(sql_text(sql), want)
void sql_exec(const char *sql);
/* Another connection, which holds the lock for writing till it is closed. */
sqlite3 *lock_db(void);
struct kp_query *open_query(void);
extern const struct kp_query_range all;

/*
 * The database and its upkeep without the thread; retain as kprofd takes it,
 * NULL: for ever.
 */
extern struct upkeep keep;
struct kp_db *keep_open(const char *retain);
void keep_put(struct kp_db *db, const struct kp_window *w);
void keep_put_known(struct kp_db *db, const char *node, kp_wall_ns start);
/*
 * All that is due now; how many turns it took for the windows, with the one
 * that found no more to do.
 */
int keep_settle(struct kp_db *db, kp_wall_ns now);

bool exists(const char *suffix);
size_t slurp(const char *suffix, char *out, size_t max);
void write_file(const char *file, const char *bytes, size_t n);

#endif
