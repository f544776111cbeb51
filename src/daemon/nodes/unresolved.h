/*
 * unresolved.h - functions that tiers.conf names and a target does not have.  A
 * function may be missing on some targets; if all lack it, that is a mistake.
 * Pure.
 */
#ifndef KPROFD_DAEMON_NODES_UNRESOLVED_H
#define KPROFD_DAEMON_NODES_UNRESOLVED_H

#include "kprofd/config.h"

/* Of one target; all zero: it was not asked yet. */
struct unresolved {
	bool known;		/* it was asked */
	bool more;		/* there are more than fit */
	size_t n;
	struct kp_pos v[KP_DIAG_MAX];	/* where tiers.conf names them */
};

/* Takes the errors, not the warnings, that the target reports. */
void unresolved_set(struct unresolved *m, const struct kp_diags *diags);
/* True: each function that m lacks is present on at least one of the others. */
bool unresolved_elsewhere(const struct unresolved *m,
    const struct unresolved *const *others, size_t n);

#endif
