/*
 * suggest_facts.c - asks a node about its applications, modules and functions, with
 * erlang/facts.exprs: a few modules at once, each once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent_msg.h"
#include "base/vec.h"
#include "client/functions/suggest.h"
#include "facts_exprs.h"	/* generated */
#include "kprofd/etf.h"
#include "profile/node/injected.h"

#define ANSWER_LIMIT (10 * KP_NS_PER_S)
#define APPS_MAX 1001u
#define MODULES_MAX 20000u	/* a large node has 5,000 */
#define FNS_BYTES_MAX (1u << 20)	/* of what a module exports */
#define ASKED_AT_ONCE 50u	/* modules: 4 ms and 25 KiB */
#define LISTED_AT_ONCE 50u	/* modules, in what one question takes */
#define ASK_MAX (64u << 10)	/* bytes of a question */
#define ATOM_MAX 255u		/* bytes of a name that can be sent */

/* Bits of a module, as facts.exprs has them. */
#define MADE_AT_RUN_TIME 1
#define RUNS_SERVERS 2

static bool
read_bool(struct kp_term *r)
{
	return kp_span_is(kp_term_atom(r), "true");
}

struct facts_module *
facts_find(const struct facts *f, const char *name)
{
	const struct interned *at = intern_get(&f->by_name, name, strlen(name));

	return at != NULL ? &f->v[at->val] : NULL;
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

/* About all, or about n modules.  r is at the answer; {badrpc, _} makes no sense. */
static enum kp_err
question(struct facts *f, struct facts_module *const *v, uint32_t n, struct kp_term *r)
{
	struct kp_span exprs = { kp_facts_exprs, kp_facts_exprs_len };
	struct kp_buf b;
	enum kp_err e;

	f->questions += 1 + n;
	kp_buf_init(&b, ASK_MAX);
	msg_eval_begin(&b, dist_sync_ids(f->talk), exprs, 1);
	kp_etf_tuple(&b, 2);
	kp_etf_atom(&b, "Ask");
	if (n == 0) {
		kp_etf_atom(&b, "all");
	} else {
		kp_etf_tuple(&b, 2);
		kp_etf_atom(&b, "modules");
		kp_etf_list(&b, n);
		for (uint32_t i = 0; i < n; i++)
			kp_etf_atom(&b, v[i]->name);
		kp_etf_nil(&b);
	}
	msg_eval_end(&b);
	e = dist_sync_rpc(f->talk, &b);
	kp_buf_free(&b);
	return e == KP_OK ? dist_sync_answer(f->talk,
	    kp_mono_now() + ANSWER_LIMIT, r) : e;
}

/* ---- applications and modules ---- */

static enum kp_err
app_add(struct facts *f, struct kp_span name)
{
	enum kp_err e = vec_room_by_len(&f->apps, f->napps, APPS_MAX);

	if (e != KP_OK)
		return e;
	f->apps[f->napps] = (struct facts_app){ .name = kp_span_dup(name) };
	return f->apps[f->napps++].name != NULL ? KP_OK : KP_ENOMEM;
}

/* app: its number. */
static enum kp_err
module_add(struct facts *f, struct kp_span name, size_t app, bool platform)
{
	enum kp_err e;

	if (name.n > ATOM_MAX || intern_get(&f->by_name, name.p, name.n) != NULL)
		return KP_OK;
	e = vec_room_by_len(&f->v, f->n, MODULES_MAX);
	if (e == KP_ELIMIT)
		return KP_OK;
	if (e != KP_OK || intern_put(&f->by_name, name.p, name.n,
	    (uint32_t)f->n) == NULL)
		return KP_ENOMEM;
	f->v[f->n] = (struct facts_module){ .name = kp_span_dup(name), .app = app };
	if (f->v[f->n].name == NULL)
		return KP_ENOMEM;
	f->apps[app].loaded = true;
	f->v[f->n].platform = platform ||
	    strncmp(f->v[f->n].name, "kprof_", 6) == 0;
	f->n++;
	return KP_OK;
}

/* [{Name, IsPlatform, IsNeeded, [Module]}] */
static enum kp_err
read_apps(struct facts *f, struct kp_term *r)
{
	uint32_t n = kp_term_list(r), modules;
	struct facts_app *a;
	enum kp_err e = KP_OK;

	for (uint32_t i = 0; i < n && e == KP_OK; i++) {
		kp_term_tuple_n(r, 4);
		e = app_add(f, kp_term_atom(r));
		if (e != KP_OK)
			return e;
		a = &f->apps[f->napps - 1];
		a->platform = read_bool(r);
		a->needed = read_bool(r);
		modules = kp_term_list(r);
		for (uint32_t k = 0; k < modules && e == KP_OK && r->err == KP_OK;
		     k++)
			e = module_add(f, kp_term_atom(r), f->napps - 1,
			    a->platform);
		if (modules > 0)
			kp_term_nil(r);
		e = e != KP_OK ? e : r->err;
	}
	if (n > 0)
		kp_term_nil(r);
	return e != KP_OK ? e : r->err;
}

/* [{Module, IsPlatform}] */
static enum kp_err
read_others(struct facts *f, struct kp_term *r)
{
	uint32_t n = kp_term_list(r);
	struct kp_span name;
	enum kp_err e = KP_OK;

	for (uint32_t i = 0; i < n && e == KP_OK && r->err == KP_OK; i++) {
		kp_term_tuple_n(r, 2);
		name = kp_term_atom(r);
		e = module_add(f, name, 0, read_bool(r));
	}
	return e != KP_OK ? e : r->err;
}

enum kp_err
facts_open(struct facts *f, const struct dist_sync_opts *o, uint64_t memory,
    char *why, size_t n)
{
	struct kp_term r;
	enum kp_err e;

	f->opts = *o;
	e = dist_sync_open(&f->talk, o, why, n);
	if (e != KP_OK)
		return e;
	e = injected_room(f->talk, o->target, memory, why, n);
	if (e == KP_OK) {
		e = app_add(f, (struct kp_span){ NULL, 0 });
		if (e == KP_OK)
			e = question(f, NULL, 0, &r);
		if (e == KP_OK) {
			kp_term_tuple_n(&r, 2);
			e = read_apps(f, &r);
		}
		if (e == KP_OK)
			e = read_others(f, &r);
		if (e != KP_OK)
			broken(f, e, why, n);
		f->questions += f->n / LISTED_AT_ONCE;
	}
	dist_sync_close(f->talk);
	return e;
}

void
facts_free(struct facts *f)
{
	for (size_t i = 0; i < f->n; i++) {
		kp_buf_free(&f->v[i].exports);
		kp_buf_free(&f->v[i].callbacks);
		free(f->v[i].name);
	}
	for (size_t i = 0; i < f->napps; i++)
		free(f->apps[i].name);
	free(f->apps);
	free(f->v);
	intern_free(&f->by_name);
}

bool
facts_is_client(const char *mod)
{
	return strcmp(mod, "httpc") == 0 || strcmp(mod, "mnesia") == 0;
}

bool
facts_is_platform(const struct facts *f, const char *app)
{
	for (size_t i = 0; i < f->napps; i++)
		if (strcmp(f->apps[i].name, app) == 0)
			return f->apps[i].platform;
	return false;
}

size_t
facts_apps(const struct facts *f, const char **v, size_t max)
{
	size_t n = 0;

	for (size_t i = 1; i < f->napps && n < max; i++)
		if (f->apps[i].loaded && !f->apps[i].platform)
			v[n++] = f->apps[i].name;
	return n;
}

/* ---- modules ---- */

/* Copies a list as it came.  One that is too long says nothing. */
static enum kp_err
keep(struct kp_buf *b, struct kp_term *r)
{
	struct kp_span s = kp_term_raw(r);

	kp_buf_init(b, FNS_BYTES_MAX);
	if (r->err == KP_OK)
		kp_buf_put(b, s.p, s.n);
	if (b->err == KP_ELIMIT) {
		kp_buf_free(b);
		kp_buf_init(b, FNS_BYTES_MAX);
	}
	return r->err != KP_OK ? r->err : b->err;
}

/* [{Functions, Bits, Exports, Callbacks}], n of them */
static enum kp_err
read_modules(struct facts_module *const *v, uint32_t n, struct kp_term *r)
{
	int64_t functions, bits;
	enum kp_err e = kp_term_list(r) == n ? KP_OK : KP_EFORMAT;

	for (uint32_t i = 0; i < n && e == KP_OK; i++) {
		kp_term_tuple_n(r, 4);
		functions = kp_term_int(r);
		bits = kp_term_int(r);
		if (r->err != KP_OK || functions < 0 || functions > INT32_MAX)
			return KP_EFORMAT;
		v[i]->asked = true;
		v[i]->functions = (uint32_t)functions;
		v[i]->unnamed = (bits & MADE_AT_RUN_TIME) != 0 &&
		    v[i]->app == 0;
		v[i]->runs_servers = (bits & RUNS_SERVERS) != 0;
		e = keep(&v[i]->exports, r);
		if (e == KP_OK)
			e = keep(&v[i]->callbacks, r);
	}
	return e;
}

enum kp_err
facts_ask(struct facts *f, struct facts_module *const *v, size_t n, uint64_t most,
    size_t *taken, char *why, size_t len)
{
	uint64_t all = 0;
	struct kp_term r;
	uint32_t some;
	enum kp_err e;

	*taken = 0;
	if (n == 0)
		return KP_OK;
	e = dist_sync_open(&f->talk, &f->opts, why, len);
	if (e != KP_OK)
		return e;
	for (size_t i = 0; i < n && all <= most && e == KP_OK; i += some) {
		some = n - i < ASKED_AT_ONCE ? (uint32_t)(n - i) : ASKED_AT_ONCE;
		e = question(f, v + i, some, &r);
		if (e == KP_OK)
			e = read_modules(v + i, some, &r);
		while (e == KP_OK && *taken < i + some && all <= most)
			all += v[(*taken)++]->functions;
	}
	/* So that somebody else of our name can connect meanwhile. */
	dist_sync_close(f->talk);
	return e == KP_OK ? e : broken(f, e, why, len);
}

/* ---- functions ---- */

/* Is it in a list that was kept? */
static bool
has_fn(const struct kp_buf *list, const struct kp_call_fn *fn)
{
	struct kp_term r;
	struct kp_span fun;
	uint32_t n;

	kp_term_begin_raw(&r, list->p, list->len);
	n = list->len > 0 ? kp_term_list(&r) : 0;
	for (uint32_t i = 0; i < n && r.err == KP_OK; i++) {
		kp_term_tuple_n(&r, 2);
		fun = kp_term_atom(&r);
		if (kp_term_int(&r) == fn->arity && kp_span_is(fun, fn->fun) &&
		    r.err == KP_OK)
			return true;
	}
	return false;
}

enum kp_err
facts_describe(struct facts *f, const struct kp_call_names *t,
    struct suggest_fn **out, char *why, size_t len)
{
	struct suggest_fn *fns = calloc(t->nfns + 1, sizeof(*fns));
	struct facts_module **v = calloc(t->nfns + 1, sizeof(struct facts_module *)), *m;
	size_t n = 0, taken;
	bool own;
	enum kp_err e;

	/* Asked is only who is. */
	for (uint32_t i = KP_FN_FIRST; v != NULL && i < t->nfns; i++) {
		m = facts_find(f, t->fns[i].mod);
		if (m == NULL || m->asked ||
		    (m->platform && !facts_is_client(m->name)))
			continue;
		m->asked = true;
		v[n++] = m;
	}
	e = fns != NULL && v != NULL ? facts_ask(f, v, n,
	    UINT64_MAX, &taken, why, len) :
	    broken(f, KP_ENOMEM, why, len);
	free(v);
	for (uint32_t i = 0; i < t->nfns && e == KP_OK; i++) {
		fns[i] = (struct suggest_fn){ .platform = true, .app = "" };
		m = i < KP_FN_FIRST ? NULL : facts_find(f, t->fns[i].mod);
		if (m == NULL)
			continue;
		own = !m->platform || facts_is_client(m->name);
		fns[i].platform = !own || m->runs_servers;
		fns[i].app = f->apps[m->app].name;
		fns[i].unnamed = m->unnamed;
		fns[i].users = !f->apps[m->app].needed;
		fns[i].exported = has_fn(&m->exports, &t->fns[i]);
		fns[i].callback = has_fn(&m->callbacks, &t->fns[i]);
	}
	if (e != KP_OK) {
		free(fns);
		return e;
	}
	*out = fns;
	return KP_OK;
}
