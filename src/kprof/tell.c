/* tell.c - kprof flight, dump, pause, resume, reload: what the daemon answers. */
#include <string.h>

#include "kprof.h"
#include "report/text.h"

int
cmd_tell(const struct cmd *cmd, int argc, char **argv)
{
	/* Of the targets: others are about all of it. */
	bool some = strcmp(cmd->name, "pause") == 0 ||
	    strcmp(cmd->name, "resume") == 0;
	bool flight = strcmp(cmd->name, "flight") == 0, json = false;
	struct place p = { .db = DB_DEFAULT };
	const char *node = NULL;
	const struct opt opts[] = { OPT_DB(p), OPT_CONTROL(p), OPT_NODE(node),
		OPT_JSON(json) };
	char why[1024], line[512];
	struct kp_buf answer, clean;
	enum kp_err err;
	int st;

	st = opts_parse(cmd, opts, flight ? 4 : some ? 3 : 2, argc, argv,
	    NULL);
	if (st != OPTS_GO_ON)
		return st;
	if (!node_command(line, sizeof(line), json ? "flight json" :
	    cmd->name, node))
		return EXIT_USAGE;
	kp_buf_init(&answer, OUTPUT_MAX);
	err = ask(&p, line, &answer, why, sizeof(why));
	if (err != KP_OK) {
		say("%s", why);
		kp_buf_free(&answer);
		return EXIT_FAILED;
	}
	if (json)
		return show(&answer);
	kp_buf_init(&clean, OUTPUT_MAX);
	text_put_lines(&clean, (const char *)answer.p, answer.len);
	if (answer.len > 0 && answer.p[answer.len - 1] != '\n')
		kp_buf_u8(&clean, '\n');
	kp_buf_free(&answer);
	return show(&clean);
}
