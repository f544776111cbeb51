/* clean_db.c - binds cleaned texts to a statement. */
#include "clean_db.h"
#include "kprofd/fn_name.h"
#include "kprofd/term.h"
#include "text/text.h"

#define NAME_BYTES_MAX (3 * KP_ATOM_TEXT_MAX)

void
clean_bind_text(struct put *p, int at, const char *text)
{
	struct kp_buf clean;

	kp_buf_init(&clean, NAME_BYTES_MAX);
	text_put(&clean, text);
	if (clean.err != KP_OK)
		p->rc = SQLITE_NOMEM;
	sqlite3_bind_text(p->st, at, kp_buf_cstr(&clean), -1,
	    SQLITE_TRANSIENT);
	kp_buf_free(&clean);
}

void
clean_bind_fn(struct put *p, int at, const char *mod, const char *fun,
    uint32_t arity)
{
	struct kp_buf name;

	kp_buf_init(&name, NAME_BYTES_MAX);
	fn_name_put(&name, mod, fun, arity);
	clean_bind_text(p, at, kp_buf_cstr(&name));
	kp_buf_free(&name);
}
