/*
 * ctl_command.c - kprof flight, dump, pause, resume and reload: sends the
 * command, and prints the daemon's answer.
 */
#include <stdio.h>
#include <string.h>

#include "client.h"

int
cmd_ctl(const struct cmd *cmd, int argc, char **argv)
{
	/* only these can be limited to some of the targets */
	bool some = strcmp(cmd->name, "pause") == 0 ||
	    strcmp(cmd->name, "resume") == 0;
	bool flight = strcmp(cmd->name, "flight") == 0, json = false,
	    stacks = false;
	struct place p = { .control = NULL }, one;
	const char *node = NULL;
	const struct opt opts[] = { OPT_DB_EACH(p), OPT_CONTROL(p),
		OPT_NODE(node), OPT_JSON(json), { "stacks", NULL, "show the "
		"stacks of the processes that they are in", opt_flag, &stacks,
		NULL } };
	int st, failed = EXIT_DONE;
	char command[40], line[CTL_LINE_MAX], why[1024];
	struct kp_buf out;

	st = opts_parse(cmd, opts, flight ? 5 : some ? 3 : 2, argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &p);
	if (st != OPTS_GO_ON)
		return st;
	snprintf(command, sizeof(command), "%s%s%s", cmd->name,
	    json ? " json" : "", stacks ? " stacks" : "");
	if (!daemon_line(line, command, node))
		return EXIT_USAGE;
	kp_buf_init(&out, OUTPUT_MAX);
	for (size_t i = 0; i < place_dbs(&p).n; i++) {
		one = place_at(&p, i);
		if (daemon_put(&one, line, json, &out, why, sizeof(why)) ==
		    KP_OK)
			continue;
		say("%s", why);
		failed = EXIT_FAILED;
	}
	st = show(&out);
	return failed != EXIT_DONE ? failed : st;
}
