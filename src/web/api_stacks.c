/* api_stacks.c - sampled stacks: those of a report, of one tier if one is asked for. */
#include <string.h>

#include "api_stacks.h"
#include "base/sat.h"
#include "stacks/stored/frames.h"
#include "stacks/stored/stored_stacks.h"

/* Is the tier one of those of the path, which ';' separates? */
static bool
has_tier(const char *path, const char *tier)
{
	size_t n = strlen(tier);

	for (const char *p = path; p != NULL; p = strchr(p, ';')) {
		p += *p == ';';
		if (strncmp(p, tier, n) == 0 && (p[n] == ';' || p[n] == '\0'))
			return true;
	}
	return false;
}

/*
 * Keeps the rows of the tier, API_STACKS_MAX at most.  What the query left out stays
 * left out: which tiers it is of is not known.
 */
static void
keep_tier(struct stacks *report, const char *tier)
{
	struct kp_query_stacks *s = &report->stacks;
	size_t n = s->n;

	s->n = 0;
	s->samples = s->left_samples;
	s->not_seen = 0;
	report->other = 0;
	for (size_t i = 0; i < n; i++) {
		const struct kp_query_stack row = s->v[i];

		if (!has_tier(row.path, tier))
			continue;
		s->samples += row.samples;
		if (row.state == KP_STACK_NOT_SEEN)
			s->not_seen += row.samples;
		if (frames_other(row.frames))
			report->other += row.samples;
		if (s->n < API_STACKS_MAX) {
			s->v[s->n++] = row;
			continue;
		}
		s->left++;
		s->left_samples += row.samples;
		s->left_time = sat_add(s->left_time, row.w_time);
	}
}

static enum kp_err
find_tier(struct kp_query *q, const char *tier)
{
	struct kp_query_tiers tiers = { 0 };
	enum kp_err err = kp_query_tiers(q, &tiers);
	size_t i = 0;

	if (err != KP_OK)
		return err;
	while (i < tiers.n && strcmp(tiers.v[i], tier) != 0)
		i++;
	err = i < tiers.n ? KP_OK : KP_ENOENT;
	kp_query_tiers_free(&tiers);
	return err;
}

enum kp_err
api_stacks(struct kp_query *q, const struct web_params *p, struct kp_buf *b)
{
	enum kp_err err = p->tier != NULL ? find_tier(q, p->tier) : KP_OK;
	struct stacks *s;

	if (err == KP_OK)
		err = stacks_from_db(q, &p->range, p->tier != NULL ?
		    KP_QUERY_STACKS_MAX : API_STACKS_MAX, &s);
	if (err != KP_OK)
		return err;
	if (p->tier != NULL)
		keep_tier(s, p->tier);
	stacks_json(b, s);
	stacks_free(s);
	return KP_OK;
}
