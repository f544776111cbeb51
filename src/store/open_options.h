/*
 * open_options.h - a copy of the options that the store was opened with, by
 * which it opens the next file when one was moved away.  Private to src/store.
 */
#ifndef KPROFD_STORE_OPEN_OPTIONS_H
#define KPROFD_STORE_OPEN_OPTIONS_H

#include "store.h"

struct opts {
	struct kp_store_opts o;	/* its strings and conf are those below */
	struct kp_conf conf;	/* nothing but tiers' names */
	char *path, *version, *tiers_text;
};

/* KP_ENOMEM: there is nothing to free. */
enum kp_err opts_copy(struct opts *to, const struct kp_store_opts *from);
/* Replaces the configuration; without memory it stays as it was. */
void opts_conf(struct opts *o, const struct kp_conf *conf, const char *text);
void opts_free(struct opts *o);

#endif
