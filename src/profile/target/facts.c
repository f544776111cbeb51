/* facts.c - asks a node about its applications and modules, one call over rex each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/vec.h"
#include "kprofd/etf.h"
#include "profile/target/facts.h"

#define ANSWER_LIMIT (10 * KP_NS_PER_S)
#define BEHAVIOURS_MAX 200u

/* A behaviour of the application's own: is it one of servers? */
struct behaviour {
	char *name;
	bool server;
};

struct facts {
	struct dist_sync_opts opts;
	struct dist_sync *talk;		/* while it asks */
	uint64_t questions;
	char **apps;
	bool *needed;		/* by another application, not of the platform */
	size_t napps;
	struct facts_module *v;
	size_t n;
	struct intern by_name;
	struct behaviour *behaviours;
	size_t nbehaviours;
};

static const char *const platform_apps[] = { "kernel", "stdlib", "sasl",
	"compiler", "crypto", "ssl", "public_key", "asn1", "inets", "mnesia",
	"os_mon", "runtime_tools", "tools", "syntax_tools", "xmerl", "ssh",
	"ftp", "tftp", "eldap", "snmp", "megaco", "diameter", "observer",
	"debugger", "dialyzer", "edoc", "erl_docgen", "erl_interface", "et",
	"eunit", "common_test", "jinterface", "odbc", "parsetools",
	"reltool", "wx", "erts", "elixir", "logger", "eex", "ex_unit", "iex",
	"mix" };

static const char *const servers[] = { "gen_server", "gen_event",
	"supervisor", "supervisor_bridge", "Elixir.GenServer",
	"Elixir.Supervisor", "Elixir.DynamicSupervisor", "Elixir.GenEvent" };
static const char *const statems[] = { "gen_statem", "gen_fsm" };

#define IS_IN(name, list) is_in(name, list, sizeof(list) / sizeof((list)[0]))

static bool
is_in(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}

static char *
copy(struct kp_span s)
{
	return strndup(s.n > 0 ? (const char *)s.p : "", s.n);
}

bool
facts_is_platform(const char *app)
{
	return IS_IN(app, platform_apps);
}

bool
facts_is_client(const char *mod)
{
	static const char *const clients[] = { "httpc", "mnesia" };

	return IS_IN(mod, clients);
}

/* ---- questions ---- */

static enum kp_err
broken(const struct facts *f, enum kp_err e, char *why, size_t n)
{
	if (e != KP_END)
		snprintf(why, n, "'%s': %s", f->opts.target, e == KP_ETIMEOUT ?
		    "no answer from the node" : e == KP_EIO ? "the connection "
		    "is over (did the node end?)" : e == KP_ENOMEM ?
		    "out of memory" : e == KP_ELIMIT ? "its answer is too "
		    "large" : "its answer makes no sense");
	return e;
}

/* mod:fun(...args), atoms; r is at the answer. */
static enum kp_err
ask(struct facts *f, const char *mod, const char *fun,
    const char *const *args, uint32_t n, struct kp_term *r)
{
	kp_mono_ns deadline = kp_mono_now() + ANSWER_LIMIT;
	struct kp_buf b;
	enum kp_err e;

	f->questions++;
	kp_buf_init(&b, 8192);
	rex_begin(&b, dist_sync_ids(f->talk), mod, fun);
	if (n > 0)
		kp_etf_list(&b, n);
	for (uint32_t i = 0; i < n; i++)
		kp_etf_atom(&b, args[i]);
	kp_etf_nil(&b);
	rex_end(&b);
	e = dist_sync_rex(f->talk, &b);
	kp_buf_free(&b);
	while (e == KP_OK) {
		e = dist_sync_next(f->talk, deadline, r);
		if (e != KP_OK)
			break;
		kp_term_tuple_n(r, 2);
		if (kp_span_is(kp_term_atom(r), "rex") && r->err == KP_OK)
			break;
	}
	return e;
}

/* So that somebody else of our name can connect meanwhile. */
static void
leave(struct facts *f)
{
	dist_sync_close(f->talk);
	f->talk = NULL;
}

/* ---- applications and modules ---- */

/* [{App, Description, Version}] */
static enum kp_err
apps_read(struct facts *f, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);
	struct kp_span name;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 3);
		name = kp_term_atom(r);
		kp_term_skip(r);
		kp_term_skip(r);
		if (r->err != KP_OK)
			return KP_EFORMAT;
		if (vec_room_by_len(&f->apps, f->napps, FACTS_APPS_MAX) !=
		    KP_OK)
			return KP_OK;
		f->apps[f->napps] = copy(name);
		if (f->apps[f->napps++] == NULL)
			return KP_ENOMEM;
	}
	return r->err;
}

