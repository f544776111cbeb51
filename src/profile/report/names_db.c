/* names_db.c - cleans texts, and binds them to a statement. */
#include "trace_internal.h"
#include "names_db.h"
#include "text/text.h"

#define NAME_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)

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
