/*
 * headroom.h - asks a node over rex, before anything is loaded there, what it has left
 * of the things whose end is its own end: atoms, processes, and the memory that its
 * control group may have.
 *
 * The questions must be cheap for a node that has next to nothing left.  They name no
 * atom that a node does not have, call only code that every node has loaded, and read
 * files of /proc and /sys/fs/cgroup in the node's own process, which may be in a
 * container.  They do not call erlang:memory(), which makes some
 * 310 atoms the first time.
 */
#ifndef KPROFD_AGENT_HEADROOM_H
#define KPROFD_AGENT_HEADROOM_H

#include "conn/rpc.h"
#include "kprofd/term.h"

/*
 * The first time some 570 atoms are made, and up to 1,620 with the code of OTP's that is
 * loaded for it (kprof suggest, on a node that has loaded next to nothing); the rest is for
 * names, and for what the node makes meanwhile.
 */
#define HEADROOM_ATOMS 2000
#define HEADROOM_PROCESSES 100
#define HEADROOM_MEMORY (UINT64_C(32) << 20)	/* beside the limit of a profile */

#define HEADROOM_DIRS 10	/* of control groups: the process's and those above */
#define HEADROOM_DIR_MAX 256

/* Fields are private; all 0 to begin with. */
struct headroom {
	enum {
		HEADROOM_COUNTS,	/* the question that is next, or was asked */
		HEADROOM_GROUPS,
		HEADROOM_LIMITS,
		HEADROOM_DONE
	} step;
	bool counted, limited;	/* what is known of these: */
	int64_t atom_limit, atoms, process_limit, processes;
	uint64_t memory_limit, memory_left;	/* bytes */
	unsigned ndirs;
	struct headroom_dir {
		char name[HEADROOM_DIR_MAX];
		bool v1;	/* of the first version of control groups */
	} dirs[HEADROOM_DIRS];
};

/* Writes the next question to rex.  False: there is none, all is known. */
bool headroom_ask(struct headroom *h, struct kp_buf *b,
    const struct dist_ids *ids);
/* True: rex, or what it was to call, could not have a process; then why says so. */
bool headroom_is_full(const struct kp_term *answer, const char *target,
    char *why, size_t n);
/* Takes rex's answer.  What makes no sense, or is not there, is not known. */
void headroom_answer(struct headroom *h, struct kp_term *r);
/*
 * True: the node has too little left; why is a sentence with the numbers.  memory:
 * bytes that the profile may let the node grow by.
 */
bool headroom_refuses(const struct headroom *h, const char *target,
    uint64_t memory, char *why, size_t n);

#endif
