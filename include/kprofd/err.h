/*
 * err.h - defines the error codes of the core.
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
	KP_EFORMAT,	/* input is malformed */
	KP_ELIMIT,	/* a named cap was reached */
	KP_ENOMEM,	/* an allocation failed */
	KP_EIO,		/* a system call failed: see errno */
	/*
	 * The thing named does not exist; of decoders: a well-formed element of a
	 * kind that is not known, which was skipped: go on.
	 */
	KP_ENOENT,
	KP_EBUSY,	/* another process holds it */
	KP_ESTATE,	/* not possible in this state */
	KP_ETIMEOUT	/* a deadline passed */
};

/* Returns a short phrase in lower case, without a full stop; static. */
const char *kp_err_str(enum kp_err e);

#endif
