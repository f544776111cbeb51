/*
 * suggest_check.h - has kprofd -check judge a proposal.  It runs the kprofd beside
 * this program, or the one in PATH.
 */
#ifndef KPROFD_CLIENT_FUNCTIONS_SUGGEST_CHECK_H
#define KPROFD_CLIENT_FUNCTIONS_SUGGEST_CHECK_H

#include "conn/sync.h"

#define SUGGEST_SAID_MAX (1u << 20)	/* bytes that are read of its output */

struct suggest_check {
	const struct dist_sync_opts *talk;
	const char *library;		/* of the native probe, or NULL */
	kp_dur_ns span;			/* how long it counts calls */
	bool explain, values;
	struct kp_buf out, log;		/* what it said; log: JSON lines */
	int status;			/* its exit status */
	char file[4096];		/* that it read: gone by now */
};

/* Initialises out and log, which the caller frees. */
void suggest_check_init(struct suggest_check *c);
void suggest_check_free(struct suggest_check *c);
/*
 * Checks this text.  KP_OK: status says how; KP_END: a signal came, and it has
 * ended; else `why` is one line for the user.
 */
enum kp_err suggest_check_run(struct suggest_check *c, const struct kp_buf *text,
    char *why, size_t n);
/* Appends the messages of the log that are warnings or errors, one a line. */
void suggest_check_messages(struct suggest_check *c, struct kp_buf *b);
/* The line of out that begins so, without that; NULL: there is none. */
char *suggest_check_line(struct suggest_check *c, const char *begin);

#endif
