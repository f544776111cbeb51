/* tell.c - kprof dump, pause, resume, reload: the daemon does it and answers. */
#include <string.h>

#include "kprof.h"
#include "report/text.h"

int
cmd_tell(const struct cmd *cmd, int argc, char **argv)
{
	/* Of the targets: others are about all of it. */
	bool some = strcmp(cmd->name, "pause") == 0 ||
	    strcmp(cmd->name, "resume") == 0;
	struct place p = { .db = DB_DEFAULT };
	const char *node = NULL;
	const struct opt opts[] = { OPT_DB(p), OPT_CONTROL(p), OPT_NODE(node) };
	char why[1024], line[512];
	struct kp_buf answer, clean;
	enum kp_err err;
	int st;

	st = opts_parse(cmd, opts, some ? 3 : 2, argc, argv, NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (!node_command(line, sizeof(line), cmd->name, node))
		return EXIT_USAGE;
	kp_buf_init(&answer, OUTPUT_MAX);
	err = ask(&p, line, &answer, why, sizeof(why));
	if (err != KP_OK) {
		say("%s", why);
		kp_buf_free(&answer);
		return EXIT_FAILED;
	}
	kp_buf_init(&clean, OUTPUT_MAX);
	text_put_lines(&clean, (const char *)answer.p, answer.len);
	if (answer.len > 0 && answer.p[answer.len - 1] != '\n')
		kp_buf_u8(&clean, '\n');
	kp_buf_free(&answer);
	return show(&clean);
}
