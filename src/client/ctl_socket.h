/*
 * ctl_socket.h - sends one command through the control socket of a daemon, and
 * reads the answer: for kprof, and for kprofd -check -control.
 */
#ifndef KPROFD_CLIENT_CTL_SOCKET_H
#define KPROFD_CLIENT_CTL_SOCKET_H

#include <stdbool.h>
#include <stddef.h>

#include "kprofd/buf.h"
#include "kprofd/clock.h"

#define CTL_SILENCE_S 30	/* the longest wait for a daemon that works */
#define CTL_LINE_MAX 1000	/* bytes of a command; the daemon takes some more */
#define CTL_ANSWER_MAX (1u << 20)	/* bytes of all messages of a command */
#define CTL_MARK_MAX 256	/* bytes of the text of a mark, or of a type's name */
#define TRACE_FOR_MAX (60 * KP_NS_PER_S)	/* that a trace may wait for its request */
#define TRACE_EVENTS_MAX 1000000	/* and events that it may take */

struct ctl_request {
	const char *path;	/* of the socket */
	const char *see;	/* options that say where it is: "-control" */
	const char *bytes;	/* the command: a line, maybe a text behind it */
	size_t n;
	unsigned patience;	/* s: until its answer, or, if each, until each
				   message */
	bool each;
	kp_dur_ns quiet;	/* after this silence on_quiet is called; 0: no */
	size_t most;		/* bytes of all messages */
	void *ctx;
	/* A message before the answer.  False: such a kind is not understood. */
	bool (*on_message)(void *ctx, const char *kind,
	    const struct kp_buf *text);
	void (*on_quiet)(void *ctx, const char *path);	/* may be NULL */
};

/*
 * Makes the line of a command that takes globs of targets, with a blank between
 * them; NULL: all.  False: they are too many.
 */
bool ctl_line(char line[CTL_LINE_MAX], const char *command, const char *globs);
/* Returns what is wrong with the text of a mark, such as "is empty"; NULL: nothing. */
const char *ctl_mark_wrong(const char *text);
/* Appends a text that ctl_mark_wrong() accepts.  False: the line becomes too long. */
bool ctl_line_mark(char line[CTL_LINE_MAX], const char *text);
/*
 * KP_OK: the answer is in `answer`; KP_ESTATE: the daemon refused, `why` holds
 * its words; otherwise it was not reached or not understood, and `why` says how.
 */
enum kp_err ctl_request(const struct ctl_request *r, struct kp_buf *answer,
    char *why, size_t n);

#endif
