/*
 * read.h - an open database and the row reader that the files of the read side
 * share.
 */
#ifndef KPROFD_STORE_READ_READ_H
#define KPROFD_STORE_READ_READ_H

#include <sqlite3.h>

#include "base/intern.h"
#include "base/vec.h"
#include "query.h"

struct kp_query {
	sqlite3 *conn;
	int version;		/* of the schema */
	struct intern texts;	/* every text that was handed out */
	struct kp_query **parts; /* of several files: multi.h; NULL: of one */
	size_t nparts;
	bool alone;		/* the file alone is read, without its WAL */
	unsigned held;		/* how often */
	bool shares;		/* is a part, and there are several nodes */
	kp_mono_ns deadline;
	const atomic_bool *stop;	/* NULL: none */
	char why[512];
};

/*
 * What is read between these two is of one moment (in each file of a set of
 * its own).  They nest.
 */
void query_hold(struct kp_query *q);
void query_release(struct kp_query *q);
/* Takes the error and its words from a part. */
enum kp_err query_part_fail(struct kp_query *set, const struct kp_query *part,
    enum kp_err err);

/* file:///a/b%3fc?QUERY, owned by the caller; NULL: it could not be made. */
char *read_uri(const char *path, const char *query);

/*
 * One statement being read.  Errors stick: read_next says false at the end
 * and at an error, and read_end which of them it was.
 */
struct read {
	struct kp_query *q;
	sqlite3_stmt *st;
	enum kp_err err;
	int bound;
};

void read_start(struct read *rd, struct kp_query *q, const char *sql);
/* The same statement once more, with other values. */
void read_again(struct read *rd);
void read_bind(struct read *rd, int64_t v);
/* NULL binds null. */
void read_bind_text(struct read *rd, const char *s);
bool read_next(struct read *rd);
int64_t read_int(const struct read *rd, int col);
/* -1 for null, as durations are kept. */
kp_dur_ns read_dur(const struct read *rd, int col);
/* Borrowed from q; "" for null or when out of memory. */
const char *read_text(struct read *rd, int col);
void read_nomem(struct read *rd);
/* Notes SQLite's error, if it is one and the first. */
void read_fail(struct read *rd, int rc);
enum kp_err read_end(struct read *rd);
/* Makes room for one more of n elements; false: no memory, which rd notes. */
#define read_room(rd, v, n) \
	read_has_room(rd, vec_room_by_len(v, n, VEC_NO_CAP))
bool read_has_room(struct read *rd, enum kp_err room);

#endif
