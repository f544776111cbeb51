/* facts_state.h - what the files of facts.h share. */
#ifndef KPROFD_PROFILE_NODE_FACTS_STATE_H
#define KPROFD_PROFILE_NODE_FACTS_STATE_H

#include "base/intern.h"
#include "profile/node/facts.h"

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

#define FACTS_IS_IN(name, list) \
	facts_is_in(name, list, sizeof(list) / sizeof((list)[0]))
bool facts_is_in(const char *name, const char *const *list, size_t n);
/* NULL: out of memory. */
char *facts_copy(struct kp_span s);
/* Calls mod:fun(...args), atoms; r is at the answer. */
enum kp_err facts_question(struct facts *f, const char *mod, const char *fun,
    const char *const *args, uint32_t n, struct kp_term *r);
/* Writes what e is for the user, and returns it. */
enum kp_err facts_broken(const struct facts *f, enum kp_err e, char *why,
    size_t n);
/* Closes the connection, so that somebody else of our name can connect meanwhile. */
void facts_leave(struct facts *f);

/* ---- facts_module.c ---- */

/* Asks about one module.  It may be gone: its answer is an error, which says nothing. */
enum kp_err facts_module_ask(struct facts *f, struct facts_module *m);
bool facts_is_exported(const struct facts_module *m, const char *fun,
    uint32_t arity);

#endif
