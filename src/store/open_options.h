/*
 * open_options.h - copies the options of kp_store_open(), so that the store can
 * open the next file if one was moved away.  Private to src/store.
 */
#ifndef KPROFD_STORE_OPEN_OPTIONS_H
#define KPROFD_STORE_OPEN_OPTIONS_H

#include "store.h"

struct opts {
	struct kp_store_opts o;	/* points to the strings and conf below */
	struct kp_conf conf;	/* has only the tiers' names */
	char *path, *version, *tiers_text;
};

/* After KP_ENOMEM there is nothing to free. */
enum kp_err opts_copy(struct opts *to, const struct kp_store_opts *from);
/* Replaces the configuration; out of memory, keeps the old one. */
void opts_conf(struct opts *o, const struct kp_conf *conf, const char *text);
void opts_free(struct opts *o);

#endif
