/* opt_node.c - checks options that name a node, and tells which nodes there are. */
#include <string.h>

#include "conn/reach/epmd.h"
#include "conn/reach/opt_node.h"
#include "kprofd/nodes.h"

#define HERE_LIMIT (KP_NS_PER_S)	/* for the epmd of this machine */

/* What is not a name at all may be meant as one; a bad port needs no list. */
bool
opt_is_node(struct opt_parser *p)
{
	struct addresses here;
	char hint[EPMD_HINT_MAX] = "";
	struct kp_node_at at;
	const char *why = kp_node_split(p->value, strlen(p->value), &at);

	if (why == NULL)
		return true;
	if (strcmp(why, KP_NODE_WRONG) != 0)
		return OPT_BAD(p, "-%s '%s': %s", p->at->name, p->value, why);
	if (addresses_find(&here, "127.0.0.1") == 0)
		epmd_hint(hint, sizeof(hint), p->value, NULL, &here,
		    epmd_default_port(), kp_mono_now() + HERE_LIMIT);
	return OPT_BAD(p, "-%s '%s': %s: %s", p->at->name, p->value, why,
	    hint[0] != '\0' ? hint : "no epmd answers here");
}

bool
opt_node(struct opt_parser *p)
{
	return opt_text(p) && opt_is_node(p);
}

bool
opt_node_list(struct opt_parser *p)
{
	return opt_is_node(p) && opt_list(p);
}
