/*
 * unresolved.c - compares functions by their positions in tiers.conf.
 */
#include "daemon/nodes/unresolved.h"

void
unresolved_set(struct unresolved *m, const struct kp_diags *diags)
{
	size_t kept = 0;

	*m = (struct unresolved){ .known = true };
	for (size_t i = 0; i < diags->n; i++) {
		if (diags->v[i].warning)
			continue;
		kept++;
		if (m->n < KP_DIAG_MAX)
			m->v[m->n++] = diags->v[i].pos;
	}
	m->more = diags->errors > kept;
}

static bool
has(const struct unresolved *m, struct kp_pos pos)
{
	if (!m->known || m->more)
		return false;
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].line == pos.line && m->v[i].col == pos.col)
			return false;
	return true;
}

bool
unresolved_elsewhere(const struct unresolved *m,
    const struct unresolved *const *others, size_t n)
{
	bool found;

	if (m->more)
		return false;
	for (size_t i = 0; i < m->n; i++) {
		found = false;
		for (size_t j = 0; j < n && !found; j++)
			found = has(others[j], m->v[i]);
		if (!found)
			return false;
	}
	return true;
}
