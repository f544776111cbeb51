/* tell.c - kprof dump, pause, resume, reload: the daemon does it and answers. */
#include <string.h>

#include "kprof.h"
#include "report/text.h"

/* One daemon; what it answers is added to `clean`. */
static int
tell(const struct place *p, const char *line, struct kp_buf *clean)
{
	struct kp_buf answer;
	int st = EXIT_DONE;
	char why[1024];

	kp_buf_init(&answer, OUTPUT_MAX);
	if (ask(p, line, &answer, why, sizeof(why)) != KP_OK) {
		say("%s", why);
		st = EXIT_FAILED;
	} else {
		text_put_lines(clean, (const char *)answer.p, answer.len);
		if (answer.len > 0 && answer.p[answer.len - 1] != '\n')
			kp_buf_u8(clean, '\n');
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
	struct place p = { .control = NULL };
	const char *node = NULL;
	const struct opt opts[] = { OPT_DB_EACH(p), OPT_CONTROL(p),
		OPT_NODE(node) };
	struct kp_buf clean;
	struct place one;
	char line[512];
	int st, failed = EXIT_DONE;

	st = opts_parse(cmd, opts, some ? 3 : 2, argc, argv, NULL);
	if (st == OPTS_GO_ON)
		st = place_check(cmd, &p);
	if (st != OPTS_GO_ON)
		return st;
	if (!node_command(line, sizeof(line), cmd->name, node))
		return EXIT_USAGE;
	kp_buf_init(&clean, OUTPUT_MAX);
	for (size_t i = 0; i < place_dbs(&p).n; i++) {
		one = place_at(&p, i);
		if (tell(&one, line, &clean) != EXIT_DONE)
			failed = EXIT_FAILED;
	}
	st = show(&clean);
	return failed != EXIT_DONE ? failed : st;
}
