/*
 * progress.h - what kprofd logs without being asked: which nodes it profiles,
 * where the figures go, hints while there are none, and at the end what was
 * measured and lost.
 */
#ifndef KPROFD_DAEMON_PROGRESS_H
#define KPROFD_DAEMON_PROGRESS_H

#include "daemon/daemon.h"
#include "kprofd/loss.h"
#include "store/store.h"

struct target;

/* Zeroed at the start, but for the first. */
struct progress {
	bool tty;		/* stderr is a terminal */
	kp_mono_ns began;	/* tracing was on first; 0: not yet */
	bool logged_where;	/* the line about the database was logged */
	bool logged_absent, logged_uncalled;	/* hints */
	uint64_t measured, calls;	/* requests, of all closed windows */
	struct kp_losses lost;
	struct kp_store_status store;	/* when the database was closed */
};

/* Tracing is on in t. */
void progress_armed(struct progress *g, struct target *t);
/* To be called once a second. */
void progress_tick(struct progress *g, const struct parts *p);
/* A window of t is closed. */
void progress_window(struct progress *g, const struct target *t,
    const struct kp_window *w);
/* When all windows are closed. */
void progress_done(const struct progress *g, const struct parts *p);

#endif
