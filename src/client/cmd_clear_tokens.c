/*
 * cmd_clear_tokens.c - kprof clear-tokens: takes every sequential trace token on
 * a node away, through the daemon or, with -target, without one.
 */
#include <stdio.h>

#include "client.h"
#include "target/once.h"

static int
clear_on(const char *target, const char *name, const char *cookie_file)
{
	char why[1024] = "";

	if (target_clear_tokens(target, name, cookie_file, why,
	    sizeof(why)) != KP_OK) {
		say("%s", why);
		return EXIT_FAILED;
	}
	printf("tokens cleared on %s\n", target);
	return EXIT_DONE;
}

int
cmd_clear_tokens(const struct cmd *cmd, int argc, char **argv)
{
	const char *target = NULL, *name = NULL, *cookie_file = NULL;
	const char *node = NULL;
	struct place p = { .control = NULL };
	const struct opt opts[] = {
		OPT_DB_ONE(p),
		OPT_CONTROL(p),
		OPT_NODE(node),
		{ "target", "NODE", "do it right on this node, without a "
		    "daemon", OPT_TEXT, &target, NULL },
		{ "name", "NAME", "with -target: our node name", OPT_TEXT,
		    &name, NULL },
		{ "cookie-file", "FILE", "with -target: where the cookie is",
		    OPT_TEXT, &cookie_file, NULL },
	};
	struct kp_buf answer;
	char why[1024], line[512];
	int st;

	st = opts_parse(cmd, opts, sizeof(opts) / sizeof(opts[0]), argc, argv,
	    NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (target != NULL && node != NULL)
		return opts_wrong(cmd, "-node goes with a daemon, -target "
		    "without one: choose one");
	if (target != NULL)
		return clear_on(target, name, cookie_file);
	if (name != NULL || cookie_file != NULL)
		return opts_wrong(cmd, "-%s goes with -target NODE",
		    name != NULL ? "name" : "cookie-file");
	if (!node_command(line, sizeof(line), cmd->name, node))
		return EXIT_USAGE;
	if (p.dbs.n > 1)
		return opts_wrong(cmd, "give one -db: one daemon is asked");
	kp_buf_init(&answer, OUTPUT_MAX);
	if (ask(&p, line, &answer, why, sizeof(why)) == KP_OK)
		return show(&answer);
	say("%s; -target NODE does it without a daemon", why);
	kp_buf_free(&answer);
	return EXIT_FAILED;
}