static enum kp_err
module_add(struct facts *f, struct kp_span name)
{
	enum kp_err e;

	if (intern_get(&f->by_name, name.p, name.n) != NULL)
		return KP_OK;
	e = vec_room_by_len(&f->v, f->n, FACTS_MODULES_MAX);
	if (e == KP_ELIMIT)
		return KP_OK;
	if (e != KP_OK || intern_put(&f->by_name, name.p, name.n,
	    (uint32_t)f->n) == NULL)
		return KP_ENOMEM;
	f->v[f->n] = (struct facts_module){ .name = copy(name), .app = "" };
	return f->v[f->n++].name != NULL ? KP_OK : KP_ENOMEM;
}

static enum kp_err
loaded_read(struct facts *f, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);
	enum kp_err e = KP_OK;

	for (uint32_t i = 0; i < n && e == KP_OK && r->err == KP_OK; i++)
		e = module_add(f, kp_term_atom(r));
	return e != KP_OK ? e : r->err;
}

/* Module names that are preloaded, and those of kprof. */
static enum kp_err
preloaded_read(struct facts *f, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);
	const struct interned *at;
	struct kp_span name;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		name = kp_term_atom(r);
		at = intern_get(&f->by_name, name.p, name.n);
		if (at != NULL)
			f->v[at->val].platform = true;
	}
	for (size_t i = 0; i < f->n; i++)
		if (strncmp(f->v[i].name, "kprof_", 6) == 0)
			f->v[i].platform = true;
	return r->err;
}

/* {ok, List} | undefined: returns the number of its elements, which are next. */
static uint32_t
ok_list(struct kp_term *r)
{
	if (kp_term_peek(r) != KP_TERM_TUPLE)
		return 0;
	kp_term_tuple_n(r, 2);
	kp_term_atom(r);
	return kp_term_peek(r) == KP_TERM_LIST ? kp_term_list(r) : 0;
}

/* {ok, [Module]} | undefined */
static enum kp_err
app_modules_read(struct facts *f, const char *app, struct kp_term *r)
{
	bool platform = IS_IN(app, platform_apps);
	const struct interned *at;
	struct kp_span name;
	uint32_t n = ok_list(r);

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		name = kp_term_atom(r);
		at = intern_get(&f->by_name, name.p, name.n);
		if (at == NULL || f->v[at->val].app[0] != '\0')
			continue;
		f->v[at->val].app = app;
		f->v[at->val].platform |= platform;
	}
	return r->err;
}

/* {ok, [Application]} | undefined */
static enum kp_err
needs_read(struct facts *f, struct kp_term *r)
{
	struct kp_span name;
	uint32_t n = ok_list(r);

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		name = kp_term_atom(r);
		for (size_t k = 0; k < f->napps; k++)
			if (kp_span_is(name, f->apps[k]))
				f->needed[k] = true;
	}
	return r->err;
}

static enum kp_err
list_all(struct facts *f)
{
	const char *args[2] = { NULL, "modules" };
	const char *needs[2] = { NULL, "applications" };
	struct kp_term r;
	enum kp_err e;

	e = ask(f, "application", "loaded_applications", NULL, 0, &r);
	if (e == KP_OK)
		e = apps_read(f, &r);
	if (e == KP_OK)
		e = ask(f, "erlang", "loaded", NULL, 0, &r);
	if (e == KP_OK)
		e = loaded_read(f, &r);
	if (e == KP_OK)
		e = ask(f, "erlang", "pre_loaded", NULL, 0, &r);
	if (e == KP_OK)
		e = preloaded_read(f, &r);
	f->needed = calloc(f->napps + 1, sizeof(*f->needed));
	e = e == KP_OK && f->needed == NULL ? KP_ENOMEM : e;
	for (size_t i = 0; i < f->napps && e == KP_OK; i++) {
		args[0] = needs[0] = f->apps[i];
		e = ask(f, "application", "get_key", args, 2, &r);
		if (e == KP_OK)
			e = app_modules_read(f, f->apps[i], &r);
		if (e == KP_OK && !IS_IN(f->apps[i], platform_apps))
			e = ask(f, "application", "get_key", needs, 2, &r);
		if (e == KP_OK && !IS_IN(f->apps[i], platform_apps))
			e = needs_read(f, &r);
	}
	return e;
}

enum kp_err
facts_open(struct facts **out, const struct dist_sync_opts *o, char *why,
    size_t n)
{
	struct facts *f = calloc(1, sizeof(*f));
	enum kp_err e;

	if (f == NULL) {
		snprintf(why, n, "out of memory");
		return KP_ENOMEM;
	}
	f->opts = *o;
	e = dist_sync_open(&f->talk, o, why, n);
	if (e == KP_OK) {
		e = list_all(f);
		if (e != KP_OK)
			broken(f, e, why, n);
		leave(f);
	}
	if (e != KP_OK) {
		facts_free(f);
		return e;
	}
	*out = f;
	return KP_OK;
}

