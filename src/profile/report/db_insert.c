/*
 * db_insert.c - a few SQLite calls that do nothing after the first error, and
 * columns bound as people write what they hold.
 */
#include <stddef.h>

#include "trace_internal.h"
#include "db_insert.h"
#include "text/text.h"

#define NAME_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)

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

static void
bind(struct put *p, int at, struct kp_buf *text)
{
	if (text->err != KP_OK)
		p->rc = SQLITE_NOMEM;
	sqlite3_bind_text(p->st, at, kp_buf_cstr(text), -1, SQLITE_TRANSIENT);
	kp_buf_free(text);
}

void
db_text(struct put *p, int at, const char *text)
{
	struct kp_buf clean;

	if (text == NULL)
		return;
	kp_buf_init(&clean, NAME_BYTES_MAX);
	text_put(&clean, text);
	bind(p, at, &clean);
}

void
db_ints(struct put *p, int at, const int64_t *v, int n)
{
	for (int i = 0; i < n; i++)
		sqlite3_bind_int64(p->st, at + i, v[i]);
}

void
db_fn(struct put *p, int at, const struct kp_call_names *t, uint32_t fn)
{
	struct kp_buf name;

	kp_buf_init(&name, NAME_BYTES_MAX);
	trace_put_fn(&name, t, fn);
	bind(p, at, &name);
}

void
db_pid(struct put *p, int at, const struct kp_call_proc *proc)
{
	struct kp_buf text;

	kp_buf_init(&text, 64);
	if (proc == NULL)
		kp_buf_str(&text, "others");
	else
		trace_put_number(&text, proc);
	bind(p, at, &text);
}
