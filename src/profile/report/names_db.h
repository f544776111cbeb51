/*
 * names_db.h - binds the columns of a row that is put next into a database of
 * the client's.  Names come from a target: they are written as people write
 * them, with unsafe characters replaced, so that sqlite3 may print them.
 */
#ifndef KPROFD_PROFILE_REPORT_NAMES_DB_H
#define KPROFD_PROFILE_REPORT_NAMES_DB_H

#include "profile/trace/call_trace.h"
#include "insert.h"

/* `at` is the number of the (first) column.  text NULL: null. */
void db_text(struct put *p, int at, const char *text);
void db_ints(struct put *p, int at, const int64_t *v, int n);
void db_fn(struct put *p, int at, const struct kp_call_names *t, uint32_t fn);
/* <0.81.0>; NULL: "others" */
void db_pid(struct put *p, int at, const struct kp_call_proc *proc);

#endif