void
facts_free(struct facts *f)
{
	if (f == NULL)
		return;
	for (size_t i = 0; i < f->n; i++) {
		for (uint32_t k = 0; k < f->v[i].nexports; k++)
			free(f->v[i].exports[k].fun);
		free(f->v[i].exports);
		free(f->v[i].name);
	}
	for (size_t i = 0; i < f->napps; i++)
		free(f->apps[i]);
	for (size_t i = 0; i < f->nbehaviours; i++)
		free(f->behaviours[i].name);
	free(f->behaviours);
	free(f->apps);
	free(f->needed);
	free(f->v);
	intern_free(&f->by_name);
	free(f);
}

uint64_t
facts_questions(const struct facts *f)
{
	return f->questions;
}

const struct facts_module *
facts_modules(const struct facts *f, size_t *n)
{
	*n = f->n;
	return f->v;
}

const struct facts_module *
facts_find(const struct facts *f, const char *name)
{
	const struct interned *at = intern_get(&f->by_name, name, strlen(name));

	return at != NULL ? &f->v[at->val] : NULL;
}

size_t
facts_apps(const struct facts *f, const char **v, size_t max)
{
	size_t n = 0, k;

	for (size_t i = 0; i < f->napps && n < max; i++) {
		if (IS_IN(f->apps[i], platform_apps))
			continue;
		for (k = 0; k < f->n && f->v[k].app != f->apps[i]; k++)
			;
		if (k < f->n)
			v[n++] = f->apps[i];
	}
	return n;
}

/* ---- one module ---- */

/* [{Fun, Arity}]; an answer that is none says no. */
static bool
callbacks_of_server(struct kp_term *r)
{
	uint32_t n = kp_term_peek(r) == KP_TERM_LIST ? kp_term_list(r) : 0;
	struct kp_span fun;
	bool server = false, init = false, terminate = false;
	int64_t arity;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		fun = kp_term_atom(r);
		arity = kp_term_int(r);
		server |= (kp_span_is(fun, "handle_call") && arity == 3) ||
		    (kp_span_is(fun, "handle_event") && arity >= 3) ||
		    (kp_span_is(fun, "callback_mode") && arity == 0);
		init |= kp_span_is(fun, "init") && arity == 1;
		terminate |= kp_span_is(fun, "terminate") && arity == 2;
	}
	return (server || (init && terminate)) && r->err == KP_OK;
}

static enum kp_err
behaviour_is_server(struct facts *f, struct kp_span name, bool *server)
{
	const char *args[1] = { "callbacks" };
	struct kp_term r;
	char *text;
	enum kp_err e;

	for (size_t i = 0; i < f->nbehaviours; i++)
		if (kp_span_is(name, f->behaviours[i].name)) {
			*server |= f->behaviours[i].server;
			return KP_OK;
		}
	e = vec_room_by_len(&f->behaviours, f->nbehaviours, BEHAVIOURS_MAX);
	if (e != KP_OK)
		return e == KP_ELIMIT ? KP_OK : e;
	text = copy(name);
	if (text == NULL)
		return KP_ENOMEM;
	f->behaviours[f->nbehaviours].name = text;
	f->behaviours[f->nbehaviours].server = IS_IN(text, servers) ||
	    IS_IN(text, statems);
	if (!f->behaviours[f->nbehaviours].server &&
	    facts_find(f, text) != NULL) {
		e = ask(f, text, "behaviour_info", args, 1, &r);
		if (e == KP_OK)
			f->behaviours[f->nbehaviours].server =
			    callbacks_of_server(&r);
	}
	*server |= f->behaviours[f->nbehaviours++].server;
	return e;
}

/* Behaviours that a module's attributes name, copied out of the answer. */
struct named {
	char *v[8];
	size_t n;
};

static enum kp_err
attributes_read(struct kp_term *r, struct named *x)
{
	uint32_t n = kp_term_peek(r) == KP_TERM_LIST ? kp_term_list(r) : 0, k;
	struct kp_span key, name;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		key = kp_term_atom(r);
		if ((!kp_span_is(key, "behaviour") &&
		    !kp_span_is(key, "behavior")) ||
		    kp_term_peek(r) != KP_TERM_LIST) {
			kp_term_skip(r);
			continue;
		}
		k = kp_term_list(r);
		for (uint32_t j = 0; j < k && r->err == KP_OK; j++) {
			name = kp_term_atom(r);
			if (x->n < sizeof(x->v) / sizeof(x->v[0]) &&
			    (x->v[x->n++] = copy(name)) == NULL)
				return KP_ENOMEM;
		}
		kp_term_nil(r);
	}
	return r->err;
}

