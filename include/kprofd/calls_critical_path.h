/*
 * calls_critical_path.h - requests of a full trace, across their processes: who
 * worked for each, where its time went, and its critical path.  Pure.
 *
 * The critical path is found from the end: what a process did before it, back
 * to the message that it had waited for; how long that message waited to be
 * taken; what its sender did before sending it; and so on, back to the begin of
 * the request.  A message that came while its receiver worked for the request
 * was not waited for.  A spawn is a message to the process that it makes.
 */
#ifndef KPROFD_CALLS_CRITICAL_PATH_H
#define KPROFD_CALLS_CRITICAL_PATH_H

#include "kprofd/calls.h"

#define KP_WAY_EVENTS_MAX (1u << 22)	/* that are kept: 160 MiB */
#define KP_WAY_STEPS_MAX 4096u		/* of one critical path */
#define KP_WAY_NONE UINT32_MAX

enum kp_critical_path_part {
	KP_WAY_OWN,		/* running */
	KP_WAY_OUT,		/* scheduled out, or waiting */
	KP_WAY_GC,
	KP_WAY_MAILBOX		/* sent, and not yet taken */
};
#define KP_WAY_PARTS (KP_WAY_MAILBOX + 1)

struct kp_critical_path_request {
	uint32_t number, proc, fn;	/* what began it, and where */
	uint32_t caller;		/* returned to at the end */
	kp_target_ns begin, end;
	bool called, ended;
	struct kp_span args;	/* of that call, if there are any */
};

/* What a process did for a request. */
struct kp_critical_path_work {
	uint32_t request, proc;
	uint32_t by;		/* who sent its first message; or KP_WAY_NONE */
	uint32_t messages;	/* that it took */
	kp_target_ns first;
	kp_dur_ns parts[KP_WAY_PARTS];
};

/* A stretch of a critical path; each begins where the one before ended. */
struct kp_critical_path_step {
	uint32_t proc;
	kp_target_ns from, to;
	kp_dur_ns parts[KP_WAY_PARTS];
};

/* To be read when it has ended. */
struct kp_critical_path {
	struct kp_critical_path_request *requests;
	struct kp_critical_path_work *works;	/* by request, in order of time */
	uint32_t nrequests, nworks;
	uint64_t overflow;	/* what did not fit into a limit */
	struct kp_critical_path_state *state;	/* private */
};

/* NULL when out of memory. */
struct kp_critical_path *kp_critical_path_new(void);
void kp_critical_path_free(struct kp_critical_path *w);
/* KP_OK or KP_ENOMEM, which sticks.  Arguments, if any, are to stay. */
enum kp_err kp_critical_path_add(struct kp_critical_path *w, const struct kp_call_event *ev);
/* So long was a process within the functions traced, for a request. */
void kp_critical_path_spent(struct kp_critical_path *w, uint32_t request, uint32_t proc,
    enum kp_critical_path_part part, kp_target_ns from, kp_target_ns to);
enum kp_err kp_critical_path_end(struct kp_critical_path *w);

/*
 * The critical path of one that has ended, in the order of time; *steps is the
 * caller's, to be freed.  KP_ELIMIT: its beginning is missing.
 */
enum kp_err kp_critical_path_steps(const struct kp_critical_path *w,
    const struct kp_critical_path_request *r, struct kp_critical_path_step **steps, uint32_t *n);

#endif
