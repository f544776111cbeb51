/*
 * known.h - frameworks and clients that are widely used, by their modules.  Names
 * help to explain a proposal; the proposal itself does not need them.  Pure.
 */
#ifndef KPROFD_SUGGEST_KNOWN_H
#define KPROFD_SUGGEST_KNOWN_H

#include <stddef.h>
#include <stdint.h>

struct suggest_known {
	const char *module;	/* it is loaded where the framework is */
	const char *name;
	const char *does;	/* "HTTP requests" */
	const char *example;	/* in priv/examples, or NULL */
	/* Its requests, as that file has them; mod NULL: see there. */
	const char *mod, *fun;
	uint32_t arity;
	const char *identity;	/* clauses of the identity fun */
};

extern const struct suggest_known suggest_known[];
extern const size_t suggest_nknown;

/* The framework whose requests this function is; NULL: of none. */
const struct suggest_known *suggest_known_entry(const char *mod,
    const char *fun, uint32_t arity);

#endif
