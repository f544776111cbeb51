/* profile_limit.c - puts into words what a profile was limited to. */
#include "profile.h"
#include "text/text.h"

#define ENTRIES 5	/* that are named; the rest are others */

void
profile_limit_put(struct kp_buf *b, const struct profile_limit *l)
{
	kp_buf_str(b, "only in requests that ");
	if (l->attached)
		kp_buf_str(b, "a kprofd marks");
	for (size_t i = 0; i < l->nentries && i < ENTRIES; i++) {
		kp_buf_str(b, i > 0 ? " or " : "");
		text_put(b, l->entries[i]);
	}
	if (l->nentries > ENTRIES)
		kp_buf_printf(b, " or %zu others", l->nentries - ENTRIES);
	kp_buf_str(b, l->attached ? "" : l->nentries > 1 ? " begin" :
	    " begins");
	if (l->identity != NULL) {
		kp_buf_str(b, ", of type '");
		text_put(b, l->identity);
		kp_buf_u8(b, '\'');
	}
	if (l->tier != NULL) {
		kp_buf_str(b, ", while in a call of the tier '");
		text_put(b, l->tier);
		kp_buf_u8(b, '\'');
	}
}
