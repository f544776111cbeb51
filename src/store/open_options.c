/*
 * open_options.c - copies the options with their texts and the names of the
 * tiers, and exchanges the copy when tiers.conf is reloaded.
 */
#include <stdlib.h>
#include <string.h>

#include "open_options.h"

static bool
copy_tiers(struct kp_conf *to, const struct kp_conf *from)
{
	char *name;

	to->tiers = calloc(from->ntiers + 1, sizeof(*to->tiers));
	if (to->tiers == NULL)
		return false;
	for (size_t i = 0; i < from->ntiers; i++) {
		name = strdup(from->tiers[i].name);
		if (name == NULL)
			return false;
		to->tiers[to->ntiers++].name = name;
	}
	return true;
}

enum kp_err
opts_copy(struct opts *to, const struct kp_store_opts *from)
{
	*to = (struct opts){ .o = *from, .path = strdup(from->path),
		.version = strdup(from->version),
		.tiers_text = strdup(from->tiers_text) };
	to->o.path = to->path;
	to->o.version = to->version;
	to->o.tiers_text = to->tiers_text;
	if (to->path != NULL && to->version != NULL &&
	    to->tiers_text != NULL &&
	    (from->conf == NULL || copy_tiers(&to->conf, from->conf))) {
		to->o.conf = from->conf != NULL ? &to->conf : NULL;
		return KP_OK;
	}
	opts_free(to);
	return KP_ENOMEM;
}

void
opts_conf(struct opts *o, const struct kp_conf *conf, const char *text)
{
	struct kp_store_opts from = o->o;
	struct opts now;

	from.conf = conf;
	from.tiers_text = text;
	if (opts_copy(&now, &from) != KP_OK)
		return;
	opts_free(o);
	*o = now;
	o->o.conf = &o->conf;
}

void
opts_free(struct opts *o)
{
	for (size_t i = 0; i < o->conf.ntiers; i++)
		free((char *)o->conf.tiers[i].name);
	free(o->conf.tiers);
	free(o->path);
	free(o->version);
	free(o->tiers_text);
	*o = (struct opts){ 0 };
}
