/*
 * clean_db.h - puts names that come from a target into a database of the
 * client's: as people write them, and without unsafe characters, so that
 * sqlite3 may print them.
 */
#ifndef KPROFD_PROFILE_REPORT_CLEAN_DB_H
#define KPROFD_PROFILE_REPORT_CLEAN_DB_H

#include <stdint.h>

#include "insert.h"

/* Each binds one column of the row that is put next. */
void clean_bind_text(struct put *p, int at, const char *text);
void clean_bind_fn(struct put *p, int at, const char *mod, const char *fun,
    uint32_t arity);

#endif
