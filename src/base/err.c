/* err.c - returns texts for the core's errors. */
#include "kprofd/err.h"

const char *
kp_err_str(enum kp_err e)
{
	switch (e) {
	case KP_OK:
		return "no error";
	case KP_END:
		return "end of input";
	case KP_ESHORT:
		return "input ends too early";
	case KP_EFORMAT:
		return "malformed input";
	case KP_ELIMIT:
		return "limit reached";
	case KP_ENOMEM:
		return "out of memory";
	case KP_EIO:
		return "system call failed";
	case KP_ENOENT:
		return "no such thing";
	case KP_EBUSY:
		return "in use";
	case KP_ESTATE:
		return "not possible now";
	case KP_ETIMEOUT:
		return "timed out";
	}
	return "unknown error";
}
