/*
 * err.h - the error vocabulary of the core.
 *
 * Pure code returns one of these and logs nothing; the edges log, and only
 * main exits.  A function that fails leaves the caller's state as it was.
 */
#ifndef KPROFD_ERR_H
#define KPROFD_ERR_H

enum kp_err {
	KP_OK = 0,
	KP_END,		/* no more items: not a failure */
	KP_ESHORT,	/* input ends in the middle of something */
	KP_EFORMAT,	/* input is not what it has to be */
	KP_ELIMIT,	/* a named cap was reached */
	KP_ENOMEM,	/* the allocator said no */
	KP_EIO,		/* a system call failed: errno says how */
	KP_ENOENT,	/* the thing named does not exist */
	KP_EBUSY,	/* another process holds it */
	KP_ESTATE,	/* not possible in this state */
	KP_ETIMEOUT	/* a deadline passed */
};

/* A short English phrase, lower case, no full stop; static storage. */
const char *kp_err_str(enum kp_err e);

#endif
