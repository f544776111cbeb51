/*
 * vmsim.h - random programs on simulated processes, the trace events that
 * the VM would send of them, and the truth about every traced call.
 *
 * Each process has a clock of its own, so children work at the same time as
 * whoever spawned them; a message or a wait only moves the clock of who waits.
 * Functions run as frames: they call (and catch, or not), end in tail calls,
 * raise, call servers and reply later, spawn, cast, set timers and die.
 *
 * All times here are true ones.  Processes may be on several nodes, whose
 * clocks say something else of them: sim_clock().  A message between nodes
 * takes some time.
 *
 *   vmsim.c   the VM: frames, tokens, and which events there are
 *   vmprog.c  the programs
 */
#ifndef TEST_VMSIM_H
#define TEST_VMSIM_H

#include "kprofd/request.h"

enum { SIM_LANES = 6, SIM_DEPTH = 24, SIM_CHAIN = 4, SIM_LABELS = 20000,
	SIM_NODES = 4 };

/* What programs do; percentages are of operations, or of functions' ends. */
struct sim_traits {
	bool otp25;
	bool nested;		/* requests inside requests */
	bool recursive;		/* traced functions call themselves */
	bool exact;		/* x and y have value-carrying returns */
	bool finish;		/* requests end where fin returns */
	bool loops;		/* a server's loop is a function of a tier */
	bool pool;		/* one worker serves all lanes */
	bool anything;		/* also where nobody could tell what is true */
	unsigned nodes;		/* that there are; 0: one */
	/* Percent: rpc:call to another node, which on OTP 25 takes the token. */
	unsigned rpc;
	unsigned raise, tail;
	unsigned spawn, cast, defer, die, timer, cut;
};

/* The truth about one traced call. */
struct sim_call {
	uint64_t label;		/* of its request */
	const char *fn;
	kp_target_ns start, end;
	uint32_t proc;
	uint32_t from;		/* who sent the token */
	int parent;		/* the innermost of its process, or -1 */
	int end_event;		/* in sim.ev; -1: there is none */
	uint8_t outcome;	/* as kprofd is to say it; KP_OPEN: no end */
	uint8_t or_how;		/* AMBIGUOUS: or so, or unknown, if it is
				   sure that it was a tail call */
	bool tail;		/* ended in a tail call */
	bool loose;		/* the VM does not tell when or how it ended */
	bool passed;		/* nor that it goes on, until it ends */
	/* of the test, while it feeds */
	bool fed, after_close, found, outlasts;
};

struct sim_event {
	struct kp_event ev;	/* but for its terms: */
	const char *fn, *caller, *identity;
	int call;		/* in sim.v, if it opens one, or -1 */
	bool fed;
};

/* What the programs know of one request. */
struct sim_label {
	uint64_t outer;		/* the one it began inside, or 0 */
	const char *name;	/* that its own calls give it, or NULL */
	const char *entry_name;	/* that its entry gives it, or NULL */
	uint32_t weight;
	int entry, finish;	/* in sim.v, or -1 */
	bool over;		/* its entry has ended */
	bool parallel;		/* some of it may run at the same time */
	/* of the test, while it feeds */
	bool closed, named;
	uint32_t identity;	/* once closed */
};

struct sim_frame {
	const char *fn;
	bool marked;		/* the VM put a return_to frame under it */
	int calls[SIM_CHAIN];	/* traced calls of this tail chain */
	int ncalls;
};

struct sim_proc {
	uint32_t id, node;
	kp_target_ns now;
	uint64_t token;
	uint32_t from;		/* who sent it */
	struct sim_frame st[SIM_DEPTH];
	int n;
	int first;		/* call since it left its loop */
	bool dirty;		/* an exception was caught out of sight */
	bool mistaken;		/* what is open there is not known any more */
	bool busy, dead, loops;
	bool unwaited;		/* works for nobody that waits for it */
};

struct sim {
	struct sim_traits t;
	struct sim_call *v;
	int n, cap;
	struct sim_event *ev;
	int nev, evcap;
	struct sim_label *labels;	/* by label; [0] is no request */
	uint64_t label;			/* the last one */
	struct sim_proc **procs;
	uint32_t nprocs, procscap;
	/* Of each node's clock: ahead by, and too fast by. */
	struct { kp_dur_ns skew; int64_t ppm; } clock[SIM_NODES];
};

extern struct sim sim;

/* ---- chance: the same numbers for the same seed ---- */
void rnd_seed(uint64_t seed);
uint64_t rnd(uint64_t below);
bool chance(unsigned percent);

/* Runs programs anew: requests in all. */
void sim_make(const struct sim_traits *t, int requests);
void sim_free(void);

/* What a node's clock says at this time. */
kp_target_ns sim_clock(uint32_t node, kp_target_ns at);
uint32_t sim_node(uint32_t proc);

/* ---- for vmprog.c ---- */
struct sim_proc *vm_spawn(const struct sim_proc *by, uint32_t node);
/* The process goes on at this time of another one, if it is not later. */
void vm_wait(struct sim_proc *p, kp_target_ns until);
/* The same when a message comes from it. */
void vm_hear(struct sim_proc *p, const struct sim_proc *from);
/* Its token becomes another's, as by a message. */
void vm_message(struct sim_proc *to, const struct sim_proc *from);
/* The innermost call that runs in this process, or -1. */
int vm_innermost(const struct sim_proc *p);
/* The request that its next call is of, or 0. */
uint64_t vm_owner(const struct sim_proc *p);
/* The frame on top has just entered its function. */
void vm_enter(struct sim_proc *p);
void vm_leave(struct sim_proc *p);
/* An exception passes all frames above `keep`, whose top one catches it. */
void vm_unwind(struct sim_proc *p, int keep);
/* The process is gone: killed, or of an exception that nobody catches. */
void vm_die(struct sim_proc *p, bool raised);

bool is_entry(const char *fn);
bool is_exact(const char *fn);
bool is_traced(const char *fn);

#endif
