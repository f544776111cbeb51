/*
 * unresolved.h - what tiers.conf names and a target does not have, compared
 * between targets: a function may be missing on one of several, but if all lack
 * it, that is a mistake.  Pure.
 */
#ifndef KPROFD_DAEMON_TARGET_UNRESOLVED_H
#define KPROFD_DAEMON_TARGET_UNRESOLVED_H

#include "kprofd/config.h"

/* One target's; all zero: it was not asked yet. */
struct unresolved {
	bool known;		/* it was */
	bool more;		/* than there is room for */
	size_t n;
	struct kp_pos v[KP_DIAG_MAX];	/* where tiers.conf names them */
};

/* From what the target said of tiers.conf; its warnings are none. */
void unresolved_set(struct unresolved *m, const struct kp_diags *diags);
/* Is each thing that m lacks there on one of the others, at least? */
bool unresolved_elsewhere(const struct unresolved *m,
    const struct unresolved *const *others, size_t n);

#endif
