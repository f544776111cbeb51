/*
 * critical_path.h - the requests of a full trace: which processes worked
 * for each, where its time went, and its critical path.  Pure.
 *
 * The critical path is found backwards from the request's end: the work of a
 * process since the message that it had waited for; the time of that message in
 * the mailbox; the work of its sender before sending it; and so on, until the
 * request began.  A message that arrived while its receiver worked for the
 * request was not waited for.  A spawn is a message to the new process.
 */
#ifndef KPROFD_CALLS_CRITICAL_PATH_H
#define KPROFD_CALLS_CRITICAL_PATH_H

#include "calls/call_trace.h"

#define KP_CRITICAL_EVENTS_MAX (1u << 22)	/* kept events: 160 MiB */
#define KP_CRITICAL_STEPS_MAX 4096u		/* of one critical path */
#define KP_PROC_NONE UINT32_MAX

enum kp_critical_path_part {
	KP_PART_OWN,		/* running */
	KP_PART_OUT,		/* scheduled out, or waiting */
	KP_PART_GC,
	KP_PART_MAILBOX		/* sent, and not yet taken */
};
#define KP_PARTS (KP_PART_MAILBOX + 1)

struct kp_critical_path_request {
	uint32_t number, proc, fn;	/* fn in proc began it */
	uint32_t caller;		/* its return there ends the request */
	kp_target_ns begin, end;
	bool called, ended;
	struct kp_span args;	/* of that call, or empty */
};

/* The work of one process for a request. */
struct kp_critical_path_work {
	uint32_t request, proc;
	uint32_t by;		/* sender of its first message, or KP_PROC_NONE */
	uint32_t messages;	/* received */
	kp_target_ns first;
	kp_dur_ns parts[KP_PARTS];
};

/* A step of a critical path; it begins where the one before ended. */
struct kp_critical_path_step {
	uint32_t proc;
	kp_target_ns from, to;
	kp_dur_ns parts[KP_PARTS];
};

/* To be read after kp_critical_path_end(). */
struct kp_critical_path {
	struct kp_critical_path_request *requests;
	struct kp_critical_path_work *works;	/* by request, in order of time */
	uint32_t nrequests, nworks;
	uint64_t overflow;	/* entries over a limit */
	struct kp_critical_path_state *state;	/* private */
};

/* NULL when out of memory. */
struct kp_critical_path *kp_critical_path_new(void);
void kp_critical_path_free(struct kp_critical_path *w);
/* KP_OK or KP_ENOMEM, which sticks.  An event's arguments must stay valid. */
enum kp_err kp_critical_path_add(struct kp_critical_path *w,
    const struct kp_call_event *ev);
/* Adds time that a process spent in traced functions for a request. */
void kp_critical_path_spent(struct kp_critical_path *w, uint32_t request,
    uint32_t proc, enum kp_critical_path_part part, kp_target_ns from, kp_target_ns to);
enum kp_err kp_critical_path_end(struct kp_critical_path *w);

/*
 * The critical path of a request that has ended, in the order of time.  The
 * caller frees *steps.  KP_ELIMIT: its beginning is missing.
 */
enum kp_err kp_critical_path_steps(const struct kp_critical_path *w,
    const struct kp_critical_path_request *r,
    struct kp_critical_path_step **steps, uint32_t *n);

#endif
