/*
 * ctl_command.c - kprof flight, dump, pause, resume and reload: sends the
 * command, and prints the daemon's answer.
 */
#include <string.h>

#include "client.h"
#include "text/text.h"

/* One daemon; what it answers is added to *out. */
static int
tell(const struct place *p, const char *line, bool json, struct kp_buf *out)
{
	struct kp_buf answer;
	int st = EXIT_DONE;
	char why[1024];

	kp_buf_init(&answer, OUTPUT_MAX);
	if (ask(p, line, &answer, why, sizeof(why)) != KP_OK) {
		say("%s", why);
		st = EXIT_FAILED;
	} else if (json) {
		kp_buf_put(out, answer.p, answer.len);
	} else {
		text_put_lines(out, (const char *)answer.p, answer.len);
		if (answer.len > 0 && answer.p[answer.len - 1] != '\n')
			kp_buf_u8(out, '\n');
	}
	kp_buf_free(&answer);
	return st;
}

int
cmd_tell(const struct cmd *cmd, int argc, char **argv)
{
	/* Of the targets: others are about all of it. */
	bool some = strcmp(cmd->name, "pause") == 0 ||
	    strcmp(cmd->name, "resume") == 0;
	bool flight = strcmp(cmd->name, "flight") == 0, json = false;
	struct place p = { .control = NULL };
	const char *node = NULL;
	const struct opt opts[] = { OPT_DB_EACH(p), OPT_CONTROL(p),
		OPT_NODE(node), OPT_JSON(json) };
	struct kp_buf out;
	struct place one;
	char line[512];
	int st, failed = EXIT_DONE;

	st = opts_parse(cmd, opts, flight ? 4 : some ? 3 : 2, argc, argv,
	    NULL);
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &p);
	if (st != OPTS_GO_ON)
		return st;
	if (!node_command(line, sizeof(line), json ? "flight json" :
	    cmd->name, node))
		return EXIT_USAGE;
	kp_buf_init(&out, OUTPUT_MAX);
	for (size_t i = 0; i < place_dbs(&p).n; i++) {
		one = place_at(&p, i);
		if (tell(&one, line, json, &out) != EXIT_DONE)
			failed = EXIT_FAILED;
	}
	st = show(&out);
	return failed != EXIT_DONE ? failed : st;
}
