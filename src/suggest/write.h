/*
 * write.h - the text of a proposed tiers.conf, with comments that say why.  Pure.
 */
#ifndef KPROFD_SUGGEST_WRITE_H
#define KPROFD_SUGGEST_WRITE_H

#include "suggest/propose.h"

#define SUGGEST_FILE_MAX (256u << 10)	/* bytes */

struct suggest_file {
	const char *node, *date;
	/* Other options with which kprofd reaches the node: " -dist-port 4370"; or "". */
	const char *reach;
	const struct kp_call_names *names;
	const struct suggest_fn *fns;
	/* The best first, of a trace with other names. */
	const struct suggest_entry *entries;
	const struct kp_call_names *entry_names;
	size_t nentries, chosen;	/* chosen: which of them it is for */
	const struct suggest_tiers *tiers;
	/* Calls a second; < 0: unknown. */
	double (*rate)(const void *ctx, const struct kp_call_fn *fn);
	const void *ctx;
	/* Lines without "% ", for the beginning; "" : none. */
	const char *about, *verdict;
	const char *clause, *why;	/* of the identity fun; or "" */
	bool paths;			/* request types are paths */
};

void suggest_write(const struct suggest_file *f, struct kp_buf *b);
/*
 * A draft without comments, whose identity fun has no clause: for kprofd -check
 * -explain.
 */
void suggest_write_draft(const struct suggest_file *f, struct kp_buf *b);

#endif
