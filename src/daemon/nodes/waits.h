/*
 * waits.h - the servers of one target that answer requests while they carry the
 * tokens of others, by name: those that make traced calls, which kp_requests finds;
 * and those that do not, such as the manager of a pool, for which requests are found
 * to wait.
 *
 * The target is asked what requests wait for while their calls come with other
 * requests' tokens, a few times at most.
 */
#ifndef KPROFD_DAEMON_NODES_WAITS_H
#define KPROFD_DAEMON_NODES_WAITS_H

#include "kprofd/request.h"
#include "kprofd/waits.h"

#define WAITS_SERVERS_MAX 4	/* that are reported */
#define WAITS_CROSSED_MAX 8	/* whose names are not known yet */

struct waits {
	struct kp_waits v[WAITS_SERVERS_MAX];
	size_t n;
	struct waits_crossed {
		uint64_t proc;
		char text[400];	/* what is said behind its name */
	} crossed[WAITS_CROSSED_MAX];	/* the first `named` are asked for */
	unsigned ncrossed, named;
	char drains[900];	/* of the last of these; "": there was none */
	bool asked;		/* an answer is under way */
	unsigned looks;		/* so far */
	kp_mono_ns looked;	/* when it was asked last */
	uint64_t strayed;	/* kp_requests_strayed() at the last look */
};

/* No more answers come: reports servers that were asked for their names without. */
void waits_end(struct target *t);
/* For a new connection. */
void waits_restart(struct target *t);
/* As on_crossed of struct kp_requests_opts. */
void waits_on_crossed(void *ctx, uint32_t node, uint64_t proc,
    const struct kp_fn *fn);
/*
 * Asks the target, if there is a reason and the last time is this long ago.  In a
 * check the reason is the check.
 */
void waits_ask(struct target *t, kp_dur_ns every);
/* As on_waits of struct agent_ops. */
void waits_on_answer(struct target *t, const struct kp_term *answer);

#endif
