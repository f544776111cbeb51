/* facts_functions.c - describes functions by what is known of their modules. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile/node/facts_state.h"

static bool
is_callback(const struct facts_module *m, const char *fun, uint32_t arity,
    bool exported)
{
	static const struct {
		const char *fun;
		uint32_t arity;
	} all[] = { { "init", 1 }, { "handle_call", 3 }, { "handle_cast", 2 },
		{ "handle_info", 2 }, { "handle_continue", 2 },
		{ "handle_event", 2 }, { "handle_event", 3 },
		{ "handle_event", 4 }, { "handle_call", 2 },
		{ "handle_sync_event", 4 }, { "handle_info", 3 },
		{ "terminate", 2 }, { "terminate", 3 },
		{ "code_change", 3 }, { "code_change", 4 },
		{ "callback_mode", 0 }, { "format_status", 1 },
		{ "format_status", 2 } };

	if (!m->server)
		return false;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (strcmp(all[i].fun, fun) == 0 && all[i].arity == arity)
			return true;
	/* A function for each state. */
	return m->statem && exported && (arity == 3 || arity == 2);
}

static bool
is_users(const struct facts *f, const char *app)
{
	for (size_t i = 0; i < f->napps; i++)
		if (f->apps[i] == app)
			return !f->needed[i];
	return true;
}

/* A behaviour's module, such as RabbitMQ's gen_server2, is as good as OTP's. */
static bool
runs_servers(const struct facts *f, const char *mod)
{
	for (size_t i = 0; i < f->nbehaviours; i++)
		if (f->behaviours[i].server &&
		    strcmp(f->behaviours[i].name, mod) == 0)
			return true;
	return false;
}

enum kp_err
facts_describe(struct facts *f, const struct kp_call_names *t,
    struct suggest_fn **out, char *why, size_t n)
{
	struct suggest_fn *fns = calloc(t->nfns + 1, sizeof(*fns));
	const struct kp_call_fn *fn;
	const struct interned *at;
	struct facts_module *m;
	enum kp_err e = fns != NULL ? KP_OK : KP_ENOMEM;

	if (e == KP_OK) {
		e = dist_sync_open(&f->talk, &f->opts, why, n);
		if (e != KP_OK) {
			free(fns);
			return e;
		}
	}
	for (uint32_t i = KP_FN_FIRST; i < t->nfns && e == KP_OK; i++) {
		at = intern_get(&f->by_name, t->fns[i].mod,
		    strlen(t->fns[i].mod));
		m = at != NULL ? &f->v[at->val] : NULL;
		if (m != NULL && !m->asked && (!m->platform ||
		    facts_is_client(m->name)))
			e = facts_module_ask(f, m);
	}
	for (uint32_t i = 0; i < t->nfns && e == KP_OK; i++) {
		fn = &t->fns[i];
		fns[i] = (struct suggest_fn){ .platform = true, .app = "" };
		at = intern_get(&f->by_name, fn->mod, strlen(fn->mod));
		if (i < KP_FN_FIRST || at == NULL)
			continue;
		m = &f->v[at->val];
		fns[i].platform = (m->platform && !facts_is_client(m->name)) ||
		    runs_servers(f, fn->mod);
		fns[i].app = m->app;
		fns[i].unnamed = m->unnamed;
		fns[i].users = is_users(f, m->app);
		fns[i].exported = facts_is_exported(m, fn->fun, fn->arity);
		fns[i].callback = is_callback(m, fn->fun, fn->arity,
		    fns[i].exported);
	}
	facts_leave(f);
	if (e != KP_OK) {
		free(fns);
		return facts_broken(f, e, why, n);
	}
	*out = fns;
	return KP_OK;
}
