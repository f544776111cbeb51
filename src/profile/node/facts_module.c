/* facts_module.c - asks a node about one module: its functions, and what it serves. */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "profile/node/facts_state.h"

#define BEHAVIOURS_MAX 200u

static const char *const servers[] = { "gen_server", "gen_event",
	"supervisor", "supervisor_bridge", "Elixir.GenServer",
	"Elixir.Supervisor", "Elixir.DynamicSupervisor", "Elixir.GenEvent" };
static const char *const statems[] = { "gen_statem", "gen_fsm" };

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
	text = facts_copy(name);
	if (text == NULL)
		return KP_ENOMEM;
	f->behaviours[f->nbehaviours].name = text;
	f->behaviours[f->nbehaviours].server = FACTS_IS_IN(text, servers) ||
	    FACTS_IS_IN(text, statems);
	if (!f->behaviours[f->nbehaviours].server &&
	    facts_find(f, text) != NULL) {
		e = facts_question(f, text, "behaviour_info", args, 1, &r);
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
			    (x->v[x->n++] = facts_copy(name)) == NULL)
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
		m->exports[m->nexports].fun = facts_copy(fun);
		if (m->exports[m->nexports++].fun == NULL)
			return KP_ENOMEM;
	}
	return r->err;
}

/* .../ssl-10.8.7/ebin/tls_sender.beam: a module of OTP or Elixir. */
static bool
is_platform_file(char *path)
{
	char *end = strstr(path, "/ebin/"), *next, *app;

	while (end != NULL && (next = strstr(end + 1, "/ebin/")) != NULL)
		end = next;
	if (end == NULL)
		return false;
	*end = '\0';
	app = strrchr(path, '/');
	app = app != NULL ? app + 1 : path;
	app[strcspn(app, "-")] = '\0';
	return facts_is_platform(app);
}

/*
 * code:which/1.  What is compiled at run time has the name of its source there, or
 * none, and is called differently tomorrow.  TLS distribution runs without its
 * application being loaded, so that the file alone says whose its modules are.
 */
static void
which_read(struct facts_module *m, struct kp_term *r)
{
	char path[4096];
	size_t n;

	if (kp_term_peek(r) == KP_TERM_ATOM)
		return;		/* preloaded, cover_compiled; or gone by now */
	n = kp_term_string(r, path, sizeof(path));
	if (r->err != KP_OK)
		return;
	m->unnamed = n <= 5 || memcmp(path + n - 5, ".beam", 5) != 0;
	m->platform |= !m->unnamed && is_platform_file(path);
}

bool
facts_is_exported(const struct facts_module *m, const char *fun,
    uint32_t arity)
{
	for (uint32_t i = 0; i < m->nexports; i++)
		if (m->exports[i].arity == arity &&
		    strcmp(m->exports[i].fun, fun) == 0)
			return true;
	return false;
}

/* A release may be stripped of the attributes that name behaviours. */
static void
guess_behaviour(struct facts_module *m)
{
	bool init = facts_is_exported(m, "init", 1);

	m->statem |= init && facts_is_exported(m, "callback_mode", 0);
	m->server |= m->statem || (init && facts_is_exported(m, "handle_call", 3) &&
	    facts_is_exported(m, "handle_cast", 2));
}

enum kp_err
facts_module_ask(struct facts *f, struct facts_module *m)
{
	const char *args[2] = { m->name, "exports" };
	struct named named = { .n = 0 };
	struct kp_span s;
	struct kp_term r;
	enum kp_err e;

	m->asked = true;
	e = facts_question(f, "erlang", "get_module_info", args, 2, &r);
	if (e == KP_OK)
		e = exports_read(m, &r);
	args[1] = "functions";
	if (e == KP_OK)
		e = facts_question(f, "erlang", "get_module_info", args, 2, &r);
	if (e == KP_OK && kp_term_peek(&r) == KP_TERM_LIST)
		m->functions = kp_term_list(&r);
	args[1] = "attributes";
	if (e == KP_OK)
		e = facts_question(f, "erlang", "get_module_info", args, 2, &r);
	if (e == KP_OK)
		e = attributes_read(&r, &named);
	for (size_t i = 0; i < named.n && e == KP_OK; i++) {
		s = (struct kp_span){ (const uint8_t *)named.v[i],
			(uint32_t)strlen(named.v[i]) };
		m->statem |= FACTS_IS_IN(named.v[i], statems);
		e = behaviour_is_server(f, s, &m->server);
	}
	if (e == KP_OK && named.n == 0)
		guess_behaviour(m);
	for (size_t i = 0; i < named.n; i++)
		free(named.v[i]);
	if (e == KP_OK && m->app[0] == '\0') {
		e = facts_question(f, "code", "which", args, 1, &r);
		if (e == KP_OK)
			which_read(m, &r);
	}
	return e;
}
