/* insert.c - a few SQLite calls that do nothing after the first error. */
#include <stddef.h>

#include "insert.h"

void
put_open(struct put *p, const char *file)
{
	p->st = NULL;
	p->rc = sqlite3_open_v2(file, &p->db,
	    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL);
}

void
put_prepare(struct put *p, const char *sql)
{
	sqlite3_finalize(p->st);
	p->st = NULL;
	if (p->rc == SQLITE_OK)
		p->rc = sqlite3_prepare_v2(p->db, sql, -1, &p->st, NULL);
}

void
put_exec(struct put *p, const char *sql)
{
	if (p->rc == SQLITE_OK)
		p->rc = sqlite3_exec(p->db, sql, NULL, NULL, NULL);
}

void
put_row(struct put *p)
{
	if (p->rc != SQLITE_OK)
		return;
	if (sqlite3_step(p->st) != SQLITE_DONE)
		p->rc = sqlite3_errcode(p->db);
	sqlite3_reset(p->st);
	sqlite3_clear_bindings(p->st);
}

void
put_close(struct put *p)
{
	sqlite3_finalize(p->st);
	sqlite3_close(p->db);
}
