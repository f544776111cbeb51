/*
 * suggest_run.h - the state of one kprof suggest, and its steps.  They return
 * OPTS_GO_ON, or with what to exit, after saying why.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_SUGGEST_RUN_H
#define KPROFD_CLIENT_FUNCTIONS_SUGGEST_RUN_H

#include "client/functions/suggest_check.h"
#include "client/functions/suggest_node.h"

struct suggest_args {
	const char *target, *file, *duration, *library;
	struct reach reach;
	bool values, quiet;
	kp_dur_ns span;
};

/* What has been learnt, and the text that comes of it. */
struct suggest_run {
	const struct suggest_args *a;
	struct suggest_node node;
	/* Of all processes. */
	struct kp_call_names *names;	/* calls' */
	struct kp_call_names *own_names;	/* of a trace, if it is one */
	struct suggest_calls *calls;
	struct suggest_fn *fns;
	struct suggest_entry entries[SUGGEST_ENTRIES_MAX];
	size_t nentries, chosen;
	/* Of requests of the chosen one. */
	struct kp_call_names *in_names;
	struct suggest_calls *in_calls;
	struct suggest_fn *in_fns;
	struct suggest_tiers tiers;
	struct suggest_check check;
	struct kp_buf about, clause, why, text, verdict;
	kp_mono_ns begun;
	bool traced;		/* all processes were, since samples show none */
	bool asked;		/* for the chosen entry, by a key */
	char not_good[4096];	/* why the last one was not */
};


/* To standard error, unless -quiet. */
void __attribute__((format(printf, 2, 3)))
suggest_progress(const struct suggest_run *r, const char *fmt, ...);
/* text has FN_NAME_MAX bytes, and is returned. */
const char *suggest_entry_name(const struct suggest_run *r, size_t i, char *text);
int suggest_failed(const struct suggest_run *r, enum kp_err e);
void suggest_forget(struct suggest_run *r);
/* Says what is proposed; file: where it is, or "". */
void suggest_summary(const struct suggest_run *r, const char *file);
/* Makes r->about. */
void suggest_about(struct suggest_run *r);

/* ---- suggest_entry.c ---- */

/* Proposes with entry r->chosen.  EXIT_DONE: it is not one; r->not_good says why. */
int suggest_entry_try(struct suggest_run *r);
/* Tries the best ones.  EXIT_DONE: none of them is good. */
int suggest_entries_try(struct suggest_run *r);

/* ---- suggest_keys.c ---- */

/* Is there a terminal, and a file to write? */
bool suggest_keys_wanted(const struct suggest_run *r);
/* OPTS_GO_ON: the proposal is taken.  EXIT_DONE: it is not, which is said. */
int suggest_keys(struct suggest_run *r);

#endif
