/* common.c - messages, output, databases and options of the commands. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client.h"
#include "kprofd/nodes.h"
#include "report/report.h"
#include "text/text.h"
#include "text/timefmt.h"

#define MESSAGE_MAX 65536u

/* cmd: whose options are wrong; NULL: of no command. */
static void
vsay(const char *cmd, const char *fmt, va_list ap)
{
	char text[1024];
	struct kp_buf b;

	vsnprintf(text, sizeof(text), fmt, ap);
	kp_buf_init(&b, MESSAGE_MAX);
	text_put_lines(&b, text, strlen(text));
	if (cmd == NULL)
		fprintf(stderr, "kprof: %s\n", kp_buf_cstr(&b));
	else
		fprintf(stderr, "kprof %s: %s (see kprof %s -h)\n", cmd,
		    kp_buf_cstr(&b), cmd);
	kp_buf_free(&b);
}

void
say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(NULL, fmt, ap);
	va_end(ap);
}

struct kp_query_files
place_dbs(const struct place *p)
{
	static const char *otherwise[1];
	const char *env = getenv("KPROF_DB");

	otherwise[0] = env != NULL && env[0] != '\0' ? env : DB_DEFAULT;
	if (p->dbs.n == 0)
		return (struct kp_query_files){ otherwise, 1 };
	return (struct kp_query_files){ p->dbs.v, p->dbs.n };
}

struct place
place_at(const struct place *p, size_t i)
{
	return (struct place){ .dbs = { { place_dbs(p).v[i] }, 1 },
		.control = p->control };
}

int
place_check(const struct cmd *cmd, const struct place *p)
{
	if (p->dbs.n > 1 && p->control != NULL)
		return opts_wrong(cmd, "-control is one daemon's socket: give "
		    "one -db with it, or none");
	return OPTS_GO_ON;
}

const char *
place_name(char *buf, size_t n, const struct place *p)
{
	struct kp_query_files dbs = place_dbs(p);

	if (dbs.n == 1)
		snprintf(buf, n, "%s", dbs.v[0]);
	else
		snprintf(buf, n, "%s and %zu more", dbs.v[0], dbs.n - 1);
	return buf;
}

enum kp_err
open_db(struct kp_query **q, const struct place *p)
{
	struct kp_query_files dbs = place_dbs(p);
	char *why;
	enum kp_err err = kp_query_open_all(q, &dbs, &why);

	if (err != KP_OK) {
		say("%s", why != NULL ? why : kp_err_str(err));
		free(why);
	}
	return err;
}

int
query_failed(const struct kp_query *q, enum kp_err err)
{
	const char *why = kp_query_why(q);

	say("%s", why[0] != '\0' ? why : kp_err_str(err));
	return EXIT_FAILED;
}

int
show(struct kp_buf *b)
{
	int st = EXIT_FAILED;

	if (b->err != KP_OK)
		say("cannot make the output: %s", b->err == KP_ELIMIT ?
		    "it is too large (see -since, -identity)" :
		    kp_err_str(b->err));
	else if (b->len > 1 && b->p[0] == 0x1f && isatty(STDOUT_FILENO))
		say("this form is not for a terminal: give >FILE");
	else if ((b->len > 0 && fwrite(b->p, 1, b->len, stdout) != b->len) ||
	    fflush(stdout) != 0)
		say("cannot write the output: %s", strerror(errno));
	else
		st = EXIT_DONE;
	kp_buf_free(b);
	return st;
}

int
query_show(const struct kp_query *q, enum kp_err err, struct kp_buf *b)
{
	if (err == KP_OK)
		return show(b);
	kp_buf_free(b);
	return query_failed(q, err);
}

/* ---- options ---- */

int
opts_wrong(const struct cmd *cmd, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsay(cmd->name, fmt, ap);
	va_end(ap);
	return EXIT_USAGE;
}

bool
opt_since(struct opt_parser *p)
{
	struct kp_query_range *r = p->at->to;

	if (!timefmt_parse(p->value, p->now, INT64_MIN, &r->since))
		return OPT_BAD(p, "-since '%s': give " TIMEFMT_FORMS, p->value);
	return p->until == NULL || timefmt_parse(p->until, p->now, r->since, &r->until);
}

bool
opt_until(struct opt_parser *p)
{
	struct kp_query_range *r = p->at->to;

	p->until = p->value;
	return timefmt_parse(p->value, p->now, r->since, &r->until) ||
	    OPT_BAD(p, "-until '%s': give " TIMEFMT_FORMS, p->value);
}

bool
opt_range(struct opt_parser *p)
{
	const char *why = timefmt_parse_range(p->value, p->now, p->at->to);

	return why == NULL ||
	    OPT_BAD(p, "-%s '%s': %s", p->at->name, p->value, why);
}

