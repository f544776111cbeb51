/*
 * facts.h - what runs in a node: its applications and modules, and which functions
 * servers call back.  It asks over rex, loads nothing, and leaves nothing.
 * Blocking, for the client.
 */
#ifndef KPROFD_PROFILE_NODE_FACTS_H
#define KPROFD_PROFILE_NODE_FACTS_H

#include <stdbool.h>

#include "conn/sync.h"
#include "kprofd/config.h"
#include "suggest/call_tree.h"

#define FACTS_APPS_MAX 1000u
#define FACTS_MODULES_MAX 20000u	/* a large node has 5,000 */
#define FACTS_EXPORTS_MAX 20000u	/* of one module */

struct facts_export {
	char *fun;
	uint32_t arity;
};

struct facts_module {
	char *name;
	const char *app;	/* "": of none that is known */
	bool platform;		/* of OTP, of Elixir, or kprof's */
	bool asked;		/* the rest is known: */
	bool server, statem;
	bool unnamed;		/* no file: made at run time, under any name */
	struct facts_export *exports;
	uint32_t nexports;
	uint32_t functions;	/* all of them */
};

struct facts;

/*
 * Connects for a moment, and lists applications and loaded modules, if the node has
 * room for profiles that take `memory` bytes (injected_room()).  o's texts are
 * borrowed.  On error `why` is one line for the user; KP_END: woken.
 */
enum kp_err facts_open(struct facts **f, const struct dist_sync_opts *o,
    uint64_t memory, char *why, size_t n);
void facts_free(struct facts *f);

/* That the node has been asked, each in a process of its own. */
uint64_t facts_questions(const struct facts *f);
/* In the order of names. */
const struct facts_module *facts_modules(const struct facts *f, size_t *n);
const struct facts_module *facts_find(const struct facts *f, const char *name);
/* True for OTP's own clients and databases, whose calls are boundaries. */
bool facts_is_client(const char *mod);
/* Is the application OTP's or Elixir's? */
bool facts_is_platform(const char *app);
/* Applications that are not of the platform and have loaded modules. */
size_t facts_apps(const struct facts *f, const char **v, size_t max);
/*
 * Asks about these modules in turn, until they have more than `most` functions.
 * *taken: how many were asked about.  Errors as facts_open().
 */
enum kp_err facts_ask(struct facts *f, const char *const *names, size_t n,
    uint64_t most, size_t *taken, char *why, size_t len);
/*
 * Describes each function of t, from the first on; asks the node about modules that
 * it has not asked about yet.  The caller frees *fns.  Errors as facts_open().
 */
enum kp_err facts_describe(struct facts *f, const struct kp_call_names *t,
    struct suggest_fn **fns, char *why, size_t n);

#endif
