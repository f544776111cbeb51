/* facts.c - asks a node about its applications and modules, one call over rex each. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "kprofd/etf.h"
#include "profile/node/facts_state.h"
#include "profile/node/injected.h"

#define ANSWER_LIMIT (10 * KP_NS_PER_S)

static const char *const platform_apps[] = { "kernel", "stdlib", "sasl",
	"compiler", "crypto", "ssl", "public_key", "asn1", "inets", "mnesia",
	"os_mon", "runtime_tools", "tools", "syntax_tools", "xmerl", "ssh",
	"ftp", "tftp", "eldap", "snmp", "megaco", "diameter", "observer",
	"debugger", "dialyzer", "edoc", "erl_docgen", "erl_interface", "et",
	"eunit", "common_test", "jinterface", "odbc", "parsetools",
	"reltool", "wx", "erts", "elixir", "logger", "eex", "ex_unit", "iex",
	"mix" };

bool
facts_is_in(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, list[i]) == 0)
			return true;
	return false;
}

char *
facts_copy(struct kp_span s)
{
	return strndup(s.n > 0 ? (const char *)s.p : "", s.n);
}

bool
facts_is_platform(const char *app)
{
	return FACTS_IS_IN(app, platform_apps);
}

bool
facts_is_client(const char *mod)
{
	static const char *const clients[] = { "httpc", "mnesia" };

	return FACTS_IS_IN(mod, clients);
}

/* ---- questions ---- */

enum kp_err
facts_broken(const struct facts *f, enum kp_err e, char *why, size_t n)
{
	if (e != KP_END)
		snprintf(why, n, "'%s': %s", f->opts.target, e == KP_ETIMEOUT ?
		    "no answer from the node" : e == KP_EIO ? "the connection "
		    "is over (did the node end?)" : e == KP_ENOMEM ?
		    "out of memory" : e == KP_ELIMIT ? "its answer is too "
		    "large" : "its answer makes no sense");
	return e;
}

enum kp_err
facts_question(struct facts *f, const char *mod, const char *fun,
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

void
facts_leave(struct facts *f)
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
		f->apps[f->napps] = facts_copy(name);
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
	f->v[f->n] = (struct facts_module){ .name = facts_copy(name), .app = "" };
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
	bool platform = FACTS_IS_IN(app, platform_apps);
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

	e = facts_question(f, "application", "loaded_applications", NULL, 0, &r);
	if (e == KP_OK)
		e = apps_read(f, &r);
	if (e == KP_OK)
		e = facts_question(f, "erlang", "loaded", NULL, 0, &r);
	if (e == KP_OK)
		e = loaded_read(f, &r);
	if (e == KP_OK)
		e = facts_question(f, "erlang", "pre_loaded", NULL, 0, &r);
	if (e == KP_OK)
		e = preloaded_read(f, &r);
	f->needed = calloc(f->napps + 1, sizeof(*f->needed));
	e = e == KP_OK && f->needed == NULL ? KP_ENOMEM : e;
	for (size_t i = 0; i < f->napps && e == KP_OK; i++) {
		args[0] = needs[0] = f->apps[i];
		e = facts_question(f, "application", "get_key", args, 2, &r);
		if (e == KP_OK)
			e = app_modules_read(f, f->apps[i], &r);
		if (e == KP_OK && !FACTS_IS_IN(f->apps[i], platform_apps))
			e = facts_question(f, "application", "get_key", needs, 2, &r);
		if (e == KP_OK && !FACTS_IS_IN(f->apps[i], platform_apps))
			e = needs_read(f, &r);
	}
	return e;
}

enum kp_err
facts_open(struct facts **out, const struct dist_sync_opts *o, uint64_t memory,
    char *why, size_t n)
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
		e = injected_room(f->talk, o->target, memory, why, n);
		if (e == KP_OK) {
			e = list_all(f);
			if (e != KP_OK)
				facts_broken(f, e, why, n);
		}
		facts_leave(f);
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
		if (FACTS_IS_IN(f->apps[i], platform_apps))
			continue;
		for (k = 0; k < f->n && f->v[k].app != f->apps[i]; k++)
			;
		if (k < f->n)
			v[n++] = f->apps[i];
	}
	return n;
}

/* ---- modules ---- */

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
			e = facts_module_ask(f, &f->v[at->val]);
		if (at != NULL)
			all += f->v[at->val].functions;
		++*taken;
	}
	facts_leave(f);
	return e == KP_OK ? e : facts_broken(f, e, why, len);
}