bool
opt_took(struct opt_parser *p)
{
	const char *why = report_parse_took(p->value, p->at->to);

	return why == NULL || OPT_BAD(p, "-took '%s': %s", p->value, why);
}

/* Reports have a node's own name, which has no port. */
bool
opt_node_glob(struct opt_parser *p)
{
	struct kp_node_at at;

	if (p->value[0] == '\0')
		return OPT_BAD(p, "-%s: the %s is empty", p->at->name,
		    p->at->arg);
	if (strlen(p->value) > KP_NODE_NAME_MAX ||
	    strpbrk(p->value, " \t\n") != NULL)
		return OPT_BAD(p, "-%s '%s' can match no node: it has a blank "
		    "in it, or more than %d bytes", p->at->name, p->value,
		    KP_NODE_NAME_MAX);
	return opt_join(p, ' ', strpbrk(p->value, "*?") == NULL &&
	    kp_node_split(p->value, strlen(p->value), &at) == NULL ? at.node :
	    p->value);
}

static void
help(const struct cmd *cmd, struct opt_parser *p)
{
	const struct opt last = { .name = "h", .help = "this help" };
	char line[512];
	size_t n;

	printf("usage: kprof %s%s%s [options]\n\n%c%s.\n", cmd->name,
	    cmd->arg != NULL ? " " : "", cmd->arg != NULL ? cmd->arg : "",
	    toupper((unsigned char)cmd->help[0]), cmd->help + 1);
	/* each line of the text is a paragraph */
	for (const char *s = cmd->more; *s != '\0'; s += n + (s[n] == '\n')) {
		n = strcspn(s, "\n");
		snprintf(line, sizeof(line), "%.*s", (int)n, s);
		text_wrap(&p->why, line, OPT_HELP_WIDTH, 0);
	}
	kp_buf_u8(&p->why, '\n');
	opt_help(&p->why, p->table, p->n);
	opt_help(&p->why, &last, 1);
	printf("%s\nexample: %s\n", kp_buf_cstr(&p->why), cmd->example);
}

static int
parse(const struct cmd *cmd, struct opt_parser *p, int argc, char **argv,
    const char **arg)
{
	struct opt several = { .to = NULL };
	const char *found = NULL;
	bool ended = false;

	for (size_t i = 0; i < p->n; i++)
		if (p->table[i].name[0] == '\0' &&
		    p->table[i].convert != NULL)
			several = p->table[i];
	several.arg = cmd->arg;
	for (int i = 1; i < argc; i++) {
		if (!ended && strcmp(argv[i], "--") == 0) {
			ended = true;
			continue;
		}
		if (!ended && argv[i][0] == '-' && argv[i][1] != '\0') {
			if (opt_is(argv[i], "h") || opt_is(argv[i], "help")) {
				help(cmd, p);
				return EXIT_DONE;
			}
			/* which moves i on past its value */
			if (!opt_take(p, argv, &i))
				return opts_wrong(cmd, "%s",
				    kp_buf_cstr(&p->why));
			if (p->why.len > 0)
				say("%s", kp_buf_cstr(&p->why));
			kp_buf_reset(&p->why);
			continue;
		}
		if (cmd->arg == NULL || (found != NULL && several.to == NULL)) {
			opt_unexpected(p, argv[i]);
			return opts_wrong(cmd, "%s", kp_buf_cstr(&p->why));
		}
		p->at = &several;
		p->value = found = argv[i];
		if (several.to != NULL && !several.convert(p))
			return opts_wrong(cmd, "%s", kp_buf_cstr(&p->why));
	}
	if (cmd->arg != NULL && found == NULL)
		return opts_wrong(cmd, "the %s is missing", cmd->arg);
	if (cmd->arg != NULL && several.to == NULL)
		*arg = found;
	return OPTS_GO_ON;
}

int
opts_parse(const struct cmd *cmd, const struct opt *opts, size_t n, int argc,
    char **argv, const char **arg)
{
	/* now: the same for all, so that ranges given by length abut */
	struct opt_parser p = { .table = opts, .n = n, .near = NEAR_RULE,
		.now = kp_wall_now() };
	int st;

	kp_buf_init(&p.why, OPT_WHY_MAX);
	st = parse(cmd, &p, argc, argv, arg);
	kp_buf_free(&p.why);
	return st;
}

int
opts_parse_range(const struct cmd *cmd, const struct opt *opts, size_t n,
    int argc, char **argv, const struct kp_query_range *r)
{
	int st = opts_parse(cmd, opts, n, argc, argv, NULL);

	return st == OPTS_GO_ON && r->since >= r->until ?
	    opts_wrong(cmd, "-since is not before -until") : st;
}
