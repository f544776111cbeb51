/* tell.c - kprof dump, pause, resume, reload: the daemon does it and answers. */
#include <string.h>

#include "kprof.h"
#include "report/text.h"

int
cmd_tell(const struct cmd *cmd, int argc, char **argv)
{
	struct place p = { .db = DB_DEFAULT };
	const struct opt opts[] = { OPT_DB(p), OPT_CONTROL(p) };
	struct kp_buf answer, clean;
	char why[1024];
	enum kp_err err;
	int st;

	st = opts_parse(cmd, opts, 2, argc, argv, NULL);
	if (st != OPTS_GO_ON)
		return st;
	kp_buf_init(&answer, OUTPUT_MAX);
	err = ask(&p, cmd->name, &answer, why, sizeof(why));
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
