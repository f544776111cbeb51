/* stacks.c - kprof report -stacks: the functions of each tier. */
#include <string.h>

#include "base/near_names.h"
#include "stacks.h"
#include "stacks/stored/stored_stacks.h"

#define ROWS 3

enum { FORM_TREE, FORM_FOLDED, FORM_SPEEDSCOPE };

int
stacks_check(const struct cmd *cmd, const struct stacks_args *a, bool stacks,
    bool json)
{
	bool given = a->form >= 0 || a->tier != NULL ||
	    a->rows != STACKS_ROWS_UNSET;

	if (!stacks && given)
		return opts_wrong(cmd, "-form, -tier and -n go with -stacks");
	if (json && given)
		return opts_wrong(cmd, "-json has all stacks: it goes without "
		    "-form, -tier and -n");
	if (a->form > FORM_TREE && (a->tier != NULL ||
	    a->rows != STACKS_ROWS_UNSET))
		return opts_wrong(cmd, "-form folded and speedscope have all "
		    "stacks: they go without -tier and -n");
	return OPTS_GO_ON;
}

static enum kp_err
write_form(const struct stacks_args *a, const struct stacks *s,
    struct kp_buf *b)
{
	const struct stacks_opts o = { .tier = a->tier,
		.rows = a->rows == STACKS_ROWS_UNSET ? ROWS : a->rows,
		.width = screen_width() };

	if (a->form == FORM_FOLDED)
		return stacks_folded(b, s);
	if (a->form == FORM_SPEEDSCOPE)
		return stacks_speedscope(b, s);
	return stacks_table(b, s, &o);
}

/* Is it one of the database's, or of those that no tiers.conf has, "_after"? */
static int
check_tier(const struct cmd *cmd, struct kp_query *q, const char *tier)
{
	struct kp_query_tiers tiers = { 0 };
	const char *near;
	int st = OPTS_GO_ON;
	size_t i = 0;

	if (tier == NULL || tier[0] == '_')
		return st;
	if (kp_query_tiers(q, &tiers) != KP_OK) {
		say("%s", kp_query_why(q));
		return EXIT_FAILED;
	}
	while (i < tiers.n && strcmp(tiers.v[i], tier) != 0)
		i++;
	near = near_name(tier, tiers.v, tiers.n, sizeof(*tiers.v), NEAR_RULE);
	if (i == tiers.n && near != NULL)
		st = opts_wrong(cmd, "-tier '%s': no such tier: did you mean "
		    "'%s'?", tier, near);
	else if (i == tiers.n)
		st = opts_wrong(cmd, "-tier '%s': no such tier; kprof report "
		    "shows them", tier);
	kp_query_tiers_free(&tiers);
	return st;
}

/* Programs get their format in any case, people on stderr why it is empty. */
int
stacks_show(const struct cmd *cmd, const struct stacks_args *a,
    const struct place *place, const struct kp_query_range *range, bool json)
{
	struct stacks *s = NULL;
	struct kp_query *q;
	struct kp_buf b;
	enum kp_err err;
	int st;

	if (open_db(&q, place) != KP_OK)
		return EXIT_FAILED;
	st = check_tier(cmd, q, a->tier);
	if (st != OPTS_GO_ON) {
		kp_query_close(q);
		return st;
	}
	kp_buf_init(&b, OUTPUT_MAX);
	err = stacks_from_db(q, range, KP_QUERY_STACKS_MAX, &s);
	if (err == KP_OK && json)
		stacks_json(&b, s);
	else if (err == KP_OK)
		err = write_form(a, s, &b);
	if (err == KP_OK && s->why != NULL && (json || a->form > FORM_TREE))
		say("%s", s->why);
	st = query_show(q, err, &b);
	stacks_free(s);
	kp_query_close(q);
	return st;
}