static enum kp_err
exports_read(struct facts_module *m, struct kp_term *r)
{
	uint32_t n = kp_term_peek(r) == KP_TERM_LIST ? kp_term_list(r) : 0;
	struct kp_span fun;
	int64_t arity;

	for (uint32_t i = 0; i < n && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		fun = kp_term_atom(r);
		arity = kp_term_int(r);
		if (r->err != KP_OK || arity < 0 || arity > 255 ||
		    vec_room_by_len(&m->exports, m->nexports,
		    FACTS_EXPORTS_MAX) != KP_OK)
			break;
		m->exports[m->nexports].arity = (uint32_t)arity;
		m->exports[m->nexports].fun = copy(fun);
		if (m->exports[m->nexports++].fun == NULL)
			return KP_ENOMEM;
	}
	return r->err;
}

/*
 * code:which/1: was it loaded from a file, or preloaded?  What is compiled at run time
 * has the name of its source there, or none, and is called differently tomorrow.
 */
static bool
is_of_file(struct kp_term *r)
{
	char path[4096];
	size_t n;

	if (kp_term_peek(r) == KP_TERM_ATOM)
		return true;	/* preloaded, cover_compiled; or gone by now */
	n = kp_term_string(r, path, sizeof(path));
	return r->err != KP_OK || (n > 5 &&
	    memcmp(path + n - 5, ".beam", 5) == 0);
}

/* A module may be gone by now: its answer is an error, which says nothing. */
static enum kp_err
module_ask(struct facts *f, struct facts_module *m)
{
	const char *args[2] = { m->name, "exports" };
	struct named named = { .n = 0 };
	struct kp_span s;
	struct kp_term r;
	enum kp_err e;

	m->asked = true;
	e = ask(f, "erlang", "get_module_info", args, 2, &r);
	if (e == KP_OK)
		e = exports_read(m, &r);
	args[1] = "functions";
	if (e == KP_OK)
		e = ask(f, "erlang", "get_module_info", args, 2, &r);
	if (e == KP_OK && kp_term_peek(&r) == KP_TERM_LIST)
		m->functions = kp_term_list(&r);
	args[1] = "attributes";
	if (e == KP_OK)
		e = ask(f, "erlang", "get_module_info", args, 2, &r);
	if (e == KP_OK)
		e = attributes_read(&r, &named);
	for (size_t i = 0; i < named.n && e == KP_OK; i++) {
		s = (struct kp_span){ (const uint8_t *)named.v[i],
			(uint32_t)strlen(named.v[i]) };
		m->statem |= IS_IN(named.v[i], statems);
		e = behaviour_is_server(f, s, &m->server);
	}
	for (size_t i = 0; i < named.n; i++)
		free(named.v[i]);
	if (e == KP_OK && m->app[0] == '\0') {
		e = ask(f, "code", "which", args, 1, &r);
		m->unnamed = e == KP_OK && !is_of_file(&r);
	}
	return e;
}

enum kp_err
facts_ask(struct facts *f, const char *const *names, size_t n, uint64_t most,
    size_t *taken, char *why, size_t len)
{
	const struct interned *at;
	uint64_t all = 0;
	enum kp_err e = dist_sync_open(&f->talk, &f->opts, why, len);

	*taken = 0;
	if (e != KP_OK)
		return e;
	while (*taken < n && all <= most && e == KP_OK) {
		at = intern_get(&f->by_name, names[*taken],
		    strlen(names[*taken]));
		if (at != NULL && !f->v[at->val].asked)
			e = module_ask(f, &f->v[at->val]);
		if (at != NULL)
			all += f->v[at->val].functions;
		++*taken;
	}
	leave(f);
	return e == KP_OK ? e : broken(f, e, why, len);
}

/* ---- functions ---- */

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
is_exported(const struct facts_module *m, const char *fun, uint32_t arity)
{
	for (uint32_t i = 0; i < m->nexports; i++)
		if (m->exports[i].arity == arity &&
		    strcmp(m->exports[i].fun, fun) == 0)
			return true;
	return false;
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
			e = module_ask(f, m);
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
		fns[i].exported = is_exported(m, fn->fun, fn->arity);
		fns[i].callback = is_callback(m, fn->fun, fn->arity,
		    fns[i].exported);
	}
	leave(f);
	if (e != KP_OK) {
		free(fns);
		return broken(f, e, why, n);
	}
	*out = fns;
	return KP_OK;
}
